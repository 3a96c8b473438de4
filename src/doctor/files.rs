//! Checks of the files in a home and of the config: who can read them, to whom they belong, and if their account can use
//! them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::{Finding, Repair};
use crate::process::account_name;

/// Rights of everybody but the owner of a file.
const OTHERS: u32 = 0o077;

/// The rights among them by which others can change a file, or replace what is in a folder.
const OTHERS_WRITE: u32 = 0o022;

/// Rights that the owner of a folder needs to use it, and of a file that is written in place.
const USED_FOLDER: u32 = 0o700;
const WRITTEN_FILE: u32 = 0o600;

/// The files of a home that are written in place. Others are replaced as a whole, for which the folder counts.
const WRITTEN_FILES: [&str; 4] = ["state.db", "state.db-wal", "state.db-shm", "lock"];

/// The folder that has a check of its own.
const WORKSPACE: &str = "workspace";

/// A folder or file that only its owner should be able to read.
struct Private {
    path: PathBuf,
    mode: u32,
}

/// Checks the rights of the home, of the store, and of `secret_files` (the config and the files that it names).
pub fn check_rights(home: &Path, secret_files: &[PathBuf]) -> Vec<Finding> {
    if fs::metadata(home).is_ok_and(|about| !about.is_dir()) {
        let finding = Finding::wrong("files", format!("{} is no folder", home.display()));
        return vec![finding.advise("move that file away, or name another home with --home")];
    }
    if let Some(finding) = check_account(home) {
        return vec![finding];
    }
    let mut private = vec![
        Private { path: home.to_owned(), mode: 0o700 },
        Private { path: home.join(crate::store::FILE), mode: 0o600 },
    ];
    // Files of the system, such as a container's secrets, belong to root and cannot be changed.
    let ours = secret_files.iter().filter(|path| !is_of_another(path));
    private.extend(ours.map(|path| Private { path: path.clone(), mode: 0o600 }));
    let mut found: Vec<_> = private.iter().filter_map(check_mode).collect();
    found.extend(check_owner(home));
    found.extend(check_own_rights(home));
    if found.is_empty() {
        found.push(Finding::ok("files", "only this account can read the home and the secrets"));
    }
    found
}

fn is_of_another(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.uid() != geteuid().as_raw())
}

/// The home of another account. Its rights are right for that account, and this one cannot change them.
fn check_account(home: &Path) -> Option<Finding> {
    let us = geteuid();
    let me = account_name(us.as_raw());
    let home_shown = home.display();
    match fs::metadata(home) {
        Ok(about) if !us.is_root() && about.uid() != us.as_raw() => {
            let owner = account_name(about.uid());
            let words =
                format!("{home_shown} belongs to account {owner}, and this is account {me}");
            let advice = format!(
                "run this as account {owner} or as root; if the home is to be this account's, `sudo chown -R {me} {home_shown}`"
            );
            Some(Finding::wrong("files", words).advise(advice))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let words = format!("account {me} may not enter a folder above {home_shown}");
            let advice = "run this as the account that runs Peacrab, or as root";
            Some(Finding::wrong("files", words).advise(advice))
        }
        _ => None,
    }
}

fn check_mode(private: &Private) -> Option<Finding> {
    let Private { path, mode } = private;
    let has = fs::metadata(path).ok()?.mode();
    if has & OTHERS == 0 {
        return None;
    }
    let words = others_can_write(path)
        .unwrap_or_else(|| format!("others on this machine can read {}", path.display()));
    let path = path.display();
    let repair = Repair::Mode { path: private.path.clone(), mode: *mode };
    Some(
        Finding::wrong("files", words).advise(format!("chmod {mode:o} {path}")).repaired_by(repair),
    )
}

/// Returns the words about a file or folder of the home that others can write to: they could replace the config, and with it
/// the owner. None if they cannot, or it is not there.
pub fn others_can_write(path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.mode();
    let words = || format!("others on this machine can write to {}", path.display());
    (mode & OTHERS_WRITE != 0).then(words)
}

/// A home that was once used by `sudo` has files of root, which the service cannot write.
fn check_owner(home: &Path) -> Option<Finding> {
    let owner = fs::metadata(home).ok()?.uid();
    let files = fs::read_dir(home).ok()?.filter_map(Result::ok);
    let others = files
        .map(|file| file.path())
        .find(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() != owner))?;
    let words = format!("{} belongs to another account than the home", others.display());
    let home = home.display();
    let advice = format!("sudo chown -R --reference={home} {home}");
    Some(Finding::wrong("files", words).advise(advice))
}

/// A file or folder whose mode keeps the account of the home out, to which it belongs. None keeps root out.
fn check_own_rights(home: &Path) -> Option<Finding> {
    let account = fs::metadata(home).ok()?.uid();
    if account == 0 {
        return None;
    }
    let inside = fs::read_dir(home).into_iter().flatten().filter_map(Result::ok);
    let inside = inside.filter(|entry| entry.file_name() != WORKSPACE).map(|entry| entry.path());
    let mut all = std::iter::once(home.to_owned()).chain(inside);
    let closed = all.find(|path| {
        let Ok(about) = fs::metadata(path) else { return false };
        let is_written = WRITTEN_FILES.iter().any(|name| path.ends_with(name));
        let needed = match about.is_dir() {
            true => USED_FOLDER,
            false if is_written => WRITTEN_FILE,
            false => return false,
        };
        about.uid() == account && about.mode() & needed != needed
    })?;
    let closed = closed.display();
    let words = format!("the mode of {closed} keeps its own account out");
    Some(Finding::wrong("files", words).advise(format!("chmod u+rwX {closed}")))
}
