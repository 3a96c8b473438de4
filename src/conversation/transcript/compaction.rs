//! Stores the changes of a session and its turns by a compaction.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, params};

use crate::conversation::sources::KeptSources;
use crate::store::Json;
use crate::types::session::{FrozenContext, SessionId, StepMark, Turn, TurnId};
use crate::types::source::Source;

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
    /// The summary of the whole conversation, if the shown one has only the trusted parts.
    pub(crate) whole: Option<WholeSummary>,
}

/// A summary of trusted and untrusted parts, which the model sees only through a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WholeSummary {
    pub(crate) text: String,
    pub(crate) sources: Vec<Source>,
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
    let Summaries { shown, sources, whole } = summaries;
    // A turn that ran meanwhile was shown the untrusted parts, and may have repeated them.
    let may_be_repeated = match whole {
        Some(_) => store
            .prepare_cached("SELECT 1 FROM turns WHERE session = ? AND id >= ?")?
            .exists(params![session, range.end.turn])?,
        None => false,
    };
    let sources =
        whole.as_ref().filter(|_| may_be_repeated).map_or(sources, |whole| &whole.sources);
    let changed = store
        .prepare_cached(
            "UPDATE sessions SET summary = ?, summary_sources = ?,
                 untrusted_summary = ifnull(?, untrusted_summary),
                 untrusted_sources = ifnull(?, untrusted_sources),
                 begins = ?, begins_step = ?, frozen = ?
             WHERE id = ? AND begins = ? AND begins_step = ? AND closed IS NULL",
        )?
        .execute(params![
            shown,
            Json(sources),
            whole.as_ref().map(|whole| &whole.text),
            whole.as_ref().map(|whole| Json(&whole.sources)),
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
) -> rusqlite::Result<Option<WholeSummary>> {
    let found = store
        .prepare_cached("SELECT untrusted_summary, untrusted_sources FROM sessions WHERE id = ?")?
        .query_row([session], |row| {
            let text: Option<String> = row.get(0)?;
            let KeptSources(sources) = row.get(1)?;
            let sources = sources.unwrap_or_else(|| vec![Source::Unknown]);
            Ok(text.map(|text| WholeSummary { text, sources }))
        })
        .optional()?;
    Ok(found.flatten())
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
pub(crate) fn said_since_notes(store: &Connection, session: SessionId) -> rusqlite::Result<u64> {
    store
        .prepare_cached(
            "SELECT ifnull(sum(length(ifnull(heard, '')) + length(text)), 0) FROM steps
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
