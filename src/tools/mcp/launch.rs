//! The command of an MCP server in the sandbox: its state folder, the paths that it sees, its variables.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::replies;
use crate::sandbox::{CommandInput, Sandbox, SandboxCommand};
use crate::secret::VariableValue;
use crate::workspace::Workspace;
use crate::workspace::job_state::is_overfull;

use super::{Program, WorkspaceAccess};

/// A server runs as long as the daemon does. Its time on the CPU is bounded by a multiple of this.
const TIME_MAX: Duration = Duration::from_hours(24 * 365 * 100);

/// Returns the sandbox of a server's program, and the command in it. Makes its state folder.
pub(super) fn launch(
    server: &str,
    program: &Program,
    workspace: &Workspace,
) -> Result<(Sandbox, SandboxCommand), String> {
    if let Some(why) = &program.refused {
        return Err(why.clone());
    }
    let failed = |error: std::io::Error| replies::mcp_state_failed(server, &error);
    let state = workspace.mcp_state(server).map_err(failed)?;
    let bytes_max = program.sandbox.bounds.disk;
    if is_overfull(&state, bytes_max).map_err(failed)? {
        return Err(replies::mcp_state_full(&state, bytes_max));
    }
    let (mut read, mut write) = (Vec::new(), Vec::new());
    read.extend(find_program(program));
    read.extend(program.cwd.clone());
    let root = || workspace.root().canonicalize().map_err(failed);
    match program.workspace {
        WorkspaceAccess::Off => {}
        WorkspaceAccess::Read => read.push(root()?),
        WorkspaceAccess::Write => write.push(root()?),
    }
    let words = [&program.command].into_iter().chain(&program.args);
    let words: Vec<_> = words.map(|word| quote(word)).collect();
    let command = SandboxCommand {
        command: format!("exec {}", words.join(" ")),
        cwd: program.cwd.clone().unwrap_or_else(|| state.clone()),
        folder: state.clone(),
        home: state,
        read,
        write,
        time_max: TIME_MAX,
        input: CommandInput::SeparateErrors,
    };
    Ok((Sandbox { env: env(program), ..program.sandbox.clone() }, command))
}

/// Returns the variables of the program. `HOME` is its state folder, unless the config says otherwise.
fn env(program: &Program) -> BTreeMap<String, VariableValue> {
    let inherited = program.inherited.iter().filter(|(name, _)| *name != "HOME");
    let plain = |value: &OsStr| VariableValue::Plain(value.to_string_lossy().into_owned());
    let mut env: BTreeMap<_, _> =
        inherited.map(|(name, value)| ((*name).to_owned(), plain(value))).collect();
    env.extend(program.env.clone());
    env
}

/// Returns the file of the program, which may lie outside of the system's folders.
fn find_program(program: &Program) -> Option<PathBuf> {
    let command = Path::new(&program.command);
    if program.command.contains('/') {
        let base = program.cwd.as_deref().unwrap_or(Path::new("/"));
        return Some(base.join(command)).filter(|path| path.is_file());
    }
    let path = match program.env.get("PATH") {
        Some(declared) => declared.reveal().into(),
        None => program.inherited.iter().find(|(name, _)| *name == "PATH")?.1.clone(),
    };
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(command))
        .find(|path| path.is_file())
}

/// Quotes a word for the shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
