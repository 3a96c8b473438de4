//! A pass of the loop: it reads the changes in the store, carries out commands, passes messages to running turns, and
//! begins others.

use std::time::Duration;

use chrono::Utc;

use crate::agent::asks::AskProgress;
use crate::agent::failing_items::Item;
use crate::agent::work_queue::Refreshed;
use crate::agent::{Agent, Config, STORE_PAUSE};
use crate::bus::journal::{self, UnreadableRow, WaitingMessage};
use crate::conversation::asks::{self, Ask};
use crate::conversation::transcript::UnreadableTurn;
use crate::services::Services;
use crate::store::StoreError;
use crate::turn::suspension;
use crate::types::origin::{Origin, TaskKind};

/// Commands and asks that were read from the store.
pub(super) struct CommandsAndAsks {
    pub(super) controls: Vec<WaitingMessage>,
    /// Commands that cannot be read.
    pub(super) unreadable: Vec<UnreadableRow>,
    pub(super) unreadable_turns: Vec<UnreadableTurn>,
    /// Asks whose time is over.
    pub(super) overdue: Vec<Ask>,
    /// Time until the next ask expires.
    pub(super) next_expiry: Option<Duration>,
}

impl Agent {
    /// Makes one pass: handles everything that waits and can be handled now. Returns the time until the
    /// next pass, if something is due by then.
    pub(super) async fn pass(&mut self) -> Result<Option<Duration>, StoreError> {
        if let Err(error) = self.side_questions.report_interrupted(&self.services).await {
            tracing::error!(%error, "Cannot notify askers of side questions about the restart, will try again");
        }
        self.forgettings.try_deferred();
        // Commands come first: a stopped turn is not resumed. Messages are read together with commands,
        // so that none that was sent after a command begins a turn before it.
        let next_expiry = loop {
            let found = self.refresh_queue().await?;
            let (commands, turns) = (found.unreadable, found.unreadable_turns);
            let all_closed = self.close_all_unreadable(commands, turns).await;
            let mut controls = found.controls;
            controls.retain(|it| {
                let is_resting = self.failing.remaining_pause(Item::Row(it.id)).is_some();
                let must_wait = self.must_wait(it) || self.forgettings.delay(it);
                serves(&self.config, &self.services, &it.origin) && !must_wait && !is_resting
            });
            if controls.is_empty() {
                match self.settle_asks(found.overdue).await {
                    AskProgress::Settled => continue,
                    AskProgress::Same if all_closed => break found.next_expiry,
                    AskProgress::Same | AskProgress::Failed => break Some(STORE_PAUSE),
                }
            }
            for control in controls {
                // An earlier command of this pass may have begun to forget words there.
                if self.forgettings.delay(&control) {
                    continue;
                }
                // The command may have changed the queue mode there.
                self.work_queue.touch(&control.origin);
                self.try_to_handle(control).await;
            }
        };
        self.side_questions.cancel_stopped(&self.services).await?;
        self.hand_over_changed().await;
        self.resume_due_waits().await;
        self.begin_turns().await;
        let due_times =
            [next_expiry, self.work_queue.next_look(), self.failing.next(), self.suspended.next()];
        Ok(due_times.into_iter().flatten().min())
    }

    /// Updates the work queue from the store.
    pub(super) async fn refresh_queue(&mut self) -> Result<CommandsAndAsks, StoreError> {
        let now = Utc::now();
        let beside = move |store: &_| {
            let journal::WaitingCommands { waiting: controls, unreadable } =
                journal::waiting_commands(store)?;
            let (overdue, next) = (asks::overdue(store, now)?, asks::next_expiry(store)?);
            let next = next.map(|at| (at - now).to_std().unwrap_or_default());
            let next_expiry = next.map(|next| next.max(suspension::EXPIRY_PAUSE_MIN));
            let unreadable_turns = Vec::new();
            Ok(CommandsAndAsks { controls, unreadable, unreadable_turns, overdue, next_expiry })
        };
        let Self { services, config, work_queue, suspended, .. } = self;
        let served = |origin: &Origin, author: Option<TaskKind>| {
            let is_held = author.is_some_and(|task| config.holds_back_message_of(task));
            !is_held && serves(config, services, origin)
        };
        let Refreshed { beside: mut found, is_complete, stopped, unreadable } =
            work_queue.refresh(services, suspended, served, beside).await?;
        found.unreadable_turns = unreadable;
        if is_complete {
            self.log_interrupted();
        }
        // Turns that were ended in the store are cancelled, instead of finding out at their next commit.
        for (turn, at) in stopped {
            let running = self.running.get(&at);
            let working_task = running.filter(|it| it.shown.borrow().turn == Some(turn));
            working_task.into_iter().for_each(|running| running.stop.cancel());
        }
        Ok(found)
    }

    fn log_interrupted(&self) {
        let turns = self.work_queue.count_cut_off();
        if turns > 0 {
            tracing::info!(turns, "Resuming interrupted turns");
        }
    }

    /// Handles the origins at which something has changed.
    pub(super) async fn hand_over_changed(&mut self) {
        for origin in self.work_queue.take_changed() {
            let result = self.hand_over(&origin).await;
            self.retry_later(&origin, result);
        }
    }

    /// Schedules another attempt at an origin if `result` is an error. Other origins are not affected.
    pub(super) fn retry_later(&mut self, origin: &Origin, result: Result<(), StoreError>) {
        if let Err(error) = result {
            tracing::error!(%origin, %error, "Cannot start work in this conversation, will try again");
            self.work_queue.hold_up(origin);
            self.work_queue.look_again(origin, STORE_PAUSE);
        }
    }

    /// Handles the messages that wait at an origin by its queue mode, if a turn runs or is suspended
    /// there.
    pub(super) async fn hand_over(&mut self, origin: &Origin) -> Result<(), StoreError> {
        let Some(newest) = self.work_queue.newest(origin) else { return Ok(()) };
        let look_again_after = match self.running.get(origin) {
            Some(running) if newest > running.given => self.hand_over_more(origin, newest).await?,
            Some(_) => None,
            None => {
                let Some(sender) = self.work_queue.suspended(origin) else { return Ok(()) };
                let is_ended = self.interrupt_suspended(origin, sender).await?;
                is_ended.then_some(Duration::ZERO)
            }
        };
        look_again_after.into_iter().for_each(|pause| self.work_queue.look_again(origin, pause));
        Ok(())
    }
}

/// Returns true if the origin's channel exists, and safe mode does not hold its task back. Other origins wait.
fn serves(config: &Config, services: &Services, origin: &Origin) -> bool {
    let is_held = origin.task().is_some_and(|task| config.holds_back(task));
    !is_held && services.channels.contains_key(origin.channel())
}
