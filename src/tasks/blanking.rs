//! The columns with texts of jobs and background tasks, to blank words that somebody wants forgotten. A job whose text
//! was blanked is paused.

use crate::bus::forgetting::OUTBOX_TEXTS;
use crate::conversation::blanking::CONVERSATION_TEXTS;
use crate::store::{TextColumns, TextForm};

/// Returns the columns with texts of conversations, tasks and the outbox, but not of steps and the journal.
pub fn all_texts() -> impl Iterator<Item = &'static TextColumns> {
    CONVERSATION_TEXTS.iter().chain(&TASK_TEXTS).chain(&OUTBOX_TEXTS)
}

/// The columns with texts of jobs, tasks and the messages that they sent.
static TASK_TEXTS: [TextColumns; 3] = [
    TextColumns {
        select: "SELECT id, 0, words, details,
                 CASE WHEN json_valid(details) THEN json_extract(details, '$.approved.arguments') END,
                 CASE WHEN json_valid(details) THEN json_extract(details, '$.approved.files') END
                 FROM tasks WHERE (id, 0) > (?1, ?2) AND channel = ?3 AND chat = ?4 ORDER BY id LIMIT ?5",
        // The approved call with other arguments (?5) would not be the one that was approved: no tool takes a string.
        update: "UPDATE tasks SET words = ?3, details = CASE WHEN json_valid(?4) THEN
                     json_replace(?4, '$.approved.arguments',
                         iif(?5 IS iif(json_valid(details), json_extract(details, '$.approved.arguments'), NULL), ?5,
                             '\"[forgotten]\"'),
                     '$.approved.files', json(?6))
                 ELSE ?4 END WHERE id = ?1 AND ?2 = 0",
        columns: &[TextForm::Plain, TextForm::Json, TextForm::Arguments, TextForm::Paths],
        renew: None,
    },
    TextColumns {
        select:
            "SELECT rowid, 0, words FROM task_messages WHERE (rowid, 0) > (?1, ?2) AND channel = ?3
                 AND chat = ?4 ORDER BY rowid LIMIT ?5",
        update: "UPDATE task_messages SET words = ?3 WHERE rowid = ?1 AND ?2 = 0",
        columns: &[TextForm::Plain],
        renew: None,
    },
    TextColumns {
        select:
            "SELECT id, 0, payload FROM jobs WHERE (id, 0) > (?1, ?2) AND channel = ?3 AND chat = ?4
                 ORDER BY id LIMIT ?5",
        update: "UPDATE jobs SET payload = ?3, why = 'its text was forgotten',
                 state = iif(state = 'active', 'paused', state) WHERE id = ?1 AND ?2 = 0",
        columns: &[TextForm::Json],
        renew: None,
    },
];
