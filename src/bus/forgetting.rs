//! The texts of messages, for words that somebody wants forgotten: those that were accepted, and those on their way out.

use rusqlite::{Connection, params};

use crate::bus::journal::RowId;
use crate::store::{ForgottenWords, TextColumns, TextForm};

/// The texts of the journal.
pub static JOURNAL_TEXTS: TextColumns = TextColumns {
    select: "SELECT id, 0, message FROM inbound WHERE (id, 0) > (?1, ?2) AND channel = ?3
                 AND chat = ?4 ORDER BY id LIMIT ?5",
    update: "UPDATE inbound SET message = ?3, revision = revision + 1 WHERE id = ?1 AND ?2 = 0",
    columns: &[TextForm::Json],
};

/// The texts of the outbox.
pub static OUTBOX_TEXTS: [TextColumns; 2] = [
    TextColumns {
        select:
            "SELECT id, 0, body FROM outbox WHERE (id, 0) > (?1, ?2) AND channel = ?3 AND chat = ?4
                 ORDER BY id LIMIT ?5",
        update: "UPDATE outbox SET body = ?3 WHERE id = ?1 AND ?2 = 0",
        columns: &[TextForm::Json],
    },
    TextColumns {
        select: "SELECT c.delivery, c.seq, c.body FROM chunks c JOIN outbox o ON o.id = c.delivery
                 WHERE (c.delivery, c.seq) > (?1, ?2) AND o.channel = ?3 AND o.chat = ?4
                 ORDER BY c.delivery, c.seq LIMIT ?5",
        update: "UPDATE chunks SET body = ?3 WHERE delivery = ?1 AND seq = ?2",
        columns: &[TextForm::Json],
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
