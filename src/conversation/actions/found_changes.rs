//! Changes of files that a call did not report and that a comparison has found. Each is stored as an action
//! of its own, so that it can be undone like any other.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::conversation::actions::insert_closed_turn;
use crate::store::{Json, Time};
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::session::{CallId, FileUndo};

/// Marks these actions, to distinguish them from calls.
const MARK: &str = "seen";

/// The tool that made a change, the address, and the person for whom it did.
pub struct ActionAuthor<'a> {
    pub tool: &'a str,
    pub at: &'a Address,
    pub chat_kind: ChatKind,
    pub who: &'a Sender,
}

/// A changed file, and the data to undo the change, if possible.
pub struct FoundChange {
    pub path: String,
    pub undo: Option<FileUndo>,
}

/// Stores changes as actions in a closed session. Returns their numbers.
pub fn note(
    store: &Connection,
    author: &ActionAuthor<'_>,
    changes: &[FoundChange],
) -> rusqlite::Result<Vec<CallId>> {
    let turn = insert_closed_turn(store, author.at, author.chat_kind, author.who)?;
    let now = Time::now();
    let mut insert = store.prepare_cached(
        "INSERT INTO calls (turn, step, wire_id, tool, arguments, state, undo, started, ended)
         VALUES (?, 0, ?, ?, ?, 'done', ?, ?, ?)",
    )?;
    changes
        .iter()
        .map(|FoundChange { path, undo }| {
            let arguments = serde_json::json!({ "changed": path }).to_string();
            let undo = undo.as_ref().map(Json);
            insert.execute(params![turn, MARK, author.tool, arguments, undo, now, now])?;
            Ok(CallId(store.last_insert_rowid()))
        })
        .collect()
}

/// Returns true if the present content of a file was reported since a time: a call of a tool that reports its
/// changes wrote it, and no known change came later.
pub fn was_reported(
    store: &Connection,
    paths: [&str; 2],
    after: Option<&str>,
    since: DateTime<Utc>,
) -> rusqlite::Result<bool> {
    let is_reported = store
        .prepare_cached(
            "SELECT wire_id <> ?2 AND iif(json_valid(ifnull(undo, intent)), json_extract(ifnull(undo, intent), '$.after'), NULL) IS ?5
             FROM calls WHERE started >= ?1 AND state IN ('running', 'done', 'interrupted')
             AND iif(json_valid(ifnull(undo, intent)), json_extract(ifnull(undo, intent), '$.path'), NULL) IN (?3, ?4)
             ORDER BY started DESC, id DESC LIMIT 1",
        )?
        .query_row(params![Time(since), MARK, paths[0], paths[1], after], |row| {
            row.get(0)
        });
    Ok(is_reported.optional()?.unwrap_or(false))
}
