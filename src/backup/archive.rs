//! Writes a backup. The file appears at once and whole under its name, or not at all.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::OFlags;
use tar::{Builder, EntryType, Header};

use super::linked::{LinkedFiles, LinkedPath};
use super::partial::{PartialBackup, folder_of};
use super::restore;
use super::{
    BackupError, BackupManifest, BackupSummary, FOLDERS, FORMAT, HomeMark, LeftOut, MANIFEST,
    ReadReport, Reporting, SkippedEntries,
};
use crate::store::{self, HomeLock, OpenError};

/// Makes a backup of a home, while its daemon runs or not.
pub fn write(home: &Path, file: &Path, now: DateTime<Utc>) -> Result<BackupSummary, BackupError> {
    write_reporting(home, file, now, &mut |_| ())
}

/// As [`write`], and reports the bytes of the home that were read.
pub fn write_reporting(
    home: &Path,
    file: &Path,
    now: DateTime<Utc>,
    report: ReadReport<'_>,
) -> Result<BackupSummary, BackupError> {
    // An account that may only read the home makes its backups without a mark, and so does one with a full disk.
    write_as(home, file, now, || HomeMark::of(home).ok(), report)
}

/// As [`write`], of a home whose mark is known.
pub(super) fn write_marked(
    home: &Path,
    file: &Path,
    now: DateTime<Utc>,
    mark: &HomeMark,
) -> Result<BackupSummary, BackupError> {
    write_as(home, file, now, || Some(mark.clone()), &mut |_| ())
}

/// Writes a backup. `mark` is asked only if there is something to write.
fn write_as(
    home: &Path,
    file: &Path,
    now: DateTime<Utc>,
    mark: impl FnOnce() -> Option<HomeMark>,
    report: ReadReport<'_>,
) -> Result<BackupSummary, BackupError> {
    if !store::has_store(home) && !restore::is_unfinished(home) {
        return Err(BackupError::Nothing(home.to_owned()));
    }
    // A link that leads nowhere would be replaced.
    if file.symlink_metadata().is_ok() {
        return Err(BackupError::Exists(file.to_owned()));
    }
    refuse_inside(home, file)?;
    // Keeps a daemon from starting in the middle; one that runs has the lock, and is read beside.
    let lock = HomeLock::claim(home).ok();
    // A restore that was cut off has moved a part of the home.
    if lock.is_some() {
        restore::finish(home)?;
    }
    let partial = PartialBackup::begin(file, mark().as_ref())?;
    let made = pack(home, &partial, now, report)?;
    let what = || BackupError::io(format!("cannot write {}", file.display()));
    let bytes = fs::metadata(&partial.archive).map_err(what())?.len();
    fs::rename(&partial.archive, file).map_err(what())?;
    let folder = folder_of(file);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(what())?;
    let PackedFiles { files, skipped, moved, moved_to, left_out } = made;
    let file = file.to_owned();
    Ok(BackupSummary { file, bytes, files, skipped, moved, moved_to, left_out })
}

/// An archive must not contain itself, nor lie where the tools of a model write.
fn refuse_inside(home: &Path, file: &Path) -> Result<(), BackupError> {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let parent = absolute.parent().unwrap_or(Path::new("/"));
    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    match FOLDERS.iter().any(|folder| parent.starts_with(home.join(folder))) {
        true => Err(BackupError::Inside(file.to_owned())),
        false => Ok(()),
    }
}

type Archive = Builder<GzEncoder<BufWriter<File>>>;

/// Numbers of the files in an archive, and those that are not in it.
#[derive(Default)]
struct PackedFiles {
    files: u64,
    skipped: SkippedEntries,
    moved: u64,
    moved_to: BTreeSet<PathBuf>,
    left_out: LeftOut,
}

/// Writes all entries.
fn pack(
    home: &Path,
    partial: &PartialBackup,
    now: DateTime<Utc>,
    report: ReadReport<'_>,
) -> Result<PackedFiles, BackupError> {
    let schema = store::snapshot(home, &partial.store).map_err(not_copied)?;
    let archive = BufWriter::new(partial.writer()?);
    // A card is slower than this compression.
    let mut archive = Builder::new(GzEncoder::new(archive, Compression::fast()));
    let what = || BackupError::io(format!("cannot write {}", partial.archive.display()));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let manifest = BackupManifest { format: FORMAT, version, schema, made: now };
    let manifest = serde_json::to_vec_pretty(&manifest).expect("our own type has string keys");
    let header = file_header(manifest.len() as u64, 0o600, now.timestamp());
    append(&mut archive, Path::new(MANIFEST), header, manifest.as_slice()).map_err(what())?;
    let snapshot = File::open(&partial.store).map_err(what())?;
    let length = snapshot.metadata().map_err(what())?.len();
    let snapshot = Reporting { inner: snapshot, report: &mut *report };
    let header = file_header(length, 0o600, now.timestamp());
    append(&mut archive, Path::new(store::FILE), header, snapshot).map_err(what())?;
    // The store is one of them.
    let packed = PackedFiles { files: 1, ..PackedFiles::default() };
    let mut packer = Packer { home, archive, report, packed };
    packer.pack_folders().map_err(what())?;
    let Packer { archive, packed, .. } = packer;
    let compressed = archive.into_inner().and_then(GzEncoder::finish);
    let mut writer = compressed.map_err(what())?;
    writer.flush().map_err(what())?;
    writer.get_ref().sync_all().map_err(what())?;
    Ok(packed)
}

fn not_copied(error: OpenError) -> BackupError {
    match error {
        OpenError::Damaged { path, cause } => BackupError::DamagedStore { store: path, cause },
        error => error.into(),
    }
}

/// The folders of a home on their way into an archive. An error is one of the archive: a file or folder that cannot be read
/// is noted, and the others go on.
struct Packer<'a> {
    home: &'a Path,
    archive: Archive,
    report: ReadReport<'a>,
    packed: PackedFiles,
}

impl Packer<'_> {
    fn pack_folders(&mut self) -> io::Result<()> {
        let mut linked = LinkedFiles::default();
        let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
        while let Some(folder) = folders.pop() {
            let read = fs::read_dir(self.home.join(&folder));
            let Some(entries) = self.unless_unread(&folder, read) else { continue };
            append_folder(&mut self.archive, &folder)?;
            for entry in entries {
                let Some(entry) = self.unless_unread(&folder, entry) else { continue };
                let path = folder.join(entry.file_name());
                // Links are not followed.
                let Some(meta) = self.unless_unread(&path, entry.metadata()) else { continue };
                if meta.is_dir() {
                    folders.push(path);
                } else if meta.is_file() {
                    self.pack_file(&path, &mut linked)?;
                } else {
                    self.packed.skipped.add(&meta);
                }
            }
        }
        for LinkedPath { path, place, folder } in linked.places(self.home) {
            let Some(opened) = self.open(&path) else { continue };
            if let Some(folder) = folder {
                self.packed.moved += 1;
                self.packed.moved_to.insert(folder);
                append_folder(&mut self.archive, place.parent().unwrap_or(Path::new("")))?;
            }
            self.append_file(&place, opened)?;
        }
        Ok(())
    }

    fn pack_file(&mut self, path: &Path, linked: &mut LinkedFiles) -> io::Result<()> {
        let Some(opened) = self.open(path) else { return Ok(()) };
        match linked.defer(path, &opened.meta) {
            true => Ok(()),
            false => self.append_file(path, opened),
        }
    }

    /// Opens a file of the home. None if it is gone, has become something else since it was listed, or cannot be read.
    fn open(&mut self, path: &Path) -> Option<FileToPack> {
        let opened = self.unless_unread(path, FileToPack::open(&self.home.join(path)))?;
        if !opened.meta.is_file() {
            self.packed.skipped.add(&opened.meta);
            return None;
        }
        Some(opened)
    }

    /// Returns the value, or notes the entry that cannot be read. One that is gone meanwhile is none.
    fn unless_unread<T>(&mut self, path: &Path, read: io::Result<T>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.packed.left_out.add(path, &error);
                None
            }
        }
    }

    fn append_file(&mut self, path: &Path, opened: FileToPack) -> io::Result<()> {
        let FileToPack { file, meta } = opened;
        let mode = meta.permissions().mode() & 0o700;
        let mut broken = None;
        let content = UntilBroken { inner: file, broken: &mut broken };
        let content = Reporting { inner: content, report: &mut *self.report };
        let header = file_header(meta.len(), mode, meta.mtime());
        append(&mut self.archive, path, header, content)?;
        self.packed.files += 1;
        if let Some(error) = broken {
            self.packed.left_out.add(path, &error);
        }
        Ok(())
    }
}

/// A file of the home that was opened.
struct FileToPack {
    file: File,
    meta: Metadata,
}

impl FileToPack {
    /// Opens what may have become something else since it was listed: neither a link is followed, nor a pipe waited for.
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
        Ok(Self { meta: file.metadata()?, file })
    }
}

/// A reader that ends where a disk cannot be read, and keeps the error: the other files are not lost with this one.
struct UntilBroken<'a, R> {
    inner: R,
    broken: &'a mut Option<io::Error>,
}

impl<R: Read> Read for UntilBroken<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(buffer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                *self.broken = Some(error);
                Ok(0)
            }
            read => read,
        }
    }
}

fn append_folder(archive: &mut Archive, folder: &Path) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Directory);
    header.set_size(0);
    header.set_mode(0o700);
    archive.append_data(&mut header, folder, io::empty())
}

/// Returns the header of a file that was modified at this time, in seconds since 1970.
fn file_header(length: u64, mode: u32, modified: i64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(length);
    header.set_mode(mode);
    header.set_mtime(u64::try_from(modified).unwrap_or_default());
    header
}

/// Appends as many bytes as the header names. A file that has become shorter meanwhile is filled up, and one that grew is
/// cut.
fn append(
    archive: &mut Archive,
    path: &Path,
    mut header: Header,
    content: impl Read,
) -> io::Result<()> {
    let length = header.size()?;
    archive.append_data(&mut header, path, content.chain(io::repeat(0)).take(length))
}
