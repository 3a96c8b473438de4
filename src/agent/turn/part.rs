//! What a turn works for: a conversation with people, or a task that a subagent was handed.

use std::time::Duration;

use super::super::{Means, prompt, transcript};
use super::{Active, TURN_TIME_MAX, TurnError, commits};
use crate::bus::journal::Fate;
use crate::event::Happening;
use crate::message::Address;
use crate::replies;
use crate::session::{Ending, Session};
use crate::store::StoreError;
use crate::subagents::{self, SubagentId};
use crate::tools::{Caller, delegate};

/// What a subagent may use, read and written: a long task, not a runaway.
const SUBAGENT_TOKENS_MAX: u64 = 200_000;

/// Nobody sees it work, so nobody would stop it.
const SUBAGENT_TIME_MAX: Duration = Duration::from_secs(600);

pub(super) struct Part {
    pub(super) caller: Caller,
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
    pub(super) async fn of(means: &Means, address: &Address) -> Result<Self, StoreError> {
        let Some(id) = SubagentId::of(address) else {
            return Ok(Self {
                caller: Caller::Conversation,
                people_at: address.clone(),
                steps_max: means.steps_max,
                tokens_max: None,
                time_max: TURN_TIME_MAX,
            });
        };
        let asked_at = means.bus.store.read(move |store| subagents::asked_at(store, id)).await?;
        Ok(Self {
            caller: Caller::Subagent,
            people_at: asked_at.unwrap_or_else(|| address.clone()),
            steps_max: means.subagent_steps_max,
            tokens_max: Some(SUBAGENT_TOKENS_MAX),
            time_max: SUBAGENT_TIME_MAX,
        })
    }

    pub(super) fn is_subagent(&self) -> bool {
        self.caller == Caller::Subagent
    }

    /// What is said of a turn that took too long.
    pub(super) fn too_slow(&self) -> String {
        match self.caller {
            Caller::Conversation => replies::SOMETHING_BROKE.to_owned(),
            Caller::Subagent => replies::subagent_too_slow(self.time_max),
        }
    }
}

impl Active<'_> {
    /// The bound that the turn has reached, before another step.
    pub(super) async fn used_up(&self) -> Result<Option<UsedUp>, TurnError> {
        let steps = self.part.steps_max;
        if self.steps_made() >= steps {
            let words = match self.part.caller {
                Caller::Conversation => replies::steps_exhausted(steps),
                Caller::Subagent => replies::subagent_steps_used_up(steps),
            };
            return Ok(Some(UsedUp { note: prompt::steps_used_up(steps), words }));
        }
        let Some(most) = self.part.tokens_max else { return Ok(None) };
        let turn = self.turn;
        let used = self.means.bus.store.read(move |store| transcript::used_in(store, turn)).await?;
        let (note, words) = (prompt::TOKENS_USED_UP, replies::subagent_tokens_used_up(most));
        Ok((used >= most).then(|| UsedUp { note: note.to_owned(), words }))
    }

    /// What the last step has completed the task with.
    pub(super) fn completed(&self) -> Option<String> {
        let steps = self.session.turns.last().map(|turn| turn.steps.as_slice()).unwrap_or_default();
        let last = steps.last().filter(|_| self.part.is_subagent())?;
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
