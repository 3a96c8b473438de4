//! Stores the changes of a session and its turns by a compaction.

use std::ops::Range;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::conversation::sources::KeptSources;
use crate::store::{Json, Time};
use crate::types::session::{FrozenContext, SessionId, StepMark, Turn, TurnId};
use crate::types::source::{self, Source};
use crate::types::summary::SourcedSummary;

/// The beginning of the part of a session that the model sees: a turn, of which the first steps may be summarized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TranscriptStart {
    pub(crate) turn: TurnId,
    pub(crate) step: usize,
}

/// The summaries of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summaries {
    /// The summary that the model is shown, if there is one.
    pub(crate) shown: Option<String>,
    pub(crate) sources: Vec<Source>,
    /// Of the trusted parts, where what is shown has untrusted ones, too.
    pub(crate) trusted: Option<SourcedSummary>,
    /// Of all that was said, where what is shown has the trusted parts alone. Only a call shows it.
    pub(crate) whole: Option<SourcedSummary>,
    /// Number of parts that what is shown leaves out.
    pub(crate) left_out: usize,
}

/// Makes a range of turns part of the summary. Returns false if the session is closed or no longer begins with
/// the range. The frozen memory is replaced now, or when the next turn begins.
pub(crate) fn compact(
    store: &Connection,
    session: SessionId,
    range: &Range<TranscriptStart>,
    summaries: &Summaries,
    frozen: Option<&FrozenContext>,
) -> rusqlite::Result<bool> {
    let Summaries { shown, sources, trusted, whole, left_out } = summaries;
    // A turn that ran meanwhile was shown what is left out, and may retell it. What was noted has its own sources.
    let is_retold = match whole {
        Some(_) => store
            .prepare_cached("SELECT 1 FROM turns WHERE session = ? AND id >= ? AND noted = 0")?
            .exists(params![session, range.end.turn])?,
        None => false,
    };
    let (sources, trusted) = match whole.as_ref().filter(|_| is_retold) {
        Some(whole) => {
            let text = shown.clone();
            let trusted = text.map(|text| SourcedSummary { text, sources: sources.clone() });
            (&whole.sources, trusted)
        }
        None => (sources, trusted.clone()),
    };
    let changed = store
        .prepare_cached(
            "UPDATE sessions SET summary = ?, summary_sources = ?,
                 trusted_summary = ?, trusted_sources = ?,
                 untrusted_summary = ifnull(?, untrusted_summary),
                 untrusted_sources = ifnull(?, untrusted_sources), left_out = left_out + ?,
                 begins = ?, begins_step = ?, frozen = ?
             WHERE id = ? AND begins = ? AND begins_step = ? AND closed IS NULL",
        )?
        .execute(params![
            shown,
            Json(sources),
            trusted.as_ref().map(|trusted| &trusted.text),
            trusted.as_ref().map(|trusted| Json(&trusted.sources)),
            whole.as_ref().map(|whole| &whole.text),
            whole.as_ref().map(|whole| Json(&whole.sources)),
            left_out,
            range.end.turn,
            range.end.step,
            frozen.map(Json),
            session,
            range.start.turn,
            range.start.step
        ])?;
    Ok(changed > 0)
}

/// Returns the summary of everything before a session's turns, if the model is shown only the trusted parts.
pub(crate) fn whole_summary(
    store: &Connection,
    session: SessionId,
) -> rusqlite::Result<Option<SourcedSummary>> {
    let found = store
        .prepare_cached("SELECT untrusted_summary, untrusted_sources FROM sessions WHERE id = ?")?
        .query_row([session], |row| {
            let text: Option<String> = row.get(0)?;
            let KeptSources(sources) = row.get(1)?;
            let sources = sources.unwrap_or_else(|| vec![Source::Unknown]);
            Ok(text.map(|text| SourcedSummary { text, sources }))
        })
        .optional()?;
    Ok(found.flatten())
}

/// Adds a text to what only a call shows of a session.
pub(crate) fn leave_out(
    store: &Connection,
    session: SessionId,
    text: &str,
    source: &Source,
) -> rusqlite::Result<()> {
    let mut whole = whole_summary(store, session)?.unwrap_or_default();
    let gap = if whole.text.is_empty() { "" } else { "\n\n" };
    whole.text.push_str(gap);
    whole.text.push_str(text);
    source::add(&mut whole.sources, source);
    store
        .prepare_cached(
            "UPDATE sessions SET untrusted_summary = ?, untrusted_sources = ?, left_out = left_out + 1
             WHERE id = ?",
        )?
        .execute(params![whole.text, Json(&whole.sources), session])?;
    Ok(())
}

/// Returns true if no turn of a session has ended since a time, and none runs. What the program has noted does not count.
pub(crate) fn is_quiet_since(
    store: &Connection,
    session: SessionId,
    since: DateTime<Utc>,
) -> rusqlite::Result<bool> {
    let last: Option<Option<Time>> = store
        .prepare_cached(
            "SELECT ended FROM turns WHERE session = ? AND noted = 0 ORDER BY id DESC LIMIT 1",
        )?
        .query_row([session], |row| row.get(0))
        .optional()?;
    // One that has not ended has no time.
    Ok(last.is_none_or(|ended| ended.is_some_and(|Time(ended)| ended <= since)))
}

/// Returns the first turn from `begins` on that ended after a time. In a conversation that is quiet since then, the
/// program has noted it.
pub(crate) fn first_since(
    store: &Connection,
    session: SessionId,
    begins: TurnId,
    since: DateTime<Utc>,
) -> rusqlite::Result<Option<TurnId>> {
    store
        .prepare_cached("SELECT min(id) FROM turns WHERE session = ? AND id >= ? AND ended > ?")?
        .query_row(params![session, begins, Time(since)], |row| row.get(0))
}

/// Marks the steps that are part of the summary.
pub(crate) fn mark_summarized(turns: &mut [Turn], begins: TurnId, steps: usize) {
    let first = turns.iter_mut().filter(|turn| turn.id == begins);
    first
        .flat_map(|turn| turn.steps.iter_mut().take(steps))
        .for_each(|step| step.is_summarized = true);
}

/// Stores the frozen part of a session's prompt, unless it is stored already.
pub(crate) fn set_frozen(
    store: &Connection,
    session: SessionId,
    frozen: &FrozenContext,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE sessions SET frozen = ?1 WHERE id = ?2 AND frozen IS NOT ?1")?
        .execute(params![Json(frozen), session])?;
    Ok(())
}

/// Returns the size in bytes of a session's texts since the last notes, without results of calls.
pub(crate) fn bytes_since_notes(store: &Connection, session: SessionId) -> rusqlite::Result<u64> {
    store
        .prepare_cached(
            "SELECT ifnull(sum(length(ifnull(input, '')) + length(text)), 0) FROM steps
             WHERE turn IN (SELECT id FROM turns WHERE session = ?1 AND id >
             (SELECT ifnull(max(id), 0) FROM turns WHERE session = ?1 AND silent))",
        )?
        .query_row([session], |row| row.get(0))
}

/// Stores that results before the mark are shortened.
pub(crate) fn set_shortened(
    store: &Connection,
    session: SessionId,
    mark: StepMark,
) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE sessions SET shortened = ? WHERE id = ?")?
        .execute(params![Json(&mark), session])?;
    Ok(())
}

pub(crate) fn is_open(store: &Connection, session: SessionId) -> rusqlite::Result<bool> {
    store
        .prepare_cached("SELECT 1 FROM sessions WHERE id = ? AND closed IS NULL")?
        .exists([session])
}

/// Marks a turn as silent: the program began it for itself, and nobody gets its result.
pub(crate) fn set_silent(store: &Connection, turn: TurnId) -> rusqlite::Result<()> {
    store.prepare_cached("UPDATE turns SET silent = 1 WHERE id = ?")?.execute([turn])?;
    Ok(())
}
