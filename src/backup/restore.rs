//! Restores a backup. It is unpacked and checked beside the data of the home; one rename then decides, and the rest can be
//! finished after a crash.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::unpack::{damaged, unpack, unwritable};
use super::{BackupError, BackupManifest, FOLDERS, ReadReport, forget_again, settle};
use crate::atomic_file;
use crate::replies::RestoredWork;
use crate::store::{self, HomeLock, OpenError, StoreError};
use crate::workspace::lost::RECORD;

/// The folder into which an archive is unpacked.
const UNPACKED: &str = "restore.partial";

/// The same folder once everything in it was checked. From then on the restore is finished, also after a crash.
const READY: &str = "restore.ready";

/// Files beside the store that belong to its old content.
const LOGS: [&str; 2] = ["state.db-wal", "state.db-shm"];

/// The folder that a backup lacks if it was made while the workspace was gone.
const WORKSPACE: &str = "workspace";

/// If data in the home may be moved aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Refuse,
    Replace,
}

/// A home that was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredHome {
    pub manifest: BackupManifest,
    /// The folder with what was there before.
    pub before: Option<PathBuf>,
    /// Describes the work that was pending in the backup, which is not done.
    pub pending: String,
    /// The same work, each piece by itself.
    pub work: RestoredWork,
    /// The links in the home that were replaced by what the backup has.
    pub links: Vec<ReplacedLink>,
    /// False if the backup has no file of the workspace.
    pub has_workspace: bool,
}

/// A link that led out of the home, as to another disk. The restored data is in the home itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedLink {
    pub name: &'static str,
    pub target: PathBuf,
}

/// Restores a backup into a home in which no daemon runs.
pub fn restore(
    home: &Path,
    file: &Path,
    existing: Existing,
    now: DateTime<Utc>,
) -> Result<RestoredHome, BackupError> {
    restore_reporting(home, file, existing, now, &mut |_| ())
}

/// As [`restore`], and reports the bytes of the archive that were read.
pub fn restore_reporting(
    home: &Path,
    file: &Path,
    existing: Existing,
    now: DateTime<Utc>,
    report: ReadReport<'_>,
) -> Result<RestoredHome, BackupError> {
    let _lock = HomeLock::claim(home)?;
    finish(home)?;
    let has_data = has_data(home);
    if has_data && existing == Existing::Refuse {
        return Err(BackupError::NotEmpty(home.to_owned()));
    }
    if let Some(mounted) = all_names().map(|name| home.join(name)).find(|it| is_mounted(it)) {
        return Err(BackupError::Mounted(mounted));
    }
    let unpacked = home.join(UNPACKED);
    remove(&unpacked).map_err(|error| unwritable(&unpacked, error))?;
    let prepared = unpack(file, &unpacked, report)
        .and_then(|manifest| prepare(home, file, &unpacked, manifest, now));
    let (manifest, settled) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            remove(&unpacked).ok();
            return Err(error);
        }
    };
    let has_workspace = !is_empty(&unpacked.join(WORKSPACE));
    let record = (!has_workspace).then_some(RECORD);
    let moves_more = LOGS.into_iter().chain(record).any(|name| is_there(&home.join(name)));
    let before = (has_data || moves_more).then(|| free_folder(home, now));
    if let Some(before) = &before {
        // Named in the folder that decides, so that a crash does not make a second one. On the disk before that is.
        let (file, name) = (unpacked.join(BEFORE), before.as_os_str().as_encoded_bytes());
        let named = atomic_file::replace(&file, name, atomic_file::PRIVATE);
        named.map_err(|error| unwritable(before, error))?;
    }
    let links = links_in(home);
    sync(&unpacked).map_err(|error| unwritable(&unpacked, error))?;
    fs::rename(&unpacked, home.join(READY)).map_err(|error| unwritable(&unpacked, error))?;
    sync(home).map_err(|error| unwritable(home, error))?;
    finish(home)?;
    for path in all_names().map(|name| home.join(name)).chain(before.clone()) {
        let given = atomic_file::give_to_owner(home, &path);
        given.map_err(BackupError::io(format!("cannot give {} to its account", path.display())))?;
    }
    let settle::SettledStore { pending, work, .. } = settled;
    Ok(RestoredHome { manifest, before, pending, work, links, has_workspace })
}

/// Returns true if a home has something of what a restore replaces. A log has the newest messages, also without its store.
fn has_data(home: &Path) -> bool {
    let has_log = home.join(LOGS[0]).metadata().is_ok_and(|log| log.len() > 0);
    has_log || all_names().any(|name| is_there(&home.join(name)))
}

/// Returns true if there is something at a path. A link whose target is not there is something, too.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Returns true if a folder is there and has no entry.
fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns true if something is mounted at a path of the home, which then cannot be renamed. A link to a mounted disk can.
fn is_mounted(path: &Path) -> bool {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS).ok();
    let mount_root = StatxAttributes::MOUNT_ROOT;
    match found.filter(|it| it.stx_attributes_mask.contains(mount_root)) {
        Some(found) => found.stx_attributes.contains(mount_root),
        // Old kernels do not tell. They are asked for the device, which a folder mounted from the same disk shares.
        None => {
            let device = |path: &Path| path.symlink_metadata().map(|meta| meta.dev()).ok();
            let home = path.parent().and_then(|home| home.metadata().ok());
            device(path).zip(home).is_some_and(|(device, home)| device != home.dev())
        }
    }
}

/// Returns the links among the entries that a restore replaces.
fn links_in(home: &Path) -> Vec<ReplacedLink> {
    let link = |name| Some(ReplacedLink { name, target: fs::read_link(home.join(name)).ok()? });
    all_names().filter_map(link).collect()
}

/// A folder for what was there before, which does not exist yet.
fn free_folder(home: &Path, now: DateTime<Utc>) -> PathBuf {
    let name = format!("before-restore-{}", now.format("%Y%m%d-%H%M%S"));
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let names = std::iter::once(name.clone()).chain(numbered);
    let mut folders = names.map(|name| home.join(name));
    folders.find(|folder| !folder.exists()).expect("there are more numbers than folders")
}

/// Names of the entries that a restore replaces: the store and the folders.
fn all_names() -> impl Iterator<Item = &'static str> {
    std::iter::once(store::FILE).chain(FOLDERS)
}

/// The file that names the folder for what was there before.
const BEFORE: &str = "before";

/// Returns the folder that a restore has chosen for what was there before. None if there was nothing.
fn chosen_folder(home: &Path, ready: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read(ready.join(BEFORE)) {
        // A former version did not wait until the name was on the disk.
        Ok(name) if name.is_empty() => Ok(Some(free_folder(home, Utc::now()))),
        Ok(name) => Ok(Some(OsString::from_vec(name).into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if a restore was decided and cut off: a part of its data is in place, and the next opening of the home moves
/// the rest.
pub fn is_unfinished(home: &Path) -> bool {
    home.join(READY).exists()
}

/// Finishes a restore that was decided, or deletes the leftovers of one that was not. The home is locked.
pub fn finish(home: &Path) -> Result<(), BackupError> {
    let ready = home.join(READY);
    if !ready.exists() {
        // A restore that a crash ended before it was decided has changed nothing else.
        remove(&home.join(UNPACKED)).ok();
        return Ok(());
    }
    let replaced = all_names().filter(|name| ready.join(name).exists());
    if let Some(mounted) = replaced.map(|name| home.join(name)).find(|it| is_mounted(it)) {
        return Err(BackupError::MountedMeanwhile(mounted));
    }
    let move_all = || {
        let before = chosen_folder(home, &ready)?;
        if let Some(before) = &before {
            DirBuilder::new().recursive(true).mode(0o700).create(before)?;
        }
        for name in all_names() {
            let (new, place) = (ready.join(name), home.join(name));
            // What was moved before a crash is not there any more.
            if !new.exists() {
                continue;
            }
            let beside: &[&str] = match name {
                store::FILE => &LOGS,
                // With the record, the next start would miss the files that the backup does not have.
                WORKSPACE if is_empty(&new) => &[RECORD],
                _ => &[],
            };
            for old in std::iter::once(&name).chain(beside) {
                if let Some(before) = before.as_ref().filter(|_| is_there(&home.join(old))) {
                    fs::rename(home.join(old), before.join(old))?;
                }
            }
            fs::rename(&new, &place)?;
            // A folder that the backup does not have stood there only to move the old one aside.
            fs::remove_dir(&place).ok();
        }
        sync(home)?;
        remove(&ready)
    };
    move_all().map_err(BackupError::io(format!("cannot finish the restore in {}", home.display())))
}

/// Checks an unpacked archive, and ends what was pending in it.
fn prepare(
    home: &Path,
    file: &Path,
    unpacked: &Path,
    manifest: BackupManifest,
    now: DateTime<Utc>,
) -> Result<(BackupManifest, settle::SettledStore), BackupError> {
    match store::check_integrity(unpacked) {
        Ok(()) => {}
        Err(OpenError::Newer { .. }) => {
            let version = manifest.version;
            return Err(BackupError::Newer { file: file.to_owned(), version });
        }
        Err(error) => return Err(unusable(home, file, error)),
    }
    let since = settle::SinceBackup::read(home, unpacked)?;
    let settled = settle::settle(unpacked, &since, &manifest, now);
    let settled = settled.map_err(|error| unusable(home, file, error))?;
    let deleted = forget_again::delete(unpacked, &settled.forgotten);
    deleted.map_err(|error| BackupError::StillKnown(format!("{error:#}")))?;
    if !since.forgotten.is_empty() {
        let rewritten = store::rewrite_offline(unpacked);
        rewritten.map_err(|error| unusable(home, file, error))?;
    }
    for folder in FOLDERS {
        let folder = unpacked.join(folder);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| unwritable(&folder, error))?;
    }
    Ok((manifest, settled))
}

/// Returns the reason why the unpacked store cannot be used: no space for it, or the backup.
fn unusable(home: &Path, file: &Path, error: OpenError) -> BackupError {
    match error {
        OpenError::Full { .. } | OpenError::Database { cause: StoreError::Full, .. } => {
            BackupError::NoSpace(home.to_owned())
        }
        // Advice about the store of a home would mislead here.
        OpenError::Damaged { cause, .. } => damaged(file, cause),
        OpenError::Emptied { .. } => damaged(file, "its store is empty"),
        OpenError::Gone { .. } => damaged(file, "it has no store"),
        OpenError::Older { found, .. } => BackupError::Older { file: file.to_owned(), found },
        error => damaged(file, error),
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
