//! The outbox: outgoing messages. Each is cut into chunks once, and each chunk is `pending`, `sending`,
//! `sent` or `dead`. Not here: the reaction to failures (`channels::deliver`).

mod failing;
mod lanes;

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::journal::{address_params, read_address};
use crate::replies;
use crate::store::{Json, LenientJson, Time, slice};
use crate::types::message::{
    Address, Body, ChannelName, DeliveryId, MessageId, Outbound, Press, Question,
};

pub use failing::{
    DeliveryFailure, DeliveryLoss, FailingDeliveries, Failures, failing_deliveries, mark_dead,
    note_question, record_failure, restart_pauses, retry_after_outage, retry_failing_now,
};
pub use lanes::{Lane, LaneHead, next_of_each_chat, retry_chat_now, waiting_channels};

/// A message and its progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub message: Outbound,
    pub created: DateTime<Utc>,
    pub attempts: u32,
    /// The failures so far. None if the last attempt did not fail.
    pub failures: Option<Failures>,
    /// The chunks that were not sent yet, in order. Empty until the message is cut.
    pub chunks: Vec<Chunk>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub seq: u32,
    /// In the platform's markup.
    pub body: Body,
    /// Start of the send whose result is still unknown.
    pub sending_since: Option<DateTime<Utc>>,
    /// Number of sends whose result will stay unknown.
    pub ambiguous_sends: u32,
}

/// Queues a text for an address.
pub fn put(
    store: &Connection,
    to: &Address,
    reply_to: Option<&MessageId>,
    text: &str,
) -> rusqlite::Result<DeliveryId> {
    put_replacement(store, to, reply_to, None, text)
}

/// Queues a text that replaces a draft, if there is one.
pub fn put_replacement(
    store: &Connection,
    to: &Address,
    reply_to: Option<&MessageId>,
    draft: Option<&MessageId>,
    text: &str,
) -> rusqlite::Result<DeliveryId> {
    insert(store, to, Queued { reply_to, draft, ..Queued::default() }, &text_body(text))
}

/// Queues the answer to a command.
pub fn put_urgent(
    store: &Connection,
    to: &Address,
    reply_to: Option<&MessageId>,
    text: &str,
) -> rusqlite::Result<DeliveryId> {
    let urgent = Queued { reply_to, urgent: true, ..Queued::default() };
    insert(store, to, urgent, &text_body(text))
}

/// Queues a question or a file.
pub fn put_body(store: &Connection, to: &Address, body: &Body) -> rusqlite::Result<DeliveryId> {
    insert(store, to, Queued::default(), body)
}

/// Queues a notice about lost deliveries. A lost notice causes no further notice.
fn put_notice(store: &Connection, to: &Address, text: &str) -> rusqlite::Result<()> {
    insert(store, to, Queued { notice: true, ..Queued::default() }, &text_body(text)).map(drop)
}

fn text_body(text: &str) -> Body {
    Body::Text(text.to_owned())
}

/// Options of a queued message, besides its address and its content.
#[derive(Clone, Copy, Default)]
struct Queued<'a> {
    reply_to: Option<&'a MessageId>,
    draft: Option<&'a MessageId>,
    urgent: bool,
    notice: bool,
}

fn insert(
    store: &Connection,
    to: &Address,
    options: Queued<'_>,
    body: &Body,
) -> rusqlite::Result<DeliveryId> {
    let (channel, chat, thread) = address_params(to);
    store
        .prepare_cached(
            "INSERT INTO outbox (channel, chat, thread, reply_to, replaces, body, created, state, next,
                                 urgent, notice)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'pending', ?7, ?8, ?9)",
        )?
        .execute(params![
            channel,
            chat,
            thread,
            options.reply_to,
            options.draft,
            Json(body),
            Time::now(),
            options.urgent,
            options.notice
        ])?;
    Ok(DeliveryId(store.last_insert_rowid()))
}

/// State of a question's buttons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressed {
    NotYet,
    Before,
}

/// A question that was put to people.
pub struct AskedQuestion {
    pub to: Address,
    pub question: Question,
    pub pressed: Pressed,
}

/// Returns a question. None if the delivery is no question, or no longer exists.
pub fn question(store: &Connection, id: DeliveryId) -> rusqlite::Result<Option<AskedQuestion>> {
    let found = store
        .prepare_cached("SELECT channel, chat, thread, body, pressed FROM outbox WHERE id = ?")?
        .query_row([id], |row| {
            let LenientJson(body) = row.get(3)?;
            let pressed =
                row.get::<_, Option<i64>>(4)?.map_or(Pressed::NotYet, |_| Pressed::Before);
            Ok((read_address(row)?, body, pressed))
        })
        .optional()?;
    Ok(found.and_then(|(to, body, pressed)| match body {
        Some(Body::Choice(question)) => Some(AskedQuestion { to, question, pressed }),
        _ => None,
    }))
}

/// Decides a question. A pressed button proves that it arrived, so it is not sent again.
pub fn record_press(store: &Connection, press: Press) -> rusqlite::Result<()> {
    let choice = i64::try_from(press.choice).unwrap_or(i64::MAX);
    store
        .prepare_cached("UPDATE outbox SET pressed = ?, state = 'sent' WHERE id = ?")?
        .execute(params![choice, press.delivery])?;
    store
        .prepare_cached("UPDATE chunks SET state = 'sent' WHERE delivery = ?")?
        .execute([press.delivery])?;
    Ok(())
}

/// Removes a question's buttons, unless one was pressed. `result` describes the result. A question that was
/// not sent yet is not sent any more.
pub fn close_question(store: &Connection, id: DeliveryId, result: &str) -> rusqlite::Result<()> {
    /// The stored value for no button.
    const NO_BUTTON: i64 = -1;
    let asked = question(store, id)?.filter(|asked| asked.pressed == Pressed::NotYet);
    let Some(AskedQuestion { to, question: asked, .. }) = asked else { return Ok(()) };
    store
        .prepare_cached("UPDATE outbox SET pressed = ? WHERE id = ?")?
        .execute(params![NO_BUTTON, id])?;
    match platform_id(store, id)? {
        Some(shown) => {
            let closed = replies::closed(&asked.end(), result);
            put_replacement(store, &to, None, Some(&shown), &closed)?;
        }
        None => {
            store
                .prepare_cached(
                    "UPDATE outbox SET state = 'sent' WHERE id = ?1 AND state = 'pending' AND NOT EXISTS
                     (SELECT 1 FROM chunks WHERE delivery = ?1 AND state <> 'pending')",
                )?
                .execute([id])?;
        }
    }
    Ok(())
}

/// Returns the platform's id of the last part of a message that was sent.
pub fn platform_id(store: &Connection, id: DeliveryId) -> rusqlite::Result<Option<MessageId>> {
    let shown = store
        .prepare_cached(
            "SELECT platform_id FROM chunks WHERE delivery = ? AND state = 'sent' ORDER BY seq DESC LIMIT 1",
        )?
        .query_row([id], |row| row.get::<_, Option<MessageId>>(0))
        .optional()?;
    Ok(shown.flatten())
}

/// Returns the number of messages that wait for delivery on a channel.
pub fn count_pending(store: &Connection, channel: &ChannelName) -> rusqlite::Result<i64> {
    store
        .prepare_cached("SELECT count(*) FROM outbox WHERE state = 'pending' AND channel = ?")?
        .query_row([channel], |row| row.get(0))
}

/// Returns the state of a message, `pending`, `sent` or `dead`, and the reason.
pub fn state(store: &Connection, id: DeliveryId) -> rusqlite::Result<(String, Option<String>)> {
    store
        .prepare_cached("SELECT state, reason FROM outbox WHERE id = ?")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns true if text replaced a file that could not be sent.
pub fn has_lost_file(store: &Connection, id: DeliveryId) -> rusqlite::Result<bool> {
    store
        .prepare_cached(
            "SELECT 1 FROM outbox WHERE id = ?1 AND iif(json_valid(body), json_type(body, '$.file'), NULL) IS NOT NULL
             AND EXISTS (SELECT 1 FROM chunks WHERE delivery = ?1)
             AND NOT EXISTS (SELECT 1 FROM chunks WHERE delivery = ?1
                             AND iif(json_valid(body), json_type(body, '$.file'), NULL) IS NOT NULL)",
        )?
        .exists([id])
}

/// Returns true if a message to a chat is pending.
pub fn is_pending(store: &Connection, to: &Address) -> rusqlite::Result<bool> {
    store
        .prepare_cached(
            "SELECT 1 FROM outbox WHERE state = 'pending' AND channel = ? AND chat = ?",
        )?
        .exists(params![to.channel, to.chat])
}

/// Returns a pending delivery. None if it was settled meanwhile.
pub fn load(store: &Connection, id: DeliveryId) -> rusqlite::Result<Option<Delivery>> {
    let loaded = store
        .prepare_cached(
            "SELECT channel, chat, thread, reply_to, replaces, body, created, attempts,
             CASE WHEN EXISTS (SELECT 1 FROM chunks WHERE delivery = outbox.id) THEN overtakes
             ELSE EXISTS (SELECT 1 FROM outbox older WHERE older.state = 'pending' AND older.id < outbox.id
                 AND older.channel = outbox.channel AND older.chat = outbox.chat
                 AND older.urgent = outbox.urgent AND older.lets_others_pass = 1) END,
             answers, failing_since, failed_at, others_arrived, others_since FROM outbox WHERE id = ? AND state = 'pending'",
        )?
        .query_row([id], |row| {
            let reply_to: Option<MessageId> = row.get(3)?;
            let overtakes = row.get(8)?;
            let question = if overtakes { row.get(9)? } else { None };
            let message = Outbound {
                id,
                chunk_index: 0,
                to: read_address(row)?,
                reply_to: reply_to.or(question),
                overtakes,
                replaces: row.get(4)?,
                body: read_body(row.get(5)?),
            };
            let created = row.get::<_, Time>(6)?.0;
            let (attempts, failures) = (row.get(7)?, read_failures(row)?);
            Ok(Delivery { message, created, attempts, failures, chunks: Vec::new() })
        })
        .optional()?;
    let Some(mut delivery) = loaded else { return Ok(None) };
    let mut rows = store.prepare_cached(
        "SELECT seq, body, state, since, ambiguous_sends FROM chunks
         WHERE delivery = ? AND state IN ('pending', 'sending') ORDER BY seq",
    )?;
    let chunks = rows.query_map([id], |row| {
        let is_sending = row.get_ref(2)?.as_str()? == "sending";
        let since: Option<Time> = row.get(3)?;
        Ok(Chunk {
            seq: row.get(0)?,
            body: read_body(row.get(1)?),
            sending_since: since.filter(|_| is_sending).map(|since| since.0),
            ambiguous_sends: row.get(4)?,
        })
    })?;
    delivery.chunks = chunks.collect::<Result<_, _>>()?;
    Ok(Some(delivery))
}

fn read_failures(row: &Row<'_>) -> rusqlite::Result<Option<Failures>> {
    let time =
        |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<Time>>(column)?.map(|at| at.0));
    let (since, last) = (time(10)?, time(11)?);
    let (others_arrived, others_since) = (row.get(12)?, time(13)?);
    let failures = |(since, last)| Failures { since, last, others_arrived, others_since };
    Ok(since.zip(last).map(failures))
}

fn read_body(stored: String) -> Body {
    serde_json::from_str(&stored).unwrap_or(Body::Text(stored))
}

/// Stores the chunks of a message before the first is sent, and notes if it overtakes an older message. A
/// second call does not change the chunks.
pub fn store_chunks(
    store: &Connection,
    id: DeliveryId,
    chunks: &[Chunk],
    overtakes: bool,
) -> rusqlite::Result<()> {
    add_chunks(store, id, chunks)?;
    if overtakes {
        store.prepare_cached("UPDATE outbox SET overtakes = 1 WHERE id = ?")?.execute([id])?;
    }
    Ok(())
}

fn add_chunks(store: &Connection, id: DeliveryId, chunks: &[Chunk]) -> rusqlite::Result<()> {
    let mut insert = store.prepare_cached(
        "INSERT OR IGNORE INTO chunks (delivery, seq, body, state) VALUES (?, ?, ?, 'pending')",
    )?;
    for chunk in chunks {
        insert.execute(params![id, chunk.seq, Json(&chunk.body)])?;
    }
    Ok(())
}

/// Marks a chunk as being sent. `ambiguity` means that an earlier send may have arrived; its time stays.
pub fn mark_sending(
    store: &Connection,
    id: DeliveryId,
    seq: u32,
    ambiguity: bool,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE chunks SET since = CASE state WHEN 'sending' THEN since ELSE ? END,
             state = 'sending', ambiguous_sends = ambiguous_sends + ?
             WHERE delivery = ? AND seq = ? AND state IN ('pending', 'sending')",
        )?
        .execute(params![Time::now(), ambiguity, id, seq])?;
    Ok(())
}

/// Removes the link to a draft that the message would replace.
pub fn forget_draft(store: &Connection, id: DeliveryId) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE outbox SET replaces = NULL WHERE id = ?")?.execute([id])?;
    Ok(())
}

/// Restores the state of a chunk from before its last send, which certainly did not arrive.
pub fn mark_not_sent(store: &Connection, id: DeliveryId, before: &Chunk) -> rusqlite::Result<()> {
    let since = before.sending_since.map(Time);
    store
        .prepare_cached(
            "UPDATE chunks SET state = iif(?1 IS NULL, 'pending', 'sending'), since = ?1,
             ambiguous_sends = ?2 WHERE delivery = ?3 AND seq = ?4",
        )?
        .execute(params![since, before.ambiguous_sends, id, before.seq])?;
    Ok(())
}

/// Replaces a chunk by others, which are sent at once.
pub fn replace(
    store: &Connection,
    id: DeliveryId,
    seq: u32,
    bodies: &[Body],
) -> rusqlite::Result<()> {
    let Some(delivery) = load(store, id)? else { return Ok(()) };
    let later = delivery.chunks.into_iter().filter(|chunk| chunk.seq > seq).map(|chunk| chunk.body);
    let bodies: Vec<_> = bodies.iter().cloned().chain(later).collect();
    store
        .prepare_cached("DELETE FROM chunks WHERE delivery = ? AND seq >= ?")?
        .execute(params![id, seq])?;
    let to_chunk = |(seq, body)| Chunk { seq, body, sending_since: None, ambiguous_sends: 0 };
    let chunks: Vec<_> = (seq..).zip(bodies).map(to_chunk).collect();
    add_chunks(store, id, &chunks)?;
    retry_at_once(store, id, "without a file")
}

/// Retries a delivery at once, in another way.
pub fn retry_at_once(store: &Connection, id: DeliveryId, reason: &str) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE outbox SET attempts = 0, next = ?, reason = ?, failing_since = NULL, failed_at = NULL,
             others_arrived = 0, others_since = NULL WHERE id = ?",
        )?
        .execute(params![Time::now(), reason, id])?;
    Ok(())
}

/// Moves the waiting deliveries earlier by the amount that the clock was set back.
pub fn move_earlier(
    store: &Connection,
    channel: &ChannelName,
    by: Duration,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE outbox SET next = next - ? WHERE state = 'pending' AND channel = ?",
        )?
        .execute(params![by.num_milliseconds(), channel])?;
    Ok(())
}

/// Marks a chunk as sent. With the last one, the delivery is done.
pub fn mark_sent(
    store: &Connection,
    id: DeliveryId,
    seq: u32,
    platform_id: Option<&MessageId>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE chunks SET state = 'sent', platform_id = ? WHERE delivery = ? AND seq = ?",
        )?
        .execute(params![platform_id, id, seq])?;
    store
        .prepare_cached(
            "UPDATE outbox SET attempts = 0, reason = NULL, failing_since = NULL, failed_at = NULL,
             others_arrived = 0, others_since = NULL WHERE id = ?",
        )?
        .execute([id])?;
    store
        .prepare_cached(
            "UPDATE outbox SET state = 'sent' WHERE id = ?1
             AND NOT EXISTS (SELECT 1 FROM chunks WHERE delivery = ?1 AND state <> 'sent')",
        )?
        .execute([id])?;
    failing::queue_explanation(store, id)
}

/// Deletes a slice of the messages that were sent or given up, and created before a time. Returns their
/// number.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    let mut old = store.prepare_cached(
        "SELECT id FROM outbox WHERE state <> 'pending' AND created < ? ORDER BY created LIMIT ?",
    )?;
    let old = old
        .query_map(params![Time(before), slice()], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<DeliveryId>>>()?;
    for id in &old {
        store.prepare_cached("DELETE FROM chunks WHERE delivery = ?")?.execute([id])?;
        store.prepare_cached("DELETE FROM outbox WHERE id = ?")?.execute([id])?;
    }
    Ok(old.len())
}
