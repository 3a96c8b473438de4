//! Queries about earlier messages at an address.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use super::origins::{address_params, read_address, read_origin};
use super::row::{InboundOutcome, RowId, read_waiting, readable};
use crate::people::persons::PersonAccount;
use crate::store::{LenientJson, Time};
use crate::types::message::{Address, ChannelName, ChatId, DedupKey, Inbound, MessageId, SenderId};
use crate::types::origin::Origin;
use crate::types::session::TurnId;

/// Maximum number of earlier messages that are searched at an address.
const LOOKED_BACK_MAX: usize = 200;

/// Maximum number of addresses whose missed messages are fetched.
const CAUGHT_UP_MAX: usize = 100;

/// Maximum number of keys of refused messages that are kept. The backlog of one address is no longer.
const TURNED_AWAY_MAX: i64 = 1000;

/// Stores for a while that a message was refused, without its content.
pub fn note_turned_away(store: &Connection, key: &DedupKey) -> rusqlite::Result<()> {
    store.prepare_cached("INSERT OR IGNORE INTO turned_away (key) VALUES (?)")?.execute([key])?;
    let newest = store.last_insert_rowid();
    store
        .prepare_cached("DELETE FROM turned_away WHERE id <= ?")?
        .execute([newest - TURNED_AWAY_MAX])?;
    Ok(())
}

pub fn was_turned_away(store: &Connection, key: &DedupKey) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM turned_away WHERE key = ?")?.exists([key])
}

/// Returns true if the bot was ever addressed at this address.
pub fn was_addressed(store: &Connection, at: &Address) -> rusqlite::Result<bool> {
    store
        .prepare_cached("SELECT 1 FROM inbound WHERE channel = ? AND chat = ? AND thread IS ?")?
        .exists(address_params(at))
}

/// Returns true if a message of a person came from a chat as a group.
pub fn has_group_message(store: &Connection, at: &Address) -> rusqlite::Result<bool> {
    // The sender of a task is in brackets.
    store
        .prepare_cached(
            "SELECT 1 FROM inbound WHERE channel = ? AND chat = ? AND substr(sender, 1, 1) <> '('
             AND iif(json_valid(message), ifnull(json_extract(message, '$.chat_kind'),
                 json_extract(message, '$.place')), NULL) = 'group'",
        )?
        .exists(params![at.channel, at.chat])
}

/// Returns the row and the address of an account's last private message.
pub fn last_private_of(
    store: &Connection,
    account: &PersonAccount,
) -> rusqlite::Result<Option<(RowId, Address)>> {
    store
        .prepare_cached(
            "SELECT channel, chat, thread, id FROM inbound
             WHERE channel = ? AND sender = ? AND iif(json_valid(message),
                 ifnull(json_extract(message, '$.chat_kind'), json_extract(message, '$.place')), NULL)
                 = 'private'
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![account.channel, account.sender], |row| {
            Ok((row.get(3)?, read_address(row)?))
        })
        .optional()
}

/// Returns the newest message of each address of a channel since a time, newest first. The number of
/// addresses is bounded, and so is the number of chats, each of which may have many threads.
pub fn last_heard(
    store: &Connection,
    channel: &ChannelName,
    since: DateTime<Utc>,
) -> rusqlite::Result<Vec<(Address, MessageId)>> {
    let mut rows = store.prepare_cached(
        "SELECT channel, chat, thread, iif(json_valid(message), json_extract(message, '$.id'), NULL) FROM inbound
         WHERE id IN (SELECT max(id) FROM inbound WHERE channel = ?
                      AND iif(json_valid(message), json_extract(message, '$.id'), NULL) IS NOT NULL
                      GROUP BY chat, thread)
         AND received > ? ORDER BY id DESC",
    )?;
    let mut rows = rows.query(params![channel, Time(since)])?;
    let (mut newest, mut chats) = (Vec::new(), HashSet::new());
    while let Some(row) = rows.next()? {
        let address = read_address(row)?;
        let is_new_chat = chats.len() < CAUGHT_UP_MAX && chats.insert(address.chat.clone());
        if is_new_chat || newest.len() < CAUGHT_UP_MAX {
            newest.push((address, row.get(3)?));
        }
    }
    Ok(newest)
}

/// Returns the row of the last accepted message. 0 if there is none.
pub fn last_row(store: &Connection) -> rusqlite::Result<RowId> {
    store.prepare_cached("SELECT ifnull(max(id), 0) FROM inbound")?.query_row([], |row| row.get(0))
}

/// Returns the origin of a row. None if the row was deleted.
pub fn origin_of(store: &Connection, row: RowId) -> rusqlite::Result<Option<Origin>> {
    store
        .prepare_cached("SELECT channel, chat, thread FROM inbound WHERE id = ?")?
        .query_row([row], read_origin)
        .optional()
}

/// Returns true if a row is a message of an account, or the assignment of its subagent. False if the row was deleted.
pub fn is_by(store: &Connection, row: RowId, account: &PersonAccount) -> rusqlite::Result<bool> {
    let author = store
        .prepare_cached("SELECT channel, chat, thread, sender FROM inbound WHERE id = ?")?
        .query_row([row], |row| Ok((read_origin(row)?, row.get::<_, SenderId>(3)?)))
        .optional()?;
    Ok(author.is_some_and(|(origin, sender)| {
        (origin.channel(), &sender) == (&account.channel, &account.sender)
    }))
}

/// Returns the outcome of a message. None if it has none yet, or was deleted.
pub fn outcome_of(store: &Connection, row: RowId) -> rusqlite::Result<Option<InboundOutcome>> {
    let outcome = store
        .prepare_cached("SELECT outcome FROM inbound WHERE id = ? AND state = 'done'")?
        .query_row([row], |row| row.get::<_, Option<InboundOutcome>>(0))
        .optional()?;
    Ok(outcome.map(|outcome| outcome.unwrap_or(InboundOutcome::Stopped)))
}

/// The progress of an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageProgress {
    /// The turn that it is in or was in.
    pub turn: Option<TurnId>,
    /// None while it is open.
    pub outcome: Option<InboundOutcome>,
}

/// Returns the progress of a message. None if it is unknown or was deleted.
pub fn progress_of(
    store: &Connection,
    key: &DedupKey,
) -> rusqlite::Result<Option<MessageProgress>> {
    store
        .prepare_cached("SELECT turn, outcome, state FROM inbound WHERE key = ?")?
        .query_row([key], |row| {
            let outcome: Option<InboundOutcome> = row.get(1)?;
            let is_done = row.get::<_, String>(2)? == "done";
            let outcome = is_done.then(|| outcome.unwrap_or(InboundOutcome::Stopped));
            Ok(MessageProgress { turn: row.get(0)?, outcome })
        })
        .optional()
}

/// Returns true if the newest message at an address was refused.
pub fn refused_last(store: &Connection, at: &Address) -> rusqlite::Result<bool> {
    let outcome = store
        .prepare_cached(
            "SELECT outcome FROM inbound WHERE channel = ? AND chat = ? AND thread IS ?
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row(address_params(at), |row| row.get::<_, Option<InboundOutcome>>(0))
        .optional()?;
    Ok(outcome.flatten() == Some(InboundOutcome::Refused))
}

/// Returns the number of files that an account has sent since a time, in messages that were not refused.
pub fn count_files(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
    since: DateTime<Utc>,
) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "SELECT ifnull(sum(iif(json_valid(message), json_array_length(message, '$.body.media'), 0)), 0) FROM inbound
             WHERE channel = ? AND sender = ? AND received >= ? AND ifnull(outcome, '') <> ?
             AND iif(json_valid(message), json_array_length(message, '$.body.media'), 0) > 0",
        )?
        .query_row(params![channel, sender, Time(since), InboundOutcome::Refused], |row| row.get(0))
}

/// Returns the number of consecutive newest messages at an address, at most `max`, that came from bots since a time.
pub fn bots_in_a_row(
    store: &Connection,
    at: &Address,
    since: DateTime<Utc>,
    max: usize,
) -> rusqlite::Result<usize> {
    let (channel, chat, thread) = address_params(at);
    let mut rows = store.prepare_cached(
        "SELECT ifnull(iif(json_valid(message), json_extract(message, '$.cause.person.bot'), NULL), 0) AND received > ?
         FROM inbound WHERE channel = ? AND chat = ? AND thread IS ? ORDER BY id DESC LIMIT ?",
    )?;
    let (since, max) = (Time(since), i64::try_from(max).unwrap_or(i64::MAX));
    let bots =
        rows.query_map(params![since, channel, chat, thread, max], |row| row.get::<_, bool>(0))?;
    let bots = bots.collect::<Result<Vec<_>, _>>()?;
    Ok(bots.into_iter().take_while(|is_bot| *is_bot).count())
}

/// Returns the paths of files that recently arrived at an address.
pub fn files_at(store: &Connection, at: &Address) -> rusqlite::Result<Vec<String>> {
    let (channel, chat, thread) = address_params(at);
    let mut rows = store.prepare_cached(
        "SELECT id, received, message, revision, channel, chat, thread FROM inbound INDEXED BY inbound_media
         WHERE channel = ? AND chat = ? AND thread IS ?
         AND iif(json_valid(message), json_array_length(message, '$.body.media'), 0) > 0 ORDER BY id DESC LIMIT ?",
    )?;
    let limit = i64::try_from(LOOKED_BACK_MAX).expect("a small number");
    let rows = rows.query_map(params![channel, chat, thread, limit], read_waiting)?;
    let files = readable(rows)?.into_iter().flat_map(|row| row.inbound.body.media);
    Ok(files.filter_map(|file| Some(file.fetched?.path()?.to_owned())).collect())
}

/// Returns the containers of a chat, such as its server, as the newest message at an address has them.
pub fn containers_of(store: &Connection, at: &Address) -> rusqlite::Result<Vec<ChatId>> {
    let (channel, chat, thread) = address_params(at);
    let containers = store
        .prepare_cached(
            "SELECT iif(json_valid(message), json_extract(message, '$.within'), NULL) FROM inbound
             WHERE channel = ? AND chat = ? AND thread IS ? ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![channel, chat, thread], |row| {
            row.get::<_, Option<LenientJson<Vec<ChatId>>>>(0)
        })
        .optional()?;
    Ok(containers.flatten().and_then(|containers| containers.0).unwrap_or_default())
}

/// Returns the message with which a running turn began. None if it cannot be read.
pub fn first_of_turn(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<Inbound>> {
    let message = store
        .prepare_cached(
            "SELECT message FROM inbound WHERE state = 'in turn' AND turn = ? ORDER BY id LIMIT 1",
        )?
        .query_row([turn], |row| row.get::<_, LenientJson<Inbound>>(0))
        .optional()?;
    Ok(message.and_then(|message| message.0))
}

/// Returns the newest message that a running turn answers, by its platform id.
pub fn question(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<MessageId>> {
    let id: Option<Option<MessageId>> = store
        .prepare_cached(
            "SELECT iif(json_valid(message), json_extract(message, '$.id'), NULL) FROM inbound
             WHERE state = 'in turn' AND turn = ? ORDER BY id DESC LIMIT 1",
        )?
        .query_row([turn], |row| row.get(0))
        .optional()?;
    Ok(id.flatten())
}

/// Returns the text of a recent message at an address, by its platform id.
pub fn text_of(
    store: &Connection,
    at: &Address,
    message: &MessageId,
) -> rusqlite::Result<Option<String>> {
    let (channel, chat, thread) = address_params(at);
    let limit = i64::try_from(LOOKED_BACK_MAX).expect("a small number");
    let text: Option<Option<String>> = store
        .prepare_cached(
            "SELECT iif(json_valid(message), json_extract(message, '$.body.text'), NULL) FROM
             (SELECT message FROM inbound WHERE channel = ? AND chat = ? AND thread IS ?
              ORDER BY id DESC LIMIT ?)
             WHERE iif(json_valid(message), json_extract(message, '$.id'), NULL) = ?",
        )?
        .query_row(params![channel, chat, thread, limit, message], |row| row.get(0))
        .optional()?;
    Ok(text.flatten())
}
