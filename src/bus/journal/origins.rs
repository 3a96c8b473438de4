//! The stored form of an origin, which only this module knows. Tables have three columns for an address:
//! `channel`, `chat` and `thread`. For a background task they contain its kind in brackets, its number,
//! and the channel on which its person is known. No channel of the config can have such a name.

use std::borrow::Cow;

use rusqlite::Row;

use crate::types::message::{Address, DedupKey, MessageAuthor};
use crate::types::origin::{Origin, TaskId, TaskKind};

/// Returns the values of the columns `channel`, `chat` and `thread`.
pub fn origin_params(origin: &Origin) -> (Cow<'_, str>, Cow<'_, str>, Option<&str>) {
    match origin {
        Origin::Chat(address) => {
            let (channel, chat, thread) = address_params(address);
            (channel.into(), chat.into(), thread)
        }
        Origin::Task { task, known_on } => {
            let channel = task_channel(task.kind);
            (channel.into(), task.number.to_string().into(), Some(known_on.as_str()))
        }
    }
}

/// Reads the origin in the first three columns.
pub fn read_origin(row: &Row<'_>) -> rusqlite::Result<Origin> {
    read_origin_at(row, 0)
}

/// Reads the origin in three columns from `first` on.
pub fn read_origin_at(row: &Row<'_>, first: usize) -> rusqlite::Result<Origin> {
    let kind = task_kind(row.get_ref(first)?.as_str()?);
    let number = row.get_ref(first + 1)?.as_str()?.parse().ok();
    let known_on: Option<String> = row.get(first + 2)?;
    if let (Some(kind), Some(number), Some(known_on)) = (kind, number, known_on) {
        return Ok(TaskId::new(kind, number).origin(&known_on.into()));
    }
    read_address_at(row, first).map(Origin::Chat)
}

/// Returns the value of the column `channel` of a task.
pub fn task_channel(kind: TaskKind) -> String {
    format!("({})", kind.as_str())
}

/// Returns the value of the column `sender`. For a task it is in brackets, so it cannot be a person's id.
pub fn author_param(author: &MessageAuthor) -> Cow<'_, str> {
    match author {
        MessageAuthor::Person(id) => id.as_str().into(),
        MessageAuthor::Task { kind, number: None } => task_channel(*kind).into(),
        MessageAuthor::Task { kind, number: Some(number) } => {
            format!("{}:{number}", task_channel(*kind)).into()
        }
    }
}

/// Returns the kind of the task that a value of the column `sender` names. None for a person.
pub(super) fn author_task(sender: &str) -> Option<TaskKind> {
    let (kind, _) = sender.strip_prefix('(')?.split_once(')')?;
    TaskKind::parse(kind)
}

/// Returns the dedup key of a task's row. `mark` distinguishes several rows of one task.
pub fn task_key(task: TaskId, mark: Option<i64>) -> DedupKey {
    let (channel, number) = (task_channel(task.kind), task.number);
    mark.map_or(format!("{channel}:{number}"), |mark| format!("{channel}:{number}:{mark}")).into()
}

fn task_kind(channel: &str) -> Option<TaskKind> {
    TaskKind::parse(channel.strip_prefix('(')?.strip_suffix(')')?)
}

/// Returns the values of [`address_params`] for a comparison with `ifnull(thread, '')`.
pub fn address_key_params(at: &Address) -> (&str, &str, &str) {
    let (channel, chat, thread) = address_params(at);
    (channel, chat, thread.unwrap_or_default())
}

/// Returns the values of the columns `channel`, `chat` and `thread` of an address.
pub fn address_params(at: &Address) -> (&str, &str, Option<&str>) {
    (at.channel.as_str(), at.chat.as_str(), at.thread.as_ref().map(|thread| thread.as_str()))
}

/// Reads the address in the first three columns.
pub fn read_address(row: &Row<'_>) -> rusqlite::Result<Address> {
    read_address_at(row, 0)
}

/// Reads the address in three columns from `first` on.
pub fn read_address_at(row: &Row<'_>, first: usize) -> rusqlite::Result<Address> {
    Ok(Address { channel: row.get(first)?, chat: row.get(first + 1)?, thread: row.get(first + 2)? })
}
