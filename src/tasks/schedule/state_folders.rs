//! The folders of job commands: the ones that a command may see, and the deletion of state folders of removed jobs.

use std::io;

use rusqlite::Connection;

use crate::replies;
use crate::store::StoreError;
use crate::tasks::schedule::Scheduler;
use crate::tasks::schedule::command::CommandFolders;
use crate::tasks::schedule::job::JobId;
use crate::tasks::schedule::needs::CommandNeeds;
use crate::workspace::command_folders::CommandPlace;
use crate::workspace::job_state::is_overfull;
use crate::workspace::named_paths::NamedPaths;
use crate::workspace::{FileScope, Workspace};

/// Returns the folders of a run's command, or the reason why it cannot have them.
pub(super) fn folders_of(
    workspace: &Workspace,
    job: JobId,
    needs: &CommandNeeds,
    scope: &FileScope,
    state_bytes_max: u64,
) -> Result<CommandFolders, String> {
    let refusal = |error: &dyn std::fmt::Display| replies::command_refused(&error.to_string());
    let Some(kind) = needs.state() else {
        let place = workspace.command_folder(scope, false);
        let place = place.map_err(|error| refusal(&format!("{error:#}")))?;
        return Ok(CommandFolders { place, named: NamedPaths::default() });
    };
    let folder = workspace.job_state(job.0, kind).map_err(|error| refusal(&error))?;
    if is_overfull(&folder, state_bytes_max).map_err(|error| refusal(&error))? {
        return Err(replies::job_state_full(job, state_bytes_max));
    }
    let named = match needs {
        CommandNeeds::Paths(paths) => {
            let named = workspace.named_paths(scope, None, paths.iter(), false);
            named.map_err(|error| refusal(&error))?
        }
        CommandNeeds::Network | CommandNeeds::Workspace => NamedPaths::default(),
    };
    let place = CommandPlace { home: folder.clone(), folder };
    Ok(CommandFolders { place, named })
}

/// Deletes the state folders of removed jobs. The next pass retries one that cannot be deleted.
pub(super) async fn remove_orphans(scheduler: &Scheduler) -> Result<(), StoreError> {
    let workspace = &scheduler.services.workspace;
    let jobs = workspace.run_blocking(Workspace::jobs_with_state).await;
    let jobs = jobs.unwrap_or_else(|error| {
        tracing::warn!(%error, "Cannot list the state folders of jobs");
        Vec::new()
    });
    if jobs.is_empty() {
        return Ok(());
    }
    let find_orphans = move |store: &Connection| {
        let mut orphans = Vec::new();
        for job in jobs {
            if !is_kept(store, JobId(job))? {
                orphans.push(job);
            }
        }
        Ok(orphans)
    };
    let orphans = scheduler.services.bus.store.read(find_orphans).await?;
    workspace.run_blocking(move |workspace| remove_all(workspace, &orphans)).await;
    Ok(())
}

fn remove_all(workspace: &Workspace, jobs: &[i64]) {
    for job in jobs {
        let removed: io::Result<()> = workspace.remove_job_state(*job);
        match removed {
            Ok(()) => tracing::info!(job, "Deleted the state folder of a job that was removed"),
            Err(error) => tracing::warn!(job, %error, "Cannot delete the state folder of a job"),
        }
    }
}

/// Returns true if a job was not removed, even if it cannot be read.
fn is_kept(store: &Connection, id: JobId) -> rusqlite::Result<bool> {
    let mut kept =
        store.prepare_cached("SELECT 1 FROM jobs WHERE id = ? AND state <> 'removed'")?;
    kept.exists([id])
}
