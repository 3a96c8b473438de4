//! Commands of runs at work: each in a task of its own, which holds nobody up and ends when its run has
//! ended. The store says which there are: one that is to begin is begun, and one that has begun and has no
//! task was cut off, and is not begun again.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use rusqlite::Connection;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use crate::memory::{audience, file_scope};
use crate::people::folders::folder_owner;
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::tasks::ended::TaskOutcome;
use crate::tasks::schedule::command::{CommandResult, JobCommand};
use crate::tasks::schedule::doing::command_ends;
use crate::tasks::schedule::run::{CommandRun, Run, command_begins, commanded};
use crate::tasks::schedule::settling::settle;
use crate::tasks::schedule::state_folders::{folders_of, remove_orphans};
use crate::tasks::schedule::{STORE_PAUSE, Scheduler};
use crate::tasks::table::TaskRow;
use crate::trust::instruction_watch::InstructionEditor;
use crate::workspace::{Audience, FileScope, Workspace};

/// Maximum number of attempts to record the result of a command, over some minutes.
const TRIES_MAX: usize = 100;

#[derive(Default)]
pub(super) struct RunningCommands {
    tasks: JoinSet<()>,
    /// By their runs.
    of: HashMap<TaskRow, AbortHandle>,
}

impl RunningCommands {
    /// Brings the tasks in line with the store.
    pub(super) async fn follow(
        &mut self,
        scheduler: &Scheduler,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let store = &scheduler.services.bus.store;
        let found = store.read(commanded).await?;
        self.of.retain(|id, task| {
            let works = found.iter().any(|it| it.run.id == *id);
            if !works {
                // With its task, the command is let go of, and ends.
                task.abort();
            }
            works
        });
        remove_orphans(scheduler).await?;
        for CommandRun { run, began } in found {
            // What has no channel here waits for a daemon that has it.
            if self.of.contains_key(&run.id) || !scheduler.inputs.serves(&run.job) {
                continue;
            }
            if !began {
                let id = run.id;
                self.of.insert(id, self.tasks.spawn(work(scheduler.clone(), run)));
                continue;
            }
            tracing::warn!(job = %run.job.id, "A command of a job was interrupted");
            let words = Some(replies::JOB_COMMAND_CUT_OFF);
            let cut_off =
                move |store: &Connection| settle(store, &run, TaskOutcome::Interrupted, words, now);
            store.write("command cut off", Sync::Now, cut_off).await?;
            scheduler.wake();
        }
        Ok(())
    }

    /// Waits until one has ended.
    pub(super) async fn next_ended(&mut self) -> Option<()> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!(%error, "The task of a command panicked");
        }
        self.of.retain(|_, task| task.id() != id);
        Some(())
    }

    /// Ends them all.
    pub(super) async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn work(scheduler: Scheduler, run: Run) {
    let came = match watched(&scheduler, &run).await {
        Ok(Some(came)) => came,
        Ok(None) => return,
        Err(error) => {
            tracing::error!(%error, "A command of a job waits after an error");
            return sleep(STORE_PAUSE).await;
        }
    };
    for _ in 0..TRIES_MAX {
        let (run, came) = (run.clone(), came.clone());
        let (now, zone) = (scheduler.clock.now(), scheduler.inputs.zone);
        let ends = move |store: &Connection| command_ends(store, &run, came, now, zone);
        match scheduler.services.bus.store.write("command ends", Sync::Now, ends).await {
            Ok(()) => return,
            Err(error) => {
                tracing::error!(%error, "Cannot save the outcome of a command");
                sleep(STORE_PAUSE).await;
            }
        }
    }
}

/// Runs it, unless it must not begin. What the bot goes by is written down before, and looked at again when
/// it has ended: a command may change it.
async fn watched(scheduler: &Scheduler, run: &Run) -> Result<Option<CommandResult>, StoreError> {
    let watch = scheduler.instruction_watcher.watch(actor(scheduler, run).await?).await?;
    let came = match begin(scheduler, run).await? {
        Some(Ok(audience)) => Some(carry_out(scheduler, run, audience).await),
        Some(Err(why)) => Some(CommandResult::Failed(why)),
        None => None,
    };
    drop(watch);
    // Who oversees tries again; but what came of it is lost if it is not written down.
    if let Err(error) = scheduler.instruction_watcher.look().await {
        tracing::error!(%error, "Cannot check the changes of a job's command");
    }
    Ok(came)
}

/// On whose account it changes what it changes.
async fn actor(scheduler: &Scheduler, run: &Run) -> Result<InstructionEditor, StoreError> {
    let (brief, people) = (run.job.brief.clone(), scheduler.inputs.people.clone());
    let role_of =
        move |store: &Connection| people.role_of(store, &brief.known_on, &brief.sender.id);
    let role = scheduler.services.bus.store.read(role_of).await?;
    let brief = &run.job.brief;
    let sees = role.map(|role| audience(role, brief.chat_kind));
    Ok(InstructionEditor {
        tool: replies::command_of_job(run.job.id),
        at: brief.to.clone(),
        chat_kind: brief.chat_kind,
        who: brief.sender.clone(),
        is_owner: sees == Some(Audience::Owner),
    })
}

/// Writes down that it begins; none if it must not. It reaches the files that its person reaches at this moment.
async fn begin(
    scheduler: &Scheduler,
    run: &Run,
) -> Result<Option<Result<FileScope, String>>, StoreError> {
    let (id, now, brief) = (run.id, scheduler.clock.now(), run.job.brief.clone());
    let (people, commands) = (scheduler.inputs.people.clone(), scheduler.inputs.commands.clone());
    let begins = move |store: &Connection| {
        if !command_begins(store, id, now)? {
            return Ok(None);
        }
        let role = people.role_of(store, &brief.known_on, &brief.sender.id)?;
        let owner = folder_owner(store, &brief.known_on, &brief.sender.id)?;
        Ok(Some(match (commands, role) {
            (None, _) => Err(replies::COMMANDS_NOT_OFFERED.to_owned()),
            (Some(_), None) => Err(replies::JOB_OF_NOBODY.to_owned()),
            (Some(commands), Some(role)) => commands
                .may(role, brief.chat_kind)
                .and_then(|_| commands.may_need(&brief.needs))
                .map(|()| file_scope(role, brief.chat_kind, &brief.to, &owner)),
        }))
    };
    scheduler.services.bus.store.write("command begins", Sync::Now, begins).await
}

async fn carry_out(scheduler: &Scheduler, run: &Run, scope: FileScope) -> CommandResult {
    let (Some(commands), Some(command)) =
        (&scheduler.inputs.commands, run.job.brief.payload.command())
    else {
        return CommandResult::Failed(replies::COMMANDS_NOT_OFFERED.to_owned());
    };
    let command = JobCommand { command, needs: &run.job.brief.needs };
    let (job, needs, within) = (run.job.id, command.needs.clone(), scope.clone());
    let state_bytes_max = commands.sandbox.bounds.disk;
    let workspace = &scheduler.services.workspace;
    let find =
        move |workspace: &Workspace| folders_of(workspace, job, &needs, &within, state_bytes_max);
    match workspace.off_thread(find).await {
        Ok(folders) => {
            let others = commands.others(command, &scope, workspace).await;
            commands.run(command, folders, &others, &scheduler.services.redactor).await
        }
        Err(words) => CommandResult::Failed(words),
    }
}
