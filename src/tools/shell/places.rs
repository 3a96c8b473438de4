//! The folders that a command sees, its working folder, and the file for its output if it is long.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::more_paths::is_of_config;
use super::shown;
use crate::sandbox::{CommandInput, KeptOutput, SandboxCommand};
use crate::short_text::escaped_path;
use crate::tools::{CallPlace, ToolContext, ToolError};
use crate::trust::acts::CommandAccess;
use crate::types::call_files::{CallFiles, SeenPath};
use crate::workspace::command_folders::CommandPlace;
use crate::workspace::named_paths::{NAMED_PATHS_MAX, NamedPathError, NamedPaths};
use crate::workspace::{
    Audience, FileError, FileScope, Folder, PathError, Workspace, WorkspacePath,
};

/// Maximum size of all output files of a folder together, in bytes. The oldest are deleted first.
const OUTPUTS_BYTES_MAX: u64 = 50 * 1024 * 1024;

/// Maximum number of received files that a command sees: the latest at the address that asked.
const RECEIVED_MAX: usize = 32;

// No doc comment: models would read it in the schema.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecArgs {
    pub(super) command: String,
    #[serde(default)]
    pub(super) cwd: String,
    /// Seconds.
    #[serde(default)]
    pub(super) timeout: u32,
    #[serde(default)]
    pub(super) background: bool,
    #[serde(default)]
    pub(super) stdin: String,
    #[serde(default)]
    pub(super) pty: bool,
    /// In downloads/, and paths.
    #[serde(default)]
    pub(super) untrusted: bool,
    /// As untrusted, with the network.
    #[serde(default)]
    pub(super) network: bool,
    #[serde(default)]
    pub(super) paths: Vec<String>,
}

/// Returns the access of a command with these arguments. The call itself explains invalid paths.
pub(super) fn access(args: &ExecArgs) -> CommandAccess {
    let begins = folder_of(&args.cwd);
    // The owner can name the folder of a group, whose members read there.
    let is_read_by_others = |folder| matches!(folder, Folder::Shared | Folder::Group);
    let is_outlet = |path: &str| is_of_config(path) || is_read_by_others(folder_of(path));
    let is_private = |path: &str| !is_outlet(path) && folder_of(path) != Folder::Downloads;
    let has_outlet = is_read_by_others(begins) || args.paths.iter().any(|path| is_outlet(path));
    let has_private = args.paths.iter().any(|path| is_private(path));
    match (args.network, has_outlet, has_private) {
        (true, true, _) | (true, _, true) => CommandAccess::Both,
        (false, true, true) => CommandAccess::NamedAndShared,
        (true, false, false) => CommandAccess::Network,
        (false, true, false) => CommandAccess::Shared,
        (false, false, true) => CommandAccess::Named,
        (false, false, false)
            if args.untrusted || begins != Folder::Workspace || !args.paths.is_empty() =>
        {
            CommandAccess::Downloads
        }
        (false, false, false) => CommandAccess::Workspace,
    }
}

/// Returns the folder of a path that a call names.
fn folder_of(path: &str) -> Folder {
    path.parse::<WorkspacePath>().map_or(Folder::Workspace, |it| it.folder())
}

/// Returns true if a command can change paths of the workspace, or of a group's folder, that it names. In `shared/` and
/// the folders of `[exec] write` others change files, too, so nobody is told about changes there.
pub(super) fn changes_own(args: &ExecArgs) -> bool {
    let is_own = |path: &str| {
        !is_of_config(path) && matches!(folder_of(path), Folder::Workspace | Folder::Group)
    };
    args.network && args.paths.iter().any(|path| is_own(path))
}

/// Checks what a command would see, without the disk. The error explains to the model why it cannot be.
pub(super) fn check(
    args: &ExecArgs,
    files_sandboxed: bool,
    place: &CallPlace<'_>,
) -> Result<(), String> {
    let scope = place.scope();
    if scope.audience() == Audience::Others && !files_sandboxed {
        return Err(
            "Denied: as the sandbox cannot protect files on this machine, commands are for the owner in private."
                .to_owned(),
        );
    }
    if !is_own_folder(&args.cwd) {
        parse_written(&args.cwd).map_err(|error| format!("cwd: {error}."))?;
    }
    let changes_own = changes_own(args);
    for given in named(&args.paths)? {
        scope.check_named(&given, changes_own).map_err(|error| denied(&error))?;
    }
    Ok(())
}

/// Returns true for a working folder that is the folder of the command.
fn is_own_folder(cwd: &str) -> bool {
    matches!(cwd.trim_matches('/'), "" | ".")
}

/// Parses the paths that a call names, but those of the config.
pub(super) fn named(paths: &[String]) -> Result<Vec<WorkspacePath>, String> {
    if paths.len() > NAMED_PATHS_MAX {
        return Err(format!("At most {NAMED_PATHS_MAX} paths can be named."));
    }
    let own = paths.iter().filter(|path| !is_of_config(path));
    let named = own.map(|path| parse_written(path));
    named.collect::<Result<_, _>>().map_err(|error| format!("paths: {error}."))
}

/// Parses a path of the workspace. Returns an error for one that is meant otherwise than it would be taken, as `~/notes` and
/// ` /tmp`: nobody is asked about a path that is not there.
fn parse_written(path: &str) -> Result<WorkspacePath, String> {
    if path.trim() != path {
        return Err(format!("`{path}` begins or ends with a space"));
    }
    let parsed: WorkspacePath = path.parse().map_err(|error: PathError| error.to_string())?;
    match parsed.check_new() {
        // One that is there may have such a name.
        Ok(()) | Err(PathError::Bidi(_)) => Ok(parsed),
        Err(error) => Err(error.to_string()),
    }
}

fn denied(error: &NamedPathError) -> String {
    format!("Denied: {error}.")
}

fn refusal(error: NamedPathError) -> ToolError {
    match error {
        NamedPathError::File(error) => error.into(),
        error => ToolError::TellModel(denied(&error)),
    }
}

/// Returns the command to run, without its time limit.
pub(super) async fn prepare_command(
    cx: &ToolContext,
    args: &ExecArgs,
) -> Result<SandboxCommand, ToolError> {
    let scope = cx.scope();
    let view = CommandView {
        access: access(args),
        changes_own: changes_own(args),
        cwd: args.cwd.clone(),
        paths: args.paths.clone(),
        arrived_here: std::sync::Arc::clone(&cx.arrived_here),
        scope,
        approved: match &cx.approved_files {
            Some(CallFiles::Sees(seen)) => Some(seen.clone()),
            _ => None,
        },
    };
    let input = if args.pty { CommandInput::Terminal } else { CommandInput::Pipe };
    let order = SandboxCommand {
        command: args.command.clone(),
        cwd: PathBuf::new(),
        folder: PathBuf::new(),
        home: PathBuf::new(),
        read: Vec::new(),
        write: Vec::new(),
        time_max: Duration::ZERO,
        input,
    };
    cx.workspace.run_blocking(move |workspace| view.fill(workspace, order)).await
}

/// Returns the paths that a call names, with the places to which they lead now. None if it names none. The error explains
/// why its command cannot have them.
pub(super) async fn seen_paths(
    cx: &ToolContext,
    args: &ExecArgs,
) -> Result<Option<CallFiles>, ToolError> {
    if args.paths.is_empty() && is_own_folder(&args.cwd) {
        return Ok(None);
    }
    prepare_command(cx, args).await?;
    let cwd = (!is_own_folder(&args.cwd)).then(|| args.cwd.clone());
    let named: Vec<_> = args.paths.iter().cloned().chain(cwd).collect();
    let scope = cx.scope();
    let resolve = move |workspace: &Workspace| {
        let seen = named.iter().map(|named| seen_path(workspace, &scope, named));
        seen.collect::<Result<Vec<_>, _>>()
    };
    cx.workspace.run_blocking(resolve).await.map(|seen| Some(CallFiles::Sees(seen)))
}

fn seen_path(workspace: &Workspace, scope: &FileScope, named: &str) -> Result<SeenPath, ToolError> {
    if is_of_config(named) {
        let found = fs::canonicalize(named).map_err(|error| {
            ToolError::TellModel(format!("Cannot reach `{}`: {error}.", escaped_path(named)))
        })?;
        return Ok(SeenPath { path: named.to_owned(), leads_to: found.display().to_string() });
    }
    let path = parse_written(named).map_err(|error| ToolError::TellModel(format!("{error}.")))?;
    let path = scope.path(&path);
    let leads_to = workspace.resolve_for(&path, scope)?.to_string();
    Ok(SeenPath { path: path.to_string(), leads_to })
}

/// The arguments of a call that decide which files its command sees.
struct CommandView {
    access: CommandAccess,
    changes_own: bool,
    cwd: String,
    paths: Vec<String>,
    arrived_here: std::sync::Arc<[String]>,
    scope: FileScope,
    /// The paths with which people have approved the call, also its working folder. None if they were not asked.
    approved: Option<Vec<SeenPath>>,
}

impl CommandView {
    /// Completes a command with its folders.
    fn fill(
        self,
        workspace: &Workspace,
        mut order: SandboxCommand,
    ) -> Result<SandboxCommand, ToolError> {
        let is_untrusted = self.access != CommandAccess::Workspace;
        let CommandPlace { folder, home } = workspace.command_folder(&self.scope, is_untrusted)?;
        (order.folder, order.home) = (folder, home);
        if is_untrusted {
            self.name_paths(workspace, &mut order)?;
        }
        // Files that a former version received for others are not in a folder of theirs. They are untrusted, as a group's
        // folder is, so no command sees them with a person's own workspace.
        let sees_received = is_untrusted || matches!(self.scope, FileScope::Group { .. });
        if sees_received && self.scope.audience() == Audience::Others {
            let received = self.arrived_here.iter().rev().take(RECEIVED_MAX);
            let received = received.filter_map(|path| path.parse::<WorkspacePath>().ok());
            let former = received.filter(WorkspacePath::is_received);
            order.read.extend(former.filter_map(|path| workspace.disk_path(&path)));
        }
        order.cwd = match is_own_folder(&self.cwd) {
            true => order.folder.clone(),
            false => self.within(workspace, &order)?,
        };
        Ok(order)
    }

    /// Adds the paths that the call names: `shared` and, with the network, paths of the workspace can be
    /// changed; without it, the latter can be read. The folder of the command is known by then.
    fn name_paths(
        &self,
        workspace: &Workspace,
        order: &mut SandboxCommand,
    ) -> Result<(), ToolError> {
        let named = named(&self.paths).map_err(ToolError::TellModel)?;
        let downloads = Some(order.folder.as_path());
        let found = workspace.named_paths(&self.scope, downloads, named.iter(), self.changes_own);
        let NamedPaths { read, write, leads_to } = found.map_err(refusal)?;
        let approved = self.approved.iter().flatten().filter(|seen| !is_of_config(&seen.path));
        let approved = approved.map(|seen| seen.leads_to.clone()).take(leads_to.len());
        if self.approved.is_some() && !approved.eq(leads_to.iter().map(ToString::to_string)) {
            return Err(leads_elsewhere());
        }
        order.read.extend(read);
        order.write.extend(write);
        Ok(())
    }

    /// Returns the working folder that the call names.
    fn within(&self, workspace: &Workspace, order: &SandboxCommand) -> Result<PathBuf, ToolError> {
        let requested: WorkspacePath =
            self.cwd.parse().map_err(|error| ToolError::TellModel(format!("cwd: {error}.")))?;
        let missing = || FileError::Missing(requested.clone());
        let written = self.scope.path(&requested);
        let found = workspace.disk_path(&written).ok_or_else(missing)?;
        // It is the last of the approved paths.
        if let Some(approved) = self.approved.as_ref().and_then(|approved| approved.last())
            && workspace.resolve_for(&written, &self.scope)?.to_string() != approved.leads_to
        {
            return Err(leads_elsewhere());
        }
        let mut visible = order.write.iter().chain(&order.read).chain([&order.folder]);
        if !visible.any(|folder| found.starts_with(folder)) {
            return Err(ToolError::TellModel(format!(
                "Denied: this command does not see `{requested}`. Name it in `paths`, or leave out `untrusted` and \
                 `network`."
            )));
        }
        if !found.is_dir() {
            return Err(ToolError::TellModel(format!("`{requested}` is not a folder.")));
        }
        Ok(found)
    }
}

fn leads_elsewhere() -> ToolError {
    ToolError::TellModel(
        "Not done: a path of this command leads elsewhere than when it was approved. Make the call again; people are \
         asked again."
            .to_owned(),
    )
}

/// Saves an output that a model sees only in part to a file, in a folder as trusted as the output. Returns its path.
pub(super) async fn save(cx: &ToolContext, kept: &KeptOutput, untrusted: bool) -> Option<String> {
    if shown::fits(kept) {
        return None;
    }
    let (month, name) = (cx.now.format("%Y-%m"), cx.now.format("%d-%H%M%S"));
    let folder = cx.scope().outputs(untrusted);
    let kind = if shown::is_text(kept) { "txt" } else { "bin" };
    let path = format!("{folder}/{month}/{name}-{:04x}.{kind}", fastrand::u16(..));
    let whole = kept.whole();
    let saved = cx.workspace.run_blocking(move |workspace| {
        let path: WorkspacePath = path.parse().expect("it is made of such names");
        let path = workspace.free_place(&path);
        let folder = path.parent().and_then(|month| month.parent()).unwrap_or(folder);
        let (incoming, mut file) = workspace.create_partial_file(&path)?;
        let written = file.write_all(&whole);
        written.map_err(|cause| FileError::Io { path: path.clone(), cause })?;
        let kept = incoming.save(&file)?;
        if let Err(error) = workspace.make_room(&[folder], OUTPUTS_BYTES_MAX, path.name()) {
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
