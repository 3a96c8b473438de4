//! Tells people, when a turn ends, of the calls that it did not make because nobody could be asked.

use chrono::Utc;
use rusqlite::Connection;

use crate::conversation::deferred;
use crate::tasks::deferred_report::DeferredReport;
use crate::tasks::heartbeat;
use crate::types::session::TurnId;

/// Sends the message about a turn that is about to end, or holds it back until the quiet hours are over. A heartbeat run
/// does not repeat itself: the end of the turn drops what nobody is told of.
pub(crate) fn report(store: &Connection, turn: TurnId, holds: bool) -> rusqlite::Result<()> {
    let Some(report) = DeferredReport::of(store, turn)? else { return Ok(()) };
    if !heartbeat::may_send(store, turn, &report.to, &report.text, report.tainted)? {
        return Ok(());
    }
    match holds {
        true => deferred::hold(store, turn),
        false => report.send(store, Utc::now()),
    }
}
