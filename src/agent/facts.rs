//! `/remember` and `/memory`: the facts about a person, or of a group, without a model.

use chrono::Utc;
use rusqlite::Connection;

use crate::bus::journal::WaitingMessage;
use crate::memory::facts::{self, FACT_CHARS_MAX, Fact, FactKind, FactStatus, Kept, NewFact};
use crate::memory::{self, audience, recall};
use crate::replies;
use crate::services::{Services, role_of};
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::services::TurnServices;
use crate::types::commands::CommandId;
use crate::types::message::ChatKind;
use crate::types::source::Source;
use crate::workspace::{Audience, FileScope};

/// Facts that are shown at once.
const SHOWN_MAX: usize = 40;

/// A fact to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FactOrder {
    kind: FactKind,
    text: String,
}

impl FactOrder {
    /// Parses `[KIND:] TEXT`. None if there is no text.
    pub(super) fn parse(said: &str) -> Option<Self> {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let kind =
            said.split_once(':').and_then(|(kind, rest)| Some((FactKind::parse(kind)?, rest)));
        let (kind, text) = kind.unwrap_or((FactKind::default(), &said));
        let text = text.trim();
        (!text.is_empty()).then(|| Self { kind, text: text.to_owned() })
    }
}

/// Keeps a fact, word for word.
pub(super) async fn remember(
    turns: &TurnServices,
    control: &WaitingMessage,
    order: Option<FactOrder>,
) -> Result<(), StoreError> {
    let services = &turns.services;
    let inbound = &control.inbound;
    let role = role_of(services, &inbound.from, control.sender()).await?;
    let length = order.as_ref().map_or(0, |order| order.text.chars().count());
    let refused = match &order {
        _ if !CommandId::Remember.spec().allows(role, inbound.place) => {
            Some(replies::REMEMBER_IN_GROUPS.to_owned())
        }
        None => Some(replies::REMEMBER_USAGE.to_owned()),
        Some(_) if length > FACT_CHARS_MAX => Some(replies::fact_too_long(length, FACT_CHARS_MAX)),
        Some(_) => None,
    };
    let (None, Some(FactOrder { kind, text })) = (&refused, order) else {
        return commits::handled(&services.bus.store, control, refused.unwrap_or_default()).await;
    };
    let (at, place, who) = (inbound.from.clone(), inbound.place, control.sender().id.clone());
    let source = match inbound.body.press {
        Some(_) => Source::Button { channel: at.channel.clone(), id: who.clone() },
        None => Source::Person { channel: at.channel.clone(), id: who.clone() },
    };
    // What came from another bot, or by a program, is not the person's word.
    let sources = match inbound.body.sources.as_slice() {
        [] => vec![source],
        spans => spans.iter().map(|span| span.0.clone()).collect(),
    };
    let active_max = turns.config.memory.facts_max;
    commits::handled_with(&services.bus.store, control, move |store| {
        let keys = recall::keys_of_talks(store, &at, place, &who)?;
        let new = NewFact { kind, text, sources };
        Ok(match facts::keep(store, &keys, &new, active_max, Utc::now())? {
            Kept::New(id) => replies::fact_kept(id.0, &new.text),
            Kept::Known(id) => replies::fact_known(id.0),
            Kept::Full => replies::FACTS_FULL.to_owned(),
        })
    })
    .await
}

/// Returns the text of `/memory`.
pub(super) async fn shown(
    services: &Services,
    control: &WaitingMessage,
    word: Option<String>,
) -> Result<String, StoreError> {
    let inbound = &control.inbound;
    let (at, place, who) = (inbound.from.clone(), inbound.place, control.sender().id.clone());
    let look = move |store: &Connection| {
        let keys = recall::keys_of_talks(store, &at, place, &who)?;
        facts::of(store, &keys)
    };
    let mut known = services.bus.store.read(look).await?;
    let wanted = word.as_ref().map(|word| word.to_lowercase());
    known.retain(|fact| wanted.as_ref().is_none_or(|it| fact.text.to_lowercase().contains(it)));
    let words = match (&word, place) {
        (Some(word), _) if known.is_empty() => replies::no_facts_with(word),
        (None, ChatKind::Private) if known.is_empty() => replies::NO_FACTS.to_owned(),
        (None, ChatKind::Group) if known.is_empty() => replies::NO_GROUP_FACTS.to_owned(),
        (Some(_) | None, _) => listed(services, known, control),
    };
    let role = role_of(services, &inbound.from, control.sender()).await?;
    if word.is_some() || audience(role, place) != Audience::Owner {
        return Ok(words);
    }
    let memory = services.workspace.off_thread(|it| memory::memory(it, &FileScope::Owner)).await;
    let lines = memory.lines().filter(|line| !line.trim().is_empty()).count();
    Ok(format!("{words}\n{}", replies::memory_files(lines)))
}

/// The facts by kind, the newest of each first.
fn listed(services: &Services, mut known: Vec<Fact>, control: &WaitingMessage) -> String {
    known.sort_by(|one, other| (one.kind, other.id).cmp(&(other.kind, one.id)));
    let more = known.len().saturating_sub(SHOWN_MAX);
    let shown = known.iter().take(SHOWN_MAX).map(|fact| replies::FactShown {
        number: fact.id.0,
        kind: fact.kind.as_str(),
        text: &fact.text,
        source: source_words(fact, control),
        day: fact.made.with_timezone(&services.zone).format("%Y-%m-%d").to_string(),
        in_prompt: fact.status == FactStatus::Active,
    });
    replies::facts(&shown.collect::<Vec<_>>(), more)
}

/// Where a fact comes from, as the person who asks may know it.
fn source_words(fact: &Fact, control: &WaitingMessage) -> String {
    let is_private = control.inbound.place == ChatKind::Private;
    let is_own = |source: &Source| match source {
        // In private all accounts are the person's own.
        Source::Person { id, .. } | Source::Button { id, .. } => {
            is_private || *id == control.sender().id
        }
        _ => false,
    };
    let words =
        if fact.sources.iter().all(is_own) { replies::SOURCE_YOU } else { replies::SOURCE_OTHERS };
    words.to_owned()
}
