//! Whether a command of the owner's has opened what others wrote. The whole workspace is open to it, and
//! with it what people have sent, what others' commands have left, and outputs that were marked; a name in
//! the command line says little. So those folders are watched (inotify) while it runs, whatever cage it is
//! in; where they cannot be, it counts as having read what is there.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::workspace::path::{INBOX, OF_OTHERS, OUTPUTS, SHARED, TEMPORARY_PREFIX};
use crate::workspace::{EntryKind, Workspace, WorkspacePath};

/// Folders that are watched; each takes about a kilobyte of the kernel's.
const FOLDERS_MAX: usize = 1_000;

/// Room for about a hundred events with short names.
const EVENTS_BYTES: usize = 4 * 1024;

/// What is asked of a folder: who opens a file in it, moves one out of it, or makes a folder in it, in
/// which nobody would see it opened.
const ASKED: WatchFlags = WatchFlags::OPEN
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// What is known of one command.
pub(super) struct Others {
    workspace: Workspace,
    seen: Seen,
    has_read: AtomicBool,
}

enum Seen {
    /// It is certain from the start.
    Known,
    /// There was nothing of theirs when it began.
    Nothing,
    /// What it does is told here. Folders by the number of their watch tell where.
    Watched { events: OwnedFd, outputs: Vec<i32> },
}

impl Others {
    /// Of a command of which it is certain.
    pub(super) fn known(workspace: &Workspace, has_read: bool) -> Self {
        let has_read = AtomicBool::new(has_read);
        Self { workspace: workspace.clone(), seen: Seen::Known, has_read }
    }

    /// To be called before the command begins.
    pub(super) async fn watch(workspace: &Workspace) -> Self {
        let watched = workspace.off_thread(watch).await;
        match watched {
            Ok(seen) => {
                Self { workspace: workspace.clone(), seen, has_read: AtomicBool::new(false) }
            }
            Err(error) => {
                tracing::info!(%error, "Cannot watch what others wrote: a command counts as having read it");
                Self::known(workspace, true)
            }
        }
    }

    /// Whether it has read what others wrote, by now; once so, always so.
    pub(super) async fn has_read(&self) -> bool {
        if !self.has_read.load(Ordering::Relaxed) {
            let has_read = match &self.seen {
                Seen::Known => false,
                Seen::Nothing => self.workspace.off_thread(is_something_there).await,
                Seen::Watched { events, outputs } => is_opened(events, outputs),
            };
            self.has_read.fetch_or(has_read, Ordering::Relaxed);
        }
        self.has_read.load(Ordering::Relaxed)
    }
}

/// Folders that hold what others wrote, with all below them.
#[derive(Default)]
struct Folders {
    all: Vec<WorkspacePath>,
    /// Whether there is a file of theirs.
    has_files: bool,
    /// There are more folders.
    is_cut: bool,
}

impl Folders {
    fn find(workspace: &Workspace) -> Self {
        let mut folders = Self::default();
        for name in [INBOX, SHARED, OUTPUTS] {
            folders.all.push(name.parse().expect("it is one name"));
        }
        let mut at = 0;
        while let Some(folder) = folders.all.get(at).cloned() {
            at += 1;
            // One that is not there, or is a link out, holds nothing that a command would see.
            let Ok(listing) = workspace.list(Some(&folder)) else { continue };
            folders.is_cut |= listing.cut;
            for entry in listing.entries {
                let path = format!("{folder}/{}", entry.name).parse::<WorkspacePath>();
                let path = path.inspect_err(|_| folders.is_cut = true);
                match (entry.kind, path) {
                    (EntryKind::Folder, Ok(path)) if folders.all.len() < FOLDERS_MAX => {
                        folders.all.push(path);
                    }
                    (EntryKind::Folder, _) => folders.is_cut = true,
                    (_, Ok(path)) => folders.has_files |= path.is_of_others(),
                    (_, Err(_)) => folders.has_files = true,
                }
            }
        }
        folders
    }
}

fn is_something_there(workspace: &Workspace) -> bool {
    Folders::find(workspace).has_files
}

fn watch(workspace: &Workspace) -> Result<Seen, Errno> {
    let folders = Folders::find(workspace);
    if !folders.has_files && !folders.is_cut {
        return Ok(Seen::Nothing);
    }
    if folders.is_cut {
        return Err(Errno::NOSPC);
    }
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let mut outputs = Vec::new();
    for folder in folders.all {
        match inotify::add_watch(&events, workspace.root().join(&folder), ASKED) {
            Ok(number) if folder.as_str().starts_with(OUTPUTS) => outputs.push(number),
            Ok(_) => {}
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Seen::Watched { events, outputs })
}

/// Whether a file of others' was opened or moved since this was asked last.
fn is_opened(events: &OwnedFd, outputs: &[i32]) -> bool {
    let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
    let mut reader = Reader::new(events, &mut buffer);
    let mut is_opened = false;
    loop {
        let event = match reader.next() {
            Ok(event) => event,
            Err(Errno::AGAIN) => return is_opened,
            Err(_) => return true,
        };
        let name = event.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let flags = event.events();
        // Its list of names alone says nothing: names of what came are ours.
        let is_folder = flags.contains(ReadFlags::ISDIR)
            && !flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_FROM);
        let is_made = flags.contains(ReadFlags::CREATE) && !flags.contains(ReadFlags::ISDIR);
        // What is in the making is written by the daemon.
        let is_ours = name.starts_with(TEMPORARY_PREFIX)
            || (outputs.contains(&event.wd())
                && !name.contains(OF_OTHERS)
                && !flags.contains(ReadFlags::ISDIR));
        let is_lost = flags.contains(ReadFlags::QUEUE_OVERFLOW);
        is_opened |= is_lost || !(is_folder || is_made || is_ours || name.is_empty());
    }
}
