//! Erases or blanks the texts of incoming and outgoing messages when somebody wants them forgotten.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::RowId;
use crate::memory::attachments;
use crate::store::{FORGOTTEN, ForgottenWords, Json, LenientJson, TextColumns, TextForm};
use crate::types::message::{Address, Body, Inbound, InboundContent};

/// A position: a row of the journal and one of the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRange {
    inbound: i64,
    outbox: i64,
}

impl MessageRange {
    /// Returns the position with another row of the journal.
    pub fn at(self, row: RowId) -> Self {
        Self { inbound: row.0, ..self }
    }
}

/// Returns the position of the newest rows.
pub fn newest(store: &Connection) -> rusqlite::Result<MessageRange> {
    store
        .prepare_cached("SELECT (SELECT max(id) FROM inbound), (SELECT max(id) FROM outbox)")?
        .query_row([], |row| {
            let number = |column| row.get::<_, Option<i64>>(column).map(Option::unwrap_or_default);
            Ok(MessageRange { inbound: number(0)?, outbox: number(1)? })
        })
}

/// Erases the texts of all messages of an address between two positions. Returns false, and changes nothing, if one of
/// them is unfinished. The rows stay, so that a redelivered message is recognized.
pub fn erase(
    store: &Connection,
    at: &Address,
    after: MessageRange,
    up_to: MessageRange,
) -> rusqlite::Result<bool> {
    let thread = at.thread.as_ref().map_or("", |thread| thread.as_str());
    let unfinished: i64 = store
        .prepare_cached(
            "SELECT (SELECT count(*) FROM inbound WHERE channel = ?1 AND chat = ?2 AND ifnull(thread, '') = ?3
                 AND id > ?4 AND id <= ?5 AND state <> 'done')
             + (SELECT count(*) FROM outbox WHERE channel = ?1 AND chat = ?2 AND ifnull(thread, '') = ?3
                 AND id > ?6 AND id <= ?7 AND state = 'pending')",
        )?
        .query_row(
            params![at.channel, at.chat, thread, after.inbound, up_to.inbound, after.outbox, up_to.outbox],
            |row| row.get(0),
        )?;
    if unfinished > 0 {
        return Ok(false);
    }
    attachments::remove_rows(store, at, after.inbound, up_to.inbound)?;
    let mut rows = store.prepare_cached(
        "SELECT id, message FROM inbound WHERE channel = ?1 AND chat = ?2 AND ifnull(thread, '') = ?3
         AND id > ?4 AND id <= ?5",
    )?;
    let range = params![at.channel, at.chat, thread, after.inbound, up_to.inbound];
    let messages = rows
        .query_map(range, |row| {
            Ok((row.get::<_, RowId>(0)?, row.get::<_, LenientJson<Inbound>>(1)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut blank = store
        .prepare_cached("UPDATE inbound SET message = ?2, revision = revision + 1 WHERE id = ?1")?;
    for (row, message) in messages {
        match message.0 {
            Some(message) => {
                let body =
                    InboundContent { text: FORGOTTEN.to_owned(), ..InboundContent::default() };
                blank.execute(params![row, Json(&Inbound { body, ..message })])?;
            }
            // An unreadable message.
            None => drop(blank.execute(params![row, "{}"])?),
        }
    }
    let nothing = Json(Body::Text(FORGOTTEN.to_owned()));
    let range = params![at.channel, at.chat, thread, after.outbox, up_to.outbox, nothing];
    store
        .prepare_cached(
            "UPDATE chunks SET body = ?6 WHERE delivery IN (SELECT id FROM outbox WHERE channel = ?1 AND chat = ?2
             AND ifnull(thread, '') = ?3 AND id > ?4 AND id <= ?5)",
        )?
        .execute(range)?;
    store
        .prepare_cached(
            "UPDATE outbox SET body = ?6 WHERE channel = ?1 AND chat = ?2 AND ifnull(thread, '') = ?3
             AND id > ?4 AND id <= ?5",
        )?
        .execute(range)?;
    Ok(true)
}

/// The columns of the journal with texts.
pub static JOURNAL_TEXTS: TextColumns = TextColumns {
    select: "SELECT id, 0, message FROM inbound WHERE (id, 0) > (?1, ?2) AND channel = ?3
                 AND chat = ?4 ORDER BY id LIMIT ?5",
    update: "UPDATE inbound SET message = ?3, revision = revision + 1 WHERE id = ?1 AND ?2 = 0",
    columns: &[TextForm::Json],
    renew: None,
};

/// The columns of the outbox with texts.
pub static OUTBOX_TEXTS: [TextColumns; 2] = [
    TextColumns {
        select:
            "SELECT id, 0, body FROM outbox WHERE (id, 0) > (?1, ?2) AND channel = ?3 AND chat = ?4
                 ORDER BY id LIMIT ?5",
        update: "UPDATE outbox SET body = ?3 WHERE id = ?1 AND ?2 = 0",
        columns: &[TextForm::Json],
        renew: None,
    },
    TextColumns {
        select: "SELECT c.delivery, c.seq, c.body FROM chunks c JOIN outbox o ON o.id = c.delivery
                 WHERE (c.delivery, c.seq) > (?1, ?2) AND o.channel = ?3 AND o.chat = ?4
                 ORDER BY c.delivery, c.seq LIMIT ?5",
        update: "UPDATE chunks SET body = ?3 WHERE delivery = ?1 AND seq = ?2",
        columns: &[TextForm::Json],
        renew: None,
    },
];

/// Blanks the words in a row of the journal: the command itself, once it was carried out.
pub fn blank_row(store: &Connection, row: RowId, words: &ForgottenWords) -> rusqlite::Result<()> {
    let message: String = store
        .prepare_cached("SELECT message FROM inbound WHERE id = ?")?
        .query_row([row], |row| row.get(0))?;
    let Some(blanked) = words.blanked_json(&message, TextForm::Json) else { return Ok(()) };
    store
        .prepare_cached("UPDATE inbound SET message = ? WHERE id = ?")?
        .execute(params![blanked, row])
        .map(drop)
}
