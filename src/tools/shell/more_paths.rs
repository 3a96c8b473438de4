//! The paths of `[exec] read` and `write`. They count as untrusted, because others may write there. A command with the
//! workspace sees only those that the config trusts. Others read there, too, so a command with untrusted files changes
//! only those that its call names, and reads the rest. Pure.

use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;
use crate::short_text::escaped_path;

/// The end of the refusal of an absolute path.
const IS_RELATIVE: &str = "a path of the workspace is relative, such as `notes/plan.md`.";

/// Returns a sandbox that shows only the trusted paths.
pub(super) fn trusted_only(sandbox: Sandbox, trusted: &[PathBuf]) -> Sandbox {
    let visible = |paths: &[PathBuf]| {
        let whole = paths.iter().filter(|path| is_within(path, trusted));
        let parts = trusted.iter().filter(|part| !paths.contains(part) && is_within(part, paths));
        whole.chain(parts).cloned().collect()
    };
    Sandbox { read: visible(&sandbox.read), write: visible(&sandbox.write), ..sandbox }
}

/// Returns a sandbox in which only the named paths of `write` can be changed, and the others can be read.
pub(super) fn named_only(sandbox: Sandbox, named: &[String]) -> Sandbox {
    let (write, others): (Vec<_>, Vec<_>) =
        sandbox.write.iter().cloned().partition(|path| is_named(path, named));
    let read = sandbox.read.iter().cloned().chain(others).collect();
    Sandbox { read, write, ..sandbox }
}

/// Checks that the paths of the config that a call names can be changed. The error explains to the model what it can
/// name.
pub(super) fn check_named(sandbox: &Sandbox, named: &[String]) -> Result<(), String> {
    for name in named.iter().filter(|name| is_of_config(name)) {
        let path = Path::new(name);
        if sandbox.write.iter().any(|folder| folder == path) {
            continue;
        }
        let name = escaped_path(name);
        return Err(match sandbox.write.iter().find(|folder| path.starts_with(folder)) {
            Some(folder) => {
                let folder = folder.display();
                format!(
                    "Denied: `paths` takes `{folder}` as a whole, and no part of it such as `{name}`."
                )
            }
            None => format!("Denied: `{name}` is no folder of [exec] write here; {IS_RELATIVE}"),
        });
    }
    Ok(())
}

/// Checks that a working folder is no path of the config. The error explains to the model how a command gets there.
pub(super) fn check_cwd(sandbox: &Sandbox, trusted: &[PathBuf], cwd: &str) -> Result<(), String> {
    let path = Path::new(cwd);
    let written = sandbox.write.iter().find(|folder| path.starts_with(folder));
    if written.is_none() && !is_within(path, &sandbox.read) {
        return Ok(());
    }
    let more = match written {
        _ if is_within(path, trusted) => String::new(),
        Some(folder) => format!(", and name `{}` in `paths`", folder.display()),
        None => ", and give `untrusted`".to_owned(),
    };
    let cwd = escaped_path(cwd);
    Err(format!(
        "cwd: `{cwd}` is not in the workspace. Leave out `cwd`, begin the command with `cd` there{more}."
    ))
}

/// Returns a path of `write` that a text contains, but that its call does not name.
pub(super) fn unnamed<'a>(
    sandbox: &'a Sandbox,
    named: &[String],
    is_mentioned: impl Fn(&Path) -> bool,
) -> Option<&'a Path> {
    let mut all = sandbox.write.iter().map(PathBuf::as_path);
    all.find(|path| is_mentioned(path) && !is_named(path, named))
}

/// Returns true for a named path that is none of the workspace but a folder of `[exec] write`.
pub(super) fn is_of_config(path: &str) -> bool {
    path.starts_with('/')
}

fn is_named(path: &Path, named: &[String]) -> bool {
    named.iter().any(|name| Path::new(name) == path)
}

/// Returns the paths that count as untrusted as a whole.
pub(super) fn untrusted<'a>(
    sandbox: &'a Sandbox,
    trusted: &'a [PathBuf],
) -> impl Iterator<Item = &'a Path> {
    let all = sandbox.read.iter().chain(&sandbox.write).map(PathBuf::as_path);
    let has_trusted = move |path: &Path| trusted.iter().any(|part| part.starts_with(path));
    all.filter(move |path| !is_within(path, trusted) && !has_trusted(path))
}

/// Returns the trusted paths that no command sees.
pub fn unseen<'a>(sandbox: &'a Sandbox, trusted: &'a [PathBuf]) -> impl Iterator<Item = &'a Path> {
    let is_seen = |path: &Path| is_within(path, &sandbox.read) || is_within(path, &sandbox.write);
    trusted.iter().map(PathBuf::as_path).filter(move |path| !is_seen(path))
}

fn is_within(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}
