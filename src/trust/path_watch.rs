//! Commands that have the network and can change paths of a workspace. People are shown what such a command has changed,
//! because it cannot be taken back. A row stands for each that runs, so that people learn of one that a crash cuts off.
//! Not here: the comparison of the files (`workspace::path_stamps`).

use rusqlite::{Connection, params};

use crate::bus::{Notifier, outbox};
use crate::replies;
use crate::store::{Json, LenientJson, Store, StoreError, Sync};
use crate::types::message::Address;

/// Records these commands. Cheap to clone.
#[derive(Clone)]
pub struct PathWatcher {
    store: Store,
    outbox: Notifier,
}

/// A command that runs, to be ended by [`Self::end`].
#[must_use]
pub struct PathWatch {
    watcher: PathWatcher,
    at: Address,
    row: i64,
}

impl PathWatcher {
    pub fn new(store: Store, outbox: Notifier) -> Self {
        Self { store, outbox }
    }

    /// Records a command that is about to begin, for the people of a chat. On the disk when this returns.
    pub async fn begin(&self, at: &Address, paths: Vec<String>) -> Result<PathWatch, StoreError> {
        let to = at.clone();
        let insert = move |store: &Connection| {
            store
                .prepare_cached("INSERT INTO watched_commands (at, paths) VALUES (?, ?)")?
                .execute(params![Json(&to), Json(&paths)])?;
            Ok(store.last_insert_rowid())
        };
        let row = self.store.write("paths watched", Sync::Now, insert).await?;
        Ok(PathWatch { watcher: self.clone(), at: at.clone(), row })
    }
}

impl PathWatch {
    /// Removes the record of a command that has ended, and queues the list of its changes, if there are any: one
    /// transaction.
    pub async fn end(self, list: Option<String>) -> Result<(), StoreError> {
        let Self { watcher, at, row } = self;
        let end = move |store: &Connection| {
            store.prepare_cached("DELETE FROM watched_commands WHERE id = ?")?.execute([row])?;
            match list {
                Some(list) => outbox::put(store, &at, None, &list).map(drop),
                None => Ok(()),
            }
        };
        watcher.store.write("paths compared", Sync::Later, end).await?;
        watcher.outbox.notify();
        Ok(())
    }
}

/// Returns true if commands were cut off and nobody was told. For a start, when none runs.
pub fn has_cut_off(store: &Connection) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM watched_commands")?.exists([])
}

/// A command whose end was lost.
struct CutOffCommand {
    at: Option<Address>,
    paths: Vec<String>,
}

/// Tells the people of each command that was cut off, once.
pub fn report_cut_off(store: &Connection) -> rusqlite::Result<()> {
    let mut rows = store.prepare_cached("SELECT at, paths FROM watched_commands ORDER BY id")?;
    let cut_off = rows.query_map([], |row| {
        let (LenientJson(at), LenientJson(paths)) = (row.get(0)?, row.get(1)?);
        Ok(CutOffCommand { at, paths: paths.unwrap_or_default() })
    })?;
    for command in cut_off.collect::<rusqlite::Result<Vec<_>>>()? {
        // An address that cannot be read is in the log.
        let Some(at) = command.at else { continue };
        outbox::put(store, &at, None, &replies::command_cut_off(&command.paths))?;
    }
    store.execute("DELETE FROM watched_commands", []).map(drop)
}
