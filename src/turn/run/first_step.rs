//! The first step of a turn: its messages, and the context that the model is shown with them. The context is the plan,
//! the earlier lines of a group, and passages of automatic recall. Recall uses only trusted sources of the person,
//! within a token budget, and only if a rare word of the message matches. Nothing is committed here.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use chrono::{Days, Utc};
use futures_util::FutureExt;
use tokio::time::timeout;

use crate::bus::journal::WaitingMessage;
use crate::conversation::history::SeenTurns;
use crate::conversation::{shares, tokens};
use crate::memory::facts::{FactId, FactStatus};
use crate::memory::recall::words::{self, Term};
use crate::memory::{file_scope, is_memory};
use crate::people::Role;
use crate::services::Services;
use crate::store::StoreError;
use crate::tools::ToolReader;
use crate::tools::recall::find::{FoundPassage, PassageLocation, RecallReader, RecallRequest};
use crate::tools::recall::{find, format_passage};
use crate::turn::frozen::NOTE_DAYS;
use crate::turn::prompt::{self, InvokedSkills, PromptTail, files};
use crate::turn::quoted;
use crate::turn::services::TurnServices;
use crate::types::message::{Address, Cause, ChatKind, Inbound, OverheardLine};
use crate::types::origin::Origin;
use crate::types::persona::PersonaMemory;
use crate::types::session::{FrozenContext, Plan, Session, Step};
use crate::types::source::{Source, SourcedText};
use crate::workspace::WorkspacePath;

/// Maximum number of earlier messages that a new thread begins with.
const SEED_MAX: usize = 20;

/// Maximum time to read them from the platform.
const SEED_TIME_MAX: Duration = Duration::from_secs(5);

/// Maximum number of recalled passages.
const RECALLED_MAX: usize = 5;

/// Maximum length of the recalled passages, in tokens.
const TOKENS_MAX: u64 = 400;

/// Minimum part of the message's term weight that a passage must match.
const SHARE_MIN: f64 = 0.34;

/// The name of the memory file, which is already in the prompt.
const MEMORY_FILE: &str = "MEMORY.md";

/// Maximum length of the text that is searched for terms, in characters.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// The content of the first step, without the context that is looked up here.
pub(super) struct FirstStepContent<'a> {
    pub(super) role: Role,
    /// The messages; never empty.
    pub(super) rows: &'a [WaitingMessage],
    pub(super) invoked: &'a InvokedSkills,
    /// Changes of the memory and the facts that the model does not know yet.
    pub(super) changes: Vec<SourcedText>,
    /// The open plan of the conversation.
    pub(super) plan: Option<Plan>,
}

/// The first step of a turn.
pub(super) struct FirstStep {
    pub(super) step: Step,
    /// Facts that are related to its messages.
    pub(super) facts: Vec<FactId>,
    /// Number of overheard lines that are shown in it.
    pub(super) overheard: usize,
}

/// The recalled passages for messages.
#[derive(Default)]
struct Recalled {
    /// The text for the end of the prompt. None if nothing is recalled.
    text: Option<SourcedText>,
    /// Facts that are related to the messages.
    facts: Vec<FactId>,
}

/// Returns the first step. If it shows the time, the frozen memory gets that time.
pub(super) async fn first_step(
    turns: &TurnServices,
    session: &Session,
    content: FirstStepContent<'_>,
    frozen: &mut FrozenContext,
) -> Result<FirstStep, StoreError> {
    let FirstStepContent { role, rows, invoked, mut changes, plan } = content;
    let first = &rows.first().expect("a turn begins with a message").inbound;
    changes.extend(plan.as_ref().map(plan_text));
    let recalled = recall(turns, session, role, rows).await;
    changes.extend(recalled.text);
    let (background, overheard) = background(&turns.services, session, first).await;
    let shown = quoted::with_sources(&turns.services, rows, role).await?;
    let now = turns.services.now();
    let is_time_due = prompt::is_time_due(frozen.told_time, now.to_utc());
    if is_time_due {
        frozen.told_time = Some(now.to_utc());
    }
    let input = prompt::tail(&PromptTail {
        now,
        is_time_due,
        role,
        chat_kind: first.chat_kind,
        rows: &shown,
        invoked,
        background: &background,
        changes,
    });
    let step = Step { input: Some(input), images: files::images(rows), ..Step::default() };
    Ok(FirstStep { step, facts: recalled.facts, overheard })
}

/// Returns the open plan of the conversation, for the model.
fn plan_text(plan: &Plan) -> SourcedText {
    SourcedText::of(plan.source(), format!("Your plan, which you keep with `plan`:\n{plan}"))
}

/// Returns the recalled passages for messages. A failed search returns none, and the turn goes on.
async fn recall(
    turns: &TurnServices,
    session: &Session,
    role: Role,
    rows: &[WaitingMessage],
) -> Recalled {
    search(turns, session, role, rows).await.unwrap_or_default()
}

async fn search(
    turns: &TurnServices,
    session: &Session,
    role: Role,
    rows: &[WaitingMessage],
) -> Option<Recalled> {
    let services = &turns.services;
    let at = session.origin.chat().filter(|_| session.chat_kind == ChatKind::Private)?;
    let window = turns.models.for_session(session).context_window();
    let is_person = |row: &WaitingMessage| matches!(row.inbound.cause, Cause::Person(_));
    if session.persona.memory != PersonaMemory::Person {
        return None;
    }
    if !turns.config.memory.recall || shares::is_compact(window) || !rows.iter().all(is_person) {
        return None;
    }
    let who = rows.first()?.sender().clone();
    let text_searched: Vec<_> = rows.iter().map(|row| row.inbound.body.text.as_str()).collect();
    let text_searched: String = text_searched.join("\n").chars().take(MESSAGE_CHARS_MAX).collect();
    let terms = words::significant_terms(&text_searched);
    if terms.is_empty() {
        return None;
    }
    let scope = file_scope(role, session.chat_kind, at, session.owner.as_ref()?);
    let files = ToolReader::of(scope);
    let reader = RecallReader { at: at.clone(), chat_kind: session.chat_kind, who, files };
    let limit = RECALLED_MAX * 2;
    let seen = Some(SeenTurns { session: session.id, begins: session.begins });
    let request = RecallRequest {
        terms: terms.clone(),
        scope: None,
        since: None,
        limit,
        needs_rare: true,
        seen,
        common: turns.common_terms.clone(),
    };
    let found = find::find(&services.bus.store, &services.workspace, &reader, &request).await;
    let found = found.inspect_err(|error| tracing::debug!(%error, "Recalled nothing")).ok()?;
    let matching = |found: &&FoundPassage| found.hit.is_rare && found.hit.share >= SHARE_MIN;
    let matching: Vec<_> = found.passages.iter().filter(matching).collect();
    let facts = matching.iter().filter_map(|found| match found.place {
        PassageLocation::Fact(id, _) => Some(id),
        PassageLocation::File(_) | PassageLocation::Talk { .. } => None,
    });
    let facts = facts.collect();
    let shown = matching.into_iter().filter(|it| !is_seen(it) && says_more(it, &terms));
    let (mut text, mut count) = (SourcedText::default(), 0);
    let mut tokens_left = TOKENS_MAX;
    for passage in shown.take(RECALLED_MAX) {
        let passage_text = format_passage(passage, &terms, services.zone);
        let Some(rest) = tokens_left.checked_sub(tokens::tokens(&passage_text)) else { break };
        tokens_left = rest;
        let heading =
            if count == 0 { "From before, found by words of this message:\n" } else { "\n" };
        text.push_program(heading);
        let source = match (&passage.place, passage.sources.first()) {
            (PassageLocation::File(_), Some(source)) => source.clone(),
            (PassageLocation::Fact(..), _) => Source::Memory,
            (PassageLocation::File(_) | PassageLocation::Talk { .. }, _) => {
                Source::Past { in_group: false }
            }
        };
        text.push(source, passage_text);
        count += 1;
    }
    if count > 0 && found.untrusted > 0 {
        text.push_program(format!(
            "\n{} more in untrusted content: memory_search with scope untrusted.",
            found.untrusted
        ));
    }
    Some(Recalled { text: (count > 0).then_some(text), facts })
}

/// Returns the lines of a group before its message to the bot, and how many of them were overheard there. A thread that
/// is new to the bot begins with the platform's history, or else with overheard lines of the chat around it.
async fn background(
    services: &Services,
    session: &Session,
    first: &Inbound,
) -> (Vec<OverheardLine>, usize) {
    let (ChatKind::Group, Origin::Chat(at)) = (session.chat_kind, &session.origin) else {
        return (Vec::new(), 0);
    };
    let overheard = &services.bus.overheard;
    let lines = overheard.lines(at);
    if !session.turns.is_empty() || at.thread.is_none() || !lines.is_empty() {
        let count = lines.len();
        return (lines, count);
    }
    let Some(channel) = services.channels.get(&at.channel) else { return (lines, 0) };
    let history = channel.history(at, first.id.as_ref(), SEED_MAX);
    let history = AssertUnwindSafe(timeout(SEED_TIME_MAX, history)).catch_unwind().await;
    let seed = match history {
        Ok(Ok(Ok(history))) if !history.is_empty() => history,
        _ => {
            let around = overheard.lines(&Address { thread: None, ..at.clone() });
            around[around.len().saturating_sub(SEED_MAX)..].to_vec()
        }
    };
    (seed, 0)
}

/// Returns true if a passage has terms that the message does not have.
fn says_more(found: &FoundPassage, terms: &[Term]) -> bool {
    words::significant_terms(&found.hit.text).iter().any(|term| !terms.contains(term))
}

/// Returns true if the prompt has a passage anyway: in its facts, its memory or its recent notes.
fn is_seen(found: &FoundPassage) -> bool {
    match &found.place {
        PassageLocation::Fact(_, status) => *status == FactStatus::Active,
        PassageLocation::Talk { .. } => false,
        PassageLocation::File(path) => path.parse().is_ok_and(|path: WorkspacePath| {
            let is_recent = found.hit.at.checked_add_days(Days::new(NOTE_DAYS)) > Some(Utc::now());
            path.name() == MEMORY_FILE || (is_memory(&path) && is_recent)
        }),
    }
}
