//! The times of messages: sent, by the platform's clock, and received, by ours.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::origins::origin_params;
use super::row::WaitingMessage;
use crate::store::Time;

/// Maximum number of last messages that are searched for one of another conversation, or for the newest
/// time of a platform.
const LOOKED_AT: i64 = 200;

/// Time at which a message was sent, by its platform's clock, and at which it was received, by ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTimes {
    pub at: DateTime<Utc>,
    pub received: DateTime<Utc>,
}

/// Returns the times of the newest message of the same conversation that was received before `message`, and
/// no later than `until`.
pub fn times_before(
    store: &Connection,
    message: &WaitingMessage,
    until: DateTime<Utc>,
) -> rusqlite::Result<Option<MessageTimes>> {
    let (channel, chat, thread) = origin_params(&message.origin);
    store
        .prepare_cached(
            "SELECT received, iif(json_valid(message), json_extract(message, '$.at'), NULL) FROM inbound
             WHERE channel = ? AND chat = ? AND thread IS ? AND id < ? AND received <= ?
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![channel, chat, thread, message.id, Time(until)], read_times)
        .optional()
        .map(Option::flatten)
}

/// Returns the times of the newest such message in any conversation on a platform.
pub fn times_elsewhere_before(
    store: &Connection,
    message: &WaitingMessage,
    until: DateTime<Utc>,
) -> rusqlite::Result<Option<MessageTimes>> {
    store
        .prepare_cached(
            "SELECT received, iif(json_valid(message), json_extract(message, '$.at'), NULL) FROM
             (SELECT id, received, message FROM inbound WHERE id < ? ORDER BY id DESC LIMIT ?)
             WHERE received <= ? AND iif(json_valid(message), json_extract(message, '$.id'), NULL) IS NOT NULL
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![message.id, LOOKED_AT, Time(until)], read_times)
        .optional()
        .map(Option::flatten)
}

fn read_times(row: &Row<'_>) -> rusqlite::Result<Option<MessageTimes>> {
    let (Time(received), at): (_, Option<String>) = (row.get(0)?, row.get(1)?);
    Ok(at.and_then(|at| parse_time(&at)).map(|at| MessageTimes { at, received }))
}

fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
}

/// Returns the newest time that a platform has reported, by its server's clock, among the last messages.
pub fn newest_of_platforms(store: &Connection) -> rusqlite::Result<Option<DateTime<Utc>>> {
    // A pressed button and a message from the terminal have our own time.
    let newest: Option<String> = store.query_row(
        "SELECT max(iif(json_valid(message), json_extract(message, '$.at'), NULL)) FROM
         (SELECT message FROM inbound ORDER BY id DESC LIMIT ?)
         WHERE iif(json_valid(message), json_extract(message, '$.id'), NULL) IS NOT NULL
         AND iif(json_valid(message), json_extract(message, '$.body.press'), NULL) IS NULL",
        [LOOKED_AT],
        |row| row.get(0),
    )?;
    Ok(newest.and_then(|at| parse_time(&at)))
}

/// Returns the time at which the last message was received, by our clock at that time.
pub fn last_received(store: &Connection) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let last = store
        .prepare_cached("SELECT received FROM inbound ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| row.get::<_, Time>(0))
        .optional()?;
    Ok(last.map(|last| last.0))
}
