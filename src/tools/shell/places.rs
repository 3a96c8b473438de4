//! The working folder of a command, and the file for its output if it is long.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::{ExecArgs, Shell, shown};
use crate::memory::audience;
use crate::sandbox::{Input, KeptOutput, SandboxCommand};
use crate::tools::{ToolContext, ToolError};
use crate::workspace::path::{OF_OTHERS, OUTPUTS, SHARED};
use crate::workspace::{Audience, FileError, Workspace, WorkspacePath};

/// Maximum size of all output files together, in bytes. The oldest are deleted first.
const OUTPUTS_BYTES_MAX: u64 = 50 * 1024 * 1024;

/// Maximum number of received files that a command sees: the latest at the address that asked.
const CAME_HERE_MAX: usize = 32;

/// Returns the command to run, without its time limit and input.
pub(super) async fn order(
    shell: &Shell,
    cx: &ToolContext,
    args: &ExecArgs,
) -> Result<SandboxCommand, ToolError> {
    let audience = audience(cx.role, cx.place);
    if audience == Audience::Others && !shell.files_caged {
        return Err(ToolError::TellModel(
            "Denied: as files are not caged on this machine, commands are for the owner in private."
                .to_owned(),
        ));
    }
    let came_here = std::sync::Arc::clone(&cx.came_here);
    let cwd = args.cwd.clone();
    let (command, time_max) = (args.command.clone(), Duration::ZERO);
    cx.workspace
        .off_thread(move |workspace| {
            let folder = workspace.folder_of_commands(audience)?;
            let cwd = match cwd.trim_matches('/') {
                "" | "." => folder.clone(),
                _ => within(workspace, &cwd, &folder)?,
            };
            let came = came_here.iter().rev().take(CAME_HERE_MAX);
            let read = match audience {
                Audience::Owner => Vec::new(),
                Audience::Others => came.filter_map(|path| real(workspace, path)).collect(),
            };
            Ok(SandboxCommand { command, cwd, folder, read, time_max, input: Input::Pipe })
        })
        .await
}

/// Returns a folder by the name that the model knows.
fn within(workspace: &Workspace, cwd: &str, folder: &PathBuf) -> Result<PathBuf, ToolError> {
    let path: WorkspacePath =
        cwd.parse().map_err(|error| ToolError::TellModel(format!("cwd: {error}.")))?;
    let missing = || FileError::Missing(path.clone());
    let found = real(workspace, path.as_str()).ok_or_else(missing)?;
    if !found.starts_with(folder) {
        return Err(ToolError::TellModel(format!(
            "Denied: here, commands run in the folder `{SHARED}` and below."
        )));
    }
    if !found.is_dir() {
        return Err(ToolError::TellModel(format!("`{path}` is no folder.")));
    }
    Ok(found)
}

/// Returns the real path of a file in the workspace.
fn real(workspace: &Workspace, path: &str) -> Option<PathBuf> {
    let root = workspace.root().canonicalize().ok()?;
    let found = root.join(path).canonicalize().ok()?;
    found.starts_with(&root).then_some(found)
}

/// Saves an output that a model does not see completely to a file, whose name shows if it may contain
/// untrusted content. Returns its path.
pub(super) async fn save(cx: &ToolContext, kept: &KeptOutput, foreign: bool) -> Option<String> {
    if shown::fits(kept) {
        return None;
    }
    let (month, name) = (cx.now.format("%Y-%m"), cx.now.format("%d-%H%M%S"));
    let folder = match audience(cx.role, cx.place) {
        Audience::Owner => OUTPUTS.to_owned(),
        Audience::Others => format!("{SHARED}/{OUTPUTS}"),
    };
    let kind = if shown::is_text(kept) { "txt" } else { "bin" };
    let whose = if foreign { OF_OTHERS } else { "" };
    let path = format!("{folder}/{month}/{name}-{:04x}{whose}.{kind}", fastrand::u16(..));
    let whole = kept.whole();
    let saved = cx.workspace.off_thread(move |workspace| {
        let path: WorkspacePath = path.parse().expect("it is made of such names");
        let (incoming, mut file) = workspace.begin_file(&path)?;
        let written = file.write_all(&whole);
        written.map_err(|source| FileError::Io { path: path.clone(), source })?;
        let kept = incoming.keep(&file)?;
        if let Err(error) = workspace.make_room(&folder, OUTPUTS_BYTES_MAX, path.name()) {
            tracing::warn!(%error, "Cannot delete old outputs of commands");
        }
        Ok::<_, FileError>(kept)
    });
    match saved.await {
        Ok(path) => Some(path.to_string()),
        Err(error) => {
            tracing::warn!(%error, "Cannot save a command's output");
            None
        }
    }
}
