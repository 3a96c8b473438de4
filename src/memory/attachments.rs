//! Records of received files: sender, time, type, size, hash and path, and the text of a document, which the index of
//! files reads from here. A record is removed in a transaction that leaves the path of its file; the file is deleted
//! afterwards ([`sweep`]), also after a crash.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::recall::files;
use crate::store::{ForgottenWords, Store, StoreError, Sync, Time, integer_columns, slice};
use crate::types::message::{Address, SenderId};
use crate::types::person::{FolderOwner, PersonId};
use crate::workspace::persons::FolderHeir;
use crate::workspace::{FileError, FileScope, Workspace, WorkspacePath};

/// Number of records that are compared with their files in one transaction.
const COMPARED: i64 = 200;

/// The id of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttachmentId(pub i64);

integer_columns!(AttachmentId);

/// A received file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAttachment {
    /// The message in the journal.
    pub row: i64,
    pub from: Address,
    pub sender: SenderId,
    /// True if it belongs to a forwarded or quoted message.
    pub is_forwarded: bool,
    /// The folder of the person or the group.
    pub folder: WorkspacePath,
    pub path: WorkspacePath,
    /// The name that its sender gave it.
    pub name: Option<String>,
    pub mime: Option<String>,
    pub size: u64,
    pub hash: String,
    /// The text of a document.
    pub text: Option<String>,
    pub at: DateTime<Utc>,
}

/// A record and the path of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentFile {
    pub id: AttachmentId,
    pub path: WorkspacePath,
}

/// The retention of files, and their maximum total size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachmentLimits {
    pub kept: chrono::Duration,
    /// Maximum size of all files of a person or a group, in bytes.
    pub bytes_max: u64,
}

/// Adds a record. Replaces one with the same path.
pub fn put(store: &Connection, new: &NewAttachment) -> rusqlite::Result<()> {
    let Address { channel, chat, thread } = &new.from;
    store.prepare_cached("DELETE FROM attachments WHERE path = ?")?.execute([new.path.as_str()])?;
    store
        .prepare_cached(
            "INSERT INTO attachments (row, channel, chat, thread, sender, forwarded, folder, path, name, mime, size,
             hash, text, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            new.row,
            channel,
            chat,
            thread,
            new.sender,
            new.is_forwarded,
            new.folder.as_str(),
            new.path.as_str(),
            new.name,
            new.mime,
            new.size,
            new.hash,
            new.text,
            Time(new.at),
        ])?;
    // The file may have been indexed before its text was known.
    files::forget(store, &new.path)
}

/// Returns the text of a document, if its size has not changed since it was received.
pub fn text_of(
    store: &Connection,
    path: &WorkspacePath,
    size: u64,
) -> rusqlite::Result<Option<String>> {
    let text = store
        .prepare_cached("SELECT text FROM attachments WHERE path = ? AND size = ? AND NOT gone")?
        .query_row(params![path.as_str(), size], |row| row.get(0))
        .optional()?;
    Ok(text.flatten())
}

/// Files of a folder, searched for words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoughtFiles {
    /// Files whose records contain the words.
    pub found: Vec<AttachmentFile>,
    /// Files whose records have no text: the file itself may contain the words.
    pub unread: Vec<AttachmentFile>,
}

/// Searches the names and texts of a folder's records for words.
pub fn with_words(
    store: &Connection,
    folder: &WorkspacePath,
    words: &ForgottenWords,
) -> rusqlite::Result<SoughtFiles> {
    let mut rows = store.prepare_cached(
        "SELECT id, path, name, text FROM attachments WHERE folder = ? AND NOT gone ORDER BY id",
    )?;
    let mut rows = rows.query([folder.as_str()])?;
    let mut sought = SoughtFiles::default();
    while let Some(row) = rows.next()? {
        let (path, name): (String, Option<String>) = (row.get(1)?, row.get(2)?);
        let text: Option<String> = row.get(3)?;
        let fields = [Some(&path), name.as_ref(), text.as_ref()];
        let has_words = fields.into_iter().flatten().any(|field| words.are_in(field));
        // Invalid paths are never stored.
        let Ok(path) = path.parse() else { continue };
        let file = AttachmentFile { id: row.get(0)?, path };
        match (has_words, text) {
            (true, _) => sought.found.push(file),
            (false, None) => sought.unread.push(file),
            (false, Some(_)) => {}
        }
    }
    Ok(sought)
}

/// Removes records. Their files are deleted by the next [`sweep`].
pub fn remove(store: &Connection, files: &[AttachmentFile]) -> rusqlite::Result<()> {
    for AttachmentFile { id, path } in files {
        store
            .prepare_cached(
                "UPDATE attachments SET gone = 1, name = NULL, mime = NULL, text = NULL, hash = '' WHERE id = ?",
            )?
            .execute([id])?;
        files::forget(store, path)?;
    }
    Ok(())
}

/// Removes the records of files that were received at an address in a range of rows.
pub fn remove_rows(
    store: &Connection,
    at: &Address,
    after: i64,
    up_to: i64,
) -> rusqlite::Result<()> {
    let thread = at.thread.as_ref().map_or("", |thread| thread.as_str());
    let found = select(
        store,
        "channel = ? AND chat = ? AND ifnull(thread, '') = ? AND row > ? AND row <= ? AND NOT gone",
        params![at.channel, at.chat, thread, after, up_to],
    )?;
    remove(store, &found)
}

/// Removes a slice of the files that are too old, and of the oldest ones of persons or groups with too many. Returns
/// their number.
pub fn expire(
    store: &Connection,
    now: DateTime<Utc>,
    limits: AttachmentLimits,
) -> rusqlite::Result<usize> {
    let AttachmentLimits { kept, bytes_max } = limits;
    let old = select(
        store,
        "at < ? AND NOT gone ORDER BY at LIMIT ?",
        params![Time(now - kept), slice()],
    )?;
    // The sum of a file and all newer ones is the size that would remain with it.
    let too_many = select(
        store,
        "id IN (SELECT id FROM (SELECT id, sum(size) OVER (PARTITION BY folder ORDER BY at DESC, id DESC) AS total
         FROM attachments WHERE NOT gone) WHERE total > ? LIMIT ?)",
        params![i64::try_from(bytes_max).unwrap_or(i64::MAX), slice()],
    )?;
    remove(store, &old)?;
    remove(store, &too_many)?;
    Ok(old.len() + too_many.len())
}

fn select(
    store: &Connection,
    condition: &str,
    parameters: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<Vec<AttachmentFile>> {
    let mut rows =
        store.prepare_cached(&format!("SELECT id, path FROM attachments WHERE {condition}"))?;
    let rows = rows.query_map(parameters, |row| {
        let (id, path): (AttachmentId, String) = (row.get(0)?, row.get(1)?);
        // Invalid paths are never stored.
        Ok(path.parse().ok().map(|path| AttachmentFile { id, path }))
    })?;
    rows.filter_map(Result::transpose).collect()
}

/// Deletes the files of removed records, then the records.
pub async fn sweep(store: &Store, workspace: &Workspace) -> Result<(), StoreError> {
    loop {
        let read_gone = |store: &Connection| select(store, "gone LIMIT ?", params![slice()]);
        let gone = store.read(read_gone).await?;
        if gone.is_empty() {
            return Ok(());
        }
        let deleted = workspace.run_blocking(move |workspace| {
            gone.iter().for_each(|file| workspace.remove(&file.path));
            gone
        });
        let gone = deleted.await;
        let delete_records = move |store: &Connection| delete(store, &gone);
        store.write("attachments swept", Sync::Later, delete_records).await?;
    }
}

/// Deletes records.
pub fn delete(store: &Connection, files: &[AttachmentFile]) -> rusqlite::Result<()> {
    let mut delete = store.prepare_cached("DELETE FROM attachments WHERE id = ?")?;
    files.iter().try_for_each(|file| delete.execute([file.id]).map(drop))
}

/// Removes the records of files that a person has deleted or moved.
pub async fn compare(store: &Store, workspace: &Workspace) -> Result<(), StoreError> {
    let mut after = AttachmentId(0);
    loop {
        let read_files = move |store: &Connection| {
            select(store, "id > ? AND NOT gone ORDER BY id LIMIT ?", params![after, COMPARED])
        };
        let files = store.read(read_files).await?;
        let Some(last) = files.last() else { return Ok(()) };
        after = last.id;
        let compared = workspace.run_blocking(move |workspace| {
            let is_missing = |file: &AttachmentFile| {
                matches!(workspace.open_without_links(&file.path), Err(FileError::Missing(_)))
            };
            files.into_iter().filter(is_missing).collect::<Vec<_>>()
        });
        let missing = compared.await;
        if !missing.is_empty() {
            let remove_records = move |store: &Connection| remove(store, &missing);
            store.write("attachments missing", Sync::Later, remove_records).await?;
        }
    }
}

/// Updates records after the folders of a person were moved or deleted.
pub async fn follow(
    store: &Store,
    workspace: &Workspace,
    person: PersonId,
    heir: Option<FolderHeir>,
) -> Result<(), StoreError> {
    let own = FileScope::of_person(&FolderOwner::Person(person));
    let folder = own.downloads();
    let read_files = move |store: &Connection| {
        select(store, "folder = ? AND NOT gone", params![folder.as_str()])
    };
    let files = store.read(read_files).await?;
    let Some(heir) = heir else {
        let remove = move |store: &Connection| remove(store, &files);
        return store.write_securely("attachments removed", remove).await;
    };
    let to = match heir {
        FolderHeir::Owner => FileScope::Owner.downloads(),
        FolderHeir::Person(heir) => FileScope::of_person(&FolderOwner::Person(heir)).downloads(),
    };
    let moved = workspace.run_blocking(move |workspace| {
        let moved = files.into_iter().filter_map(|file| {
            let path = workspace.find_joined(person, heir, &file.path)?;
            Some((file, to.clone(), path))
        });
        moved.collect::<Vec<_>>()
    });
    let moved = moved.await;
    let update_paths = move |store: &Connection| {
        for (file, folder, path) in &moved {
            files::forget(store, &file.path)?;
            store
                .prepare_cached(
                    "UPDATE OR REPLACE attachments SET folder = ?, path = ? WHERE id = ?",
                )?
                .execute(params![folder.as_str(), path.as_str(), file.id])?;
            files::forget(store, path)?;
        }
        Ok(())
    };
    store.write("attachments moved", Sync::Later, update_paths).await
}
