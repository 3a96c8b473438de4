//! The lanes in which deliveries wait, and the heads of the lanes, which triggers of the schema maintain.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::store::{Json, Time};
use crate::types::message::{ChannelName, ChatId, DeliveryId};

/// The head of one lane of a chat: the message that may be tried next. Each chat has two lanes: one for the answers to
/// commands, so that they wait for nothing else, and one for the rest. The head of a lane is its oldest message. A
/// message that lets later ones pass stays a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneHead {
    pub id: DeliveryId,
    pub lane: Lane,
    /// Earliest time of the next attempt.
    pub next: DateTime<Utc>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    pub chat: ChatId,
    pub urgent: bool,
}

/// Returns the message of each chat of a channel that may be tried next, urgent ones or others, in order of their next
/// attempt: at most `max`, and none of busy lanes. The cost depends on the size of the result, not of the queue.
pub fn next_of_each_chat(
    store: &Connection,
    channel: &ChannelName,
    urgent: bool,
    max: usize,
    busy: &HashSet<Lane>,
) -> rusqlite::Result<Vec<LaneHead>> {
    let mut rows = store.prepare_cached(
        "SELECT id, chat, urgent, next FROM outbox
         WHERE state = 'pending' AND head = 1 AND channel = ? AND urgent = ?
         AND chat NOT IN (SELECT value FROM json_each(?)) ORDER BY next LIMIT ?",
    )?;
    let busy = busy.iter().filter(|lane| lane.urgent == urgent).map(|lane| lane.chat.as_str());
    let busy = Json(busy.collect::<Vec<_>>());
    rows.query_map(params![channel, urgent, busy, max], |row| {
        let next = row.get::<_, Time>(3)?.0;
        let lane = Lane { chat: row.get(1)?, urgent: row.get(2)? };
        Ok(LaneHead { id: row.get(0)?, lane, next })
    })?
    .collect()
}

/// Returns the channels on which messages wait for delivery, with the number of these messages.
pub fn waiting_channels(store: &Connection) -> rusqlite::Result<Vec<(ChannelName, i64)>> {
    let mut rows = store.prepare_cached(
        "SELECT channel, count(*) FROM outbox WHERE state = 'pending' GROUP BY channel",
    )?;
    rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Retries a chat's waiting messages at once, because somebody is there to read them.
pub fn retry_chat_now(
    store: &Connection,
    channel: &ChannelName,
    chat: &ChatId,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE outbox SET next = 0
             WHERE state = 'pending' AND channel = ? AND chat = ? AND head = 1",
        )?
        .execute(params![channel, chat])?;
    Ok(())
}
