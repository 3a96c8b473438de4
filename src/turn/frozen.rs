//! The part of a prompt that a conversation freezes when it begins: memory, notes and facts of its person; and what
//! changed in them since the model was last told. Not the words around it (`prompt.rs`), and not the files themselves
//! (`memory`).

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::notices;
use crate::conversation::shares::{Shares, is_compact};
use crate::conversation::tokens;
use crate::memory::facts::{self, Fact, FactStatus};
use crate::memory::recall;
use crate::memory::{self, audience};
use crate::people::Role;
use crate::replies;
use crate::services::Services;
use crate::tools::Caller;
use crate::turn::error::TurnError;
use crate::turn::facts::{is_trusted, refresh_file_of};
use crate::turn::instructions;
use crate::turn::services::TurnServices;
use crate::turn::snapshot::{self, Upcoming};
use crate::types::message::{Address, ChatKind, Sender, SenderId};
use crate::types::persona::PersonaMemory;
use crate::types::session::{FrozenContext, FrozenFacts, Session};
use crate::types::source::{Parts, Source};
use crate::workspace::{Audience, FileScope};

/// Days of notes that a new session begins with.
pub(crate) const NOTE_DAYS: u64 = 3;

/// The part of the memory's share of a context window that facts may take.
const SHARE_PARTS: u64 = 4;

/// Facts as they stand in a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PromptFacts {
    /// One a line.
    text: String,
    ids: Vec<i64>,
    /// With what the conversation begins.
    snapshot: Option<Parts>,
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

/// Returns the frozen part of a conversation's prompt, and what changed in the memory and the facts since the model was
/// last told.
pub(crate) async fn frozen_memory(
    turns: &TurnServices,
    session: &mut Session,
    sender: &Sender,
    role: Role,
    known: &KnownFacts,
) -> Result<(FrozenContext, Vec<Parts>), TurnError> {
    let services = &turns.services;
    let caller = Caller::Conversation(turns.finish_of(session));
    let shares = instructions::shares(turns, session, role, caller);
    let (before, recalls) = (session.frozen.take(), recalls(session, role));
    let (mut frozen, changes) = remembered(services, before, recalls.as_ref(), &shares).await;
    if recalls == Some(FileScope::Owner) {
        tell_if_cut(turns, session, &frozen, &shares).await?;
    }
    let is_new = frozen.facts.is_none();
    if let (true, Some(_), Some(at)) = (is_new, &recalls, session.origin.chat()) {
        refresh_file_of(services, at, sender, role).await?;
    }
    let window = turns.models.for_session(session).context_window();
    let begins = recalls.is_some() && !frozen.has_snapshot && !is_compact(window);
    let share = FactsShare { tokens_max: shares.memory, begins };
    let mut now = active_facts(known, session, role, services.now(), share);
    let snapshot = now.snapshot.take();
    frozen.has_snapshot |= begins;
    let changes = changes.into_iter().chain(freeze_facts(&mut frozen, now));
    let changes = changes.map(|it| Parts::of(Source::Memory, it));
    Ok((frozen, snapshot.into_iter().chain(changes).collect()))
}

/// Tells the owner once that their memory is too long for a model, if it was cut.
async fn tell_if_cut(
    turns: &TurnServices,
    session: &Session,
    frozen: &FrozenContext,
    shares: &Shares,
) -> Result<(), TurnError> {
    let whole = tokens::tokens(&frozen.told_memory);
    if whole <= shares.memory {
        return Ok(());
    }
    let provider = turns.models.for_session(session);
    let words = replies::memory_too_long(provider.name(), whole, shares.memory);
    notices::tell_owner(&turns.services.bus, format!("memory {}", provider.name()), words).await?;
    Ok(())
}

/// The frozen part of the prompt, made now for a new session or a smaller window, and what changed since the model
/// was last told.
pub(crate) async fn remembered(
    services: &Services,
    frozen: Option<FrozenContext>,
    recalls: Option<&FileScope>,
    shares: &Shares,
) -> (FrozenContext, Vec<String>) {
    let Some(scope) = recalls.cloned() else {
        return (frozen.unwrap_or_default(), Vec::new());
    };
    let of = frozen_key(&scope);
    let today = services.now().date_naive();
    let (name, memory, notes) = services
        .workspace
        .off_thread(move |workspace| {
            let name = memory::memory_path(workspace, &scope);
            let memory = memory::memory(workspace, &scope);
            (name, memory, memory::recent_notes(workspace, &scope, today, NOTE_DAYS))
        })
        .await;
    let fits = |it: &FrozenContext| {
        it.of == of
            && tokens::tokens(&it.memory) <= shares.memory
            && tokens::tokens(&it.notes) <= shares.notes
    };
    let Some(mut frozen) = frozen.filter(fits) else {
        let frozen = FrozenContext {
            of: of.clone(),
            memory: memory::fit(&memory, shares.memory, name.as_str()),
            notes: memory::fit_end(&notes, shares.notes, "your notes"),
            told_memory: memory,
            told_notes: notes,
            told_time: None,
            facts: None,
            has_snapshot: false,
        };
        return (frozen, Vec::new());
    };
    let told = |what: &str, before: &str, now: &str| {
        memory::changes(before, now).map(|change| format!("{what} changed:\n{change}"))
    };
    // Notes leave with their day, and are not removed by anybody: only what is new is told.
    let still: Vec<_> = frozen.told_notes.lines().filter(|line| has_line(&notes, line)).collect();
    let changes = [
        told("Your memory", &frozen.told_memory, &memory),
        told("Your notes", &still.join("\n"), &notes),
    ];
    (frozen.told_memory, frozen.told_notes) = (memory, notes);
    (frozen, changes.into_iter().flatten().collect())
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|other| other == line)
}

/// Returns the files of the person whose memory a session's prompts have: in private, if the person is no guest and
/// the persona recalls persons.
pub(crate) fn recalls(session: &Session, role: Role) -> Option<FileScope> {
    match (session.persona.memory, session.chat_kind, role) {
        (PersonaMemory::Place | PersonaMemory::None, _, _)
        | (PersonaMemory::Person, ChatKind::Group, _)
        | (PersonaMemory::Person, ChatKind::Private, Role::Guest) => None,
        (PersonaMemory::Person, ChatKind::Private, Role::Owner) => Some(FileScope::Owner),
        (PersonaMemory::Person, ChatKind::Private, Role::User | Role::Admin) => {
            session.owner.as_ref().map(FileScope::of_person)
        }
    }
}

/// Tells whose memory was frozen.
pub(crate) fn frozen_key(scope: &FileScope) -> String {
    scope.root().map(|root| root.to_string()).unwrap_or_default()
}

/// The share of the context window for facts.
#[derive(Clone, Copy)]
struct FactsShare {
    tokens_max: u64,
    /// The conversation begins, with a snapshot.
    begins: bool,
}

/// Returns the active facts for a session within their share, and if the conversation begins, its snapshot. Those
/// that are not trusted for their reader are left out.
fn active_facts(
    known: &KnownFacts,
    session: &Session,
    role: Role,
    now: DateTime<Tz>,
    FactsShare { tokens_max, begins }: FactsShare,
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

/// Freezes the facts in a prompt that is made anew, or returns what changed in them since the model was last told.
fn freeze_facts(frozen: &mut FrozenContext, now: PromptFacts) -> Option<String> {
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
pub(crate) fn renewed_facts(before: Option<&FrozenContext>) -> Option<FrozenFacts> {
    let FrozenFacts { told, told_ids, .. } = before?.facts.clone()?;
    Some(FrozenFacts { text: told.clone(), ids: told_ids.clone(), told, told_ids })
}
