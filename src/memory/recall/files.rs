//! Files of text in the index. Before a turn or a search, the folders that a person can reach are looked at, and files
//! that were changed since (by their time and size), by hand or by a tool, are indexed anew. Each look is bounded;
//! what is left is done by the next one.

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

/// Files that are looked at in a folder of a person; a tree of thousands is no notebook.
const FILES_MAX: usize = 2_000;

/// Depth of the folders that are looked at.
const DEPTH_MAX: usize = 6;

/// Maximum size of a file of text that is indexed, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Bytes that are read and indexed in one transaction: some ten milliseconds of the writer's.
const BATCH_BYTES: u64 = 256 * 1024;

/// Batches before a turn. A background task goes on with the rest.
const BATCHES_MAX: usize = 4;

/// The name of the memory among the folders: it is searched by itself, too.
const MEMORY: &str = "memory";

/// The folders of a person's files, by their keys in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKeys {
    /// MEMORY.md and the notes; none if they are not for this person.
    pub memory: Option<RecallKey>,
    /// The person's own folder; none in groups.
    pub own: Option<RecallKey>,
    /// Folders in which others write.
    pub untrusted: Vec<RecallKey>,
}

impl FileKeys {
    pub fn of(scope: &FileScope) -> Self {
        let of = |path: &WorkspacePath| RecallKey::of_folder(path.as_str());
        let untrusted = untrusted_folders(scope).iter().map(of).collect();
        match scope {
            FileScope::Owner => Self {
                memory: Some(RecallKey::of_folder(MEMORY)),
                own: Some(RecallKey::of_folder("")),
                untrusted,
            },
            FileScope::Person { .. } => {
                Self { memory: None, own: scope.root().as_ref().map(of), untrusted }
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

/// A file of text in a folder, or one that was indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SurveyedFile {
    key: RecallKey,
    modified: i64,
    size: u64,
}

/// The files of text that a person can reach, or those that were indexed.
#[derive(Default)]
pub struct Survey(BTreeMap<WorkspacePath, SurveyedFile>);

/// A file to index. Without a text it is only noted, so that it is not read again.
struct ChangedText {
    path: WorkspacePath,
    file: SurveyedFile,
    text: Option<String>,
}

/// Differences between the folders and the index.
struct Batch {
    changed: Vec<ChangedText>,
    gone: Vec<WorkspacePath>,
    /// More files have changed.
    is_cut: bool,
}

/// Indexes files that were changed since the last look. Returns true if no changed ones are left.
pub async fn refresh(
    store: &Store,
    workspace: &Workspace,
    scope: &FileScope,
) -> Result<bool, StoreError> {
    for _ in 0..BATCHES_MAX {
        let keys = FileKeys::of(scope);
        let indexed = store.read(move |store| indexed(store, &keys)).await?;
        let scope = scope.clone();
        let batch = workspace.off_thread(move |workspace| batch(workspace, &scope, &indexed)).await;
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

/// Looks at the folders of a scope.
pub async fn survey(workspace: &Workspace, scope: &FileScope) -> Survey {
    let scope = scope.clone();
    workspace.off_thread(move |workspace| surveyed(workspace, &scope)).await
}

/// Returns true if the index knows the files as they are.
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

/// The files of these folders, as they were indexed.
fn indexed(store: &Connection, keys: &FileKeys) -> rusqlite::Result<Survey> {
    let mut files =
        store.prepare_cached("SELECT path, modified, size FROM recall_files WHERE who = ?")?;
    let mut found = Survey::default();
    for key in keys.all() {
        let mut rows = files.query([key])?;
        while let Some(row) = rows.next()? {
            // One that is no path was never written.
            let Ok(path) = row.get_ref(0)?.as_str()?.parse() else { continue };
            let file = SurveyedFile { key: key.clone(), modified: row.get(1)?, size: row.get(2)? };
            found.0.insert(path, file);
        }
    }
    Ok(found)
}

/// Compares the folders with the index, and reads some of the changed files.
fn batch(workspace: &Workspace, scope: &FileScope, indexed: &Survey) -> Batch {
    let Survey(found) = surveyed(workspace, scope);
    let gone = indexed.0.keys().filter(|path| !found.contains_key(path)).cloned().collect();
    let mut batch = Batch { changed: Vec::new(), gone, is_cut: false };
    let mut left = BATCH_BYTES;
    for (path, file) in found {
        if indexed.0.get(&path) == Some(&file) {
            continue;
        }
        if left == 0 {
            batch.is_cut = true;
            break;
        }
        left = left.saturating_sub(file.size.clamp(1, FILE_BYTES_MAX));
        let read = || workspace.open_for(&path, scope).and_then(|opened| opened.read_text()).ok();
        let text = if has_document_ending(path.name()) { None } else { read() };
        let text = text.filter(|text| !text.contains('\0'));
        batch.changed.push(ChangedText { path, file, text });
    }
    batch
}

/// Returns the paths of the files of text that a person can reach, in trusted and untrusted folders.
pub(in crate::memory) fn paths(workspace: &Workspace, scope: &FileScope) -> Vec<WorkspacePath> {
    all(workspace, scope).0.into_keys().collect()
}

/// The files of a scope that are to be indexed.
fn surveyed(workspace: &Workspace, scope: &FileScope) -> Survey {
    let mut found = all(workspace, scope);
    // Facts are in the index themselves.
    found.0.retain(|path, _| !is_facts_file(path));
    found
}

/// The files of text in the folders of a scope. The memory comes first, so that the bound never leaves it out.
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
            let most = files.0.len() + FILES_MAX;
            walk(&root, own, DEPTH_MAX, most, &mut files);
        }
    }
    for (path, key) in untrusted_folders(scope).iter().zip(&keys.untrusted) {
        if let Ok(folder) = workspace.open_folder_for(path, scope) {
            let most = files.0.len() + FILES_MAX;
            walk(&folder, key, DEPTH_MAX, most, &mut files);
        }
    }
    files
}

fn walk(folder: &OpenedFolder, key: &RecallKey, depth: usize, most: usize, files: &mut Survey) {
    for entry in folder.dated(FILES_MAX) {
        if entry.name.starts_with('.') || files.0.len() >= most {
            continue;
        }
        let Ok(path) = folder.path_of(&entry.name) else { continue };
        // Folders beside the workspace have their own keys, and instructions stand in each prompt.
        let is_root = folder.path().is_none();
        if is_root && path.is_beside() || path.is_shown_changed() {
            continue;
        }
        match entry.kind {
            EntryKind::Folder if depth > 1 => {
                if let Ok(below) = folder.folder(&entry.name) {
                    walk(&below, key, depth - 1, most, files);
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

/// Returns true for sizes of files of text, and for documents, whose text their record has.
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

/// The day of daily notes, by their name.
fn day_of(path: &WorkspacePath) -> Option<DateTime<Utc>> {
    let name = path.name().strip_suffix(".md").filter(|_| is_memory(path))?;
    let day = NaiveDate::parse_from_str(name, "%Y%m%d").ok()?;
    Some(day.and_hms_opt(12, 0, 0)?.and_utc())
}
