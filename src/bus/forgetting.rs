//! The texts of messages, for words that somebody wants forgotten: those that were accepted, and those on their way out.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::bus::journal::RowId;
use crate::memory::attachments;
use crate::store::{FORGOTTEN, ForgottenWords, Json, LenientJson, TextColumns, TextForm};
use crate::types::message::{Address, Body, Inbound, InboundContent};

/// A row of the journal and one of the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRange {
    inbound: i64,
    outbox: i64,
}

impl MessageRange {
    /// The same with another row of the journal.
    pub fn at(self, row: RowId) -> Self {
        Self { inbound: row.0, ..self }
    }
}

/// Returns the newest rows.
pub fn newest(store: &Connection) -> rusqlite::Result<MessageRange> {
    store
        .prepare_cached("SELECT (SELECT max(id) FROM inbound), (SELECT max(id) FROM outbox)")?
        .query_row([], |row| {
            let number = |at| row.get::<_, Option<i64>>(at).map(Option::unwrap_or_default);
            Ok(MessageRange { inbound: number(0)?, outbox: number(1)? })
        })
}

/// Erases the texts of all messages of an address after some rows and up to others. Returns false, and changes nothing,
/// if one of them is still on its way. The rows stay, so that a message that is delivered again is known.
pub fn erase(
    store: &Connection,
    at: &Address,
    after: MessageRange,
    up_to: MessageRange,
) -> rusqlite::Result<bool> {
    let thread = at.thread.as_ref().map_or("", |thread| thread.as_str());
    let open: i64 = store
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
    if open > 0 {
        return Ok(false);
    }
    attachments::remove_rows(store, at, after.inbound, up_to.inbound)?;
    let mut rows = store.prepare_cached(
        "SELECT id, message FROM inbound WHERE channel = ?1 AND chat = ?2 AND ifnull(thread, '') = ?3
         AND id > ?4 AND id <= ?5",
    )?;
    let of = params![at.channel, at.chat, thread, after.inbound, up_to.inbound];
    let said = rows
        .query_map(of, |row| Ok((row.get::<_, RowId>(0)?, row.get::<_, LenientJson<Inbound>>(1)?)))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut blank = store
        .prepare_cached("UPDATE inbound SET message = ?2, revision = revision + 1 WHERE id = ?1")?;
    for (row, message) in said {
        match message.0 {
            Some(message) => {
                let body =
                    InboundContent { text: FORGOTTEN.to_owned(), ..InboundContent::default() };
                blank.execute(params![row, Json(&Inbound { body, ..message })])?;
            }
            // One that nobody can read any more.
            None => drop(blank.execute(params![row, "{}"])?),
        }
    }
    let nothing = Json(Body::Text(FORGOTTEN.to_owned()));
    let of = params![at.channel, at.chat, thread, after.outbox, up_to.outbox, nothing];
    store
        .prepare_cached(
            "UPDATE chunks SET body = ?6 WHERE delivery IN (SELECT id FROM outbox WHERE channel = ?1 AND chat = ?2
             AND ifnull(thread, '') = ?3 AND id > ?4 AND id <= ?5)",
        )?
        .execute(of)?;
    store
        .prepare_cached(
            "UPDATE outbox SET body = ?6 WHERE channel = ?1 AND chat = ?2 AND ifnull(thread, '') = ?3
             AND id > ?4 AND id <= ?5",
        )?
        .execute(of)?;
    Ok(true)
}

/// The texts of the journal.
pub static JOURNAL_TEXTS: TextColumns = TextColumns {
    select: "SELECT id, 0, message FROM inbound WHERE (id, 0) > (?1, ?2) AND channel = ?3
                 AND chat = ?4 ORDER BY id LIMIT ?5",
    update: "UPDATE inbound SET message = ?3, revision = revision + 1 WHERE id = ?1 AND ?2 = 0",
    columns: &[TextForm::Json],
    renew: None,
};

/// The texts of the outbox.
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

/// Blanks a row of the journal that was carried out, whose words were needed until then.
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
