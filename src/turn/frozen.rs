//! The part of a prompt that a conversation freezes when it begins: memory, notes and facts of its person, and the
//! later changes to report to the model. Not the text around it (`prompt.rs`), and not the files themselves (`memory`).

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::notices;
use crate::conversation::shares::{ContextShares, is_compact};
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
use crate::types::source::{Source, SourcedText};
use crate::workspace::{Audience, FileScope};

/// Number of days whose notes a new session begins with.
pub(crate) const NOTE_DAYS: u64 = 3;

/// Facts may use one part in this many of the memory's share of the context window.
const SHARE_PARTS: u64 = 4;

/// The facts of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PromptFacts {
    /// One fact a line.
    text: String,
    ids: Vec<i64>,
    /// The snapshot at the beginning of the conversation.
    snapshot: Option<SourcedText>,
}

/// The facts of the person or group of a conversation, and the data of its snapshot.
#[derive(Default)]
pub(crate) struct KnownFacts {
    facts: Vec<Fact>,
    upcoming: Option<Upcoming>,
}

impl KnownFacts {
    /// Reads the facts of the person in private, or of the group. If a conversation begins `now`, also reads the
    /// upcoming items of its person.
    pub(crate) fn read(
        store: &Connection,
        at: &Address,
        chat_kind: ChatKind,
        who: &SenderId,
        now: Option<DateTime<Utc>>,
    ) -> rusqlite::Result<Self> {
        let keys = recall::conversation_keys(store, at, chat_kind, who)?;
        let upcoming = now.map(|now| snapshot::upcoming(store, at, who, now)).transpose()?;
        Ok(Self { facts: facts::list(store, &keys)?, upcoming })
    }
}

/// Returns the frozen part of a conversation's prompt, and the changes of memory and facts that the model does not know
/// yet.
pub(crate) async fn frozen_memory(
    turns: &TurnServices,
    session: &mut Session,
    sender: &Sender,
    role: Role,
    known: &KnownFacts,
) -> Result<(FrozenContext, Vec<SourcedText>), TurnError> {
    let services = &turns.services;
    let caller = Caller::Conversation(turns.finish_of(session));
    let shares = instructions::shares(turns, session, role, caller);
    let (before, recalls) = (session.frozen.take(), recalls(session, role));
    let (mut frozen, changes) = remembered(services, before, recalls.as_ref(), &shares).await;
    if recalls == Some(FileScope::Owner) {
        notify_if_cut(turns, session, &frozen, &shares).await?;
    }
    let is_new = frozen.facts.is_none();
    if let (true, Some(_), Some(at)) = (is_new, &recalls, session.origin.chat()) {
        refresh_file_of(services, at, sender, role).await?;
    }
    let window = turns.models.for_session(session).context_window();
    let begins = recalls.is_some() && !frozen.has_snapshot && !is_compact(window);
    let share = FactsShare { tokens_max: shares.memory, begins };
    let mut active = active_facts(known, session, role, services.now(), share);
    let snapshot = active.snapshot.take();
    frozen.has_snapshot |= begins;
    let changes = changes.into_iter().chain(freeze_facts(&mut frozen, active));
    let changes = changes.map(|it| SourcedText::of(Source::Memory, it));
    Ok((frozen, snapshot.into_iter().chain(changes).collect()))
}

/// Notifies the owner once if their memory was cut because it is too long for a model.
async fn notify_if_cut(
    turns: &TurnServices,
    session: &Session,
    frozen: &FrozenContext,
    shares: &ContextShares,
) -> Result<(), TurnError> {
    let memory_tokens = tokens::tokens(&frozen.told_memory);
    if memory_tokens <= shares.memory {
        return Ok(());
    }
    let provider = turns.models.for_session(session);
    let message = replies::memory_too_long(provider.name(), memory_tokens, shares.memory);
    notices::notify_owner(&turns.services.bus, format!("memory {}", provider.name()), message)
        .await?;
    Ok(())
}

/// Returns the frozen part of the prompt, made anew for a new session or a smaller window, and the changes that the
/// model does not know yet.
pub(crate) async fn remembered(
    services: &Services,
    frozen: Option<FrozenContext>,
    recalls: Option<&FileScope>,
    shares: &ContextShares,
) -> (FrozenContext, Vec<String>) {
    let Some(scope) = recalls.cloned() else {
        return (frozen.unwrap_or_default(), Vec::new());
    };
    let key = frozen_key(&scope);
    let today = services.now().date_naive();
    let (name, memory, notes) = services
        .workspace
        .run_blocking(move |workspace| {
            let name = memory::memory_path(workspace, &scope);
            let memory = memory::memory(workspace, &scope);
            (name, memory, memory::recent_notes(workspace, &scope, today, NOTE_DAYS))
        })
        .await;
    let fits = |it: &FrozenContext| {
        it.of == key
            && tokens::tokens(&it.memory) <= shares.memory
            && tokens::tokens(&it.notes) <= shares.notes
    };
    let Some(mut frozen) = frozen.filter(fits) else {
        let frozen = FrozenContext {
            of: key.clone(),
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
    let change_text = |what: &str, before: &str, now: &str| {
        memory::changes(before, now).map(|change| format!("{what} changed:\n{change}"))
    };
    // Notes expire with their day, which is not a change, so only new lines are reported.
    let remaining: Vec<_> =
        frozen.told_notes.lines().filter(|line| has_line(&notes, line)).collect();
    let changes = [
        change_text("Your memory", &frozen.told_memory, &memory),
        change_text("Your notes", &remaining.join("\n"), &notes),
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

/// Returns the key that identifies whose memory was frozen.
pub(crate) fn frozen_key(scope: &FileScope) -> String {
    scope.root().map(|root| root.to_string()).unwrap_or_default()
}

/// The share of the context window for facts.
#[derive(Clone, Copy)]
struct FactsShare {
    tokens_max: u64,
    /// True if the conversation begins, with a snapshot.
    begins: bool,
}

/// Returns the active facts for a session within their share, and the snapshot if the conversation begins. Untrusted
/// facts are left out.
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
    let mut tokens_left = tokens_max / SHARE_PARTS;
    for fact in shown {
        let line = format!("- {} (#{})", fact.text, fact.id.0);
        let Some(rest) = tokens_left.checked_sub(tokens::tokens(&line)) else { break };
        tokens_left = rest;
        let _ = writeln!(facts.text, "{line}");
        facts.ids.push(fact.id.0);
    }
    facts
}

fn is_shown(fact: &Fact, audience: Audience) -> bool {
    fact.status == FactStatus::Active && is_trusted(fact, audience)
}

/// Freezes the facts of a new prompt. For an existing one, returns the changes that the model does not know yet.
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

/// Returns the facts for a prompt that is made anew within a turn: the state that the model knows.
pub(crate) fn renewed_facts(before: Option<&FrozenContext>) -> Option<FrozenFacts> {
    let FrozenFacts { told, told_ids, .. } = before?.facts.clone()?;
    Some(FrozenFacts { text: told.clone(), ids: told_ids.clone(), told, told_ids })
}
