//! What happens inside a turn, as one typed stream for onlookers. Emitting never waits: a slow
//! onlooker misses events and is told how many. Nothing depends on an event being seen.

use serde::Serialize;
use tokio::sync::broadcast;

use crate::message::Address;
use crate::session::{SessionId, TurnId};

/// Events that a slow onlooker may fall behind before it misses some.
const BEHIND_MAX: usize = 256;

#[derive(Clone, Debug, Serialize)]
pub struct Event {
    pub session: SessionId,
    pub turn: TurnId,
    pub address: Address,
    #[serde(flatten)]
    pub what: Happening,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happening {
    TurnStart {
        attempt: u32,
    },
    StepStart {
        step: usize,
    },
    Thinking {
        text: String,
    },
    Text {
        text: String,
    },
    ToolStart {
        tool: String,
        arguments: String,
    },
    ToolEnd {
        tool: String,
        result: String,
        failed: bool,
    },
    Steered {
        messages: usize,
    },
    /// Older turns were folded into the summary.
    Compacted {
        turns: usize,
    },
    Error {
        text: String,
    },
    TurnEnd {
        silent: bool,
    },
}

/// The sending side, cheap to clone.
#[derive(Clone)]
pub struct Events(broadcast::Sender<Event>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::Sender::new(BEHIND_MAX))
    }
}

impl Events {
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        if self.0.receiver_count() > 0 {
            self.0.send(event()).ok();
        }
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
