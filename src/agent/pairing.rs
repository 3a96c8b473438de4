//! `/pair`, and the same from the command line: strangers are let in or turned away, and paired people are listed. Not here:
//! the end of what goes on for somebody (`revoking`).

use chrono::{DateTime, Utc};
use rusqlite::Connection;
use serde::Serialize;

use crate::agent::revoking;
use crate::bus::outbox;
use crate::people::persons::PersonAccount;
use crate::people::{self as access, People, Role};
use crate::replies;
use crate::types::message::{ChannelName, Sender, SenderId};

/// A `/pair` subcommand, or the same from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pairing {
    List,
    Approve(String),
    Deny(String),
    Revoke { channel: String, sender: String },
}

impl Pairing {
    /// Parses `list`, `approve CODE`, `deny CODE` or `revoke CHANNEL ID`.
    pub fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let verb = words.next().unwrap_or("list").to_ascii_lowercase();
        let mut next = || words.next().map(str::to_owned);
        match verb.as_str() {
            "list" => Some(Self::List),
            "approve" => next().map(Self::Approve),
            "deny" => next().map(Self::Deny),
            "revoke" => Some(Self::Revoke { channel: next()?, sender: next()? }),
            _ => None,
        }
    }
}

/// The answer to a pairing command.
pub struct PairingReply {
    pub words: String,
    /// None for a list, which changes nothing.
    pub change: Option<PairingChange>,
}

/// The access of a person that a pairing command has changed: the JSON of `peacrab pair approve`, `deny` and `revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PairingChange {
    pub change: AccessChange,
    /// The channel's name in the config.
    pub channel: ChannelName,
    /// The person's id on the platform.
    pub id: SenderId,
    /// The name there. None after a revocation, which names only the id.
    pub name: Option<String>,
    /// The role that the person has now. None without access.
    pub role: Option<Role>,
}

/// A change of a person's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessChange {
    Approved,
    Denied,
    Revoked,
}

impl PairingChange {
    fn of_stranger(change: AccessChange, stranger: access::Pending, role: Option<Role>) -> Self {
        let access::Pending { channel, sender: Sender { id, name, .. }, .. } = stranger;
        Self { change, channel, id, name: Some(name), role }
    }
}

/// Carries out a pairing command and notifies the person concerned. Returns the reply to the person who
/// gave it, or an explanation of a failure.
pub fn pair(
    store: &Connection,
    people: &People,
    command: &Pairing,
    now: DateTime<Utc>,
) -> rusqlite::Result<Result<PairingReply, String>> {
    Ok(match command {
        Pairing::List => {
            let words = list(&access::pending(store, now)?, &access::paired(store)?);
            Ok(PairingReply { words, change: None })
        }
        Pairing::Approve(code) => match access::approve(store, people, code, now)? {
            None => Err(replies::UNKNOWN_CODE.to_owned()),
            Some((stranger, role)) => {
                let welcome = match role {
                    Role::Owner => replies::WELCOME_OWNER,
                    _ => replies::WELCOME_USER,
                };
                outbox::put(store, &stranger.address(), None, welcome)?;
                let (channel, id) = (&stranger.channel, &stranger.sender.id);
                tracing::info!(%channel, %id, %role, "Let somebody in");
                let words = replies::approved(&stranger.sender, role);
                let approved = AccessChange::Approved;
                let change = PairingChange::of_stranger(approved, stranger, Some(role));
                Ok(PairingReply { words, change: Some(change) })
            }
        },
        Pairing::Deny(code) => match access::deny(store, code, now)? {
            None => Err(replies::UNKNOWN_CODE.to_owned()),
            Some(stranger) => {
                outbox::put(store, &stranger.address(), None, replies::PERSON_DECLINED)?;
                let (channel, id) = (&stranger.channel, &stranger.sender.id);
                tracing::info!(%channel, %id, "Turned somebody away");
                let words = replies::denied(&stranger.sender);
                let change = PairingChange::of_stranger(AccessChange::Denied, stranger, None);
                Ok(PairingReply { words, change: Some(change) })
            }
        },
        Pairing::Revoke { channel, sender } => {
            let account =
                PersonAccount { channel: channel.as_str().into(), sender: sender.as_str().into() };
            match revoking::revoke(store, people, &account, now)? {
                Err(failure) => Err(failure),
                Ok(words) => {
                    // The config may still let the person in.
                    let role = people.role_of(store, &account.channel, &account.sender)?;
                    let PersonAccount { channel, sender: id } = account;
                    let change = AccessChange::Revoked;
                    let change = PairingChange { change, channel, id, name: None, role };
                    Ok(PairingReply { words, change: Some(change) })
                }
            }
        }
    })
}

fn list(pending: &[access::Pending], paired: &[access::Paired]) -> String {
    if pending.is_empty() && paired.is_empty() {
        return replies::NOBODY_WAITS.to_owned();
    }
    let waiting = pending
        .iter()
        .map(|person| replies::pending_person(&person.sender, &person.channel, &person.code));
    let admitted = paired
        .iter()
        .map(|person| replies::is_paired(&person.sender, &person.channel, person.role));
    waiting.chain(admitted).collect::<Vec<_>>().join("\n")
}
