//! Starts turns from the loop: reads the messages of one, and moves a session into its task, which shows the turn's
//! progress until the turn ends. Not here: what the task does (`turn`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::Id;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Agent;
use super::claim::Claim;
use super::running::Running;
use super::steering::PendingParts;
use super::work_queue::Person;
use crate::bus::journal::{self, NextAuthor, RowId, RowRange, WaitingMessage};
use crate::conversation::settings::settings_for;
use crate::store::StoreError;
use crate::turn::draft::Draft;
use crate::turn::error::{CommitError, TurnError};
use crate::turn::run::{self as turn, TurnHandles, TurnStart};
use crate::turn::services::TurnServices;
use crate::turn::{STORE_PAUSE, progress};
use crate::types::message::{MessageAuthor, Sender};
use crate::types::origin::Origin;
use crate::types::session::{QueueMode, Session};

/// Maximum number of unread steering batches of a turn. Further messages stay in the journal.
pub(super) const STEER_MAX: usize = 16;

/// Maximum number of reactions that wait to be shown. Further ones are dropped.
const REACTIONS_MAX: usize = 16;

impl Agent {
    /// Begins a turn of an origin, or holds the origin back until something changes there.
    pub(super) async fn begin_turn(
        &mut self,
        origin: &Origin,
        claim: Claim<Person>,
    ) -> Result<(), StoreError> {
        if let Some(turn) = self.work_queue.cut_off(origin).cloned() {
            let sender = turn.sender.clone();
            let joining = self.read_joining(&turn).await?;
            self.start(origin.clone(), sender, claim, TurnStart::Resume(Box::new(turn), joining));
            // Messages that were sent since the interruption join it first.
            return self.hand_over(origin).await;
        }
        if let Some(pause) = self.failing.remaining_pause_at(origin) {
            self.work_queue.hold_up(origin);
            self.work_queue.look_again(origin, pause);
            return Ok(());
        }
        let Some(newest) = self.work_queue.newest(origin) else { return Ok(()) };
        let (rows, pause) = self.read_next(origin, newest).await?;
        let Some(first) = rows.first() else {
            self.work_queue.hold_up(origin);
            match pause {
                Some(pause) => self.work_queue.look_again(origin, pause),
                // A turn can begin with the messages behind the unreadable ones.
                None if self.close_unreadable_at(origin).await? => {
                    self.work_queue.look_again(origin, Duration::ZERO);
                }
                None => {}
            }
            return Ok(());
        };
        self.failing.begins(origin, first.id);
        let sender = first.sender().clone();
        self.start(origin.clone(), sender, claim, TurnStart::New(rows));
        Ok(())
    }

    /// Returns the messages for the next turn at an origin, up to `newest`. While parts of one are missing,
    /// returns no messages, and the time until the next attempt if it is known.
    async fn read_next(
        &self,
        origin: &Origin,
        newest: RowId,
    ) -> Result<(Vec<WaitingMessage>, Option<Duration>), StoreError> {
        let at = origin.clone();
        let speaker = match self.config.safe_mode {
            Some(_) => NextAuthor::FirstOfRequest,
            None => NextAuthor::First,
        };
        let query = move |store: &_| {
            let mode = settings_for(store, &at)?.queue;
            let rows = RowRange { after: RowId(0), until: newest };
            Ok((mode, journal::next(store, &at, rows, speaker)?))
        };
        let (mode, mut rows) = self.read(query).await?;
        let is_apart =
            rows.first().is_some_and(|first| self.failing.must_begin_alone(origin, first.id));
        match mode.unwrap_or(self.config.queue) {
            _ if is_apart => rows.truncate(first_message(&rows)),
            QueueMode::Followup => rows.truncate(first_message(&rows)),
            QueueMode::Steer | QueueMode::Collect | QueueMode::Interrupt => {}
        }
        Ok(match self.find_pending_parts(&rows).await? {
            PendingParts::None => (rows, None),
            PendingParts::Within(pause) => (Vec::new(), Some(pause)),
            PendingParts::Fetching => (Vec::new(), None),
        })
    }

    /// Moves a session into a turn.
    fn start(&mut self, origin: Origin, sender: Sender, claim: Claim<Person>, begin: TurnStart) {
        let (steer, steered) = mpsc::channel(STEER_MAX);
        let stop = CancellationToken::new();
        let first = match &begin {
            TurnStart::New(rows) => &**rows,
            TurnStart::Resume(..) => &[],
        };
        let rows: Vec<_> = first.iter().map(|row| row.id).collect();
        let author = first.first().map(|row| row.inbound.cause.author());
        let author = author.unwrap_or_else(|| MessageAuthor::Person(sender.id.clone()));
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
            Running { steer, stop, sender, author, claim, rows, given, shown, compactions };
        self.occupy(id, origin, running);
    }

    /// Registers a task that works for an origin.
    pub(super) fn occupy(&mut self, task: Id, origin: Origin, running: Running) {
        self.work_queue.began(&origin);
        self.tasks.insert(task, origin.clone());
        self.running.insert(origin, running);
    }
}

/// Returns how many of the rows are one message: the first, and its further parts.
fn first_message(rows: &[WaitingMessage]) -> usize {
    let parts = rows.iter().take_while(|row| row.inbound.body.more).count();
    rows.len().min(parts + 1)
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
    let draft_lock = Arc::new(Mutex::new(()));
    let (reactions, shown_reactions) = mpsc::channel(REACTIONS_MAX);
    let display = progress::TurnProgress { draft: drafted, reactions: shown_reactions };
    let handles = TurnHandles { steer, draft, reactions, draft_lock: Arc::clone(&draft_lock) };
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
        ended = Box::pin(progress::show(&turns, origin.chat(), display, &draft_lock, turn)) => ended,
    };
    let turn = last_draft.borrow().turn;
    if let (true, Some(turn), Some(at)) = (stop.is_cancelled(), turn, origin.chat()) {
        progress::erase_of(&turns, at, turn).await;
    }
    turns.services.bus.outbox.notify();
    ended
}
