//! What a turn works for — a conversation with people or a background task — and what ends it.

use std::time::Duration;

use rusqlite::Connection;

use crate::bus::journal::Fate;
use crate::conversation::transcript;
use crate::people::Role;
use crate::provider::ASK_QUESTION;
use crate::provider::{Completion, StopReason};
use crate::replies;
use crate::store::StoreError;
use crate::tasks::schedule;
use crate::tools::{Caller, delegate, finish};
use crate::turn::background::{self, Background, Limits};
use crate::turn::prompt;
use crate::turn::run::{Active, TURN_TIME_MAX, TurnError, is_no_reply};
use crate::turn::services::TurnServices;
use crate::types::message::{Address, MessageId, Sender};
use crate::types::origin::{Origin, TaskId};
use crate::types::session::{Call, Ending, Finish, Outcome, Session, Step, TurnId};

/// A model that does not understand by then will not, and its text is better than none.
const REMINDERS_MAX: usize = 3;

pub(super) struct Part {
    pub(super) caller: Caller,
    /// The kind of background task; none of a conversation with people.
    pub(super) background: Option<&'static dyn Background>,
    pub(super) finish: Finish,
    /// Where people are who can be asked, and to whom files came.
    pub(super) people_at: Address,
    pub(super) steps_max: usize,
    tokens_max: Option<u64>,
    pub(super) time_max: Duration,
    /// The part of that which was used before the turn was last suspended.
    pub(super) worked: Duration,
    /// It ends when quiet hours begin: a beat that nobody asked for.
    pub(super) keeps_quiet: bool,
}

/// What a turn says that has ended with a call; none says nothing.
pub(super) struct Finished(Option<String>);

/// A bound that was reached: what the model is told, and what its person.
pub(super) struct UsedUp {
    pub(super) note: String,
    pub(super) words: String,
}

impl Part {
    /// The part of a turn; none if it works for a background task that has ended without it.
    pub(super) async fn of(
        turns: &TurnServices,
        origin: &Origin,
        turn: TurnId,
    ) -> Result<Option<Self>, StoreError> {
        match origin {
            Origin::Chat(address) => Self::of_chat(turns, address, turn).await.map(Some),
            Origin::Task { task, .. } => Self::of_task(turns, *task, turn).await,
        }
    }

    async fn of_chat(
        turns: &TurnServices,
        address: &Address,
        turn: TurnId,
    ) -> Result<Self, StoreError> {
        let look = move |store: &Connection| {
            Ok((schedule::of_turn(store, turn)?.is_some(), transcript::worked(store, turn)?))
        };
        let (is_job, worked) = turns.services.bus.store.read(look).await?;
        Ok(Self {
            caller: match is_job {
                true => Caller::JobHere(turns.config.finish),
                false => Caller::Conversation(turns.config.finish),
            },
            background: None,
            finish: turns.config.finish,
            people_at: address.clone(),
            steps_max: turns.config.steps_max,
            tokens_max: None,
            time_max: TURN_TIME_MAX,
            worked,
            keeps_quiet: false,
        })
    }

    async fn of_task(
        turns: &TurnServices,
        TaskId { kind, number }: TaskId,
        turn: TurnId,
    ) -> Result<Option<Self>, StoreError> {
        let kind = background::of(kind);
        let Some(limits) = kind.limits(turns, number, turn).await? else { return Ok(None) };
        let Limits { people_at, steps_max, tokens_max, keeps_quiet } = limits;
        let worked = move |store: &Connection| transcript::worked(store, turn);
        Ok(Some(Self {
            caller: Caller::Task(kind.tools()),
            background: Some(kind),
            finish: Finish::Explicit,
            people_at,
            steps_max,
            tokens_max: Some(tokens_max),
            time_max: background::TIME_MAX,
            worked: turns.services.bus.store.read(worked).await?,
            keeps_quiet,
        }))
    }

    /// What is said of a turn that took too long.
    pub(super) fn too_slow(&self) -> String {
        match self.background {
            None => replies::SOMETHING_BROKE.to_owned(),
            Some(_) => replies::task_too_slow(self.time_max),
        }
    }
}

impl Active<'_> {
    /// The bound that the turn has reached, before another step.
    pub(super) async fn used_up(&self) -> Result<Option<UsedUp>, TurnError> {
        let steps = self.part.steps_max;
        if self.steps_made() >= steps {
            let words = match self.part.background {
                None => replies::steps_exhausted(steps),
                Some(_) => replies::task_steps_used_up(steps),
            };
            let note = match self.part.background {
                None => prompt::steps_used_up(steps),
                Some(kind) => kind.steps_used_up(steps),
            };
            return Ok(Some(UsedUp { note, words }));
        }
        if self.part.keeps_quiet && self.turns.heartbeat.is_quiet() {
            let (note, words) = (prompt::QUIET_HOURS_BEGAN, replies::QUIET_HOURS_BEGAN);
            return Ok(Some(UsedUp { note: note.to_owned(), words: words.to_owned() }));
        }
        let Some(most) = self.part.tokens_max else { return Ok(None) };
        let turn = self.turn;
        let used = self
            .turns
            .services
            .bus
            .store
            .read(move |store| transcript::used_in(store, turn))
            .await?;
        let (note, words) = (prompt::TOKENS_USED_UP, replies::task_tokens_used_up(most));
        Ok((used >= most).then(|| UsedUp { note: note.to_owned(), words }))
    }

    /// What is said with the call that has ended the turn, in its last step.
    pub(super) fn finished(&self) -> Option<Finished> {
        let last = self.steps().last().filter(|_| self.part.finish == Finish::Explicit)?;
        let (_, said) = finish::ended_with(&last.calls)?;
        let told = match self.part.background {
            None => Some(said).filter(|said| !is_no_reply(said)).map(str::to_owned),
            Some(kind) => kind.told(self.steps(), said),
        };
        // It was said before the model knew what would come of these.
        last.calls.iter().all(came_as_meant).then_some(Finished(told))
    }

    /// Ends with what a call has said; the model says nothing more.
    pub(super) async fn finish(self, finished: Finished) -> Result<Option<Session>, TurnError> {
        let Finished(told) = finished;
        let mut end = self.end_with(String::new());
        end.fate = Fate::Answered;
        end.ending = if told.is_some() { Ending::Answered } else { Ending::Silent };
        end.words = told.map(|told| self.with_thoughts(&told));
        self.end(end, None).await
    }

    /// The reminder that the model's next step begins with, if its last one was a text where only a
    /// call ends the turn.
    pub(super) fn reminder(&self) -> Option<String> {
        let is_due =
            self.part.finish == Finish::Explicit && self.steps().last().is_some_and(is_text_alone);
        is_due.then(|| match self.part.background {
            None => prompt::reminder(&[finish::COMPLETION, finish::CONVERSE]),
            Some(kind) => kind.reminder(),
        })
    }

    /// Which reminder a text would lead to; none if it is the answer all the same.
    pub(super) fn reminds(&self, completion: &Completion) -> Option<u32> {
        let text = completion.text.trim();
        let is_cut = matches!(completion.stop, Some(StopReason::MaxTokens | StopReason::Refused));
        let is_silence = match self.part.background {
            None => is_no_reply(text),
            Some(kind) => kind.is_silence(text),
        };
        if self.part.finish == Finish::Answer || text.is_empty() || is_cut || is_silence {
            return None;
        }
        let before = self.steps().iter().filter(|step| is_text_alone(step)).count();
        (before < REMINDERS_MAX).then(|| u32::try_from(before + 1).unwrap_or(u32::MAX))
    }
}

fn is_text_alone(step: &Step) -> bool {
    !step.text.is_empty() && step.calls.is_empty()
}

/// Whether a call went well, and told nothing that the model could not have known.
fn came_as_meant(call: &Call) -> bool {
    let is_news = [ASK_QUESTION, delegate::SUBAGENT].contains(&call.tool.as_str());
    matches!(call.outcome, Outcome::Done(_)) && !is_news
}

/// Who asked, and where the answer goes.
pub(super) struct Asker {
    pub(super) sender: Sender,
    pub(super) role: Role,
    pub(super) reply_to: Option<MessageId>,
}
