//! Jobs: work for later, once or repeated, and the task that runs it. Due times are computed purely; runs
//! are claimed and settled in the store. The task sleeps until the next due time, a change of the jobs, or
//! a change of the clock.

mod clock;
mod command;
mod cost;
mod work;
mod webhook_calls;
mod due;
mod job;
mod listings;
mod file_mentions;
mod needs;
mod note;
mod operation;
mod pass;
mod payload;
mod reader;
mod time_parser;
mod run;
mod settling;
mod state_folders;
mod timing;
mod preapproved_calls;
mod request;
mod running_commands;

use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub use clock::{Clock, believed, is_sane, pruned_until, release};
pub use command::{CommandResult, Commands};
pub use cost::{JobCost, expected_cost, runs_a_month};
pub use due::{Due, DueAction, LATE_AFTER, after_failures, due, recomputed_due};
pub use file_mentions::{pause_those_naming, paused_naming};
pub use job::{
    Job, JobDefinition, JobId, JobScope, JobState, Missed, due_soon, get, list, remove_all_of,
};
pub use listings::{job_listing, listing, runs_listing};
pub use needs::CommandNeeds;
pub use note::{RunMessage, note};
pub use operation::{CommandFor, JOBS_MAX, JobOperation, add, handle, may_repeat_untrusted};
pub use pass::{JobPersonas, JobTerms, PassInputs, PassResult, pass, recompute_due_times};
pub use payload::{JobConversation, Payload, WebhookBody};
pub use preapproved_calls::PreapprovedCalls;
pub use reader::{chat_kind_for, has_lost_reader, is_paused_without_reader, pause_without_reader};
pub use request::{JobRequest, JobRequestKind, JobRequester, is_named_time};
pub(super) use run::prune;
pub use run::{
    AT_ONCE_MAX, CommandRun, HISTORY_MAX, PastRun, Run, begin_command, find_job_run, find_turn_run,
    history, list_command_runs, running_for, running_of, running_to,
};
pub use settling::{FAILURES_MAX, FAILURES_TOLD, settle};
pub use time_parser::{at, cron, every, zone, zone_in};
pub use timing::{EVERY_MIN, Timing, midnight, moment};
pub use webhook_calls::{
    WebhookCall, WebhookCallAction, WebhookCallOutcome, accept_webhook_call, prune_webhook_calls,
};
pub use work::{end_command, message_for_people};

use crate::bus::{journal, outbox};
use crate::conversation::transcript;
use crate::people;
use crate::replies;
use crate::services::Services;
use crate::store::{StoreError, Sync};
use crate::tasks::table;
use crate::trust::instruction_watch::InstructionWatcher;
use running_commands::RunningCommands;

/// The pause of the task when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// Time after which a clock that is behind the newest time in the store is trusted, unless somebody sets it.
const DISTRUST_MAX: Duration = Duration::from_secs(15 * 60);

/// Least step back that counts as setting the clock.
const SET_BACK_MIN: chrono::Duration = chrono::Duration::minutes(1);

/// The scheduler of jobs.
#[derive(Clone)]
pub struct Scheduler {
    pub services: Services,
    pub inputs: PassInputs,
    pub clock: Clock,
    /// Reports to the owner which instructions commands have changed.
    pub instruction_watcher: InstructionWatcher,
}

impl Scheduler {
    pub fn new(
        services: &Services,
        commands: Option<Commands>,
        clock: Clock,
        instruction_watcher: &InstructionWatcher,
        personas: JobPersonas,
    ) -> Self {
        let inputs = PassInputs {
            people: services.bus.people.clone(),
            channels: services.channels.keys().cloned().collect(),
            commands,
            zone: services.zone,
            personas,
        };
        Self {
            services: services.clone(),
            inputs,
            clock,
            instruction_watcher: instruction_watcher.clone(),
        }
    }
}

/// Returns the time zone of this machine. UTC if it is unknown.
pub fn system_zone() -> Tz {
    let named = iana_time_zone::get_timezone().ok();
    named.and_then(|name| zone(&name).ok()).unwrap_or(Tz::UTC)
}

/// Claims due jobs until `stop`. The agent loop works on claimed runs, and child tasks of this one run commands.
pub async fn run(scheduler: Scheduler, stop: CancellationToken) {
    let mut woken = scheduler.services.bus.jobs.watch();
    let mut watch = ClockWatch { newest: None, asked: false, distrusts: None, seen: None };
    let mut commands = RunningCommands::default();
    loop {
        woken.mark_unchanged();
        let now = scheduler.clock.now();
        let checked = async {
            let wake = scheduler.look(&mut watch, now).await?;
            commands.follow(&scheduler, now).await?;
            Ok::<_, StoreError>(wake)
        };
        let wake = match checked.await {
            Ok(wake) => Ok(wake),
            Err(error) => {
                tracing::error!(%error, "The scheduler failed and pauses");
                Err(STORE_PAUSE)
            }
        };
        let wait = async {
            match wake {
                Err(pause) => sleep(pause).await,
                Ok(NextLook { at, within: None }) => scheduler.clock.reaches(at, now).await,
                Ok(NextLook { at, within: Some(within) }) => {
                    tokio::select! {
                        () = scheduler.clock.reaches(at, now) => {}
                        () = sleep(within) => {}
                    }
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => return commands.end().await,
            () = wait => {}
            Some(()) = commands.next_ended() => scheduler.wake(),
            changed = woken.changed() => if changed.is_err() { return },
        }
    }
}

/// The time of the next check.
struct NextLook {
    /// Time by the clock. None means when the clock is set.
    at: Option<DateTime<Utc>>,
    /// Maximum time until the check, whatever the clock shows.
    within: Option<Duration>,
}

/// The knowledge of the task about the clock.
struct ClockWatch {
    /// The newest time in the store when the task began. None once the clock is trusted.
    newest: Option<DateTime<Utc>>,
    /// True once `newest` was read from the store.
    asked: bool,
    /// Time since which the clock is not trusted.
    distrusts: Option<Instant>,
    /// The last trusted time.
    seen: Option<DateTime<Utc>>,
}

impl Scheduler {
    async fn look(
        &self,
        watch: &mut ClockWatch,
        now: DateTime<Utc>,
    ) -> Result<NextLook, StoreError> {
        let store = &self.services.bus.store;
        if !watch.asked {
            watch.newest = store.read(newest).await?;
            watch.asked = true;
        }
        if !self.believes(watch, now).await? {
            let since = watch.distrusts.map_or(Duration::ZERO, |since| since.elapsed());
            let within = (now >= release()).then(|| DISTRUST_MAX.saturating_sub(since));
            return Ok(NextLook { at: None, within });
        }
        let was_set_back = watch.seen.is_some_and(|seen| now < seen - SET_BACK_MIN);
        if was_set_back || watch.seen.is_none() {
            let recompute = move |store: &Connection| recompute_due_times(store, now);
            if store.read(move |store| pass::is_out(store, now)).await? {
                store.write("jobs recomputed", Sync::Later, recompute).await?;
            }
        }
        watch.seen = Some(now);
        let inputs = self.inputs.clone();
        let look = move |store: &Connection| pass::look(store, now, &inputs);
        let PassResult { needs, wake, .. } = store.read(look).await?;
        if !needs {
            return Ok(NextLook { at: wake, within: None });
        }
        let inputs = self.inputs.clone();
        let claim = move |store: &Connection| pass(store, now, &inputs);
        let PassResult { wake, .. } = store.write("jobs claimed", Sync::Now, claim).await?;
        self.wake();
        Ok(NextLook { at: wake, within: None })
    }

    /// Wakes the agent loop and the delivery.
    fn wake(&self) {
        self.services.bus.inbox.notify();
        self.services.bus.outbox.notify();
    }

    /// Returns true if the clock can be right. Reports a wrong clock once.
    async fn believes(
        &self,
        watch: &mut ClockWatch,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let has_waited = watch.distrusts.is_some_and(|since| since.elapsed() >= DISTRUST_MAX);
        if is_sane(now, watch.newest) || (has_waited && now >= release()) {
            if watch.distrusts.take().is_some() {
                tracing::info!(%now, "The clock is trusted again, jobs continue");
            }
            watch.newest = None;
            return Ok(true);
        }
        if watch.distrusts.is_none() {
            watch.distrusts = Some(Instant::now());
            tracing::warn!(%now, "The clock is wrong, jobs wait until it is set");
            let tell_owner = move |store: &Connection| {
                let owner = people::owner_address(store)?;
                match (owner, list(store, &JobScope::All)?.is_empty()) {
                    (Some(owner), false) => {
                        outbox::put(store, &owner, None, &replies::clock_is_wrong(now)).map(drop)
                    }
                    _ => Ok(()),
                }
            };
            self.services.bus.store.write("clock is wrong", Sync::Later, tell_owner).await?;
            self.services.bus.outbox.notify();
        }
        Ok(false)
    }
}

/// Returns the newest time in the store.
pub fn newest(store: &Connection) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let of_turns = transcript::last_started(store)?;
    Ok(journal::last_received(store)?.max(of_turns).max(table::last_begun(store)?))
}
