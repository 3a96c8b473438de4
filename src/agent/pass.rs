//! A pass of the loop: it reads the changes in the store, carries out commands, passes messages to running turns, and
//! begins others.

use std::collections::HashMap;
use std::time::Duration;

use chrono::Utc;

use crate::agent::asks::AskProgress;
use crate::agent::failing_items::Item;
use crate::agent::fairness::{self, Claim};
use crate::agent::work_queue::{Person, Refreshed};
use crate::agent::{Agent, Config, STORE_PAUSE};
use crate::bus::journal::{self, UnreadableRow, WaitingMessage};
use crate::conversation::asks::{self, Ask};
use crate::conversation::transcript::UnreadableTurn;
use crate::services::Services;
use crate::store::StoreError;
use crate::turn::suspension;
use crate::types::origin::Origin;

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
        if let Err(error) = self.side_questions.tell_cut_off(&self.services).await {
            tracing::error!(%error, "Cannot notify askers of side questions about the restart, will try again");
        }
        self.forgettings.try_deferred();
        // Commands come first: a stopped turn is not resumed. Messages are read together with commands,
        // so that none that was sent after a command begins a turn before it.
        let next_expiry = loop {
            let found = self.look().await?;
            let (commands, turns) = (found.unreadable, found.unreadable_turns);
            let all_closed = self.close_all_unreadable(commands, turns).await;
            let mut controls = found.controls;
            controls.retain(|it| {
                let is_resting = self.failing.rests(Item::Row(it.id)).is_some();
                let must_wait = self.must_wait(it) || self.forgettings.delay(it);
                serves(&self.config, &self.services, &it.origin) && !must_wait && !is_resting
            });
            if controls.is_empty() {
                match self.look_after_asks(found.overdue).await {
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
                self.backlog.touch(&control.origin);
                self.try_to_handle(control).await;
            }
        };
        self.hand_over_changed().await;
        self.look_after_waits().await;
        self.begin_turns().await;
        let due_times =
            [next_expiry, self.backlog.next_look(), self.failing.next(), self.away.next()];
        Ok(due_times.into_iter().flatten().min())
    }

    /// Updates the work queue from the store.
    pub(super) async fn look(&mut self) -> Result<CommandsAndAsks, StoreError> {
        let now = Utc::now();
        let beside = move |store: &_| {
            let journal::WaitingControls { waiting: controls, unreadable } =
                journal::controls(store)?;
            let (overdue, next) = (asks::overdue(store, now)?, asks::next_expiry(store)?);
            let next = next.map(|at| (at - now).to_std().unwrap_or_default());
            let next_expiry = next.map(|next| next.max(suspension::MOMENT));
            let unreadable_turns = Vec::new();
            Ok(CommandsAndAsks { controls, unreadable, unreadable_turns, overdue, next_expiry })
        };
        let Self { services, config, backlog, away, .. } = self;
        let served = |origin: &Origin| serves(config, services, origin);
        let Refreshed { beside: mut found, is_complete, stopped, unreadable } =
            backlog.refresh(services, away, served, beside).await?;
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
        let turns = self.backlog.count_cut_off();
        if turns > 0 {
            tracing::info!(turns, "Resuming interrupted turns");
        }
    }

    /// Handles the origins at which something has changed.
    pub(super) async fn hand_over_changed(&mut self) {
        for origin in self.backlog.take_changed() {
            let result = self.hand_over(&origin).await;
            self.retry_later(&origin, result);
        }
    }

    /// Schedules another attempt at an origin if `result` is an error. Other origins are not affected.
    fn retry_later(&mut self, origin: &Origin, result: Result<(), StoreError>) {
        if let Err(error) = result {
            tracing::error!(%origin, %error, "Cannot start work in this conversation, will try again");
            self.backlog.hold_up(origin);
            self.backlog.look_again(origin, STORE_PAUSE);
        }
    }

    /// Handles the messages that wait at an origin by its queue mode, if a turn runs or is suspended
    /// there.
    pub(super) async fn hand_over(&mut self, origin: &Origin) -> Result<(), StoreError> {
        let Some(newest) = self.backlog.newest(origin) else { return Ok(()) };
        let look_again_after = match self.running.get(origin) {
            Some(running) if newest > running.given => self.hand_over_more(origin, newest).await?,
            Some(_) => None,
            None => {
                let Some(sender) = self.backlog.suspended(origin) else { return Ok(()) };
                let is_ended = self.interrupt_suspended(origin, sender).await?;
                is_ended.then_some(Duration::ZERO)
            }
        };
        look_again_after.into_iter().for_each(|pause| self.backlog.look_again(origin, pause));
        Ok(())
    }

    /// Begins turns while there are free slots.
    pub(super) async fn begin_turns(&mut self) {
        loop {
            let chosen = self.choose();
            if chosen.is_empty() {
                return;
            }
            for (origin, claim) in chosen {
                let begun = self.begin_turn(&origin, claim).await;
                self.retry_later(&origin, begun);
            }
        }
    }

    /// Returns the origins of the turns that begin next, each with its claim on a slot.
    fn choose(&self) -> Vec<(Origin, Claim<Person>)> {
        if self.running.len() >= self.config.turns_max {
            return Vec::new();
        }
        let line = self.backlog.line().filter(|(origin, _)| !self.forgettings.hold(origin));
        let line = self.within_limit(line);
        let waiting: Vec<_> = line.iter().map(|(_, claim)| claim.by_ref()).collect();
        let running: Vec<_> = self.running.values().map(|it| it.claim.by_ref()).collect();
        let chosen = fairness::choose(self.config.turns_max, &running, &waiting);
        chosen.into_iter().map(|at| line[at].clone()).collect()
    }

    /// Removes the turns of persons who already have the maximum number of turns per person.
    fn within_limit<'a>(
        &'a self,
        line: impl Iterator<Item = &'a (Origin, Claim<Person>)>,
    ) -> Vec<&'a (Origin, Claim<Person>)> {
        let turns_max = self.services.bus.limits.turns_per_person;
        let mut held: HashMap<&Person, usize> = HashMap::new();
        for running in self.running.values() {
            *held.entry(&running.claim.person).or_default() += 1;
        }
        let mut allowed = Vec::new();
        for next in line {
            let (_, claim) = next;
            let held = held.entry(&claim.person).or_default();
            *held += 1;
            if turns_max == 0 || claim.entitled || *held <= turns_max {
                allowed.push(next);
            }
        }
        allowed
    }
}

/// Returns true if the origin's channel exists, and safe mode does not hold its task back. Other origins wait.
fn serves(config: &Config, services: &Services, origin: &Origin) -> bool {
    let acts_by_itself = origin.task().is_some_and(|task| task.kind.acts_by_itself());
    let may_act = config.safe_mode.is_none() || !acts_by_itself;
    may_act && services.channels.contains_key(origin.channel())
}
