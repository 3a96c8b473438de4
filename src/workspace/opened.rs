//! Files and folders that are opened once, so that the file that was checked is the file that is read. A path
//! is walked name by name below the open folder of the workspace, and a name that has become a link in the
//! meantime ends the walk: nobody can exchange a file between its check and its use.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

use cap_std::fs::{Dir, MetadataExt as _};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::files::{entry_kind, shown};
use super::hash::HASH_BYTES_MAX;
use super::path::TEMPORARY_PREFIX;
use super::{
    Audience, EntryKind, FileError, FilePage, FileScope, FolderListing, Hash, ListingEntry,
    PathError, READ_BYTES_MAX, Workspace, WorkspacePath,
};
use crate::types::source::Source;

/// Maximum number of names that are read of one folder. A disk returns them in no useful order, so that an incomplete
/// listing is marked as such.
const FOLDER_ENTRIES_MAX: usize = 10_000;

/// Attempts at a path on which somebody exchanges names all the time.
const ATTEMPTS_MAX: usize = 4;

/// An open regular file, and the path at which it was found.
#[derive(Debug)]
pub struct OpenedFile {
    file: File,
    path: WorkspacePath,
    size: u64,
    names: u64,
    /// True if it is marked as untrusted.
    is_marked: bool,
    /// True if it was found where a former version kept it, and not at its path.
    is_former: bool,
}

/// A file or folder in an open folder, with the time of its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatedEntry {
    pub name: String,
    pub kind: EntryKind,
    /// The time of its last change, in nanoseconds since 1970.
    pub modified: i64,
}

/// An open folder, and the path at which it was found; no path for the workspace itself.
pub struct OpenedFolder {
    dir: Dir,
    /// The folder of that name in which a former version kept files.
    former: Option<Dir>,
    /// True if only that one exists.
    is_former: bool,
    path: Option<WorkspacePath>,
}

impl Workspace {
    /// Opens a regular file of any size for reading, without waiting for the other end of a pipe. Links that
    /// stay in the workspace are followed; [`OpenedFile::path`] tells where they lead.
    pub fn open_file(&self, path: &WorkspacePath) -> Result<OpenedFile, FileError> {
        self.follow(path, Self::open_without_links)
    }

    /// As [`Self::open_file`] for a path of the tree that a scope reaches. Others than the owner get no file
    /// with a second name, because nobody knows in which folder that one lies.
    pub fn open_for(
        &self,
        path: &WorkspacePath,
        scope: &FileScope,
    ) -> Result<OpenedFile, FileError> {
        if !scope.reaches(path) {
            // A file that is refused anyway must not show whether it is there.
            return Err(FileError::Private(path.clone()));
        }
        let file = self.open_file(path)?;
        if !scope.reaches(&file.path) {
            return Err(FileError::Private(path.clone()));
        }
        if scope.audience() == Audience::Others {
            file.check_single_name()?;
            // What commands of the owner have left in the workspace is not published.
            if file.is_former {
                return Err(FileError::Missing(path.clone()));
            }
        }
        Ok(file)
    }

    /// Opens a file at a path without links.
    ///
    /// # Errors
    /// [`FileError::Changed`] if a name of the path is a link.
    pub fn open_without_links(&self, path: &WorkspacePath) -> Result<OpenedFile, FileError> {
        if let Some(pending) = self.1.open(path) {
            let (file, size) = pending.map_err(|error| FileError::new(path, error))?;
            let (path, is_marked) = (path.clone(), self.is_marked(path));
            return Ok(OpenedFile { file, path, size, names: 1, is_marked, is_former: false });
        }
        match self.open_below(self.base(path), path) {
            Err(FileError::Missing(_)) if path.is_beside_workspace() => {
                let former = self.open_below(&self.0.dir, path)?;
                Ok(OpenedFile { is_former: true, ..former })
            }
            opened => opened.map(|file| OpenedFile { is_marked: self.is_marked(path), ..file }),
        }
    }

    fn open_below(&self, base: &Dir, path: &WorkspacePath) -> Result<OpenedFile, FileError> {
        let failed = |error: Errno| path_error(path, error);
        let folder = walk(base, path.parent().as_ref(), OFlags::PATH).map_err(failed)?;
        open_in(&folder, path)
    }

    /// The file that is to be changed at a path of the tree, where it really lies, if there is one. Refuses
    /// what is out of the scope.
    pub fn open_to_change(
        &self,
        path: &WorkspacePath,
        scope: &FileScope,
    ) -> Result<(WorkspacePath, Option<OpenedFile>), FileError> {
        for _ in 0..ATTEMPTS_MAX {
            let found = self.resolve_for(path, scope)?;
            match self.open_without_links(&found) {
                Err(FileError::Changed(_)) => {}
                Err(FileError::Missing(_)) => return Ok((found, None)),
                Err(error) => return Err(error),
                Ok(file) if file.is_former => return Err(FileError::Former(found)),
                Ok(file) => {
                    // The changed file has one name: in a trusted folder, all that it contains would be trusted.
                    if scope.audience() == Audience::Others || !found.is_untrusted() {
                        file.check_single_name()?;
                    }
                    return Ok((found, Some(file)));
                }
            }
        }
        Err(FileError::Changed(path.clone()))
    }

    /// Opens a folder of the tree that a scope reaches.
    pub fn open_folder_for(
        &self,
        path: &WorkspacePath,
        scope: &FileScope,
    ) -> Result<OpenedFolder, FileError> {
        if !scope.reaches(path) {
            return Err(FileError::Private(path.clone()));
        }
        let mut folder = self.open_folder(Some(path))?;
        if folder.path.as_ref().is_some_and(|path| !scope.reaches(path)) {
            return Err(FileError::Private(path.clone()));
        }
        if scope.audience() == Audience::Others {
            folder.former = None;
            if folder.is_former {
                return Err(FileError::Missing(path.clone()));
            }
        }
        Ok(folder)
    }

    /// Opens a folder; without a path the workspace itself.
    pub fn open_folder(&self, path: Option<&WorkspacePath>) -> Result<OpenedFolder, FileError> {
        let open = |workspace: &Self, path: Option<&WorkspacePath>| {
            let own = &workspace.0.dir;
            let base = path.map_or(own, |path| workspace.base(path));
            let former = path.filter(|path| path.is_beside_workspace());
            let former = former.and_then(|_| walk(own, path, OFlags::NONBLOCK).ok());
            match (walk(base, path, OFlags::NONBLOCK), former) {
                (Err(Errno::NOENT), Some(dir)) => {
                    Ok(OpenedFolder { dir, former: None, is_former: true, path: path.cloned() })
                }
                (dir, former) => {
                    Ok(OpenedFolder { dir: dir?, former, is_former: false, path: path.cloned() })
                }
            }
        };
        let Some(path) = path else {
            let root = "the workspace".parse().expect("it is a path");
            return open(self, None).map_err(|error: Errno| path_error(&root, error));
        };
        self.follow(path, |workspace, found| {
            open(workspace, Some(found)).map_err(|error| path_error(found, error))
        })
    }

    /// Lists a folder in the workspace itself, also one that has the name of a folder beside it.
    pub(super) fn list_own(&self, path: &WorkspacePath) -> Option<FolderListing> {
        let dir = walk(&self.0.dir, Some(path), OFlags::NONBLOCK).ok()?;
        let path = Some(path.clone());
        Some(OpenedFolder { dir, former: None, is_former: true, path }.list())
    }

    /// Opens what `path` leads to, again if somebody makes a name on its way a link meanwhile.
    fn follow<T>(
        &self,
        path: &WorkspacePath,
        open: impl Fn(&Self, &WorkspacePath) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        for _ in 0..ATTEMPTS_MAX {
            let found = self.resolve(path)?;
            match open(self, &found) {
                Err(FileError::Changed(_)) => {}
                // What a link leads to was replaced meanwhile.
                Err(FileError::Missing(_)) if found != *path => {}
                opened => return opened,
            }
        }
        Err(FileError::Changed(path.clone()))
    }

    /// Returns true if something is at a path, and no name of the path is a link.
    pub(super) fn is_plain(&self, path: &WorkspacePath) -> bool {
        let is_plain = |base: &Dir| {
            let folder = walk(base, path.parent().as_ref(), OFlags::PATH);
            let found = folder.and_then(|it| statat(it, path.name(), AtFlags::SYMLINK_NOFOLLOW));
            found.map(|found| !FileType::from_raw_mode(found.st_mode).is_symlink())
        };
        match is_plain(self.base(path)) {
            Err(Errno::NOENT) if path.is_beside_workspace() => {
                is_plain(&self.0.dir).unwrap_or_default()
            }
            is_plain => is_plain.unwrap_or_default(),
        }
    }
}

/// Opens a folder at a path without links below an open folder; the last one with `flags`. A link is `LOOP`.
fn walk(base: &Dir, path: Option<&WorkspacePath>, flags: OFlags) -> Result<Dir, Errno> {
    let names = path.iter().flat_map(|path| path.as_str().split('/'));
    let way = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = openat(base, ".", way | OFlags::PATH, Mode::empty())?;
    for name in names {
        folder = match openat(&folder, name, way | OFlags::PATH, Mode::empty()) {
            Err(Errno::NOTDIR) => {
                let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                let is_link = FileType::from_raw_mode(found.st_mode).is_symlink();
                return Err(if is_link { Errno::LOOP } else { Errno::NOTDIR });
            }
            opened => opened?,
        };
    }
    if !flags.contains(OFlags::PATH) {
        folder = openat(&folder, ".", way | flags, Mode::empty())?;
    }
    Ok(Dir::from_std_file(folder.into()))
}

/// Opens the file of a path in its folder; it is no link.
pub(super) fn open_in(folder: &Dir, path: &WorkspacePath) -> Result<OpenedFile, FileError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(folder, path.name(), flags, Mode::empty());
    let file = File::from(file.map_err(|error| path_error(path, error))?);
    let found = file.metadata().map_err(|error| FileError::new(path, error))?;
    match found.file_type() {
        kind if kind.is_file() => {
            let (size, names) = (found.len(), found.nlink());
            let is_marked = false;
            Ok(OpenedFile { file, path: path.clone(), size, names, is_marked, is_former: false })
        }
        kind if kind.is_dir() => Err(FileError::Folder(path.clone())),
        _ => Err(FileError::Special(path.clone())),
    }
}

/// A name that is a link was exchanged after the path had been resolved.
fn path_error(path: &WorkspacePath, error: Errno) -> FileError {
    match error {
        Errno::LOOP => FileError::Changed(path.clone()),
        error => FileError::new(path, error.into()),
    }
}

impl OpenedFile {
    /// Returns the path at which it was found, without links.
    pub fn path(&self) -> &WorkspacePath {
        &self.path
    }

    /// Returns its size when it was opened, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns true if the file has a second name (hard link), which may lie in any folder.
    pub fn has_other_names(&self) -> bool {
        self.names > 1
    }

    /// Returns the file as the source of what is read of it.
    pub fn source(&self) -> Source {
        let path = self.path.to_string();
        match (self.has_other_names(), self.is_marked) {
            (true, _) => Source::LinkedFile { path },
            (false, true) => Source::MarkedFile { path },
            (false, false) => Source::File { path },
        }
    }

    /// Refuses a file with a second name.
    pub fn check_single_name(&self) -> Result<(), FileError> {
        match self.has_other_names() {
            true => Err(FileError::Linked(self.path.clone())),
            false => Ok(()),
        }
    }

    /// Refuses a file that others may have written: it has a second name, lies in an untrusted folder, or is marked.
    pub fn check_trusted(&self) -> Result<(), FileError> {
        self.check_single_name()?;
        match self.is_marked || self.path.is_untrusted() {
            true => Err(FileError::Untrusted(self.path.clone())),
            false => Ok(()),
        }
    }

    /// The file itself, at its beginning, and its size in bytes.
    pub fn into_file(self) -> (File, u64) {
        (self.file, self.size)
    }

    /// The whole file of at most `max` bytes.
    pub fn read_up_to(self, max: u64) -> Result<Vec<u8>, FileError> {
        let Self { file, path, size, .. } = self;
        let too_big = |size| FileError::TooBig { path: path.clone(), size, max };
        if size > max {
            return Err(too_big(size));
        }
        let mut bytes = Vec::with_capacity(size.try_into().unwrap_or_default());
        file.take(max + 1).read_to_end(&mut bytes).map_err(|error| FileError::new(&path, error))?;
        match bytes.len() as u64 {
            size if size > max => Err(too_big(size)),
            _ => Ok(bytes),
        }
    }

    /// The whole file of text; at most [`READ_BYTES_MAX`].
    pub fn read_text(self) -> Result<String, FileError> {
        let path = self.path.clone();
        String::from_utf8(self.read_up_to(READ_BYTES_MAX)?).map_err(|_| FileError::NotText(path))
    }

    /// Returns at most `length` bytes, and at most [`READ_BYTES_MAX`], from byte `start` on.
    pub fn read_page(mut self, start: u64, length: u64) -> Result<FilePage, FileError> {
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(start)).and_then(|_| {
            (&mut self.file).take(length.min(READ_BYTES_MAX)).read_to_end(&mut bytes)
        });
        read.map_err(|error| FileError::new(&self.path, error))?;
        Ok(FilePage { bytes, size: self.size })
    }

    /// The hash of the whole file; at most 64 MiB.
    pub fn hash(self) -> Result<Hash, FileError> {
        let Self { file, path, size, .. } = self;
        if size > HASH_BYTES_MAX {
            return Err(FileError::TooBig { path, size, max: HASH_BYTES_MAX });
        }
        let mut file = file.take(HASH_BYTES_MAX);
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer).map_err(|error| FileError::new(&path, error))? {
                0 => return Ok(Hash::finish(hasher)),
                length => hasher.update(&buffer[..length]),
            }
        }
    }
}

impl OpenedFolder {
    /// Returns the path at which it was found, without links. None for the workspace itself.
    pub fn path(&self) -> Option<&WorkspacePath> {
        self.path.as_ref()
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the path of an entry.
    pub fn path_of(&self, name: &str) -> Result<WorkspacePath, PathError> {
        match &self.path {
            None => name.parse(),
            Some(path) => format!("{path}/{name}").parse(),
        }
    }

    /// Opens a folder in it, which is no link.
    pub fn folder(&self, name: &str) -> Result<Self, FileError> {
        let path = self.path_of(name).map_err(|error| FileError::Name(Box::new(error)))?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |base: &Dir| openat(base, path.name(), flags, Mode::empty());
        let dir = match (open(&self.dir), &self.former) {
            (Err(Errno::NOENT), Some(former)) => open(former),
            (dir, _) => dir,
        };
        let dir = dir.map_err(|error| path_error(&path, error))?;
        let dir = Dir::from_std_file(dir.into());
        Ok(Self { dir, former: None, is_former: self.is_former, path: Some(path) })
    }

    /// Returns at most `max` of its files and folders with their times. Names that are not UTF-8 are left out.
    pub fn dated_entries(&self, max: usize) -> Vec<DatedEntry> {
        let Ok(read) = self.dir.entries() else { return Vec::new() };
        let dated = read.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let found = entry.metadata().ok()?;
            let modified = found.mtime().checked_mul(1_000_000_000)? + found.mtime_nsec();
            let kind = entry_kind(found.file_type(), || found.len());
            let is_ours = name.starts_with(TEMPORARY_PREFIX);
            (!is_ours).then_some(DatedEntry { name, kind, modified })
        });
        dated.take(max).collect()
    }

    /// The names in it, but for leftovers of writes. A folder that cannot be read is shown as cut.
    pub fn list(&self) -> FolderListing {
        let mut listing = FolderListing::default();
        let Ok(read) = self.dir.entries() else { return FolderListing { cut: true, ..listing } };
        let former = self.former.iter().filter_map(|former| former.entries().ok()).flatten();
        for entry in read.chain(former).flatten() {
            let name = shown(&entry.file_name().to_string_lossy());
            if name.starts_with(TEMPORARY_PREFIX) {
                continue;
            }
            if listing.entries.len() == FOLDER_ENTRIES_MAX {
                listing.cut = true;
                break;
            }
            let kind = match entry.file_type() {
                Ok(kind) => entry_kind(kind, || entry.metadata().map_or(0, |found| found.len())),
                Err(_) => EntryKind::Special,
            };
            listing.entries.push(ListingEntry { name, kind });
        }
        listing.entries.sort();
        listing.entries.dedup_by(|one, other| one.name == other.name);
        listing
    }
}
