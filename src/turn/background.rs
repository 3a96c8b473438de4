//! Background tasks as turns: what a turn of one may use and is told, and what follows from its end. There is
//! one place for each of these; what differs between the kinds is a [`Background`], in a file of its own.

mod heartbeat;
mod job;
mod subagent;

use std::time::Duration;

use async_trait::async_trait;
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::journal::{self, Fate, RowId};
use crate::conversation::sessions::{self, Note};
use crate::conversation::transcript;
use crate::people::Role;
use crate::provider::ProviderError;
use crate::store::StoreError;
use crate::tasks::{self, Ended};
use crate::tools::{TaskTools, finish};
use crate::turn::commits::End;
use crate::turn::prompt;
use crate::turn::run::is_no_reply;
use crate::turn::services::TurnServices;
use crate::types::message::{Address, SenderId};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{Ending, SessionId, Step, TurnId};
use crate::types::source::Parts;
use crate::workspace::Audience;

/// Tokens that a background task may use, read and written: a long task, not a runaway.
const TOKENS_MAX: u64 = 200_000;

/// Nobody sees it work, so nobody would stop it.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(600);

/// What is special about a kind of background task.
pub(crate) fn of(kind: TaskKind) -> &'static dyn Background {
    match kind {
        TaskKind::Subagent => &subagent::Subagent,
        TaskKind::Job => &job::JobRun,
        TaskKind::Heartbeat => &heartbeat::HeartbeatRun,
    }
}

/// A kind of background task. `number` is that of the task, as people see it.
#[async_trait]
pub(crate) trait Background: Sync {
    /// The tools that its turns may call.
    fn tools(&self) -> TaskTools;

    /// What a turn may use; none if the task has ended without it.
    async fn limits(
        &self,
        turns: &TurnServices,
        number: i64,
        turn: TurnId,
    ) -> Result<Option<Limits>, StoreError>;

    /// The system prompt of a turn, for somebody who may see so much of the workspace.
    async fn system(&self, turns: &TurnServices, audience: Audience) -> Vec<String>;

    /// What is told of a task that was cut off too often.
    fn gave_up(&self) -> &'static str;

    /// What is told of a task that broke before it had a turn.
    fn broke(&self) -> &'static str;

    /// Settles a task and says what there is to be said, in the transaction of its end. Nothing if something
    /// else has ended it, and not a word of one that was stopped.
    fn settle(&self, store: &Connection, number: i64, end: &TaskEnd<'_>) -> rusqlite::Result<()>;

    /// The tasks that work for an address: all of them, or one person's.
    fn running_for(
        &self,
        store: &Connection,
        at: &Address,
        whose: Option<&SenderId>,
    ) -> rusqlite::Result<Vec<Origin>>;

    /// What is said of a turn that got no answer from a model. Usually nobody waits to whom it could be said
    /// kindly.
    fn failure_words(&self, error: &ProviderError, _to: Role) -> String {
        error.to_string()
    }

    /// What a model is told that has used up its steps.
    fn steps_used_up(&self, steps: usize) -> String {
        prompt::steps_used_up(steps)
    }

    /// What a model is told whose text should have been a call.
    fn reminder(&self) -> String {
        prompt::reminder(&[finish::COMPLETION])
    }

    /// Returns true if a text says nothing to anybody.
    fn is_silence(&self, text: &str) -> bool {
        is_no_reply(text)
    }

    /// What people are told by a turn that has ended with a call, which said `last`; none if that is nothing.
    fn told(&self, _steps: &[Step], last: &str) -> Option<String> {
        Some(last).filter(|last| !self.is_silence(last)).map(str::to_owned)
    }
}

/// What a turn of a background task may use, and where its people are.
pub(crate) struct Limits {
    pub(crate) people_at: Address,
    pub(crate) steps_max: usize,
    pub(crate) tokens_max: u64,
    /// It ends when quiet hours begin, because nobody asked for it.
    pub(crate) keeps_quiet: bool,
}

/// How a background task has ended.
pub(crate) struct TaskEnd<'a> {
    pub(crate) how: Ended,
    pub(crate) result: Option<&'a str>,
    /// Who made the result has read what strangers wrote.
    pub(crate) tainted: bool,
    /// None if it had no turn.
    pub(crate) turn: Option<TurnId>,
    /// The owner's.
    pub(crate) zone: Tz,
    /// It is within the heartbeat's quiet hours.
    pub(crate) is_quiet: bool,
}

impl<'a> TaskEnd<'a> {
    /// The end of a task whose turn has ended so.
    pub(crate) fn of_turn(turn: TurnId, end: &'a End) -> Self {
        Self {
            how: Ended::of(end.ending),
            result: end.words.as_deref(),
            tainted: end.tainted,
            turn: Some(turn),
            zone: end.zone,
            is_quiet: end.is_quiet,
        }
    }

    /// An end with the program's own words, or without any.
    fn ours(how: Ended, turn: Option<TurnId>, result: Option<&'a str>) -> Self {
        Self { how, result, tainted: false, turn, zone: Tz::UTC, is_quiet: false }
    }
}

/// Ends a task: whatever ended it, what follows is made in the same transaction, without another word of a
/// model.
pub(crate) fn end(store: &Connection, origin: &Origin, end: &TaskEnd<'_>) -> rusqlite::Result<()> {
    let Some(TaskId { kind, number }) = origin.task() else { return Ok(()) };
    of(kind).settle(store, number, end)?;
    tasks::close_session(store, origin)
}

/// Ends a task whose turn was cut off too often, or cannot be read.
pub(crate) fn give_up(store: &Connection, turn: TurnId, task: &Origin) -> rusqlite::Result<()> {
    transcript::end_turn(store, turn, Ending::Failed)?;
    journal::settle_turn(store, turn, Fate::Refused)?;
    let words = task.task().map(|task| of(task.kind).gave_up());
    end(store, task, &TaskEnd::ours(Ended::Interrupted, Some(turn), words))
}

/// Ends a task that broke before it had a turn.
pub(crate) fn broke(store: &Connection, task: &Origin) -> rusqlite::Result<()> {
    let words = task.task().map(|task| of(task.kind).broke());
    end(store, task, &TaskEnd::ours(Ended::Failed, None, words))
}

/// Ends tasks without a word: their turns, and what they were to do if that has not begun.
pub(crate) fn stop(store: &Connection, tasks: &[Origin]) -> rusqlite::Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let unfinished = transcript::unfinished(store)?;
    for task in tasks {
        for turn in unfinished.iter().filter(|it| it.origin == *task) {
            transcript::end_turn(store, turn.turn, Ending::Stopped)?;
            journal::settle_turn(store, turn.turn, Fate::Stopped)?;
        }
        journal::withdraw(store, task, RowId(i64::MAX), None)?;
        end(store, task, &TaskEnd::ours(Ended::Stopped, None, None))?;
    }
    Ok(())
}

/// Ends the tasks that work for an address, all or one person's, without a word; returns them.
pub(crate) fn stop_for(
    store: &Connection,
    at: &Address,
    whose: Option<&SenderId>,
) -> rusqlite::Result<Vec<Origin>> {
    let mut running = Vec::new();
    for kind in TaskKind::ALL {
        running.extend(of(*kind).running_for(store, at, whose)?);
    }
    stop(store, &running)?;
    Ok(running)
}

/// Adds a finished turn to a conversation, so that its model knows what a turn of a task has told there:
/// what was heard, and what is told as the model's own words.
fn add_turn(
    store: &Connection,
    (session, of): (SessionId, TurnId),
    heard: Parts,
    said: String,
) -> rusqlite::Result<()> {
    let (sender, provider) = transcript::who_answers_whom(store, of)?;
    let note = Note { sender: &sender, provider: &provider, heard, said };
    sessions::note(store, session, &note)
}
