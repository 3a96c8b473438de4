//! Heartbeat runs in the store. Each is a background task that waits as a row of the journal, so a crash neither loses
//! nor doubles it, and its alert is queued in the transaction of its end.

use std::collections::BTreeSet;

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::{self, RowId, address_params, read_address, task_key};
use crate::bus::outbox;
use crate::conversation::task_sessions::{self, SessionTerms};
use crate::conversation::{deferred, sessions};
use crate::people;
use crate::replies;
use crate::store::{Json, LenientJson, Time};
use crate::tasks::assignment::{self, Assignment};
use crate::tasks::deferred_report;
use crate::tasks::heartbeat::context::{REPEAT_AFTER, line, sent_since};
use crate::tasks::heartbeat::requests::alert;
use crate::tasks::outcome::{TaskOutcome, TaskState};
use crate::tasks::schedule::{FAILURES_MAX, FAILURES_TOLD};
use crate::tasks::table::{self, Details, NewTask, RunningTask, TaskResult, TaskRow};
use crate::types::message::{Address, Cause, ChannelName, ChatKind, Sender, SenderId};
use crate::types::origin::{Origin, TaskId, TaskKind};
use crate::types::session::{SessionId, Settings, TurnId};
use crate::types::source::SourcedText;

/// The states of heartbeat runs that ended successfully, for SQL.
pub(super) const WORKED: &str = "'done', 'silent', 'repeated'";

/// The number of a heartbeat run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatRunId(pub i64);

impl HeartbeatRunId {
    pub fn task(self) -> TaskId {
        TaskId::new(TaskKind::Heartbeat, self.0)
    }
}

/// The details of a heartbeat run in the table of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct HeartbeatRunDetails {
    /// The channel on which its person is known.
    known_on: ChannelName,
    #[serde(alias = "place")]
    chat_kind: ChatKind,
    /// True if somebody requested it, and gets an answer even if there is nothing to report.
    asked: bool,
    /// The message about its failure, if that is held back for quiet hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl Default for HeartbeatRunDetails {
    fn default() -> Self {
        // No channel has this name. A chat of unknown kind is treated as a group, so that nothing private is sent.
        Self { known_on: "".into(), chat_kind: ChatKind::Group, asked: false, failure: None }
    }
}

impl Details for HeartbeatRunDetails {
    const KIND: TaskKind = TaskKind::Heartbeat;
}

/// A running heartbeat run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningHeartbeat {
    pub id: HeartbeatRunId,
    /// The address of its alert.
    pub to: Address,
    /// The channel on which its person is known.
    pub known_on: ChannelName,
    pub chat_kind: ChatKind,
    /// True if somebody requested it, and gets an answer even if there is nothing to report.
    pub asked: bool,
    /// Time at which it began, by the heartbeat's clock.
    pub begun: DateTime<Utc>,
    session: Option<SessionId>,
    /// Its assignment in the journal.
    row: Option<RowId>,
    task: TaskRow,
}

impl RunningHeartbeat {
    pub fn origin(&self) -> Origin {
        self.id.task().origin(&self.known_on)
    }
}

pub(super) struct NewHeartbeatRun {
    pub(super) to: Address,
    pub(super) known_on: ChannelName,
    pub(super) sender: SenderId,
    pub(super) chat_kind: ChatKind,
    pub(super) provider: Option<String>,
    pub(super) asked: bool,
}

/// Begins a heartbeat run with an assignment. Returns false if another one is running.
pub(super) fn begin(
    store: &Connection,
    new: NewHeartbeatRun,
    text: &SourcedText,
    tainted: bool,
    now: DateTime<Utc>,
) -> rusqlite::Result<bool> {
    let NewHeartbeatRun { to, known_on, sender, chat_kind, provider, asked } = new;
    let settings = Settings { model: provider, ..Settings::default() };
    if working(store)?.is_some() {
        return Ok(false);
    }
    let terms = SessionTerms { known_on, chat_kind, settings };
    let id = HeartbeatRunId(table::next_number(store, TaskKind::Heartbeat)?);
    let session = Some(task_sessions::open(store, id.task(), &terms, &to)?);
    let known_on = terms.known_on.clone();
    let details = HeartbeatRunDetails { known_on, chat_kind, asked, failure: None };
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

fn heartbeat_run(task: RunningTask<HeartbeatRunDetails>) -> RunningHeartbeat {
    let HeartbeatRunDetails { known_on, chat_kind, asked, .. } = task.details;
    RunningHeartbeat {
        id: HeartbeatRunId(task.number),
        to: task.to,
        known_on,
        chat_kind,
        asked,
        begun: task.begun,
        session: task.session,
        row: task.row,
        task: task.id,
    }
}

/// Returns the running heartbeat run, of which there is at most one.
fn working(store: &Connection) -> rusqlite::Result<Option<RunningHeartbeat>> {
    Ok(table::running(store)?.pop().map(heartbeat_run))
}

/// Returns a heartbeat run while it runs.
pub fn get(store: &Connection, id: HeartbeatRunId) -> rusqlite::Result<Option<RunningHeartbeat>> {
    Ok(table::running_number(store, id.0)?.map(heartbeat_run))
}

/// Returns the running heartbeat run of an address.
pub fn running_for(store: &Connection, at: &Address) -> rusqlite::Result<Option<RunningHeartbeat>> {
    Ok(working(store)?.filter(|heartbeat_run| heartbeat_run.to == *at))
}

/// Settles the running heartbeat run if its row has an outcome already, for example because all waiting rows were
/// withdrawn. Settles it also if its channel no longer exists, because it would never end; if the channel returns,
/// its turn ends silently.
pub(super) fn clear(store: &Connection, channels: &BTreeSet<ChannelName>) -> rusqlite::Result<()> {
    let Some(heartbeat_run) = working(store)? else { return Ok(()) };
    let is_done = match heartbeat_run.row {
        Some(row) => journal::outcome_of(store, row)?.is_some(),
        None => false,
    };
    let is_stray = match heartbeat_run.session {
        Some(session) => is_done && !sessions::has_unfinished(store, session)?,
        None => true,
    };
    if is_stray || !channels.contains(&heartbeat_run.known_on) {
        settle(store, &heartbeat_run, TaskOutcome::Stopped, None, false)?;
    }
    if is_stray {
        sessions::close(store, heartbeat_run.origin())?;
    }
    Ok(())
}

/// Marks the running heartbeat run as requested, so that whoever requested one meanwhile gets its result.
pub(super) fn ask(store: &Connection) -> rusqlite::Result<()> {
    for RunningTask { id, details, .. } in table::running::<HeartbeatRunDetails>(store)? {
        table::set_details(store, id, &HeartbeatRunDetails { asked: true, ..details })?;
    }
    Ok(())
}

/// The report of a heartbeat run.
#[derive(Clone, Copy, Debug)]
pub struct HeartbeatReport<'a> {
    pub words: &'a str,
    /// True if the model that reported it has read untrusted content.
    pub tainted: bool,
}

/// Settles a heartbeat run in the transaction of its end, and queues its alert. In quiet hours the alert, or the message
/// about a failure, waits for their end, unless somebody requested the run. Returns true if there was an alert, which its
/// conversation must get too.
pub fn settle(
    store: &Connection,
    heartbeat_run: &RunningHeartbeat,
    ended: TaskOutcome,
    report: Option<HeartbeatReport<'_>>,
    is_quiet: bool,
) -> rusqlite::Result<bool> {
    let (text, tainted) =
        (report.map(|report| report.words), report.is_some_and(|report| report.tainted));
    let alert = text.filter(|_| ended == TaskOutcome::Done).and_then(alert);
    let (ended, stored) = match (ended, alert) {
        (TaskOutcome::Done, Some(text))
            if !heartbeat_run.asked && was_sent(store, heartbeat_run, &heartbeat_run.to, text)? =>
        {
            (TaskOutcome::Repeated, None)
        }
        (TaskOutcome::Done, Some(text)) => (TaskOutcome::Done, Some(text)),
        (TaskOutcome::Done, None) | (TaskOutcome::Silent | TaskOutcome::Repeated, _) => {
            (TaskOutcome::Silent, None)
        }
        (TaskOutcome::Failed | TaskOutcome::Interrupted, _) => (ended, text),
        (TaskOutcome::Stopped | TaskOutcome::Skipped, _) => (TaskOutcome::Stopped, None),
    };
    let result = TaskResult { words: stored, tainted };
    if !table::settle(store, heartbeat_run.task, ended, Utc::now(), result)? {
        return Ok(false);
    }
    let is_held = is_quiet && !heartbeat_run.asked;
    match ended {
        TaskOutcome::Done if is_held => {
            hold(store, heartbeat_run, None)?;
            return Ok(true);
        }
        TaskOutcome::Done => {
            outbox::put(store, &heartbeat_run.to, None, stored.unwrap_or_default())?;
            return Ok(true);
        }
        TaskOutcome::Silent if heartbeat_run.asked => {
            tell_owner(store, &heartbeat_run.to, replies::HEARTBEAT_SILENT)?
        }
        TaskOutcome::Failed | TaskOutcome::Interrupted => {
            let message = failed(store, heartbeat_run, ended, stored.unwrap_or_default())?;
            match message {
                Some(message) if is_held => hold(store, heartbeat_run, Some(message))?,
                Some(message) => tell_owner(store, &heartbeat_run.to, &message)?,
                None => {}
            }
        }
        TaskOutcome::Silent
        | TaskOutcome::Repeated
        | TaskOutcome::Stopped
        | TaskOutcome::Skipped => {}
    }
    Ok(false)
}

/// Holds the alert of a heartbeat run back until the quiet hours are over, or the message about its failure.
fn hold(
    store: &Connection,
    heartbeat_run: &RunningHeartbeat,
    failure: Option<String>,
) -> rusqlite::Result<()> {
    let RunningHeartbeat { known_on, chat_kind, asked, .. } = heartbeat_run;
    let known_on = known_on.clone();
    let details = HeartbeatRunDetails { known_on, chat_kind: *chat_kind, asked: *asked, failure };
    store
        .prepare_cached("UPDATE tasks SET held = 1, details = ? WHERE id = ?")?
        .execute(params![Json(details), heartbeat_run.task])
        .map(drop)
}

/// Queues the alerts and reports that heartbeat runs have held back for quiet hours, which are over.
pub(super) fn release(store: &Connection) -> rusqlite::Result<()> {
    let mut rows = store.prepare_cached(
        "SELECT channel, chat, thread, ifnull(words, ''), details FROM tasks WHERE held = 1 ORDER BY id",
    )?;
    let held = rows.query_map([], |row| {
        let details: LenientJson<HeartbeatRunDetails> = row.get(4)?;
        let failure = details.0.and_then(|details| details.failure);
        Ok((read_address(row)?, row.get::<_, String>(3)?, failure))
    })?;
    for (to, alert, failure) in held.collect::<rusqlite::Result<Vec<_>>>()? {
        match failure {
            Some(failure) => tell_owner(store, &to, &failure)?,
            None => outbox::put(store, &to, None, &alert).map(drop)?,
        }
    }
    store.execute("UPDATE tasks SET held = 0 WHERE held = 1", [])?;
    deferred_report::release(store)
}

/// Records a message that a turn is about to send, if it is a heartbeat run's. Returns false if the same was sent there
/// before, and must not be sent again.
pub fn may_send(
    store: &Connection,
    turn: TurnId,
    to: &Address,
    words: &str,
    tainted: bool,
) -> rusqlite::Result<bool> {
    let Some(heartbeat_run) = working(store)? else { return Ok(true) };
    if heartbeat_run.session.is_none()
        || sessions::id_of_turn(store, turn)? != heartbeat_run.session
    {
        return Ok(true);
    }
    if !heartbeat_run.asked && was_sent(store, &heartbeat_run, to, words)? {
        return Ok(false);
    }
    let (channel, chat, thread) = address_params(to);
    store
        .prepare_cached(
            "INSERT INTO task_messages (task, channel, chat, thread, words, tainted)
             VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![heartbeat_run.task, channel, chat, thread, words, tainted])?;
    Ok(true)
}

/// Switches the heartbeat off after too many failures. Returns the message about a failure, if the owner gets one.
fn failed(
    store: &Connection,
    heartbeat_run: &RunningHeartbeat,
    ended: TaskOutcome,
    reason: &str,
) -> rusqlite::Result<Option<String>> {
    let HeartbeatState { failures, off, .. } = state(store, heartbeat_run.begun)?;
    Ok(match failures {
        _ if heartbeat_run.asked => Some(replies::heartbeat_failed(reason)),
        FAILURES_MAX.. if off.is_none() => {
            switch(store, Some(reason))?;
            Some(replies::heartbeat_off_itself(failures, reason))
        }
        _ if failures == FAILURES_TOLD || ended == TaskOutcome::Interrupted => {
            Some(replies::heartbeat_fails(failures, reason))
        }
        _ => None,
    })
}

/// Queues a message that only the owner may see, whatever the address of alerts is.
fn tell_owner(store: &Connection, alerts: &Address, words: &str) -> rusqlite::Result<()> {
    let owner = people::owner_address(store)?.unwrap_or_else(|| alerts.clone());
    outbox::put(store, &owner, None, words).map(drop)
}

fn was_sent(
    store: &Connection,
    heartbeat_run: &RunningHeartbeat,
    at: &Address,
    words: &str,
) -> rusqlite::Result<bool> {
    let is_same = |sent: &str| sent.split_whitespace().eq(words.split_whitespace());
    let sent = sent_since(store, at, heartbeat_run.begun - REPEAT_AFTER, heartbeat_run.begun)?;
    Ok(sent.iter().any(|(sent, _)| is_same(sent)))
}

/// The state of the heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeartbeatState {
    /// The reason why it was switched off. Empty if somebody requested that. None if it is on.
    pub(super) off: Option<String>,
    /// Time at which the last heartbeat run began.
    pub(super) last: Option<DateTime<Utc>>,
    /// Number of consecutive failures.
    pub(super) failures: u32,
    /// True while alerts, or reports of refused calls, wait for the end of the quiet hours.
    pub(super) holds: bool,
}

/// Returns the state of the heartbeat. Runs that began after `now` were dated by a wrong clock, and do not count.
pub(super) fn state(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<HeartbeatState> {
    let switch: Option<(Option<String>, TaskRow)> = store
        .prepare_cached("SELECT off, after FROM heartbeat_state")?
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
    let holds = store.prepare_cached("SELECT 1 FROM tasks WHERE held = 1")?.exists([])?
        || deferred::is_any_held(store)?;
    Ok(HeartbeatState { off, last: last.map(|last| last.0), failures, holds })
}

/// Switches the heartbeat off, with a reason, which may be empty, or on. Resets the count of failures.
pub(super) fn switch(store: &Connection, off: Option<&str>) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO heartbeat_state (one, off, after)
             VALUES (1, ?, (SELECT ifnull(max(id), 0) FROM tasks))",
        )?
        .execute([off])
        .map(drop)
}

/// The heartbeat runs of a day.
#[derive(Default)]
pub(super) struct LastDay {
    /// Time at which the last one began, its state, and the stored part of its text.
    pub(super) last: Option<(DateTime<Utc>, String, String)>,
    /// The outcomes, each with its count.
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
            Ok((begun, state_word(row.get(1)?), line(row.get_ref(2)?.as_str()?)))
        })
        .optional()?;
    let mut rows = store.prepare_cached(
        "SELECT state, count(*) FROM tasks WHERE kind = 'heartbeat' AND begun >= ? GROUP BY state",
    )?;
    let since = Time(now - Duration::hours(24));
    let counts = rows.query_map([since], |row| Ok((state_word(row.get(0)?), row.get(1)?)))?;
    let mut counts: Vec<_> = counts.collect::<rusqlite::Result<_>>()?;
    counts.sort();
    Ok(LastDay { last, counts })
}

/// Returns the word for the state of a heartbeat run.
fn state_word(state: TaskState) -> String {
    match state {
        TaskState::Ended(TaskOutcome::Done) => "told".to_owned(),
        state => state.as_str().to_owned(),
    }
}
