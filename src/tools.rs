//! Tools that a model can call. Each has typed arguments, behind the type-erased [`AnyTool`]. The program supplies the
//! asking person and the address in [`ToolContext`]; a model can never set them. Not here: the decision if a call
//! may run (`trust`), and the commit of its effects (`turn`).

pub mod ask;
mod any_tool;
mod arguments;
mod caller;
pub mod delegate;
pub mod files;
pub mod finish;
mod for_role;
#[cfg(feature = "hardware")]
pub mod hardware;
mod malformed;
pub mod markdown;
pub mod mcp;
pub mod memory;
pub mod message;
pub mod more;
mod place;
pub mod plan;
pub mod propose;
mod reader;
pub mod recall;
pub mod schedule;
mod short_schema;
mod set;
pub mod shell;
pub mod skill;
pub mod undo;
pub mod web;

pub use crate::tasks::subagents::SubagentTask;
pub use crate::trust::acts::{Reach, ToolKind, ToolTerms};
pub use crate::types::untrusted;
pub use any_tool::AnyTool;
pub use place::CallPlace;
pub use reader::ToolReader;
pub use set::{McpServerEntry, McpTools, ToolSet, ToolUser};

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::DateTime;
use chrono_tz::Tz;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use caller::{Caller, TaskTools};

use crate::bus::access::{AccessWatch, HeldAccess};
use crate::conversation::actions::{ActionReader, Actions};
use crate::conversation::deferred::{DeferredCall, ReportTerms};
use crate::conversation::proposals;
use crate::memory::{audience, file_scope};
use crate::people::persons::PersonAccount;
use crate::people::{People, Role};
use crate::store::StoreError;
use crate::tasks::schedule as jobs;
use crate::trust::instruction_watch::{InstructionEditor, InstructionWatcher};
use crate::trust::path_watch::PathWatcher;
use crate::types::call_files::CallFiles;
use crate::types::message::{Address, Body, ChannelName, ChatKind, Sender, SenderId};
use crate::types::person::FolderOwner;
use crate::types::persona::AllowedTools;
use crate::types::session::{CallId, Plan, SessionId};
use crate::types::source::Source;
use crate::workspace::{Audience, FileChange, FileScope, Workspace};

/// Maximum length of a result for a model, in characters. The cut explains how to read on.
pub const RESULT_CHARS_MAX: usize = 8_000;

/// The fixed properties of a tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolSpec {
    /// `[a-z0-9_]`, at most 64 characters.
    pub name: &'static str,
    /// For the model: the tool's purpose and when to use it.
    pub description: &'static str,
    /// The lowest role that may use it.
    pub role: Role,
    pub kind: ToolKind,
    /// True if a call may be retried once after [`ToolError::Transient`], which includes timeouts and panics.
    pub retries: bool,
}

impl ToolSpec {
    /// Returns the properties of a tool for users that only reads.
    pub const fn reads(name: &'static str, description: &'static str) -> Self {
        Self { name, description, role: Role::User, kind: ToolKind::Reads, retries: true }
    }

    /// Returns the properties of a tool for users that changes a file.
    pub const fn writes(name: &'static str, description: &'static str) -> Self {
        Self { name, description, role: Role::User, kind: ToolKind::Writes, retries: false }
    }

    /// Returns the properties of a tool for users that changes our own store, with the outcome of its call.
    pub const fn queues(name: &'static str, description: &'static str) -> Self {
        Self { name, description, role: Role::User, kind: ToolKind::Queues, retries: false }
    }
}

/// The asking person, the address and the time of a call. Supplied by the program.
#[derive(Clone)]
pub struct ToolContext {
    pub workspace: Workspace,
    /// The record of actions, and their undo.
    pub actions: Actions,
    /// Watches changes of the instructions that may happen after the call has ended.
    pub instruction_watcher: InstructionWatcher,
    /// Records commands whose changes people are shown.
    pub path_watcher: PathWatcher,
    pub session: SessionId,
    pub who: Sender,
    /// The channel on which they are known.
    pub known_on: ChannelName,
    /// The accounts of persons, and their roles.
    pub people: People,
    /// Ends work of the call with the access of its person.
    pub access: AccessWatch,
    /// The owner of the folder in a private chat.
    pub owner: FolderOwner,
    pub role: Role,
    /// The person's own role, also in a group.
    pub own_role: Role,
    /// The tools that the persona allows.
    pub allowed: AllowedTools,
    pub address: Address,
    pub chat_kind: ChatKind,
    /// Files that arrived at this address, which everybody here may see.
    pub arrived_here: Arc<[String]>,
    /// The existing channels.
    pub channels: Arc<[ChannelName]>,
    /// In the owner's time zone.
    pub now: DateTime<Tz>,
    /// True if the conversation has read untrusted content.
    pub tainted: bool,
    /// The files with which people have approved the call. None if they were not asked about any.
    pub approved_files: Option<CallFiles>,
}

impl ToolContext {
    pub fn reader(&self) -> ToolReader {
        ToolReader::new(self.scope(), Arc::clone(&self.arrived_here))
    }

    /// Returns what the checks of a call's arguments need.
    pub fn place(&self) -> CallPlace<'_> {
        CallPlace {
            role: self.role,
            chat_kind: self.chat_kind,
            at: &self.address,
            owner: &self.owner,
            arrived_here: &self.arrived_here,
            channels: Some(&*self.channels),
            zone: self.now.timezone(),
        }
    }

    /// Returns the caller as a reader of the record of actions.
    pub fn action_reader(&self) -> ActionReader {
        let account =
            PersonAccount { channel: self.address.channel.clone(), sender: self.who.id.clone() };
        ActionReader { people: self.people.clone(), accounts: vec![account] }
    }

    /// Returns the files that the call can reach.
    pub fn scope(&self) -> FileScope {
        file_scope(self.role, self.chat_kind, &self.address, &self.owner)
    }

    /// Waits until the person of the call has lost the access with which it began.
    pub fn access_lost(&self) -> impl Future<Output = ()> + use<> {
        let has_own_folder = matches!(self.scope(), FileScope::Person { .. });
        let folder = has_own_folder.then(|| self.owner.clone());
        self.access.clone().lost(HeldAccess { role: self.own_role, folder })
    }

    /// Returns the author of a call's changes.
    pub fn actor(&self, tool: &str) -> InstructionEditor {
        InstructionEditor {
            tool: tool.to_owned(),
            at: self.address.clone(),
            chat_kind: self.chat_kind,
            who: self.who.clone(),
            is_owner: audience(self.role, self.chat_kind) == Audience::Owner,
        }
    }
}

/// The result of a call. Nothing has been changed yet: the turn makes the change and commits the effects
/// together with the outcome, so that neither can happen twice.
#[derive(Debug)]
pub enum ToolOutput {
    /// A text with its sources. Empty if the tool itself wrote the text.
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
    /// A question to the person. The turn waits for the answer, which is the call's outcome.
    Asks(Body),
    /// A task for a subagent. The turn waits for its result, which is the call's outcome.
    Awaits(SubagentTask),
}

/// A change of a file, and the text for the model once it is made.
#[derive(Debug)]
pub struct ToolChange {
    pub for_model: String,
    pub file: FileChange,
    /// The call that the change undoes.
    pub undoes: Option<CallId>,
    /// True if it only adds text at the end of the file, whatever the file contains.
    pub only_adds: bool,
}

impl ToolOutput {
    pub fn text(for_model: impl Into<String>) -> Self {
        Self::Text { for_model: for_model.into(), sources: Vec::new() }
    }

    /// Creates a text with a source other than the tool.
    pub fn of(source: Source, for_model: impl Into<String>) -> Self {
        Self::Text { for_model: for_model.into(), sources: vec![source] }
    }

    /// Creates a change of a file that undoes no call.
    fn change(for_model: String, file: FileChange) -> Self {
        Self::Change(ToolChange { for_model, file, undoes: None, only_adds: false })
    }

    /// Marks a change as one that only adds text at the end of the file, whatever the file contains.
    fn only_adding(self) -> Self {
        match self {
            Self::Change(change) => Self::Change(ToolChange { only_adds: true, ..change }),
            other => other,
        }
    }

    /// Creates one change of our own store.
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
    /// A message from a model. Text that a heartbeat run sent there shortly before is not sent again.
    Send {
        to: Address,
        body: Body,
        /// The turn has read untrusted content.
        tainted: bool,
    },
    /// Keeps a call that nobody could be asked about. People are told of it when the turn ends.
    Defer {
        call: Box<DeferredCall>,
        terms: ReportTerms,
    },
    /// Asks the person to approve a suggestion.
    Propose(proposals::NewProposal),
    UpdateProposal(proposals::ProposalChange),
    /// Creates, changes or lists jobs. The store decides, because the job limit may be reached.
    Schedule {
        requester: Box<jobs::JobRequester>,
        /// The role of the requester here, which decides whose jobs the order reaches.
        role: Role,
        order: jobs::JobOperation,
        zone: Tz,
        /// The person whose own words a new reminder sends. They see the reminder and how to cancel it.
        in_words_of: Option<SenderId>,
    },
    /// Replaces the conversation's plan.
    Plan(Plan),
    /// Starts a subagent on this task beside the conversation. It may be one too many, so the store
    /// decides on the outcome.
    Spawn(SubagentTask),
}

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model can correct its call: explains the mistake and the right form.
    #[error("{0}")]
    TellModel(String),
    /// As [`Self::TellModel`], if the same call may succeed later.
    #[error("{0}")]
    Transient(String),
    /// As [`Self::TellModel`], with text from an untrusted source.
    #[error("{1}")]
    TellUntrusted(Source, String),
    /// The turn cannot continue.
    #[error(transparent)]
    Abort(#[from] anyhow::Error),
}

/// The result for a model after a search that took too long.
const NARROWER: &str = "The search took too long and was stopped: too much is stored to look at all of it. Make it \
    narrower, with fewer and rarer words or a smaller limit.";

/// The result for a model after a search in a broken index.
const INDEX_BROKEN: &str = "The index of the search is broken, and is being made again. Search again later; until then, \
    read the files.";

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Index(_) => Self::TellModel(INDEX_BROKEN.to_owned()),
            StoreError::TooSlow => Self::TellModel(NARROWER.to_owned()),
            error => Self::Abort(error.into()),
        }
    }
}

/// Returns a [`ToolError::TellModel`] with an explanation.
fn tell(explanation: String) -> Result<ToolOutput, ToolError> {
    Err(ToolError::TellModel(explanation))
}

#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// Each field's doc comment is its description for the model.
    type Args: DeserializeOwned + JsonSchema + Send;
    const SPEC: ToolSpec;

    /// Returns the reach of a call with these arguments from an address.
    fn reach(_args: &Self::Args, _here: &Address) -> Reach {
        Self::SPEC.kind.reach()
    }

    /// Returns another tool for which a call with these arguments also counts: a person who may not call
    /// that tool, or needs approval for it, is treated in the same way here.
    fn stands_for(_args: &Self::Args) -> Option<&'static str> {
        None
    }

    /// Returns the text that a call stores reversibly. A person's own words are stored without approval.
    fn kept_text(_args: &Self::Args) -> Option<&str> {
        None
    }

    /// Returns the time at which the stored text is sent. It must be in the person's own words, too.
    fn kept_time(_args: &Self::Args) -> Option<&str> {
        None
    }

    /// Checks a call by its arguments and its place alone, without the disk and the network: before anybody is asked,
    /// before it runs, and for `peacrab explain`. The error explains to the model why it cannot begin.
    fn check_args(&self, _args: &Self::Args, _place: &CallPlace<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Returns the files that a call with these arguments would send, or the paths that its command would see, as they
    /// are now. Sends and runs nothing. The error explains to the model why the call cannot be made.
    async fn call_files(
        &self,
        _args: Self::Args,
        _cx: &ToolContext,
    ) -> Result<Option<CallFiles>, ToolError> {
        Ok(None)
    }

    /// Makes a call whose arguments have passed the check.
    async fn call(&self, args: Self::Args, cx: &ToolContext) -> Result<ToolOutput, ToolError>;
}

/// The properties of a call that depend on its arguments. [`Tool`] explains each.
pub struct CallTerms {
    pub reach: Reach,
    pub stands_for: Option<&'static str>,
    pub kept_text: Option<String>,
    pub kept_time: Option<String>,
}

impl CallTerms {
    /// Returns the terms of a call that stands for no other tool and keeps no text.
    pub fn of(reach: Reach) -> Self {
        Self { reach, stands_for: None, kept_text: None, kept_time: None }
    }
}

/// Parses arguments. Models write omitted ones as `null`.
fn without_nulls<T: DeserializeOwned>(arguments: &str) -> serde_json::Result<T> {
    let mut arguments: Value = serde_json::from_str(arguments)?;
    if let Some(object) = arguments.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    serde_json::from_value(arguments)
}

/// Cuts `text` to the maximum length of a result. The cut contains `read_on` (how to see the rest).
pub fn cut(text: &str, read_on: &str) -> String {
    match text.char_indices().nth(RESULT_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => {
            format!("{}\n[Cut at {RESULT_CHARS_MAX} characters. {read_on}]", &text[..at])
        }
    }
}
