//! The operator's folder of markdown: reads, lists and changes files that cannot be outside of it.
//!
//! All access goes through one directory that is opened once, below which the kernel resolves every
//! path (openat2 with RESOLVE_BENEATH), so that links and races cannot lead out. Everything here
//! blocks; async code calls it through [`Workspace::run_blocking`]. Not here: the meaning of
//! a file to the tool that reads it (`tools`).

pub mod folders;
mod files;
pub mod instructions;
pub mod job_state;
pub mod named_paths;
pub mod private_links;
pub mod lost;
pub mod merge;
pub mod opened;
pub mod persons;
pub mod file_reads;
pub mod path;
pub mod instruction_scan;
pub mod skills;
pub mod snapshot;
pub mod template;

mod change;
mod free_place;
pub mod command_folders;
mod hash;
mod incoming;
mod marked;
pub mod path_stamps;
mod instruction_files;
mod media_type;
mod new_folder;
mod pending;
mod picture;
mod stamp;
mod writes;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;

pub use self::change::FileChange;
pub use self::files::{
    Audience, EntryKind, FileError, FilePage, FolderListing, ListingEntry, READ_BYTES_MAX,
};
pub use self::hash::Hash;
pub use self::incoming::PartialFile;
pub use self::media_type::media_type;
pub use self::new_folder::NewFolder;
pub use self::opened::{DatedEntry, OpenedFile, OpenedFolder};
pub use self::picture::picture_type;
use tokio_util::task::AbortOnDropHandle;

use self::folders::{DOWNLOADS, SHARED};
pub use self::folders::{FileScope, Folder};
use self::instruction_files::InstructionCache;
use self::instructions::Instructions;
pub use self::path::{PathError, WorkspacePath};
use self::pending::PendingFiles;
use self::skills::{SkillCache, SkillEnvironment};

/// The folder, and changes of it that were worked out but not made; cheap to clone.
#[derive(Clone)]
pub struct Workspace(Arc<WorkspaceInner>, Arc<PendingFiles>);

struct WorkspaceInner {
    root: PathBuf,
    dir: Dir,
    /// The folder that holds the workspace and the folders beside it.
    home: Dir,
    /// Shared by all sessions, so that an unchanged file is read once. Locked while the instructions are read, and never
    /// over an await, because everything here blocks.
    instruction_files: Mutex<InstructionCache>,
    /// The same for the skills.
    skills: Mutex<SkillCache>,
    /// The versions of the instructions that are in force. Locked only briefly.
    instructions: Instructions,
    skill_environment: SkillEnvironment,
    /// The untrusted files of the workspace, whose folder alone would make them trusted. Locked only briefly.
    marked: Mutex<BTreeSet<WorkspacePath>>,
    /// Locked while a change is made, because changes come from many sessions; never over an await.
    changing: Mutex<()>,
}

impl Workspace {
    /// Opens the folder. If it is missing or empty, creates it for this account alone, and fills it from the template
    /// without overwriting any file. Removes the temporary files of interrupted writes.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        Self::open_in(root, SkillEnvironment::default())
    }

    /// As [`Self::open`]. `skill_environment` is the part of the machine that skills may need.
    pub fn open_in(root: &Path, skill_environment: SkillEnvironment) -> anyhow::Result<Self> {
        template::make_root(root)?;
        let dir = Dir::open_ambient_dir(root, ambient_authority())
            .with_context(|| format!("cannot open the workspace {}", root.display()))?;
        template::fill(&dir).context("cannot write the template of the workspace")?;
        writes::sweep(&dir);
        let workspace = Self::of(root, dir, skill_environment)?;
        for name in [DOWNLOADS, SHARED] {
            let folder = WorkspacePath::own(name);
            workspace.make_folder(&folder).with_context(|| format!("cannot make {name}/"))?;
            if let Ok(folder) = workspace.0.home.open_dir(name) {
                writes::sweep(&folder);
            }
        }
        Ok(workspace)
    }

    /// Looks at a folder that is there, and may be another process's: nothing is made or removed.
    pub fn open_read_only(
        root: &Path,
        skill_environment: SkillEnvironment,
    ) -> anyhow::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())
            .with_context(|| format!("cannot open the workspace {}", root.display()))?;
        Self::of(root, dir, skill_environment)
    }

    fn of(root: &Path, dir: Dir, skill_environment: SkillEnvironment) -> anyhow::Result<Self> {
        let home = match root.parent() {
            Some(home) if !home.as_os_str().is_empty() => home,
            _ => Path::new("."),
        };
        let home = Dir::open_ambient_dir(home, ambient_authority())
            .with_context(|| format!("cannot open the home {}", home.display()))?;
        let inner = WorkspaceInner {
            root: root.to_owned(),
            dir,
            home,
            instruction_files: Mutex::default(),
            skills: Mutex::default(),
            instructions: Instructions::default(),
            skill_environment,
            marked: Mutex::default(),
            changing: Mutex::default(),
        };
        Ok(Self(Arc::new(inner), Arc::default()))
    }

    /// The open folder below which a path is resolved.
    fn base(&self, path: &WorkspacePath) -> &Dir {
        if path.is_beside_workspace() { &self.0.home } else { &self.0.dir }
    }

    /// The place of a path on disk, for commands.
    fn on_disk(&self, path: &WorkspacePath) -> io::Result<PathBuf> {
        match path.is_beside_workspace() {
            true => Ok(self.home_on_disk()?.join(path)),
            false => Ok(self.root().canonicalize()?.join(path)),
        }
    }

    /// The place of the home on disk.
    fn home_on_disk(&self) -> io::Result<PathBuf> {
        let home = self.root().parent().filter(|home| !home.as_os_str().is_empty());
        home.unwrap_or(Path::new(".")).canonicalize()
    }

    /// Returns the path of the folder, to show it to people. The other functions open files.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// Returns the path on disk of a file or folder. None if a link leads out of its own folder.
    pub fn disk_path(&self, path: &WorkspacePath) -> Option<PathBuf> {
        let root = match path.own_folder() {
            Some(folder) => self.on_disk(&folder).ok()?,
            None => self.root().canonicalize().ok()?,
        };
        let found = self.on_disk(path).ok()?.canonicalize().ok()?;
        found.starts_with(&root).then_some(found)
    }

    /// Runs blocking `work` on a thread for it. It runs to its end even if the caller is dropped.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let workspace = self.clone();
        match AbortOnDropHandle::new(tokio::task::spawn_blocking(move || work(&workspace))).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime shuts down; the caller is about to be dropped.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Returns the path without links to which `path` leads. The file need not exist.
    pub fn resolve(&self, path: &WorkspacePath) -> Result<WorkspacePath, FileError> {
        // The kernel names a file that is replaced at this moment by another name.
        if self.is_plain(path) {
            return Ok(path.clone());
        }
        match self.base(path).canonicalize(path) {
            Ok(found) => found
                .to_str()
                .and_then(|found| found.parse::<WorkspacePath>().ok())
                .filter(|found| found.own_folder() == path.own_folder())
                .ok_or_else(|| FileError::Outside(path.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.base(path).symlink_metadata(path).is_ok() {
                    return Err(FileError::Dangling(path.clone()));
                }
                let Some(parent) = path.parent() else { return Ok(path.clone()) };
                let found = format!("{}/{}", self.resolve(&parent)?, path.name());
                found.parse().map_err(|_| FileError::Outside(path.clone()))
            }
            Err(error) => Err(FileError::new(path, error)),
        }
    }

    /// As [`Self::resolve`]. Returns an error if the path, or the one to which it leads, is outside of the scope.
    pub fn resolve_for(
        &self,
        path: &WorkspacePath,
        scope: &FileScope,
    ) -> Result<WorkspacePath, FileError> {
        let found = self.resolve(path);
        let is_reached =
            scope.reaches(path) && found.as_ref().map_or(true, |found| scope.reaches(found));
        if is_reached { found } else { Err(FileError::Private(path.clone())) }
    }

    /// Returns a whole file of at most [`READ_BYTES_MAX`] bytes. None if there is none.
    pub fn read(&self, path: &WorkspacePath) -> Result<Option<Vec<u8>>, FileError> {
        match self.read_up_to(path, READ_BYTES_MAX) {
            Err(FileError::Missing(_)) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns a whole file of at most `max` bytes.
    pub fn read_up_to(&self, path: &WorkspacePath, max: u64) -> Result<Vec<u8>, FileError> {
        self.open_file(path)?.read_up_to(max)
    }

    /// Returns a whole text file of at most [`READ_BYTES_MAX`] bytes. None if there is none.
    pub fn read_text(&self, path: &WorkspacePath) -> Result<Option<String>, FileError> {
        match self.open_file(path).and_then(OpenedFile::read_text) {
            Err(FileError::Missing(_)) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns at most `length` bytes of a file of any size, and at most [`READ_BYTES_MAX`], from byte `start` on.
    pub fn read_page(
        &self,
        path: &WorkspacePath,
        start: u64,
        length: u64,
    ) -> Result<FilePage, FileError> {
        self.open_file(path)?.read_page(start, length)
    }

    /// Lists the folder `path` (None: the workspace itself) without leftovers of writes.
    pub fn list(&self, path: Option<&WorkspacePath>) -> Result<FolderListing, FileError> {
        self.open_folder(path).map(|folder| folder.list())
    }
}
