//! Reads one conversation for facts, and applies the facts found. The messages of people and content that others may
//! have written are read separately, for the person or group of the conversation.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use rusqlite::Connection;

use super::ask::{self, FactsAnswer, FactsPrompt};
use super::record::{self, RecordReader, SeparatedRecord};
use crate::conversation::ended_turns::{self, ConversationExcerpt, ExcerptTurn};
use crate::conversation::ledger::sums::{LedgerFilter, spent_since};
use crate::conversation::ledger::{self, CallCause, Charge, Payer};
use crate::conversation::{named_sessions, shares, sources, tokens};
use crate::memory::extraction::due::{DueConversation, ReadingPriority};
use crate::memory::extraction::{self, Findings, FoundFacts, ReadTurns};
use crate::memory::facts::{self, Fact, FactStatus};
use crate::memory::{audience, recall};
use crate::people::Role;
use crate::provider::{Effort, Pictures, Provider};
use crate::services::{load, role_on};
use crate::short_text::clean_name;
use crate::store::{StoreError, Sync};
use crate::tasks::schedule;
use crate::tools::Caller;
use crate::trust::taint;
use crate::turn::facts as turn_facts;
use crate::turn::instructions::{self, Speaker};
use crate::turn::personas::{PersonaListener, persona_for};
use crate::turn::services::TurnServices;
use crate::turn::spending::payer_on;
use crate::types::event::{Event, EventKind};
use crate::types::message::{ChatKind, Sender, SenderId};
use crate::types::origin::Origin;
use crate::types::persona::PersonaMemory;
use crate::types::session::{Session, Step, Turn, TurnId};
use crate::types::source::{self, Source, SourcedText};

/// Maximum number of known facts that the model is shown.
const KNOWN_MAX: usize = 100;

/// Pause after a model gave no usable answer.
const FAILED_PAUSE: TimeDelta = TimeDelta::minutes(5);

/// Maximum length of a conversation that is shown whole, in tokens, because the provider has it in its cache. Of longer
/// ones, only the new part is shown.
const WHOLE_TOKENS_MAX: u64 = 24_000;

/// The name under which changed facts are reported as an event.
const FACTS: &str = "facts";

/// The outcome of an attempt to read a conversation.
pub(super) enum Outcome {
    /// The turns are finished, or the time of the next attempt is stored.
    Read,
    /// Somebody waits for the provider.
    InUse,
    Later,
}

/// A conversation with everything that is needed to read it.
struct Reading<'a> {
    turns: &'a TurnServices,
    range: ReadTurns,
    said: ConversationExcerpt,
    sender: Sender,
    role: Role,
    /// The roles of all who began a turn.
    roles: BTreeMap<SenderId, Role>,
    /// The open session, if it is that of the turns.
    session: Option<Session>,
    provider: Arc<dyn Provider>,
    keys: Vec<recall::RecallKey>,
    /// Trusted facts that hold.
    known: Vec<Fact>,
    /// The sources of the content that the model was shown there, with the turns in which they first occur.
    shown: Vec<(TurnId, Source)>,
    talk: DueConversation,
    priority: ReadingPriority,
}

/// Reads a conversation.
pub(super) async fn read(
    turns: &TurnServices,
    talk: &DueConversation,
    forgets: i64,
    priority: ReadingPriority,
) -> Result<Outcome, StoreError> {
    let range = ReadTurns { session: talk.session, after: talk.after, up_to: talk.up_to, forgets };
    let store = &turns.services.bus.store;
    let said = store
        .read(move |store| {
            ended_turns::read_excerpt(store, range.session, range.after, range.up_to)
        })
        .await?;
    let reading = match said.filter(|said| !said.turns.is_empty()) {
        Some(said) => open(turns, range, said, *talk).await?,
        None => None,
    };
    let Some(mut reading) = reading else {
        let skip = move |store: &Connection| extraction::mark_read(store, &range).map(drop);
        store.write("not read for facts", Sync::Later, skip).await?;
        return Ok(Outcome::Read);
    };
    reading.priority = priority;
    if priority < ReadingPriority::Immediate
        && turns.models.all.in_use.is_in_use(reading.provider.name())
    {
        return Ok(Outcome::InUse);
    }
    if is_used_up(turns).await? {
        tracing::debug!("The daily token budget for noticing facts is used up");
        return Ok(Outcome::Later);
    }
    Box::pin(reading.run()).await
}

/// Returns true if the daily budget for noticing facts is used up.
async fn is_used_up(turns: &TurnServices) -> Result<bool, StoreError> {
    let midnight = schedule::midnight(Utc::now(), turns.services.zone);
    let query = move |store: &Connection| {
        spent_since(store, LedgerFilter::Cause(CallCause::Memory), midnight)
    };
    let spent = turns.services.bus.store.read(query).await?;
    Ok(spent.tokens >= turns.config.memory.tokens_per_day)
}

/// Returns everything that is needed to read a conversation. None if it is not read, because nobody there has a memory
/// or no model answers.
async fn open(
    turns: &TurnServices,
    range: ReadTurns,
    said: ConversationExcerpt,
    talk: DueConversation,
) -> Result<Option<Reading<'_>>, StoreError> {
    let services = &turns.services;
    let mut roles = BTreeMap::new();
    for turn in &said.turns {
        if !roles.contains_key(&turn.sender.id) {
            let role = role_on(services, &said.at.channel, &turn.sender).await?;
            roles.insert(turn.sender.id.clone(), role);
        }
    }
    // Guests have no memory.
    let role_of = |turn: &&ExcerptTurn| roles.get(&turn.sender.id).copied().unwrap_or(Role::Guest);
    let last = said.turns.iter().rev().find(|turn| role_of(turn) > Role::Guest);
    let Some((sender, role)) = last.map(|turn| (turn.sender.clone(), role_of(&turn))) else {
        return Ok(None);
    };
    let who = PersonaListener { known_on: &said.at.channel, sender: &sender, role };
    let chosen = persona_for(services, &turns.config.personas, &said.at, who).await?;
    if chosen.persona.memory != PersonaMemory::Person {
        return Ok(None);
    }
    let session = load(services, &said.at).await?;
    let mut session = session.filter(|session| session.id == range.session);
    let settings = session.as_ref().map(|it| it.settings.clone()).unwrap_or_default();
    let persona = Arc::clone(&chosen.persona);
    if let Some(session) = &mut session {
        chosen.enter(session);
    }
    let origin = Origin::Chat(said.at.clone());
    let configured = turns.config.memory.provider.as_deref();
    let provider = configured
        .and_then(|name| turns.models.all.chain(name))
        .unwrap_or_else(|| turns.models.for_origin(&origin, &settings, &persona));
    if !provider.is_model() {
        return Ok(None);
    }
    let (at, chat_kind, id) = (said.at.clone(), said.chat_kind, sender.id.clone());
    let query = move |store: &Connection| {
        let keys = recall::conversation_keys(store, &at, chat_kind, &id)?;
        let known = facts::list(store, &keys)?;
        Ok((keys, known, sources::up_to(store, range.session, range.up_to)?))
    };
    let (keys, mut known, shown) = services.bus.store.read(query).await?;
    let audience = audience(role, chat_kind);
    let is_trusted = |fact: &Fact| {
        !fact.deciding_sources().iter().any(|source| taint::is_untrusted(source, audience))
    };
    known.retain(|fact| fact.holds() && is_trusted(fact));
    known.sort_by_key(|fact| (fact.status != FactStatus::Active, fact.id));
    known.truncate(KNOWN_MAX);
    Ok(Some(Reading {
        turns,
        range,
        said,
        sender,
        role,
        roles,
        session,
        provider,
        keys,
        known,
        shown,
        talk,
        priority: ReadingPriority::Interruptible,
    }))
}

impl Reading<'_> {
    async fn run(mut self) -> Result<Outcome, StoreError> {
        let separated = self.separate();
        let payer =
            payer_on(&self.turns.services, &self.said.at.channel, &self.sender, CallCause::Memory)
                .await?;
        let mut charges = Vec::new();
        let mut found = Findings {
            keys: self.keys.clone(),
            active_max: self.turns.config.memory.facts_max,
            ..Findings::default()
        };
        if separated.trusted.has_content {
            let (prompt, sources) = self.trusted_prompt(&separated).await;
            match self.ask(payer, &prompt).await? {
                FactsAnswer::Found(facts, charge) => {
                    charges.push(charge);
                    found.trusted = FoundFacts { facts, sources };
                }
                FactsAnswer::Bad(reason, charge) => {
                    tracing::warn!(session = %self.range.session, reason, "Noticed no facts");
                    return self.fail(charge).await;
                }
                FactsAnswer::Later(reason) => return Ok(later(&reason)),
            }
        }
        if separated.untrusted.has_content {
            let record = &separated.untrusted;
            let prompt = separate_prompt(record::ask_about_untrusted(&record.text, &self.today()));
            match self.ask(payer, &prompt).await? {
                FactsAnswer::Found(facts, charge) => {
                    charges.push(charge);
                    found.untrusted = FoundFacts { facts, sources: record.sources.clone() };
                }
                // A bad answer about untrusted content must not prevent the facts of the person's own words.
                FactsAnswer::Bad(reason, charge) => {
                    tracing::info!(session = %self.range.session, reason, "Noticed no facts in untrusted content");
                    charges.extend(charge);
                }
                FactsAnswer::Later(reason) => return Ok(later(&reason)),
            }
        }
        self.apply(found, charges).await
    }

    async fn ask(&self, payer: Payer, prompt: &FactsPrompt) -> Result<FactsAnswer, StoreError> {
        ask::ask(self.turns, &*self.provider, payer, prompt, self.priority).await
    }

    fn separate(&self) -> SeparatedRecord {
        let reader = RecordReader {
            audience: audience(self.role, self.said.chat_kind),
            roles: &self.roles,
            first_tainted: self.first_tainted(),
            zone: self.turns.services.zone,
        };
        reader.separate(&self.said)
    }

    /// Returns the first turn whose model saw untrusted content.
    fn first_tainted(&self) -> Option<TurnId> {
        let audience = audience(self.role, self.said.chat_kind);
        let mut shown = self.shown.iter();
        shown.find(|(_, source)| taint::is_untrusted(source, audience)).map(|(turn, _)| *turn)
    }

    /// Returns the request for facts in people's own words, with all its sources. It is the conversation itself, if the
    /// provider has it in its cache and it has no untrusted content; otherwise a record of the new part.
    async fn trusted_prompt(&mut self, separated: &SeparatedRecord) -> (FactsPrompt, Vec<Source>) {
        let mut sources = separated.trusted.sources.clone();
        if !self.known.is_empty() {
            source::add(&mut sources, &Source::Memory);
        }
        if let Some(prompt) = self.whole_prompt().await {
            self.shown.iter().for_each(|(_, shown)| source::add(&mut sources, shown));
            return (prompt, sources);
        }
        let text = record::ask_about(&separated.trusted.text, &self.known, &self.today());
        (separate_prompt(text), sources)
    }

    /// Returns a request that begins with the same bytes as the conversation's last one. None if that is not possible,
    /// or if the conversation is long.
    async fn whole_prompt(&mut self) -> Option<FactsPrompt> {
        let has_own_provider = self.turns.config.memory.provider.is_some();
        let is_tainted = self.first_tainted().is_some();
        let is_private = self.said.chat_kind == ChatKind::Private;
        // A retry uses a shorter request, and so does a reading that does not yield to people.
        let is_short = self.talk.is_retry || self.priority > ReadingPriority::Interruptible;
        if has_own_provider || is_tainted || !is_private || is_short {
            return None;
        }
        let mut session = self.session.take()?;
        let is_newest = session.turns.iter().map(|turn| turn.id).max() == Some(self.range.up_to);
        let has_ended = session.turns.iter().all(|turn| turn.ending.is_some());
        if !is_newest || !has_ended || session.frozen.is_none() {
            return None;
        }
        let caller = Caller::Conversation(self.turns.finish_of(&session));
        let speaker = Speaker { name: &self.sender.name, role: self.role };
        let base = instructions::base(self.turns, &session, speaker, caller).await;
        let text = record::ask_after(self.talk.turns, &self.known, &self.today());
        session.turns.push(question(text));
        let sees = self.provider.sees();
        let pictures = match sees {
            true => Pictures::read(&self.turns.services.workspace, &session.turns).await,
            false => Pictures::default(),
        };
        let prompt = FactsPrompt {
            system: base.system,
            tools: base.tools,
            tools_tokens: base.tools_tokens,
            facts: base.facts,
            effort: session.settings.effort,
            summary: session.summary,
            turns: session.turns,
            pictures,
        };
        let window = self.provider.context_window();
        let tokens_max = tokens::percent(window, tokens::SHORTEN_AT).min(WHOLE_TOKENS_MAX);
        (!shares::is_compact(window) && prompt.tokens(sees) <= tokens_max).then_some(prompt)
    }

    fn today(&self) -> String {
        self.turns.services.now().format("%A %Y-%m-%d").to_string()
    }

    /// Applies the found facts with their cost in one transaction.
    async fn apply(
        &self,
        mut found: Findings,
        charges: Vec<Charge>,
    ) -> Result<Outcome, StoreError> {
        self.redact(&mut found);
        let range = self.range;
        // Only the words of people name a conversation.
        let name = found.trusted.facts.name.as_deref().and_then(clean_name);
        let apply_all = move |store: &Connection| {
            for charge in &charges {
                ledger::add_nonzero_charge(store, OF_NO_TURN, charge)?;
            }
            let changed = extraction::apply(store, &range, &found, Utc::now())?;
            if let (Some(_), Some(name)) = (changed, &name) {
                named_sessions::name_once(store, range.session, name)?;
            }
            Ok(changed)
        };
        let changed =
            self.turns.services.bus.store.write("facts noticed", Sync::Later, apply_all).await?;
        let Some(changed) = changed else { return Ok(Outcome::Read) };
        let extraction::ChangedFacts { new, updated, removed, offered } = changed;
        tracing::info!(session = %range.session, new, updated, removed, offered, "Read a conversation for facts");
        if changed.any() && self.said.chat_kind == ChatKind::Private {
            let (services, at) = (&self.turns.services, &self.said.at);
            turn_facts::refresh_file_of(services, at, &self.sender, self.role).await?;
        }
        if changed.any() {
            self.turns.services.events.emit(|| Event {
                session: Some(range.session),
                turn: None,
                origin: Some(Origin::Chat(self.said.at.clone())),
                // The event has no content of the conversation.
                is_others_private: false,
                what: EventKind::MemoryUpdated { path: FACTS.to_owned() },
            });
        }
        Ok(Outcome::Read)
    }

    /// Stores the cost of a failed attempt and the time of the next one.
    async fn fail(&self, charge: Option<Charge>) -> Result<Outcome, StoreError> {
        let range = self.range;
        let note_failure = move |store: &Connection| {
            if let Some(charge) = &charge {
                ledger::add_nonzero_charge(store, OF_NO_TURN, charge)?;
            }
            extraction::record_failure(store, &range, Utc::now() + FAILED_PAUSE)
        };
        self.turns.services.bus.store.write("no facts noticed", Sync::Later, note_failure).await?;
        Ok(Outcome::Read)
    }

    /// Removes secrets from what a model has written.
    fn redact(&self, found: &mut Findings) {
        let redactor = &self.turns.services.redactor;
        for facts in [&mut found.trusted.facts, &mut found.untrusted.facts] {
            let new = facts.new.iter_mut().map(|new| &mut new.text);
            let updated = facts.updated.iter_mut().map(|(_, text)| text);
            let merged = facts.merged.iter_mut().map(|(_, text)| text);
            for text in new.chain(updated).chain(merged).chain(&mut facts.name) {
                *text = redactor.redact(text).into_owned();
            }
        }
    }
}

/// The cost is booked on no turn, because the cost of the last turn tells the size of the conversation's prompts.
const OF_NO_TURN: TurnId = TurnId(0);

fn later(reason: &str) -> Outcome {
    tracing::debug!(reason, "Will read a conversation for facts later");
    Outcome::Later
}

/// Returns a request without the conversation.
fn separate_prompt(text: String) -> FactsPrompt {
    FactsPrompt {
        system: vec![record::SYSTEM.to_owned()],
        tools: Vec::new(),
        tools_tokens: 0,
        facts: Vec::new(),
        effort: Effort::Default,
        summary: None,
        turns: vec![question(text)],
        pictures: Pictures::default(),
    }
}

fn question(text: String) -> Turn {
    let input = Some(SourcedText::of(Source::Program, text));
    let steps = vec![Step { input, ..Step::default() }];
    Turn { id: TurnId(0), by: "".into(), steps, ending: None }
}
