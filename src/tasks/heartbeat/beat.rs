//! Heartbeat runs in the store: each is a background task that waits as a row of the journal, so a crash neither loses nor
//! doubles it, and what it has to say goes out in the transaction of its end.

use std::collections::BTreeSet;

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{self, RowId, address_params, read_address, task_key};
use crate::bus::outbox;
use crate::conversation::sessions;
use crate::conversation::task_sessions::{self, Terms};
use crate::people;
use crate::replies;
use crate::store::Time;
use crate::tasks::assignment::{self, Assignment};
use crate::tasks::ended::{Ended, State as TaskState};
use crate::tasks::heartbeat::surroundings::{SAME_FOR, line, told_since};
use crate::tasks::heartbeat::watched::alert;
use crate::tasks::schedule::{FAILURES_MAX, FAILURES_TOLD};
use crate::tasks::table::{self, Details, NewTask, Task, TaskResult, TaskRow};
use crate::types::message::{Address, Cause, ChannelName, Place, Sender, SenderId};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{SessionId, Settings, TurnId};
use crate::types::source::Parts;

/// Beats that came to their end.
pub(super) const WORKED: &str = "'done', 'silent', 'repeated'";

/// A beat, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeatId(pub i64);

impl BeatId {
    pub fn task(self) -> TaskId {
        TaskId::new(TaskKind::Heartbeat, self.0)
    }
}

/// Its details in the table of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct BeatDetails {
    /// The channel on which its person is known.
    known_on: ChannelName,
    place: Place,
    /// Somebody asked for it, and is told also of nothing.
    asked: bool,
}

impl Default for BeatDetails {
    fn default() -> Self {
        // No channel has this name. Who cannot be sure keeps to themselves what is private.
        Self { known_on: "".into(), place: Place::Group, asked: false }
    }
}

impl Details for BeatDetails {
    const KIND: TaskKind = TaskKind::Heartbeat;
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
    session: Option<SessionId>,
    /// Its task in the journal.
    row: Option<RowId>,
    task: TaskRow,
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
    if working(store)?.is_some() {
        return Ok(false);
    }
    let terms = Terms { known_on, place, settings };
    let id = BeatId(table::next_number(store, TaskKind::Heartbeat)?);
    let session = Some(task_sessions::open(store, id.task(), &terms, &to)?);
    let details = BeatDetails { known_on: terms.known_on.clone(), place, asked };
    let new = NewTask { number: id.0, due: None, session, to: &to, begun: now, details };
    let Some(task) = table::begin(store, &new)? else { return Ok(false) };
    let name = people::name_of(store, &terms.known_on, &sender)?;
    let cause = Cause::Heartbeat { tainted, sender: Sender::person(sender, name) };
    let sources = text.spans().to_vec();
    let assignment = Assignment { text, sources, cause, key: task_key(id.task(), None), to };
    let row = assignment::start(store, id.task(), &terms, assignment)?;
    table::set_row(store, task, row, session)?;
    Ok(true)
}

fn beat(task: Task<BeatDetails>) -> Beat {
    let BeatDetails { known_on, place, asked } = task.details;
    Beat {
        id: BeatId(task.number),
        to: task.to,
        known_on,
        place,
        asked,
        begun: task.begun,
        session: task.session,
        row: task.row,
        task: task.id,
    }
}

/// The beat that works; there is one at most.
fn working(store: &Connection) -> rusqlite::Result<Option<Beat>> {
    Ok(table::running(store)?.pop().map(beat))
}

/// A beat that works.
pub fn get(store: &Connection, id: BeatId) -> rusqlite::Result<Option<Beat>> {
    Ok(table::running_number(store, id.0)?.map(beat))
}

/// The beat that works for an address.
pub fn running_for(store: &Connection, at: &Address) -> rusqlite::Result<Option<Beat>> {
    Ok(working(store)?.filter(|beat| beat.to == *at))
}

/// Settles the beat whose row had its outcome without it: it was withdrawn with all that waited, say. So
/// does one whose channel is not here any more, and would be waited for in vain; should the channel come
/// back, its turn ends, and nobody hears of it.
pub(super) fn clear(store: &Connection, channels: &BTreeSet<ChannelName>) -> rusqlite::Result<()> {
    let Some(beat) = working(store)? else { return Ok(()) };
    let is_done = match beat.row {
        Some(row) => journal::outcome_of(store, row)?.is_some(),
        None => false,
    };
    let is_stray = match beat.session {
        Some(session) => is_done && !sessions::has_unfinished(store, session)?,
        None => true,
    };
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
    for Task { id, details, .. } in table::running::<BeatDetails>(store)? {
        table::set_details(store, id, &BeatDetails { asked: true, ..details })?;
    }
    Ok(())
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
    let (ended, kept) = match (ended, alert) {
        (Ended::Done, Some(words)) if !beat.asked && was_told(store, beat, &beat.to, words)? => {
            (Ended::Repeated, None)
        }
        (Ended::Done, Some(words)) => (Ended::Done, Some(words)),
        (Ended::Done, None) | (Ended::Silent | Ended::Repeated, _) => (Ended::Silent, None),
        (Ended::Failed | Ended::Interrupted, _) => (ended, words),
        (Ended::Stopped | Ended::Skipped, _) => (Ended::Stopped, None),
    };
    let result = TaskResult { words: kept, tainted };
    if !table::settle(store, beat.task, ended, Utc::now(), result)? {
        return Ok(false);
    }
    match ended {
        Ended::Done if is_quiet && !beat.asked => {
            store.prepare_cached("UPDATE tasks SET held = 1 WHERE id = ?")?.execute([beat.task])?;
            return Ok(true);
        }
        Ended::Done => {
            outbox::put(store, &beat.to, None, kept.unwrap_or_default())?;
            return Ok(true);
        }
        Ended::Silent if beat.asked => tell_owner(store, beat, replies::HEARTBEAT_SILENT)?,
        Ended::Failed | Ended::Interrupted => {
            failed(store, beat, ended, kept.unwrap_or_default())?;
        }
        Ended::Silent | Ended::Repeated | Ended::Stopped | Ended::Skipped => {}
    }
    Ok(false)
}

/// Tells what beats have held back for quiet hours, which are over.
pub(super) fn release(store: &Connection) -> rusqlite::Result<()> {
    let mut rows = store.prepare_cached(
        "SELECT channel, chat, thread, ifnull(words, '') FROM tasks WHERE held = 1 ORDER BY id",
    )?;
    let held = rows.query_map([], |row| Ok((read_address(row)?, row.get::<_, String>(3)?)))?;
    for held in held.collect::<rusqlite::Result<Vec<_>>>()? {
        outbox::put(store, &held.0, None, &held.1)?;
    }
    store.execute("UPDATE tasks SET held = 0 WHERE held = 1", []).map(drop)
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
    let Some(beat) = working(store)? else { return Ok(true) };
    if beat.session.is_none() || sessions::id_of_turn(store, turn)? != beat.session {
        return Ok(true);
    }
    if !beat.asked && was_told(store, &beat, to, words)? {
        return Ok(false);
    }
    let (channel, chat, thread) = address_params(to);
    store
        .prepare_cached(
            "INSERT INTO task_messages (task, channel, chat, thread, words, tainted)
             VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![beat.task, channel, chat, thread, words, tainted])?;
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
    let switch: Option<(Option<String>, TaskRow)> = store
        .prepare_cached("SELECT off, after FROM heart")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (off, after) = switch.unwrap_or((None, TaskRow(0)));
    let last: Option<Time> = store
        .prepare_cached("SELECT max(begun) FROM tasks WHERE kind = 'heartbeat' AND begun <= ?")?
        .query_row([Time(now)], |row| row.get(0))?;
    let failures = store
        .prepare_cached(&format!(
            "SELECT count(*) FROM tasks WHERE +kind = 'heartbeat' AND state IN ('failed', 'interrupted')
             AND begun <= ?1 AND id > max(?2, ifnull(
                 (SELECT max(id) FROM tasks WHERE +kind = 'heartbeat' AND state IN ({WORKED})), 0))"
        ))?
        .query_row(params![Time(now), after], |row| row.get(0))?;
    let holds = store.prepare_cached("SELECT 1 FROM tasks WHERE held = 1")?.exists([])?;
    Ok(State { off, last: last.map(|last| last.0), failures, holds })
}

/// Switches it off, with the reason or an empty one, or on; failures are counted anew.
pub(super) fn switch(store: &Connection, off: Option<&str>) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO heart (one, off, after)
             VALUES (1, ?, (SELECT ifnull(max(id), 0) FROM tasks))",
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
            "SELECT begun, state, ifnull(words, '') FROM tasks WHERE kind = 'heartbeat'
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row([], |row| {
            let Time(begun) = row.get(0)?;
            Ok((begun, shown(row.get(1)?), line(row.get_ref(2)?.as_str()?)))
        })
        .optional()?;
    let mut rows = store.prepare_cached(
        "SELECT state, count(*) FROM tasks WHERE kind = 'heartbeat' AND begun >= ? GROUP BY state",
    )?;
    let since = Time(now - Duration::hours(24));
    let counts = rows.query_map([since], |row| Ok((shown(row.get(0)?), row.get(1)?)))?;
    let mut counts: Vec<_> = counts.collect::<rusqlite::Result<_>>()?;
    counts.sort();
    Ok(LastDay { last, counts })
}

/// The word for how a beat stands.
fn shown(state: TaskState) -> String {
    match state {
        TaskState::Ended(Ended::Done) => "told".to_owned(),
        state => state.as_str().to_owned(),
    }
}

/// Forgets beats that began before a time, with their conversations, a slice at a time; returns how many.
pub fn prune(store: &Connection, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    let sessions = task_sessions::prune(store, TaskKind::Heartbeat, before)?;
    Ok(sessions + table::prune(store, TaskKind::Heartbeat, before)?)
}
