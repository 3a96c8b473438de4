//! Deletes old actions, and former contents of files that nothing refers to.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::conversation::actions::{Actions, COMPLETION, CONVERSE, GRACE};
use crate::conversation::forgetting::forget_sessions;
use crate::conversation::sources;
use crate::store::{SLICE, StoreError, Time, slice};

/// Returns the hashes of the blobs that a module refers to.
pub type BlobsWanted = fn(&Connection) -> rusqlite::Result<HashSet<String>>;

/// The progress of pruning: the end and the id of the last call that was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneMark(i64, i64);

/// Forgets actions that are so old and that no model sees any more, looking at a slice of them. Returns where
/// to go on; none if that was all.
pub fn prune(
    store: &Connection,
    before: DateTime<Utc>,
    PruneMark(ended, id): PruneMark,
) -> rusqlite::Result<Option<PruneMark>> {
    let before = Time(before);
    let mut looked_at = store.prepare_cached(
        "SELECT ended, id FROM calls WHERE (ended, id) > (?, ?) AND ended < ? ORDER BY ended, id LIMIT ?",
    )?;
    let marks = looked_at
        .query_map(params![ended, id, before, slice()], |row| {
            Ok(PruneMark(row.get(0)?, row.get(1)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for PruneMark(_, id) in &marks {
        forget(store, *id)?;
    }
    Ok(marks.last().copied().filter(|_| marks.len() == SLICE))
}

/// Forgets a call, unless it is still shown or is a part of what was said.
fn forget(store: &Connection, call: i64) -> rusqlite::Result<()> {
    // What was said by a call is part of the conversation, which stays for longer.
    let old = format!(
        "id = ?1 AND tool NOT IN ('{COMPLETION}', '{CONVERSE}') AND EXISTS (
             SELECT 1 FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = calls.turn
             AND t.ending IS NOT NULL AND (s.closed IS NOT NULL OR t.id < s.begins))"
    );
    // Who finds what was answered then is to know where it may have come from.
    let forgotten = store
        .prepare_cached(&format!(
            "SELECT turn, output IS NOT NULL, sources FROM calls WHERE {old}"
        ))?
        .query_row([call], |row| Ok((row.get(0)?, sources::of_call(row.get(1)?, row.get(2)?))))
        .optional()?;
    let Some((turn, forgotten)) = forgotten else { return Ok(()) };
    sources::keep_with_turn(store, turn, &forgotten)?;
    store.prepare_cached(&format!("DELETE FROM calls WHERE {old}"))?.execute([call])?;
    Ok(())
}

/// Forgets what commands did before a time, a slice at a time; returns how many rows.
pub fn prune_commands(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    forget_sessions(store, "command", before)
}

/// The blobs that something can be undone with.
fn undo_blobs(store: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut rows = store.prepare(
        "SELECT json_extract(undo, '$.before') FROM calls WHERE undo IS NOT NULL
         AND iif(json_valid(undo), json_type(undo, '$.before'), NULL) = 'text'",
    )?;
    rows.query_map([], |row| row.get(0))?.collect()
}

impl Actions {
    /// Removes what files were that nothing refers to. What has come since the daemon began may be about to be
    /// referred to, for some time. `others` returns the blobs that another module refers to.
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
