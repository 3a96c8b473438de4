//! One look at all jobs: what is due is claimed and begun, what was missed is skipped or made up for,
//! and what ended without a word is settled. With a time as its argument, so that it can be led through
//! a year in a second.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use super::due::{self, Due, What};
use super::job::{self, Job, JobId, Payload, State};
use super::run::{self, AT_ONCE_MAX, Ended, Run};
use crate::bus::outbox;
use crate::message::ChannelName;
use crate::people::{self, People, Role};
use crate::replies;

/// What a pass has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Something is to be done now.
    pub needs: bool,
    /// Runs that were claimed.
    pub claimed: usize,
    /// When something is due next.
    pub wake: Option<DateTime<Utc>>,
}

/// Jobs whose channels are here.
fn served(store: &Connection, channels: &BTreeSet<ChannelName>) -> rusqlite::Result<Vec<Job>> {
    let mut jobs = job::active(store)?;
    jobs.retain(|job| channels.contains(&job.to.channel) && channels.contains(&job.known_on));
    Ok(jobs)
}

/// Whether a due job can begin while these work; when one of them has ended, is looked again.
fn may_begin(job: &Job, running: &[JobId]) -> bool {
    let costs = !matches!(job.payload, Payload::Message(_));
    !running.contains(&job.id) && (!costs || running.len() < AT_ONCE_MAX)
}

/// Looks whether something is to be done.
pub(super) fn look(
    store: &Connection,
    now: DateTime<Utc>,
    channels: &BTreeSet<ChannelName>,
) -> rusqlite::Result<Passed> {
    let jobs = served(store, channels)?;
    let (due, wake) = due::due(&jobs, now);
    let running = run::running(store)?;
    let can_begin =
        |due: &Due| jobs.iter().any(|job| job.id == due.job && may_begin(job, &running));
    let needs =
        due.iter().any(can_begin) || (!running.is_empty() && !run::stray(store)?.is_empty());
    Ok(Passed { needs, claimed: 0, wake })
}

/// Claims and begins what is due, in the transaction around it.
pub fn pass(
    store: &Connection,
    now: DateTime<Utc>,
    people: &People,
    channels: &BTreeSet<ChannelName>,
) -> rusqlite::Result<Passed> {
    for (run, ended) in run::stray(store)? {
        run::settle(store, &run, ended, None, now)?;
    }
    let jobs = served(store, channels)?;
    let (due, _) = due::due(&jobs, now);
    let mut running = run::running(store)?;
    let mut claimed = 0;
    for due in due {
        let Some(job) = jobs.iter().find(|job| job.id == due.job) else { continue };
        if !may_begin(job, &running) {
            continue;
        }
        let role = people.role_of(store, &job.known_on, &job.sender.id)?;
        if role < Some(Role::User) {
            disown(store, job)?;
            continue;
        }
        if begin(store, job, &due, now)? {
            claimed += 1;
            running.extend(run::of_job(store, job.id)?.map(|run| run.job.id));
        }
    }
    let (_, wake) = due::due(&served(store, channels)?, now);
    Ok(Passed { needs: false, claimed, wake })
}

/// Begins a run; false if that due time was claimed before.
fn begin(store: &Connection, job: &Job, due: &Due, now: DateTime<Utc>) -> rusqlite::Result<bool> {
    let late = due.what == What::RunLate;
    let mut job = job.clone();
    (job.next, job.last) = (due.next, Some(due.at));
    job::update(store, &job)?;
    let Some(id) = run::claim(store, job.id, (due.at, late), now)? else {
        // There is nothing left to be done, and it would be listed for ever.
        if job.next.is_none() {
            job.state = State::Done;
            job::update(store, &job)?;
        }
        return Ok(false);
    };
    let run = Run { id, job, due: due.at, late };
    match due.what {
        What::Skip => run::settle(store, &run, Ended::Skipped, None, now)?,
        What::Run | What::RunLate => run::begin(store, &run, now)?,
    }
    Ok(true)
}

/// Nothing is done for somebody who was shut out: their job is paused, and the owner told.
fn disown(store: &Connection, job: &Job) -> rusqlite::Result<()> {
    let why = replies::JOB_OF_NOBODY.to_owned();
    job::update(store, &Job { state: State::Paused, why: Some(why), ..job.clone() })?;
    if let Some(owner) = people::owner_place(store)? {
        let words = replies::job_of_nobody(job.id, job.payload.text(), &job.sender);
        outbox::put(store, &owner, None, &words)?;
    }
    Ok(())
}

/// Jobs that are due at another time than they would be if that were reckoned now.
fn out(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<Vec<Job>> {
    let jobs = job::active(store)?.into_iter();
    let reckoned = jobs.map(|job| (due::reckoned(&job, now), job));
    let out = reckoned.filter(|(next, job)| *next != job.next);
    Ok(out.map(|(next, job)| Job { next, ..job }).collect())
}

pub(super) fn is_out(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<bool> {
    Ok(!out(store, now)?.is_empty())
}

/// Reckons anew when each job is due: the clock was set back.
pub fn reckon_all(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<()> {
    out(store, now)?.iter().try_for_each(|job| job::update(store, job))
}
