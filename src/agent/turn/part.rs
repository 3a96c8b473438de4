//! What a turn works for: a conversation with people, a task that a subagent was handed, or a job.

use std::time::Duration;

use super::super::{Means, prompt, transcript};
use super::{Active, TURN_TIME_MAX, TurnError, commits};
use crate::bus::journal::Fate;
use crate::errands::{Errand, Kind};
use crate::event::Happening;
use crate::message::Address;
use crate::replies;
use crate::schedule::{self, JobId};
use crate::session::{Ending, Session, TurnId};
use crate::store::StoreError;
use crate::subagents::{self, SubagentId};
use crate::tools::{Caller, delegate};

/// What an errand may use, read and written: a long task, not a runaway.
const ERRAND_TOKENS_MAX: u64 = 200_000;

/// Nobody sees it work, so nobody would stop it.
const ERRAND_TIME_MAX: Duration = Duration::from_secs(600);

pub(super) struct Part {
    pub(super) caller: Caller,
    /// None of a conversation with people.
    pub(super) errand: Option<Errand>,
    /// Where people are who can be asked, and to whom files came.
    pub(super) people_at: Address,
    pub(super) steps_max: usize,
    tokens_max: Option<u64>,
    pub(super) time_max: Duration,
}

/// A bound that was reached: what the model is told, and what its person.
pub(super) struct UsedUp {
    pub(super) note: String,
    pub(super) words: String,
}

impl Part {
    /// The part of a turn at an address.
    pub(super) async fn of(
        means: &Means,
        address: &Address,
        turn: TurnId,
    ) -> Result<Self, StoreError> {
        let store = &means.bus.store;
        let Some(errand) = Errand::of(address) else {
            let is_job = store.read(move |store| Ok(schedule::of_turn(store, turn)?.is_some()));
            return Ok(Self {
                caller: if is_job.await? { Caller::JobHere } else { Caller::Conversation },
                errand: None,
                people_at: address.clone(),
                steps_max: means.steps_max,
                tokens_max: None,
                time_max: TURN_TIME_MAX,
            });
        };
        let (caller, asked_at) = match errand.kind {
            Kind::Subagent => {
                let id = SubagentId(errand.number);
                (Caller::Subagent, store.read(move |it| subagents::asked_at(it, id)).await?)
            }
            Kind::Job => {
                let run = store.read(move |it| schedule::of_job(it, JobId(errand.number)));
                (Caller::Job, run.await?.map(|run| run.job.to))
            }
        };
        Ok(Self {
            caller,
            errand: Some(errand),
            people_at: asked_at.unwrap_or_else(|| address.clone()),
            steps_max: means.subagent_steps_max,
            tokens_max: Some(ERRAND_TOKENS_MAX),
            time_max: ERRAND_TIME_MAX,
        })
    }

    /// Whether it ends with `task_completion`.
    fn completes(&self) -> bool {
        self.caller == Caller::Subagent
    }

    /// What is said of a turn that took too long.
    pub(super) fn too_slow(&self) -> String {
        match self.errand {
            None => replies::SOMETHING_BROKE.to_owned(),
            Some(_) => replies::errand_too_slow(self.time_max),
        }
    }
}

impl Active<'_> {
    /// The bound that the turn has reached, before another step.
    pub(super) async fn used_up(&self) -> Result<Option<UsedUp>, TurnError> {
        let steps = self.part.steps_max;
        if self.steps_made() >= steps {
            let words = match self.part.errand {
                None => replies::steps_exhausted(steps),
                Some(_) => replies::errand_steps_used_up(steps),
            };
            return Ok(Some(UsedUp { note: prompt::steps_used_up(steps), words }));
        }
        let Some(most) = self.part.tokens_max else { return Ok(None) };
        let turn = self.turn;
        let used = self.means.bus.store.read(move |store| transcript::used_in(store, turn)).await?;
        let (note, words) = (prompt::TOKENS_USED_UP, replies::errand_tokens_used_up(most));
        Ok((used >= most).then(|| UsedUp { note: note.to_owned(), words }))
    }

    /// What the last step has completed the task with.
    pub(super) fn completed(&self) -> Option<String> {
        let steps = self.session.turns.last().map(|turn| turn.steps.as_slice()).unwrap_or_default();
        let last = steps.last().filter(|_| self.part.completes())?;
        delegate::completed_with(&last.calls)
    }

    /// Ends with a result, of which the model says nothing more.
    pub(super) async fn complete_task(self, result: String) -> Result<Option<Session>, TurnError> {
        let mut end = self.end_with(result);
        (end.ending, end.fate) = (Ending::Answered, Fate::Answered);
        commits::answer(&self.means.bus.store, self.turn, None, end).await?;
        self.emit(|| Happening::TurnEnd { silent: false });
        Ok(None)
    }
}
