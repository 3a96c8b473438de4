//! Conversations as data: sessions have turns, turns have steps, steps have calls with their outcomes. Not
//! here: I/O. The store keeps them, and the agent changes them.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::types::frozen::{FrozenContext, FrozenFacts};
use crate::types::message::{ChatKind, SenderId};
use crate::types::origin::Origin;
use crate::types::person::FolderOwner;
use crate::types::persona::Persona;
pub use crate::types::row_id::{CallId, SessionId, TurnId};
use crate::types::source::{self, Author, Source, SourcedText};
use crate::types::summary::SourcedSummary;
pub use crate::types::token_estimate::{TokenEstimate, TokenSums};
use crate::types::words::words;

/// An open conversation: with people at an address, or of a background task.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub id: SessionId,
    pub origin: Origin,
    pub chat_kind: ChatKind,
    /// The part of the prompt that stays byte for byte the same. Created when the first turn starts.
    pub frozen: Option<FrozenContext>,
    /// Its settings. Commands change them in the store, which is read before each step.
    pub settings: Settings,
    /// The bot's persona. In memory only: each turn chooses it anew.
    pub persona: Arc<Persona>,
    /// The owner of its folder in a private chat. In memory only, like the persona.
    pub owner: Option<FolderOwner>,
    /// Summary of the turns before `begins`.
    pub summary: Option<String>,
    /// The sources of the summary.
    pub summary_sources: Vec<Source>,
    /// Summary of the trusted parts alone. Set if `summary` also covers untrusted ones.
    pub trusted_summary: Option<SourcedSummary>,
    /// True if a call can open a summary of what the summary leaves out as untrusted.
    pub has_untrusted_summary: bool,
    /// Number of parts that were left out. 0 if nobody has counted them.
    pub left_out: usize,
    /// The first turn that the model still sees. 0 if it sees all.
    pub begins: TurnId,
    /// Number of the first steps of that turn that are part of the summary.
    pub begins_step: usize,
    /// Results before this step are shortened.
    pub shortened: Option<StepMark>,
    /// The turns that the model still sees, oldest first. Others are not loaded.
    pub turns: Vec<Turn>,
    pub estimate: TokenEstimate,
}

/// Identifies a step of a conversation. Steps are ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepMark {
    pub turn: TurnId,
    pub step: usize,
}

impl Session {
    /// Creates a session. Its first turn stores it.
    pub fn new(origin: impl Into<Origin>, chat_kind: ChatKind) -> Self {
        Self {
            id: SessionId(0),
            origin: origin.into(),
            chat_kind,
            frozen: None,
            settings: Settings::default(),
            persona: Arc::default(),
            owner: None,
            summary: None,
            summary_sources: Vec::new(),
            trusted_summary: None,
            has_untrusted_summary: false,
            left_out: 0,
            begins: TurnId(0),
            begins_step: 0,
            shortened: None,
            turns: Vec::new(),
            estimate: TokenEstimate::default(),
        }
    }

    /// Returns the sources of the model's input, each once.
    pub fn sources(&self) -> Vec<Source> {
        let mut sources = self.summary_sources.clone();
        self.turns.iter().for_each(|turn| turn.add_sources(&mut sources));
        sources
    }

    /// Returns the summary that its model is shown, and then the trusted one beside it.
    pub fn summaries(&self) -> impl Iterator<Item = SourcedSummary> {
        let sources = self.summary_sources.clone();
        let shown = self.summary.clone().map(|text| SourcedSummary { text, sources });
        [shown, self.trusted_summary.clone()].into_iter().flatten()
    }

    /// Returns its approximate size in memory, in bytes: its texts, and the overhead of each of its
    /// parts.
    pub fn bytes(&self) -> usize {
        let frozen = self.frozen.iter().flat_map(|frozen| {
            [&frozen.memory, &frozen.notes, &frozen.told_memory, &frozen.told_notes]
        });
        let trusted = self.trusted_summary.as_ref().map(|summary| &summary.text);
        let own: usize = frozen.chain(&self.summary).chain(trusted).map(String::len).sum();
        let steps = self.turns.iter().flat_map(|turn| &turn.steps);
        let steps: usize = steps.map(Step::bytes).sum();
        size_of::<Self>() + own + self.turns.len() * size_of::<Turn>() + steps
    }
}

/// Settings that commands change for one conversation. Unknown settings of a newer version are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The config section of the provider that answers. None means the first of the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub effort: Effort,
    /// None means the config's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueMode>,
    /// True if the model's reasoning is shown to people.
    pub show_thinking: bool,
    #[serde(flatten)]
    pub others: serde_json::Map<String, Value>,
}

/// Reasoning effort of a model before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// The model's default. Nothing is sent.
    #[default]
    Default,
    /// No reasoning, or as little as the model can do.
    Off,
    Low,
    Medium,
    High,
}

/// Handling of messages that a person sends while a turn works for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// The running turn receives it at its next step.
    #[default]
    Steer,
    /// Each message waits, and gets a turn of its own.
    Followup,
    /// Messages wait, and all of them get the next turn.
    Collect,
    /// A message ends the turn, and begins the next one.
    Interrupt,
}

/// The model output that ends a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// A text without calls, which is the answer.
    #[default]
    Answer,
    /// An explicit call. A text alone does not end the turn, and the model is reminded of that.
    Explicit,
}

words!(Effort { Default = "default", Off = "off", Low = "low", Medium = "medium", High = "high" });
words!(Finish { Answer = "answer", Explicit = "explicit" });
words!(QueueMode {
    Steer = "steer",
    Followup = "followup",
    Collect = "collect",
    Interrupt = "interrupt",
});

/// The work from one person's messages to an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub id: TurnId,
    /// The sender of the messages.
    pub by: SenderId,
    pub steps: Vec<Step>,
    pub ending: Option<TurnOutcome>,
}

impl Turn {
    /// Adds the sources of the model's input and of the outcomes of the calls.
    pub fn add_sources(&self, sources: &mut Vec<Source>) {
        for step in &self.steps {
            let input = step.input.iter().flat_map(SourcedText::iter).map(|part| part.source);
            let outcomes = step.calls.iter().flat_map(|call| &call.sources);
            input.chain(outcomes).for_each(|source| source::add(sources, source));
        }
    }
}

/// The end of a turn, as later prompts report it to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    Answered,
    /// The model chose not to answer.
    Silent,
    /// The person sent `/stop` or `/new`.
    Stopped,
    /// The person got an explanation of the failure.
    Failed,
}

/// One completion with its tool calls, and the input before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The input since the previous step, byte for byte as the model received it, with its sources.
    pub input: Option<SourcedText>,
    /// Pictures of the input.
    pub images: Vec<Image>,
    pub text: String,
    pub thinking: Vec<Thinking>,
    pub calls: Vec<Call>,
    /// True if the model sees only its input: the rest is part of the summary.
    pub is_summarized: bool,
}

impl Step {
    /// Appends input that arrived before the step.
    pub fn join(&mut self, input: Option<SourcedText>, images: Vec<Image>) {
        match (&mut self.input, input) {
            (Some(own_input), Some(input)) => {
                own_input.push_program("\n\n");
                own_input.append(&input);
            }
            (own_input @ None, input) => *own_input = input,
            (Some(_), None) => {}
        }
        self.images.extend(images);
    }

    fn bytes(&self) -> usize {
        let input = self.input.as_ref().map_or(0, |input| input.len());
        let thinking: usize = self.thinking.iter().map(|it| value_bytes(&it.block)).sum();
        let calls = self
            .calls
            .iter()
            .map(|call| size_of::<Call>() + call.arguments.len() + call.outcome.for_model().len());
        size_of::<Self>() + input + self.text.len() + thinking + calls.sum::<usize>()
    }
}

fn value_bytes(value: &Value) -> usize {
    let content_bytes: usize = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
        }
    };
    size_of::<Value>() + content_bytes
}

/// A picture in the workspace, for models that accept images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub path: String,
    pub mime: String,
}

/// A provider's own reasoning block, to be returned unchanged to the same provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thinking {
    /// The model that produced it. Another model must not get it.
    pub model: String,
    pub block: Value,
}

/// One tool call and its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub id: CallId,
    /// The provider's id of the call, which its result must repeat.
    pub wire_id: String,
    pub tool: String,
    /// JSON as the model wrote it, which may be invalid.
    pub arguments: String,
    pub outcome: CallOutcome,
    /// The sources of the outcome. Empty if the program wrote it.
    pub sources: Vec<Source>,
    /// Pictures of an answer that is the outcome.
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    Planned,
    /// Not started: a person was asked, and the turn is suspended.
    Waiting,
    /// Started. After a crash, the intent decides how to handle it. `result` is the model's result if the
    /// call took effect.
    Running {
        intent: Intent,
        result: String,
    },
    Done(String),
    Failed(String),
    /// Not started: it is not permitted, or nobody approved it.
    Denied(String),
    /// A crash interrupted it: it may or may not have taken effect.
    Interrupted,
    /// Not started, because of a message that arrived meanwhile.
    Skipped,
}

/// The change that a running call was about to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Intent {
    /// Changes a workspace file from the first hash (none: no file) to the second. The file's hash shows if
    /// the change was made.
    File {
        path: String,
        before: Option<String>,
        after: Option<String>,
        /// The call that this undoes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undoes: Option<CallId>,
    },
    /// Acts outside the workspace, where nothing shows if it happened. `idempotent`: a repetition does no harm.
    Act { idempotent: bool },
}

/// A call's change of a file, by hashes (none: no file), to be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUndo {
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// The model's plan, kept with the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub items: Vec<PlanItem>,
    /// True if the turn that wrote it had read untrusted content.
    #[serde(default)]
    pub tainted: bool,
    /// The person of that turn. None if a former version stored it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
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
    /// Returns true if an item is not done.
    pub fn is_open(&self) -> bool {
        self.items.iter().any(|item| item.state != ItemState::Done)
    }

    pub fn source(&self) -> Source {
        Source::Plan { by: self.by.clone(), read_others: self.tainted }
    }
}

/// The text form for people and models, one item per line.
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

impl CallOutcome {
    /// Returns the call's result for the model.
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
