//! Files of the owner's workspace that are untrusted although they lie there: in a home of a former version, others may
//! have written them. They stay so until the owner decides. The marks of paths are in memory, too, with the workspace.

use rusqlite::{Connection, OptionalExtension, params};

use crate::store::{ForgottenWords, text_columns};
use crate::types::words::words;
use crate::workspace::WorkspacePath;

/// A marked file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedFile {
    pub path: WorkspacePath,
    /// Of the content that was found.
    pub hash: String,
    /// The writer. None: a turn that had read untrusted content.
    pub author: Option<String>,
}

/// The progress of looking through a home of a former version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormerHomeState {
    Due,
    /// Files are marked, and the owner was not told yet.
    Found,
    Told,
}

words!(FormerHomeState { Due = "due", Found = "found", Told = "told" });

text_columns!(FormerHomeState = |word| Self::parse(word).unwrap_or(Self::Due));

/// Returns the state; none in a home that was made by this version.
pub fn former_home(store: &Connection) -> rusqlite::Result<Option<FormerHomeState>> {
    store
        .prepare_cached("SELECT state FROM former_home")?
        .query_row([], |row| row.get(0))
        .optional()
}

pub fn set_former_home(store: &Connection, state: FormerHomeState) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE former_home SET state = ?")?.execute([state]).map(drop)
}

/// Returns the marked files by path. A row whose path cannot be any is left out.
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

/// Returns the files whose paths have words that somebody wants forgotten.
pub fn with_words(
    store: &Connection,
    words: &ForgottenWords,
) -> rusqlite::Result<Vec<WorkspacePath>> {
    let found = list(store)?.into_iter().map(|file| file.path);
    Ok(found.filter(|path| words.are_in(path.as_str())).collect())
}

/// Removes words that somebody wants forgotten from the names of writers.
pub fn forget_authors(store: &Connection, words: &ForgottenWords) -> rusqlite::Result<()> {
    for file in list(store)? {
        let blanked = file.author.as_deref().and_then(|author| words.blanked(author));
        if let Some(author) = blanked {
            mark(store, &MarkedFile { author: Some(author), ..file })?;
        }
    }
    Ok(())
}
