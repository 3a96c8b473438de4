//! Commands: carried out by the loop at once, without a model, also while turns run.

use chrono::{DateTime, Duration, Utc};
use rusqlite::Connection;

use super::{Means, commits, context_used, role_of, transcript};
use crate::bus::journal::Waiting;
use crate::bus::outbox;
use crate::message::{Address, Place};
use crate::people::{self, People, Role};
use crate::replies;
use crate::store::StoreError;

/// What a person commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Status,
    Stop,
    New,
    WhoAmI,
    /// With what matters most to the person.
    Compact(Option<String>),
    /// None if it was said wrongly.
    Pair(Option<Pairing>),
}

/// One `/pair` subcommand, or the same from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pairing {
    List,
    Approve(String),
    Deny(String),
    Revoke { channel: String, sender: String },
}

impl Pairing {
    /// Reads `list`, `approve CODE`, `deny CODE` or `revoke CHANNEL ID`.
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

/// Reads a text that begins with one of `bus::CONTROLS`.
pub(super) fn parse(text: &str) -> Command {
    let mut words = text.split_whitespace();
    match words.next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "/status" => Command::Status,
        "/stop" => Command::Stop,
        "/new" => Command::New,
        "/whoami" => Command::WhoAmI,
        "/compact" => {
            let focus = words.collect::<Vec<_>>().join(" ");
            Command::Compact((!focus.is_empty()).then_some(focus))
        }
        "/pair" => Command::Pair(Pairing::parse(words)),
        _ => Command::Help,
    }
}

/// Answers every command but those that the loop carries out itself.
pub(super) async fn obey(
    means: &Means,
    control: &Waiting,
    command: Command,
    busy: bool,
    turns: usize,
) -> Result<(), StoreError> {
    let words = match command {
        Command::Help | Command::Stop | Command::New | Command::Compact(_) => {
            replies::HELP.to_owned()
        }
        Command::Status => status(means, &control.inbound.from, busy, turns).await?,
        Command::WhoAmI => {
            let role = role_of(means, &control.inbound.from, control.sender()).await?;
            let inbound = &control.inbound;
            replies::who_you_are(control.sender(), role, &inbound.from)
        }
        Command::Pair(pairing) => return obey_pair(means, control, pairing).await,
    };
    commits::obeyed(&means.bus.store, control, words).await
}

async fn obey_pair(
    means: &Means,
    control: &Waiting,
    pairing: Option<Pairing>,
) -> Result<(), StoreError> {
    let role = role_of(means, &control.inbound.from, control.sender()).await?;
    let private = control.inbound.place == Place::Private;
    let words = match pairing {
        _ if role < Role::Owner || !private => replies::OWNER_ONLY.to_owned(),
        None => replies::PAIR_USAGE.to_owned(),
        Some(pairing) => {
            let people = means.bus.people.clone();
            return commits::obeyed_with(&means.bus.store, control, move |store| {
                let done = pair(store, &people, &pairing, Utc::now())?;
                Ok(done.unwrap_or_else(|words| words))
            })
            .await;
        }
    };
    commits::obeyed(&means.bus.store, control, words).await
}

async fn status(
    means: &Means,
    at: &Address,
    busy: bool,
    turns: usize,
) -> Result<String, StoreError> {
    let month_ago = Utc::now() - Duration::days(30);
    let used = means.bus.store.read(move |store| transcript::used_since(store, month_ago)).await?;
    let context = (context_used(means, at).await?, means.provider.room());
    Ok(replies::status(&replies::Status {
        context,
        provider: means.provider.name(),
        busy_here: busy,
        turns,
        tools: means.tools.len(),
        tokens: (used.input, used.output),
    }))
}

/// Carries a pairing command out and tells the person whom it is about; gives the words for who
/// commanded, or an error in words.
pub fn pair(
    store: &Connection,
    people: &People,
    command: &Pairing,
    now: DateTime<Utc>,
) -> rusqlite::Result<Result<String, String>> {
    Ok(match command {
        Pairing::List => Ok(list(&people::pending(store, now)?, &people::paired(store)?)),
        Pairing::Approve(code) => match people::approve(store, people, code, now)? {
            None => Err(replies::UNKNOWN_CODE.to_owned()),
            Some((stranger, role)) => {
                let welcome = match role {
                    Role::Owner => replies::WELCOME_OWNER,
                    _ => replies::WELCOME_USER,
                };
                outbox::put(store, &stranger.address(), None, welcome)?;
                Ok(replies::approved(&stranger.sender, role))
            }
        },
        Pairing::Deny(code) => match people::deny(store, code, now)? {
            None => Err(replies::UNKNOWN_CODE.to_owned()),
            Some(stranger) => {
                outbox::put(store, &stranger.address(), None, replies::TURNED_AWAY)?;
                Ok(replies::denied(&stranger.sender))
            }
        },
        Pairing::Revoke { channel, sender } => match people::revoke(store, channel, sender)? {
            true => Ok(replies::revoked(sender)),
            false => Err(replies::not_paired(sender)),
        },
    })
}

fn list(pending: &[people::Pending], paired: &[people::Paired]) -> String {
    if pending.is_empty() && paired.is_empty() {
        return replies::NOBODY_WAITS.to_owned();
    }
    let waiting = pending
        .iter()
        .map(|who| format!("{} waits on {} with code {}", who.sender, who.channel, who.code));
    let inside =
        paired.iter().map(|who| format!("{} on {} is {}", who.sender, who.channel, who.role));
    waiting.chain(inside).collect::<Vec<_>>().join("\n")
}
