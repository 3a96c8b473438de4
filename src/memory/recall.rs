//! The search index of turns, facts and text files. There is one row for each passage, and SQLite's full-text index
//! (FTS5) has their words. The key of those who may find a passage is a word of the index as well, so that a search never
//! reads passages of others. Not here: if a hit is trusted, which is decided at use from its sources.

pub mod common;
pub mod files;
pub mod progress;
pub mod query;
pub mod words;

use chrono::{DateTime, Utc};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::people::persons;
use crate::store::{Time, integer_columns};
use crate::types::message::{Address, ChannelName, ChatKind, SenderId};
use crate::types::words::words as names;
use progress::{IndexCount, IndexedParts};

/// Maximum length of a passage, in characters: a page of a chat, or some paragraphs.
pub const PASSAGE_CHARS_MAX: usize = 1_500;

/// Maximum number of passages of one turn or file. Text after them is not found.
pub const PASSAGES_MAX: usize = 200;

/// Number of turns from before the index existed that are indexed in one transaction.
const BACKFILL_TURNS: i64 = 50;

/// Number of passages that an emptied index takes back in one transaction: at most 300,000 characters.
const REFILLED: i64 = 200;

/// The key of those who may find an entry: the account of a person, a group's chat, or a folder. It is a letter and
/// digits, which the index treats as one word and does not stem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecallKey(String);

impl RecallKey {
    /// Returns the key of an account's private conversations. A person has one key for each account, so that no entry
    /// changes when accounts are linked or unlinked. After a removal the account gets a new key, as another person's.
    pub fn of_account(channel: &ChannelName, sender: &SenderId, removals: u32) -> Self {
        let suffix = if removals == 0 { String::new() } else { removals.to_string() };
        Self::of('a', [channel.as_str(), sender.as_str(), &suffix])
    }

    /// Returns the current key of an account's private conversations.
    pub fn current_of_account(
        store: &Connection,
        channel: &ChannelName,
        sender: &SenderId,
    ) -> rusqlite::Result<Self> {
        let removals = persons::removals(store, channel, sender)?;
        Ok(Self::of_account(channel, sender, removals))
    }

    /// Returns the key of the conversations of a group, or of a thread in it.
    pub fn of_group(at: &Address) -> Self {
        let thread = at.thread.as_ref().map_or("", |thread| thread.as_str());
        Self::of('g', [at.channel.as_str(), at.chat.as_str(), thread])
    }

    /// Returns the key of the files in a folder.
    pub fn of_folder(name: &str) -> Self {
        Self::of('f', [name, "", ""])
    }

    /// Returns the key of the facts of a person's account or of a group.
    pub fn of_facts(talks: &Self) -> Self {
        Self::of('k', [talks.as_str(), "", ""])
    }

    fn of(kind: char, names: [&str; 3]) -> Self {
        let digest = Sha256::digest(names.join("\0"));
        let bytes = digest.iter().take(8).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        Self(format!("{kind}{bytes}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ToSql for RecallKey {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_str().into())
    }
}

impl FromSql for RecallKey {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(value.as_str()?.to_owned()))
    }
}

/// Returns the key under which a conversation is indexed: the person's in private, the group's elsewhere.
pub fn conversation_key(
    store: &Connection,
    at: &Address,
    chat_kind: ChatKind,
    sender: &SenderId,
) -> rusqlite::Result<RecallKey> {
    match chat_kind {
        ChatKind::Private => RecallKey::current_of_account(store, &at.channel, sender),
        ChatKind::Group => Ok(RecallKey::of_group(at)),
    }
}

/// Returns the keys of all conversations that a person may find: in private their own, with this account's
/// first; in a group the group's.
pub fn conversation_keys(
    store: &Connection,
    at: &Address,
    chat_kind: ChatKind,
    sender: &SenderId,
) -> rusqlite::Result<Vec<RecallKey>> {
    if chat_kind == ChatKind::Group {
        return Ok(vec![RecallKey::of_group(at)]);
    }
    let own = RecallKey::current_of_account(store, &at.channel, sender)?;
    let mut keys = vec![own];
    for other in persons::accounts_of_same(store, &at.channel, sender)? {
        let key = RecallKey::current_of_account(store, &other.channel, &other.sender)?;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// The kind of an entry's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecallKind {
    File,
    Turn,
    Fact,
}

names!(RecallKind { File = "file", Turn = "turn", Fact = "fact" });

impl ToSql for RecallKind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for RecallKind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

/// The id of a passage in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecallId(pub i64);

integer_columns!(RecallId);

/// A text to index.
#[derive(Clone, Copy, Debug)]
pub struct RecallText<'a> {
    pub key: &'a RecallKey,
    pub kind: RecallKind,
    /// The id of the turn, file or fact.
    pub source: i64,
    pub at: DateTime<Utc>,
    pub text: &'a str,
}

/// Indexes a text. Replaces all entries of its source.
pub fn put(store: &Connection, text: &RecallText<'_>) -> rusqlite::Result<()> {
    remove(store, text.kind, text.source)?;
    let mut entry = store.prepare_cached(
        "INSERT INTO recall_entries (who, kind, source, line, at, text) VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    let mut index =
        store.prepare_cached("INSERT INTO recall_index (rowid, who, text) VALUES (?, ?, ?)")?;
    let RecallText { key, kind, source, at, text } = text;
    for passage in words::passages(text).into_iter().take(PASSAGES_MAX) {
        entry.execute(params![key, kind, source, passage.line, Time(*at), passage.text])?;
        let id = store.last_insert_rowid();
        index.execute(params![id, key, words::indexed(passage.text)])?;
    }
    Ok(())
}

/// Returns true if somebody with one of these keys may find a source.
pub fn is_findable(
    store: &Connection,
    kind: RecallKind,
    source: i64,
    keys: &[RecallKey],
) -> rusqlite::Result<bool> {
    let mut entries = store
        .prepare_cached("SELECT DISTINCT who FROM recall_entries WHERE kind = ? AND source = ?")?;
    let mut rows = entries.query(params![kind, source])?;
    while let Some(row) = rows.next()? {
        if keys.contains(&row.get(0)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes all entries of a source.
pub fn remove(store: &Connection, kind: RecallKind, source: i64) -> rusqlite::Result<()> {
    let mut entries = store
        .prepare_cached("SELECT id, who, text FROM recall_entries WHERE kind = ? AND source = ?")?;
    let mut rows = entries.query(params![kind, source])?;
    let mut removed = false;
    while let Some(row) = rows.next()? {
        let (id, who) = (row.get::<_, RecallId>(0)?, row.get::<_, RecallKey>(1)?);
        removed = true;
        // An emptied index may not have it again yet, and would count it as one less.
        if id.0 < lowest_indexed(store)? {
            continue;
        }
        // The index has no content of its own (contentless FTS5): a deletion must repeat the indexed text.
        store
            .prepare_cached(
                "INSERT INTO recall_index (recall_index, rowid, who, text) VALUES ('delete', ?, ?, ?)",
            )?
            .execute(params![id, who, words::indexed(row.get_ref(2)?.as_str()?)])?;
    }
    if removed {
        store
            .prepare_cached("DELETE FROM recall_entries WHERE kind = ? AND source = ?")?
            .execute(params![kind, source])?;
    }
    Ok(())
}

/// Empties the index, also a broken one. [`refill_index`] fills it again.
pub fn empty_index(store: &Connection) -> rusqlite::Result<()> {
    store.execute("INSERT INTO recall_index (recall_index) VALUES ('delete-all')", []).map(drop)
}

/// Returns true unless the index was emptied, and lacks entries since.
pub fn is_index_full(store: &Connection) -> rusqlite::Result<bool> {
    store
        .prepare_cached("SELECT NOT EXISTS (SELECT 1 FROM recall_entries WHERE id < ?)")?
        .query_row([lowest_indexed(store)?], |row| row.get(0))
}

/// Counts all entries, and those that are in the index, which was emptied.
pub fn count_passages(store: &Connection) -> rusqlite::Result<IndexCount> {
    store
        .prepare_cached("SELECT count(*) FILTER (WHERE id >= ?), count(*) FROM recall_entries")?
        .query_row([lowest_indexed(store)?], |row| {
            Ok(IndexCount { parts: IndexedParts::Passages, done: row.get(0)?, total: row.get(1)? })
        })
}

/// Puts a slice of the entries that an emptied index lacks back into it, the newest first. Returns their number.
pub fn refill_index(store: &Connection) -> rusqlite::Result<usize> {
    // Within a slice, the index takes rising ids without writing a part of itself for each.
    let mut entries = store.prepare_cached(
        "SELECT id, who, text FROM
         (SELECT id, who, text FROM recall_entries WHERE id < ? ORDER BY id DESC LIMIT ?)
         ORDER BY id",
    )?;
    let mut index =
        store.prepare_cached("INSERT INTO recall_index (rowid, who, text) VALUES (?, ?, ?)")?;
    let mut rows = entries.query(params![lowest_indexed(store)?, REFILLED])?;
    let mut filled = 0;
    while let Some(row) = rows.next()? {
        let (id, who) = (row.get::<_, RecallId>(0)?, row.get::<_, RecallKey>(1)?);
        index.execute(params![id, who, words::indexed(row.get_ref(2)?.as_str()?)])?;
        filled += 1;
    }
    Ok(filled)
}

/// Returns the lowest id in the index. Entries below it are those that an emptied index lacks: later ones have higher ids.
fn lowest_indexed(store: &Connection) -> rusqlite::Result<i64> {
    // The index has a row with the length of each entry.
    let lowest: Option<i64> = store
        .prepare_cached("SELECT min(id) FROM recall_index_docsize")?
        .query_row([], |row| row.get(0))?;
    Ok(lowest.unwrap_or(i64::MAX))
}

/// Returns the number below which turns are not indexed yet. None if all are indexed.
pub fn backfill_below(store: &Connection) -> rusqlite::Result<Option<i64>> {
    let below = store
        .prepare_cached("SELECT below FROM recall_backfill WHERE one = 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(below.filter(|below| *below > 1))
}

/// Stores that all turns from `below` on are indexed.
pub fn set_backfill_below(store: &Connection, below: i64) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE recall_backfill SET below = ? WHERE one = 1")?
        .execute([below])
        .map(drop)
}

/// Returns the number of turns to index in one transaction.
pub fn backfill_slice() -> i64 {
    BACKFILL_TURNS
}
