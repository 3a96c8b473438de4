//! Begins a turn with messages that wait, or resumes it where a crash cut it off.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};

use crate::bus::journal::{InboundOutcome, WaitingMessage};
use crate::bus::notices;
use crate::conversation::ledger::{CallCause, Payer};
use crate::conversation::shares::{Shares, is_compact};
use crate::conversation::tokens;
use crate::conversation::transcript::Unfinished;
use crate::people::Role;
use crate::provider::{Attempts, Usage};
use crate::replies;
use crate::services::{Services, load, person_on};
use crate::tools::Caller;
use crate::turn::commits::{self, TurnBeginning, UsedFacts};
use crate::turn::end::TurnEnd;
use crate::turn::error::TurnError;
use crate::turn::facts::{self, KnownFacts};
use crate::turn::instructions::{self, PromptBase};
use crate::turn::invoked::invoked;
use crate::turn::prompt::{self, InvokedSkills, PromptTail, files};
use crate::turn::quoted;
use crate::turn::run::active::{ActiveTurn, Requester, TurnHandles};
use crate::turn::run::late;
use crate::turn::run::part::TurnPart;
use crate::turn::run::recalled::recalled;
use crate::turn::run::start_state::{self, StartState, TurnSpeaker};
use crate::turn::services::TurnServices;
use crate::turn::spending::Granted;
use crate::types::event::EventKind;
use crate::types::message::{
    Address, Cause, ChatKind, Hint, Inbound, MessageId, OverheardLine, Reaction, Sender,
};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{FrozenContext, Plan, Session, Step, Turn, TurnId};
use crate::types::source::{Parts, Source};
use crate::workspace::FileScope;

/// A turn that a crash cut off is taken up again so often; then it ends with words, because it may
/// be what kills the process.
const ATTEMPTS_MAX: u32 = 3;

/// Earlier messages that a new thread begins with.
const SEED_MAX: usize = 20;

/// Maximum time of a platform for telling them.
const SEED_TIME_MAX: Duration = Duration::from_secs(5);

impl<'a> ActiveTurn<'a> {
    /// Begins a turn with waiting rows; none if they were found too late to be answered.
    pub(super) async fn start(
        turns: &'a TurnServices,
        session: Option<Session>,
        rows: Vec<WaitingMessage>,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let first = &rows.first().expect("a turn begins with a message").inbound;
        let (origin, chat_kind) = (rows[0].origin.clone(), first.chat_kind);
        let sender = rows[0].sender().clone();
        if late::are_late(&turns.services.bus, &rows).await? {
            let words = replies::TOO_LATE.to_owned();
            commits::close(&turns.services.bus.store, rows, InboundOutcome::Late, words).await?;
            return Ok(None);
        }
        let is_task = origin.task().is_some();
        let speaker = TurnSpeaker { origin: origin.clone(), chat_kind, sender: sender.clone() };
        let state = start_state::read(turns, session, speaker).await?;
        let StartState { role, chosen, mut session, plan, known } = state;
        let is_said = matches!(first.cause, Cause::Person(_));
        let quiet = chosen.quiet_words(role, turns.services.now());
        if let Some(words) = quiet.filter(|_| is_said) {
            commits::close(&turns.services.bus.store, rows, InboundOutcome::Refused, words).await?;
            return Ok(None);
        }
        let invoked = match is_task {
            true => Some(InvokedSkills::new()),
            false => invoked(&turns.services, &rows).await?,
        };
        let Some(invoked) = invoked else { return Ok(None) };
        chosen.enter(&mut session);
        // The first prompt is already made for it.
        turns.models.for_session(&session).learn_window().await;
        let (mut frozen, mut changes) = match is_task {
            true => (FrozenContext::default(), Vec::new()),
            false => frozen_memory(turns, &mut session, (&sender, role), &known).await?,
        };
        changes.extend(plan.as_ref().map(plan_text));
        let recalled = recalled(turns, &session, role, &rows).await;
        changes.extend(recalled.text);
        let (background, overheard) = background(&turns.services, &session, first).await;
        let background = background.as_slice();
        let shown = quoted::with_sources(&turns.services, &rows, role).await?;
        let now = turns.services.now();
        let is_time_due = prompt::is_time_due(frozen.told_time, now.to_utc());
        if is_time_due {
            frozen.told_time = Some(now.to_utc());
        }
        let input = prompt::tail(&PromptTail {
            now,
            is_time_due,
            role,
            chat_kind,
            rows: &shown,
            invoked: &invoked,
            background,
            changes,
        });
        let step = Step { input: Some(input), images: files::images(&rows), ..Step::default() };
        let reply_to = rows.last().and_then(|row| row.inbound.id.clone());
        let reply_to = reply_to.filter(|_| chat_kind == ChatKind::Group);
        let beginning = TurnBeginning {
            origin,
            chat_kind,
            sender: sender.clone(),
            reply_to: reply_to.clone(),
            rows: rows.clone(),
            first: step.clone(),
            frozen: frozen.clone(),
            used_facts: UsedFacts {
                facts: recalled.facts,
                active_max: turns.config.memory.facts_max,
            },
            provider: turns.models.for_session(&session).name().to_owned(),
        };
        let at = beginning.origin.chat().cloned();
        let (id, turn) = commits::start(&turns.services.bus.store, beginning).await?;
        at.iter().for_each(|at| turns.services.bus.overheard.shown(at, overheard));
        session.id = id;
        session.frozen = Some(frozen);
        session.turns.push(Turn {
            id: turn,
            by: sender.id.clone(),
            steps: vec![step],
            ending: None,
        });
        let asker = Requester { sender, role, reply_to };
        let last = rows.last().and_then(|row| row.inbound.id.clone());
        let Some(active) = Self::assemble(turns, session, turn, asker, handles).await? else {
            return Ok(None);
        };
        active.acknowledge(last);
        active.emit(|| EventKind::TurnStart { attempt: 1 });
        Ok(Some(active))
    }

    /// Takes up a turn where its last commit left it; none if that was tried too often.
    pub(super) async fn resume(
        turns: &'a TurnServices,
        unfinished: Unfinished,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let Unfinished { turn, attempts, silent, .. } = unfinished;
        let origin = unfinished.origin.clone();
        handles.draft.send_modify(|shown| shown.made = unfinished.draft.clone());
        let store = &turns.services.bus.store;
        if silent {
            commits::answer(store, turn, None, TurnEnd::silent(&origin)).await?;
            return Ok(None);
        }
        if attempts >= ATTEMPTS_MAX {
            tracing::error!(
                turn = turn.0,
                attempts,
                "Gave up a turn, because it was interrupted each time"
            );
            if origin.task().is_some() {
                commits::gave_up(store, turn, origin).await?;
                return Ok(None);
            }
            let end =
                TurnEnd::failed(&unfinished, replies::GAVE_UP.to_owned(), turns.services.zone);
            commits::answer(store, turn, None, end).await?;
            return Ok(None);
        }
        commits::resume(store, turn).await?;
        let Unfinished { sender, reply_to, model_wait: wait, .. } = unfinished;
        let Some(mut session) = load(&turns.services, &origin).await? else { return Ok(None) };
        let (role, chosen) = start_state::role_and_persona(turns, &origin, &sender).await?;
        chosen.enter(&mut session);
        turns.models.for_session(&session).learn_window().await;
        let asker = Requester { sender, role, reply_to };
        let active = Self::assemble(turns, session, turn, asker, handles).await?;
        let active = active.map(|active| Self { wait, ..active });
        Ok(active.inspect(|active| {
            active.emit(|| EventKind::TurnStart { attempt: attempts + 1 });
        }))
    }

    /// Shows that a message was taken up, where that is the custom.
    fn acknowledge(&self, message: Option<MessageId>) {
        let Origin::Chat(at) = &self.session.origin else { return };
        let channel = self.turns.services.channels.get(&at.channel);
        if let (true, Some(message)) = (channel.is_some_and(|it| it.limits().reacts), message) {
            self.handles.signs.try_send(Hint::React { message, with: Reaction::Seen }).ok();
        }
    }

    /// A turn that is ready to run; none of a background task that has ended without it.
    async fn assemble(
        turns: &'a TurnServices,
        session: Session,
        turn: TurnId,
        asker: Requester,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let Some(part) = TurnPart::of(turns, &session, turn).await? else {
            commits::answer(
                &turns.services.bus.store,
                turn,
                None,
                TurnEnd::silent(&session.origin),
            )
            .await?;
            return Ok(None);
        };
        handles.draft.send_modify(|draft| {
            (draft.turn, draft.reply_to) = (Some(turn), asker.reply_to.clone());
        });
        // No model goes by what the owner has not been shown.
        turns.instruction_watcher.look().await?;
        turns.tools.arrived().await;
        let base = instructions::base(turns, &session, asker.speaker(), part.caller).await;
        let PromptBase { system, facts, tools, tools_tokens, context_window } = base;
        let payer = payer(&turns.services, &session, &asker, &part).await?;
        let provider = turns.models.for_session(&session);
        Ok(Some(Self {
            fixed_tokens: tokens::fixed_tokens(&system, session.summary.as_deref()),
            in_use: turns.models.all.in_use.enter(provider.name()),
            provider,
            fitted: context_window,
            wait: None,
            payer,
            granted: Granted::default(),
            attempts: Attempts::Usual,
            thought: String::new(),
            reported: Vec::new(),
            pending: Vec::new(),
            invoked: InvokedSkills::new(),
            turns,
            session,
            turn,
            part,
            asker,
            handles,
            system,
            facts,
            tools,
            tools_tokens,
            begun: Instant::now(),
            spent: Usage::default(),
        }))
    }
}

/// Returns the frozen part of a conversation's prompt, and what changed in the memory and the facts since the model was
/// last told.
async fn frozen_memory(
    turns: &TurnServices,
    session: &mut Session,
    (sender, role): (&Sender, Role),
    known: &KnownFacts,
) -> Result<(FrozenContext, Vec<Parts>), TurnError> {
    let services = &turns.services;
    let caller = Caller::Conversation(turns.finish_of(session));
    let shares = instructions::shares(turns, session, role, caller);
    let (before, recalls) = (session.frozen.take(), instructions::recalls(session, role));
    let (mut frozen, changes) =
        instructions::remembered(services, before, recalls.as_ref(), &shares).await;
    if recalls == Some(FileScope::Owner) {
        tell_if_cut(turns, session, &frozen, &shares).await?;
    }
    let is_new = frozen.facts.is_none();
    if let (true, Some(_), Some(at)) = (is_new, &recalls, session.origin.chat()) {
        facts::refresh_file_of(services, at, sender, role).await?;
    }
    let window = turns.models.for_session(session).context_window();
    let begins = recalls.is_some() && !frozen.has_snapshot && !is_compact(window);
    let limits = (shares.memory, begins);
    let mut now = facts::active(known, session, role, services.now(), limits);
    let snapshot = now.snapshot.take();
    frozen.has_snapshot |= begins;
    let changes = changes.into_iter().chain(facts::freeze(&mut frozen, now));
    let changes = changes.map(|it| Parts::of(Source::Memory, it));
    Ok((frozen, snapshot.into_iter().chain(changes).collect()))
}

/// On whose account the turn calls models.
async fn payer(
    services: &Services,
    session: &Session,
    asker: &Requester,
    part: &TurnPart,
) -> Result<Payer, TurnError> {
    let origin = &session.origin;
    let person = person_on(services, origin.channel(), &asker.sender).await?;
    let (cause, job) = match origin.task() {
        Some(TaskId { kind: kind @ TaskKind::Job, number }) => (kind.into(), Some(number)),
        Some(task) => (task.kind.into(), None),
        None if part.job.is_some() => (CallCause::Job, part.job),
        None => (CallCause::Chat, None),
    };
    let persona = session.persona.name;
    Ok(Payer { person, role: asker.role, cause, job, persona })
}

/// The rest of the conversation's plan, for the model.
fn plan_text(plan: &Plan) -> Parts {
    let source = Source::Plan { read_others: plan.tainted };
    Parts::of(source, format!("Your plan, which you keep with `plan`:\n{plan}"))
}

/// Returns the lines of a group before it spoke to the bot, and how many of them were overheard there. A thread that is
/// new to the bot begins with the platform's history, or else with the lines heard around it.
async fn background(
    services: &Services,
    session: &Session,
    first: &Inbound,
) -> (Vec<OverheardLine>, usize) {
    let (ChatKind::Group, Origin::Chat(at)) = (session.chat_kind, &session.origin) else {
        return (Vec::new(), 0);
    };
    let overheard = &services.bus.overheard;
    let input = overheard.look(at);
    if !session.turns.is_empty() || at.thread.is_none() || !input.is_empty() {
        let overheard = input.len();
        return (input, overheard);
    }
    let Some(channel) = services.channels.get(&at.channel) else { return (input, 0) };
    let history = channel.history(at, first.id.as_ref(), SEED_MAX);
    let history = AssertUnwindSafe(timeout(SEED_TIME_MAX, history)).catch_unwind().await;
    let seed = match history {
        Ok(Ok(Ok(history))) if !history.is_empty() => history,
        _ => {
            let around = overheard.look(&Address { thread: None, ..at.clone() });
            around[around.len().saturating_sub(SEED_MAX)..].to_vec()
        }
    };
    (seed, 0)
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
