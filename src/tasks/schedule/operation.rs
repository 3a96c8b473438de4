//! Requests about jobs from people and models. One function carries them out in one transaction, for the tool, the chat
//! command and the command line.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::conversation::ledger::USAGE_PERIOD;
use crate::conversation::ledger::sums::{LedgerFilter, spent_since};
use crate::replies::{self, JobShown, ListedRun, RunSummary, time_relative_to};
use crate::tasks::schedule::cost::expected_cost;
use crate::tasks::schedule::job::{self, Job, JobDefinition, JobId, JobScope, JobState, Missed};
use crate::tasks::schedule::needs::CommandNeeds;
use crate::tasks::schedule::payload::{JobConversation, Payload};
use crate::tasks::schedule::preapproved_calls::PreapprovedCalls;
use crate::tasks::schedule::request::{JobRequestKind, payload};
use crate::tasks::schedule::run;
use crate::tasks::schedule::timing::Timing;
use crate::types::message::ChatKind;

/// Maximum number of active and paused jobs of one person.
pub const JOBS_MAX: usize = 50;

/// Maximum number of runs that are shown.
pub(super) const SHOWN_MAX: i64 = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOperation {
    Add(Box<JobDefinition>),
    List,
    Show(JobId),
    Edit(JobId, JobChange),
    Pause(JobId),
    Resume(JobId),
    Remove(JobId),
    /// Runs the job at once, instead of at its next time.
    Run(JobId),
    History(JobId),
}

impl JobOperation {
    /// Returns the job that gets a command: an existing one, or the kind of chat of a new one. None if the order sets no
    /// command.
    pub fn command_for(&self) -> Option<CommandFor> {
        match self {
            Self::Add(definition) => {
                let has_command = definition.payload.command().is_some();
                has_command.then_some(CommandFor::New(definition.chat_kind))
            }
            Self::Edit(id, change) => {
                let check = change.check.as_ref().is_some_and(|check| !check.is_empty());
                let has_command = check
                    || change.kind == Some(JobRequestKind::Command)
                    || !change.needs.is_none();
                has_command.then_some(CommandFor::Job(*id))
            }
            Self::List
            | Self::Show(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Remove(_)
            | Self::Run(_)
            | Self::History(_) => None,
        }
    }

    /// Returns the needs that it names for a command.
    pub fn needs(&self) -> Option<&CommandNeeds> {
        match self {
            Self::Add(definition) => Some(&definition.needs),
            Self::Edit(_, change) => Some(&change.needs),
            _ => None,
        }
    }
}

/// The job that gets a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandFor {
    /// A new job, for this kind of chat.
    New(ChatKind),
    Job(JobId),
}

/// The changes of a job. A field that is None stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobChange {
    pub timing: Option<Timing>,
    pub text: Option<String>,
    pub kind: Option<JobRequestKind>,
    pub missed: Option<Missed>,
    /// Empty removes the check.
    pub check: Option<String>,
    /// The needs of the given command; without one, those of the present command, if any are named.
    pub needs: CommandNeeds,
    /// The calls that the given text may make unasked; without one, those of the present text, if any are named.
    pub unasked: PreapprovedCalls,
    /// True if its author has read untrusted content.
    pub tainted: bool,
}

/// Carries out an order on the jobs that a person may see. Returns the answer, or an explanation why it
/// failed.
pub fn handle(
    store: &Connection,
    whose: &JobScope,
    order: JobOperation,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<Result<String, String>> {
    let shown = |job: &Job| shown(job, whose, now.with_timezone(&zone));
    let id = match order {
        JobOperation::Add(definition) => {
            return Ok(add(store, &definition, now, zone)?.map(|(_, words)| words));
        }
        JobOperation::List => {
            let jobs = job::list(store, whose)?;
            let show_with_cost = |job: &Job| {
                let part = LedgerFilter::Job(job.id.0);
                let cost = spent_since(store, part, now - USAGE_PERIOD)?.cost;
                let cost = (cost.0 > 0).then(|| cost.to_string());
                let expected = expected_cost(store, job, now)?;
                let expected = expected.map(|cost| replies::job_expected(cost.run.0, cost.month.0));
                Ok(JobShown { cost, expected, ..shown(job) })
            };
            let shown: Vec<_> = jobs.iter().map(show_with_cost).collect::<rusqlite::Result<_>>()?;
            return Ok(Ok(replies::jobs(&shown)));
        }
        JobOperation::Show(id)
        | JobOperation::Edit(id, _)
        | JobOperation::Pause(id)
        | JobOperation::Resume(id)
        | JobOperation::Remove(id)
        | JobOperation::Run(id)
        | JobOperation::History(id) => id,
    };
    let Some(mut job) = job::get(store, id, whose)? else {
        let removed =
            order == JobOperation::Remove(id) && job::remove_unreadable(store, id, whose)?;
        return Ok(if removed { Ok(replies::job_removed(id)) } else { Err(replies::no_job(id)) });
    };
    let words = match order {
        JobOperation::Show(_) | JobOperation::History(_) if whose.hides(&job) => {
            return Ok(Ok(replies::job_whole(&shown(&job), replies::PRIVATE_JOB)));
        }
        JobOperation::Show(_) => {
            let text = match &job.definition.payload {
                Payload::Prompt { text, check: Some(check), .. } => {
                    &replies::job_with_check(text, check)
                }
                Payload::Command(command) => &replies::job_command(command),
                payload => payload.text(),
            };
            return Ok(Ok(replies::job_whole(&shown(&job), text)));
        }
        JobOperation::History(_) => {
            let runs = run::history(store, id, SHOWN_MAX)?;
            let lines = runs.iter().map(|past| {
                let words = past.words.as_deref().unwrap_or_default();
                let words = match past.has_failed() {
                    true => RunSummary::Own(words),
                    false => RunSummary::Quoted(words),
                };
                let due = time_relative_to(now.with_timezone(&zone), past.due);
                ListedRun { due, late: past.late, state: &past.state, words }
            });
            return Ok(Ok(replies::history(id, lines)));
        }
        JobOperation::Edit(_, change) => {
            let revives = job.state == JobState::Done && change.timing.is_some();
            if revives && job::count(store, &job.definition.whose())? >= JOBS_MAX {
                return Ok(Err(replies::too_many_jobs(JOBS_MAX)));
            }
            match edit(&mut job, change, now) {
                Ok(drops_unasked) => replies::job_changed(&shown(&job), drops_unasked),
                Err(words) => return Ok(Err(words)),
            }
        }
        JobOperation::Pause(_) if job.state == JobState::Done => {
            return Ok(Err(replies::job_is_over(id)));
        }
        JobOperation::Pause(_) => {
            job.state = JobState::Paused;
            job.why = None;
            replies::job_paused(id)
        }
        JobOperation::Resume(_) if job.state == JobState::Active => {
            return Ok(Err(replies::job_is_active(id)));
        }
        JobOperation::Resume(_) => match resume(&mut job, now) {
            true => replies::job_resumed(&shown(&job)),
            false => return Ok(Err(replies::job_is_over(id))),
        },
        JobOperation::Remove(_) => {
            (job.state, job.next) = (JobState::Removed, None);
            replies::job_removed_with(id, !job.definition.needs.is_none())
        }
        JobOperation::Run(_) if job.state != JobState::Active => {
            return Ok(Err(replies::job_not_active(id)));
        }
        JobOperation::Run(_) => {
            job.next = Some(now);
            replies::job_runs_now(id)
        }
        JobOperation::Add(_) | JobOperation::List => return Ok(Ok(String::new())),
    };
    job::update(store, &job)?;
    Ok(Ok(words))
}

/// Returns true if the answer to an order may repeat untrusted content of jobs or their outcomes.
pub fn may_repeat_untrusted(
    store: &Connection,
    whose: &JobScope,
    order: &JobOperation,
) -> rusqlite::Result<bool> {
    // What other people wrote for themselves is not for this one's model to do.
    let says_untrusted =
        |job: &Job| !whose.hides(job) && (job.definition.tainted || whose.is_of_others(job));
    let (id, shows_outcomes) = match order {
        // The answer only repeats the person's own words.
        JobOperation::Add(_) => return Ok(false),
        JobOperation::List => return Ok(job::list(store, whose)?.iter().any(says_untrusted)),
        JobOperation::History(id) => (id, true),
        JobOperation::Show(id)
        | JobOperation::Edit(id, _)
        | JobOperation::Pause(id)
        | JobOperation::Resume(id)
        | JobOperation::Remove(id)
        | JobOperation::Run(id) => (id, false),
    };
    // During its work, a model may have read untrusted content.
    let may_be_untrusted = |job: &Job| !matches!(job.definition.payload, Payload::Message(_));
    let job = job::get(store, *id, whose)?;
    Ok(job.is_some_and(|job| says_untrusted(&job) || (shows_outcomes && may_be_untrusted(&job))))
}

/// Adds a job. Returns its number and an answer that describes it, or an explanation why it failed.
pub fn add(
    store: &Connection,
    definition: &JobDefinition,
    now: DateTime<Utc>,
    zone: Tz,
) -> rusqlite::Result<Result<(JobId, String), String>> {
    if job::count(store, &definition.whose())? >= JOBS_MAX {
        return Ok(Err(replies::too_many_jobs(JOBS_MAX)));
    }
    let Some(next) = definition.timing.next_after(now) else {
        return Ok(Err(replies::CRON_NEVER.to_owned()));
    };
    let id = job::insert(store, definition, next, now)?;
    let job = job::find_even_removed(store, id)?;
    let answer =
        job.map(|job| replies::job_made(&shown(&job, &JobScope::All, now.with_timezone(&zone))));
    Ok(Ok((id, answer.unwrap_or_default())))
}

/// Changes a job. Returns true if its calls without approval were dropped with its former text.
fn edit(job: &mut Job, change: JobChange, now: DateTime<Utc>) -> Result<bool, String> {
    let had_unasked = job.definition.payload.unasked().is_some();
    let JobChange { timing, text, kind, missed, check, needs, unasked, tainted } = change;
    let names_more = !needs.is_none() || !unasked.is_none();
    let changes_payload = text.is_some() || kind.is_some() || check.is_some() || names_more;
    let gives_command = kind == Some(JobRequestKind::Command) && text.is_some()
        || check.as_ref().is_some_and(|check| !check.is_empty());
    if timing.is_none() && !changes_payload && missed.is_none() {
        return Err(replies::NOTHING_TO_CHANGE.to_owned());
    }
    let current_kind = match &job.definition.payload {
        // A new command must be named as one: permissions and approval depend on that.
        Payload::Command(_) if kind.is_none() && text.is_some() => {
            return Err(replies::SAY_COMMAND.to_owned());
        }
        // A text must not become a command that was not shown as one for approval.
        payload if is_new_command(payload, kind) && text.is_none() => {
            return Err(replies::NAME_COMMAND.to_owned());
        }
        Payload::Message(_) => JobRequestKind::Message,
        Payload::Command(_) => JobRequestKind::Command,
        Payload::Prompt { session: JobConversation::Own, .. } => JobRequestKind::Prompt,
        Payload::Prompt { session: JobConversation::Here, .. } => JobRequestKind::Here,
    };
    let kind = kind.unwrap_or(current_kind);
    if changes_payload {
        // The calls were approved for one text.
        let kept = job
            .definition
            .payload
            .unasked()
            .filter(|_| text.is_none() && kind == JobRequestKind::Prompt && unasked.is_none());
        let unasked = kept.cloned().unwrap_or(unasked);
        let text = text.unwrap_or_else(|| job.definition.payload.text().to_owned());
        let kept_check = match &job.definition.payload {
            Payload::Prompt { check, .. }
                if matches!(kind, JobRequestKind::Prompt | JobRequestKind::Here) =>
            {
                check.clone()
            }
            _ => None,
        };
        job.definition.payload = payload(kind, text, check.or(kept_check), unasked)?;
        let has_command = job.definition.payload.command().is_some();
        if !has_command && !needs.is_none() {
            return Err(replies::NEEDS_WITHOUT_COMMAND.to_owned());
        }
        // Needs were approved together with one command, and do not apply to another.
        if gives_command || !has_command || !needs.is_none() {
            job.definition.needs = needs;
        }
    }
    if let Some(timing) = timing {
        job.next = timing.next_after(now);
        job.definition.timing = timing;
        job.failures = 0;
        if job.state == JobState::Done {
            job.state = JobState::Active;
        }
    }
    job.definition.missed = missed.unwrap_or(job.definition.missed);
    job.definition.tainted |= tainted;
    Ok(had_unasked && job.definition.payload.unasked().is_none())
}

fn is_new_command(payload: &Payload, kind: Option<JobRequestKind>) -> bool {
    kind == Some(JobRequestKind::Command) && !matches!(payload, Payload::Command(_))
}

/// Resumes a job. Returns false if it is no longer due.
fn resume(job: &mut Job, now: DateTime<Utc>) -> bool {
    if job.state == JobState::Done {
        return false;
    }
    if job.definition.timing.recurs() {
        job.next = job.definition.timing.next_after(now);
    }
    (job.state, job.why, job.failures) = (JobState::Active, None, 0);
    job.next.is_some()
}

/// Returns a job in the form for people and models.
pub(super) fn shown(job: &Job, whose: &JobScope, now: DateTime<Tz>) -> JobShown {
    let is_hidden = whose.hides(job);
    let when = match &job.definition.timing {
        Timing::At(at) => replies::once_at(&time_relative_to(now, *at)),
        Timing::Every { seconds, .. } => replies::every(*seconds),
        Timing::Cron { fields, zone: own } => {
            let elsewhere = (*own != now.timezone()).then(|| own.name());
            replies::by_cron(fields, elsewhere)
        }
    };
    let kind = match &job.definition.payload {
        Payload::Message(_) => Some(replies::JOB_IS_MESSAGE),
        Payload::Command(_) => Some(replies::JOB_IS_COMMAND),
        Payload::Prompt { check: Some(_), .. } => Some(replies::JOB_IS_CHECKED),
        Payload::Prompt { check: None, .. } => None,
    };
    JobShown {
        id: job.id.0,
        when,
        kind,
        about: match is_hidden {
            true => replies::PRIVATE_JOB.to_owned(),
            false => job.definition.payload.text().to_owned(),
        },
        to: job.definition.to.to_string(),
        next: job
            .next
            .filter(|_| job.state == JobState::Active)
            .map(|next| time_relative_to(now, next)),
        paused: (job.state == JobState::Paused).then(|| job.why.clone().unwrap_or_default()),
        failures: job.failures,
        sees: job.definition.needs.words().filter(|_| !is_hidden),
        unasked: job
            .definition
            .payload
            .unasked()
            .filter(|_| !is_hidden)
            .and_then(PreapprovedCalls::words),
        cost: None,
        expected: None,
    }
}
