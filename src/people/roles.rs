//! The role of an account: the highest of its person's accounts by config and pairing, or the one that the
//! owner has set.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::listing::is_blocked;
use super::persons::{PersonAccount, last_removal, person_of, record_account};
use super::{Groups, Paired, People, Role, paired};
use crate::store::LenientJson;
use crate::types::message::{ChannelName, ChatKind, Inbound, Sender, SenderId};

/// An account of a person, with the facts of the store about its role.
struct RankedAccount {
    channel: ChannelName,
    sender: SenderId,
    paired: Option<Role>,
    set: Option<Role>,
    is_blocked: bool,
}

impl People {
    /// Returns the role that the config gives an account by its id.
    pub fn role_in_config(&self, channel: &ChannelName, sender: &SenderId) -> Option<Role> {
        let access = self.access.get(channel)?;
        let among = |list: &[String]| list.iter().any(|id| id == sender.as_str());
        if among(&access.owners) {
            Some(Role::Owner)
        } else if among(&access.admins) {
            Some(Role::Admin)
        } else {
            among(&access.allow).then_some(Role::User)
        }
    }

    /// Creates persons for all accounts that the config names, and for all that were paired.
    pub fn record_known_accounts(
        &self,
        store: &Connection,
        now: DateTime<Utc>,
    ) -> rusqlite::Result<()> {
        for (channel, access) in self.access.iter() {
            let named = access.owners.iter().chain(&access.admins).chain(&access.allow);
            for id in named.filter(|id| *id != "*") {
                record_account(store, channel, &Sender::person(id.as_str(), id.as_str()), now)?;
            }
        }
        for Paired { channel, sender, .. } in paired(store)? {
            record_account(store, &channel, &sender, now)?;
        }
        Ok(())
    }

    /// Returns the sender's role on the channel. None for a stranger.
    pub fn role_of(
        &self,
        store: &Connection,
        channel: &ChannelName,
        sender: &SenderId,
    ) -> rusqlite::Result<Option<Role>> {
        let Some(access) = self.access.get(channel) else { return Ok(None) };
        let config_role = self.role_in_config(channel, sender);
        // The store cannot block or demote an owner of the config.
        if config_role == Some(Role::Owner) {
            return Ok(config_role);
        }
        let accounts = accounts_of(store, channel, sender)?;
        if accounts.iter().any(|account| account.is_blocked) {
            return Ok(None);
        }
        let everybody = access.allow.iter().any(|id| id == "*").then_some(Role::Guest);
        let person_role = match accounts.is_empty() {
            // No message of theirs was accepted yet, so they have no person.
            true => paired_role(store, channel, sender)?,
            false => self.role_of_accounts(&accounts),
        };
        Ok(config_role.max(person_role).max(everybody))
    }

    /// Returns the role of an account's person from being let in by name, on any channel. The role of everybody
    /// on a channel does not count. None if they have no such role or are blocked.
    pub fn own_role(
        &self,
        store: &Connection,
        channel: &ChannelName,
        sender: &SenderId,
    ) -> rusqlite::Result<Option<Role>> {
        let accounts = accounts_of(store, channel, sender)?;
        let is_blocked = accounts.iter().any(|account| account.is_blocked);
        Ok(self.role_of_accounts(&accounts).filter(|_| !is_blocked))
    }

    /// Returns the role of a person. The owner's setting replaces a pairing, but never lowers the role in the
    /// config.
    fn role_of_accounts(&self, accounts: &[RankedAccount]) -> Option<Role> {
        let in_config = |it: &RankedAccount| self.role_in_config(&it.channel, &it.sender);
        let in_config = accounts.iter().filter_map(in_config).max();
        let set = accounts.iter().find_map(|account| account.set);
        let paired = accounts.iter().filter_map(|account| account.paired).max();
        in_config.max(set.or(paired))
    }

    /// Returns the role of a message's sender, like [`Self::role_of`]. Everybody in a listed chat is a
    /// guest there.
    pub fn role_of_speaker(
        &self,
        store: &Connection,
        inbound: &Inbound,
        sender: &Sender,
    ) -> rusqlite::Result<Option<Role>> {
        let from = &inbound.from;
        let role = self.role_of(store, &from.channel, &sender.id)?;
        if role.is_some() || inbound.chat_kind == ChatKind::Private {
            return Ok(role);
        }
        let listed = self
            .access
            .get(&from.channel)
            .and_then(|access| access.chat_rule(inbound.config_ids()));
        let is_listed = listed.is_some_and(|groups| groups != Groups::Off);
        match is_listed && !is_blocked(store, &from.channel, &sender.id)? {
            true => Ok(Some(Role::Guest)),
            false => Ok(None),
        }
    }
}

impl People {
    /// Returns true if an account belongs to a person who would be turned away now. False if nobody knows the account: who
    /// made a job at this machine is not known where it reports.
    pub fn has_lost_access(
        &self,
        store: &Connection,
        channel: &ChannelName,
        sender: &SenderId,
    ) -> rusqlite::Result<bool> {
        Ok(person_of(store, channel, sender)?.is_some()
            && self.role_of(store, channel, sender)?.is_none())
    }

    /// Returns true if two accounts belong to one person. All accounts of owners do: they share the owner's folder.
    pub fn are_same(
        &self,
        store: &Connection,
        one: &PersonAccount,
        other: &PersonAccount,
    ) -> rusqlite::Result<bool> {
        if one == other {
            return Ok(true);
        }
        let person = |it: &PersonAccount| person_of(store, &it.channel, &it.sender);
        let role = |it: &PersonAccount| self.role_of(store, &it.channel, &it.sender);
        let (first, second) = (person(one)?, person(other)?);
        Ok((first.is_some() && first == second)
            || (role(one)? == Some(Role::Owner) && role(other)? == Some(Role::Owner)))
    }

    /// Returns true if an author's past act at a time belongs to a reader: both are one person, which was not
    /// removed since. The acts of a removed person belong to nobody, even if somebody uses the account again.
    pub fn owns_past(
        &self,
        store: &Connection,
        reader: &PersonAccount,
        author: &PersonAccount,
        at: DateTime<Utc>,
    ) -> rusqlite::Result<bool> {
        let removed = last_removal(store, author)?;
        Ok(removed.is_none_or(|removed| at > removed) && self.are_same(store, reader, author)?)
    }
}

/// Returns all accounts of an account's person; none if no message of it was accepted yet.
fn accounts_of(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
) -> rusqlite::Result<Vec<RankedAccount>> {
    let mut rows = store.prepare_cached(
        "SELECT o.channel, o.sender, q.role, p.role, p.blocked FROM accounts a
         JOIN persons p ON p.id = a.person JOIN accounts o ON o.person = a.person
         LEFT JOIN people q ON q.channel = o.channel AND q.sender = o.sender
         WHERE a.channel = ? AND a.sender = ?",
    )?;
    let read_account = |row: &Row<'_>| {
        Ok(RankedAccount {
            channel: row.get(0)?,
            sender: row.get(1)?,
            paired: row.get(2)?,
            set: row.get::<_, LenientJson<_>>(3)?.0,
            is_blocked: row.get::<_, Option<i64>>(4)?.is_some(),
        })
    };
    rows.query_map(params![channel, sender], read_account)?.collect()
}

/// Returns the role of an account from its pairing.
pub(super) fn paired_role(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
) -> rusqlite::Result<Option<Role>> {
    let role = store
        .prepare_cached("SELECT role FROM people WHERE channel = ? AND sender = ?")?
        .query_row(params![channel, sender], |row| row.get(0))
        .optional()?;
    Ok(role)
}
