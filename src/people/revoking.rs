//! `/pair revoke`: ends the access of a person who was let in by pairing, with all their accounts. Not here: the end of
//! what works for them (`turn`).

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::links;
use super::listing;
use super::persons::{PersonAccount, accounts_of_same, person_of};
use super::roles::paired_role;
use super::{People, Role};
use crate::types::person::PersonId;

/// The outcome of revoking the access of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// Nobody has let its person in, except the config.
    NotPaired,
    /// Its person has no pairing any more, nor a role that the owner has set. These are all accounts of the person.
    Person(Vec<PersonAccount>),
    /// It was linked to accounts of the owner, who keep their access. It belongs to a new person without a role now.
    Parted { former: PersonId, new: PersonId },
}

/// Revokes the access of an account's person, except what the config gives. A person who returns is a stranger again, and
/// has their files once they are let in.
pub fn revoke(
    store: &Connection,
    people: &People,
    account: &PersonAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<Revocation> {
    if is_linked_to_owner(store, people, account)?
        && let Some((former, new)) = links::part(store, account, account.sender.as_str(), now)?
    {
        delete_pairing(store, account)?;
        return Ok(Revocation::Parted { former, new });
    }
    let mut accounts = accounts_of_same(store, &account.channel, &account.sender)?;
    if accounts.is_empty() {
        accounts.push(account.clone());
    }
    let mut had_access = false;
    for it in &accounts {
        had_access |= delete_pairing(store, it)?;
    }
    if let Some(person) = person_of(store, &account.channel, &account.sender)? {
        had_access |= listing::forget_role(store, person)?;
    }
    Ok(if had_access { Revocation::Person(accounts) } else { Revocation::NotPaired })
}

/// Returns true if an account has the role of an owner only because it is linked to an account that has it.
fn is_linked_to_owner(
    store: &Connection,
    people: &People,
    account: &PersonAccount,
) -> rusqlite::Result<bool> {
    let PersonAccount { channel, sender } = account;
    let own = people.role_in_config(channel, sender).max(paired_role(store, channel, sender)?);
    let has_role = people.role_of(store, channel, sender)? == Some(Role::Owner);
    Ok(has_role && own != Some(Role::Owner))
}

/// Deletes the pairing of an account. Returns false if it has none.
fn delete_pairing(store: &Connection, account: &PersonAccount) -> rusqlite::Result<bool> {
    let deleted = store.execute(
        "DELETE FROM people WHERE channel = ? AND sender = ?",
        params![account.channel, account.sender],
    )?;
    Ok(deleted > 0)
}
