//! The gateway's memory: what each session was told, so that it can be told again.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

/// An event with its name.
pub(super) type Event = (String, Value);

/// What a connection is to do besides what it should.
#[derive(Clone, Debug)]
pub(crate) enum ConnectionFault {
    /// A close frame, with or without a code.
    Close(Option<u16>),
    /// The connection is cut.
    Cut,
    /// Op 7.
    Reconnect,
    /// Op 9.
    InvalidSession { resumable: bool },
    /// Nothing is sent any more, not even an ACK.
    Freeze,
    /// A frame that is not JSON.
    Garbage,
}

#[derive(Default)]
pub(super) struct Session {
    /// The first has the sequence number 1; READY is among them.
    pub(super) log: Vec<Event>,
}

pub(super) struct Sessions {
    /// What happens while there is none is told to nobody.
    pub(super) by_id: BTreeMap<String, Session>,
    pub(super) disturb: VecDeque<ConnectionFault>,
    /// What comes of the next IDENTIFYs and RESUMEs instead of READY: close codes.
    pub(super) refuse: VecDeque<u16>,
    /// So many connections are accepted and never spoken to.
    pub(super) mute: usize,
    /// So many IDENTIFYs and RESUMEs are never answered; heartbeats are.
    pub(super) ignore: usize,
    /// Where sessions are to be resumed, if not where they are begun.
    pub(super) resume_url: Option<String>,
    pub(super) heartbeat_ms: u64,
    pub(super) starts_left: u64,
    /// Whether the portal allows the bot to read messages.
    pub(super) content_allowed: bool,
    /// What is told only together, in reverse.
    held: Option<Vec<Event>>,
    // What was seen.
    pub(super) identified: usize,
    pub(super) resumed: usize,
    pub(super) heartbeats: usize,
    pub(super) faults: Vec<String>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            by_id: BTreeMap::new(),
            disturb: VecDeque::new(),
            refuse: VecDeque::new(),
            mute: 0,
            ignore: 0,
            resume_url: None,
            heartbeat_ms: 41_250,
            starts_left: 999,
            content_allowed: true,
            held: None,
            identified: 0,
            resumed: 0,
            heartbeats: 0,
            faults: Vec::new(),
        }
    }
}

impl Sessions {
    pub(super) fn dispatch(&mut self, name: &str, event: Value) {
        let event = (name.to_owned(), event);
        if let Some(held) = &mut self.held {
            held.push(event);
            return;
        }
        for session in self.by_id.values_mut() {
            session.log.push(event.clone());
        }
    }

    pub(super) fn hold(&mut self) {
        self.held = Some(Vec::new());
    }

    /// Tells what was held, the last first.
    pub(super) fn release_in_reverse(&mut self) {
        for (name, event) in self.held.take().unwrap_or_default().into_iter().rev() {
            self.dispatch(&name, event);
        }
    }

    /// The last event again.
    pub(super) fn repeat(&mut self) {
        let last = self.by_id.values().find_map(|session| session.log.last().cloned());
        let (name, event) = last.unwrap();
        self.dispatch(&name, event);
    }

    pub(super) fn begin(&mut self) -> String {
        let id = format!("session-{:016x}", self.by_id.len() + 1);
        self.by_id.insert(id.clone(), Session::default());
        id
    }

    /// Sessions are forgotten, as after some minutes without a connection.
    pub(super) fn forget(&mut self) {
        self.by_id.clear();
    }
}
