//! Stores and loads sessions, turns, steps and calls. Not here: the transactions that combine changes
//! (`turn::commits`).

mod calls;
mod compaction;
#[cfg(feature = "gateway")]
mod running;
mod unreadable;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Params, params};

pub(crate) use crate::conversation::sessions::open_or_begin;
pub(crate) use calls::{
    CallTurn, RequestedCall, end_call, mark_call_planned, mark_call_running, mark_call_waiting,
    plan_calls, requested_call, set_call_start, set_images, set_undo, turn_of_call,
};
pub(crate) use compaction::{
    Summaries, TranscriptStart, bytes_since_notes, compact, first_since, is_open, is_quiet_since,
    leave_out, mark_summarized, set_frozen, set_shortened, set_silent, whole_summary,
};
#[cfg(feature = "gateway")]
pub(crate) use running::running_turn;
use unreadable::turn_of;
pub(crate) use unreadable::{UnreadableTurn, end_turn_alone, store_unreadable_turn};

use crate::bus::journal::{self, origin_params, read_origin, read_origin_at};
use crate::conversation::history;
use crate::conversation::sessions::open_for;
use crate::conversation::settings;
use crate::conversation::shorten;
use crate::conversation::sources::{self, KeptSources};
use crate::conversation::{asks, deferred, model_waits::ModelWait};
use crate::replies;
use crate::store::{Json, LenientJson, Time};
use crate::types::message::{ChatKind, MessageId, Sender, SenderId};
use crate::types::origin::Origin;
use crate::types::session::{Session, SessionId, Step, TokenEstimate, Turn, TurnId, TurnOutcome};
use crate::types::source::Source;
use crate::types::summary::SourcedSummary;

/// A turn that has not ended, as found after a restart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnfinishedTurn {
    pub(crate) turn: TurnId,
    pub(crate) origin: Origin,
    pub(crate) sender: Sender,
    pub(crate) reply_to: Option<MessageId>,
    pub(crate) attempts: u32,
    pub(crate) draft: Option<MessageId>,
    /// True if the program began it for itself: nobody gets its result.
    pub(crate) silent: bool,
    /// True if it has no tokio task, because it waits for a person, a subagent or a model.
    pub(crate) suspended: bool,
    /// The wait for a model that could not be reached and has not answered since.
    pub(crate) model_wait: Option<ModelWait>,
}

/// Loads the open session of an origin, with the turns that the model still sees.
pub(crate) fn open_session(
    store: &Connection,
    origin: &Origin,
) -> rusqlite::Result<Option<Session>> {
    let (channel, chat, thread) = origin_params(origin);
    read_session(store, &open_for(origin), (channel, chat, thread.unwrap_or_default()))
}

/// Loads the conversation of a turn, also a closed one, with the turns that the model still sees. None if the turn was
/// deleted.
pub(crate) fn session_of_turn(
    store: &Connection,
    turn: TurnId,
) -> rusqlite::Result<Option<Session>> {
    read_session(store, "id = (SELECT session FROM turns WHERE id = ?)", [turn])
}

fn read_session(
    store: &Connection,
    condition: &str,
    params: impl Params,
) -> rusqlite::Result<Option<Session>> {
    let session_row = store
        .prepare_cached(&format!(
            "SELECT id, chat_kind, frozen, begins, summary, shortened, settings, begins_step,
             summary_sources, untrusted_summary IS NOT NULL, trusted_summary, trusted_sources, left_out,
             channel, chat, thread FROM sessions WHERE {condition}"
        ))?
        .query_row(params, |row| {
            let KeptSources(sources) = row.get(8)?;
            let KeptSources(trusted_sources) = row.get(11)?;
            let trusted_sources = trusted_sources.unwrap_or_else(|| vec![Source::Unknown]);
            let trusted: Option<String> = row.get(10)?;
            let session = Session {
                id: row.get(0)?,
                origin: read_origin_at(row, 13)?,
                // A chat of unknown kind counts as a group, so that nothing private spreads.
                chat_kind: row.get::<_, LenientJson<_>>(1)?.0.unwrap_or(ChatKind::Group),
                frozen: row.get::<_, LenientJson<_>>(2)?.0,
                settings: settings::read(row, 6)?,
                persona: Arc::default(),
                owner: None,
                summary: row.get(4)?,
                summary_sources: sources.clone().unwrap_or_default(),
                trusted_summary: trusted
                    .map(|text| SourcedSummary { text, sources: trusted_sources }),
                has_untrusted_summary: row.get(9)?,
                left_out: row.get(12)?,
                begins: row.get(3)?,
                begins_step: row.get(7)?,
                shortened: row.get::<_, LenientJson<_>>(5)?.0,
                turns: Vec::new(),
                estimate: TokenEstimate::default(),
            };
            Ok((session, sources.is_some()))
        })
        .optional()?;
    let Some((mut session, has_sources)) = session_row else { return Ok(None) };
    if session.summary.is_some() && !has_sources {
        // A former version stored no sources.
        let before = TurnId(session.begins.0 - 1);
        let summarized = sources::up_to(store, session.id, before)?;
        session.summary_sources = summarized.into_iter().map(|(_, source)| source).collect();
    }
    let mut rows = store.prepare_cached(
        // Notes that were added during the running turn come before it.
        "SELECT id, ending, iif(json_valid(sender), json_extract(sender, '$.id'), NULL) FROM turns WHERE session = ? AND id >= ?
         ORDER BY ending IS NULL, id",
    )?;
    let turns = rows.query_map(params![session.id, session.begins], |row| {
        let by = row.get::<_, Option<SenderId>>(2)?.unwrap_or_else(|| "".into());
        let LenientJson(ending) = row.get(1)?;
        Ok(Turn { id: row.get(0)?, by, steps: Vec::new(), ending })
    })?;
    session.turns = turns.collect::<Result<_, _>>()?;
    read_steps(store, &mut session)?;
    mark_summarized(&mut session.turns, session.begins, session.begins_step);
    if let Some(mark) = session.shortened {
        shorten::apply(&mut session.turns, mark);
    }
    Ok(Some(session))
}

/// Loads the steps and calls of a session's turns with one statement for each table, instead of two for each turn of a
/// long conversation.
fn read_steps(store: &Connection, session: &mut Session) -> rusqlite::Result<()> {
    let at: HashMap<_, _> =
        session.turns.iter().enumerate().map(|(at, turn)| (turn.id, at)).collect();
    let seen = params![session.id, session.begins];
    let mut rows = store.prepare_cached(
        "SELECT turn, input, text, thinking, ifnull(images, '[]'), sources FROM steps
         WHERE turn IN (SELECT id FROM turns WHERE session = ? AND id >= ?) ORDER BY turn, seq",
    )?;
    let mut rows = rows.query(seen)?;
    while let Some(row) = rows.next()? {
        let Some(turn) = at.get(&row.get(0)?) else { continue };
        let input = sources::input(row.get(1)?, row.get(5)?);
        session.turns[*turn].steps.push(Step {
            input,
            images: row.get::<_, LenientJson<_>>(4)?.0.unwrap_or_default(),
            text: row.get(2)?,
            thinking: row.get::<_, LenientJson<_>>(3)?.0.unwrap_or_default(),
            ..Step::default()
        });
    }
    let mut rows = store.prepare_cached(
        "SELECT step, id, wire_id, tool, arguments, state, intent, output, images, turn, sources FROM calls
         WHERE turn IN (SELECT id FROM turns WHERE session = ? AND id >= ?) ORDER BY turn, id",
    )?;
    let mut rows = rows.query(seen)?;
    while let Some(row) = rows.next()? {
        let Some(turn) = at.get(&row.get(9)?) else { continue };
        if let Some(step) = session.turns[*turn].steps.get_mut(row.get::<_, usize>(0)?) {
            step.calls.push(calls::read(row)?);
        }
    }
    Ok(())
}

/// Stores an answered side question as a closed conversation of its own.
pub(crate) fn keep_side_question(
    store: &Connection,
    beside: &Session,
    sender: &Sender,
    provider: &str,
    step: &Step,
) -> rusqlite::Result<TurnId> {
    let (channel, chat, thread) = origin_params(&beside.origin);
    let now = Time::now();
    store
        .prepare_cached(
            "INSERT INTO sessions (channel, chat, thread, chat_kind, opened, closed, kind)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, 'aside')",
        )?
        .execute(params![channel, chat, thread, Json(&beside.chat_kind), now])?;
    let session = SessionId(store.last_insert_rowid());
    let turn = begin_turn(store, session, sender, None, provider)?;
    put_step(store, turn, 0, step)?;
    end_turn(store, turn, TurnOutcome::Answered)?;
    Ok(turn)
}

pub(crate) fn begin_turn(
    store: &Connection,
    session: SessionId,
    sender: &Sender,
    reply_to: Option<&MessageId>,
    provider: &str,
) -> rusqlite::Result<TurnId> {
    store
        .prepare_cached(
            "INSERT INTO turns (session, sender, reply_to, attempts, provider, started)
             VALUES (?, ?, ?, 1, ?, ?)",
        )?
        .execute(params![session, Json(sender), reply_to, provider, Time::now()])?;
    Ok(TurnId(store.last_insert_rowid()))
}

/// A turn that has not ended, or the reason why it cannot be read.
pub(crate) type ReadTurn = Result<UnfinishedTurn, UnreadableTurn>;

const UNFINISHED: &str =
    "SELECT s.channel, s.chat, s.thread, t.id, t.sender, t.reply_to, t.attempts, t.draft,
     t.silent, t.suspended, t.model_wait
     FROM turns t JOIN sessions s ON s.id = t.session WHERE t.ending IS NULL";

/// Returns the readable turns that have not ended, oldest first.
pub(crate) fn unfinished(store: &Connection) -> rusqlite::Result<Vec<UnfinishedTurn>> {
    Ok(all_unfinished(store)?.into_iter().filter_map(Result::ok).collect())
}

/// Returns the turns that have not ended, oldest first.
pub(crate) fn all_unfinished(store: &Connection) -> rusqlite::Result<Vec<ReadTurn>> {
    let mut rows = store.prepare_cached(&format!("{UNFINISHED} ORDER BY t.id"))?;
    rows.query_map([], turn_of)?.collect()
}

/// Returns the turn if it has not ended.
pub(crate) fn unfinished_turn(
    store: &Connection,
    turn: TurnId,
) -> rusqlite::Result<Option<ReadTurn>> {
    let mut rows = store.prepare_cached(&format!("{UNFINISHED} AND t.id = ?"))?;
    rows.query_row([turn], turn_of).optional()
}

/// Suspends a turn: it has no tokio task until somebody answers.
pub(crate) fn suspend(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE turns SET suspended = 1 WHERE id = ?")?.execute([turn])?;
    Ok(())
}

/// Returns the time that a turn had worked before it was last suspended.
pub(crate) fn working_time(store: &Connection, turn: TurnId) -> rusqlite::Result<Duration> {
    let worked = store
        .prepare_cached("SELECT worked FROM turns WHERE id = ?")?
        .query_row([turn], |row| row.get(0))?;
    Ok(Duration::from_millis(worked))
}

/// Adds to the time that a turn has worked, when it is suspended.
pub(crate) fn add_working_time(
    store: &Connection,
    turn: TurnId,
    worked: Duration,
) -> rusqlite::Result<()> {
    let worked = i64::try_from(worked.as_millis()).unwrap_or(i64::MAX);
    store
        .prepare_cached("UPDATE turns SET worked = worked + ? WHERE id = ?")?
        .execute(params![worked, turn])
        .map(drop)
}

/// Ends the suspension of a turn. Does not count as a failed attempt.
pub(crate) fn resume_call(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE turns SET suspended = 0, attempts = 0 WHERE id = ?")?
        .execute([turn])?;
    Ok(())
}

/// Returns true if no turn runs and no message waits for one.
pub fn is_quiet(store: &Connection) -> rusqlite::Result<bool> {
    Ok(journal::is_empty(store)? && count_running(store)? == 0)
}

pub fn count_running(store: &Connection) -> rusqlite::Result<usize> {
    store
        .prepare_cached("SELECT count(*) FROM turns WHERE ending IS NULL AND suspended = 0")?
        .query_row([], |row| row.get(0))
}

/// Returns the time at which the last turn started, by our clock at that time.
pub fn last_started(store: &Connection) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let last = store
        .prepare_cached("SELECT started FROM turns ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| row.get::<_, Time>(0))
        .optional()?;
    Ok(last.map(|last| last.0))
}

/// Returns the time at which a turn started, by our clock at that time. None if it was deleted.
pub fn turn_started(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let started = store
        .prepare_cached("SELECT started FROM turns WHERE id = ?")?
        .query_row([turn], |row| row.get::<_, Time>(0))
        .optional()?;
    Ok(started.map(|started| started.0))
}

/// Returns true if a turn is suspended.
pub fn is_suspended(store: &Connection, turn: TurnId) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM turns WHERE id = ? AND suspended = 1")?.exists([turn])
}

/// Returns true if a session in memory is up to date: it was not closed, and no note was added since. A note adds a turn,
/// or replaces the oldest note by a newer turn.
pub(crate) fn is_current(store: &Connection, session: &Session) -> rusqlite::Result<bool> {
    let found: (usize, i64, bool) = store
        .prepare_cached(
            "SELECT count(*), ifnull(max(id), 0),
                 EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND closed IS NOT NULL)
             FROM turns WHERE session = ?1 AND id >= ?2",
        )?
        .query_row(params![session.id, session.begins], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let newest = session.turns.iter().map(|turn| turn.id.0).max().unwrap_or_default();
    Ok(found == (session.turns.len(), newest, false))
}

/// Returns the origin of a turn if it was stopped.
pub(crate) fn stopped_at(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<Origin>> {
    let mut stopped = store.prepare_cached(
        "SELECT s.channel, s.chat, s.thread FROM turns t JOIN sessions s ON s.id = t.session
         WHERE t.id = ? AND t.ending = ?",
    )?;
    stopped.query_row(params![turn, Json(TurnOutcome::Stopped)], read_origin).optional()
}

/// Returns the person for whom a turn works, and the provider that answers. A person who cannot be read is replaced by
/// one without an id, who is nobody.
pub(crate) fn sender_and_provider(
    store: &Connection,
    turn: TurnId,
) -> rusqlite::Result<(Sender, String)> {
    store.prepare_cached("SELECT sender, provider FROM turns WHERE id = ?")?.query_row(
        [turn],
        |row| {
            let sender = row.get::<_, LenientJson<Sender>>(0)?.0;
            Ok((sender.unwrap_or_else(|| Sender::person("", "")), row.get(1)?))
        },
    )
}

/// Returns true if the turn still runs. Each commit of a turn checks this, so that a turn which `/stop` has ended
/// stays ended.
pub(crate) fn is_running(store: &Connection, turn: TurnId) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM turns WHERE id = ? AND ending IS NULL")?.exists([turn])
}

pub(crate) fn attempt_again(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE turns SET attempts = attempts + 1, suspended = 0 WHERE id = ?")?
        .execute([turn])?;
    Ok(())
}

pub(crate) fn set_draft(
    store: &Connection,
    turn: TurnId,
    draft: Option<&MessageId>,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE turns SET draft = ? WHERE id = ?")?
        .execute(params![draft, turn])?;
    Ok(())
}

pub(crate) fn draft(store: &Connection, turn: TurnId) -> rusqlite::Result<Option<MessageId>> {
    let draft = store
        .prepare_cached("SELECT draft FROM turns WHERE id = ?")?
        .query_row([turn], |row| row.get(0))?;
    Ok(draft)
}

/// Uncounts the last attempt at each unfinished turn of these origins.
pub(crate) fn forgive_attempt(store: &Connection, of: &[Origin]) -> rusqlite::Result<()> {
    let mut forgive =
        store.prepare_cached("UPDATE turns SET attempts = max(attempts - 1, 0) WHERE id = ?")?;
    let unfinished_turns = unfinished(store)?.into_iter().filter(|turn| of.contains(&turn.origin));
    unfinished_turns.map(|turn| turn.turn).try_for_each(|turn| forgive.execute([turn]).map(drop))
}

/// Stores a step. The first one is already stored with its input, which may have grown since.
pub(crate) fn put_step(
    store: &Connection,
    turn: TurnId,
    seq: usize,
    step: &Step,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT INTO steps (turn, seq, input, sources, images, text, thinking) VALUES (?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET input = excluded.input, sources = excluded.sources, images = excluded.images, text = excluded.text, thinking = excluded.thinking",
        )?
        .execute(params![
            turn,
            seq,
            step.input.as_deref(),
            step.input.as_ref().map(|input| Json(input.spans())),
            (!step.images.is_empty()).then_some(Json(&step.images)),
            step.text,
            Json(&step.thinking)
        ])?;
    Ok(())
}

pub(crate) fn end_turn(
    store: &Connection,
    turn: TurnId,
    ending: TurnOutcome,
) -> rusqlite::Result<()> {
    let now = Time::now();
    store
        .prepare_cached(
            "UPDATE calls SET ended = ?,
             state = CASE state WHEN 'running' THEN 'interrupted' ELSE 'skipped' END
             WHERE turn = ? AND state IN ('planned', 'waiting', 'running')",
        )?
        .execute(params![now, turn])?;
    asks::cancel(store, turn, replies::NO_LONGER_NEEDED)?;
    deferred::drop_unreported(store, turn)?;
    end_turn_alone(store, turn, ending)?;
    history::index_turn(store, turn)
}

/// Returns the tokens, read and written, that a turn has used.
pub(crate) fn used_in(store: &Connection, turn: TurnId) -> rusqlite::Result<u64> {
    store
        .prepare_cached("SELECT ifnull(sum(input + output), 0) FROM ledger WHERE turn = ?")?
        .query_row([turn], |row| row.get(0))
}
