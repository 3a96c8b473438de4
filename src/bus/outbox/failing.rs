//! Failing deliveries: the time since which they fail, later ones that overtake them, and the explanation
//! of those that are given up. Not here: pauses and time limits (`channels::deliver`).

use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::put_notice;
use crate::bus::journal::read_address;
use crate::people;
use crate::replies;
use crate::store::Time;
use crate::types::message::{Address, ChannelName, DeliveryId, MessageId, Outbound};

/// A delivery's failures since a chunk of it last arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    pub since: DateTime<Utc>,
    pub last: DateTime<Utc>,
    /// Number of pairs of failures between which other deliveries of the channel arrived.
    pub others_arrived: u32,
    /// Time since which it fails while others arrive.
    pub others_since: Option<DateTime<Utc>>,
}

/// A failed attempt, and its consequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryFailure {
    pub at: DateTime<Utc>,
    /// Time of the next attempt.
    pub next: DateTime<Utc>,
    pub reason: String,
    /// True if other deliveries of the channel arrived since the previous failure.
    pub others_arrived: bool,
    /// True if later deliveries of the lane no longer wait for it.
    pub lets_others_pass: bool,
}

/// Records a failed attempt. Does not change the chunk.
pub fn record_failure(
    store: &Connection,
    id: DeliveryId,
    failure: &DeliveryFailure,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE outbox SET attempts = attempts + 1, next = ?2, reason = ?3, failed_at = ?4,
             failing_since = ifnull(failing_since, ?4), others_arrived = others_arrived + ?5,
             others_since = CASE WHEN ?5 THEN ifnull(others_since, ?4) ELSE others_since END
             WHERE id = ?1",
        )?
        .execute(params![
            id,
            Time(failure.next),
            failure.reason,
            Time(failure.at),
            failure.others_arrived
        ])?;
    if failure.lets_others_pass {
        store
            .prepare_cached(
                "UPDATE outbox SET lets_others_pass = 1
                 WHERE id = ? AND state = 'pending' AND lets_others_pass = 0",
            )?
            .execute([id])?;
    }
    Ok(())
}

/// A channel's failing deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingDeliveries {
    pub count: i64,
    /// Start of the longest failure, and the last reason of its delivery.
    pub since: Option<DateTime<Utc>>,
    pub reason: Option<String>,
}

pub fn failing_deliveries(
    store: &Connection,
    channel: &ChannelName,
) -> rusqlite::Result<FailingDeliveries> {
    let count = store
        .prepare_cached(
            "SELECT count(*) FROM outbox
             WHERE state = 'pending' AND channel = ? AND failing_since IS NOT NULL",
        )?
        .query_row([channel], |row| row.get(0))?;
    let oldest = store
        .prepare_cached(
            "SELECT failing_since, reason FROM outbox
             WHERE state = 'pending' AND channel = ? AND failing_since IS NOT NULL
             ORDER BY failing_since LIMIT 1",
        )?
        .query_row([channel], |row| Ok((row.get::<_, Time>(0)?.0, row.get(1)?)))
        .optional()?;
    let (since, reason) = oldest.unzip();
    Ok(FailingDeliveries { count, since, reason: reason.flatten() })
}

/// Retries a channel's failing deliveries at once, because its platform works again. Skips those that
/// failed while others arrived: they had another reason.
pub fn retry_failing_now(store: &Connection, channel: &ChannelName) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE outbox SET next = 0
             WHERE state = 'pending' AND channel = ? AND failing_since IS NOT NULL
             AND others_arrived = 0",
        )?
        .execute([channel])?;
    Ok(())
}

/// Retries a channel's failing deliveries at once, because its link is up again. A pause longer than
/// `own_max` stays: the platform demanded it. An ambiguous send still waits for the `least` pause, once.
pub fn retry_after_outage(
    store: &Connection,
    channel: &ChannelName,
    least: Duration,
    own_max: Duration,
) -> rusqlite::Result<()> {
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let (least, own_max) = (millis(least), millis(own_max));
    store
        .prepare_cached(
            "UPDATE outbox SET next = 0
             WHERE state = 'pending' AND channel = ?1 AND failing_since IS NOT NULL
             AND next - failed_at <= ?2
             AND NOT EXISTS (SELECT 1 FROM chunks WHERE delivery = outbox.id AND state = 'sending')",
        )?
        .execute(params![channel, own_max])?;
    store
        .prepare_cached(
            "UPDATE outbox SET next = min(next, failed_at + ?2)
             WHERE state = 'pending' AND channel = ?1 AND failing_since IS NOT NULL
             AND EXISTS (SELECT 1 FROM chunks
                         WHERE delivery = outbox.id AND state = 'sending' AND ambiguous_sends = 0)",
        )?
        .execute(params![channel, least])?;
    Ok(())
}

/// Restarts pauses that began after `now`, because the clock was set back since then.
pub fn restart_pauses(
    store: &Connection,
    channel: &ChannelName,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE outbox SET next = ?1 + max(0, next - ifnull(failed_at, created))
             WHERE state = 'pending' AND channel = ?2 AND next > ?1 AND ifnull(failed_at, created) > ?1",
        )?
        .execute(params![Time(now), channel])?;
    Ok(())
}

/// Stores the message that a delivery answers. The delivery replies to it if it overtakes an older one.
pub fn note_question(
    store: &Connection,
    id: DeliveryId,
    question: Option<&MessageId>,
) -> rusqlite::Result<()> {
    let Some(question) = question else { return Ok(()) };
    store
        .prepare_cached("UPDATE outbox SET answers = ? WHERE id = ?")?
        .execute(params![question, id])?;
    Ok(())
}

/// Reason for which a delivery ends without having arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryLoss {
    /// The platform refuses it permanently.
    Refused,
    /// The time limit has passed.
    GivenUp,
}

/// Ends a lost delivery and its remaining chunks. The owner gets a notice at once, in the same chat if it
/// is theirs. If the delivery was given up, its chat gets an explanation after the next one that arrives.
pub fn mark_dead(
    store: &Connection,
    message: &Outbound,
    loss: DeliveryLoss,
    reason: &str,
) -> rusqlite::Result<()> {
    store.execute(
        "UPDATE chunks SET state = 'dead' WHERE delivery = ? AND state <> 'sent'",
        [message.id],
    )?;
    let given_up = loss == DeliveryLoss::GivenUp;
    let is_notice = store
        .prepare_cached(
            "UPDATE outbox SET state = 'dead', reason = ?1, unexplained = (?2 AND notice = 0)
             WHERE id = ?3 AND state = 'pending' RETURNING notice",
        )?
        .query_row(params![reason, given_up, message.id], |row| row.get::<_, bool>(0))
        .optional()?;
    let owner = people::owner_address(store)?;
    if let (Some(false), Some(owner)) = (is_notice, owner) {
        let is_owners_chat =
            (&owner.channel, &owner.chat) == (&message.to.channel, &message.to.chat);
        match (is_owners_chat, given_up) {
            (false, _) => put_notice(store, &owner, &replies::undeliverable(&message.to, reason))?,
            (true, false) => {
                put_notice(store, &message.to, &replies::undeliverable_here(reason))?;
            }
            // No message arrives in that chat at the moment.
            (true, true) => {}
        }
    }
    Ok(())
}

/// Queues an explanation for the deliveries that were given up in a chat, after one has arrived there.
pub(super) fn queue_explanation(store: &Connection, arrived: DeliveryId) -> rusqlite::Result<()> {
    let mut lost = store.prepare_cached(
        "SELECT lost.channel, lost.chat, lost.thread, count(*), max(lost.reason)
         FROM outbox arrived JOIN outbox lost ON lost.unexplained = 1
             AND lost.channel = arrived.channel AND lost.chat = arrived.chat
         WHERE arrived.id = ? AND arrived.state = 'sent'
         GROUP BY lost.thread",
    )?;
    let lost = lost.query_map([arrived], |row| {
        Ok((read_address(row)?, row.get::<_, i64>(3)?, row.get::<_, Option<String>>(4)?))
    })?;
    let lost: Vec<(Address, i64, Option<String>)> = lost.collect::<Result<_, _>>()?;
    for (to, count, reason) in lost {
        put_notice(store, &to, &replies::given_up_here(count, &reason.unwrap_or_default()))?;
        store
            .prepare_cached(
                "UPDATE outbox SET unexplained = 0 WHERE unexplained = 1 AND channel = ? AND chat = ?",
            )?
            .execute(params![to.channel, to.chat])?;
    }
    Ok(())
}
