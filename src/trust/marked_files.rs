//! Marked files: files of the owner's workspace that are untrusted, because others may have written them in a home of a
//! former version. They stay untrusted until the owner decides. The workspace also has their paths in memory.

use rusqlite::{Connection, OptionalExtension, params};

use crate::store::{ForgottenWords, text_columns};
use crate::types::words::words;
use crate::workspace::WorkspacePath;

/// A marked file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedFile {
    pub path: WorkspacePath,
    /// The hash of the content that was found.
    pub hash: String,
    /// The person who wrote it. None for a turn of the owner that had read untrusted content.
    pub author: Option<String>,
}

/// The progress of the review of a home of a former version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormerHomeState {
    Due,
    /// Files are marked, and the owner is not notified yet.
    Found,
    Told,
}

words!(FormerHomeState { Due = "due", Found = "found", Told = "told" });

text_columns!(FormerHomeState = |word| Self::parse(word).unwrap_or(Self::Due));

/// Returns the state of the review. None in a home that this version made.
pub fn former_home(store: &Connection) -> rusqlite::Result<Option<FormerHomeState>> {
    store
        .prepare_cached("SELECT state FROM former_home")?
        .query_row([], |row| row.get(0))
        .optional()
}

pub fn set_former_home(store: &Connection, state: FormerHomeState) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE former_home SET state = ?")?.execute([state]).map(drop)
}

/// Returns the marked files by path. Skips rows whose path is invalid.
pub fn list(store: &Connection) -> rusqlite::Result<Vec<MarkedFile>> {
    let mut rows =
        store.prepare_cached("SELECT path, hash, author FROM marked_files ORDER BY path")?;
    let rows = rows.query_map([], |row| {
        let path = row.get_ref(0)?.as_str()?.parse::<WorkspacePath>();
        let (hash, author) = (row.get(1)?, row.get(2)?);
        Ok(path.ok().map(|path| MarkedFile { path, hash, author }))
    })?;
    rows.filter_map(Result::transpose).collect()
}

pub fn mark(store: &Connection, file: &MarkedFile) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO marked_files (path, hash, author) VALUES (?, ?, ?)",
        )?
        .execute(params![file.path.as_str(), file.hash, file.author])
        .map(drop)
}

pub fn unmark(store: &Connection, path: &WorkspacePath) -> rusqlite::Result<()> {
    store
        .prepare_cached("DELETE FROM marked_files WHERE path = ?")?
        .execute([path.as_str()])
        .map(drop)
}

/// Returns the files whose paths contain forgotten words.
pub fn with_words(
    store: &Connection,
    words: &ForgottenWords,
) -> rusqlite::Result<Vec<WorkspacePath>> {
    let found = list(store)?.into_iter().map(|file| file.path);
    Ok(found.filter(|path| words.are_in(path.as_str())).collect())
}

/// Removes forgotten words from the names of writers.
pub fn forget_authors(store: &Connection, words: &ForgottenWords) -> rusqlite::Result<()> {
    for file in list(store)? {
        let blanked = file.author.as_deref().and_then(|author| words.blanked(author));
        if let Some(author) = blanked {
            mark(store, &MarkedFile { author: Some(author), ..file })?;
        }
    }
    Ok(())
}
