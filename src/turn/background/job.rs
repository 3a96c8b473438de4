//! The turns of runs of jobs in a session of their own: what comes of one is sent to the address that asked,
//! whose conversation knows of it when it is next spoken to.

use async_trait::async_trait;
use chrono::Utc;
use rusqlite::Connection;

use super::{Background, Limits, TOKENS_MAX, TaskEnd};
use crate::bus::outbox;
use crate::conversation::transcript;
use crate::replies;
use crate::store::StoreError;
use crate::tasks::Ended;
use crate::tasks::schedule::{self, JobId, Run};
use crate::tools::TaskTools;
use crate::turn::instructions::rules;
use crate::turn::prompt;
use crate::turn::services::TurnServices;
use crate::types::message::{Address, SenderId};
use crate::types::origin::Origin;
use crate::types::session::TurnId;
use crate::workspace::Audience;

pub(super) struct JobRun;

#[async_trait]
impl Background for JobRun {
    fn tools(&self) -> TaskTools {
        TaskTools::JOB
    }

    async fn limits(
        &self,
        turns: &TurnServices,
        number: i64,
        _: TurnId,
    ) -> Result<Option<Limits>, StoreError> {
        let look = move |store: &Connection| schedule::of_job(store, JobId(number));
        Ok(turns.services.bus.store.read(look).await?.map(|run| Limits {
            people_at: run.job.brief.to,
            steps_max: turns.config.subagent_steps_max,
            tokens_max: TOKENS_MAX,
            keeps_quiet: false,
        }))
    }

    async fn system(&self, turns: &TurnServices, audience: Audience) -> Vec<String> {
        let files: &[_] = match audience {
            Audience::Owner => &["AGENTS.md", "SOUL.md", "USER.md"],
            Audience::Others => &["AGENTS.md", "SOUL.md"],
        };
        prompt::job_system(&rules(&turns.services, files).await)
    }

    fn gave_up(&self) -> &'static str {
        replies::JOB_CUT_OFF
    }

    fn broke(&self) -> &'static str {
        replies::JOB_BROKE
    }

    fn settle(&self, store: &Connection, number: i64, end: &TaskEnd<'_>) -> rusqlite::Result<()> {
        let Some(run) = schedule::of_job(store, JobId(number))? else { return Ok(()) };
        if let (Ended::Done, Some(result)) = (end.how, end.result) {
            let words = schedule::told(&run, result, end.zone);
            outbox::put(store, &run.job.brief.to, None, &words)?;
            if let Some(turn) = end.turn {
                let (sender, provider) = transcript::who_answers_whom(store, turn)?;
                schedule::note(store, &run, (&sender, &provider), (result, end.tainted))?;
            }
        }
        schedule::settle(store, &run, end.how, end.result, Utc::now())
    }

    fn running_for(
        &self,
        store: &Connection,
        at: &Address,
        whose: Option<&SenderId>,
    ) -> rusqlite::Result<Vec<Origin>> {
        Ok(schedule::running_for(store, at, whose)?.iter().map(Run::origin).collect())
    }
}
