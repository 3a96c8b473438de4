//! The kinds of background tasks: their differences, the limits of their turns, and their ends.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::KEPT;
use crate::conversation::deferred::ApprovedCall;
use crate::conversation::delivered::{self, UntrustedResult};
use crate::conversation::sessions::{self, Note};
use crate::conversation::transcript;
use crate::people::Role;
use crate::provider::ProviderError;
use crate::store::StoreError;
use crate::tasks::TaskOutcome;
use crate::tools::{TaskTools, finish};
use crate::turn::end::{TurnEnd, is_no_reply};
use crate::turn::prompt;
use crate::turn::services::TurnServices;
use crate::types::message::{Address, SenderId};
use crate::types::origin::{Origin, TaskId};
use crate::types::session::{SessionId, Step, TurnId};
use crate::types::source::{Source, SourcedText};
use crate::workspace::Audience;

/// Maximum tokens of a background task, input and output: enough for a long task, and a limit for a runaway.
pub(super) const TOKENS_MAX: u64 = 200_000;

/// Maximum time of a background task, because nobody sees it work and would stop it. A model on a small board needs a
/// quarter of an hour to begin.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(3_600);

/// A kind of background task. `number` is the number of the task, as people see it.
#[async_trait]
pub(crate) trait Background: Sync {
    /// Returns the identity of the model in the system prompt.
    fn identity(&self) -> &'static str;

    /// Returns the tools that its turns may call.
    fn tools(&self) -> TaskTools;

    /// Returns the address of its people. None if the task has ended.
    fn people_at(&self, store: &Connection, number: i64) -> rusqlite::Result<Option<Address>>;

    /// Returns the approved call, if the task exists only to make it.
    fn approved_call(
        &self,
        _store: &Connection,
        _number: i64,
    ) -> rusqlite::Result<Option<ApprovedCall>> {
        Ok(None)
    }

    /// Returns true if a person began a task and can be asked.
    fn is_attended(&self, _store: &Connection, _number: i64) -> rusqlite::Result<bool> {
        Ok(false)
    }

    /// Returns the limits of a turn. None if the task has ended without it.
    async fn limits(
        &'static self,
        turns: &TurnServices,
        number: i64,
        _turn: TurnId,
    ) -> Result<Option<TaskLimits>, StoreError> {
        let query = move |store: &Connection| self.people_at(store, number);
        Ok(turns.services.bus.store.read(query).await?.map(|people_at| TaskLimits {
            people_at,
            steps_max: turns.config.subagent_steps_max,
            tokens_max: TOKENS_MAX,
            keeps_quiet: false,
        }))
    }

    /// Returns the instruction files in its system prompt, as far as this audience may see them.
    fn instruction_files(&self, _audience: Audience) -> &'static [&'static str] {
        &["AGENTS.md"]
    }

    /// Returns the message about a task that was interrupted too often.
    fn interrupted_text(&self) -> &'static str;

    /// Returns the message about a task that failed before it had a turn.
    fn failed_text(&self) -> &'static str;

    /// Settles a task and queues its messages, in the transaction of its end. Does nothing if the task has
    /// already ended. A stopped task sends nothing.
    fn settle(&self, store: &Connection, number: i64, end: &TaskEnd<'_>) -> rusqlite::Result<()>;

    /// Returns the tasks that work for an address: all of them, or one person's.
    fn running_for(
        &self,
        store: &Connection,
        at: &Address,
        whose: Option<&SenderId>,
    ) -> rusqlite::Result<Vec<Origin>>;

    /// Returns the due time of the next run, until which this one may wait for a model.
    async fn next_run(
        &self,
        _turns: &TurnServices,
        _number: i64,
    ) -> Result<Option<DateTime<Utc>>, StoreError> {
        Ok(None)
    }

    /// Returns true if somebody waits for a task, and is notified when its turn waits for a model.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Returns true if an exhausted budget ends a task silently, because its people already know.
    fn is_silent_over_budget(&self) -> bool {
        false
    }

    /// Returns the name of a task in the report of deferred calls.
    fn reported_as(&self, task: TaskId) -> String {
        task.to_string()
    }

    /// Returns the retention of ended tasks.
    fn kept(&self) -> chrono::Duration {
        KEPT
    }

    /// Returns the message about a turn that got no answer from a model. By default it is the error itself, because
    /// nobody waits for the task.
    fn failure_text(&self, error: &ProviderError, _to: Role) -> String {
        error.to_string()
    }

    /// Returns the note for a model that has used up its steps.
    fn steps_used_up(&self, steps: usize) -> String {
        prompt::steps_used_up(steps)
    }

    /// Returns the note for a model whose text should have been a call.
    fn reminder(&self) -> String {
        prompt::reminder(&[finish::COMPLETION])
    }

    /// Returns true if a text means that nothing is to be sent.
    fn is_silence(&self, text: &str) -> bool {
        is_no_reply(text)
    }

    /// Returns the message of a turn that has ended with a call, whose text is `last`. None if nothing is to be sent.
    fn closing_message(&self, _steps: &[Step], last: &str) -> Option<String> {
        Some(last).filter(|last| !self.is_silence(last)).map(str::to_owned)
    }
}

/// The limits of a background task's turn, and the place of its people.
pub(crate) struct TaskLimits {
    pub(crate) people_at: Address,
    pub(crate) steps_max: usize,
    pub(crate) tokens_max: u64,
    /// True if it ends when quiet hours begin, because nobody requested it.
    pub(crate) keeps_quiet: bool,
}

/// The end of a background task.
pub(crate) struct TaskEnd<'a> {
    pub(crate) how: TaskOutcome,
    pub(crate) result: Option<&'a str>,
    /// True if the model that made the result has read untrusted content.
    pub(crate) tainted: bool,
    /// None if it had no turn.
    pub(crate) turn: Option<TurnId>,
    /// The owner's time zone.
    pub(crate) zone: Tz,
    /// True within the heartbeat's quiet hours.
    pub(crate) is_quiet: bool,
}

impl<'a> TaskEnd<'a> {
    /// Returns the end of a task whose turn has ended.
    pub(crate) fn of_turn(turn: TurnId, end: &'a TurnEnd) -> Self {
        Self {
            how: TaskOutcome::of(end.ending),
            result: end.words.as_deref(),
            tainted: end.tainted,
            turn: Some(turn),
            zone: end.zone,
            is_quiet: end.is_quiet,
        }
    }

    /// Returns a text of the task as it is kept apart, if the model that made it has read untrusted content. `name` names
    /// the task, and `input` stands before the text.
    pub(super) fn untrusted<'t>(
        &self,
        name: &str,
        input: &SourcedText,
        text: &'t str,
    ) -> Option<UntrustedResult<'t>> {
        let (name, at) =
            (SourcedText::of(Source::Program, name), Utc::now().with_timezone(&self.zone));
        let input = input.clone();
        self.tainted.then_some(UntrustedResult { name, at, input, text })
    }

    /// Returns an end with a message of the program, or with none.
    pub(super) fn by_program(
        how: TaskOutcome,
        turn: Option<TurnId>,
        result: Option<&'a str>,
    ) -> Self {
        Self { how, result, tainted: false, turn, zone: Tz::UTC, is_quiet: false }
    }
}

/// The end of a task, as the model of a conversation is told of it.
pub(super) struct TaskNote<'a> {
    pub(super) input: SourcedText,
    /// It stands as the model's own words.
    pub(super) said: String,
    /// The result, if its model has read untrusted content.
    pub(super) untrusted: Option<UntrustedResult<'a>>,
}

/// Adds a finished turn to a conversation, so that its model knows the message that a task has sent there.
pub(super) fn add_turn(
    store: &Connection,
    session: SessionId,
    task_turn: TurnId,
    note: TaskNote<'_>,
) -> rusqlite::Result<()> {
    let TaskNote { input, said, untrusted } = note;
    let (sender, provider) = transcript::sender_and_provider(store, task_turn)?;
    let note = Note { sender: &sender, provider: &provider, input, said };
    match &untrusted {
        Some(result) => delivered::note(store, session, &note, result),
        None => sessions::note(store, session, &note),
    }
}
