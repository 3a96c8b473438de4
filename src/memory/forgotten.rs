//! Records of forgotten words. A record has only a digest of the words, which finds them again in an older backup.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::recall::RecallKey;
use crate::store::{ChatPlace, ForgottenWords, Json, LenientJson, Time, WordsDigest, slice};
use crate::workspace::FileScope;

/// Retention of a record: longer than any regular backup.
pub const KEPT: chrono::Duration = chrono::Duration::days(3_650);

/// The persons and chats from whose texts the words were removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenScope {
    /// Keys of the facts.
    pub keys: Vec<RecallKey>,
    pub chats: Vec<ChatPlace>,
    /// None in a group.
    pub files: Option<FileScope>,
}

/// A record of forgotten words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenRecord {
    pub at: DateTime<Utc>,
    pub scope: ForgottenScope,
    digest: WordsDigest,
}

impl ForgottenRecord {
    pub fn new(at: DateTime<Utc>, scope: ForgottenScope, words: &ForgottenWords) -> Self {
        Self { at, scope, digest: words.digest() }
    }

    /// Returns the words in a form that can be searched for.
    pub fn words(&self) -> ForgottenWords {
        ForgottenWords::of_digest(self.digest.clone())
    }
}

/// Adds a record.
pub fn note(store: &Connection, record: &ForgottenRecord) -> rusqlite::Result<()> {
    store
        .prepare_cached("INSERT INTO forgotten_words (at, scope, digest) VALUES (?, ?, ?)")?
        .execute(params![Time(record.at), Json(&record.scope), Json(&record.digest)])
        .map(drop)
}

/// Returns all records, oldest first. Leaves out unreadable ones, which are of a newer version.
pub fn all(store: &Connection) -> rusqlite::Result<Vec<ForgottenRecord>> {
    let mut rows = store.prepare("SELECT at, scope, digest FROM forgotten_words ORDER BY id")?;
    let records = rows.query_map([], |row| {
        let (LenientJson(scope), LenientJson(digest)): (LenientJson<_>, LenientJson<_>) =
            (row.get(1)?, row.get(2)?);
        let at = row.get::<_, Time>(0)?.0;
        Ok(scope.zip(digest).map(|(scope, digest)| ForgottenRecord { at, scope, digest }))
    })?;
    records.filter_map(Result::transpose).collect()
}

/// Deletes a slice of the records before a time.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "DELETE FROM forgotten_words WHERE id IN (SELECT id FROM forgotten_words WHERE at < ? LIMIT ?)",
        )?
        .execute(params![Time(before), slice()])
}
