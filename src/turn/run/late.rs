//! Which messages were found too late to be answered. A clock that is ahead makes every message look late, and
//! must not silence the bot.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::Bus;
use crate::bus::journal::{Waiting, origin_params};
use crate::store::StoreError;

/// What is found so much later than it was said gets one line, not an answer.
const LATE_AFTER: Duration = Duration::hours(24);

/// What a platform has kept comes all at once; what comes later than this was said meanwhile.
const GAP_MIN: Duration = Duration::seconds(10);

/// How much longer one message is on its way than another.
const SAME_LAG: Duration = Duration::minutes(1);

/// When a message was said, by its platform's clock, and when it was found, by ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub at: DateTime<Utc>,
    pub received: DateTime<Utc>,
}

impl Times {
    fn lag(self) -> Duration {
        self.received - self.at
    }
}

/// Returns true if a message was found too late. Not so if one that was found well before it was late by
/// as much: then the messages come as they are said, and our clock is ahead.
pub fn is_late(message: Times, earlier: Option<Times>) -> bool {
    let is_as_late = |earlier: Times| {
        message.received - earlier.received >= GAP_MIN
            && (message.lag() - earlier.lag()).abs() <= SAME_LAG
    };
    message.lag() > LATE_AFTER && !earlier.is_some_and(is_as_late)
}

/// How long before another message one elsewhere was found that tells of our clock: what a platform has kept for
/// several conversations comes within that.
const ELSEWHERE_GAP_MIN: Duration = Duration::minutes(10);

/// Of the last messages, so many are looked at for one elsewhere.
const ELSEWHERE_LOOKED_AT: i64 = 200;

/// Returns true if all of these messages, which begin a turn, were found too late.
pub(super) async fn are_late(bus: &Bus, rows: &[Waiting]) -> Result<bool, StoreError> {
    let times = |row: &Waiting| Times { at: row.inbound.at, received: row.received };
    let Some(first) = rows.first().filter(|_| rows.iter().all(|row| is_late(times(row), None)))
    else {
        return Ok(false);
    };
    let (first, at) = (first.clone(), times(first));
    // The clocks differ by as much.
    if bus.clock_lag.get().is_some_and(|lag| (at.lag() - lag).abs() <= SAME_LAG) {
        return Ok(false);
    }
    let look = move |store: &_| Ok([before(store, &first)?, elsewhere_before(store, &first)?]);
    let earlier = bus.store.read(look).await?;
    Ok(earlier.into_iter().all(|earlier| is_late(at, earlier)))
}

/// The times of the newest message of any conversation on a platform that was found well before another one.
fn elsewhere_before(store: &Connection, message: &Waiting) -> rusqlite::Result<Option<Times>> {
    let until = (message.received - ELSEWHERE_GAP_MIN).timestamp_millis();
    store
        .prepare_cached(
            "SELECT received, json_extract(message, '$.at') FROM
             (SELECT id, received, message FROM inbound WHERE id < ? ORDER BY id DESC LIMIT ?)
             WHERE received <= ? AND json_extract(message, '$.id') IS NOT NULL
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![message.id.0, ELSEWHERE_LOOKED_AT, until], read_times)
        .optional()
        .map(Option::flatten)
}

fn read_times(row: &Row<'_>) -> rusqlite::Result<Option<Times>> {
    let (received, at): (i64, Option<String>) = (row.get(0)?, row.get(1)?);
    let at = at.and_then(|at| Some(DateTime::parse_from_rfc3339(&at).ok()?.to_utc()));
    let received = DateTime::from_timestamp_millis(received);
    Ok(at.zip(received).map(|(at, received)| Times { at, received }))
}

/// The times of the newest message there that was found well before another one.
fn before(store: &Connection, message: &Waiting) -> rusqlite::Result<Option<Times>> {
    let (channel, chat, thread) = origin_params(&message.origin);
    let until = (message.received - GAP_MIN).timestamp_millis();
    store
        .prepare_cached(
            "SELECT received, json_extract(message, '$.at') FROM inbound
             WHERE channel = ? AND chat = ? AND thread IS ? AND id < ? AND received <= ?
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![channel, chat, thread, message.id.0, until], read_times)
        .optional()
        .map(Option::flatten)
}
