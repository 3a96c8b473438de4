//! The kind of a turn with its limits: a conversation with people or a background task.

use std::time::Duration;

use rusqlite::Connection;

use crate::conversation::deferred::ApprovedCall;
use crate::conversation::transcript;
use crate::replies;
use crate::store::StoreError;
use crate::tasks::schedule;
use crate::tools::Caller;
use crate::turn::background::{self, Background, TaskLimits};
use crate::turn::services::TurnServices;
use crate::types::message::Address;
use crate::types::origin::{Origin, TaskId};
use crate::types::session::{Finish, Session, TurnId};

/// Maximum time of a turn. Steps, retries and fallbacks have limits of their own, but together they could take a day.
const TURN_TIME_MAX: Duration = Duration::from_secs(2 * 3600);

/// The kind of a turn with its limits.
pub(super) struct TurnLimits {
    pub(super) caller: Caller,
    /// The kind of background task. None for a conversation with people.
    pub(super) background: Option<&'static dyn Background>,
    pub(super) finish: Finish,
    /// The address of the people who can be asked, and whose files can be read.
    pub(super) people_at: Address,
    pub(super) steps_max: usize,
    pub(super) tokens_max: Option<u64>,
    pub(super) time_max: Duration,
    /// The time that was used before the turn was last suspended.
    pub(super) worked: Duration,
    /// The job, if the turn is its run in a conversation with people.
    pub(super) job: Option<i64>,
    /// True if it ends when quiet hours begin: a heartbeat run that nobody requested.
    pub(super) keeps_quiet: bool,
    /// True if a person began the turn and can be asked. False for runs of jobs and of the heartbeat.
    pub(super) is_attended: bool,
    /// The approved call, if the turn exists only to make it.
    pub(super) approved: Option<ApprovedCall>,
}

impl TurnLimits {
    /// Returns the kind and limits of a turn. None if its background task has already ended.
    pub(super) async fn of(
        turns: &TurnServices,
        session: &Session,
        turn: TurnId,
    ) -> Result<Option<Self>, StoreError> {
        let finish = turns.finish_of(session);
        match &session.origin {
            Origin::Chat(address) => Self::of_chat(turns, address, finish, turn).await.map(Some),
            Origin::Task { task, .. } => Self::of_task(turns, *task, turn).await,
        }
    }

    async fn of_chat(
        turns: &TurnServices,
        address: &Address,
        finish: Finish,
        turn: TurnId,
    ) -> Result<Self, StoreError> {
        let query = move |store: &Connection| {
            let run = schedule::find_turn_run(store, turn)?;
            Ok((run.map(|run| run.job.id.0), transcript::working_time(store, turn)?))
        };
        let (job, worked) = turns.services.bus.store.read(query).await?;
        Ok(Self {
            caller: match job.is_some() {
                true => Caller::JobHere(finish),
                false => Caller::Conversation(finish),
            },
            background: None,
            finish,
            people_at: address.clone(),
            steps_max: turns.config.steps_max,
            tokens_max: None,
            time_max: TURN_TIME_MAX,
            worked,
            job,
            keeps_quiet: false,
            is_attended: job.is_none(),
            approved: None,
        })
    }

    async fn of_task(
        turns: &TurnServices,
        TaskId { kind, number }: TaskId,
        turn: TurnId,
    ) -> Result<Option<Self>, StoreError> {
        let kind = background::behaviour_of(kind);
        let Some(limits) = kind.limits(turns, number, turn).await? else { return Ok(None) };
        let TaskLimits { people_at, steps_max, tokens_max, keeps_quiet } = limits;
        let query = move |store: &Connection| {
            let approved = kind.approved_call(store, number)?;
            Ok((transcript::working_time(store, turn)?, approved, kind.is_attended(store, number)?))
        };
        let (worked, approved, is_attended) = turns.services.bus.store.read(query).await?;
        Ok(Some(Self {
            caller: Caller::Task(kind.tools()),
            background: Some(kind),
            finish: Finish::Explicit,
            people_at,
            steps_max,
            tokens_max: Some(tokens_max),
            time_max: background::TIME_MAX,
            worked,
            job: None,
            keeps_quiet,
            is_attended,
            approved,
        }))
    }

    /// Returns the message about a turn that took too long.
    pub(super) fn timeout_text(&self) -> String {
        match self.background {
            None => replies::SOMETHING_BROKE.to_owned(),
            Some(_) => replies::task_too_slow(self.time_max),
        }
    }
}
