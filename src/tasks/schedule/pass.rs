//! One pass over all jobs: due ones are claimed and begun, missed ones are skipped or run late, and stray
//! runs are settled. The time is an argument, so that a test can simulate a year in a second. Each job is
//! handled in a savepoint: one that fails is paused, and the others go on.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::outbox;
use crate::people::{self, People, Role};
use crate::replies;
use crate::store::in_savepoint;
use crate::tasks::outcome::TaskOutcome;
use crate::tasks::schedule::command::Commands;
use crate::tasks::schedule::due::{self, Due, DueAction};
use crate::tasks::schedule::job::{self, Job, JobId, JobState, UnreadableJob};
use crate::tasks::schedule::payload::Payload;
use crate::tasks::schedule::reader;
use crate::tasks::schedule::run::{self, AT_ONCE_MAX, Run, WorkingJob};
use crate::tasks::schedule::settling::{settle, settle_unreadable};
use crate::tasks::schedule::work;
use crate::types::message::ChannelName;

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassResult {
    /// True if a pass is needed now.
    pub needs: bool,
    /// Number of runs that were claimed.
    pub claimed: usize,
    /// The next due time.
    pub wake: Option<DateTime<Utc>>,
}

/// The terms of a job under its person's persona.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTerms {
    /// The end of the current quiet hours.
    pub quiet_until: Option<DateTime<Utc>>,
    pub may_command: bool,
}

impl Default for JobTerms {
    fn default() -> Self {
        Self { quiet_until: None, may_command: true }
    }
}

type TermsLook =
    dyn Fn(&Connection, &Job, DateTime<Utc>) -> rusqlite::Result<JobTerms> + Send + Sync;

/// Looks up the terms of jobs. By default nothing is restricted.
#[derive(Clone, Default)]
pub struct JobPersonas(Option<Arc<TermsLook>>);

impl JobPersonas {
    pub fn new(
        look: impl Fn(&Connection, &Job, DateTime<Utc>) -> rusqlite::Result<JobTerms>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Some(Arc::new(look)))
    }

    fn terms(
        &self,
        store: &Connection,
        job: &Job,
        now: DateTime<Utc>,
    ) -> rusqlite::Result<JobTerms> {
        self.0.as_ref().map_or(Ok(JobTerms::default()), |look| look(store, job, now))
    }
}

/// The inputs of a pass, in addition to the store and the time.
#[derive(Clone)]
pub struct PassInputs {
    pub people: People,
    /// The channels of this daemon. Jobs of other channels wait until theirs exist.
    pub channels: BTreeSet<ChannelName>,
    /// The configuration for commands. None if jobs may run none.
    pub commands: Option<Commands>,
    /// The owner's time zone.
    pub zone: Tz,
    pub personas: JobPersonas,
}

/// The due jobs.
struct DueJobs {
    jobs: Vec<Job>,
    unreadable: Vec<UnreadableJob>,
    /// The earliest end of quiet hours for which other jobs wait.
    quiet_until: Option<DateTime<Utc>>,
}

impl PassInputs {
    /// Returns the due jobs whose channels exist, and those that cannot be read.
    fn due(&self, store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<DueJobs> {
        let (all, unreadable) = job::due_until(store, now)?;
        let mut due = DueJobs { jobs: Vec::new(), unreadable, quiet_until: None };
        for job in all.into_iter().filter(|job| self.serves(job)) {
            match self.personas.terms(store, &job, now)?.quiet_until {
                None => due.jobs.push(job),
                until => due.quiet_until = earlier(due.quiet_until, until),
            }
        }
        Ok(due)
    }

    /// Returns true if this daemon has a job's channels.
    pub(super) fn serves(&self, job: &Job) -> bool {
        let is_here = |name: &ChannelName| self.channels.contains(name);
        is_here(&job.definition.to.channel) && is_here(&job.definition.known_on)
    }
}

fn earlier(one: Option<DateTime<Utc>>, other: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    one.into_iter().chain(other).min()
}

/// Returns true if a due job can begin while these are working. It is checked again when one of them ends.
fn may_begin(job: &Job, working: &[WorkingJob]) -> bool {
    let needs_slot = !matches!(job.definition.payload, Payload::Message(_));
    let slots_taken = working.iter().filter(|run| run.counts).count();
    working.iter().all(|run| run.job != job.id) && (!needs_slot || slots_taken < AT_ONCE_MAX)
}

/// Checks if a pass is needed. Changes nothing.
pub(super) fn look(
    store: &Connection,
    now: DateTime<Utc>,
    inputs: &PassInputs,
) -> rusqlite::Result<PassResult> {
    let DueJobs { jobs, unreadable, quiet_until } = inputs.due(store, now)?;
    let due = due::due(&jobs, now);
    let working = run::working(store, &inputs.channels)?;
    let can_begin =
        |due: &Due| jobs.iter().any(|job| job.id == due.job && may_begin(job, &working));
    let needs = !unreadable.is_empty()
        || (!working.is_empty() && !run::list_unreadable(store)?.is_empty())
        || due.iter().any(can_begin)
        || (!working.is_empty() && !run::stray(store)?.is_empty());
    let wake = earlier(job::next_due(store, now, &inputs.channels)?, quiet_until);
    Ok(PassResult { needs, claimed: 0, wake })
}

/// Claims and begins due jobs, in the transaction around it.
pub fn pass(
    store: &Connection,
    now: DateTime<Utc>,
    inputs: &PassInputs,
) -> rusqlite::Result<PassResult> {
    for (run, ended) in run::stray(store)? {
        let settled = in_savepoint(store, || settle(store, &run, ended, None, now))?;
        settled.or_else(|why| give_up(store, run.job.id, &why, now))?;
    }
    let DueJobs { jobs, mut unreadable, quiet_until } = inputs.due(store, now)?;
    let unread = run::list_unreadable(store)?.into_iter();
    let others: Vec<_> =
        unread.filter(|job| unreadable.iter().all(|known| known.id != job.id)).collect();
    unreadable.extend(others);
    for UnreadableJob { id, why } in unreadable {
        give_up(store, id, &why, now)?;
    }
    let due = due::due(&jobs, now);
    let mut working = run::working(store, &inputs.channels)?;
    let mut claimed = 0;
    for due in due {
        let Some(job) = jobs.iter().find(|job| job.id == due.job) else { continue };
        if !may_begin(job, &working) {
            continue;
        }
        match in_savepoint(store, || claim(store, job, &due, now, inputs))? {
            Ok(false) => {}
            Ok(true) => {
                claimed += 1;
                if run::find_job_run(store, job.id)?.is_some() {
                    working.push(WorkingJob { job: job.id, counts: true });
                }
            }
            Err(why) => give_up(store, job.id, &why, now)?,
        }
    }
    let wake = earlier(job::next_due(store, now, &inputs.channels)?, quiet_until);
    Ok(PassResult { needs: false, claimed, wake })
}

/// Pauses a job that cannot be read or saved, and notifies the owner.
fn give_up(store: &Connection, id: JobId, why: &str, now: DateTime<Utc>) -> rusqlite::Result<()> {
    tracing::error!(job = %id, why, "Paused a job that cannot be read or saved");
    settle_unreadable(store, id, why, now)?;
    if job::pause(store, id, replies::JOB_BREAKS)?
        && let Some(owner) = people::owner_address(store)?
    {
        outbox::put(store, &owner, None, &replies::job_breaks(id, why))?;
    }
    Ok(())
}

/// Claims and begins a run if its person still has the rights for it. Returns false if they have not, or if the due time
/// was claimed before.
fn claim(
    store: &Connection,
    job: &Job,
    due: &Due,
    now: DateTime<Utc>,
    inputs: &PassInputs,
) -> rusqlite::Result<bool> {
    let stored_kind = job.definition.chat_kind;
    let restricted = reader::restrict(store, &inputs.people, job)?;
    let job = &*restricted;
    let (definition, about) = (&job.definition, job.definition.payload.text());
    let role = inputs.people.role_of(store, &definition.known_on, &definition.sender.id)?;
    let Some(role) = role.filter(|role| *role >= Role::User) else {
        let notice = replies::job_person_without_access(job.id, about, &definition.sender);
        disown(store, job, replies::PERSON_WITHOUT_ACCESS, &notice)?;
        return Ok(false);
    };
    if reader::has_lost_reader(store, &inputs.people, &definition.to)? {
        reader::pause_without_reader(store, job)?;
        return Ok(false);
    }
    if definition.payload.command().is_some() {
        let permission = match &inputs.commands {
            None => Err(replies::COMMANDS_NOT_OFFERED.to_owned()),
            Some(_) if !inputs.personas.terms(store, job, now)?.may_command => {
                Err(replies::COMMANDS_NOT_OF_PERSONA.to_owned())
            }
            Some(commands) => commands
                .permitted_audience(role, definition.chat_kind)
                .and_then(|_| commands.check_needs(&definition.needs)),
        };
        if let Err(why) = permission {
            let notice = replies::job_may_not_command(job.id, about, &why);
            disown(store, job, &why, &notice)?;
            return Ok(false);
        }
    }
    if definition.chat_kind != stored_kind
        && let Some(owner) = people::owner_address(store)?
    {
        let notice = replies::job_works_as_in_a_group(job.id, &definition.to);
        outbox::put(store, &owner, None, &notice)?;
    }
    // This stores the job as it may run now.
    begin(store, restricted.into_owned(), due, now, inputs.zone)
}

fn begin(
    store: &Connection,
    mut job: Job,
    due: &Due,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<bool> {
    let late = due.what == DueAction::RunLate;
    (job.next, job.last) = (due.next, Some(due.at));
    job::update(store, &job)?;
    let Some(id) = run::claim(store, &job, due.at, late, now)? else {
        // No due time is left, and the job would stay in lists otherwise.
        if job.next.is_none() {
            job.state = JobState::Done;
            job::update(store, &job)?;
        }
        return Ok(false);
    };
    let run = Run { id, job, due: due.at, late, row: None, turn: None, is_here: false };
    match due.what {
        DueAction::Skip => settle(store, &run, TaskOutcome::Skipped, None, now)?,
        DueAction::Run | DueAction::RunLate => work::begin(store, &run, now, zone)?,
    }
    Ok(true)
}

/// Pauses a job whose person lacks the rights for it, and notifies the owner.
fn disown(store: &Connection, job: &Job, why: &str, words: &str) -> rusqlite::Result<()> {
    job::pause(store, job.id, why)?;
    if let Some(owner) = people::owner_address(store)? {
        outbox::put(store, &owner, None, words)?;
    }
    Ok(())
}

/// Returns the jobs whose stored due time differs from a new computation, with the new one.
fn jobs_to_update(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<Vec<Job>> {
    let jobs = job::active(store)?.0.into_iter();
    let recomputed = jobs.map(|job| (due::recomputed_due(&job, now), job));
    let changed = recomputed.filter(|(next, job)| *next != job.next);
    Ok(changed.map(|(next, job)| Job { next, ..job }).collect())
}

pub(super) fn is_out(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<bool> {
    Ok(!jobs_to_update(store, now)?.is_empty())
}

/// Computes all due times anew, after the clock was set back.
pub fn recompute_due_times(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<()> {
    jobs_to_update(store, now)?.iter().try_for_each(|job| job::update(store, job))
}
