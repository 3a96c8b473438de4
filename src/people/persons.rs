//! Persons and their accounts. An account is the sender of a message, as the platform names it. An account gets
//! its person with its first accepted message.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::store::Time;
use crate::types::message::{ChannelName, Sender, SenderId};
use crate::types::person::PersonId;

/// Accuracy of the time at which an account was last seen, so that most messages write nothing.
const SEEN_EVERY: Duration = Duration::minutes(15);

/// Returns the person of an account. None if no message of it was accepted yet.
pub fn person_of(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
) -> rusqlite::Result<Option<PersonId>> {
    store
        .prepare_cached("SELECT person FROM accounts WHERE channel = ? AND sender = ?")?
        .query_row(params![channel, sender], |row| row.get(0))
        .optional()
}

/// Records that a message of an account was accepted. Returns its person, which the first message creates.
pub fn record_account(
    store: &Connection,
    channel: &ChannelName,
    sender: &Sender,
    now: DateTime<Utc>,
) -> rusqlite::Result<PersonId> {
    let known: Option<(PersonId, Time)> = store
        .prepare_cached("SELECT person, seen FROM accounts WHERE channel = ? AND sender = ?")?
        .query_row(params![channel, sender.id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((person, seen)) = known else { return add_account(store, channel, sender, now) };
    // The difference is negative after the clock was set back.
    if (now - seen.0).abs() >= SEEN_EVERY {
        store
            .prepare_cached(
                "UPDATE accounts SET seen = ?, name = ? WHERE channel = ? AND sender = ?",
            )?
            .execute(params![Time(now), sender.name, channel, sender.id])?;
    }
    Ok(person)
}

fn add_account(
    store: &Connection,
    channel: &ChannelName,
    sender: &Sender,
    now: DateTime<Utc>,
) -> rusqlite::Result<PersonId> {
    store
        .prepare_cached("INSERT INTO persons (name, since) VALUES (?, ?)")?
        .execute(params![sender.name, Time(now)])?;
    let person = PersonId(store.last_insert_rowid());
    store
        .prepare_cached(
            "INSERT INTO accounts (channel, sender, person, name, since, seen) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
        )?
        .execute(params![channel, sender.id, person, sender.name, Time(now)])?;
    Ok(person)
}

/// An account and its person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAccount {
    pub channel: ChannelName,
    pub sender: SenderId,
    pub person: PersonId,
}

/// Records that the person of an account was removed. Its later messages are those of a new person.
pub fn note_removal(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            "INSERT INTO former_accounts (channel, sender, removals, removed) VALUES (?, ?, 1, ?)
             ON CONFLICT DO UPDATE SET removals = removals + 1, removed = excluded.removed",
        )?
        .execute(params![account.channel, account.sender, Time(Utc::now())])
        .map(drop)
}

/// Returns how often a person with this account was removed.
pub fn removals(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
) -> rusqlite::Result<u32> {
    let removals = store
        .prepare_cached("SELECT removals FROM former_accounts WHERE channel = ? AND sender = ?")?
        .query_row(params![channel, sender], |row| row.get(0))
        .optional()?;
    Ok(removals.unwrap_or_default())
}

/// Returns when a person with this account was last removed.
pub fn last_removal(
    store: &Connection,
    account: &PersonAccount,
) -> rusqlite::Result<Option<DateTime<Utc>>> {
    store
        .prepare_cached("SELECT removed FROM former_accounts WHERE channel = ? AND sender = ?")?
        .query_row(params![account.channel, account.sender], |row| Ok(row.get::<_, Time>(0)?.0))
        .optional()
}

/// Returns all accounts, in the order in which they were seen first.
pub fn accounts(store: &Connection) -> rusqlite::Result<Vec<KnownAccount>> {
    let mut rows = store
        .prepare("SELECT channel, sender, person FROM accounts ORDER BY since, channel, sender")?;
    let rows = rows.query_map([], |row| {
        Ok(KnownAccount { channel: row.get(0)?, sender: row.get(1)?, person: row.get(2)? })
    })?;
    rows.collect()
}

/// Returns a person's name: that of the account that was seen last.
pub fn name_of_person(store: &Connection, person: PersonId) -> rusqlite::Result<Option<String>> {
    store
        .prepare_cached("SELECT name FROM accounts WHERE person = ? ORDER BY seen DESC LIMIT 1")?
        .query_row([person], |row| row.get(0))
        .optional()
}

/// An account of a person.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PersonAccount {
    pub channel: ChannelName,
    pub sender: SenderId,
}

/// Returns all accounts of the person of an account; none if no message of it was accepted yet.
pub fn accounts_of_same(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
) -> rusqlite::Result<Vec<PersonAccount>> {
    let mut accounts = store.prepare_cached(
        "SELECT channel, sender FROM accounts
         WHERE person = (SELECT person FROM accounts WHERE channel = ? AND sender = ?)",
    )?;
    let read_account =
        |row: &Row<'_>| Ok(PersonAccount { channel: row.get(0)?, sender: row.get(1)? });
    accounts.query_map(params![channel, sender], read_account)?.collect()
}

/// Returns the name of an account. None if no message of it was accepted yet.
pub fn name_of_account(
    store: &Connection,
    account: &PersonAccount,
) -> rusqlite::Result<Option<String>> {
    store
        .prepare_cached("SELECT name FROM accounts WHERE channel = ? AND sender = ?")?
        .query_row(params![account.channel, account.sender], |row| row.get(0))
        .optional()
}
