//! The agent loop: one task reads the journal, carries commands out, and moves sessions into turns and
//! back. It alone owns the sessions. A turn gets its session by value.

mod activation;
mod approvals;
mod scope;
mod side_question;
mod asks;
mod suspended;
mod work_queue;
mod budget;
mod command;
mod facts;
mod forget;
mod forgettings;
mod failing_items;
pub mod fairness;
pub mod folders;
mod compaction;
mod config;
mod heartbeat;
mod idle;
pub mod incognito_sessions;
mod jobs;
#[cfg(feature = "gateway")]
mod page_link;
mod pass;
mod people;
mod persona;
mod queue;
mod sessions;
mod settings;
mod skills;
mod status;
mod trusting;
mod undo;
mod why;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use approvals::{ApprovalJudge, ApprovalVerdict, RefusedVerdict};
pub use budget::{BudgetOrder, order_budget};
pub use command::{Pairing, pair};
pub use jobs::{may_command, place_of_command};
pub use people::{Ordered, PeopleOrder, order_people};
pub use skills::{skills_json, skills_words};

use crate::bus::journal::{RowId, WaitingMessage};
use crate::conversation::transcript;
use crate::services::{Services, role_of};
use crate::store::{StoreError, Sync};
use crate::turn::commits::{self, StopKind};
use crate::turn::draft::Draft;
use crate::turn::error::{CommitError, TurnError};
use crate::turn::run::{self as turn, TurnHandles, TurnStart};
use crate::turn::services::TurnServices;
use crate::turn::{STORE_PAUSE, progress};
use crate::types::message::Sender;
use crate::types::origin::{Origin, TaskKind};
use crate::types::session::Session;
use asks::AskProgress;
pub use config::Config;
use failing_items::{Failing, Item};
use fairness::Claim;
use forgettings::Forgettings;
use idle::Idle;
use side_question::SideQuestions;
use suspended::SuspendedTurns;
use work_queue::{Person, WorkQueue};

/// Maximum number of steering batches that a turn has not read. Further messages stay in the journal.
const STEER_MAX: usize = 16;

/// Maximum number of reactions that wait to be shown. Further ones are dropped.
const SIGNS_MAX: usize = 16;

/// Grace period of running turns at a shutdown.
const GRACE: Duration = Duration::from_secs(3);

/// Grace period of side questions at a shutdown: they can be asked again.
const ASIDE_GRACE: Duration = Duration::from_millis(200);

/// Runs until `stop`. Interrupted turns resume after the next start.
pub async fn run(turns: Arc<TurnServices>, config: Arc<Config>, stop: CancellationToken) {
    let mut woken = turns.services.bus.inbox.watch();
    let mut agent = Agent {
        services: turns.services.clone(),
        turns,
        config,
        turn_tasks: JoinSet::new(),
        tasks: HashMap::new(),
        running: HashMap::new(),
        idle: Idle::default(),
        compactions: JoinSet::new(),
        compacting: HashMap::new(),
        backlog: WorkQueue::default(),
        follows: false,
        is_up_to_date: false,
        side_questions: SideQuestions::default(),
        forgettings: Forgettings::default(),
        failing: Failing::default(),
        away: SuspendedTurns::default(),
    };
    while !stop.is_cancelled() {
        woken.mark_unchanged();
        agent.take_all_back().await;
        let (failed, rest) = match agent.pass().await {
            Ok(join) => {
                agent.services.bus.passes.up();
                (false, join)
            }
            Err(error) => {
                tracing::error!(%error, "The agent loop failed and pauses");
                agent.is_up_to_date = false;
                (true, Some(STORE_PAUSE))
            }
        };
        agent.services.bus.rounds.up();
        tokio::select! {
            () = stop.cancelled() => {}
            Some(ended) = agent.turn_tasks.join_next_with_id() => agent.take_back(ended).await,
            Some(done) = agent.compactions.join_next() => agent.compacted(done).await,
            changed = woken.changed(), if !failed => if changed.is_err() { break },
            () = sleep(rest.unwrap_or_default()), if rest.is_some() => {}
            rest = agent.idle.forget() => rest.give_back(&agent.services.bus.store),
            Some(()) = agent.side_questions.next_ended() => {}
            Some(ended) = agent.forgettings.next_ended() => agent.has_forgotten(ended).await,
        }
    }
    agent.wind_down().await;
}

struct Agent {
    services: Services,
    turns: Arc<TurnServices>,
    config: Arc<Config>,
    turn_tasks: JoinSet<Result<Option<Session>, TurnError>>,
    /// The origin of each task, which is needed even after a panic.
    tasks: HashMap<Id, Origin>,
    running: HashMap<Origin, Running>,
    idle: Idle,
    /// Running compactions, and the results of those whose conversation is in a turn.
    compactions: JoinSet<compaction::CompactionResult>,
    compacting: HashMap<Origin, Option<compaction::CompactionResult>>,
    backlog: WorkQueue,
    /// The store tracks changes in the tables of the backlog.
    follows: bool,
    /// No change was lost, so the backlog need not be read completely.
    is_up_to_date: bool,
    side_questions: SideQuestions,
    forgettings: Forgettings,
    failing: Failing,
    away: SuspendedTurns,
}

/// The loop's state of a running turn.
struct Running {
    steer: mpsc::Sender<Vec<WaitingMessage>>,
    stop: CancellationToken,
    sender: Sender,
    /// The person whose slot it uses.
    claim: Claim<Person>,
    /// The rows with which it began.
    rows: Vec<RowId>,
    /// The last row that was handed to it.
    given: RowId,
    /// Its visible draft. It has no turn before the turn was begun.
    shown: watch::Receiver<Draft>,
    /// Set if it is no turn, but saves notes before a requested compaction.
    compactions: Option<compaction::CompactionRequest>,
}

impl Agent {
    /// Makes one pass: handles everything that waits and can be handled now. Returns the time until the
    /// next pass, if something is due by then.
    async fn pass(&mut self) -> Result<Option<Duration>, StoreError> {
        if let Err(error) = self.side_questions.tell_cut_off(&self.services).await {
            tracing::error!(%error, "Cannot notify askers of side questions about the restart, will try again");
        }
        self.forgettings.try_deferred();
        // Commands come first: a stopped turn is not resumed. Messages are read together with commands,
        // so that none that was sent after a command begins a turn before it.
        let next_expiry = loop {
            let look = self.look().await?;
            let (commands, turns) = (look.unreadable, look.unreadable_turns);
            let all_closed = self.close_all_unreadable(commands, turns).await;
            let mut controls = look.controls;
            controls.retain(|it| {
                let rests = self.failing.rests(Item::Row(it.id)).is_some();
                let waits = self.must_wait(it) || self.forgettings.delay(it);
                self.serves(&it.origin) && !waits && !rests
            });
            if controls.is_empty() {
                match self.look_after_asks(look.overdue).await {
                    AskProgress::Settled => continue,
                    AskProgress::Same if all_closed => break look.next_expiry,
                    AskProgress::Same | AskProgress::Failed => break Some(STORE_PAUSE),
                }
            }
            for control in controls {
                // An earlier one may have begun to forget there.
                if self.forgettings.delay(&control) {
                    continue;
                }
                // The command may have changed the queue mode there.
                self.backlog.touch(&control.origin);
                self.try_to_handle(control).await;
            }
        };
        self.hear_changed().await;
        self.look_after_waits().await;
        self.begin_turns().await;
        let again = [next_expiry, self.backlog.next_look(), self.failing.next(), self.away.next()];
        Ok(again.into_iter().flatten().min())
    }

    /// Returns true if the origin's channel exists, and a task may act. Others wait until it does.
    fn serves(&self, origin: &Origin) -> bool {
        let acts_by_itself = matches!(
            origin.task().map(|task| task.kind),
            Some(TaskKind::Job | TaskKind::Heartbeat)
        );
        let may_act = self.config.safe_mode.is_none() || !acts_by_itself;
        may_act && self.services.channels.contains_key(origin.channel())
    }

    /// Moves a session into a turn.
    fn start(&mut self, origin: Origin, sender: Sender, claim: Claim<Person>, begin: TurnStart) {
        let (steer, steered) = mpsc::channel(STEER_MAX);
        let stop = CancellationToken::new();
        let rows: Vec<_> = match &begin {
            TurnStart::New(rows) => rows.iter().map(|row| row.id).collect(),
            TurnStart::Resume(..) => Vec::new(),
        };
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
        let task = work(Arc::clone(&self.turns), origin.clone(), session, begin, ends);
        let id = self.turn_tasks.spawn(task).id();
        let running = Running { steer, stop, sender, claim, rows, given, shown, compactions: None };
        self.occupy(id, origin, running);
    }

    /// Registers a task that works for an origin.
    fn occupy(&mut self, task: Id, origin: Origin, running: Running) {
        self.backlog.began(&origin);
        self.tasks.insert(task, origin.clone());
        self.running.insert(origin, running);
    }

    /// Carries a command out at once.
    async fn handle(&mut self, control: WaitingMessage) -> Result<(), StoreError> {
        match command::parse(&control.inbound.body.text) {
            command::Command::Stop => self.stop(&control, StopKind::Stop).await?,
            command::Command::New => self.stop(&control, StopKind::New).await?,
            command::Command::Incognito => self.stop(&control, StopKind::Incognito).await?,
            command::Command::Clean => self.stop(&control, StopKind::Clean).await?,
            command::Command::Judge(verdict) => {
                approvals::handle(&self.services, &control, verdict).await?;
            }
            command::Command::Btw(question) => {
                self.side_questions.begin(&self.turns, control, question).await?;
            }
            command::Command::Compact(focus) => self.compact(control, focus).await?,
            command::Command::Forget(order) => self.forget(control, order).await?,
            other => {
                let busy = self.running.contains_key(&control.origin);
                let (running, is_unsettled) = (self.running.len(), busy || self.is_unsettled());
                let Self { turns, config, .. } = self;
                let scope = scope::CommandScope { turns, config, busy, running, is_unsettled };
                let moves = matches!(other, command::Command::Resume(Some(_)));
                command::handle(&scope, &control, other).await?;
                if moves {
                    // A conversation may be elsewhere in the store afterwards.
                    self.idle.clear();
                }
                self.try_again_at(&control.origin);
            }
        }
        self.services.bus.outbox.up();
        Ok(())
    }

    /// Returns true if a turn has a conversation without a row in the store yet, or one is being summarized.
    fn is_unsettled(&self) -> bool {
        let begins = |running: &Running| running.shown.borrow().turn.is_none();
        !self.compacting.is_empty() || self.running.values().any(begins)
    }

    /// Ends the work of the conversation in which the command was given. The store decides. The task is
    /// cancelled, and its later commits are rejected.
    async fn stop(&mut self, control: &WaitingMessage, kind: StopKind) -> Result<(), StoreError> {
        let role = role_of(&self.services, &control.inbound.from, control.sender()).await?;
        let stopped = commits::stopped(&self.services.bus.store, control, role, kind).await?;
        if stopped.side_questions {
            self.side_questions.stop(&control.inbound.from);
        }
        if stopped.turn {
            self.idle.take(&control.origin);
        }
        // Notes are saved for a waiting command, or for nobody.
        let ends = |it: &&Running| stopped.turn || (stopped.waiting && it.compactions.is_some());
        if let Some(running) = self.running.get(&control.origin).filter(ends) {
            running.stop.cancel();
        }
        self.cancel(&stopped.tasks);
        self.services.bus.jobs.up();
        self.services.bus.closed.up();
        Ok(())
    }

    /// Cancels the turns of these origins, which were ended in the store.
    fn cancel(&self, of: &[Origin]) {
        of.iter().filter_map(|it| self.running.get(it)).for_each(|running| running.stop.cancel());
    }

    /// Takes back all turns that have ended, so that one pass serves all of them.
    async fn take_all_back(&mut self) {
        while let Some(ended) = self.turn_tasks.try_join_next_with_id() {
            self.take_back(ended).await;
        }
    }

    /// Takes a session back from its turn.
    async fn take_back(
        &mut self,
        ended: Result<(Id, Result<Option<Session>, TurnError>), JoinError>,
    ) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(origin) = self.tasks.remove(&id) else { return };
        let Some(running) = self.running.remove(&origin) else { return };
        self.backlog.ended(&origin);
        match ended {
            Ok((_, Ok(Some(session)))) if !running.stop.is_cancelled() => {
                self.rest(session, running);
            }
            Ok((_, Ok(_))) => {}
            Ok((_, Err(TurnError::Commit(CommitError::Ended)))) => {}
            Ok((_, Err(error))) => {
                tracing::error!(%origin, %error, "A turn was interrupted, will resume it");
                let begun = running.shown.borrow().turn.is_some();
                match begun {
                    true => self.failing.note_cut_off(&origin, &running, &error),
                    false => self.not_begun(running.rows, &origin, &error).await,
                }
            }
            Err(error) => {
                tracing::error!(%origin, %error, "A turn panicked, will resume it");
                let begun = running.shown.borrow().turn.is_some();
                self.has_panicked(running.rows, &origin, begun).await;
            }
        }
        self.take_over_compacted(&origin).await;
        self.services.bus.outbox.up();
        self.services.bus.jobs.up();
    }

    async fn wind_down(mut self) {
        let all_ended = async { while self.turn_tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all_ended).await.is_err() {
            tracing::info!(
                turns = self.turn_tasks.len(),
                "Some turns will continue at the next start"
            );
        }
        self.turn_tasks.shutdown().await;
        self.side_questions.wind_down(&self.services, ASIDE_GRACE).await;
        self.forgettings.wind_down().await;
        // A stop request is no failure of theirs.
        let left: Vec<_> = self.running.into_keys().collect();
        let forgive = move |store: &_| transcript::forgive_attempt(store, &left);
        if let Err(error) = self.services.bus.store.write("left", Sync::Later, forgive).await {
            tracing::warn!(%error, "Cannot give back the attempt of interrupted turns");
        }
        self.services.bus.outbox.up();
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.services.bus.store.read(work).await
    }
}

/// A task's ends of the channels to the loop.
struct TaskEnds {
    steer: mpsc::Receiver<Vec<WaitingMessage>>,
    stop: CancellationToken,
    draft: watch::Sender<Draft>,
}

/// Runs one turn and shows its progress until it is done or stopped.
async fn work(
    turns: Arc<TurnServices>,
    origin: Origin,
    session: Option<Session>,
    begin: TurnStart,
    TaskEnds { steer, stop, draft }: TaskEnds,
) -> Result<Option<Session>, TurnError> {
    let drafted = draft.subscribe();
    let shown_last = drafted.clone();
    let quiet = Arc::new(Mutex::new(()));
    let (signs, shown_signs) = mpsc::channel(SIGNS_MAX);
    let feed = progress::TurnProgress { draft: drafted, signs: shown_signs };
    let handles = TurnHandles { steer, draft, signs, quiet: Arc::clone(&quiet) };
    let turn = async {
        let ended = Box::pin(turn::run(&turns, session, begin, handles)).await;
        if let Err(TurnError::Commit(CommitError::Store(_))) = &ended {
            // Waits here, not in the loop, which others need.
            sleep(STORE_PAUSE).await;
        }
        ended
    };
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(None),
        ended = Box::pin(progress::show(&turns, origin.chat(), feed, &quiet, turn)) => ended,
    };
    let turn = shown_last.borrow().turn;
    if let (true, Some(turn), Some(at)) = (stop.is_cancelled(), turn, origin.chat()) {
        progress::erase_of(&turns, at, turn).await;
    }
    turns.services.bus.outbox.up();
    ended
}
