//! The lines of the control socket, in both directions. Data only.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::disk_usage::DiskUsage;
use super::health::Health;
use super::listing::Listing;
use super::send::{SendOutcome, SendRequest};
use crate::bus::outbox::FailingDeliveries;
use crate::conversation::actions::Action;
use crate::conversation::model_waits;
use crate::doctor::Finding;
use crate::memory::recall::progress::IndexCount;
use crate::provider::troubles::ModelTrouble;
use crate::sandbox::SandboxState;
use crate::tasks::heartbeat::HeartbeatRequest;
use crate::tasks::schedule::JobRequest;
use crate::types::event::Event;
use crate::types::message::Address;
use crate::types::safe_mode::SafeMode;

/// Maximum number of listed actions.
pub const ACTIONS_MAX: usize = 1_000;

/// Maximum size of one message of a terminal, in bytes: about 25,000 tokens. A longer text has to be a file,
/// which the model reads in parts.
pub const MESSAGE_BYTES_MAX: usize = 100_000;

/// The first line of a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    Status,
    Usage,
    /// `list`, `approve CODE`, `deny CODE` or `revoke CHANNEL ID`.
    Pair {
        words: Vec<String>,
        /// The changed access as a listing. Not for `list`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        json: bool,
    },
    /// The last actions, newest first.
    Actions {
        limit: usize,
    },
    Listing {
        what: Listing,
    },
    /// The explanation of an action, a file or a fact, as a listing.
    Why {
        what: String,
    },
    /// The owner's conversations.
    Sessions {
        request: SessionsRequest,
    },
    /// Reads the config again.
    Reload {
        /// The report as a listing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        json: bool,
    },
    /// Asks each model for a word, and describes the links.
    Doctor,
    /// Lists or changes jobs. The results of a new one go to the owner unless `to` is set.
    Cron {
        wanted: Box<JobRequest>,
        #[serde(default)]
        to: Option<Address>,
    },
    Heartbeat {
        wish: HeartbeatRequest,
        /// The state as a listing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        json: bool,
    },
    /// `list`, `p5`, or `admin p5` and the like.
    People {
        words: Vec<String>,
    },
    /// `show`, `set WHOSE AMOUNT PER` or `reset WHOSE`.
    Budget {
        words: Vec<String>,
        /// The budgets as a listing. Nothing is changed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        json: bool,
    },
    /// A request about the web page.
    #[cfg(feature = "gateway")]
    Web {
        request: WebRequest,
    },
    /// Sends a message, for example from a script.
    Send(SendRequest),
    Chat {
        session: String,
        /// True if the events of turns are shown, too.
        #[serde(default)]
        events: bool,
    },
}

impl ControlRequest {
    /// Returns true if the request can be made again where its outcome is unknown: it changes nothing, or the same once
    /// more. A chat ends with its connection.
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::Status
            | Self::Usage
            | Self::Actions { .. }
            | Self::Listing { .. }
            | Self::Why { .. }
            | Self::Sessions { .. }
            | Self::Reload { .. }
            | Self::Doctor
            | Self::Chat { .. } => true,
            Self::Cron { wanted, .. } => wanted.action.only_reads(),
            Self::Heartbeat { json, .. } | Self::Budget { json, .. } => *json,
            #[cfg(feature = "gateway")]
            Self::Web { request } => matches!(request, WebRequest::Logins),
            Self::Pair { .. } | Self::People { .. } | Self::Send(_) => false,
        }
    }

    /// Returns true if the request shows something and stores nothing.
    pub fn only_reads(&self) -> bool {
        match self {
            Self::Status
            | Self::Usage
            | Self::Actions { .. }
            | Self::Listing { .. }
            | Self::Why { .. }
            | Self::Sessions { .. }
            | Self::Doctor
            | Self::Budget { json: true, .. } => true,
            Self::Pair { words, .. } | Self::People { words } | Self::Budget { words, .. } => {
                // `p5` shows a person.
                words.len() <= 1 || words[0].eq_ignore_ascii_case("show")
            }
            Self::Cron { wanted, .. } => wanted.action.only_reads(),
            Self::Heartbeat { wish, .. } => *wish == HeartbeatRequest::Show,
            #[cfg(feature = "gateway")]
            Self::Web { request } => *request == WebRequest::Logins,
            Self::Reload { .. } | Self::Send(_) | Self::Chat { .. } => false,
        }
    }
}

/// A request about conversations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionsRequest {
    List,
    /// The conversations with these words in their names or messages.
    Search {
        words: String,
    },
    /// One conversation, by its number or name, with all messages.
    Show {
        asked: String,
    },
}

/// A request about the web page.
#[cfg(feature = "gateway")]
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebRequest {
    /// A link for the owner, for a person of the config, or for one with a number such as `p5`.
    Link {
        person: Option<String>,
        /// The link alone, as a listing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        json: bool,
    },
    Logins,
    /// The id of a sign-in, or `all`.
    Revoke {
        id: String,
    },
}

/// A further line of a client that chats.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatLine {
    pub say: String,
    /// True for the output of another program, which anybody may have written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub piped: bool,
}

/// A line of the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    Status(Box<Status>),
    Done(String),
    Failed(String),
    /// The daemon ends, and has not begun with the request, which can be made again.
    NotTaken,
    /// The outcome of a send request.
    Sent(SendOutcome),
    /// Text that continues the draft.
    Text(String),
    /// The draft starts again.
    Again,
    /// A whole message.
    Message(String),
    /// The message before is a question: the turn waits for what is typed now.
    Asks,
    /// All messages from here have had their outcome, and it was shown. `well` is false if it explains why
    /// there is no answer.
    Settled {
        well: bool,
    },
    Event(Box<Event>),
    Actions(Vec<Action>),
    Listing(Value),
    Findings(Vec<Finding>),
}

impl Response {
    /// Returns a listing of what a script has asked for.
    pub fn listing(listed: &impl Serialize) -> Self {
        match serde_json::to_value(listed) {
            Ok(listed) => Self::Listing(listed),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    pub home: String,
    pub pid: u32,
    pub since: DateTime<Utc>,
    #[serde(default)]
    pub health: Health,
    #[serde(default)]
    pub safe_mode: Option<SafeMode>,
    #[serde(default)]
    pub disk: DiskUsage,
    pub provider: String,
    /// The models that fail, by the names of their sections.
    #[serde(default)]
    pub model_troubles: BTreeMap<String, ModelTrouble>,
    pub tools: usize,
    pub skills: usize,
    pub prompt_tokens: usize,
    pub turns_running: usize,
    pub waiting: usize,
    /// Turns that wait for a model.
    #[serde(default)]
    pub awaiting_model: Option<model_waits::WaitingTurns>,
    pub tokens_30_days: u64,
    /// None unless the index of the memory is being filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexing: Option<IndexCount>,
    pub channels: BTreeMap<String, ChannelStatus>,
    /// The number of outgoing messages on each channel that is not in the config any more. They wait until it is.
    #[serde(default)]
    pub removed_channels: BTreeMap<String, i64>,
    /// MCP servers.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpServerStatus>,
    #[serde(default)]
    pub shell: SandboxState,
    /// The state of the heartbeat, as text for people.
    #[serde(default)]
    pub heartbeat: String,
    /// The number of warnings about the config as it is now, which the command line adds. None if it cannot be read there.
    #[serde(default)]
    pub config_warnings: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct McpServerStatus {
    pub up: bool,
    pub tools: usize,
    pub trouble: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ChannelStatus {
    pub up: bool,
    pub about: String,
    /// Seconds since the last byte from the platform's server.
    pub last_byte_s: Option<i64>,
    pub last_event_s: Option<i64>,
    pub trouble: Option<String>,
    /// Number of messages on their way out.
    pub pending: i64,
    /// The pending messages that fail.
    #[serde(default)]
    pub failing: FailingDeliveries,
}
