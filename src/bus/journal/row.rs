//! A row of the journal: a waiting message, and the outcomes of messages.

use chrono::{DateTime, Utc};
use rusqlite::Row;

use super::origins::read_origin_at;
use crate::people::persons::PersonAccount;
use crate::store::{Json, Time, integer_columns, text_columns};
use crate::types::message::{Inbound, Sender};
use crate::types::origin::Origin;
use crate::types::words::words;

/// The id of a row of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub i64);

integer_columns!(RowId);

/// A range of rows: after one, up to and including another.
#[derive(Clone, Copy, Debug)]
pub struct RowRange {
    pub after: RowId,
    pub until: RowId,
}

impl RowRange {
    pub fn after(after: RowId) -> Self {
        Self { after, until: RowId(i64::MAX) }
    }
}

/// An accepted message that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingMessage {
    pub id: RowId,
    pub received: DateTime<Utc>,
    /// The conversation or task that it belongs to.
    pub origin: Origin,
    pub inbound: Inbound,
    /// Number of changes of the row, to detect a change since it was read.
    pub(crate) revision: i64,
}

impl WaitingMessage {
    pub fn sender(&self) -> &Sender {
        self.inbound.cause.sender()
    }

    /// Returns the account of the sender on the channel of the message.
    pub fn account(&self) -> PersonAccount {
        let channel = self.inbound.from.channel.clone();
        PersonAccount { channel, sender: self.sender().id.clone() }
    }
}

/// Outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboundOutcome {
    Answered,
    /// A command that was carried out.
    Handled,
    /// Refused or failed. Its sender got an explanation.
    Refused,
    Stopped,
    /// Too old when it arrived. Its sender got one line.
    Late,
    /// Deleted by its sender before the work on it began.
    Withdrawn,
    /// Part of a loop of bots.
    TurnedAway,
}

words!(InboundOutcome {
    Answered = "answered",
    Handled = "obeyed",
    Refused = "refused",
    Stopped = "stopped",
    Late = "late",
    Withdrawn = "withdrawn",
    TurnedAway = "turned away",
});

// An unknown outcome of a newer version counts as stopped.
text_columns!(InboundOutcome = |text| Self::parse(text).unwrap_or(Self::Stopped));

/// A waiting row that cannot be read, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRow {
    pub id: RowId,
    pub why: String,
}

/// Reads the columns `id, received, message, revision, channel, chat, thread`. The outer error concerns
/// the store, the inner one only this row.
pub(crate) fn read_waiting(
    row: &Row<'_>,
) -> rusqlite::Result<Result<WaitingMessage, UnreadableRow>> {
    let (id, Time(received)) = (row.get(0)?, row.get(1)?);
    let (revision, origin) = (row.get(3)?, read_origin_at(row, 4)?);
    Ok(match row.get(2) {
        Ok(Json(inbound)) => Ok(WaitingMessage { id, received, origin, inbound, revision }),
        Err(why) => Err(UnreadableRow { id, why: why.to_string() }),
    })
}

/// Returns the rows that can be read.
pub(crate) fn readable(
    rows: impl Iterator<Item = rusqlite::Result<Result<WaitingMessage, UnreadableRow>>>,
) -> rusqlite::Result<Vec<WaitingMessage>> {
    rows.filter_map(|row| row.map(Result::ok).transpose()).collect()
}
