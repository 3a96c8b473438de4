//! Facts in a prompt: those of the person or group of a conversation, frozen with the rest of its memory, and what
//! changed in them since; and FACTS.md, which shows them as a file.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::conversation::tokens;
use crate::memory::facts::{self, Fact, FactStatus};
use crate::memory::recall::{self, RecallKey};
use crate::memory::{self, audience, facts_file, file_scope};
use crate::people::Role;
use crate::people::folders::folder_owner;
use crate::replies::{self, FactInFile};
use crate::services::Services;
use crate::store::StoreError;
use crate::trust::taint;
use crate::turn::snapshot::{self, Upcoming};
use crate::types::message::{Address, ChatKind, Sender, SenderId};
use crate::types::persona::PersonaMemory;
use crate::types::session::{FrozenContext, FrozenFacts, Session};
use crate::types::source::Parts;
use crate::workspace::{Audience, FileError, FileScope, Workspace};

/// The part of the memory's share of a context window that facts may take.
const SHARE_PARTS: u64 = 4;

/// Attempts to write FACTS.md while facts change.
const WRITES_MAX: usize = 4;

/// Facts as they stand in a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptFacts {
    /// One a line.
    text: String,
    ids: Vec<i64>,
    /// With what the conversation begins.
    pub(crate) snapshot: Option<Parts>,
}

/// The facts of the person or group of a conversation, and what it may begin with.
#[derive(Default)]
pub(crate) struct KnownFacts {
    facts: Vec<Fact>,
    upcoming: Option<Upcoming>,
}

impl KnownFacts {
    /// Reads them: of the person in private, of the group elsewhere; and if a conversation begins `now`, what is upcoming
    /// for its person.
    pub(crate) fn read(
        store: &Connection,
        at: &Address,
        chat_kind: ChatKind,
        who: &SenderId,
        now: Option<DateTime<Utc>>,
    ) -> rusqlite::Result<Self> {
        let keys = recall::keys_of_talks(store, at, chat_kind, who)?;
        let upcoming = now.map(|now| snapshot::upcoming(store, at, who, now)).transpose()?;
        Ok(Self { facts: facts::of(store, &keys)?, upcoming })
    }
}

/// Returns the active facts for a session, at most so many tokens, and if the conversation begins, its snapshot. Those
/// that are not trusted for their reader are left out.
pub(crate) fn active(
    known: &KnownFacts,
    session: &Session,
    role: Role,
    now: DateTime<Tz>,
    (tokens_max, begins): (u64, bool),
) -> PromptFacts {
    if session.origin.chat().is_none() || session.persona.memory != PersonaMemory::Person {
        return PromptFacts::default();
    }
    let audience = audience(role, session.chat_kind);
    let upcoming = known.upcoming.as_ref().filter(|_| begins);
    let snapshot = upcoming.and_then(|it| snapshot::text(it, &known.facts, audience, now));
    let shown = known.facts.iter().filter(|fact| is_shown(fact, audience));
    let mut facts = PromptFacts { snapshot, ..PromptFacts::default() };
    let mut left = tokens_max / SHARE_PARTS;
    for fact in shown {
        let line = format!("- {} (#{})", fact.text, fact.id.0);
        let Some(rest) = left.checked_sub(tokens::tokens(&line)) else { break };
        left = rest;
        let _ = writeln!(facts.text, "{line}");
        facts.ids.push(fact.id.0);
    }
    facts
}

fn is_shown(fact: &Fact, audience: Audience) -> bool {
    fact.status == FactStatus::Active && is_trusted(fact, audience)
}

fn is_trusted(fact: &Fact, audience: Audience) -> bool {
    let sources = fact.deciding_sources();
    !sources.iter().any(|source| taint::is_untrusted(source, audience))
}

/// Writes the FACTS.md of somebody who speaks in private, if their facts have changed.
pub(crate) async fn refresh_file_of(
    services: &Services,
    at: &Address,
    sender: &Sender,
    role: Role,
) -> Result<(), StoreError> {
    if role == Role::Guest {
        return Ok(());
    }
    let (chat_kind, from, who) = (ChatKind::Private, at.clone(), sender.id.clone());
    let look = move |store: &Connection| {
        let owner = folder_owner(store, &from.channel, &who)?;
        Ok((recall::keys_of_talks(store, &from, chat_kind, &who)?, owner))
    };
    let (keys, owner) = services.bus.store.read(look).await?;
    refresh_file(services, &file_scope(role, chat_kind, at, &owner), &keys).await
}

/// Writes the FACTS.md of a person, if their facts have changed. Untrusted facts stay out: the file lies in the
/// workspace, and is trusted. One that somebody has changed waits for its person. A file that cannot be written is
/// logged.
pub(crate) async fn refresh_file(
    services: &Services,
    scope: &FileScope,
    keys: &[RecallKey],
) -> Result<(), StoreError> {
    write_file(services, scope, keys, EditedFile::Keep).await
}

/// The treatment of a FACTS.md that somebody has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditedFile {
    Keep,
    Replace,
}

/// Writes the FACTS.md of a person.
pub(crate) async fn write_file(
    services: &Services,
    scope: &FileScope,
    keys: &[RecallKey],
    edited: EditedFile,
) -> Result<(), StoreError> {
    // Facts may change while the file is written, so it is compared with them once more.
    for _ in 0..WRITES_MAX {
        let (of, keys) = (scope.clone(), keys.to_vec());
        let before = services.workspace.off_thread(move |it| facts_file::read(it, &of)).await;
        let known = services.bus.store.read(move |store| facts::of(store, &keys)).await?;
        let known = shown_in_file(known, scope.audience());
        let is_edited = |text: &String| !facts_file::edits(text, &known).is_empty();
        if edited == EditedFile::Keep
            && before.as_ref().is_ok_and(|it| it.as_ref().is_some_and(is_edited))
        {
            return Ok(());
        }
        let text = file_text(services, &known);
        let written = match before {
            Ok(None) if text.is_none() => return Ok(()),
            Ok(before) => {
                let text =
                    text.unwrap_or_else(|| facts_file::marked(&replies::facts_file(&[]), &[]));
                if before.as_ref() == Some(&text) {
                    return Ok(());
                }
                let of = scope.clone();
                let replace =
                    move |it: &Workspace| facts_file::replace(it, &of, before.as_deref(), text);
                services.workspace.off_thread(replace).await
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(()) | Err(FileError::Changed(_)) => {}
            Err(error) => {
                tracing::warn!(%error, "Cannot write FACTS.md");
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the facts that FACTS.md shows: those that hold and are trusted, by kind.
pub(crate) fn shown_in_file(mut known: Vec<Fact>, audience: Audience) -> Vec<Fact> {
    known.retain(|fact| fact.holds() && is_trusted(fact, audience));
    known.sort_by_key(|fact| (fact.kind, fact.id));
    known
}

/// The text of FACTS.md; none without facts.
fn file_text(services: &Services, known: &[Fact]) -> Option<String> {
    let shown = known.iter().map(|fact| FactInFile {
        number: fact.id.0,
        kind: fact.kind.as_str(),
        text: &fact.text,
        day: fact.made.with_timezone(&services.zone).format("%Y-%m-%d").to_string(),
    });
    let shown: Vec<_> = shown.collect();
    let ids: Vec<_> = known.iter().map(|fact| fact.id).collect();
    (!shown.is_empty()).then(|| facts_file::marked(&replies::facts_file(&shown), &ids))
}

/// Freezes the facts in a prompt that is made anew, or returns what changed in them since the model was last told.
pub(crate) fn freeze(frozen: &mut FrozenContext, now: PromptFacts) -> Option<String> {
    let PromptFacts { text: now, ids, .. } = now;
    let Some(facts) = &mut frozen.facts else {
        frozen.facts =
            Some(FrozenFacts { text: now.clone(), ids: ids.clone(), told: now, told_ids: ids });
        return None;
    };
    let change = memory::changes(&facts.told, &now)?;
    (facts.told, facts.told_ids) = (now, ids);
    Some(format!("Facts changed:\n{change}"))
}

/// The facts for a prompt that is made anew within a turn: those that the model was told last.
pub(crate) fn renewed(before: Option<&FrozenContext>) -> Option<FrozenFacts> {
    let FrozenFacts { told, told_ids, .. } = before?.facts.clone()?;
    Some(FrozenFacts { text: told.clone(), ids: told_ids.clone(), told, told_ids })
}
