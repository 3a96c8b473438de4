//! Writes a backup. The file appears at once and whole under its name, or not at all.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::OFlags;
use tar::{Builder, EntryType, Header};

use super::linked::{LinkedFiles, LinkedPath};
use super::{
    BackupError, BackupManifest, BackupSummary, FOLDERS, FORMAT, MANIFEST, ReadReport, Reporting,
};
use crate::store::{self, HomeLock};

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
    if !home.join(store::FILE).exists() {
        return Err(BackupError::Nothing(home.to_owned()));
    }
    if file.exists() {
        return Err(BackupError::Exists(file.to_owned()));
    }
    refuse_inside(home, file)?;
    // Keeps a daemon from starting in the middle; one that runs has the lock, and is read beside.
    let _lock = HomeLock::claim(home).ok();
    let partial = Partial::beside(file);
    let made = pack(home, &partial, now, report)?;
    let what = || BackupError::io(format!("cannot write {}", file.display()));
    let bytes = fs::metadata(&partial.archive).map_err(what())?.len();
    fs::rename(&partial.archive, file).map_err(what())?;
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(what())?;
    let PackedFiles { files, skipped, moved } = made;
    Ok(BackupSummary { file: file.to_owned(), bytes, files, skipped, moved })
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

/// The unfinished files beside a backup, which are deleted when this is dropped.
struct Partial {
    archive: PathBuf,
    store: PathBuf,
}

impl Partial {
    fn beside(file: &Path) -> Self {
        let with = |ending: &str| {
            let mut name = file.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Self { archive: with(".partial"), store: with(".partial-db") }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        fs::remove_file(&self.archive).ok();
        fs::remove_file(&self.store).ok();
    }
}

/// A new file that only this account can read. One of that name is left from a crash.
fn create(path: &Path) -> Result<File, BackupError> {
    fs::remove_file(path).ok();
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(path);
    made.map_err(BackupError::io(format!("cannot write {}", path.display())))
}

type Archive = Builder<GzEncoder<BufWriter<File>>>;

/// Numbers of the files in an archive.
struct PackedFiles {
    files: u64,
    skipped: u64,
    moved: u64,
}

/// Writes all entries.
fn pack(
    home: &Path,
    partial: &Partial,
    now: DateTime<Utc>,
    report: ReadReport<'_>,
) -> Result<PackedFiles, BackupError> {
    drop(create(&partial.store)?);
    let schema = store::snapshot(home, &partial.store)?;
    let archive = BufWriter::new(create(&partial.archive)?);
    // A card is slower than this compression.
    let mut archive = Builder::new(GzEncoder::new(archive, Compression::fast()));
    let what = || BackupError::io(format!("cannot write {}", partial.archive.display()));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let manifest = BackupManifest { format: FORMAT, version, schema, made: now };
    let manifest = serde_json::to_vec_pretty(&manifest).expect("our own type has string keys");
    let length = manifest.len() as u64;
    append(&mut archive, Path::new(MANIFEST), length, 0o600, manifest.as_slice()).map_err(what())?;
    let snapshot = File::open(&partial.store).map_err(what())?;
    let length = snapshot.metadata().map_err(what())?.len();
    let snapshot = Reporting { inner: snapshot, report: &mut *report };
    append(&mut archive, Path::new(store::FILE), length, 0o600, snapshot).map_err(what())?;
    let packed = pack_folders(home, &mut archive, report).map_err(what())?;
    let compressed = archive.into_inner().and_then(GzEncoder::finish);
    let mut writer = compressed.map_err(what())?;
    writer.flush().map_err(what())?;
    writer.get_ref().sync_all().map_err(what())?;
    Ok(packed)
}

fn pack_folders(
    home: &Path,
    archive: &mut Archive,
    report: ReadReport<'_>,
) -> io::Result<PackedFiles> {
    // The store is one of them.
    let mut packed = PackedFiles { files: 1, skipped: 0, moved: 0 };
    let mut linked = LinkedFiles::default();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(home.join(&folder)) else { continue };
        append_folder(archive, &folder)?;
        for entry in entries.filter_map(Result::ok) {
            let path = folder.join(entry.file_name());
            // Neither links nor what disappears meanwhile.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                folders.push(path);
            } else if meta.is_file() {
                let Ok(file) = open_file(&home.join(&path)) else { continue };
                packed.files += 1;
                if !linked.keeps_back(&path, &file.metadata()?) {
                    append_file(archive, &path, file, &mut *report)?;
                }
            } else {
                packed.skipped += 1;
            }
        }
    }
    for LinkedPath { path, place } in linked.places(home) {
        let Ok(file) = open_file(&home.join(&path)) else { continue };
        if place != path {
            packed.moved += 1;
            append_folder(archive, place.parent().unwrap_or(Path::new("")))?;
        }
        append_file(archive, &place, file, &mut *report)?;
    }
    Ok(packed)
}

/// Opens a file that may have become something else since it was listed.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn append_folder(archive: &mut Archive, folder: &Path) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Directory);
    header.set_size(0);
    header.set_mode(0o700);
    archive.append_data(&mut header, folder, io::empty())
}

fn append_file(
    archive: &mut Archive,
    path: &Path,
    file: File,
    report: ReadReport<'_>,
) -> io::Result<()> {
    let meta: Metadata = file.metadata()?;
    let mode = meta.permissions().mode() & 0o700;
    append(archive, path, meta.len(), mode, Reporting { inner: file, report })
}

/// Appends so many bytes. A file that has become shorter meanwhile is filled up, and one that grew is cut, as the archive
/// has named its length already.
fn append(
    archive: &mut Archive,
    path: &Path,
    length: u64,
    mode: u32,
    content: impl Read,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(length);
    header.set_mode(mode);
    archive.append_data(&mut header, path, content.chain(io::repeat(0)).take(length))
}
