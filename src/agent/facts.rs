//! `/remember` and `/memory`: the facts about a person, or of a group, without a model.

mod edited_file;

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use self::edited_file::FactsFileCommand;
use crate::bus::journal::WaitingMessage;
use crate::memory::facts::{
    self, FACT_CHARS_MAX, Fact, FactId, FactKind, FactOrigin, FactStatus, KeepOutcome, NewFact,
};
use crate::memory::{self, audience, recall};
use crate::people::Role;
use crate::replies::{self, FactShown, FactStanding};
use crate::services::{Services, role_of};
use crate::short_text::one_line;
use crate::store::StoreError;
use crate::turn::services::TurnServices;
use crate::turn::{self, commits};
use crate::types::commands::CommandId;
use crate::types::message::{AllowedPressers, Body, ChatKind, Choice, Question};
use crate::types::source::Source;
use crate::workspace::{Audience, FileScope};

/// Facts that are shown at once.
const SHOWN_MAX: usize = 40;

/// Facts that are offered at once, with a button each.
const OFFERED_SHOWN_MAX: usize = 5;

/// A fact to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RememberCommand {
    New {
        kind: FactKind,
        text: String,
    },
    /// A fact that was noticed in untrusted content.
    Offered(FactId),
}

impl RememberCommand {
    /// Parses `[KIND:] TEXT`, or `#FACT`. None if there is no text.
    pub(super) fn parse(argument: &str) -> Option<Self> {
        let argument = one_line(argument);
        if let Some(number) = argument.strip_prefix('#').and_then(|number| number.parse().ok()) {
            return Some(Self::Offered(FactId(number)));
        }
        let kind =
            argument.split_once(':').and_then(|(kind, rest)| Some((FactKind::parse(kind)?, rest)));
        let (kind, text) = kind.unwrap_or((FactKind::default(), &argument));
        let text = text.trim();
        (!text.is_empty()).then(|| Self::New { kind, text: text.to_owned() })
    }

    /// Returns the length of a new fact, in characters.
    fn length(&self) -> usize {
        match self {
            Self::New { text, .. } => text.chars().count(),
            Self::Offered(_) => 0,
        }
    }
}

/// Answers `/remember`: keeps a fact word for word.
pub(super) async fn remember(
    turns: &TurnServices,
    control: &WaitingMessage,
    order: Option<RememberCommand>,
) -> Result<(), StoreError> {
    let services = &turns.services;
    let inbound = &control.inbound;
    let role = role_of(services, &inbound.from, control.sender()).await?;
    let length = order.as_ref().map_or(0, RememberCommand::length);
    let refusal = match &order {
        _ if !CommandId::Remember.spec().allows(role, inbound.chat_kind) => {
            Some(replies::REMEMBER_IN_GROUPS.to_owned())
        }
        None => Some(replies::REMEMBER_USAGE.to_owned()),
        Some(_) if length > FACT_CHARS_MAX => Some(replies::fact_too_long(length, FACT_CHARS_MAX)),
        Some(_) => None,
    };
    let (None, Some(order)) = (&refusal, order) else {
        return commits::reply(&services.bus.store, control, refusal.unwrap_or_default()).await;
    };
    let (kind, text) = match order {
        RememberCommand::New { kind, text } => (kind, text),
        RememberCommand::Offered(fact) => return keep_offered(turns, control, fact).await,
    };
    let (at, chat_kind, who) =
        (inbound.from.clone(), inbound.chat_kind, control.sender().id.clone());
    let source = source_of(control);
    // A message of another bot or of a program is not the person's own statement.
    let sources = match inbound.body.sources.as_slice() {
        [] => vec![source],
        spans => spans.iter().map(|span| span.0.clone()).collect(),
    };
    let active_max = turns.config.memory.facts_max;
    let kept = commits::apply_command(&services.bus.store, control, move |store| {
        let keys = recall::conversation_keys(store, &at, chat_kind, &who)?;
        let new = NewFact { kind, text, origin: FactOrigin::Told, sources };
        Ok(match facts::keep(store, &keys, &new, active_max, Utc::now())? {
            KeepOutcome::New(id) => replies::fact_saved(id.0, &new.text),
            KeepOutcome::Known(id) => replies::fact_already_known(id.0),
            KeepOutcome::Full => replies::FACTS_FULL.to_owned(),
        })
    });
    kept.await?;
    refresh_file(services, control).await
}

/// Returns the source of a command's text: its person, or a button.
fn source_of(control: &WaitingMessage) -> Source {
    let (channel, id) = (control.inbound.from.channel.clone(), control.sender().id.clone());
    match control.inbound.body.press {
        Some(_) => Source::Button { channel, id },
        None => Source::Person { channel, id },
    }
}

/// Writes the person's FACTS.md. Does nothing in a group.
async fn refresh_file(services: &Services, control: &WaitingMessage) -> Result<(), StoreError> {
    let inbound = &control.inbound;
    if inbound.chat_kind == ChatKind::Group {
        return Ok(());
    }
    let role = role_of(services, &inbound.from, control.sender()).await?;
    turn::facts::refresh_file_of(services, &inbound.from, control.sender(), role).await
}

/// Keeps a fact that was noticed in untrusted content, because its person confirms it.
async fn keep_offered(
    turns: &TurnServices,
    control: &WaitingMessage,
    fact: FactId,
) -> Result<(), StoreError> {
    let inbound = &control.inbound;
    let (at, chat_kind, who) =
        (inbound.from.clone(), inbound.chat_kind, control.sender().id.clone());
    let is_own_word = inbound.body.is_own_text();
    let active_max = turns.config.memory.facts_max;
    let kept = commits::apply_command(&turns.services.bus.store, control, move |store| {
        let keys = recall::conversation_keys(store, &at, chat_kind, &who)?;
        let known = facts::list(store, &keys)?;
        let found = known.into_iter().find(|it| it.id == fact);
        let Some(found) = found.filter(|_| is_own_word) else {
            return Ok(replies::no_such_fact(fact.0));
        };
        if found.status != FactStatus::Offered {
            return Ok(replies::fact_already_known(fact.0));
        }
        facts::accept(store, fact, Utc::now())?;
        facts::expire(store, &keys, active_max, Utc::now())?;
        Ok(replies::fact_saved(fact.0, &found.text))
    });
    kept.await?;
    refresh_file(&turns.services, control).await
}

/// Answers `/memory`.
pub(super) async fn show(
    turns: &TurnServices,
    control: &WaitingMessage,
    word: Option<String>,
) -> Result<(), StoreError> {
    let services = &turns.services;
    let store = &services.bus.store;
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let order = word.as_deref().and_then(FactsFileCommand::parse);
    if let Some(order) = order
        && control.inbound.chat_kind == ChatKind::Private
        && role != Role::Guest
    {
        return edited_file::handle(turns, control, role, order).await;
    }
    let (text, offered) = read_shown_facts(services, control, word).await?;
    // A person who may not keep facts is shown none that wait.
    let may_keep = CommandId::Remember.spec().allows(role, control.inbound.chat_kind);
    if offered.is_empty() || !may_keep {
        return commits::reply(store, control, text).await;
    }
    let shown = offered.iter().take(OFFERED_SHOWN_MAX).map(|fact| (fact.id.0, fact.text.as_str()));
    let shown: Vec<_> = shown.collect();
    let choices = shown.iter().map(|(number, _)| Choice {
        label: replies::keep_fact(*number),
        says: CommandId::Remember.line(format_args!("#{number}")),
    });
    let question = Question::new(
        replies::facts_offered(&shown, offered.len() - shown.len()),
        choices.collect(),
        AllowedPressers::Only(control.sender().id.clone()),
    );
    let bodies = vec![Body::Text(text), Body::Choice(question)];
    commits::reply_with_bodies(store, control, bodies).await
}

/// Returns the text of `/memory`, and the facts that wait for the person.
async fn read_shown_facts(
    services: &Services,
    control: &WaitingMessage,
    word: Option<String>,
) -> Result<(String, Vec<Fact>), StoreError> {
    let inbound = &control.inbound;
    let (at, chat_kind, who) =
        (inbound.from.clone(), inbound.chat_kind, control.sender().id.clone());
    let query = move |store: &Connection| {
        let keys = recall::conversation_keys(store, &at, chat_kind, &who)?;
        facts::list(store, &keys)
    };
    let known = services.bus.store.read(query).await?;
    let (offered, mut known): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|fact| fact.status == FactStatus::Offered);
    let wanted = word.as_ref().map(|word| word.to_lowercase());
    known.retain(|fact| wanted.as_ref().is_none_or(|it| fact.text.to_lowercase().contains(it)));
    let text = match (&word, chat_kind) {
        (Some(word), _) if known.is_empty() => replies::no_facts_with(word),
        (None, ChatKind::Private) if known.is_empty() => replies::NO_FACTS.to_owned(),
        (None, ChatKind::Group) if known.is_empty() => replies::NO_GROUP_FACTS.to_owned(),
        (Some(_) | None, _) => list_text(services, known, control),
    };
    let role = role_of(services, &inbound.from, control.sender()).await?;
    if word.is_some() || audience(role, chat_kind) != Audience::Owner {
        return Ok((text, offered));
    }
    let memory = services.workspace.run_blocking(|it| memory::memory(it, &FileScope::Owner)).await;
    let lines = memory.lines().filter(|line| !line.trim().is_empty()).count();
    Ok((format!("{text}\n{}", replies::memory_files(lines)), offered))
}

/// Returns the list of facts by kind, the newest of each kind first.
fn list_text(services: &Services, mut known: Vec<Fact>, control: &WaitingMessage) -> String {
    known.sort_by(|one, other| (one.kind, other.id).cmp(&(other.kind, one.id)));
    let more = known.len().saturating_sub(SHOWN_MAX);
    let shown = known.iter().take(SHOWN_MAX).map(|fact| fact_shown(services, fact, control));
    replies::facts(&shown.collect::<Vec<_>>(), more)
}

/// Returns a fact as its person is shown it.
pub(super) fn fact_shown<'a>(
    services: &Services,
    fact: &'a Fact,
    control: &WaitingMessage,
) -> FactShown<'a> {
    FactShown {
        number: fact.id.0,
        kind: fact.kind.as_str(),
        text: &fact.text,
        source: source_text(fact, control),
        day: day_of(services, fact.made),
        standing: match (fact.status, fact.ended) {
            (FactStatus::Active, _) => FactStanding::InPrompt,
            (FactStatus::Offered, _) => FactStanding::Offered,
            (_, Some(ended)) => FactStanding::Until(day_of(services, ended)),
            (_, None) => FactStanding::Found,
        },
    }
}

pub(super) fn day_of(services: &Services, at: DateTime<Utc>) -> String {
    at.with_timezone(&services.zone).format("%Y-%m-%d").to_string()
}

/// Describes where a fact comes from, as far as the person who asks may know.
fn source_text(fact: &Fact, control: &WaitingMessage) -> String {
    let is_private = control.inbound.chat_kind == ChatKind::Private;
    let is_own = |source: &Source| match source {
        // In private all accounts are the person's own.
        Source::Person { id, .. } | Source::Button { id, .. } => {
            is_private || *id == control.sender().id
        }
        _ => false,
    };
    let text = match fact.origin {
        FactOrigin::Told if fact.sources.iter().all(is_own) => replies::SOURCE_YOU,
        FactOrigin::Told => replies::SOURCE_OTHERS,
        FactOrigin::Noticed => replies::SOURCE_NOTICED,
        FactOrigin::Offered | FactOrigin::Kept => replies::SOURCE_KEPT,
    };
    text.to_owned()
}
