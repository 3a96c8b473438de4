//! Unpacks the archive of a backup into a new folder, and checks that it is one from its first byte to its last. Not here:
//! what becomes of the folder (`restore`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path};
use std::time::{Duration, UNIX_EPOCH};

use flate2::bufread::GzDecoder;
use tar::{Archive, Entry, EntryType};

use super::{BackupError, BackupManifest, FOLDERS, FORMAT, MANIFEST, ReadReport, Reporting};
use crate::store;

/// A manifest is far shorter.
const MANIFEST_BYTES_MAX: u64 = 64 * 1024;

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 128 * 1024;

/// Unpacks the whole archive into a new folder.
pub(super) fn unpack(
    file: &Path,
    into: &Path,
    report: ReadReport<'_>,
) -> Result<BackupManifest, BackupError> {
    // To open a pipe would wait for a writer.
    if fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
        return Err(damaged(file, "it is not a file"));
    }
    let opened = File::open(file);
    let opened = opened.map_err(BackupError::io(format!("cannot read {}", file.display())))?;
    let made = DirBuilder::new().mode(0o700).create(into);
    made.map_err(|error| unwritable(into, error))?;
    let opened = BufReader::with_capacity(COPY_BYTES, Reporting { inner: opened, report });
    let mut archive = Archive::new(GzDecoder::new(opened));
    let mut entries = archive.entries().map_err(|error| damaged(file, error))?;
    let first = entries.next().and_then(Result::ok);
    let has_times = first.as_ref().is_some_and(has_time);
    let manifest = first.and_then(read_manifest);
    let manifest = manifest.ok_or_else(|| damaged(file, "it does not begin like one"))?;
    if manifest.format > FORMAT {
        let version = manifest.version;
        return Err(BackupError::Newer { file: file.to_owned(), version });
    }
    for entry in entries {
        let mut entry = entry.map_err(|error| damaged(file, error))?;
        let made = unpack_entry(&mut entry, file, into)?;
        if let Some(made) = made.filter(|_| has_times) {
            keep_time(&entry, &made);
        }
    }
    read_end(archive.into_inner()).map_err(|error| damaged(file, error))?;
    Ok(manifest)
}

/// Reads the rest behind the last entry, as the sums at the very end are compared only if it is read to there. Nothing but
/// the zeros that fill the last block may follow: an archive that was written twice, or to which something was added, is
/// not the one that was made.
fn read_end(mut rest: GzDecoder<impl BufRead>) -> io::Result<()> {
    let more = || io::Error::other("it goes on after its end");
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match rest.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) if buffer[..read].iter().any(|byte| *byte != 0) => return Err(more()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    match rest.into_inner().fill_buf()?.is_empty() {
        true => Ok(()),
        false => Err(more()),
    }
}

fn read_manifest(mut entry: Entry<'_, impl Read>) -> Option<BackupManifest> {
    if entry.path().ok()?.as_ref() != Path::new(MANIFEST) {
        return None;
    }
    let mut text = String::new();
    entry.by_ref().take(MANIFEST_BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Unpacks a file or a folder. Its path stays inside, and it is no link. Returns the file; none of a folder.
fn unpack_entry(
    entry: &mut Entry<'_, impl Read>,
    file: &Path,
    into: &Path,
) -> Result<Option<File>, BackupError> {
    let path = entry.path().map_err(|error| damaged(file, error))?.into_owned();
    let strange = || {
        let why = format!("it has an entry `{}`, which no backup has", path.display());
        damaged(file, why)
    };
    let mut parts = path.components();
    let Some(Component::Normal(first)) = parts.next() else { return Err(strange()) };
    let is_known = first == store::FILE || FOLDERS.iter().any(|folder| first == *folder);
    if !is_known || parts.any(|part| !matches!(part, Component::Normal(_))) {
        return Err(strange());
    }
    let place = into.join(&path);
    match entry.header().entry_type() {
        EntryType::Directory => {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&place);
            made.map(|()| None).map_err(|error| misplaced(file, &place, error))
        }
        EntryType::Regular => {
            let mode = entry.header().mode().map_err(|error| damaged(file, error))?;
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(mode & 0o700 | 0o600);
            let mut to = options.open(&place).map_err(|error| misplaced(file, &place, error))?;
            copy(entry, &mut to, |error| damaged(file, error), |error| unwritable(&place, error))?;
            Ok(Some(to))
        }
        _ => Err(strange()),
    }
}

/// Returns true if the manifest of an archive has a time, and so all of its files have theirs. Those of former versions have
/// none, which reads as the beginning of 1970.
fn has_time(manifest: &Entry<'_, impl Read>) -> bool {
    manifest.header().mtime().is_ok_and(|seconds| seconds > 0)
}

/// Gives a file the time of its last change.
fn keep_time(entry: &Entry<'_, impl Read>, file: &File) {
    let seconds = entry.header().mtime().ok();
    let modified = seconds.and_then(|it| UNIX_EPOCH.checked_add(Duration::from_secs(it)));
    // What a hostile archive names may be no time of a file.
    if let Some(modified) = modified {
        file.set_modified(modified).ok();
    }
}

/// Returns the reason why a new file or folder cannot be made: the archive has it twice or without its folder, or the disk.
fn misplaced(file: &Path, place: &Path, error: io::Error) -> BackupError {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            damaged(file, error)
        }
        _ => unwritable(place, error),
    }
}

/// Copies the content of an entry. An error of the archive is told from one of the disk that it comes to.
fn copy(
    from: &mut impl Read,
    to: &mut File,
    unreadable: impl Fn(io::Error) -> BackupError,
    unwritable: impl Fn(io::Error) -> BackupError,
) -> Result<(), BackupError> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return to.sync_all().map_err(unwritable),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        to.write_all(&buffer[..read]).map_err(&unwritable)?;
    }
}

/// Returns the error about an archive that is no complete backup.
pub(super) fn damaged(file: &Path, why: impl std::fmt::Display) -> BackupError {
    BackupError::Damaged { file: file.to_owned(), why: why.to_string() }
}

/// Returns the reason why a path of the home cannot be written.
pub(super) fn unwritable(path: &Path, error: io::Error) -> BackupError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            BackupError::NoSpace(path.to_owned())
        }
        _ => BackupError::io(format!("cannot write {}", path.display()))(error),
    }
}
