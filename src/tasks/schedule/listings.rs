//! Jobs and their runs for scripts, as JSON. Times are in RFC 3339.

use chrono::Utc;
use chrono_tz::Tz;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::replies::JobShown;
use crate::tasks::schedule::job::{self, Job, JobId, JobScope, JobState};
use crate::tasks::schedule::operation::{SHOWN_MAX, shown};
use crate::tasks::schedule::payload::Payload;
use crate::tasks::schedule::run;

/// Lists jobs; `next` is null for one that is not due.
pub fn listing(store: &Connection, whose: &JobScope, zone: Tz) -> rusqlite::Result<Vec<Value>> {
    let jobs = job::list(store, whose)?;
    Ok(jobs.iter().map(|job| job_json(job, whose, zone)).collect())
}

/// Returns one job in full, also one that is over. Null if there is none.
pub fn job_listing(
    store: &Connection,
    whose: &JobScope,
    id: JobId,
    zone: Tz,
) -> rusqlite::Result<Value> {
    let Some(job) = job::get(store, id, whose)? else { return Ok(Value::Null) };
    let mut listed = job_json(&job, whose, zone);
    let check = match &job.definition.payload {
        Payload::Prompt { check, .. } if !whose.hides(&job) => check.clone(),
        _ => None,
    };
    listed["check"] = json!(check);
    listed["state"] = json!(job.state);
    Ok(listed)
}

/// Lists the last runs of a job, newest first. Null if there is no such job. Those of a job that is private to another
/// person stay out.
pub fn runs_listing(store: &Connection, whose: &JobScope, id: JobId) -> rusqlite::Result<Value> {
    let Some(job) = job::get(store, id, whose)? else { return Ok(Value::Null) };
    if whose.hides(&job) {
        return Ok(json!([]));
    }
    let runs = run::history(store, id, SHOWN_MAX)?.into_iter().map(|past| {
        json!({
            "due": past.due.to_rfc3339(), "begun": past.claimed.to_rfc3339(), "late": past.late,
            "state": past.state, "words": past.words,
        })
    });
    Ok(runs.collect())
}

fn job_json(job: &Job, whose: &JobScope, zone: Tz) -> Value {
    let JobShown { id, when, kind, about, to, paused, failures, sees, unasked, .. } =
        shown(job, whose, Utc::now().with_timezone(&zone));
    let next = job.next.filter(|_| job.state == JobState::Active).map(|next| next.to_rfc3339());
    json!({
        "id": id, "when": when, "kind": kind.unwrap_or("prompt"), "text": about, "to": to,
        "next": next, "paused": paused, "failures": failures, "sees": sees,
        "unasked": unasked,
    })
}
