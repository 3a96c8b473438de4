//! The messages of a chat in both directions, in order, for a channel that shows them from the store. Nothing is
//! sent to it, so nothing can be lost on the way.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::bus::journal::InboundOutcome;
use crate::store::{LenientJson, Time};
use crate::types::message::{Body, ChatId, DeliveryId, Inbound, MessageId};

/// The channel that is shown from the store. The schema has an index for it.
pub const CHANNEL: &str = "web";

/// A place in the feed: the last message of each direction. It is also the id of a server-sent event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub heard: i64,
    pub sent: i64,
}

impl Cursor {
    /// Returns the cursor, limited to `end` in each direction.
    pub fn up_to(self, end: Self) -> Self {
        Self { heard: self.heard.min(end.heard), sent: self.sent.min(end.sent) }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.heard, self.sent)
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (heard, sent) = text.split_once('.').ok_or(())?;
        Ok(Self { heard: heard.parse().map_err(drop)?, sent: sent.parse().map_err(drop)? })
    }
}

/// A message of a chat.
#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    /// The cursor after it.
    pub cursor: Cursor,
    pub at: DateTime<Utc>,
    pub content: PostContent,
}

impl Post {
    /// Returns the cursor before it.
    pub fn before(&self) -> Cursor {
        let Cursor { heard, sent } = self.cursor;
        match self.content {
            PostContent::Heard { .. } => Cursor { heard: heard - 1, sent },
            PostContent::Sent { .. } => Cursor { heard, sent: sent - 1 },
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum PostContent {
    Heard {
        inbound: Box<Inbound>,
        /// True if the sender got an explanation instead of an answer.
        refused: bool,
    },
    Sent {
        id: DeliveryId,
        body: Body,
        /// The message that it replaces.
        replaces: Option<MessageId>,
        /// True if its buttons can no longer be pressed.
        decided: bool,
    },
}

/// Returns the messages of a chat after a cursor, oldest first, at most `max` of each direction.
pub fn after(
    store: &Connection,
    chat: &ChatId,
    cursor: Cursor,
    max: usize,
) -> rusqlite::Result<Vec<Post>> {
    let limit = i64::try_from(max).unwrap_or(i64::MAX);
    let mut rows = store.prepare_cached(
        "SELECT id, received, message, outcome FROM inbound
         WHERE channel = 'web' AND chat = ?1 AND thread IS NULL AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let heard = rows.query_map(params![chat, cursor.heard, limit], read_heard)?;
    let heard: Vec<_> = heard.collect::<rusqlite::Result<_>>()?;
    let mut rows = store.prepare_cached(
        "SELECT id, created, body, replaces, pressed FROM outbox
         WHERE channel = 'web' AND chat = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let sent = rows.query_map(params![chat, cursor.sent, limit], read_sent)?;
    let sent: Vec<_> = sent.collect::<rusqlite::Result<_>>()?;
    Ok(merge_by_time(heard, sent, cursor))
}

/// Returns the last `max` messages of a chat before a cursor, oldest first.
pub fn before(
    store: &Connection,
    chat: &ChatId,
    cursor: Option<Cursor>,
    max: usize,
) -> rusqlite::Result<Vec<Post>> {
    let limit = i64::try_from(max).unwrap_or(i64::MAX);
    let end = cursor.unwrap_or(Cursor { heard: i64::MAX, sent: i64::MAX });
    let mut rows = store.prepare_cached(
        "SELECT id, received, message, outcome FROM inbound
         WHERE channel = 'web' AND chat = ?1 AND thread IS NULL AND id <= ?2 ORDER BY id DESC LIMIT ?3",
    )?;
    let heard = rows.query_map(params![chat, end.heard, limit], read_heard)?;
    let mut heard: Vec<_> = heard.collect::<rusqlite::Result<_>>()?;
    let mut rows = store.prepare_cached(
        "SELECT id, created, body, replaces, pressed FROM outbox
         WHERE channel = 'web' AND chat = ?1 AND id <= ?2 ORDER BY id DESC LIMIT ?3",
    )?;
    let sent = rows.query_map(params![chat, end.sent, limit], read_sent)?;
    let mut sent: Vec<_> = sent.collect::<rusqlite::Result<_>>()?;
    heard.reverse();
    sent.reverse();
    let before_first = |rows: &[Row]| rows.first().map_or(0, |row| row.id - 1);
    let begin = Cursor { heard: before_first(&heard), sent: before_first(&sent) };
    let mut posts = merge_by_time(heard, sent, begin);
    let surplus = posts.len().saturating_sub(max);
    Ok(posts.split_off(surplus))
}

/// Returns the cursor after all messages of a chat.
pub fn end(store: &Connection, chat: &ChatId) -> rusqlite::Result<Cursor> {
    let heard = store
        .prepare_cached(
            "SELECT ifnull(max(id), 0) FROM inbound
             WHERE channel = 'web' AND chat = ? AND thread IS NULL",
        )?
        .query_row([chat], |row| row.get(0))?;
    let sent = store
        .prepare_cached("SELECT ifnull(max(id), 0) FROM outbox WHERE channel = 'web' AND chat = ?")?
        .query_row([chat], |row| row.get(0))?;
    Ok(Cursor { heard, sent })
}

/// First character in the name of a session that serves a single API request and is not listed.
pub const SINGLE_REQUEST_PREFIX: char = '~';

/// Returns the chats whose id begins with `prefix`, each with the time of its last message, newest first. Leaves out
/// sessions of a single request.
pub fn chats(
    store: &Connection,
    prefix: &str,
    max: usize,
) -> rusqlite::Result<Vec<(ChatId, DateTime<Utc>)>> {
    let mut rows = store.prepare_cached(
        "SELECT chat, max(at) FROM
             (SELECT chat, received AS at FROM inbound INDEXED BY inbound_place
              WHERE channel = 'web' AND substr(chat, 1, length(?1)) = ?1
              UNION ALL
              SELECT chat, created FROM outbox
              WHERE channel = 'web' AND substr(chat, 1, length(?1)) = ?1)
         WHERE substr(chat, length(?1) + 1, 1) <> ?3
         GROUP BY chat ORDER BY max(at) DESC LIMIT ?2",
    )?;
    let limit = i64::try_from(max).unwrap_or(i64::MAX);
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Time>(1)?.0));
    rows.query_map(params![prefix, limit, SINGLE_REQUEST_PREFIX.to_string()], read)?.collect()
}

/// Returns a sent message of a chat.
pub fn sent(
    store: &Connection,
    chat: &ChatId,
    id: DeliveryId,
) -> rusqlite::Result<Option<PostContent>> {
    let mut row = store.prepare_cached(
        "SELECT id, created, body, replaces, pressed FROM outbox
         WHERE channel = 'web' AND chat = ? AND id = ?",
    )?;
    let mut found = row.query_map(params![chat, id], read_sent)?;
    Ok(found.next().transpose()?.and_then(|row| row.content))
}

/// Returns a sent message of any chat, on any channel.
pub fn post(store: &Connection, id: DeliveryId) -> rusqlite::Result<Option<Post>> {
    let mut row = store
        .prepare_cached("SELECT id, created, body, replaces, pressed FROM outbox WHERE id = ?")?;
    let found: Option<Row> = row.query_map([id], read_sent)?.next().transpose()?;
    Ok(found.and_then(Row::post))
}

/// A row of `inbound` or `outbox`.
struct Row {
    id: i64,
    at: DateTime<Utc>,
    /// None if it cannot be read.
    content: Option<PostContent>,
}

impl Row {
    /// Returns a sent row as a post without its chat's other direction.
    fn post(self) -> Option<Post> {
        let Self { id, at, content } = self;
        let cursor = Cursor { heard: 0, sent: id };
        content.map(|content| Post { cursor, at, content })
    }
}

fn read_heard(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let LenientJson(inbound) = row.get(2)?;
    let refused =
        row.get::<_, Option<String>>(3)?.as_deref() == Some(InboundOutcome::Refused.as_str());
    let content = inbound.map(|inbound| PostContent::Heard { inbound: Box::new(inbound), refused });
    Ok(Row { id: row.get(0)?, at: row.get::<_, Time>(1)?.0, content })
}

fn read_sent(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let id = row.get(0)?;
    let LenientJson(body) = row.get(2)?;
    let (replaces, decided) = (row.get(3)?, row.get::<_, Option<i64>>(4)?.is_some());
    let content =
        body.map(|body| PostContent::Sent { id: DeliveryId(id), body, replaces, decided });
    Ok(Row { id, at: row.get::<_, Time>(1)?.0, content })
}

/// Merges both directions by time. Within a direction the ids decide the order, so that a cursor is exact.
fn merge_by_time(heard: Vec<Row>, sent: Vec<Row>, begin: Cursor) -> Vec<Post> {
    let (mut heard, mut sent) = (heard.into_iter().peekable(), sent.into_iter().peekable());
    let (mut cursor, mut posts) = (begin, Vec::new());
    loop {
        let is_heard = match (heard.peek(), sent.peek()) {
            (Some(heard), Some(sent)) => heard.at <= sent.at,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return posts,
        };
        let next = if is_heard { heard.next() } else { sent.next() };
        let Some(Row { id, at, content }) = next else { return posts };
        match is_heard {
            true => cursor.heard = id,
            false => cursor.sent = id,
        }
        posts.extend(content.map(|content| Post { cursor, at, content }));
    }
}
