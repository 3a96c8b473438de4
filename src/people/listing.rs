//! The persons as the owner sees them, and the owner's decisions about them. Only the operator changes roles in
//! the config.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use super::{People, Role};
use crate::store::{LenientJson, Time};
use crate::types::message::{ChannelName, SenderId};
use crate::types::person::PersonId;

/// The source of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleFrom {
    /// The config, which the operator changes.
    Config,
    /// A setting of the owner.
    Owner,
    Pairing,
    /// The role of everybody on the channel, or no role.
    Nobody,
}

/// An account of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedAccount {
    pub channel: ChannelName,
    pub id: SenderId,
    pub name: String,
    pub seen: DateTime<Utc>,
    /// True if the config names it.
    pub is_in_config: bool,
}

/// A person as the owner sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedPerson {
    pub id: PersonId,
    pub name: String,
    /// None if their messages are turned away.
    pub role: Option<Role>,
    pub role_from: RoleFrom,
    pub is_blocked: bool,
    pub since: DateTime<Utc>,
    pub seen: DateTime<Utc>,
    pub accounts: Vec<ListedAccount>,
}

/// Returns all persons, or only one. The person who was seen last comes first.
pub fn list(
    store: &Connection,
    people: &People,
    only: Option<PersonId>,
) -> rusqlite::Result<Vec<ListedPerson>> {
    let mut rows = store.prepare_cached(
        "SELECT p.id, p.name, p.since, p.role, p.blocked, a.channel, a.sender, a.name, a.seen
         FROM persons p JOIN accounts a ON a.person = p.id
         WHERE p.removed IS NULL AND (?1 IS NULL OR p.id = ?1) ORDER BY p.id, a.seen DESC",
    )?;
    let mut rows = rows.query([only])?;
    let mut listed: Vec<ListedPerson> = Vec::new();
    while let Some(row) = rows.next()? {
        let (channel, id): (ChannelName, SenderId) = (row.get(5)?, row.get(6)?);
        let config_role = people.role_in_config(&channel, &id);
        let seen = row.get::<_, Time>(8)?.0;
        let account = ListedAccount {
            name: row.get(7)?,
            seen,
            is_in_config: config_role.is_some(),
            channel,
            id,
        };
        let person: PersonId = row.get(0)?;
        if let Some(last) = listed.last_mut().filter(|last| last.id == person) {
            last.role_from = if config_role.is_some() { RoleFrom::Config } else { last.role_from };
            last.accounts.push(account);
            continue;
        }
        let LenientJson(owner_set): LenientJson<Role> = row.get(3)?;
        let is_blocked = row.get::<_, Option<i64>>(4)?.is_some();
        listed.push(ListedPerson {
            id: person,
            name: account.name.clone(),
            role: people.role_of(store, &account.channel, &account.id)?,
            role_from: match (config_role, owner_set) {
                (Some(_), _) => RoleFrom::Config,
                (None, Some(_)) => RoleFrom::Owner,
                (None, None) => RoleFrom::Nobody,
            },
            is_blocked,
            since: row.get::<_, Time>(2)?.0,
            seen,
            accounts: vec![account],
        });
    }
    for person in listed.iter_mut().filter(|it| it.role_from == RoleFrom::Nobody) {
        if has_pairing(store, person)? {
            person.role_from = RoleFrom::Pairing;
        }
    }
    listed.sort_by_key(|person| std::cmp::Reverse(person.seen));
    Ok(listed)
}

fn has_pairing(store: &Connection, person: &ListedPerson) -> rusqlite::Result<bool> {
    let mut paired =
        store.prepare_cached("SELECT 1 FROM people WHERE channel = ? AND sender = ?")?;
    for account in &person.accounts {
        if paired.exists(params![account.channel, account.id])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sets a person's role, and lets them in again if they were blocked. It takes effect at once.
pub fn set_role(store: &Connection, person: PersonId, role: Role) -> rusqlite::Result<()> {
    store
        .execute("UPDATE persons SET role = ?, blocked = NULL WHERE id = ?", params![role, person])
        .map(drop)
}

/// Deletes the role that the owner has set. Returns false if there is none.
pub fn forget_role(store: &Connection, person: PersonId) -> rusqlite::Result<bool> {
    let sql = "UPDATE persons SET role = NULL WHERE id = ? AND role IS NOT NULL";
    Ok(store.execute(sql, [person])? > 0)
}

/// Blocks a person since a time, so that their messages are refused without an answer. None unblocks them.
pub fn set_blocked(
    store: &Connection,
    person: PersonId,
    since: Option<DateTime<Utc>>,
) -> rusqlite::Result<()> {
    store
        .execute("UPDATE persons SET blocked = ? WHERE id = ?", params![since.map(Time), person])
        .map(drop)
}

/// Removes a person and their pairings. If they return, they are a stranger and get a new id.
pub fn remove(store: &Connection, person: PersonId, now: DateTime<Utc>) -> rusqlite::Result<()> {
    store.execute(
        "DELETE FROM people WHERE EXISTS (SELECT 1 FROM accounts a
         WHERE a.person = ? AND a.channel = people.channel AND a.sender = people.sender)",
        [person],
    )?;
    store.execute("DELETE FROM accounts WHERE person = ?", [person])?;
    store
        .execute("UPDATE persons SET removed = ? WHERE id = ?", params![Time(now), person])
        .map(drop)
}

/// Returns true if the owner has blocked the person of an account.
pub fn is_blocked(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
) -> rusqlite::Result<bool> {
    let blocked: Option<Option<i64>> = store
        .prepare_cached(
            "SELECT p.blocked FROM accounts a JOIN persons p ON p.id = a.person
             WHERE a.channel = ? AND a.sender = ?",
        )?
        .query_row(params![channel, sender], |row| row.get(0))
        .optional()?;
    Ok(blocked.flatten().is_some())
}
