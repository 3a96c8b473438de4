//! Errands: turns of the program's own, at addresses that no platform has. Each has a session, and its
//! task waits in the journal there like any message; so the agent loop begins it, takes it up again,
//! counts its attempts and bounds it like any turn. What follows from its end is decided in
//! `turn::commits`.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use crate::bus::journal::{self, RowId, address_params};
use crate::conversation::forgetting::forget_sessions;
use crate::types::message::{Address, Cause, ChannelName, DedupKey, Inbound, Place, Said};
use crate::types::session::SessionId;

/// What an errand is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A task that a conversation has handed on.
    Subagent,
    /// A run of a job.
    Job,
    /// A look after what the owner has written into HEARTBEAT.md.
    Heartbeat,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Subagent, Self::Job, Self::Heartbeat];

    /// The channel of its addresses. No channel of the config can have such a name.
    fn channel(self) -> &'static str {
        match self {
            Self::Subagent => "(subagent)",
            Self::Job => "(job)",
            Self::Heartbeat => "(heartbeat)",
        }
    }

    /// Returns true if `channel` is that of its addresses.
    pub fn is_at(self, channel: &str) -> bool {
        self.channel() == channel
    }

    /// Of its sessions.
    fn as_str(self) -> &'static str {
        match self {
            Self::Subagent => "subagent",
            Self::Job => "job",
            Self::Heartbeat => "heartbeat",
        }
    }

    /// The condition of the open session at an address. Each kind has its own index.
    pub fn open_session(self) -> &'static str {
        match self {
            Self::Subagent => {
                "closed IS NULL AND kind = 'subagent' AND channel = ? AND chat = ?
                 AND ifnull(thread, '') = ?"
            }
            Self::Job => {
                "closed IS NULL AND kind = 'job' AND channel = ? AND chat = ?
                 AND ifnull(thread, '') = ?"
            }
            Self::Heartbeat => {
                "closed IS NULL AND kind = 'heartbeat' AND channel = ? AND chat = ?
                 AND ifnull(thread, '') = ?"
            }
        }
    }
}

/// An errand, by the number that people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errand {
    pub kind: Kind,
    pub number: i64,
}

impl Errand {
    /// Whose address it is.
    pub fn of(address: &Address) -> Option<Self> {
        let channel = address.channel.as_str();
        let kind = Kind::ALL.into_iter().find(|kind| kind.channel() == channel)?;
        Some(Self { kind, number: address.chat.as_str().parse().ok()? })
    }

    /// Its own: its number, and in place of a thread the channel on which it was asked for, so that
    /// nothing need be looked up to know whether that is here and who is known there.
    pub fn address(self, known_on: &ChannelName) -> Address {
        Address {
            channel: self.kind.channel().into(),
            chat: self.number.to_string().into(),
            thread: Some(known_on.as_str().into()),
        }
    }

    /// The key of its task in the journal; `mark` tells the tasks of one errand apart.
    pub fn key(self, mark: Option<i64>) -> DedupKey {
        let Self { kind, number } = self;
        let channel = kind.channel();
        mark.map_or(format!("{channel}:{number}"), |mark| format!("{channel}:{number}:{mark}"))
            .into()
    }
}

/// The channel on which people are known who speak at an address: of an errand's, that on which it was
/// asked for.
pub fn channel_of(address: &Address) -> ChannelName {
    match (Errand::of(address), &address.thread) {
        (Some(_), Some(known_on)) => known_on.as_str().into(),
        _ => address.channel.clone(),
    }
}

/// What an errand's session is begun with.
pub struct Terms {
    /// The channel on which its person is known.
    pub known_on: ChannelName,
    pub place: Place,
    /// JSON: Settings.
    pub settings: String,
}

/// What is to be done.
pub struct Handed<'a> {
    pub text: &'a str,
    pub cause: Cause,
    pub key: DedupKey,
}

/// Opens a session for an errand whose number is not known yet.
pub fn open(store: &Connection, kind: Kind, terms: &Terms) -> rusqlite::Result<SessionId> {
    store
        .prepare_cached(
            "INSERT INTO sessions (channel, chat, thread, place, opened, kind, settings)
             VALUES (?, '', ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            kind.channel(),
            terms.known_on.as_str(),
            serde_json::to_string(&terms.place).expect("a place is a word"),
            Utc::now().timestamp_millis(),
            kind.as_str(),
            terms.settings
        ])?;
    Ok(SessionId(store.last_insert_rowid()))
}

/// Gives an errand its task, which waits at its address from now on.
pub fn hand(
    store: &Connection,
    errand: Errand,
    (session, terms): (SessionId, &Terms),
    task: Handed<'_>,
) -> rusqlite::Result<RowId> {
    store
        .prepare_cached("UPDATE sessions SET chat = ? WHERE id = ?")?
        .execute(params![errand.number.to_string(), session.0])?;
    let inbound = Inbound {
        key: task.key,
        at: Utc::now(),
        from: errand.address(&terms.known_on),
        place: terms.place,
        within: Vec::new(),
        cause: task.cause,
        id: None,
        body: Said::text(task.text),
    };
    journal::add(store, &inbound, false, None)
}

/// Closes the session of an errand that has ended.
pub fn close(store: &Connection, errand: Errand, known_on: &ChannelName) -> rusqlite::Result<()> {
    let address = errand.address(known_on);
    let (channel, chat, thread) = address_params(&address);
    let close = format!("UPDATE sessions SET closed = ? WHERE {}", errand.kind.open_session());
    store.prepare_cached(&close)?.execute(params![
        Utc::now().timestamp_millis(),
        channel,
        chat,
        thread
    ])?;
    Ok(())
}

/// Forgets the conversations of errands that were closed before a time, a slice at a time; returns how many
/// rows.
pub fn prune(store: &Connection, kind: Kind, before: DateTime<Utc>) -> rusqlite::Result<usize> {
    forget_sessions(store, kind.as_str(), before)
}
