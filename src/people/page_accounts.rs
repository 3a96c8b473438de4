//! Accounts on the web page for persons who are known from other channels. The program makes one when its
//! person asks for a link, before it has sent a message.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::People;
use super::persons::{PersonAccount, accounts_of_same, name_of_person, person_of};
use crate::store::Time;
use crate::types::message::{ChannelName, SenderId};

/// First character of such an account's id. No name of a person in the config contains it, and no platform's
/// user id.
pub(super) const PAGE_ACCOUNT_MARK: char = '@';

/// Returns true for an account that the program has made.
pub fn is_page_account(sender: &SenderId) -> bool {
    sender.as_str().starts_with(PAGE_ACCOUNT_MARK)
}

/// Returns the account with which the person of another account signs in on the page: an existing one or a new
/// one. None if neither the config nor the owner has let them in by name.
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
    let made = SenderId::from(format!("{PAGE_ACCOUNT_MARK}{person}"));
    let name = name_of_person(store, person)?.unwrap_or_else(|| person.to_string());
    store.execute(
        "INSERT INTO accounts (channel, sender, person, name, since, seen) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
        params![page, made, person, name, Time(now)],
    )?;
    Ok(Some(made))
}
