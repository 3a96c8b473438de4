//! `/btw`: a side question. It is answered with the stored conversation as context, without tools, also
//! while a turn works there. Question and answer do not enter the conversation.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rusqlite::Connection;
use tokio::task::{Id, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::agent::STORE_PAUSE;
use crate::bus::journal::{self, InboundOutcome, RowId, WaitingMessage};
use crate::bus::outbox;
use crate::bus::side_questions;
use crate::conversation::ledger::{self, CallCause, Charge, Payer};
use crate::conversation::{sources, tokens, transcript};
use crate::people::Role;
use crate::provider::{self, Attempts, Completion, Pictures, ProviderError, Request, StopReason};
use crate::replies;
use crate::services::{Services, load, role_of};
use crate::store::{StoreError, Sync};
use crate::tools::Caller;
use crate::turn::end::{failure_text, is_no_reply};
use crate::turn::instructions::{self, Speaker};
use crate::turn::personas::{PersonaListener, persona_for};
use crate::turn::prompt::InvokedSkills;
use crate::turn::prompt::{self, PromptTail};
use crate::turn::quoted;
use crate::turn::services::TurnServices;
use crate::turn::spending::{Planned, payer_on};
use crate::turn::{commits, compaction};
use crate::types::message::Address;
use crate::types::session::{Session, Step, Turn, TurnId};
use crate::types::source::{Source, SourcedText};

/// Maximum number of side questions that are answered at once. An address has at most one.
const SIDE_QUESTIONS_MAX: usize = 4;

/// Deadline of a side question: its answer is wanted soon.
const SIDE_QUESTION_TIME_MAX: Duration = Duration::from_secs(180);

/// The tasks that answer side questions.
#[derive(Default)]
pub(super) struct SideQuestions {
    tasks: JoinSet<()>,
    running: HashMap<Address, RunningQuestion>,
    /// True once the side questions that a crash interrupted were reported.
    has_reported: bool,
}

/// A task that answers a side question.
struct RunningQuestion {
    task: Id,
    row: RowId,
    stop: CancellationToken,
}

impl SideQuestions {
    /// Reports side questions that a crash interrupted. They are not asked again automatically, because
    /// nobody knows why it crashed.
    pub(super) async fn report_interrupted(
        &mut self,
        services: &Services,
    ) -> Result<(), StoreError> {
        if self.has_reported {
            return Ok(());
        }
        let store = &services.bus.store;
        for cut_off in store.read(side_questions::in_progress).await? {
            if services.channels.contains_key(&cut_off.inbound.from.channel) {
                let message = replies::BTW_INTERRUPTED.to_owned();
                settle(store, cut_off, InboundOutcome::Refused, message, None).await?;
                services.bus.outbox.notify();
            }
        }
        self.has_reported = true;
        Ok(())
    }

    /// Starts to answer, or explains a refusal.
    pub(super) async fn begin(
        &mut self,
        turns: &Arc<TurnServices>,
        control: WaitingMessage,
        question: String,
    ) -> Result<(), StoreError> {
        let at = control.inbound.from.clone();
        let refusal = if question.is_empty() {
            Some(replies::BTW_USAGE)
        } else if self.running.contains_key(&at) {
            Some(replies::BTW_BUSY)
        } else if self.running.len() >= SIDE_QUESTIONS_MAX {
            Some(replies::BTW_CROWDED)
        } else {
            None
        };
        let store = &turns.services.bus.store;
        if let Some(refusal_text) = refusal {
            return commits::reply(store, &control, refusal_text.to_owned()).await;
        }
        let row = control.id;
        let begin = move |store: &Connection| side_questions::begin(store, row);
        if store.write("aside", Sync::Now, begin).await? {
            let stop = CancellationToken::new();
            let answering = answer(Arc::clone(turns), control, question);
            let until = stop.clone();
            let task =
                async move { until.run_until_cancelled(Box::pin(answering)).await.unwrap_or(()) };
            let task = self.tasks.spawn(task).id();
            self.running.insert(at, RunningQuestion { task, row, stop });
        }
        Ok(())
    }

    /// Cancels a side question that was stopped in the store.
    pub(super) fn stop(&mut self, at: &Address) {
        if let Some(running) = self.running.get(at) {
            running.stop.cancel();
        }
    }

    /// Cancels the side questions that were stopped in the store because their person was removed.
    pub(super) async fn cancel_stopped(&self, services: &Services) -> Result<(), StoreError> {
        if self.running.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = self.running.values().map(|running| running.row).collect();
        let find_stopped = move |store: &Connection| {
            let mut stopped = Vec::new();
            for row in rows {
                if journal::outcome_of(store, row)? == Some(InboundOutcome::Stopped) {
                    stopped.push(row);
                }
            }
            Ok(stopped)
        };
        let stopped = services.bus.store.read(find_stopped).await?;
        let running = self.running.values().filter(|running| stopped.contains(&running.row));
        running.for_each(|running| running.stop.cancel());
        Ok(())
    }

    /// Returns the addresses at which side questions are being answered.
    pub(super) fn places(&self) -> impl Iterator<Item = &Address> {
        self.running.keys()
    }

    /// Waits until a side question ends. None if none runs.
    pub(super) async fn next_ended(&mut self) -> Option<()> {
        let id = match self.tasks.join_next_with_id().await? {
            Ok((id, ())) => id,
            Err(error) => error.id(),
        };
        self.running.retain(|_, running| running.task != id);
        Some(())
    }

    /// Waits for all to end. Those that do not end in time wait for the next start.
    pub(super) async fn wind_down(mut self, services: &Services, grace: Duration) {
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        timeout(grace, all_ended).await.ok();
        self.tasks.shutdown().await;
        if let Err(error) =
            services.bus.store.write("asides left", Sync::Later, side_questions::put_back).await
        {
            tracing::warn!(%error, "Interrupted side questions will not be answered");
        }
    }
}

/// The result of a side question.
struct SideAnswer {
    session: Session,
    input: SourcedText,
    charge: Charge,
    completion: Completion,
}

/// Answers a side question, and retries until the answer is stored.
async fn answer(turns: Arc<TurnServices>, control: WaitingMessage, question: String) {
    let asked = AssertUnwindSafe(Box::pin(ask(&turns, &control, question))).catch_unwind();
    let (reply, asked) = match timeout(SIDE_QUESTION_TIME_MAX, asked).await {
        Ok(Ok(Ok(Ok(asked)))) => (reply_text(&asked.completion), Some(Arc::new(asked))),
        Ok(Ok(Ok(Err(error)))) => {
            let role = role_of(&turns.services, &control.inbound.from, control.sender()).await;
            (failure_text(&error, role.unwrap_or(Role::Guest)), None)
        }
        Ok(Ok(Err(error))) => {
            tracing::error!(%error, "Cannot load the conversation for a side question");
            (replies::SOMETHING_BROKE.to_owned(), None)
        }
        Ok(Err(_)) => {
            tracing::error!("A side question panicked");
            (replies::SOMETHING_BROKE.to_owned(), None)
        }
        Err(_) => (replies::BTW_TOO_SLOW.to_owned(), None),
    };
    let outcome = if asked.is_some() { InboundOutcome::Handled } else { InboundOutcome::Refused };
    let store = &turns.services.bus.store;
    while let Err(error) =
        settle(store, control.clone(), outcome, reply.clone(), asked.clone()).await
    {
        tracing::error!(%error, "Cannot save the answer to a side question, will try again");
        sleep(STORE_PAUSE).await;
    }
    turns.services.bus.outbox.notify();
}

async fn ask(
    turns: &TurnServices,
    control: &WaitingMessage,
    question: String,
) -> Result<Result<SideAnswer, ProviderError>, StoreError> {
    let (at, chat_kind) = (&control.inbound.from, control.inbound.chat_kind);
    let role = role_of(&turns.services, at, control.sender()).await?;
    let mut session =
        load(&turns.services, at).await?.unwrap_or_else(|| Session::new(at, chat_kind));
    let who = PersonaListener { known_on: &at.channel, sender: control.sender(), role };
    let chosen = persona_for(&turns.services, &turns.config.personas, at, who).await?;
    if let Some(words) = chosen.quiet_hours_text(role, turns.services.now()) {
        return Ok(Err(ProviderError::OverBudget(words)));
    }
    chosen.enter(&mut session);
    // The prompt begins like the conversation's own requests, so that the provider's cache applies.
    let caller = Caller::Conversation(turns.finish_of(&session));
    let speaker = Speaker { name: &control.sender().name, role };
    let base = instructions::base(turns, &session, speaker, caller).await;
    let mut row = control.clone();
    row.inbound.body.text = question;
    let rows = quoted::with_sources(&turns.services, std::slice::from_ref(&row), role).await?;
    let now = turns.services.now();
    let told_time = session.frozen.as_ref().and_then(|frozen| frozen.told_time);
    let tail = PromptTail {
        now,
        is_time_due: prompt::is_time_due(told_time, now.to_utc()),
        role,
        chat_kind,
        rows: &rows,
        invoked: &InvokedSkills::new(),
        background: &[],
        changes: Vec::new(),
    };
    let mut input = SourcedText::of(Source::Program, format!("{}\n", prompt::SIDE_QUESTION));
    input.append(&prompt::tail(&tail));
    let step = Step { input: Some(input.clone()), ..Step::default() };
    session.turns.push(Turn {
        id: TurnId(0),
        by: control.sender().id.clone(),
        steps: vec![step],
        ending: None,
    });
    let provider = turns.models.for_session(&session);
    let _in_use = turns.models.all.in_use.begin_use(provider.name());
    let pictures = match provider.sees() {
        true => Pictures::read(&turns.services.workspace, &session.turns).await,
        false => Pictures::default(),
    };
    let summary = compaction::shown_of(&session);
    let payer = payer_on(&turns.services, &at.channel, control.sender(), CallCause::Aside).await?;
    let payer = Payer { persona: session.persona.name, ..payer };
    let conversation_tokens =
        tokens::conversation_tokens(session.summary.as_deref(), &session.turns, provider.sees());
    let planned = Planned {
        payer,
        provider: provider.name(),
        turn: None,
        input: tokens::fixed_tokens(&base.system, None) + base.tools_tokens + conversation_tokens,
        output: session.persona.tokens_max.map(u64::from),
    };
    let bus = &turns.services.bus;
    let granted = match turns.spending.reserve(bus, planned).await? {
        Ok(granted) => granted,
        Err(refused) => return Ok(Err(refused)),
    };
    let request = Request {
        system: &base.system,
        tools: &base.tools,
        facts: &base.facts,
        may_call: false,
        effort: session.settings.effort,
        attempts: Attempts::Usual,
        tokens_max: granted.tokens_max.or(session.persona.tokens_max),
        messages: provider::transcript_as_messages(summary.as_deref(), &session.turns),
        pictures: &pictures,
    };
    let completed = provider::complete(provider.as_ref(), &request, |_| {}).await;
    drop(request);
    if let Err(error) = &completed {
        turns.spending.failed(bus, &granted, error).await?;
    }
    Ok(completed.map(|mut completion| {
        let charge = turns.spending.charge(payer, &granted, provider.name(), &completion);
        completion.note = completion.note.or_else(|| granted.warning.clone());
        SideAnswer { session, input, charge, completion }
    }))
}

/// Returns the reply to the person for a completion.
fn reply_text(completion: &Completion) -> String {
    let text = completion.text.trim();
    if text.is_empty() || is_no_reply(text) {
        return match completion.stop {
            Some(StopReason::Refused) => replies::MODEL_REFUSED,
            Some(StopReason::MaxTokens) => replies::LIMIT_USED_UP,
            _ => replies::EMPTY_ANSWER,
        }
        .to_owned();
    }
    let cut = (completion.stop == Some(StopReason::MaxTokens)).then_some(replies::CUT_SHORT);
    let parts = [Some(text), cut, completion.note.as_deref()];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// Stores the question's outcome, its answer in the outbox and its token usage in one transaction. Does
/// nothing if the question was stopped meanwhile.
async fn settle(
    store: &crate::store::Store,
    control: WaitingMessage,
    outcome: InboundOutcome,
    reply: String,
    answer: Option<Arc<SideAnswer>>,
) -> Result<(), StoreError> {
    let store_answer = move |store: &Connection| {
        let inbound = &control.inbound;
        if !side_questions::settle(store, control.id, outcome)? {
            return Ok(());
        }
        if let Some(answer) = answer.as_deref() {
            let SideAnswer { session, input, charge, completion } = answer;
            let (input, text) = (Some(input.clone()), completion.text.clone());
            let thinking = completion.thinking.clone();
            let step = Step { input, text, thinking, ..Step::default() };
            let by = &charge.provider;
            let turn = transcript::keep_side_question(store, session, control.sender(), by, &step)?;
            // The answer may repeat untrusted content of the conversation.
            sources::keep_with_turn(store, turn, &session.sources())?;
            ledger::add_charge(store, turn, charge)?;
        }
        outbox::put_urgent(store, &inbound.from, inbound.id.as_ref(), &reply)?;
        Ok(())
    };
    store.write("aside answered", Sync::Now, store_answer).await
}
