//! Heartbeat runs in the store: each is a background task that waits as a row of the journal, so a crash neither loses nor
//! doubles it, and what it has to say goes out in the transaction of its end.

use std::collections::BTreeSet;

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bus::journal::{self, RowId, address_params, read_address, task_key};
use crate::bus::outbox;
use crate::conversation::sessions;
use crate::conversation::task_sessions::{self, Terms};
use crate::people;
use crate::replies;
use crate::store::{Json, Legible, Time, integer_columns, slice};
use crate::tasks::heartbeat::surroundings::{SAME_FOR, line, told_since};
use crate::tasks::heartbeat::watched::alert;
use crate::tasks::schedule::{FAILURES_MAX, FAILURES_TOLD};
use crate::tasks::{self, Assignment, DEPENDENTS, Ended};
use crate::types::message::{Address, Cause, ChannelName, Place, Sender, SenderId};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{SessionId, Settings, TurnId};
use crate::types::source::Parts;

/// Beats that came to their end.
pub(super) const WORKED: &str = "'told', 'silent', 'repeated'";

/// A beat, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeatId(pub i64);

integer_columns!(BeatId);

impl BeatId {
    pub fn task(self) -> TaskId {
        TaskId::new(TaskKind::Heartbeat, self.0)
    }
}

/// A beat that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    pub id: BeatId,
    /// Where what it has to say goes.
    pub to: Address,
    /// The channel on which its person is known.
    pub known_on: ChannelName,
    pub place: Place,
    /// Somebody asked for it, and is told also of nothing.
    pub asked: bool,
    /// When it began, by the heart's clock.
    pub begun: DateTime<Utc>,
    session: SessionId,
    /// Its task in the journal.
    row: Option<RowId>,
}

impl Beat {
    pub fn origin(&self) -> Origin {
        self.id.task().origin(&self.known_on)
    }
}

pub(super) struct New {
    pub(super) to: Address,
    pub(super) known_on: ChannelName,
    pub(super) sender: SenderId,
    pub(super) place: Place,
    pub(super) provider: Option<String>,
    pub(super) asked: bool,
}

/// Begins a beat with a task; false if another one works.
pub(super) fn begin(
    store: &Connection,
    new: New,
    text: &Parts,
    tainted: bool,
    now: DateTime<Utc>,
) -> rusqlite::Result<bool> {
    let New { to, known_on, sender, place, provider, asked } = new;
    let settings = Settings { model: provider, ..Settings::default() };
    let works = "SELECT 1 FROM beats WHERE state = 'running'";
    if store.prepare_cached(works)?.exists([])? {
        return Ok(false);
    }
    let terms = Terms { known_on, place, settings };
    let session = task_sessions::open(store, TaskKind::Heartbeat, &terms, &to)?;
    let (channel, chat, thread) = address_params(&to);
    store
        .prepare_cached(
            "INSERT INTO beats (channel, chat, thread, known_on, place, session, begun, asked, state)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running')",
        )?
        .execute(params![
            channel,
            chat,
            thread,
            terms.known_on,
            Json(place),
            session,
            Time(now),
            asked
        ])?;
    let id = BeatId(store.last_insert_rowid());
    let name = people::name_of(store, &terms.known_on, &sender)?;
    let cause = Cause::Heartbeat { tainted, sender: Sender::person(sender, name) };
    let task = id.task();
    let sources = text.spans().to_vec();
    let assignment = Assignment { text, sources, cause, key: task_key(task, None), to };
    let row = tasks::start(store, task, session, &terms, assignment)?;
    store.prepare_cached("UPDATE beats SET row = ? WHERE id = ?")?.execute(params![row, id])?;
    Ok(true)
}

const BEATS: &str = "SELECT channel, chat, thread, id, known_on, place, asked, begun, session, row
    FROM beats WHERE state = 'running'";

fn read(row: &Row<'_>) -> rusqlite::Result<Beat> {
    Ok(Beat {
        to: read_address(row)?,
        id: row.get(3)?,
        known_on: row.get(4)?,
        // Who cannot be sure keeps to themselves what is private.
        place: row.get::<_, Legible<_>>(5)?.0.unwrap_or(Place::Group),
        asked: row.get(6)?,
        begun: row.get::<_, Time>(7)?.0,
        session: row.get(8)?,
        row: row.get(9)?,
    })
}

/// A beat that works.
pub fn get(store: &Connection, id: BeatId) -> rusqlite::Result<Option<Beat>> {
    store.prepare_cached(&format!("{BEATS} AND id = ?"))?.query_row([id.0], read).optional()
}

/// The beat that works for an address.
pub fn running_for(store: &Connection, at: &Address) -> rusqlite::Result<Option<Beat>> {
    let beat = store.prepare_cached(BEATS)?.query_row([], read).optional()?;
    Ok(beat.filter(|beat| beat.to == *at))
}

/// Settles the beat whose row had its outcome without it: it was withdrawn with all that waited, say. So
/// does one whose channel is not here any more, and would be waited for in vain; should the channel come
/// back, its turn ends, and nobody hears of it.
pub(super) fn clear(store: &Connection, channels: &BTreeSet<ChannelName>) -> rusqlite::Result<()> {
    let Some(beat) = store.prepare_cached(BEATS)?.query_row([], read).optional()? else {
        return Ok(());
    };
    let is_done = match beat.row {
        Some(row) => journal::outcome_of(store, row)?.is_some(),
        None => false,
    };
    let is_stray = is_done && !sessions::has_unfinished(store, beat.session)?;
    if is_stray || !channels.contains(&beat.known_on) {
        settle(store, &beat, Ended::Stopped, None, false)?;
    }
    if is_stray {
        sessions::close(store, beat.origin())?;
    }
    Ok(())
}

/// Whoever asked for a look while one works is told what comes of that.
pub(super) fn ask(store: &Connection) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE beats SET asked = 1 WHERE state = 'running'")?
        .execute([])
        .map(drop)
}

/// What a beat has ended with.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    pub words: &'a str,
    /// Who said so has read what strangers wrote.
    pub tainted: bool,
}

/// Settles a beat in the transaction of its end, and says what there is to be said. In quiet hours that waits for their end, unless somebody asked for it.
/// True if that was an alert, which its conversation is to know of.
pub fn settle(
    store: &Connection,
    beat: &Beat,
    ended: Ended,
    said: Option<Report<'_>>,
    is_quiet: bool,
) -> rusqlite::Result<bool> {
    let (words, tainted) = (said.map(|said| said.words), said.is_some_and(|said| said.tainted));
    let alert = words.filter(|_| ended == Ended::Done).and_then(alert);
    let (state, kept) = match (ended, alert) {
        (Ended::Done, Some(words)) if !beat.asked && was_told(store, beat, &beat.to, words)? => {
            ("repeated", None)
        }
        (Ended::Done, Some(words)) => ("told", Some(words)),
        (Ended::Done, None) | (Ended::Silent, _) => ("silent", None),
        (Ended::Failed, _) => ("failed", words),
        (Ended::Stopped | Ended::Skipped, _) => ("stopped", None),
        (Ended::Interrupted, _) => ("interrupted", words),
    };
    let settled = store
        .prepare_cached(
            "UPDATE beats SET state = ?, words = ?, tainted = ? WHERE id = ? AND state = 'running'",
        )?
        .execute(params![state, kept, tainted, beat.id.0])?;
    if settled == 0 {
        return Ok(false);
    }
    match state {
        "told" if is_quiet && !beat.asked => {
            store.prepare_cached("UPDATE beats SET held = 1 WHERE id = ?")?.execute([beat.id.0])?;
            return Ok(true);
        }
        "told" => {
            outbox::put(store, &beat.to, None, kept.unwrap_or_default())?;
            return Ok(true);
        }
        "silent" if beat.asked => tell_owner(store, beat, replies::HEARTBEAT_SILENT)?,
        "failed" | "interrupted" => failed(store, beat, ended, kept.unwrap_or_default())?,
        _ => {}
    }
    Ok(false)
}

/// Tells what beats have held back for quiet hours, which are over.
pub(super) fn release(store: &Connection) -> rusqlite::Result<()> {
    let mut rows = store.prepare_cached(
        "SELECT channel, chat, thread, ifnull(words, '') FROM beats WHERE held = 1 ORDER BY id",
    )?;
    let held = rows.query_map([], |row| Ok((read_address(row)?, row.get::<_, String>(3)?)))?;
    for held in held.collect::<rusqlite::Result<Vec<_>>>()? {
        outbox::put(store, &held.0, None, &held.1)?;
    }
    store.execute("UPDATE beats SET held = 0 WHERE held = 1", []).map(drop)
}

/// Notes what a turn is about to send by a message, if it is a beat's; false if the same was told there before,
/// and is not to be sent.
pub fn may_send(
    store: &Connection,
    turn: TurnId,
    to: &Address,
    words: &str,
    tainted: bool,
) -> rusqlite::Result<bool> {
    let Some(beat) = store.prepare_cached(BEATS)?.query_row([], read).optional()? else {
        return Ok(true);
    };
    if sessions::id_of_turn(store, turn)? != Some(beat.session) {
        return Ok(true);
    }
    if !beat.asked && was_told(store, &beat, to, words)? {
        return Ok(false);
    }
    let (channel, chat, thread) = address_params(to);
    store
        .prepare_cached(
            "INSERT INTO beat_messages (beat, channel, chat, thread, words, tainted)
             VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![beat.id.0, channel, chat, thread, words, tainted])?;
    Ok(true)
}

fn failed(store: &Connection, beat: &Beat, ended: Ended, reason: &str) -> rusqlite::Result<()> {
    let State { failures, off, .. } = state(store, beat.begun)?;
    let words = match failures {
        _ if beat.asked => replies::heartbeat_failed(reason),
        FAILURES_MAX.. if off.is_none() => {
            switch(store, Some(reason))?;
            replies::heartbeat_off_itself(failures, reason)
        }
        _ if failures == FAILURES_TOLD || ended == Ended::Interrupted => {
            replies::heartbeat_fails(failures, reason)
        }
        _ => return Ok(()),
    };
    tell_owner(store, beat, &words)
}

/// What is not for others, wherever alerts go.
fn tell_owner(store: &Connection, beat: &Beat, words: &str) -> rusqlite::Result<()> {
    let owner = people::owner_place(store)?.unwrap_or_else(|| beat.to.clone());
    outbox::put(store, &owner, None, words).map(drop)
}

fn was_told(store: &Connection, beat: &Beat, at: &Address, words: &str) -> rusqlite::Result<bool> {
    let same = |told: &str| told.split_whitespace().eq(words.split_whitespace());
    let told = told_since(store, at, beat.begun - SAME_FOR, beat.begun)?;
    Ok(told.iter().any(|(told, _)| same(told)))
}

/// How the heartbeat stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Why it was switched off; empty if somebody wished that.
    pub(super) off: Option<String>,
    /// When the last beat began.
    pub(super) last: Option<DateTime<Utc>>,
    /// In a row.
    pub(super) failures: u32,
    /// True while alerts wait for the end of the quiet hours.
    pub(super) holds: bool,
}

/// Beats that began after `now` were made by a clock that was wrong, and do not count.
pub(super) fn state(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<State> {
    let now = now.timestamp_millis();
    let switch: Option<(Option<String>, i64)> = store
        .prepare_cached("SELECT off, after FROM heart")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (off, after) = switch.unwrap_or_default();
    let last: Option<i64> = store
        .prepare_cached("SELECT max(begun) FROM beats WHERE begun <= ?")?
        .query_row([now], |row| row.get(0))?;
    let failures = store
        .prepare_cached(&format!(
            "SELECT count(*) FROM beats WHERE state IN ('failed', 'interrupted') AND begun <= ?1
             AND id > max(?2, ifnull((SELECT max(id) FROM beats WHERE state IN ({WORKED})), 0))"
        ))?
        .query_row([now, after], |row| row.get(0))?;
    let holds = store.prepare_cached("SELECT 1 FROM beats WHERE held = 1")?.exists([])?;
    Ok(State { off, last: last.and_then(DateTime::from_timestamp_millis), failures, holds })
}

/// Switches it off, with the reason or an empty one, or on; failures are counted anew.
pub(super) fn switch(store: &Connection, off: Option<&str>) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO heart (one, off, after)
             VALUES (1, ?, (SELECT ifnull(max(id), 0) FROM beats))",
        )?
        .execute([off])
        .map(drop)
}

/// What the beats of a day did.
#[derive(Default)]
pub(super) struct LastDay {
    /// When the last one began, how it ended, and what of its words is known.
    pub(super) last: Option<(DateTime<Utc>, String, String)>,
    /// How many ended how.
    pub(super) counts: Vec<(String, u64)>,
}

pub(super) fn last_day(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<LastDay> {
    let last = store
        .prepare_cached(
            "SELECT begun, state, ifnull(words, '') FROM beats ORDER BY id DESC LIMIT 1",
        )?
        .query_row([], |row| {
            let begun = DateTime::from_timestamp_millis(row.get(0)?).unwrap_or_default();
            Ok((begun, row.get(1)?, line(row.get_ref(2)?.as_str()?)))
        })
        .optional()?;
    let mut rows = store.prepare_cached(
        "SELECT state, count(*) FROM beats WHERE begun >= ? GROUP BY state ORDER BY state",
    )?;
    let since = (now - Duration::hours(24)).timestamp_millis();
    let counts = rows.query_map([since], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(LastDay { last, counts: counts.collect::<rusqlite::Result<_>>()? })
}

/// Forgets beats that began before a time, with their conversations, a slice at a time; returns how many.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    let sessions = task_sessions::prune(store, TaskKind::Heartbeat, before, &DEPENDENTS)?;
    let beats = store
        .prepare_cached(
            "DELETE FROM beats WHERE id IN (SELECT id FROM beats
             WHERE state <> 'running' AND begun < ? ORDER BY begun LIMIT ?)",
        )?
        .execute([before.timestamp_millis(), slice()])?;
    Ok(sessions + beats)
}
