//! Tells people, when a turn ends, of the calls that it did not make because nobody could be asked.

use chrono::Utc;
use rusqlite::Connection;

use crate::conversation::deferred;
use crate::tasks::deferred_report::DeferredReport;
use crate::tasks::heartbeat;
use crate::types::session::TurnId;

/// Sends the message about a turn that is about to end, or holds it back until the quiet hours are over.
pub(crate) fn report(store: &Connection, turn: TurnId, holds: bool) -> rusqlite::Result<()> {
    take_report(store, turn, holds)?.map_or(Ok(()), |report| report.send(store))
}

/// Returns the message about a turn that is about to end, which the caller sends after the answer. None if there is none,
/// or if it is held back until the quiet hours are over. A heartbeat run does not repeat itself: the end of the turn
/// drops what nobody is told of.
pub(crate) fn take_report(
    store: &Connection,
    turn: TurnId,
    holds: bool,
) -> rusqlite::Result<Option<DeferredReport>> {
    let Some(report) = DeferredReport::of(store, turn)? else { return Ok(None) };
    if !heartbeat::may_send(store, turn, &report.to, &report.text, report.tainted)? {
        return Ok(None);
    }
    if holds {
        deferred::hold(store, turn)?;
        return Ok(None);
    }
    report.open_calls(store, Utc::now())?;
    Ok(Some(report))
}
