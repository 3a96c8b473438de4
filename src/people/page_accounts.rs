//! Accounts on the page in the browser for persons who are known from elsewhere. The program makes them when their
//! person asks for a link, and they are never met in a message first.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::People;
use super::persons::{PersonAccount, accounts_of_same, name_of_person, person_of};
use crate::store::Time;
use crate::types::message::{ChannelName, SenderId};

/// Begins the id of such an account. No name of a person in the config has this character, and no platform's user id.
pub(super) const MADE: char = '@';

/// Returns true for an account that the program has made.
pub fn is_made(sender: &SenderId) -> bool {
    sender.as_str().starts_with(MADE)
}

/// Returns the account with which the person of another account signs in on the page: one that they have, or a new one.
/// None for somebody whom neither the config nor the owner has let in by name.
pub fn account_for(
    store: &Connection,
    people: &People,
    page: &ChannelName,
    account: &PersonAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<SenderId>> {
    let PersonAccount { channel, sender } = account;
    for known in accounts_of_same(store, channel, sender)? {
        if known.channel == *page && people.role_of(store, page, &known.sender)?.is_some() {
            return Ok(Some(known.sender));
        }
    }
    if people.own_role(store, channel, sender)?.is_none() {
        return Ok(None);
    }
    let Some(person) = person_of(store, channel, sender)? else { return Ok(None) };
    let made = SenderId::from(format!("{MADE}{person}"));
    let name = name_of_person(store, person)?.unwrap_or_else(|| person.to_string());
    store.execute(
        "INSERT INTO accounts (channel, sender, person, name, since, seen) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
        params![page, made, person, name, Time(now)],
    )?;
    Ok(Some(made))
}
