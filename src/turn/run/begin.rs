//! Begins a turn with waiting messages, or resumes an interrupted one, and runs it to its end. Not the steps between
//! (`run.rs`).

use anyhow::anyhow;
use tokio::time::timeout;

use crate::bus::journal::{InboundOutcome, WaitingMessage};
use crate::conversation::transcript::Unfinished;
use crate::replies;
use crate::services::load;
use crate::turn::commits::{self, TurnBeginning, UsedFacts};
use crate::turn::end::TurnEnd;
use crate::turn::error::TurnError;
use crate::turn::frozen::frozen_memory;
use crate::turn::invoked::invoked;
use crate::turn::prompt::InvokedSkills;
use crate::turn::run::active::{ActiveTurn, Requester, TurnHandles};
use crate::turn::run::first_step::{FirstStep, ToldAtFirst, first_step};
use crate::turn::run::late;
use crate::turn::run::start_state::{self, StartState, TurnSpeaker};
use crate::turn::services::TurnServices;
use crate::types::event::EventKind;
use crate::types::message::{Cause, ChatKind, Hint, MessageId, Reaction};
use crate::types::origin::Origin;
use crate::types::session::{FrozenContext, Session, Turn};

/// Maximum number of attempts at a turn that crashes interrupt. After that it ends with an explanation, because
/// it may be the cause of the crashes.
const ATTEMPTS_MAX: u32 = 3;

/// The beginning of a turn.
pub(crate) enum TurnStart {
    /// Waiting messages of one person at one address; never empty.
    New(Vec<WaitingMessage>),
    /// An unfinished turn, and what its person has said while it waited for a model.
    Resume(Box<Unfinished>, Vec<WaitingMessage>),
}

/// Runs a turn to its end. Returns the session if it is in the same state as in the store.
pub(crate) async fn run(
    turns: &TurnServices,
    session: Option<Session>,
    begin: TurnStart,
    handles: TurnHandles,
) -> Result<Option<Session>, TurnError> {
    let _about_to_write = turns.services.bus.store.about_to_write();
    let begun = match begin {
        TurnStart::New(rows) => ActiveTurn::start(turns, session, rows, handles).await?,
        TurnStart::Resume(unfinished, _) => ActiveTurn::resume(turns, *unfinished, handles).await?,
    };
    let Some(active) = begun else { return Ok(None) };
    let (turn, time_max, too_slow) = (active.turn, active.part.time_max, active.part.too_slow());
    let time_left = time_max.saturating_sub(active.part.worked);
    let is_task = active.part.background.is_some();
    let mut end = active.end_with(replies::SOMETHING_BROKE.to_owned());
    let ended = timeout(time_left, Box::pin(active.work())).await;
    match ended.unwrap_or_else(|_| {
        end.words = Some(too_slow);
        Err(TurnError::Abort(anyhow!("it took longer than {time_max:?}")))
    }) {
        // The session of a background task is closed.
        Ok(_) if is_task => Ok(None),
        Err(TurnError::Abort(error)) => {
            tracing::error!(turn = turn.0, error = format!("{error:#}"), "A turn cannot go on");
            commits::answer(&turns.services.bus.store, turn, None, end).await?;
            Ok(None)
        }
        ended => ended,
    }
}

impl<'a> ActiveTurn<'a> {
    /// Begins a turn with waiting rows. None if the rows were closed without a turn, for example because they are late.
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
            let reply = replies::TOO_LATE.to_owned();
            commits::close(&turns.services.bus.store, rows, InboundOutcome::Late, reply).await?;
            return Ok(None);
        }
        let is_task = origin.task().is_some();
        let speaker = TurnSpeaker { origin: origin.clone(), chat_kind, sender: sender.clone() };
        let is_said = matches!(first.cause, Cause::Person(_));
        let state = match is_said {
            true => start_state::read_after_pause(turns, session, speaker).await?,
            false => start_state::read(turns, session, speaker).await?,
        };
        let StartState { role, chosen, mut session, plan, known } = state;
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
        // The first prompt already needs the context window.
        turns.models.for_session(&session).learn_window().await;
        let (mut frozen, changes) = match is_task {
            true => (FrozenContext::default(), Vec::new()),
            false => frozen_memory(turns, &mut session, &sender, role, &known).await?,
        };
        let content = ToldAtFirst { role, rows: &rows, invoked: &invoked, changes, plan };
        let FirstStep { step, facts, overheard } =
            first_step(turns, &session, content, &mut frozen).await?;
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
            used_facts: UsedFacts { facts, active_max: turns.config.memory.facts_max },
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

    /// Resumes a turn after its last commit. None if the turn was ended instead, for example after too many attempts.
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

    /// Shows a reaction at a message that was read, on channels with reactions.
    fn acknowledge(&self, message: Option<MessageId>) {
        let Origin::Chat(at) = &self.session.origin else { return };
        let channel = self.turns.services.channels.get(&at.channel);
        if let (true, Some(message)) = (channel.is_some_and(|it| it.limits().reacts), message) {
            self.handles.signs.try_send(Hint::React { message, with: Reaction::Seen }).ok();
        }
    }
}
