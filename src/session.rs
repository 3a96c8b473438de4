//! A conversation as data: sessions hold turns, turns hold steps, steps hold calls with their
//! outcomes. No I/O; the store keeps them, the agent changes them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Address, Place};

/// Makes a newtype over a row id of the store.
macro_rules! row_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

row_id! {
    /// One conversation; never used again.
    SessionId,
    TurnId,
    /// One tool call of one step.
    CallId,
}

/// The open conversation at an address.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub id: SessionId,
    pub address: Address,
    pub place: Place,
    /// The part of the prompt that stays byte for byte the same; made when the first turn starts.
    pub frozen: Option<Frozen>,
    /// What was said before `begins`, folded into a text.
    pub summary: Option<String>,
    /// The first turn that the model still sees; 0 if it sees all.
    pub begins: TurnId,
    /// Results before it are shortened.
    pub shortened: Option<Mark>,
    /// Oldest first; those that the model no longer sees are not loaded.
    pub turns: Vec<Turn>,
    pub gauge: Gauge,
}

/// A step of a conversation. What comes before it is less than it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    pub turn: TurnId,
    pub step: usize,
}

/// What was learned of a conversation's size. In memory only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Tokens that the provider counts for a thousand of ours.
    pub permille: u64,
    /// Less than the provider was said to take, once it was too much for it.
    pub ceiling: Option<u64>,
    /// Tokens of the whole prompt when the last turn ended.
    pub used: u64,
    /// The same when it was last tried to fold the conversation.
    pub tried: u64,
}

impl Default for Gauge {
    fn default() -> Self {
        Self { permille: 1_000, ceiling: None, used: 0, tried: 0 }
    }
}

impl Session {
    /// One that is not in the store yet; its first turn puts it there.
    pub fn new(address: &Address, place: Place) -> Self {
        Self {
            id: SessionId(0),
            address: address.clone(),
            place,
            frozen: None,
            summary: None,
            begins: TurnId(0),
            shortened: None,
            turns: Vec::new(),
            gauge: Gauge::default(),
        }
    }
}

/// What of the workspace was put into the prompt when the session began, so that a later change
/// does not cost the provider's cache; changes are told in the tail of the next message instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    pub memory: String,
    pub notes: String,
    /// The memory and notes that the model has been told of since, to tell each change once.
    pub told_memory: String,
    pub told_notes: String,
}

/// From one person's messages to an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub id: TurnId,
    pub steps: Vec<Step>,
    pub ending: Option<Ending>,
}

/// How a turn ended, as the model is reminded of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Answered,
    /// The model chose to say nothing.
    Silent,
    /// The person said `/stop` or `/new`.
    Stopped,
    /// The person was told in words what went wrong.
    Failed,
}

/// One completion with its tool calls, and what the person said before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// What was said since the step before, as the model was shown it, byte for byte.
    pub heard: Option<String>,
    /// Pictures that came with it.
    pub images: Vec<Image>,
    pub text: String,
    pub thinking: Vec<Thinking>,
    pub calls: Vec<Call>,
}

/// A picture in the workspace, shown to models that see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub path: String,
    pub mime: String,
}

/// A provider's own block of reasoning, to be passed back to the same provider unharmed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thinking {
    /// The model that made it; another model must not be given it.
    pub model: String,
    pub block: Value,
}

/// One tool call and what became of it: a call without an outcome cannot be written down.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub id: CallId,
    /// The provider's name for the call, which its result must repeat.
    pub wire_id: String,
    pub tool: String,
    /// JSON as the model wrote it, which need not parse.
    pub arguments: String,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Planned,
    /// Begun; after a crash, the file tells whether it happened. `result` is what the model is told
    /// if it did.
    Running {
        intent: Intent,
        result: String,
    },
    Done(String),
    Failed(String),
    /// A crash came between: it may or may not have happened.
    Interrupted,
    /// Not begun, because of what the person said meanwhile.
    Skipped,
}

/// What a running call was about to do: turn a workspace file with the first hash (none: no file)
/// into one with the second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub path: String,
    pub before: Option<String>,
    pub after: String,
}

impl Outcome {
    /// What the model reads as the call's result.
    pub fn for_model(&self) -> &str {
        match self {
            Self::Done(text) | Self::Failed(text) => text,
            Self::Planned | Self::Skipped => {
                "Not run: the person said something in the meantime. Call it again if it is still wanted."
            }
            Self::Running { .. } | Self::Interrupted => {
                "Interrupted by a restart: it may or may not have happened. Check before you repeat it."
            }
        }
    }

    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Planned | Self::Running { .. })
    }

    pub fn is_error(&self) -> bool {
        !matches!(self, Self::Done(_))
    }
}
