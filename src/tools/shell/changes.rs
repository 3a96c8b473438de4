//! Runs commands that have the network and can change paths of the workspace (`git pull`), and lists the files that they
//! have changed, for the model and for people. Such a command is asked about each time, and its changes cannot be undone.

use std::fmt::Write as _;
use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::places::{self, ExecArgs};
use crate::replies;
use crate::sandbox::{
    self, CommandEnding, ExceededLimit, FinishedCommand, Sandbox, SandboxCommand,
};
use crate::short_text::escaped_path;
use crate::store::StoreError;
use crate::tools::{ToolContext, ToolError};
use crate::trust::path_watch::{PathWatch, PathWatcher};
use crate::types::message::Address;
use crate::workspace::path_stamps::{PathChanges, PathStamps};
use crate::workspace::{FileScope, Folder, Workspace, WorkspacePath};

/// Maximum number of listed files: a screen or two. The others are counted.
const SHOWN_MAX: usize = 30;

/// The running commands of this kind. Each has a task of its own, because people get the list even if the call is gone:
/// after `/stop`, say. A turn has one at a time, so the turns bound their number.
#[derive(Default)]
pub(super) struct WatchedCommands {
    /// Locked only briefly, and never over an await. A mutex, because calls of several conversations use it.
    tasks: Mutex<JoinSet<()>>,
}

/// A command to be run.
pub(super) struct WatchedCommand {
    pub(super) sandbox: Sandbox,
    pub(super) order: SandboxCommand,
    pub(super) stdin: String,
    pub(super) paths: WatchedPaths,
}

/// A command that was run, and what it has changed.
pub(super) struct ComparedCommand {
    pub(super) finished: io::Result<FinishedCommand>,
    pub(super) changes: PathChanges,
}

/// Paths of the workspace that a command can change while it has the network.
pub(super) struct WatchedPaths {
    workspace: Workspace,
    scope: FileScope,
    named: Vec<WorkspacePath>,
    watcher: PathWatcher,
    at: Address,
}

impl WatchedCommands {
    /// Runs a command to its end. Dropping the future ends it.
    pub(super) async fn run(&self, command: WatchedCommand) -> Result<ComparedCommand, ToolError> {
        let stop = CancellationToken::new();
        let (tell, told) = oneshot::channel();
        let _caller = stop.clone().drop_guard();
        {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                // The caller may be gone.
                tell.send(command.run(&stop).await).ok();
            });
        }
        match told.await {
            Ok(listed) => Ok(listed?),
            Err(_) => {
                tracing::error!("The task of a command broke");
                let words = "The command was cut off by a fault, which is in my log.";
                Err(ToolError::TellModel(words.to_owned()))
            }
        }
    }
}

impl WatchedCommand {
    async fn run(self, stop: &CancellationToken) -> Result<ComparedCommand, StoreError> {
        let Self { sandbox, order, stdin, paths } = self;
        let record = paths.record().await?;
        let before = paths.stamp().await;
        let finished = sandbox::run_until(&sandbox, &order, stdin.as_bytes(), stop).await;
        let after = paths.stamp().await;
        let changes = paths.workspace.run_blocking(move |_| before.changes(&after)).await;
        if let Some(record) = record
            && let Err(error) = record.end(for_people(&changes, &finished)).await
        {
            tracing::error!(%error, "Cannot list the changes of a command, will report it at the next start");
        }
        Ok(ComparedCommand { finished, changes })
    }
}

impl WatchedPaths {
    /// Returns the paths that a call names. None for any other command.
    pub(super) fn of(args: &ExecArgs, cx: &ToolContext) -> Option<Self> {
        if !places::changes_own(args) {
            return None;
        }
        let scope = cx.scope();
        let mut named = places::named(&args.paths).ok()?;
        // Everything is untrusted in the other folders.
        named.retain(|path| matches!(scope.folder(path), Folder::Workspace | Folder::Group));
        Some(Self {
            workspace: cx.workspace.clone(),
            scope,
            named,
            watcher: cx.path_watcher.clone(),
            at: cx.address.clone(),
        })
    }

    /// Records the command. None if there is nothing that people would be shown.
    async fn record(&self) -> Result<Option<PathWatch>, StoreError> {
        if self.named.is_empty() {
            return Ok(None);
        }
        let paths = self.named.iter().map(ToString::to_string).collect();
        self.watcher.begin(&self.at, paths).await.map(Some)
    }

    /// Stamps the files as they are now.
    async fn stamp(&self) -> PathStamps {
        let (scope, named) = (self.scope.clone(), self.named.clone());
        self.workspace.run_blocking(move |workspace| workspace.stamp_paths(&scope, &named)).await
    }
}

/// Returns the changes for the model, which names the files exactly.
pub(super) fn for_model(changes: &PathChanges) -> String {
    let mut text = match changes.all.is_empty() {
        true => "[No file in these paths of the workspace is different now.".to_owned(),
        false => {
            "[Different now in these paths of the workspace, and shown to the person:".to_owned()
        }
    };
    for change in changes.all.iter().take(SHOWN_MAX) {
        let _ = write!(text, "\n{} {}", change.kind.as_str(), escaped_path(&change.path));
    }
    if changes.all.len() > SHOWN_MAX {
        let _ = write!(text, "\nand {} more", changes.all.len() - SHOWN_MAX);
    }
    if !changes.is_whole {
        text.push_str("\nThere are more files than can be compared.");
    }
    text + "]"
}

/// Returns the message to the people of the chat. None if nothing has changed that could be seen.
fn for_people(changes: &PathChanges, finished: &io::Result<FinishedCommand>) -> Option<String> {
    if changes.all.is_empty() && changes.is_whole {
        return None;
    }
    let was_stopped = finished
        .as_ref()
        .is_ok_and(|finished| finished.ending == CommandEnding::Over(ExceededLimit::Asked));
    let ended = match was_stopped {
        true => replies::NETWORK_COMMAND_STOPPED,
        false => replies::NETWORK_COMMAND_DONE,
    };
    let more = changes.all.len().saturating_sub(SHOWN_MAX);
    let shown = changes.all.iter().take(SHOWN_MAX);
    let shown = shown.map(|change| (change.kind.as_str(), change.path.as_str()));
    Some(replies::files_changed_by_command(ended, shown, more, changes.is_whole))
}
