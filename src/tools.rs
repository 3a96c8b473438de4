//! What a model can do: tools with typed arguments, behind one erased form. Who asks and from
//! where comes from the program in [`ToolContext`]; a model can never set it.

pub mod ask;
mod caller;
pub mod delegate;
pub mod files;
pub mod finish;
mod for_role;
#[cfg(feature = "hardware")]
pub mod hardware;
mod malformed;
pub mod mcp;
pub mod memory;
pub mod message;
pub mod past;
pub mod plan;
pub mod propose;
pub mod schedule;
mod set;
pub mod shell;
pub mod skill;
pub mod undo;
pub mod web;

pub use crate::tasks::subagents::Task;
pub use crate::trust::acts::{Kind, Reach, Terms};
pub use crate::types::untrusted;
pub use set::{Lender, Lent, ToolSet};

use std::sync::Arc;

use async_trait::async_trait;
use chrono::DateTime;
use chrono_tz::Tz;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use caller::{Caller, TaskTools};

use crate::conversation::actions::Actions;
use crate::conversation::proposals;
use crate::memory::audience;
use crate::people::Role;
use crate::provider::ToolSchema;
use crate::store::StoreError;
use crate::tasks::schedule as jobs;
use crate::trust::instruction_watch::{Actor, Oversight};
use crate::types::message::{Address, Body, ChannelName, Place, Sender};
use crate::types::session::{CallId, Plan, SessionId};
use crate::types::source::Source;
use crate::workspace::{Audience, FileChange, FileError, Workspace, WorkspacePath};

/// The longest result that a model is shown, in characters; how to read on is said at the cut.
pub const RESULT_CHARS_MAX: usize = 8_000;

/// What is fixed about a tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolSpec {
    /// `[a-z0-9_]`, at most 64.
    pub name: &'static str,
    /// For the model: what it does and when to use it.
    pub description: &'static str,
    /// The least role that may use it.
    pub role: Role,
    pub kind: Kind,
    /// Whether a call that broke, hung or met a passing fault may be made once more.
    pub retries: bool,
}

/// Who asks, where from, when. Given by the program, per call.
pub struct ToolContext {
    pub workspace: Workspace,
    /// What was done, and the ways back.
    pub actions: Actions,
    /// Told of what may change what the bot goes by, for longer than the call.
    pub oversight: Oversight,
    pub session: SessionId,
    pub who: Sender,
    pub role: Role,
    pub address: Address,
    pub place: Place,
    /// Files that came to this address, which who speaks here may see.
    pub came_here: Arc<[String]>,
    /// The channels that there are.
    pub channels: Arc<[ChannelName]>,
    /// As the owner's clock shows it.
    pub now: DateTime<Tz>,
    /// Whether the conversation has read what strangers wrote.
    pub tainted: bool,
}

/// Whose reading it is: what a tool may show depends on it.
#[derive(Clone, Debug)]
pub struct ToolReader {
    pub audience: Audience,
    came_here: Arc<[String]>,
}

impl ToolContext {
    pub fn reader(&self) -> ToolReader {
        let audience = audience(self.role, self.place);
        ToolReader { audience, came_here: Arc::clone(&self.came_here) }
    }

    /// Who changes what a call of a tool changes.
    pub fn actor(&self, tool: &str) -> Actor {
        Actor {
            tool: tool.to_owned(),
            at: self.address.clone(),
            place: self.place,
            who: self.who.clone(),
            is_owner: audience(self.role, self.place) == Audience::Owner,
        }
    }
}

impl ToolReader {
    /// Where a path leads; refuses what the reader must not see.
    pub fn resolve(
        &self,
        workspace: &Workspace,
        path: &WorkspacePath,
    ) -> Result<WorkspacePath, FileError> {
        match workspace.resolve(path) {
            Ok(found) if self.came_here.iter().any(|own| own == found.as_str()) => Ok(found),
            _ => workspace.resolve_for(path, self.audience),
        }
    }
}

/// The result of a call. Nothing has been changed yet: the turn makes the change and commits the effects
/// together with the outcome, so that neither can happen twice.
#[derive(Debug)]
pub enum ToolOutput {
    /// A text with its sources; none if the text is the tool's own.
    Text {
        for_model: String,
        sources: Vec<Source>,
    },
    Change(ToolChange),
    /// Changes of our own store.
    Effects {
        for_model: String,
        effects: Vec<Effect>,
    },
    /// A question to the person who speaks; the turn waits for the answer, which is the call's outcome.
    Asks(Body),
    /// A task for a subagent; the turn waits for its result, which is the call's outcome.
    Awaits(Task),
}

/// A change of a file, and the model's text once it is made.
#[derive(Debug)]
pub struct ToolChange {
    pub for_model: String,
    pub file: FileChange,
    /// The call that the change undoes.
    pub undoes: Option<CallId>,
}

impl ToolOutput {
    pub fn text(for_model: impl Into<String>) -> Self {
        Self::Text { for_model: for_model.into(), sources: Vec::new() }
    }

    /// A text that has a source other than the tool.
    pub fn of(source: Source, for_model: impl Into<String>) -> Self {
        Self::Text { for_model: for_model.into(), sources: vec![source] }
    }

    /// A change of a file that undoes no call.
    fn change(for_model: String, file: FileChange) -> Self {
        Self::Change(ToolChange { for_model, file, undoes: None })
    }

    /// One change of our own store.
    fn effect(for_model: impl Into<String>, effect: Effect) -> Self {
        Self::Effects { for_model: for_model.into(), effects: vec![effect] }
    }
}

/// A change of our own store, made in the transaction of the call's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Say {
        to: Address,
        body: Body,
    },
    /// A model sends a message; what a heartbeat has told there shortly before is not sent again.
    Send {
        to: Address,
        body: Body,
        /// It has read what strangers wrote.
        tainted: bool,
    },
    /// The person is asked whether to do something.
    Propose(proposals::NewProposal),
    UpdateProposal(proposals::Change),
    /// Jobs are made, changed or listed. There may be too many, so the store has the last word on the
    /// outcome.
    Schedule {
        whose: jobs::Whose,
        order: jobs::Order,
        zone: Tz,
    },
    /// The conversation's plan is this now.
    Plan(Plan),
    /// A subagent works on this task beside the conversation. It may be one too many, so the store has
    /// the last word on the outcome.
    Spawn(Task),
}

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model can do better: says what was wrong and what would be right.
    #[error("{0}")]
    TellModel(String),
    /// As [`Self::TellModel`], where the same call may go well the next time.
    #[error("{0}")]
    Transient(String),
    /// As [`Self::TellModel`], in words of an untrusted source.
    #[error("{1}")]
    TellForeign(Source, String),
    /// The turn cannot go on.
    #[error(transparent)]
    Abort(#[from] anyhow::Error),
}

/// What a model is told of a search that took too long.
const NARROWER: &str = "The search took too long and was stopped: too much is stored to look at all of it. Make it \
    narrower, with fewer and rarer words or a smaller limit.";

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooSlow => Self::TellModel(NARROWER.to_owned()),
            error => Self::Abort(error.into()),
        }
    }
}

/// What a tool ends with that has words for the model instead of a result.
fn tell(words: String) -> Result<ToolOutput, ToolError> {
    Err(ToolError::TellModel(words))
}

#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// Each field's doc comment is its description for the model.
    type Args: DeserializeOwned + JsonSchema + Send;
    const SPEC: ToolSpec;

    /// How far a call with these arguments reaches that is made from an address.
    fn reach(_args: &Self::Args, _here: &Address) -> Reach {
        Self::SPEC.kind.reach()
    }

    /// Another tool, as a call of which one with these arguments counts, too: who may not make that, or
    /// must be asked first, may not make this either.
    fn stands_for(_args: &Self::Args) -> Option<&'static str> {
        None
    }

    async fn call(&self, args: Self::Args, cx: &ToolContext) -> Result<ToolOutput, ToolError>;
}

/// A tool whose type is forgotten.
#[async_trait]
pub trait AnyTool: Send + Sync + 'static {
    fn terms(&self) -> Terms;
    /// Its name among them, `[a-z0-9_]`, at most 64.
    fn schema(&self) -> ToolSchema;

    /// Words for the model if a call with these arguments cannot begin.
    fn check(&self, _arguments: &str) -> Result<(), String> {
        Ok(())
    }

    fn reach(&self, _arguments: &str, _here: &Address) -> Reach {
        self.terms().kind.reach()
    }

    fn stands_for(&self, _arguments: &str) -> Option<&'static str> {
        None
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError>;
}

#[async_trait]
impl<T: Tool> AnyTool for T {
    fn terms(&self) -> Terms {
        let ToolSpec { role, kind, retries, .. } = T::SPEC;
        Terms { role, kind, retries }
    }

    fn schema(&self) -> ToolSchema {
        let mut parameters = schemars::schema_for!(T::Args).to_value();
        if let Some(object) = parameters.as_object_mut() {
            object.remove("$schema");
            object.remove("title");
        }
        shorten(&mut parameters);
        // Those of a tool without any are written out, which some endpoints want.
        if !parameters["properties"].is_object() {
            parameters["properties"] = Value::Object(serde_json::Map::new());
        }
        // Rust's own widths of integers, of which some endpoints have not heard.
        for (_, property) in parameters["properties"].as_object_mut().into_iter().flatten() {
            property.as_object_mut().map(|property| property.remove("format"));
        }
        ToolSchema {
            name: T::SPEC.name.to_owned(),
            description: T::SPEC.description.to_owned(),
            parameters,
        }
    }

    fn check(&self, arguments: &str) -> Result<(), String> {
        parse::<T>(arguments).map(drop)
    }

    fn reach(&self, arguments: &str, here: &Address) -> Reach {
        parse::<T>(arguments).map_or(T::SPEC.kind.reach(), |args| T::reach(&args, here))
    }

    fn stands_for(&self, arguments: &str) -> Option<&'static str> {
        parse::<T>(arguments).ok().and_then(|args| T::stands_for(&args))
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let args = parse::<T>(arguments).map_err(ToolError::TellModel)?;
        self.call(args, cx).await
    }
}

/// Leaves out what a model does not need to be told with each prompt: that there are no further fields,
/// which it hears if it makes some up, and that what may be left out is empty then.
fn shorten(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        let is_empty = |value: &Value| {
            let is_none = value.is_null() || value == false || value == "";
            is_none || value.as_array().is_some_and(Vec::is_empty)
        };
        object.retain(|key, value| {
            key != "additionalProperties" && !(key == "default" && is_empty(value))
        });
        object.values_mut().for_each(shorten);
    }
}

fn parse<T: Tool>(arguments: &str) -> Result<T::Args, String> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    without_nulls(arguments)
        .map_err(|error| format!("The arguments of {} are wrong: {error}.", T::SPEC.name))
}

/// Reads arguments, of which models write those that they leave out as `null`.
fn without_nulls<T: DeserializeOwned>(arguments: &str) -> serde_json::Result<T> {
    let mut arguments: Value = serde_json::from_str(arguments)?;
    if let Some(object) = arguments.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    serde_json::from_value(arguments)
}

/// `text` cut to what a model is shown, with `read_on` (how to see the rest) at the cut.
pub fn cut(text: &str, read_on: &str) -> String {
    match text.char_indices().nth(RESULT_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => {
            format!("{}\n[Cut at {RESULT_CHARS_MAX} characters. {read_on}]", &text[..at])
        }
    }
}
