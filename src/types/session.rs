//! A conversation as data: sessions hold turns, turns hold steps, steps hold calls with their
//! outcomes. No I/O; the store keeps them, the agent changes them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::types::message::{Place, SenderId};
use crate::types::origin::Origin;
use crate::types::source::{Parts, Source};

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

/// An open conversation: with people at an address, or of a background task with itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub id: SessionId,
    pub origin: Origin,
    pub place: Place,
    /// The part of the prompt that stays byte for byte the same; made when the first turn starts.
    pub frozen: Option<Frozen>,
    /// What people wish of it; commands change them in the store, which is asked before each step.
    pub settings: Settings,
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
    /// What was counted and does not change any more.
    pub kept: Counted,
}

/// The estimated sizes of the turns that have ended, and of the steps of the one that runs that are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The oldest ones.
    pub turns: usize,
    /// The last of them.
    pub last: Option<TurnId>,
    pub turns_tokens: u64,
    pub running: Option<TurnId>,
    /// The first ones of the running turn.
    pub steps: usize,
    pub steps_tokens: u64,
}

impl Default for Gauge {
    fn default() -> Self {
        Self { permille: 1_000, ceiling: None, used: 0, tried: 0, kept: Counted::default() }
    }
}

impl Session {
    /// One that is not in the store yet; its first turn puts it there.
    pub fn new(origin: impl Into<Origin>, place: Place) -> Self {
        Self {
            id: SessionId(0),
            origin: origin.into(),
            place,
            frozen: None,
            settings: Settings::default(),
            summary: None,
            begins: TurnId(0),
            shortened: None,
            turns: Vec::new(),
            gauge: Gauge::default(),
        }
    }

    /// About how many bytes of memory it takes: its texts, and as much for each of its parts.
    pub fn bytes(&self) -> usize {
        let frozen = self.frozen.iter().flat_map(|frozen| {
            [&frozen.memory, &frozen.notes, &frozen.told_memory, &frozen.told_notes]
        });
        let own: usize = frozen.chain(&self.summary).map(String::len).sum();
        let steps = self.turns.iter().flat_map(|turn| &turn.steps);
        let steps: usize = steps.map(Step::bytes).sum();
        size_of::<Self>() + own + self.turns.len() * size_of::<Turn>() + steps
    }
}

/// What commands set for one conversation. What a newer version wrote, and this one does not know, is
/// kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The section of the provider that answers; none is the first of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub effort: Effort,
    /// None is as the config has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueMode>,
    /// Whether people are shown what the model thought.
    pub show_thinking: bool,
    #[serde(flatten)]
    pub others: serde_json::Map<String, Value>,
}

/// How much a model is to think before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// As it does by itself; nothing is sent.
    #[default]
    Default,
    /// Not at all, or as little as the model can.
    Off,
    Low,
    Medium,
    High,
}

/// What becomes of what a person says while a turn works for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// The turn is shown it at its next step.
    #[default]
    Steer,
    /// Each message waits, and is a turn of its own.
    Followup,
    /// It waits, and all of it is the next turn.
    Collect,
    /// It ends the turn, and begins the next one.
    Interrupt,
}

/// What ends a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// A text without calls, which is the answer.
    #[default]
    Answer,
    /// A call that says so. A text alone is none, and the model is reminded of that.
    Explicit,
}

/// Words for the variants of an enum, as people write and are shown them.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            /// All of them, by their words.
            pub const CHOICES: &[(&str, Self)] = &[$(($word, Self::$variant)),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn parse(word: &str) -> Option<Self> {
                let choice = Self::CHOICES.iter().find(|(choice, _)| choice.eq_ignore_ascii_case(word));
                choice.map(|(_, choice)| *choice)
            }
        }
    };
}

words!(Effort { Default = "default", Off = "off", Low = "low", Medium = "medium", High = "high" });
words!(Finish { Answer = "answer", Explicit = "explicit" });
words!(QueueMode {
    Steer = "steer",
    Followup = "followup",
    Collect = "collect",
    Interrupt = "interrupt",
});

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
    /// Whose messages they are.
    pub by: SenderId,
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
    /// What was said since the step before, as the model was shown it, byte for byte, with its sources.
    pub heard: Option<Parts>,
    /// Pictures that came with it.
    pub images: Vec<Image>,
    pub text: String,
    pub thinking: Vec<Thinking>,
    pub calls: Vec<Call>,
}

impl Step {
    fn bytes(&self) -> usize {
        let heard = self.heard.as_ref().map_or(0, |heard| heard.len());
        let thinking: usize = self.thinking.iter().map(|it| value_bytes(&it.block)).sum();
        let calls = self
            .calls
            .iter()
            .map(|call| size_of::<Call>() + call.arguments.len() + call.outcome.for_model().len());
        size_of::<Self>() + heard + self.text.len() + thinking + calls.sum::<usize>()
    }
}

fn value_bytes(value: &Value) -> usize {
    let within: usize = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
        }
    };
    size_of::<Value>() + within
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
    /// The sources of the outcome; none if it is in the program's own words.
    pub sources: Vec<Source>,
    /// Pictures that came with an answer which is the outcome.
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Planned,
    /// Not begun: somebody was asked, and the turn is parked.
    Waiting,
    /// Begun; after a crash, the intent tells what to make of it. `result` is what the model is told
    /// if it happened.
    Running {
        intent: Intent,
        result: String,
    },
    Done(String),
    Failed(String),
    /// Not begun: it may not, or nobody said that it may.
    Denied(String),
    /// A crash came between: it may or may not have happened.
    Interrupted,
    /// Not begun, because of what the person said meanwhile.
    Skipped,
}

/// What a running call was about to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Intent {
    /// Turn a workspace file with the first hash (none: no file) into one with the second; the file
    /// tells whether it happened.
    File {
        path: String,
        before: Option<String>,
        after: Option<String>,
        /// The call that this undoes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undoes: Option<CallId>,
    },
    /// Act outside, where nothing tells us whether it happened; `idempotent`: twice is as once.
    Act { idempotent: bool },
}

/// The file that a call has changed, by hashes (none: no file), to be turned back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUndo {
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// What the model means to do, kept with the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub items: Vec<PlanItem>,
    /// Who wrote it had read what strangers wrote.
    #[serde(default)]
    pub tainted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct PlanItem {
    pub text: String,
    pub state: ItemState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ItemState {
    Todo,
    Doing,
    Done,
}

impl Plan {
    /// Whether something is left to do.
    pub fn is_open(&self) -> bool {
        self.items.iter().any(|item| item.state != ItemState::Done)
    }
}

/// As people and models read it, an item a line.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, PlanItem { text, state }) in self.items.iter().enumerate() {
            let sign = match state {
                ItemState::Todo => ' ',
                ItemState::Doing => '>',
                ItemState::Done => 'x',
            };
            let end = if at + 1 == self.items.len() { "" } else { "\n" };
            write!(f, "- [{sign}] {text}{end}")?;
        }
        Ok(())
    }
}

impl Outcome {
    /// What the model reads as the call's result.
    pub fn for_model(&self) -> &str {
        match self {
            Self::Done(text) | Self::Failed(text) | Self::Denied(text) => text,
            Self::Planned | Self::Waiting | Self::Skipped => {
                "Not run: the person said something in the meantime. Call it again if it is still wanted."
            }
            Self::Running { .. } | Self::Interrupted => {
                "Interrupted by a restart: it may or may not have happened. Check before you repeat it."
            }
        }
    }

    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Planned | Self::Waiting | Self::Running { .. })
    }

    pub fn is_error(&self) -> bool {
        !matches!(self, Self::Done(_))
    }
}
