//! The reasons why this account cannot open the files of a store, each with the command that sets it right, and the process
//! that has them locked. Looks only.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::emptied::file_beside;
use super::header::header_damage;
use super::lock_holder::LOCK;
use super::{OpenError, StoreError, ballast};
use crate::process::account_name;

impl OpenError {
    /// Sorts a failure of the database at this path by what the operator can do about it. Writes nothing.
    pub fn of_database(path: PathBuf, cause: StoreError) -> Self {
        let lacks_space = matches!(cause, StoreError::Broken(_)) && ballast::lacks_space(&path);
        match Self::of_database_with_space(path, cause) {
            Self::Database { path, .. } if lacks_space => Self::Full { path },
            sorted => sorted,
        }
    }

    /// The same for a database whose disk is known to have space.
    pub(super) fn of_database_with_space(path: PathBuf, cause: StoreError) -> Self {
        match cause {
            StoreError::Corrupt(_) => Self::Damaged { path, cause },
            StoreError::Full => Self::Full { path },
            StoreError::Busy(_) => {
                let holder = holder(&path).unwrap_or_else(|| "another process".to_owned());
                Self::InUse { path, holder }
            }
            StoreError::Broken(_)
            | StoreError::Index(_)
            | StoreError::TooSlow
            | StoreError::Change(_) => match (obstacle(&path), header_damage(&path)) {
                (Some(why), _) => Self::Denied { path, why },
                (None, Some(cause)) => Self::Damaged { path, cause },
                (None, None) => Self::Database { path, cause },
            },
        }
    }
}

/// Returns the file that this account may not use, the reason, and what to do. None if the rights are no obstacle.
pub(super) fn obstacle(database: &Path) -> Option<String> {
    let home = database.parent()?;
    // A file in its place is no matter of rights.
    if fs::metadata(home).is_ok_and(|about| !about.is_dir()) {
        return None;
    }
    // The folder first: who cannot enter it knows nothing of the files.
    let folder = (home.to_owned(), Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK);
    let logs = ["-wal", "-shm"].map(|ending| file_beside(database, ending));
    let files = [database.to_owned()].into_iter().chain(logs).chain([home.join(LOCK)]);
    let files = files.map(|file| (file, Access::READ_OK | Access::WRITE_OK));
    let mut all = std::iter::once(folder).chain(files);
    all.find_map(|(path, wanted)| match access(&path, wanted) {
        Err(Errno::ACCESS) => Some(remedy(&path, home)),
        _ => None,
    })
}

/// Returns the owner of a file that this account may not use, and what to do.
fn remedy(path: &Path, home: &Path) -> String {
    let us = geteuid().as_raw();
    let (shown, me) = (path.display(), account_name(us));
    let Ok(file) = fs::symlink_metadata(path) else {
        return format!(
            "account {me} may not enter a folder above {shown}: run this as the account that owns the home, or as root"
        );
    };
    let owner = account_name(file.uid());
    let keeper = fs::metadata(home).map_or(file.uid(), |home| home.uid());
    if file.uid() == us {
        return format!("the mode of {shown} keeps its own account out: `chmod u+rwX {shown}`");
    }
    if file.uid() != keeper {
        let (keeper, home) = (account_name(keeper), home.display());
        return format!(
            "{shown} belongs to account {owner}, and the home to account {keeper}: `sudo chown -R --reference={home} {home}`"
        );
    }
    format!(
        "{shown} belongs to account {owner}, and this is account {me}: run this as that account, or as root"
    )
}

/// Returns the process that has the database locked, as `process 42 (sqlite3)`. None if the kernel does not tell.
pub(super) fn holder(database: &Path) -> Option<String> {
    let files = [database.to_owned(), file_beside(database, "-shm")];
    let inodes: Vec<String> = files.iter().filter_map(|path| inode_of(path)).collect();
    let table = fs::read_to_string("/proc/locks").ok()?;
    let us = std::process::id().to_string();
    let locks: Vec<FileLock<'_>> = table.lines().filter_map(FileLock::parse).collect();
    let of_store = |lock: &&FileLock<'_>| lock.process != us && inodes.contains(&lock.inode);
    let writers = locks.iter().filter(of_store).filter(|lock| lock.writes);
    let lock = writers.chain(locks.iter().filter(of_store)).next()?;
    let process = lock.process;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(match name.trim() {
        "" => format!("process {process}"),
        name => format!("process {process} ({name})"),
    })
}

fn inode_of(path: &Path) -> Option<String> {
    fs::metadata(path).ok().map(|file| file.ino().to_string())
}

/// A lock of a file, as a line of `/proc/locks` has it (proc_locks(5)).
struct FileLock<'a> {
    process: &'a str,
    inode: String,
    writes: bool,
}

impl<'a> FileLock<'a> {
    /// None for a lock that somebody waits for, and for one of a process outside of this namespace.
    fn parse(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, kind, process, place, ..] = fields[..] else { return None };
        let is_known = process.parse::<u32>().is_ok_and(|process| process > 0);
        let inode = place.rsplit(':').next().filter(|_| is_known)?.to_owned();
        Some(Self { process, inode, writes: kind == "WRITE" })
    }
}
