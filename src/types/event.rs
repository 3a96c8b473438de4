//! Events of turns and deliveries, as one typed stream for observers. Emitting never waits: a slow
//! observer misses events and gets the number of missed ones. Nothing depends on an event being seen.

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::types::message::DeliveryId;
use crate::types::origin::Origin;
use crate::types::session::{CallId, SessionId, TurnId};
use crate::types::source::Source;

/// Maximum number of events that wait for an observer. It misses further ones.
const BEHIND_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Set for events of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The conversation or task of the turn. None for events of the stream itself.
    #[serde(rename = "address", default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// True for a private turn of somebody who is not the owner.
    #[serde(skip)]
    pub is_others_private: bool,
    #[serde(flatten)]
    pub what: EventKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    TurnStart {
        attempt: u32,
    },
    StepStart {
        step: usize,
    },
    /// The model has answered a step.
    StepEnd {
        step: usize,
        /// Tokens of the prompt, the cached ones included.
        input: u64,
        cached: u64,
        output: u64,
        /// In billionths of a dollar. None if the price is unknown.
        cost: Option<u64>,
    },
    ThinkingStart,
    Thinking {
        text: String,
    },
    ThinkingEnd,
    Text {
        text: String,
    },
    ToolStart {
        action: CallId,
        tool: String,
        arguments: String,
    },
    ToolEnd {
        action: CallId,
        tool: String,
        result: String,
        failed: bool,
        ms: u64,
    },
    /// The sources of a call's result.
    Sources {
        action: CallId,
        sources: Vec<Source>,
    },
    /// A file of the owner's memory was changed, or `facts` were noticed in a conversation.
    MemoryUpdated {
        path: String,
    },
    /// The model's text did not end the turn, because a call is required.
    NoToolCall {
        reminder: u32,
    },
    Steered {
        messages: usize,
    },
    /// Turns were replaced by a summary.
    Compacted {
        turns: usize,
    },
    Error {
        text: String,
    },
    TurnEnd {
        silent: bool,
    },
    /// A message, or a part of one, has reached its platform.
    Delivered {
        delivery: DeliveryId,
        part: u32,
    },
    /// The delivery failed, and will be tried again.
    DeliveryLate {
        delivery: DeliveryId,
        reason: String,
    },
    /// The delivery was given up.
    DeliveryFailed {
        delivery: DeliveryId,
        reason: String,
    },
    /// The observer was slow and missed events.
    Missed {
        events: u64,
    },
}

/// Declares the serialized names of the events.
macro_rules! names {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// The serialized names of the events.
        pub const NAMES: &[&str] = &[$($name),+];

        impl EventKind {
            /// Returns the event's name in [`NAMES`].
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $name),+ }
            }
        }
    };
}

names! {
    TurnStart = "turn_start",
    StepStart = "step_start",
    StepEnd = "step_end",
    ThinkingStart = "thinking_start",
    Thinking = "thinking",
    ThinkingEnd = "thinking_end",
    Text = "text",
    ToolStart = "tool_start",
    ToolEnd = "tool_end",
    Sources = "sources",
    MemoryUpdated = "memory_updated",
    NoToolCall = "no_tool_call",
    Steered = "steered",
    Compacted = "compacted",
    Error = "error",
    TurnEnd = "turn_end",
    Delivered = "delivered",
    DeliveryLate = "delivery_late",
    DeliveryFailed = "delivery_failed",
    Missed = "missed",
}

impl EventKind {
    /// Returns the event without texts of people and models, and without names of files.
    pub fn without_texts(self) -> Self {
        let text = String::new();
        match self {
            Self::Thinking { .. } => Self::Thinking { text },
            Self::Text { .. } => Self::Text { text },
            Self::MemoryUpdated { .. } => Self::MemoryUpdated { path: text },
            Self::ToolStart { action, tool, .. } => {
                Self::ToolStart { action, tool, arguments: text }
            }
            Self::ToolEnd { action, tool, failed, ms, .. } => {
                Self::ToolEnd { action, tool, result: text, failed, ms }
            }
            Self::Sources { action, .. } => Self::Sources { action, sources: Vec::new() },
            other @ (Self::TurnStart { .. }
            | Self::StepStart { .. }
            | Self::StepEnd { .. }
            | Self::ThinkingStart
            | Self::ThinkingEnd
            | Self::NoToolCall { .. }
            | Self::Steered { .. }
            | Self::Error { .. }
            | Self::Compacted { .. }
            | Self::TurnEnd { .. }
            | Self::Delivered { .. }
            | Self::DeliveryLate { .. }
            | Self::DeliveryFailed { .. }
            | Self::Missed { .. }) => other,
        }
    }
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

    pub fn subscribe(&self) -> EventSubscriber {
        EventSubscriber(self.0.subscribe())
    }
}

/// An observer of the events since it subscribed.
pub struct EventSubscriber(broadcast::Receiver<Event>);

impl EventSubscriber {
    /// Waits for the next event. [`EventKind::Missed`] stands for events that were missed. None once no
    /// event can follow.
    pub async fn next(&mut self) -> Option<Event> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(events)) => {
                let what = EventKind::Missed { events };
                Some(Event {
                    session: None,
                    turn: None,
                    origin: None,
                    is_others_private: false,
                    what,
                })
            }
            Err(RecvError::Closed) => None,
        }
    }
}
