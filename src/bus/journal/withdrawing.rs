//! Withdraws rows that wait, so that no turn begins with them and no command is carried out.

use rusqlite::types::ToSql;
use rusqlite::{Connection, params};

use super::origins::{author_param, origin_params};
use super::row::RowId;
use crate::people::persons::PersonAccount;
use crate::types::message::{MessageAuthor, SenderId};
use crate::types::origin::Origin;

/// The numbers of rows that were withdrawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithdrawnRows {
    /// Messages and commands, which people have sent.
    pub by_people: usize,
    /// Assignments of background tasks, of which people know nothing.
    pub of_tasks: usize,
}

impl WithdrawnRows {
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Withdraws the commands that wait at an address and are older than `before`. Messages go on waiting.
pub fn withdraw_commands(
    store: &Connection,
    at: &Origin,
    before: RowId,
) -> rusqlite::Result<WithdrawnRows> {
    let (channel, chat, thread) = origin_params(at);
    withdraw_where(store, "control = 1", params![channel, chat, thread, before])
}

/// Withdraws the messages that wait at an address and are older than `before`: all of them, or one
/// sender's. Includes commands: one that still waits is carried out next to the conversation.
pub fn withdraw(
    store: &Connection,
    at: &Origin,
    before: RowId,
    sender: Option<&SenderId>,
) -> rusqlite::Result<WithdrawnRows> {
    let (channel, chat, thread) = origin_params(at);
    let params = params![channel, chat, thread, before, sender];
    withdraw_where(store, "(?5 IS NULL OR sender = ?5)", params)
}

/// Withdraws rows that match a condition. Its first parameters are those of an origin, and the row before which they are.
fn withdraw_where(
    store: &Connection,
    condition: &str,
    params: &[&dyn ToSql],
) -> rusqlite::Result<WithdrawnRows> {
    // The sender of a task is in brackets.
    let mut statement = store.prepare_cached(&format!(
        "UPDATE inbound SET state = 'done', outcome = 'stopped'
         WHERE state = 'waiting' AND channel = ?1 AND chat = ?2 AND thread IS ?3 AND id < ?4
         AND {condition} RETURNING substr(sender, 1, 1) = '('"
    ))?;
    let mut withdrawn = WithdrawnRows::default();
    for is_task in statement.query_map(params, |row| row.get::<_, bool>(0))? {
        match is_task? {
            true => withdrawn.of_tasks += 1,
            false => withdrawn.by_people += 1,
        }
    }
    Ok(withdrawn)
}

/// Withdraws everything that an account has waiting in private chats, including commands.
pub fn withdraw_private_of(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    let author = MessageAuthor::Person(account.sender.clone());
    store
        .prepare_cached(
            "UPDATE inbound SET state = 'done', outcome = 'stopped'
             WHERE state = 'waiting' AND channel = ? AND sender = ? AND iif(json_valid(message),
             ifnull(json_extract(message, '$.chat_kind'), json_extract(message, '$.place')),
             'private') = 'private'",
        )?
        .execute(params![account.channel, author_param(&author)])
        .map(drop)
}
