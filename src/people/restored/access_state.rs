//! Everything that a store says about the access of people, read from an unpacked backup or from the home that it
//! replaces.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::people::persons::PersonAccount;
use crate::store::{LenientJson, Time};
use crate::types::message::{ChannelName, ChatId, SenderId};
use crate::types::person::PersonId;
use crate::types::role::Role;

/// Everything that a store says about the access of people.
pub struct AccessState {
    pub(super) accounts: BTreeMap<PersonAccount, AccountRights>,
    /// The time at which each person was seen first, also of those who were removed.
    pub(super) persons: BTreeMap<PersonId, Time>,
    pub(super) removals: BTreeMap<PersonAccount, AccountRemovals>,
    pub(super) denied: Vec<DeniedStranger>,
}

/// The rights of an account by pairing and by what the owner has set for its person.
pub(super) struct AccountRights {
    pub(super) name: String,
    pub(super) since: Time,
    pub(super) seen: Time,
    /// None if it was paired, and no message of it was accepted yet.
    pub(super) person: Option<PersonId>,
    pub(super) paired: Option<Role>,
    pub(super) set: Option<Role>,
    pub(super) blocked: Option<Time>,
}

/// The number of times that the person of an account was removed, and the last one.
#[derive(Clone, Copy)]
pub(super) struct AccountRemovals {
    pub(super) count: u32,
    pub(super) last: Time,
}

/// A stranger without a code, who gets no answer for a while.
pub(super) struct DeniedStranger {
    pub(super) channel: ChannelName,
    pub(super) sender: SenderId,
    pub(super) name: String,
    pub(super) chat: ChatId,
    pub(super) answered: Time,
}

/// The role of a person apart from the config, and the time at which they were blocked.
#[derive(Clone, Copy)]
pub(super) struct PersonRights {
    pub(super) role: Option<Role>,
    pub(super) blocked: Option<Time>,
}

/// Reads the access of people. Works with each schema since persons can be removed.
pub fn read_access(store: &Connection) -> rusqlite::Result<AccessState> {
    let mut accounts = store.prepare(
        "SELECT a.channel, a.sender, a.name, a.since, a.seen, a.person, q.role, p.role, p.blocked
         FROM accounts a JOIN persons p ON p.id = a.person
         LEFT JOIN people q ON q.channel = a.channel AND q.sender = a.sender
         UNION ALL
         SELECT q.channel, q.sender, q.name, q.since, q.since, NULL, q.role, NULL, NULL FROM people q
         WHERE NOT EXISTS
             (SELECT 1 FROM accounts a WHERE a.channel = q.channel AND a.sender = q.sender)",
    )?;
    let accounts = accounts.query_map([], |row| {
        let account = PersonAccount { channel: row.get(0)?, sender: row.get(1)? };
        let rights = AccountRights {
            name: row.get(2)?,
            since: row.get(3)?,
            seen: row.get(4)?,
            person: row.get(5)?,
            paired: row.get(6)?,
            set: row.get::<_, LenientJson<Role>>(7)?.0,
            blocked: row.get(8)?,
        };
        Ok((account, rights))
    })?;
    let accounts = accounts.collect::<rusqlite::Result<BTreeMap<_, _>>>()?;
    let mut persons = store.prepare("SELECT id, since FROM persons")?;
    let persons = persons.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let persons = persons.collect::<rusqlite::Result<BTreeMap<_, _>>>()?;
    let removals = read_removals(store)?;
    // Older schemas have other columns.
    let denied = read_denied(store).unwrap_or_default();
    Ok(AccessState { accounts, persons, removals, denied })
}

fn read_removals(store: &Connection) -> rusqlite::Result<BTreeMap<PersonAccount, AccountRemovals>> {
    let mut rows =
        store.prepare("SELECT channel, sender, removals, removed FROM former_accounts")?;
    let rows = rows.query_map([], |row| {
        let account = PersonAccount { channel: row.get(0)?, sender: row.get(1)? };
        Ok((account, AccountRemovals { count: row.get(2)?, last: row.get(3)? }))
    })?;
    rows.collect()
}

fn read_denied(store: &Connection) -> rusqlite::Result<Vec<DeniedStranger>> {
    let mut rows = store.prepare(
        "SELECT channel, sender, name, chat, answered_at FROM strangers WHERE code IS NULL",
    )?;
    let rows = rows.query_map([], |row| {
        Ok(DeniedStranger {
            channel: row.get(0)?,
            sender: row.get(1)?,
            name: row.get(2)?,
            chat: row.get(3)?,
            answered: row.get(4)?,
        })
    })?;
    rows.collect()
}

impl AccessState {
    /// Returns true if another store is a later or an earlier state of the same home: they have a person in common. A
    /// home in which nobody was known yet has nothing that could be taken by mistake.
    pub(super) fn is_of_home(&self, other: &Self) -> bool {
        self.persons.is_empty()
            || self.persons.iter().any(|(id, since)| other.persons.get(id) == Some(since))
    }

    pub(super) fn by_person(&self) -> BTreeMap<PersonId, Vec<PersonAccount>> {
        let mut persons = BTreeMap::<PersonId, Vec<PersonAccount>>::new();
        for (account, rights) in &self.accounts {
            if let Some(person) = rights.person {
                persons.entry(person).or_default().push(account.clone());
            }
        }
        persons
    }

    /// Returns the standing of the person who has these accounts.
    pub(super) fn standing(&self, accounts: &[PersonAccount]) -> PersonRights {
        let (mut set, mut paired): (Option<Role>, Option<Role>) = (None, None);
        let mut blocked = None;
        for rights in accounts.iter().filter_map(|account| self.accounts.get(account)) {
            set = set.or(rights.set);
            paired = paired.max(rights.paired);
            blocked = blocked.or(rights.blocked);
        }
        PersonRights { role: set.or(paired), blocked }
    }
}
