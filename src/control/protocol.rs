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
use crate::sandbox::SandboxState;
use crate::tasks::heartbeat::HeartbeatRequest;
use crate::tasks::schedule::JobRequest;
use crate::types::event::Event;
use crate::types::message::Address;
use crate::types::safe_mode::SafeMode;

/// Actions listed at once.
pub const ACTIONS_MAX: usize = 1_000;

/// Of one message of a terminal; more is a file that the model reads in parts. About 25,000 tokens.
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
    },
    /// The last actions, newest first.
    Actions {
        limit: usize,
    },
    Listing {
        what: Listing,
    },
    /// The owner's conversations.
    Sessions {
        request: SessionsRequest,
    },
    /// Reads the config again.
    Reload,
    /// Asks each model for a word, and describes the links.
    Doctor,
    /// Jobs; what comes of a new one goes to the owner if nothing else is said.
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
    /// About the page in the browser.
    #[cfg(feature = "gateway")]
    Web {
        request: WebRequest,
    },
    /// A message of a script's, say.
    Send(SendRequest),
    Chat {
        session: String,
        /// Also show what happens inside the turns.
        #[serde(default)]
        events: bool,
    },
}

/// A request about conversations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionsRequest {
    List,
    /// Those with words in their names, or in what was said.
    Search {
        words: String,
    },
    /// One, by its number or name, with all that was said.
    Show {
        asked: String,
    },
}

/// A request about the page in the browser.
#[cfg(feature = "gateway")]
#[derive(Debug, Serialize, Deserialize)]
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

/// A line of ours.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    Status(Box<Status>),
    Done(String),
    Failed(String),
    /// The outcome of a send request.
    Sent(SendOutcome),
    /// Text that continues the draft.
    Text(String),
    /// The draft begins anew.
    Again,
    /// A whole message.
    Message(String),
    /// The message before is a question: the turn waits for what is typed now.
    Asks,
    /// All that was said here has had its outcome, and it was shown: `well`, or in words that say
    /// why there is no answer.
    Settled {
        well: bool,
    },
    Event(Box<Event>),
    Actions(Vec<Action>),
    Listing(Value),
    Findings(Vec<Finding>),
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
    pub tools: usize,
    pub skills: usize,
    pub prompt_tokens: usize,
    pub turns_running: usize,
    pub waiting: usize,
    /// Turns that wait for a model.
    #[serde(default)]
    pub awaiting_model: Option<model_waits::WaitingTurns>,
    pub tokens_30_days: u64,
    pub channels: BTreeMap<String, ChannelStatus>,
    /// MCP servers.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpServerStatus>,
    #[serde(default)]
    pub shell: SandboxState,
    /// In words.
    #[serde(default)]
    pub heartbeat: String,
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
    /// Seconds since the platform's server was last heard.
    pub last_byte_s: Option<i64>,
    pub last_event_s: Option<i64>,
    pub trouble: Option<String>,
    /// Messages on their way out.
    pub pending: i64,
    /// Those of them that fail.
    #[serde(default)]
    pub failing: FailingDeliveries,
}
