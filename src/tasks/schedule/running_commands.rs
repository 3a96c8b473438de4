//! The running commands of jobs. Each has a tokio task of its own, which ends when its run has ended. The
//! store has the list of commands: one that has not begun is started, and one that has begun but has no
//! task was interrupted, and is not started again.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use rusqlite::Connection;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use crate::bus::access::{AccessWatch, HeldAccess};
use crate::memory::{audience, file_scope};
use crate::people::Role;
use crate::people::folders::folder_owner;
use crate::people::persons::PersonAccount;
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::tasks::outcome::TaskOutcome;
use crate::tasks::schedule::command::{CommandResult, JobCommand};
use crate::tasks::schedule::run::{CommandRun, Run, begin_command, list_command_runs};
use crate::tasks::schedule::settling::settle;
use crate::tasks::schedule::state_folders::{folders_of, remove_orphans};
use crate::tasks::schedule::work::end_command;
use crate::tasks::schedule::{STORE_PAUSE, Scheduler};
use crate::tasks::table::TaskRow;
use crate::trust::instruction_watch::InstructionEditor;
use crate::workspace::{Audience, FileScope, Workspace};

/// Maximum number of attempts to record the result of a command, over some minutes.
const TRIES_MAX: usize = 100;

#[derive(Default)]
pub(super) struct RunningCommands {
    tasks: JoinSet<()>,
    /// The tasks by their runs.
    of: HashMap<TaskRow, AbortHandle>,
}

impl RunningCommands {
    /// Starts and aborts tasks to match the store.
    pub(super) async fn follow(
        &mut self,
        scheduler: &Scheduler,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let store = &scheduler.services.bus.store;
        let commands = store.read(list_command_runs).await?;
        self.of.retain(|id, task| {
            let is_running = commands.iter().any(|command| command.run.id == *id);
            if !is_running {
                // Dropping the task's future kills the command.
                task.abort();
            }
            is_running
        });
        remove_orphans(scheduler).await?;
        for CommandRun { run, began } in commands {
            // A job whose channel does not exist here waits for a daemon that has it.
            if self.of.contains_key(&run.id) || !scheduler.inputs.serves(&run.job) {
                continue;
            }
            if !began {
                let id = run.id;
                self.of.insert(id, self.tasks.spawn(work(scheduler.clone(), run)));
                continue;
            }
            tracing::warn!(job = %run.job.id, "A command of a job was interrupted");
            let reason = Some(replies::JOB_COMMAND_CUT_OFF);
            let interrupt = move |store: &Connection| {
                settle(store, &run, TaskOutcome::Interrupted, reason, now)
            };
            store.write("command cut off", Sync::Now, interrupt).await?;
            scheduler.wake();
        }
        Ok(())
    }

    /// Waits until a command has ended. None if there is none.
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

    /// Aborts all commands.
    pub(super) async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn work(scheduler: Scheduler, run: Run) {
    let result = match watched(&scheduler, &run).await {
        Ok(Some(result)) => result,
        Ok(None) => return,
        Err(error) => {
            tracing::error!(%error, "A command of a job waits after an error");
            return sleep(STORE_PAUSE).await;
        }
    };
    for _ in 0..TRIES_MAX {
        let (run, result) = (run.clone(), result.clone());
        let (now, zone) = (scheduler.clock.now(), scheduler.inputs.zone);
        let record_end = move |store: &Connection| end_command(store, &run, result, now, zone);
        match scheduler.services.bus.store.write("command ends", Sync::Now, record_end).await {
            Ok(()) => return,
            Err(error) => {
                tracing::error!(%error, "Cannot save the outcome of a command");
                sleep(STORE_PAUSE).await;
            }
        }
    }
}

/// Runs the command of a run. None if it must not begin. The bot's instructions are recorded before, and
/// compared when the command has ended, because it may change them.
async fn watched(scheduler: &Scheduler, run: &Run) -> Result<Option<CommandResult>, StoreError> {
    let watch = scheduler.instruction_watcher.watch(actor(scheduler, run).await?).await?;
    let access_watch = watch_access(scheduler, run);
    let result = match begin(scheduler, run).await? {
        Some(Ok(access)) => {
            let lost = access_watch.lost(access.held.clone());
            // Dropping the future kills the command.
            Some(tokio::select! {
                result = Box::pin(carry_out(scheduler, run, access)) => result,
                () = lost => CommandResult::Failed(replies::COMMAND_LOST_ACCESS.to_owned()),
            })
        }
        Some(Err(why)) => Some(CommandResult::Failed(why)),
        None => None,
    };
    drop(watch);
    // The watcher tries again later, but the result of the command would be lost if it were not stored now.
    if let Err(error) = scheduler.instruction_watcher.report_changes().await {
        tracing::error!(%error, "Cannot check the changes of a job's command");
    }
    Ok(result)
}

/// Returns a watch of the access of a run's person. It notices changes from now on.
fn watch_access(scheduler: &Scheduler, run: &Run) -> AccessWatch {
    let definition = &run.job.definition;
    let account = PersonAccount {
        channel: definition.known_on.clone(),
        sender: definition.sender.id.clone(),
    };
    AccessWatch::of(&scheduler.services.bus, account)
}

/// Returns the actor to whom changes of instructions by the command are attributed.
async fn actor(scheduler: &Scheduler, run: &Run) -> Result<InstructionEditor, StoreError> {
    let (definition, people) = (run.job.definition.clone(), scheduler.inputs.people.clone());
    let role_of = move |store: &Connection| {
        people.role_of(store, &definition.known_on, &definition.sender.id)
    };
    let role = scheduler.services.bus.store.read(role_of).await?;
    let definition = &run.job.definition;
    let sees = role.map(|role| audience(role, definition.chat_kind));
    Ok(InstructionEditor {
        tool: replies::command_of_job(run.job.id),
        at: definition.to.clone(),
        chat_kind: definition.chat_kind,
        who: definition.sender.clone(),
        is_owner: sees == Some(Audience::Owner),
    })
}

/// The access of the command of a run: that of its person at the moment when it begins.
struct RunAccess {
    scope: FileScope,
    /// The role for which it sees paths of the config.
    folder_role: Role,
    /// It ends once its person has less.
    held: HeldAccess,
}

/// Stores that the command begins. None if it must not. The inner error is the reason why it cannot.
async fn begin(
    scheduler: &Scheduler,
    run: &Run,
) -> Result<Option<Result<RunAccess, String>>, StoreError> {
    let (id, now, definition) = (run.id, scheduler.clock.now(), run.job.definition.clone());
    let (people, commands) = (scheduler.inputs.people.clone(), scheduler.inputs.commands.clone());
    let begins = move |store: &Connection| {
        if !begin_command(store, id, now)? {
            return Ok(None);
        }
        let role = people.role_of(store, &definition.known_on, &definition.sender.id)?;
        let owner = folder_owner(store, &definition.known_on, &definition.sender.id)?;
        Ok(Some(match (commands, role) {
            (None, _) => Err(replies::COMMANDS_NOT_OFFERED.to_owned()),
            (Some(_), None) => Err(replies::PERSON_WITHOUT_ACCESS.to_owned()),
            (Some(commands), Some(role)) => commands
                .permitted_audience(role, definition.chat_kind)
                .and_then(|_| commands.check_needs(&definition.needs))
                .map(|()| {
                    let folder_role = commands.folder_role(role, definition.chat_kind);
                    let scope = file_scope(role, definition.chat_kind, &definition.to, &owner);
                    let has_own_folder = matches!(scope, FileScope::Person { .. });
                    let held = HeldAccess { role, folder: has_own_folder.then_some(owner) };
                    RunAccess { scope, folder_role, held }
                }),
        }))
    };
    scheduler.services.bus.store.write("command begins", Sync::Now, begins).await
}

async fn carry_out(scheduler: &Scheduler, run: &Run, access: RunAccess) -> CommandResult {
    let (Some(commands), Some(command)) =
        (&scheduler.inputs.commands, run.job.definition.payload.command())
    else {
        return CommandResult::Failed(replies::COMMANDS_NOT_OFFERED.to_owned());
    };
    let RunAccess { scope, folder_role, .. } = access;
    let command = JobCommand { command, needs: &run.job.definition.needs, folder_role };
    let (job, needs, file_scope) = (run.job.id, command.needs.clone(), scope.clone());
    let state_bytes_max = commands.sandbox.bounds.disk;
    let workspace = &scheduler.services.workspace;
    let find = move |workspace: &Workspace| {
        folders_of(workspace, job, &needs, &file_scope, state_bytes_max)
    };
    match workspace.run_blocking(find).await {
        Ok(folders) => {
            let others = commands.others(command, &scope, workspace).await;
            commands.run(command, folders, &others, &scheduler.services.redactor).await
        }
        Err(reason) => CommandResult::Failed(reason),
    }
}
