//! The paths of `[exec] read` and `write`. They count as untrusted, because others may write there, and commands with
//! the network read and write them. A command with the workspace sees only those that the config trusts. Pure.

use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;

/// Returns a sandbox that shows only the trusted paths.
pub(super) fn trusted_only(sandbox: Sandbox, trusted: &[PathBuf]) -> Sandbox {
    let visible = |paths: &[PathBuf]| {
        let whole = paths.iter().filter(|path| is_within(path, trusted));
        let parts = trusted.iter().filter(|part| !paths.contains(part) && is_within(part, paths));
        whole.chain(parts).cloned().collect()
    };
    Sandbox { read: visible(&sandbox.read), write: visible(&sandbox.write), ..sandbox }
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
