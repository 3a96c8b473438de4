//! The running turn of a conversation, in the form of the events it has emitted so far, for observers who subscribe in
//! its middle.

use rusqlite::{Connection, OptionalExtension, params};

use super::calls;
use crate::bus::journal::origin_params;
use crate::conversation::ledger;
use crate::conversation::sessions::open_for;
use crate::types::event::EventKind;
use crate::types::origin::Origin;
use crate::types::session::{Call, CallOutcome, TurnId};

/// A turn that has not ended.
pub(crate) struct RunningTurn {
    pub(crate) id: TurnId,
    /// Its events without the first: each step that the model has answered, its tokens, and its calls.
    pub(crate) events: Vec<EventKind>,
}

/// Returns the unfinished turn of a conversation.
pub(crate) fn running_turn(
    store: &Connection,
    origin: &Origin,
) -> rusqlite::Result<Option<RunningTurn>> {
    let (channel, chat, thread) = origin_params(origin);
    let turn: Option<TurnId> = store
        .prepare_cached(&format!(
            "SELECT id FROM turns WHERE ending IS NULL
                 AND session = (SELECT id FROM sessions WHERE {}) ORDER BY id LIMIT 1",
            open_for(origin)
        ))?
        .query_row((channel, chat, thread.unwrap_or_default()), |row| row.get(0))
        .optional()?;
    let Some(turn) = turn else { return Ok(None) };
    let (used, calls) = (ledger::usage_by_completion(store, turn)?, calls_of(store, turn)?);
    let steps = calls.iter().map(|call| call.step + 1).max().unwrap_or_default().max(used.len());
    let mut events = Vec::new();
    for step in 0..steps {
        events.push(EventKind::StepStart { step });
        events.extend(used.get(step).map(|(usage, cost)| EventKind::StepEnd {
            step,
            input: usage.input,
            cached: usage.cached,
            output: usage.output,
            cost: *cost,
        }));
        let of_step = calls.iter().filter(|call| call.step == step);
        of_step.for_each(|call| call.push_events(&mut events));
    }
    let is_over = |call: &StepCall| call.has_begun() && call.has_ended();
    if steps > 0 && calls.iter().all(is_over) {
        // The model works on the next step.
        events.push(EventKind::StepStart { step: steps });
    }
    Ok(Some(RunningTurn { id: turn, events }))
}

/// A call of a step.
struct StepCall {
    step: usize,
    call: Call,
    ms: Option<u64>,
}

impl StepCall {
    fn has_begun(&self) -> bool {
        !matches!(self.call.outcome, CallOutcome::Planned | CallOutcome::Skipped)
    }

    fn has_ended(&self) -> bool {
        !matches!(self.call.outcome, CallOutcome::Waiting | CallOutcome::Running { .. })
    }

    fn push_events(&self, events: &mut Vec<EventKind>) {
        let call = &self.call;
        if !self.has_begun() {
            return;
        }
        events.push(EventKind::ToolStart {
            action: call.id,
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        });
        if !self.has_ended() {
            return;
        }
        events.push(EventKind::ToolEnd {
            action: call.id,
            tool: call.tool.clone(),
            result: call.outcome.for_model().to_owned(),
            failed: call.outcome.is_error(),
            ms: self.ms.unwrap_or_default(),
        });
        if !call.sources.is_empty() {
            events.push(EventKind::Sources { action: call.id, sources: call.sources.clone() });
        }
    }
}

fn calls_of(store: &Connection, turn: TurnId) -> rusqlite::Result<Vec<StepCall>> {
    let mut rows = store.prepare_cached(
        "SELECT step, id, wire_id, tool, arguments, state, intent, output, images, turn, sources, ended - started
         FROM calls WHERE turn = ? ORDER BY id",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let ms: Option<i64> = row.get(11)?;
        let ms = ms.and_then(|ms| u64::try_from(ms).ok());
        Ok(StepCall { step: row.get(0)?, call: calls::read(row)?, ms })
    };
    rows.query_map(params![turn], read)?.collect()
}
