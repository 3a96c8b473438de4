//! The agent loop: one task reads the journal, carries commands out, and moves sessions into turns and back. It
//! alone owns the sessions. A turn gets its session by value. Not here: the steps of a turn (`turn`).

mod activation;
mod approvals;
mod scope;
mod side_question;
mod asks;
mod start_turn;
mod claim;
mod model_waits;
mod suspended;
mod work_queue;
mod budget;
mod command;
mod facts;
mod forget;
mod forget_command;
mod forgettings;
mod failing_items;
mod failures;
pub mod fairness;
pub mod folders;
pub mod former_home;
mod compaction;
mod config;
mod heartbeat;
mod idle;
pub mod incognito_sessions;
mod jobs;
#[cfg(feature = "gateway")]
mod page_link;
mod pairing;
mod pass;
mod people;
mod persona;
mod revoking;
mod running;
mod sessions;
mod settings;
mod skills;
mod status;
mod trusting;
mod steering;
mod undo;
mod why;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use approvals::{ApprovalJudge, ApprovalVerdict, VerdictRefusal};
pub use budget::{BudgetCommand, apply_budget_command, budgets_listing};
pub use jobs::{chat_kind_of_command, check_may_command};
pub use pairing::{AccessChange, Pairing, PairingChange, PairingReply, pair};
pub use people::{PeopleCommand, PeopleReply, apply_people_command, notify_of_change};
pub use skills::{skills_json, skills_text};
pub use why::why_listing;

use crate::bus::journal::WaitingMessage;
use crate::conversation::transcript;
use crate::services::{Services, role_of};
use crate::store::{StoreError, Sync};
use crate::turn::STORE_PAUSE;
use crate::turn::commits::{self, StopKind};
use crate::turn::error::{CommitError, TurnError};
use crate::turn::services::TurnServices;
use crate::types::origin::Origin;
use crate::types::session::Session;
pub use config::{Config, ConfigCheck, Restart};
use failing_items::FailingItems;
use forgettings::Forgettings;
use idle::IdleSessions;
use running::{CompactionResult, Running};
use side_question::SideQuestions;
use suspended::SuspendedTurns;
use work_queue::WorkQueue;

/// Grace period of running turns at a shutdown.
const GRACE: Duration = Duration::from_secs(3);

/// Grace period of side questions at a shutdown: they can be asked again.
const SIDE_QUESTION_GRACE: Duration = Duration::from_millis(200);

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
        idle: IdleSessions::default(),
        compactions: JoinSet::new(),
        compacting: HashMap::new(),
        work_queue: WorkQueue::default(),
        side_questions: SideQuestions::default(),
        forgettings: Forgettings::default(),
        failing: FailingItems::default(),
        suspended: SuspendedTurns::default(),
    };
    while !stop.is_cancelled() {
        woken.mark_unchanged();
        agent.take_all_back().await;
        let (failed, pause) = match agent.pass().await {
            Ok(pause) => {
                agent.services.bus.passes.notify();
                (false, pause)
            }
            Err(error) => {
                tracing::error!(%error, "The agent loop failed and pauses");
                agent.work_queue.require_full_read();
                (true, Some(STORE_PAUSE))
            }
        };
        agent.services.bus.rounds.notify();
        tokio::select! {
            () = stop.cancelled() => {}
            Some(ended) = agent.turn_tasks.join_next_with_id() => agent.take_back(ended).await,
            Some(done) = agent.compactions.join_next() => agent.finish_compaction(done).await,
            changed = woken.changed(), if !failed => if changed.is_err() { break },
            () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            idle_rest = agent.idle.forget() => idle_rest.give_back(&agent.services.bus.store),
            Some(()) = agent.side_questions.next_ended() => {}
            Some(ended) = agent.forgettings.next_ended() => agent.finish_forgetting(ended).await,
        }
    }
    agent.wind_down().await;
}

struct Agent {
    services: Services,
    turns: Arc<TurnServices>,
    config: Arc<Config>,
    turn_tasks: JoinSet<Result<Option<Session>, TurnError>>,
    /// The origin of each task. A panicked task cannot return it.
    tasks: HashMap<Id, Origin>,
    running: HashMap<Origin, Running>,
    idle: IdleSessions,
    /// Running compactions, and the results of those whose conversation is in a turn.
    compactions: JoinSet<CompactionResult>,
    compacting: HashMap<Origin, Option<CompactionResult>>,
    work_queue: WorkQueue,
    side_questions: SideQuestions,
    forgettings: Forgettings,
    failing: FailingItems,
    suspended: SuspendedTurns,
}

impl Agent {
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
                let is_resume = matches!(other, command::Command::Resume(Some(_)));
                command::handle(&scope, &control, other).await?;
                if is_resume {
                    // `/resume` may have moved a conversation in the store.
                    self.idle.clear();
                }
                self.try_again_at(&control.origin);
            }
        }
        self.services.bus.outbox.notify();
        Ok(())
    }

    /// Returns true if a running turn is not in the store yet, or a conversation is being compacted.
    fn is_unsettled(&self) -> bool {
        let is_beginning = |running: &Running| running.shown.borrow().turn.is_none();
        !self.compacting.is_empty() || self.running.values().any(is_beginning)
    }

    /// Ends the work of the conversation in which the command was given. The store decides what ends. The
    /// task is cancelled, and its later commits are rejected.
    async fn stop(&mut self, control: &WaitingMessage, kind: StopKind) -> Result<(), StoreError> {
        let role = role_of(&self.services, &control.inbound.from, control.sender()).await?;
        let turns = Arc::clone(&self.turns);
        let context_window =
            move |session: &Session| turns.models.for_session(session).context_window();
        let store = &self.services.bus.store;
        let stopped =
            commits::stop_conversation(store, control, role, kind, context_window).await?;
        if stopped.side_questions {
            self.side_questions.stop(&control.inbound.from);
        }
        if stopped.turn {
            self.idle.take(&control.origin);
        }
        // A task that saves notes runs for a waiting `/compact`, or for nobody.
        let is_ended =
            |running: &&Running| stopped.turn || (stopped.waiting && running.compactions.is_some());
        if let Some(running) = self.running.get(&control.origin).filter(is_ended) {
            running.stop.cancel();
        }
        self.cancel(&stopped.tasks);
        self.services.bus.jobs.notify();
        self.services.bus.closed.notify();
        Ok(())
    }

    /// Cancels the turns of these origins, which were ended in the store.
    fn cancel(&self, origins: &[Origin]) {
        let running = origins.iter().filter_map(|origin| self.running.get(origin));
        running.for_each(|running| running.stop.cancel());
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
        self.work_queue.ended(&origin);
        match ended {
            Ok((_, Ok(Some(session)))) if !running.stop.is_cancelled() => {
                self.keep_idle(session, running);
            }
            Ok((_, Ok(_))) => {}
            Ok((_, Err(TurnError::Commit(CommitError::Ended)))) => {}
            Ok((_, Err(error))) => {
                tracing::error!(%origin, %error, "A turn was interrupted, will resume it");
                let has_begun = running.shown.borrow().turn.is_some();
                match has_begun {
                    true => self.failing.note_cut_off(&origin, &running, &error),
                    false => self.handle_begin_failure(running.rows, &origin, &error).await,
                }
            }
            Err(error) => {
                tracing::error!(%origin, %error, "A turn panicked, will resume it");
                let has_begun = running.shown.borrow().turn.is_some();
                self.handle_panic(running.rows, &origin, has_begun).await;
            }
        }
        self.apply_finished_compaction(&origin).await;
        self.services.bus.outbox.notify();
        self.services.bus.jobs.notify();
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
        self.side_questions.wind_down(&self.services, SIDE_QUESTION_GRACE).await;
        self.forgettings.wind_down().await;
        // A shutdown does not count as a failed attempt.
        let interrupted: Vec<_> = self.running.into_keys().collect();
        let forgive = move |store: &_| transcript::forgive_attempt(store, &interrupted);
        if let Err(error) = self.services.bus.store.write("left", Sync::Later, forgive).await {
            tracing::warn!(%error, "Cannot give back the attempt of interrupted turns");
        }
        self.services.bus.outbox.notify();
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.services.bus.store.read(work).await
    }
}
