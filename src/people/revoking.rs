//! `/pair revoke`: ends the access of a person who was let in by pairing, with all their accounts. Not here: the end of
//! what works for them (`turn`).

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::links;
use super::listing;
use super::persons::{PersonAccount, accounts_of_same, person_of, record_account};
use super::roles::paired_role;
use super::{People, Role, name_of};
use crate::types::message::Sender;
use crate::types::person::PersonId;

/// The outcome of revoking the access of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// Nobody has let its person in, except the config.
    NotPaired,
    Revoked {
        /// The accounts that may have lost their access.
        accounts: Vec<PersonAccount>,
        /// The persons, if it was linked to an account that keeps a higher role.
        parted: Option<PartedPersons>,
    },
}

/// The persons of an account that was linked to others, and is not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartedPersons {
    pub former: PersonId,
    pub new: PersonId,
}

/// Revokes the access of an account's person, except what the config gives each account by its id. An account that is linked
/// to one of the owner, or to one that the config names, is parted from it, because the link lets it in. A person who
/// returns is a stranger again, and has their files once they are let in.
pub fn revoke(
    store: &Connection,
    people: &People,
    account: &PersonAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<Revocation> {
    let mut accounts = accounts_of_same(store, &account.channel, &account.sender)?;
    if is_linked_to_owner(store, people, account, &accounts)?
        && let Some(parted) = part(store, account, now)?
    {
        // The others are the owner's, and keep their access.
        delete_pairing(store, account)?;
        return Ok(Revocation::Revoked { accounts: vec![account.clone()], parted: Some(parted) });
    }
    let is_unwritten = accounts.is_empty();
    if is_unwritten {
        accounts.push(account.clone());
    }
    let name = name_of(store, &account.channel, &account.sender)?;
    let mut had_access = false;
    for it in &accounts {
        had_access |= delete_pairing(store, it)?;
    }
    if is_unwritten && had_access {
        // Else the restore of a backup could not tell that it had access.
        let sender = Sender::person(account.sender.as_str(), name);
        record_account(store, &account.channel, &sender, now)?;
    }
    if let Some(person) = person_of(store, &account.channel, &account.sender)? {
        had_access |= listing::forget_role(store, person)?;
    }
    let role = |it: &PersonAccount| people.role_in_config(&it.channel, &it.sender);
    let is_raised_by_link = accounts.iter().filter_map(role).max() > role(account);
    let parted = if is_raised_by_link { part(store, account, now)? } else { None };
    Ok(match had_access || parted.is_some() {
        true => Revocation::Revoked { accounts, parted },
        false => Revocation::NotPaired,
    })
}

/// Parts an account from the others of its person. A block stays.
fn part(
    store: &Connection,
    account: &PersonAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<PartedPersons>> {
    let parted = links::part(store, account, account.sender.as_str(), now)?;
    Ok(parted.map(|(former, new)| PartedPersons { former, new }))
}

/// Returns true if an account has the role of an owner, the config does not give it, and another account of its person has
/// it as well.
fn is_linked_to_owner(
    store: &Connection,
    people: &People,
    account: &PersonAccount,
    accounts: &[PersonAccount],
) -> rusqlite::Result<bool> {
    let PersonAccount { channel, sender } = account;
    if people.role_in_config(channel, sender) == Some(Role::Owner)
        || people.role_of(store, channel, sender)? != Some(Role::Owner)
    {
        return Ok(false);
    }
    for other in accounts.iter().filter(|other| *other != account) {
        let PersonAccount { channel, sender } = other;
        let own = people.role_in_config(channel, sender).max(paired_role(store, channel, sender)?);
        if own == Some(Role::Owner) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes the pairing of an account. Returns false if it has none.
fn delete_pairing(store: &Connection, account: &PersonAccount) -> rusqlite::Result<bool> {
    let deleted = store.execute(
        "DELETE FROM people WHERE channel = ? AND sender = ?",
        params![account.channel, account.sender],
    )?;
    Ok(deleted > 0)
}
