//! The task of a turn: the loop moves a session into it, and it shows the turn's progress until the turn ends.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::Id;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Agent;
use super::fairness::Claim;
use super::running::Running;
use super::work_queue::Person;
use crate::bus::journal::{RowId, WaitingMessage};
use crate::turn::draft::Draft;
use crate::turn::error::{CommitError, TurnError};
use crate::turn::run::{self as turn, TurnHandles, TurnStart};
use crate::turn::services::TurnServices;
use crate::turn::{STORE_PAUSE, progress};
use crate::types::message::{Sender, Voice};
use crate::types::origin::Origin;
use crate::types::session::Session;

/// Maximum number of unread steering batches of a turn. Further messages stay in the journal.
pub(super) const STEER_MAX: usize = 16;

/// Maximum number of reactions that wait to be shown. Further ones are dropped.
const SIGNS_MAX: usize = 16;

impl Agent {
    /// Moves a session into a turn.
    pub(super) fn start(
        &mut self,
        origin: Origin,
        sender: Sender,
        claim: Claim<Person>,
        begin: TurnStart,
    ) {
        let (steer, steered) = mpsc::channel(STEER_MAX);
        let stop = CancellationToken::new();
        let first = match &begin {
            TurnStart::New(rows) => &**rows,
            TurnStart::Resume(..) => &[],
        };
        let rows: Vec<_> = first.iter().map(|row| row.id).collect();
        let voice = first.first().map(|row| row.inbound.cause.voice());
        let voice = voice.unwrap_or_else(|| Voice::Person(sender.id.clone()));
        let mut given = rows.last().copied().unwrap_or(RowId(0));
        if let TurnStart::Resume(_, joins) = &begin
            && let Some(last) = joins.last().map(|row| row.id)
            && steer.try_send(joins.clone()).is_ok()
        {
            given = last;
        }
        let session = self.idle.take(&origin);
        let (draft, shown) = watch::channel(Draft::default());
        let ends = TaskEnds { steer: steered, stop: stop.clone(), draft };
        let task = run_turn(Arc::clone(&self.turns), origin.clone(), session, begin, ends);
        let id = self.turn_tasks.spawn(task).id();
        let compactions = None;
        let running =
            Running { steer, stop, sender, voice, claim, rows, given, shown, compactions };
        self.occupy(id, origin, running);
    }

    /// Registers a task that works for an origin.
    pub(super) fn occupy(&mut self, task: Id, origin: Origin, running: Running) {
        self.backlog.began(&origin);
        self.tasks.insert(task, origin.clone());
        self.running.insert(origin, running);
    }
}

/// A task's ends of the channels to the loop.
struct TaskEnds {
    steer: mpsc::Receiver<Vec<WaitingMessage>>,
    stop: CancellationToken,
    draft: watch::Sender<Draft>,
}

/// Runs one turn and shows its progress until it is done or stopped.
async fn run_turn(
    turns: Arc<TurnServices>,
    origin: Origin,
    session: Option<Session>,
    begin: TurnStart,
    TaskEnds { steer, stop, draft }: TaskEnds,
) -> Result<Option<Session>, TurnError> {
    let drafted = draft.subscribe();
    let last_draft = drafted.clone();
    let quiet = Arc::new(Mutex::new(()));
    let (signs, shown_signs) = mpsc::channel(SIGNS_MAX);
    let display = progress::TurnProgress { draft: drafted, signs: shown_signs };
    let handles = TurnHandles { steer, draft, signs, quiet: Arc::clone(&quiet) };
    let turn = async {
        let ended = Box::pin(turn::run(&turns, session, begin, handles)).await;
        if let Err(TurnError::Commit(CommitError::Store(_))) = &ended {
            // The pause is here, because a pause in the loop would delay other conversations.
            sleep(STORE_PAUSE).await;
        }
        ended
    };
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(None),
        ended = Box::pin(progress::show(&turns, origin.chat(), display, &quiet, turn)) => ended,
    };
    let turn = last_draft.borrow().turn;
    if let (true, Some(turn), Some(at)) = (stop.is_cancelled(), turn, origin.chat()) {
        progress::erase_of(&turns, at, turn).await;
    }
    turns.services.bus.outbox.up();
    ended
}
