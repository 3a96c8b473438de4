//! Jobs that name a file which became untrusted. They are paused until a person resumes them.

use rusqlite::Connection;

use crate::replies;
use crate::tasks::schedule::job::{self, Job, JobId, JobScope, JobState};
use crate::tasks::schedule::payload::Payload;
use crate::workspace::WorkspacePath;

/// Pauses the active jobs whose prompt or command contains the name of one of the files.
pub fn pause_those_naming(store: &Connection, files: &[WorkspacePath]) -> rusqlite::Result<()> {
    for job in job::list(store, &JobScope::All)? {
        if job.state == JobState::Active
            && let Some(file) = first_named_file(&job, files)
        {
            job::pause(store, job.id, &replies::names_marked_file(file))?;
        }
    }
    Ok(())
}

/// Returns the paused jobs that name one of the files.
pub fn paused_naming(store: &Connection, files: &[WorkspacePath]) -> rusqlite::Result<Vec<JobId>> {
    let jobs = job::list(store, &JobScope::All)?.into_iter();
    let is_paused =
        |job: &Job| job.state == JobState::Paused && first_named_file(job, files).is_some();
    Ok(jobs.filter(is_paused).map(|job| job.id).collect())
}

/// Returns the first file whose name occurs in a job's prompt or command.
fn first_named_file<'a>(job: &Job, files: &'a [WorkspacePath]) -> Option<&'a WorkspacePath> {
    let payload = &job.definition.payload;
    let text = match payload {
        // A text is only sent, and not acted on.
        Payload::Message(_) => return None,
        payload => payload.text(),
    };
    let texts = [Some(text), payload.command()];
    files.iter().find(|file| texts.iter().flatten().any(|text| text.contains(file.name())))
}
