//! Deletes old actions, and unreferenced former contents of files.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::conversation::actions::{Actions, COMPLETION, CONVERSE, GRACE};
use crate::conversation::forgetting::forget_sessions;
use crate::conversation::sources;
use crate::store::{SLICE, StoreError, Time, slice};

/// A function that returns the hashes of the blobs that a module refers to.
pub type BlobsWanted = fn(&Connection) -> rusqlite::Result<HashSet<String>>;

/// The progress of pruning: the end time and the id of the last examined call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneMark(i64, i64);

/// Deletes actions that ended before a time and that no model sees any more, in a slice after the mark. Returns the mark
/// to continue from. None if there are no more.
pub fn prune(
    store: &Connection,
    before: DateTime<Utc>,
    PruneMark(ended, id): PruneMark,
) -> rusqlite::Result<Option<PruneMark>> {
    let before = Time(before);
    let mut statement = store.prepare_cached(
        "SELECT ended, id FROM calls WHERE (ended, id) > (?, ?) AND ended < ? ORDER BY ended, id LIMIT ?",
    )?;
    let marks = statement
        .query_map(params![ended, id, before, slice()], |row| {
            Ok(PruneMark(row.get(0)?, row.get(1)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for PruneMark(_, id) in &marks {
        delete_call(store, *id)?;
    }
    Ok(marks.last().copied().filter(|_| marks.len() == SLICE))
}

/// Deletes a call, unless a model still sees it or its text was sent to people.
fn delete_call(store: &Connection, call: i64) -> rusqlite::Result<()> {
    // Texts that calls sent to people are part of the conversation, which stays longer.
    let old = format!(
        "id = ?1 AND tool NOT IN ('{COMPLETION}', '{CONVERSE}') AND EXISTS (
             SELECT 1 FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = calls.turn
             AND t.ending IS NOT NULL AND (s.closed IS NOT NULL OR t.id < s.begins))"
    );
    // The sources stay, because the turn's answer may repeat the content of the call.
    let deleted_sources = store
        .prepare_cached(&format!(
            "SELECT turn, output IS NOT NULL, sources FROM calls WHERE {old}"
        ))?
        .query_row([call], |row| Ok((row.get(0)?, sources::of_call(row.get(1)?, row.get(2)?))))
        .optional()?;
    let Some((turn, deleted_sources)) = deleted_sources else { return Ok(()) };
    sources::keep_with_turn(store, turn, &deleted_sources)?;
    store.prepare_cached(&format!("DELETE FROM calls WHERE {old}"))?.execute([call])?;
    Ok(())
}

/// Deletes a slice of the actions of commands before a time. Returns the number of rows.
pub fn prune_commands(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    forget_sessions(store, "command", before)
}

/// Returns the hashes of the blobs that undo actions.
fn undo_blobs(store: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut rows = store.prepare(
        "SELECT iif(json_valid(undo), json_extract(undo, '$.before'), NULL) FROM calls WHERE undo IS NOT NULL
         AND iif(json_valid(undo), json_type(undo, '$.before'), NULL) = 'text'",
    )?;
    rows.query_map([], |row| row.get(0))?.collect()
}

impl Actions {
    /// Deletes unreferenced former contents of files. A blob that is younger than the daemon (`up`) may be about to be
    /// referenced, so it stays for some time. `others` returns the blobs that another module refers to.
    pub async fn sweep(&self, up: Duration, others: BlobsWanted) -> Result<(), StoreError> {
        let grace = up.min(GRACE);
        let wanted = self.store.read(move |store| {
            let mut all = undo_blobs(store)?;
            all.extend(others(store)?);
            Ok(all)
        });
        let wanted = wanted.await?;
        let images = self.images.clone();
        let swept = tokio::task::spawn_blocking(move || images.sweep(&wanted, grace)).await;
        if let Ok(Err(error)) = swept {
            tracing::warn!(%error, "Cannot delete old versions of files");
        }
        Ok(())
    }
}
