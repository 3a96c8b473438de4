//! Text files in the index. Before a turn or a search, the folders that a person can access are scanned, and files that
//! have changed since (by time and size), by hand or by a tool, are indexed again. Each scan is bounded; the next one
//! continues.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::{RecallKey, RecallKind, RecallText, put, remove};
use crate::documents::has_document_ending;
use crate::memory::attachments;
use crate::memory::facts_file::is_facts_file;
use crate::memory::is_memory;
use crate::store::{Store, StoreError, Sync};
use crate::workspace::{EntryKind, FileScope, OpenedFolder, Workspace, WorkspacePath};

/// Maximum number of files that are scanned in a folder of a person. A larger tree is not a notebook.
const FILES_MAX: usize = 2_000;

/// Maximum depth of the scanned folders.
const DEPTH_MAX: usize = 6;

/// Maximum size of an indexed text file, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Number of bytes that are read and indexed in one transaction, which takes about ten milliseconds.
const BATCH_BYTES: u64 = 256 * 1024;

/// Maximum number of batches before a turn. A background task continues with the rest.
const BATCHES_MAX: usize = 4;

/// The name of the memory's folder, which can be searched separately.
const MEMORY: &str = "memory";

/// The index keys of the folders with a person's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKeys {
    /// MEMORY.md and the notes. None if they are not for this person.
    pub memory: Option<RecallKey>,
    /// The person's own folder. None in groups.
    pub own: Option<RecallKey>,
    /// Folders to which others write.
    pub untrusted: Vec<RecallKey>,
}

impl FileKeys {
    pub fn of(scope: &FileScope) -> Self {
        let key_of = |path: &WorkspacePath| RecallKey::of_folder(path.as_str());
        let untrusted = untrusted_folders(scope).iter().map(key_of).collect();
        match scope {
            FileScope::Owner => Self {
                memory: Some(RecallKey::of_folder(MEMORY)),
                own: Some(RecallKey::of_folder("")),
                untrusted,
            },
            FileScope::Person { .. } => {
                Self { memory: None, own: scope.root().as_ref().map(key_of), untrusted }
            }
            FileScope::Group { .. } => Self { memory: None, own: None, untrusted },
        }
    }

    fn all(&self) -> impl Iterator<Item = &RecallKey> {
        self.memory.iter().chain(&self.own).chain(&self.untrusted)
    }
}

fn untrusted_folders(scope: &FileScope) -> [WorkspacePath; 2] {
    [scope.downloads(), WorkspacePath::shared()]
}

/// The state of a text file, in its folder or in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SurveyedFile {
    key: RecallKey,
    modified: i64,
    size: u64,
}

/// The text files that a person can access, or those that are indexed.
#[derive(Default)]
pub struct Survey(BTreeMap<WorkspacePath, SurveyedFile>);

/// A file to index. A file without a text is only recorded, so that it is not read again.
struct ChangedText {
    path: WorkspacePath,
    file: SurveyedFile,
    text: Option<String>,
}

/// Differences between the folders and the index.
struct Batch {
    changed: Vec<ChangedText>,
    gone: Vec<WorkspacePath>,
    /// True if more files have changed.
    is_cut: bool,
}

/// Indexes files that have changed since the last scan. Returns true if no changed ones are left.
pub async fn refresh(
    store: &Store,
    workspace: &Workspace,
    scope: &FileScope,
) -> Result<bool, StoreError> {
    for _ in 0..BATCHES_MAX {
        let keys = FileKeys::of(scope);
        let indexed = store.read(move |store| indexed(store, &keys)).await?;
        let scope = scope.clone();
        let batch = workspace
            .run_blocking(move |workspace| compare_folders(workspace, &scope, &indexed))
            .await;
        let is_cut = batch.is_cut;
        if batch.changed.is_empty() && batch.gone.is_empty() {
            return Ok(true);
        }
        store.write("recall files", Sync::Later, move |store| index(store, &batch)).await?;
        if !is_cut {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Scans the folders of a scope.
pub async fn survey(workspace: &Workspace, scope: &FileScope) -> Survey {
    let scope = scope.clone();
    workspace.run_blocking(move |workspace| surveyed(workspace, &scope)).await
}

/// Returns true if the index is up to date with the files.
pub fn is_indexed(store: &Connection, keys: &FileKeys, survey: &Survey) -> rusqlite::Result<bool> {
    Ok(indexed(store, keys)?.0 == survey.0)
}

/// Returns the path of an indexed file.
pub fn path_of(store: &Connection, file: i64) -> rusqlite::Result<Option<String>> {
    store
        .prepare_cached("SELECT path FROM recall_files WHERE id = ?")?
        .query_row([file], |row| row.get(0))
        .optional()
}

/// Returns the indexed files of these folders.
fn indexed(store: &Connection, keys: &FileKeys) -> rusqlite::Result<Survey> {
    let mut files =
        store.prepare_cached("SELECT path, modified, size FROM recall_files WHERE who = ?")?;
    let mut survey = Survey::default();
    for key in keys.all() {
        let mut rows = files.query([key])?;
        while let Some(row) = rows.next()? {
            // Invalid paths are never stored.
            let Ok(path) = row.get_ref(0)?.as_str()?.parse() else { continue };
            let file = SurveyedFile { key: key.clone(), modified: row.get(1)?, size: row.get(2)? };
            survey.0.insert(path, file);
        }
    }
    Ok(survey)
}

/// Compares the folders with the index, and reads some of the changed files.
fn compare_folders(workspace: &Workspace, scope: &FileScope, indexed: &Survey) -> Batch {
    let Survey(found) = surveyed(workspace, scope);
    let gone = indexed.0.keys().filter(|path| !found.contains_key(path)).cloned().collect();
    let mut batch = Batch { changed: Vec::new(), gone, is_cut: false };
    let mut remaining_bytes = BATCH_BYTES;
    for (path, file) in found {
        if indexed.0.get(&path) == Some(&file) {
            continue;
        }
        if remaining_bytes == 0 {
            batch.is_cut = true;
            break;
        }
        remaining_bytes = remaining_bytes.saturating_sub(file.size.clamp(1, FILE_BYTES_MAX));
        let read_file =
            || workspace.open_for(&path, scope).and_then(|opened| opened.read_text()).ok();
        let text = if has_document_ending(path.name()) { None } else { read_file() };
        let text = text.filter(|text| !text.contains('\0'));
        batch.changed.push(ChangedText { path, file, text });
    }
    batch
}

/// Returns the paths of the text files that a person can access, in trusted and untrusted folders.
pub(in crate::memory) fn paths(workspace: &Workspace, scope: &FileScope) -> Vec<WorkspacePath> {
    all(workspace, scope).0.into_keys().collect()
}

/// Returns the files of a scope that should be indexed.
fn surveyed(workspace: &Workspace, scope: &FileScope) -> Survey {
    let mut found = all(workspace, scope);
    // Facts are indexed by themselves.
    found.0.retain(|path, _| !is_facts_file(path));
    found
}

/// Returns the text files in the folders of a scope. The memory comes first, so that the limit never excludes it.
fn all(workspace: &Workspace, scope: &FileScope) -> Survey {
    let mut files = Survey::default();
    let keys = FileKeys::of(scope);
    if let Some(memory) = &keys.memory {
        let path: WorkspacePath = MEMORY.parse().expect("it is a name");
        if let Ok(folder) = workspace.open_folder(Some(&path)) {
            walk(&folder, memory, DEPTH_MAX, FILES_MAX, &mut files);
        }
    }
    if let Some(own) = &keys.own {
        let root = match scope.root() {
            Some(path) => workspace.open_folder_for(&path, scope),
            None => workspace.open_folder(None),
        };
        if let Ok(root) = root {
            let max = files.0.len() + FILES_MAX;
            walk(&root, own, DEPTH_MAX, max, &mut files);
        }
    }
    for (path, key) in untrusted_folders(scope).iter().zip(&keys.untrusted) {
        if let Ok(folder) = workspace.open_folder_for(path, scope) {
            let max = files.0.len() + FILES_MAX;
            walk(&folder, key, DEPTH_MAX, max, &mut files);
        }
    }
    files
}

fn walk(folder: &OpenedFolder, key: &RecallKey, depth: usize, max: usize, files: &mut Survey) {
    for entry in folder.dated_entries(FILES_MAX) {
        if entry.name.starts_with('.') || files.0.len() >= max {
            continue;
        }
        let Ok(path) = folder.path_of(&entry.name) else { continue };
        // Folders next to the workspace have their own keys, and instructions are in each prompt anyway.
        let is_root = folder.path().is_none();
        if is_root && path.is_beside_workspace() || path.is_change_reported() {
            continue;
        }
        match entry.kind {
            EntryKind::Folder if depth > 1 => {
                if let Ok(subfolder) = folder.folder(&entry.name) {
                    walk(&subfolder, key, depth - 1, max, files);
                }
            }
            EntryKind::File(size) if may_have_text(&entry.name, size) => {
                let is_new = !files.0.contains_key(&path);
                let is_of_memory = is_memory(&path);
                let key = if is_of_memory { RecallKey::of_folder(MEMORY) } else { key.clone() };
                let file = SurveyedFile { key, modified: entry.modified, size };
                if is_new {
                    files.0.insert(path, file);
                }
            }
            EntryKind::File(_) | EntryKind::Folder | EntryKind::Link | EntryKind::Special => {}
        }
    }
}

/// Returns true for files of the size of texts, and for documents, whose text is in their record.
fn may_have_text(name: &str, size: u64) -> bool {
    size > 0 && (size <= FILE_BYTES_MAX || has_document_ending(name))
}

fn index(store: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    for path in &batch.gone {
        forget(store, path)?;
    }
    for ChangedText { path, file, text } in &batch.changed {
        let SurveyedFile { key, modified, size } = file;
        store
            .prepare_cached(
                "INSERT INTO recall_files (path, who, modified, size) VALUES (?, ?, ?, ?)
                 ON CONFLICT (path) DO UPDATE SET who = excluded.who, modified = excluded.modified,
                 size = excluded.size",
            )?
            .execute(params![path.as_str(), key, modified, size])?;
        let Some(id) = id_of(store, path)? else { continue };
        let at = day_of(path).unwrap_or_else(|| DateTime::from_timestamp_nanos(*modified));
        let recorded = match text {
            None => attachments::text_of(store, path, *size)?,
            Some(_) => None,
        };
        let text = text.as_deref().or(recorded.as_deref()).unwrap_or_default();
        put(store, &RecallText { key, kind: RecallKind::File, source: id, at, text })?;
    }
    Ok(())
}

/// Removes a file from the index.
pub fn forget(store: &Connection, path: &WorkspacePath) -> rusqlite::Result<()> {
    if let Some(id) = id_of(store, path)? {
        remove(store, RecallKind::File, id)?;
        store.prepare_cached("DELETE FROM recall_files WHERE id = ?")?.execute([id])?;
    }
    Ok(())
}

fn id_of(store: &Connection, path: &WorkspacePath) -> rusqlite::Result<Option<i64>> {
    store
        .prepare_cached("SELECT id FROM recall_files WHERE path = ?")?
        .query_row([path.as_str()], |row| row.get(0))
        .optional()
}

/// Returns the day of daily notes, from their name.
fn day_of(path: &WorkspacePath) -> Option<DateTime<Utc>> {
    let name = path.name().strip_suffix(".md").filter(|_| is_memory(path))?;
    let day = NaiveDate::parse_from_str(name, "%Y%m%d").ok()?;
    Some(day.and_hms_opt(12, 0, 0)?.and_utc())
}
