//! The journal of accepted messages, which is also the queue: rows wait, enter a turn, and are done.

mod origins;
mod past;
mod pruning;
mod row;
mod times;
mod unreadable;
mod waits;
mod withdrawing;

use rusqlite::{Connection, OptionalExtension, params};

pub use self::origins::{
    address_key_params, address_params, author_param, origin_params, read_address, read_address_at,
    read_origin, read_origin_at, task_channel, task_key,
};
pub use self::past::{
    MessageProgress, bots_in_a_row, containers_of, count_files, files_at, first_of_turn,
    has_group_message, is_by, last_heard, last_private_of, last_row, note_turned_away, origin_of,
    outcome_of, progress_of, question, refused_last, text_of, was_addressed, was_turned_away,
};
pub use self::pruning::{forget_turn, prune};
pub use self::row::{InboundOutcome, RowId, RowRange, UnreadableRow, WaitingMessage};
pub(super) use self::row::{read_waiting, readable};
pub use self::times::{
    MessageTimes, last_received, newest_of_platforms, times_before, times_elsewhere_before,
};
pub use self::unreadable::{
    WaitingCommands, close_unreadable, store_unreadable, store_unreadable_row, unreadable_at,
};
pub use self::waits::{WaitingRow, all_waiting, is_empty, waiting_row};
pub use self::withdrawing::{WithdrawnRows, withdraw, withdraw_commands, withdraw_private_of};
use crate::store::{Json, Time};
use crate::types::message::{Address, ChannelName, DedupKey, Inbound, MessageAuthor, SenderId};
use crate::types::origin::Origin;
use crate::types::session::TurnId;

/// Maximum number of rows that enter one turn. Further ones enter the next.
const TAKEN_MAX: usize = 20;

/// Maximum number of messages of a channel whose files are fetched at a time.
const UNREADY_MAX: usize = 100;

pub fn has(store: &Connection, key: &DedupKey) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM inbound WHERE key = ?")?.exists([key])
}

/// Returns false if an accepted message was refused, and true for every other outcome. None while it has
/// no outcome.
pub fn succeeded(store: &Connection, key: &DedupKey) -> rusqlite::Result<Option<bool>> {
    let outcome: Option<InboundOutcome> = store
        .prepare_cached("SELECT outcome FROM inbound WHERE key = ?")?
        .query_row([key], |row| row.get(0))?;
    Ok(outcome.map(|outcome| outcome != InboundOutcome::Refused))
}

/// Adds a message, which waits, or is done at once if an outcome is given.
pub fn add(
    store: &Connection,
    inbound: &Inbound,
    control: bool,
    done: Option<InboundOutcome>,
) -> rusqlite::Result<RowId> {
    insert(store, &(&inbound.from).into(), inbound, control, done)
}

/// Adds the task of a background task, which waits for a turn like any message. `inbound` names the
/// person on whose behalf it runs, and the address for its result.
pub fn add_task(store: &Connection, origin: &Origin, inbound: &Inbound) -> rusqlite::Result<RowId> {
    insert(store, origin, inbound, false, None)
}

fn insert(
    store: &Connection,
    origin: &Origin,
    inbound: &Inbound,
    control: bool,
    done: Option<InboundOutcome>,
) -> rusqlite::Result<RowId> {
    let (channel, chat, thread) = origin_params(origin);
    store
        .prepare_cached(
            "INSERT INTO inbound
             (key, received, channel, chat, thread, sender, control, message, state, outcome, ready)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            inbound.key,
            Time::now(),
            channel,
            chat,
            thread,
            author_param(&inbound.cause.author()),
            control,
            Json(inbound),
            if done.is_some() { "done" } else { "waiting" },
            done,
            done.is_some() || is_ready(inbound, control)
        ])?;
    Ok(RowId(store.last_insert_rowid()))
}

/// Replaces a message, and its mark as a command, while it waits.
pub fn replace(store: &Connection, inbound: &Inbound, control: bool) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE inbound SET message = ?, control = ?, ready = ?, revision = revision + 1
             WHERE key = ? AND state = 'waiting'",
        )?
        .execute(params![Json(inbound), control, is_ready(inbound, control), inbound.key])?;
    Ok(())
}

/// Returns a waiting message. None if it does not wait.
pub fn waiting(store: &Connection, key: &DedupKey) -> rusqlite::Result<Option<WaitingMessage>> {
    let row = store
        .prepare_cached(
            "SELECT id, received, message, revision, channel, chat, thread FROM inbound WHERE key = ? AND state = 'waiting'",
        )?
        .query_row([key], read_waiting)
        .optional()?;
    Ok(row.and_then(Result::ok))
}

/// Returns messages of a channel whose files have not been fetched: the oldest of each chat, then the
/// second of each, so that one chat does not fill the list.
pub fn unready(store: &Connection, channel: &ChannelName) -> rusqlite::Result<Vec<WaitingMessage>> {
    let mut rows = store.prepare_cached(
        "SELECT id, received, message, revision, channel, chat, thread FROM
             (SELECT id, received, message, revision, channel, chat, thread, row_number() OVER (PARTITION BY chat ORDER BY id) AS place
              FROM inbound INDEXED BY inbound_unready
              WHERE state = 'waiting' AND ready = 0 AND channel = ?)
         ORDER BY place, id LIMIT ?",
    )?;
    let limit = i64::try_from(UNREADY_MAX).expect("a small number");
    let rows = rows.query_map(params![channel, limit], read_waiting)?;
    readable(rows)
}

/// Returns true if a turn may begin with the message. Commands do not wait for files.
fn is_ready(inbound: &Inbound, control: bool) -> bool {
    control || !inbound.body.awaits_files()
}

/// Withdraws a waiting message. Commands stay, because they are handled at once.
pub fn withdraw_by_key(store: &Connection, key: &DedupKey) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = ?
             WHERE key = ? AND state = 'waiting' AND control = 0",
        )?
        .execute(params![InboundOutcome::Withdrawn, key])?;
    Ok(())
}

/// Returns true if the next message at an address still waits for its files, and came from the same
/// person at most `within` after `last`.
pub fn next_is_unready(
    store: &Connection,
    last: &WaitingMessage,
    within: chrono::Duration,
) -> rusqlite::Result<bool> {
    let (channel, chat, thread) = origin_params(&last.origin);
    let until = Time(last.received + within);
    let unready = store
        .prepare_cached(
            "SELECT ready = 0 AND sender = ? AND received <= ? FROM inbound
             WHERE state = 'waiting' AND control = 0 AND channel = ? AND chat = ? AND thread IS ?
             AND id > ? ORDER BY id LIMIT 1",
        )?
        .query_row(
            params![
                author_param(&last.inbound.cause.author()),
                until,
                channel,
                chat,
                thread,
                last.id
            ],
            |row| row.get(0),
        )
        .optional()?;
    Ok(unready == Some(true))
}

/// Returns the number of messages that wait at an address.
pub fn count_waiting(store: &Connection, at: &Address) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "SELECT count(*) FROM inbound
             WHERE state = 'waiting' AND control = 0 AND channel = ? AND chat = ? AND thread IS ?",
        )?
        .query_row(address_params(at), |row| row.get::<_, i64>(0))
        .map(|count| usize::try_from(count).unwrap_or_default())
}

/// Returns the newest row up to `up_to` after which no message waits at an address: what waits belongs to the conversation
/// that answers it.
pub fn last_before_waiting(
    store: &Connection,
    at: &Address,
    up_to: RowId,
) -> rusqlite::Result<RowId> {
    let first: Option<RowId> = store
        .prepare_cached(
            "SELECT min(id) FROM inbound
             WHERE state = 'waiting' AND control = 0 AND channel = ? AND chat = ? AND thread IS ?",
        )?
        .query_row(address_params(at), |row| row.get(0))?;
    Ok(first.map_or(up_to, |first| RowId(first.0 - 1).min(up_to)))
}

/// Returns the origins with waiting messages (not commands), each with its newest row. The origin whose
/// message waits longest is first.
pub fn waiting_origins(store: &Connection) -> rusqlite::Result<Vec<(Origin, RowId)>> {
    let mut rows = store.prepare_cached(
        "SELECT channel, chat, thread, max(id) FROM inbound
         WHERE state = 'waiting' AND control = 0 GROUP BY channel, chat, thread ORDER BY min(id)",
    )?;
    rows.query_map([], |row| Ok((read_origin(row)?, row.get(3)?)))?.collect()
}

/// Returns the waiting commands, oldest first. The index that it reads contains nothing else.
pub fn waiting_commands(store: &Connection) -> rusqlite::Result<WaitingCommands> {
    let mut rows = store.prepare_cached(
        "SELECT id, received, message, revision, channel, chat, thread FROM inbound INDEXED BY inbound_controls
         WHERE state = 'waiting' AND control = 1 ORDER BY id",
    )?;
    let mut controls = WaitingCommands::default();
    for row in rows.query_map([], read_waiting)? {
        match row? {
            Ok(row) => controls.waiting.push(row),
            Err(row) => controls.unreadable.push(row),
        }
    }
    Ok(controls)
}

/// The speaker whose messages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAuthor<'a> {
    /// The one of the first message.
    First,
    /// The same, but messages of tasks that start without a request are passed over.
    FirstOfRequest,
    Of(&'a MessageAuthor),
    /// The same, and the same messages are passed over.
    OfRequest(&'a MessageAuthor),
}

/// Returns the next messages of one speaker for an origin: those within `rows`, up to the first one of another
/// speaker or with files that have not been fetched.
pub fn next(
    store: &Connection,
    at: &Origin,
    rows: RowRange,
    speaker: NextAuthor<'_>,
) -> rusqlite::Result<Vec<WaitingMessage>> {
    let RowRange { after, until } = rows;
    let mut rows = store.prepare_cached(
        "SELECT id, received, message, revision, channel, chat, thread FROM inbound
         WHERE state = 'waiting' AND control = 0 AND channel = ?1 AND chat = ?2 AND thread IS ?3
         AND id > ?4 AND id <= ?5 AND id < ifnull(
             (SELECT min(id) FROM inbound WHERE state = 'waiting' AND control = 0 AND ready = 0
              AND channel = ?1 AND chat = ?2 AND thread IS ?3), 9223372036854775807)
         AND (?7 = 0 OR sender NOT GLOB '(job)*' AND sender NOT GLOB '(heartbeat)*')
         ORDER BY id LIMIT ?6",
    )?;
    let (channel, chat, thread) = origin_params(at);
    let limit = i64::try_from(TAKEN_MAX).expect("a small number");
    let passes_over = matches!(speaker, NextAuthor::FirstOfRequest | NextAuthor::OfRequest(_));
    let rows = readable(rows.query_map(
        params![channel, chat, thread, after, until, limit, passes_over],
        read_waiting,
    )?)?;
    let speaker = match speaker {
        NextAuthor::Of(author) | NextAuthor::OfRequest(author) => Some(author.clone()),
        NextAuthor::First | NextAuthor::FirstOfRequest => {
            rows.first().map(|row| row.inbound.cause.author())
        }
    };
    Ok(rows.into_iter().take_while(|row| Some(row.inbound.cause.author()) == speaker).collect())
}

/// Returns the messages of one person, or of all, at an address within `rows`, up to one whose files have
/// not been fetched.
pub fn ready_messages(
    store: &Connection,
    at: &Address,
    rows: RowRange,
    sender: Option<&SenderId>,
) -> rusqlite::Result<Vec<WaitingMessage>> {
    let mut found = store.prepare_cached(
        "SELECT id, received, message, revision, channel, chat, thread, ready FROM inbound
         WHERE state = 'waiting' AND control = 0 AND channel = ?1 AND chat = ?2 AND thread IS ?3
         AND id > ?4 AND id <= ?5 AND (?6 IS NULL OR sender = ?6) ORDER BY id LIMIT ?7",
    )?;
    let (channel, chat, thread) = address_params(at);
    let (after, until) = (rows.after, rows.until);
    let limit = i64::try_from(TAKEN_MAX).expect("a small number");
    let found = found
        .query_map(params![channel, chat, thread, after, until, sender, limit], |row| {
            Ok((row.get::<_, bool>(7)?, read_waiting(row)?.ok()))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().take_while(|(ready, _)| *ready).filter_map(|(_, row)| row).collect())
}

/// Returns true if a speaker has sent a message within `rows` that a turn could begin with.
pub fn has_ready_message(
    store: &Connection,
    at: &Origin,
    rows: RowRange,
    author: &MessageAuthor,
) -> rusqlite::Result<bool> {
    let (channel, chat, thread) = origin_params(at);
    store
        .prepare_cached(
            "SELECT 1 FROM inbound
             WHERE state = 'waiting' AND control = 0 AND channel = ?1 AND chat = ?2 AND thread IS ?3
             AND sender = ?4 AND id > ?5 AND id <= ?6 AND id < ifnull(
                 (SELECT min(id) FROM inbound WHERE state = 'waiting' AND control = 0 AND ready = 0
                  AND channel = ?1 AND chat = ?2 AND thread IS ?3), 9223372036854775807)",
        )?
        .exists(params![channel, chat, thread, author_param(author), rows.after, rows.until])
}

/// Reads the given rows again if they still wait. Omits rows that wait for other files.
pub fn reread(store: &Connection, rows: &[RowId]) -> rusqlite::Result<Vec<WaitingMessage>> {
    let mut statement = store.prepare_cached(
        "SELECT id, received, message, revision, channel, chat, thread FROM inbound
         WHERE id = ? AND state = 'waiting' AND ready = 1",
    )?;
    let found = rows.iter().map(|row| statement.query_row([row], read_waiting).optional());
    readable(found.filter_map(Result::transpose))
}

/// Returns true if a row still waits, and was not changed since it was read.
fn is_unchanged(store: &Connection, row: &WaitingMessage) -> rusqlite::Result<bool> {
    store
        .prepare_cached(
            "SELECT 1 FROM inbound
             WHERE id = ? AND state = 'waiting' AND ready = 1 AND control = 0 AND revision = ?",
        )?
        .exists(params![row.id, row.revision])
}

/// Returns true if all of these rows still wait, and none was changed since it was read.
pub fn still_wait(store: &Connection, rows: &[WaitingMessage]) -> rusqlite::Result<bool> {
    for row in rows {
        if !is_unchanged(store, row)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Moves waiting rows into a turn. A row that was edited since it was read stays for the next turn.
pub fn move_into_turn(
    store: &Connection,
    rows: &[WaitingMessage],
    turn: TurnId,
) -> rusqlite::Result<()> {
    let mut statement =
        store.prepare_cached("UPDATE inbound SET state = 'in turn', turn = ? WHERE id = ?")?;
    for row in rows {
        if is_unchanged(store, row)? {
            statement.execute(params![turn, row.id])?;
        }
    }
    Ok(())
}

/// Settles the rows of a turn.
pub fn settle_turn(
    store: &Connection,
    turn: TurnId,
    outcome: InboundOutcome,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = ? WHERE turn = ? AND state = 'in turn'",
        )?
        .execute(params![outcome, turn])?;
    Ok(())
}

/// Settles one waiting row. Returns false if it does not wait any more.
pub fn settle(store: &Connection, row: RowId, outcome: InboundOutcome) -> rusqlite::Result<bool> {
    let settled = store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = ? WHERE id = ? AND state = 'waiting'",
        )?
        .execute(params![outcome, row])?;
    Ok(settled > 0)
}
