//! The purpose of a turn: a conversation with people or a background task, with its bounds; and the turn that is made
//! for it, with its prompt and who pays. Needs `active.rs`, which needs the bounds.

use std::time::Duration;

use rusqlite::Connection;
use tokio::time::Instant;

use crate::conversation::deferred::ApprovedCall;
use crate::conversation::ledger::{CallCause, Payer};
use crate::conversation::{tokens, transcript};
use crate::provider::{Attempts, Usage};
use crate::replies;
use crate::services::{Services, person_on};
use crate::store::StoreError;
use crate::tasks::schedule;
use crate::tools::Caller;
use crate::turn::background::{self, Background, TaskLimits};
use crate::turn::commits;
use crate::turn::end::TurnEnd;
use crate::turn::error::TurnError;
use crate::turn::instructions::{self, PromptBase};
use crate::turn::prompt::InvokedSkills;
use crate::turn::run::active::{ActiveTurn, Requester, TurnHandles};
use crate::turn::services::TurnServices;
use crate::turn::spending::Granted;
use crate::types::message::Address;
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{Finish, Session, TurnId};

/// Steps, retries and fallbacks have bounds of their own; together they could go on for a day.
const TURN_TIME_MAX: Duration = Duration::from_secs(2 * 3600);

pub(super) struct TurnPart {
    pub(super) caller: Caller,
    /// The kind of background task; none of a conversation with people.
    pub(super) background: Option<&'static dyn Background>,
    pub(super) finish: Finish,
    /// Where people are who can be asked, and to whom files came.
    pub(super) people_at: Address,
    pub(super) steps_max: usize,
    pub(super) tokens_max: Option<u64>,
    pub(super) time_max: Duration,
    /// The part of that which was used before the turn was last suspended.
    pub(super) worked: Duration,
    /// The job of which the turn is a run in a conversation with people.
    pub(super) job: Option<i64>,
    /// It ends when quiet hours begin: a heartbeat run that nobody asked for.
    pub(super) keeps_quiet: bool,
    /// A person began the turn and can be asked: no run of a job, and no heartbeat run.
    pub(super) is_attended: bool,
    /// The call that somebody has allowed, for which alone the turn is.
    pub(super) approved: Option<ApprovedCall>,
}

impl TurnPart {
    /// The part of a turn; none if it works for a background task that has ended without it.
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
        let look = move |store: &Connection| {
            let run = schedule::of_turn(store, turn)?;
            Ok((run.map(|run| run.job.id.0), transcript::worked(store, turn)?))
        };
        let (job, worked) = turns.services.bus.store.read(look).await?;
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
        let kind = background::of(kind);
        let Some(limits) = kind.limits(turns, number, turn).await? else { return Ok(None) };
        let TaskLimits { people_at, steps_max, tokens_max, keeps_quiet } = limits;
        let look = move |store: &Connection| {
            let approved = kind.approved_call(store, number)?;
            Ok((transcript::worked(store, turn)?, approved, kind.is_attended(store, number)?))
        };
        let (worked, approved, is_attended) = turns.services.bus.store.read(look).await?;
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
    pub(super) fn too_slow(&self) -> String {
        match self.background {
            None => replies::SOMETHING_BROKE.to_owned(),
            Some(_) => replies::task_too_slow(self.time_max),
        }
    }
}

impl<'a> ActiveTurn<'a> {
    /// A turn that is ready to run; none of a background task that has ended without it.
    pub(super) async fn assemble(
        turns: &'a TurnServices,
        session: Session,
        turn: TurnId,
        asker: Requester,
        handles: TurnHandles,
    ) -> Result<Option<Self>, TurnError> {
        let Some(part) = TurnPart::of(turns, &session, turn).await? else {
            commits::answer(
                &turns.services.bus.store,
                turn,
                None,
                TurnEnd::silent(&session.origin),
            )
            .await?;
            return Ok(None);
        };
        handles.draft.send_modify(|draft| {
            (draft.turn, draft.reply_to) = (Some(turn), asker.reply_to.clone());
        });
        // No model goes by what the owner has not been shown.
        turns.instruction_watcher.look().await?;
        turns.tools.arrived().await;
        let base = instructions::base(turns, &session, asker.speaker(), part.caller).await;
        let PromptBase { system, facts, tools, tools_tokens, context_window } = base;
        let payer = payer(&turns.services, &session, &asker, &part).await?;
        let provider = turns.models.for_session(&session);
        Ok(Some(Self {
            fixed_tokens: tokens::fixed_tokens(&system, session.summary.as_deref()),
            in_use: turns.models.all.in_use.enter(provider.name()),
            provider,
            fitted: context_window,
            wait: None,
            payer,
            granted: Granted::default(),
            attempts: Attempts::Usual,
            thought: String::new(),
            reported: Vec::new(),
            pending: Vec::new(),
            invoked: InvokedSkills::new(),
            turns,
            session,
            turn,
            part,
            asker,
            handles,
            system,
            facts,
            tools,
            tools_tokens,
            begun: Instant::now(),
            spent: Usage::default(),
        }))
    }
}

/// On whose account the turn calls models.
async fn payer(
    services: &Services,
    session: &Session,
    asker: &Requester,
    part: &TurnPart,
) -> Result<Payer, TurnError> {
    let origin = &session.origin;
    let person = person_on(services, origin.channel(), &asker.sender).await?;
    let (cause, job) = match origin.task() {
        Some(TaskId { kind, number }) => {
            (CallCause::Task(kind), (kind == TaskKind::Job).then_some(number))
        }
        None if part.job.is_some() => (CallCause::Task(TaskKind::Job), part.job),
        None => (CallCause::Chat, None),
    };
    let persona = session.persona.name;
    Ok(Payer { person, role: asker.role, cause, job, persona })
}
