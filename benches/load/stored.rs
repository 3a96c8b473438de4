//! Homes to measure in: one turn and one job of the real daemon, copied in the database as often as is wished, so
//! that what is stored looks as the daemon writes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use rusqlite::Connection;
use tempfile::TempDir;

use super::daemon::{Daemon, configure};
use super::fakes::Fakes;
use super::people::Model;
use crate::measure::{self, Result};

/// Who says the first message; nobody else's id holds these digits.
const SEED_CHAT: i64 = 987_654_321;

/// Not while the bench runs.
const SEED_JOB: &str = "0 4 1 1 *";

/// How long the first turn may take.
const SEED_MAX: Duration = Duration::from_secs(30);

/// A finished turn: its row in the journal, the turn, its step, its tokens, the message and its chunk.
const ROWS_PER_TURN: usize = 6;

/// Chats that the rows belong to which are only stored.
const OTHER_CHATS: usize = 1_000;
const FIRST_OTHER_CHAT: i64 = 5_000_000;

/// Turns that are copied into a home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    pub(crate) first_chat: i64,
    pub(crate) chats: usize,
    /// Of all chats together.
    pub(crate) turns: usize,
    pub(crate) oldest: TimeDelta,
    pub(crate) newest: TimeDelta,
}

impl History {
    /// So many rows of people who do not speak while it is measured.
    pub(crate) fn of_others(rows: usize, oldest: TimeDelta, newest: TimeDelta) -> Self {
        let (first_chat, chats) = (FIRST_OTHER_CHAT, OTHER_CHATS);
        Self { first_chat, chats, turns: rows / ROWS_PER_TURN, oldest, newest }
    }
}

/// The rows that were copied, by their tables.
#[derive(Clone, Debug)]
pub(crate) struct Copied(BTreeMap<&'static str, (i64, i64)>);

impl Copied {
    /// The ids of a table: all above the first, up to the last.
    pub(crate) fn of(&self, table: &str) -> (i64, i64) {
        self.0.get(table).copied().unwrap_or_default()
    }
}

/// A home with one turn in it, which is copied from.
pub(crate) struct Seed {
    home: TempDir,
    /// Homes with rows of others, by their number.
    filled: BTreeMap<usize, TempDir>,
}

impl Seed {
    pub(crate) fn plant(fakes: &Fakes) -> Result<Self> {
        let home = tempfile::tempdir()?;
        configure(home.path(), fakes, 1)?;
        let daemon = Daemon::start(home.path())?;
        fakes.people.ask(SEED_CHAT, Model::Answers);
        let Some(_) = fakes.people.wait_until_heard(SEED_CHAT, SEED_MAX) else {
            return Err(format!("no answer to the first message:\n{}", daemon.log()).into());
        };
        let job = ["cron", "add", "--cron", SEED_JOB, "--message", "--to", "terminal:main", "Tea."];
        let added = measure::peacrab(&[], home.path(), &job).status()?;
        daemon.stop()?;
        fakes.people.forget();
        if !added.success() {
            return Err(format!("`cron add` failed ({added})").into());
        }
        let store = open(home.path())?;
        // What the fake of the model looks for stands in new messages only.
        store.execute("UPDATE steps SET input = replace(input, 'talk-', 'said-')", [])?;
        Ok(Self { home, filled: BTreeMap::new() })
    }

    /// A new home with so many rows of others, written within the last two months.
    pub(crate) fn home(&mut self, rows: usize) -> Result<TempDir> {
        if rows == 0 {
            return copy(self.home.path());
        }
        if let Some(filled) = self.filled.get(&rows) {
            return copy(filled.path());
        }
        let filled = copy(self.home.path())?;
        let (oldest, newest) = (TimeDelta::days(60), TimeDelta::days(1));
        fill(filled.path(), &History::of_others(rows, oldest, newest))?;
        let home = copy(filled.path())?;
        self.filled.insert(rows, filled);
        Ok(home)
    }
}

/// A copy of a home on which no daemon runs.
fn copy(from: &Path) -> Result<TempDir> {
    let home = tempfile::tempdir()?;
    copy_folder(from, home.path())?;
    Ok(home)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&to)?;
            copy_folder(&entry.path(), &to)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}

/// The database of a home, to be written quickly: after a power cut it would be damaged.
pub(crate) fn open(home: &Path) -> Result<Connection> {
    let store = Connection::open(home.join("state.db"))?;
    store.pragma_update(None, "synchronous", "off")?;
    store.pragma_update(None, "foreign_keys", false)?;
    store.pragma_update(None, "cache_size", -200_000)?;
    Ok(store)
}

/// Copies the one turn as often as `history` says; the chats take turns.
pub(crate) fn fill(home: &Path, history: &History) -> Result<Copied> {
    let store = open(home)?;
    let History { first_chat, chats, turns, oldest, newest } = *history;
    let now = Utc::now();
    let (from, until) = ((now - oldest).timestamp_millis(), (now - newest).timestamp_millis());
    begin(&store, turns.max(chats))?;
    let mut copied = Copied(BTreeMap::new());
    for table in ["sessions", "turns", "steps", "ledger", "inbound", "outbox", "chunks"] {
        let last = |table: &str| -> Result<i64> {
            let last = format!("SELECT ifnull(max(id), 0) FROM {table}");
            Ok(store.query_row(&last, [], |row| row.get(0))?)
        };
        let count = i64::try_from(if table == "sessions" { chats } else { turns })?;
        let has_id = !matches!(table, "steps" | "chunks");
        if has_id {
            let last = last(table)?;
            copied.0.insert(table, (last, last + count));
        }
        let first = |table: &str| copied.of(table).0 + 1;
        let (id, session, turn, delivery) =
            (first(table), first("sessions"), first("turns"), first("outbox"));
        let chat = format!("cast({first_chat} + n.i % {chats} AS TEXT)");
        let at = format!("({from} + n.i * ({until} - {from}) / {turns})");
        let other_chat = |column: &str| format!("replace(s.{column}, '{SEED_CHAT}', {chat})");
        let value = |column: &str| match column {
            "id" => format!("{id} + n.i"),
            "chat" => chat.clone(),
            "session" => format!("{session} + n.i % {chats}"),
            "turn" => format!("{turn} + n.i"),
            "delivery" => format!("{delivery} + n.i"),
            "key" => format!("'copied-' || ({id} + n.i)"),
            "opened" | "started" | "ended" | "at" | "received" | "created" | "next" => at.clone(),
            "sender" | "message" => other_chat(column),
            // The ledger has a column of this name for its tokens.
            "input" if table == "steps" => other_chat(column),
            column => format!("s.{column}"),
        };
        copy_rows(&store, table, count, value)?;
    }
    end(&store)?;
    Ok(copied)
}

/// Copies the one job so many times, each due a minute after the other.
pub(crate) fn fill_jobs(home: &Path, jobs: usize) -> Result<()> {
    let store = open(home)?;
    begin(&store, jobs)?;
    copy_rows(&store, "jobs", i64::try_from(jobs)?, |column| match column {
        "id" => "s.id + 1 + n.i".to_owned(),
        "next" => "s.next + n.i * 60000".to_owned(),
        column => format!("s.{column}"),
    })?;
    end(&store)
}

/// Begins to copy; `numbers` are those below `count`.
fn begin(store: &Connection, count: usize) -> Result<()> {
    store.execute_batch("BEGIN; CREATE TEMP TABLE numbers (i INTEGER PRIMARY KEY);")?;
    store.execute(
        "INSERT INTO numbers WITH RECURSIVE n (i) AS
             (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?) SELECT i FROM n",
        [i64::try_from(count)?],
    )?;
    Ok(())
}

fn end(store: &Connection) -> Result<()> {
    let end = "COMMIT; DROP TABLE numbers; PRAGMA wal_checkpoint(TRUNCATE);";
    Ok(store.execute_batch(end)?)
}

/// Copies a table's first row `s`; `value` is the expression of a column for the number `n.i`.
fn copy_rows(
    store: &Connection,
    table: &str,
    count: i64,
    value: impl Fn(&str) -> String,
) -> Result<()> {
    let columns = columns(store, table)?;
    let values: Vec<_> = columns.iter().map(|column| value(column)).collect();
    let (columns, values) = (columns.join(", "), values.join(", "));
    store.execute_batch(&format!(
        "INSERT INTO {table} ({columns}) SELECT {values} FROM
         (SELECT * FROM {table} LIMIT 1) s, numbers n WHERE n.i < {count} ORDER BY n.i"
    ))?;
    Ok(())
}

fn columns(store: &Connection, table: &str) -> Result<Vec<String>> {
    let mut columns = store.prepare("SELECT name FROM pragma_table_info(?)")?;
    Ok(columns.query_map([table], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}
