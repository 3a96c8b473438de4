//! Watches if a command of the owner's opens what others wrote in the workspace. Former versions kept there what
//! people had sent, what others' commands had left, and outputs with untrusted content; a name in the command line
//! says little. So those folders are watched (inotify) while a command runs. If they cannot be, it counts as having
//! read what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::folders::{FOLDERS_BESIDE, OUTPUTS};
use super::path::{INBOX, TEMPORARY_PREFIX, UNTRUSTED_OUTPUT_MARK};
use super::{EntryKind, Workspace, WorkspacePath};

/// The folders of the workspace in which former versions kept what others wrote. Those beside the workspace are in
/// no command's sight that this module watches.
const FOLDERS: [&str; 6] =
    [INBOX, OUTPUTS, FOLDERS_BESIDE[0], FOLDERS_BESIDE[1], FOLDERS_BESIDE[2], FOLDERS_BESIDE[3]];

/// Folders that are watched; each takes about a kilobyte of the kernel's while a command runs. As many as
/// the packages of a large program have; the least that the kernel grants an account is 8,192.
const FOLDERS_MAX: usize = 8_000;

/// The warning that file reads cannot be watched. It is logged once, because that is so for all commands.
static WARNED: Once = Once::new();

/// Room for about a hundred events with short names.
const EVENTS_BYTES: usize = 4 * 1024;

/// Events that are watched in a folder: opening a file, moving one out, making a folder (in which nobody would see it
/// opened), or moving the folder away with its content.
const ASKED: WatchFlags = WatchFlags::OPEN
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// The file reads of one command.
pub struct FileReads {
    workspace: Workspace,
    seen: ReadState,
    has_read: AtomicBool,
}

enum ReadState {
    /// It was known before the command began.
    Known,
    /// There was no untrusted file when the command began.
    Nothing,
    Watched(WatchedFolders),
}

/// Folders in which it is told what is done.
struct WatchedFolders {
    events: OwnedFd,
    /// The folder of the workspace of each watch, by the number of the watch.
    within: BTreeMap<i32, &'static str>,
    /// Files that were made since, which are nobody else's. Locked for as long as the events are read.
    made: Mutex<BTreeSet<(i32, String)>>,
    /// The watches of single files, which are marked.
    marked: BTreeSet<i32>,
}

impl FileReads {
    /// Returns the file reads of a command of which they are known.
    pub fn known(workspace: &Workspace, has_read: bool) -> Self {
        let has_read = AtomicBool::new(has_read);
        Self { workspace: workspace.clone(), seen: ReadState::Known, has_read }
    }

    /// Begins to watch the untrusted files. Call it before the command begins.
    pub async fn watch(workspace: &Workspace) -> Self {
        let watched = workspace.run_blocking(watch).await;
        match watched {
            Ok(seen) => {
                Self { workspace: workspace.clone(), seen, has_read: AtomicBool::new(false) }
            }
            Err(error) => {
                WARNED.call_once(|| {
                    let folders = FOLDERS.join(", ");
                    tracing::warn!(
                        %error,
                        "Cannot watch what others wrote: each command of the owner's counts as having \
                         read it; are there more than {FOLDERS_MAX} folders in {folders}?"
                    );
                });
                Self::known(workspace, true)
            }
        }
    }

    /// Returns true if it has read others' files by now. It stays true.
    pub async fn has_read(&self) -> bool {
        if !self.has_read.load(Ordering::Relaxed) {
            let has_read = match &self.seen {
                ReadState::Known => false,
                ReadState::Nothing => self.workspace.run_blocking(has_come).await,
                ReadState::Watched(watched) => watched.is_opened(),
            };
            self.has_read.fetch_or(has_read, Ordering::Relaxed);
        }
        self.has_read.load(Ordering::Relaxed)
    }
}

/// Folders that hold what others wrote, with all below them.
#[derive(Default)]
struct UntrustedFolders {
    all: Vec<WorkspacePath>,
    /// True if a file of theirs exists.
    has_files: bool,
    /// There are more folders.
    is_cut: bool,
}

impl UntrustedFolders {
    fn find(workspace: &Workspace) -> Self {
        let mut folders = Self::default();
        for name in FOLDERS {
            folders.all.push(name.parse().expect("it is one name"));
        }
        let mut at = 0;
        while let Some(folder) = folders.all.get(at).cloned() {
            at += 1;
            // One that is not there, or is a link out, holds nothing that a command would see.
            let Some(listing) = workspace.list_own(&folder) else { continue };
            folders.is_cut |= listing.cut;
            for entry in listing.entries {
                let path = format!("{folder}/{}", entry.name).parse::<WorkspacePath>();
                match (entry.kind, path) {
                    (EntryKind::Folder, Ok(path)) if folders.all.len() < FOLDERS_MAX => {
                        folders.all.push(path);
                    }
                    (EntryKind::Folder, _) => folders.is_cut = true,
                    (_, Ok(path)) => folders.has_files |= path.is_untrusted(),
                    (_, Err(_)) => folders.has_files = true,
                }
            }
        }
        folders
    }
}

/// Returns true if people have sent a file since there was none. The command may have made the files in the other
/// folders itself.
fn has_come(workspace: &Workspace) -> bool {
    let inbox = |path: &&WorkspacePath| path.is_received();
    let folders = UntrustedFolders::find(workspace).all;
    let lists = folders.iter().filter(inbox).filter_map(|path| workspace.list_own(path));
    lists.flat_map(|list| list.entries).any(|entry| entry.kind != EntryKind::Folder)
}

fn watch(workspace: &Workspace) -> Result<ReadState, Errno> {
    let folders = UntrustedFolders::find(workspace);
    if folders.is_cut {
        return Err(Errno::NOSPC);
    }
    let marked = workspace.marked();
    if !folders.has_files && marked.is_empty() {
        return Ok(ReadState::Nothing);
    }
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let mut within = BTreeMap::new();
    for folder in folders.all {
        let first = folder.as_str().split('/').next();
        let top = FOLDERS.into_iter().find(|top| first == Some(top)).expect("it is in one of them");
        match inotify::add_watch(&events, workspace.root().join(&folder), ASKED) {
            Ok(number) => drop(within.insert(number, top)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error),
        }
    }
    let marked = watch_files(workspace, &events, &marked)?;
    Ok(ReadState::Watched(WatchedFolders { events, within, made: Mutex::default(), marked }))
}

/// Watches marked files, which lie among trusted ones.
fn watch_files(
    workspace: &Workspace,
    events: &OwnedFd,
    files: &BTreeSet<WorkspacePath>,
) -> Result<BTreeSet<i32>, Errno> {
    let asked = WatchFlags::OPEN | WatchFlags::MOVE_SELF | WatchFlags::DONT_FOLLOW;
    let watch = |file| match inotify::add_watch(events, workspace.root().join(file), asked) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
        added => Some(added),
    };
    files.iter().filter_map(watch).collect()
}

impl WatchedFolders {
    /// Returns true if a file of others was opened or moved since the last call.
    fn is_opened(&self) -> bool {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut reader = Reader::new(&self.events, &mut buffer);
        let mut is_opened = false;
        loop {
            match reader.next() {
                Ok(event) => is_opened |= self.is_of_others(&event, &mut made),
                Err(Errno::AGAIN) => return is_opened,
                Err(_) => return true,
            }
        }
    }

    fn is_of_others(&self, event: &Event<'_>, made: &mut BTreeSet<(i32, String)>) -> bool {
        let flags = event.events();
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return true;
        }
        if self.marked.contains(&event.wd()) {
            return flags.intersects(ReadFlags::OPEN | ReadFlags::MOVE_SELF);
        }
        let Some(within) = self.within.get(&event.wd()) else { return false };
        if flags.contains(ReadFlags::MOVE_SELF) {
            return true;
        }
        // A folder that is opened itself says names, and those of what came are ours.
        let Some(name) = event.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            return false;
        };
        let (is_folder, is_made) =
            (flags.contains(ReadFlags::ISDIR), flags.contains(ReadFlags::CREATE));
        if is_folder {
            // What comes into a new one is not seen; and one that is moved away takes what is in it along.
            return flags.contains(ReadFlags::MOVED_FROM) || (is_made && *within == INBOX);
        }
        // What is in the making is written by the daemon.
        let is_ours = name.starts_with(TEMPORARY_PREFIX)
            || (*within == OUTPUTS && !name.contains(UNTRUSTED_OUTPUT_MARK));
        let file = (event.wd(), name);
        if is_made {
            made.insert(file);
            return false;
        }
        !is_ours && !made.contains(&file)
    }
}
