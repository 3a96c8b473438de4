//! `/trust PATH`: the owner sees an untrusted file whole, or what it is if it cannot be shown, and has exactly these bytes
//! copied into a new file of the workspace. The file itself stays where it is, and untrusted. A folder is listed
//! (`folder.rs`). `/trust mcp:NAME`: the owner sees the changed texts of an MCP server whole, and has exactly these used.
//! `/trust marked`: see `former_home`.

mod folder;

use rusqlite::Connection;
use serde_json::json;

use crate::agent::former_home::{self, MarkedFilesCommand};
use crate::agent::undo::{self, SettledAction};
use crate::bus::journal::WaitingMessage;
use crate::conversation::actions::{self, CommandChange};
use crate::replies::{self, UnseenFile};
use crate::services::{Services, role_of};
use crate::store::{StoreError, Sync};
use crate::trust::mcp_pins::{self, AcceptedTexts};
use crate::turn::calls::{self, CallFate};
use crate::turn::commits;
use crate::types::commands::CommandId;
use crate::types::message::{
    AllowedPressers, Attachment, Body, Choice, Content, MediaKind, Question,
};
use crate::types::session::{CallId, CallOutcome, Intent};
use crate::workspace::{
    FileChange, FileError, FileScope, Hash, Workspace, WorkspacePath, media_type,
};

/// Maximum size of a text that is shown, in bytes: nobody would read a larger one.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Maximum size of a file that is copied, in bytes. It is held in memory, and a larger one could not be compared or
/// changed later (see [`Workspace::hash`]).
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Maximum length of a text in the question, in characters. A longer one is attached as a file.
const SHOWN_CHARS_MAX: usize = 3_000;

/// The prefix of an MCP server's name, in an order about its changed texts.
const MCP: &str = "mcp:";

/// The folder of copies. Nothing in it is followed as instructions.
const FOLDER: &str = "notes";

/// An order of `/trust`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrustCommand {
    path: String,
    /// The hash of the content that was shown. None if it is to be shown first.
    shown: Option<String>,
}

impl TrustCommand {
    /// Parses `PATH`, or `#HASH PATH` of the button. None if there is no path.
    pub(super) fn parse(arguments: &str) -> Option<Self> {
        let arguments = arguments.trim();
        let (shown, path) = match arguments.strip_prefix('#').and_then(|it| it.split_once(' ')) {
            Some((hash, path)) => (Some(hash.to_ascii_lowercase()), path.trim()),
            None => (None, arguments),
        };
        (!path.is_empty()).then(|| Self { path: path.to_owned(), shown })
    }
}

/// An untrusted file with its content.
struct UntrustedFile {
    path: WorkspacePath,
    /// The path of the copy.
    copy: WorkspacePath,
    bytes: Vec<u8>,
}

impl UntrustedFile {
    /// Reads a file. The error explains to the owner why it cannot be trusted in this way.
    fn read(workspace: &Workspace, given: &str) -> Result<Self, String> {
        let path: WorkspacePath =
            given.parse().map_err(|error| replies::not_trusted(given, &error))?;
        let refusal = |error: FileError| replies::not_trusted(given, &error);
        let file = workspace.open_for(&path, &FileScope::Owner).map_err(refusal)?;
        file.check_single_name().map_err(refusal)?;
        if *file.path() != path {
            return Err(replies::not_trusted(given, &replies::TRUST_NO_LINKS));
        }
        if !path.is_untrusted() {
            return Err(replies::not_trusted(given, &replies::TRUSTED_ALREADY));
        }
        let bytes = file.read_up_to(FILE_BYTES_MAX).map_err(refusal)?;
        let copy = format!("{FOLDER}/{}", path.name());
        let copy: WorkspacePath =
            copy.parse().map_err(|error| replies::not_trusted(given, &error))?;
        copy.check_new().map_err(|error| replies::not_trusted(given, &error))?;
        let file = Self { path, copy, bytes };
        match file.why_not_unseen(workspace) {
            Some(why) => Err(replies::not_trusted(given, &why)),
            None => Ok(file),
        }
    }

    fn text(&self) -> Option<&str> {
        readable_text(&self.bytes)
    }

    /// Returns the reason why a file that cannot be shown is not copied. None for one that can be.
    fn why_not_unseen(&self, workspace: &Workspace) -> Option<&'static str> {
        if self.text().is_some() {
            return None;
        }
        // People and programs may follow a file of such a name, in whatever folder it lies.
        if self.copy.is_named_as_rule() || self.copy.is_change_reported() {
            return Some(replies::TRUST_NO_INSTRUCTIONS);
        }
        let has_room = workspace.has_room_for(self.bytes.len() as u64);
        (!has_room).then_some(replies::TRUST_NO_ROOM)
    }

    fn hash(&self) -> String {
        Hash::of(&self.bytes).as_str().to_owned()
    }

    /// Prepares the copy, if the content is still the one that was shown. The error explains to the owner why not.
    fn prepare_copy(self, shown: &str) -> Result<PreparedCopy, String> {
        if self.hash() != shown {
            return Err(replies::changed_since_shown(&self.path));
        }
        let reply = match self.text() {
            Some(_) => replies::trusted(&self.path, &self.copy),
            None => replies::trusted_unseen(&self.path, &self.copy, shown),
        };
        let change = FileChange::new(self.copy, None, self.bytes);
        Ok(PreparedCopy { path: self.path, change, reply })
    }

    /// Returns the messages that show the whole file, or what it is, with a button below them.
    fn question(&self) -> Vec<Body> {
        let Some(text) = self.text() else { return vec![self.with_button(self.described())] };
        let is_long = text.chars().count() > SHOWN_CHARS_MAX;
        let file = is_long.then(|| {
            Body::File(Attachment {
                name: self.path.name().to_owned(),
                kind: MediaKind::Document,
                caption: String::new(),
                printed: true,
                content: Content::Text(replies::whole_text(text)),
            })
        });
        let shown = (!is_long).then_some(text);
        let question = self.with_button(replies::may_trust(&self.path, &self.copy, shown));
        file.into_iter().chain([question]).collect()
    }

    /// Returns the question about a file that cannot be shown.
    fn described(&self) -> String {
        replies::may_trust_unseen(&UnseenFile {
            path: self.path.as_str(),
            copy: self.copy.as_str(),
            size: self.bytes.len() as u64,
            media_type: media_type(&self.bytes),
            hash: &self.hash(),
        })
    }

    fn with_button(&self, question: String) -> Body {
        let copy_it = Choice {
            label: replies::COPY_IT.to_owned(),
            says: CommandId::Trust.line(format_args!("#{} {}", self.hash(), self.path)),
        };
        Body::Choice(Question::new(question, vec![copy_it], AllowedPressers::Owner))
    }
}

/// Returns a content if a person can read it whole. None for binary data, and for what is too large.
fn readable_text(bytes: &[u8]) -> Option<&str> {
    let is_binary = |sign: char| sign.is_control() && !"\n\t\r\u{c}".contains(sign);
    let bytes = (bytes.len() <= TEXT_BYTES_MAX).then_some(bytes)?;
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains(is_binary))
}

/// A copy that is about to be made.
struct PreparedCopy {
    /// The path of the untrusted file.
    path: WorkspacePath,
    change: FileChange,
    /// The reply to the owner once it is made.
    reply: String,
}

impl PreparedCopy {
    /// Stores the copy as an action, which can be undone, unless it was stored before a crash, and makes it. A file that
    /// was there before is no copy, also if it is the same.
    async fn make(self, services: &Services, control: &WaitingMessage) -> Result<(), StoreError> {
        let Self { path, change, reply } = self;
        let copy = change.path.clone();
        let exists = replies::not_trusted(path.as_str(), &replies::file_exists(&copy));
        let call = match find_begun(services, control).await? {
            Some(BegunCopy { call, fate: CallFate::Happened, .. }) => {
                return settle(services, control, call, CallOutcome::Done, reply).await;
            }
            Some(BegunCopy { call, fate: CallFate::Unknown, .. }) => {
                return settle(services, control, call, CallOutcome::Failed, exists).await;
            }
            Some(BegunCopy { call, fate: CallFate::NotHappened, .. }) => call,
            None => {
                let wanted = copy.clone();
                let present = services.workspace.run_blocking(move |it| it.hash(&wanted)).await;
                match present {
                    Ok(Some(present)) if Some(&present) == change.after.as_ref() => {
                        let reply = replies::copied_already(&path, &copy);
                        return commits::reply(&services.bus.store, control, reply).await;
                    }
                    Ok(Some(_)) => {
                        return commits::reply(&services.bus.store, control, exists).await;
                    }
                    // The reason of an error is found again when the copy is made.
                    Ok(None) | Err(_) => begin(services, control, &change).await?,
                }
            }
        };
        let apply = move |workspace: &Workspace| workspace.apply(&change);
        match services.workspace.run_blocking(apply).await {
            Ok(()) => settle(services, control, call, CallOutcome::Done, reply).await,
            Err(FileError::Changed(_)) => {
                settle(services, control, call, CallOutcome::Failed, exists).await
            }
            Err(error) => {
                let reason = replies::not_trusted(path.as_str(), &error);
                settle(services, control, call, CallOutcome::Failed, reason).await
            }
        }
    }
}

/// Identifies a command, to find its action again after a crash.
fn mark_of(control: &WaitingMessage) -> String {
    format!("command {}", control.id.0)
}

/// A copy that a command has begun, and a crash has interrupted.
struct BegunCopy {
    call: CallId,
    fate: CallFate,
    /// The path of the copy. None if the action is not the change of a file.
    copy: Option<WorkspacePath>,
}

/// Returns the copy of a command that a crash has interrupted.
async fn find_begun(
    services: &Services,
    control: &WaitingMessage,
) -> Result<Option<BegunCopy>, StoreError> {
    let mark = mark_of(control);
    let query = move |store: &Connection| actions::find_interrupted(store, &mark);
    let Some((call, intent)) = services.bus.store.read(query).await? else { return Ok(None) };
    let fate = calls::find_fate(services, &intent).await;
    let copy = match intent {
        Intent::File { path, .. } => path.parse().ok(),
        Intent::Act { .. } => None,
    };
    Ok(Some(BegunCopy { call, fate, copy }))
}

/// Stores a copy as an action that begins.
async fn begin(
    services: &Services,
    control: &WaitingMessage,
    change: &FileChange,
) -> Result<CallId, StoreError> {
    let action = CommandChange {
        at: control.inbound.from.clone(),
        chat_kind: control.inbound.chat_kind,
        who: control.sender().clone(),
        mark: mark_of(control),
        tool: CommandId::Trust.spec().name,
        arguments: json!({ "changed": change.path.as_str() }).to_string(),
        change: change.intent(None),
        undo: Some(change.undo()),
    };
    let begin = move |store: &Connection| actions::begin(store, &action);
    services.bus.store.write("copy starts", Sync::Now, begin).await
}

/// Settles a command that has begun a copy. The outcome gets the reply, too.
async fn settle(
    services: &Services,
    control: &WaitingMessage,
    call: CallId,
    outcome: fn(String) -> CallOutcome,
    reply: String,
) -> Result<(), StoreError> {
    let settled = SettledAction { call, outcome: outcome(reply.clone()) };
    undo::end(services, control, Some(settled), reply).await
}

/// Replies to a command that shows and copies nothing now. Before a crash, it may have made the copy: that is the reply then,
/// whatever has become of the file at `path` since. `shown` is the hash of the command.
async fn reply_without_copy(
    services: &Services,
    control: &WaitingMessage,
    path: &str,
    shown: Option<&str>,
    reply: String,
) -> Result<(), StoreError> {
    match find_begun(services, control).await? {
        None => commits::reply(&services.bus.store, control, reply).await,
        Some(BegunCopy { call, fate: CallFate::Happened, copy }) => {
            let reply = match copy {
                Some(copy) => reply_of_copy(services, path, &copy, shown).await,
                None => reply,
            };
            settle(services, control, call, CallOutcome::Done, reply).await
        }
        Some(BegunCopy { call, .. }) => {
            settle(services, control, call, CallOutcome::Failed, reply).await
        }
    }
}

/// Returns the reply about a copy that is there.
async fn reply_of_copy(
    services: &Services,
    path: &str,
    copy: &WorkspacePath,
    shown: Option<&str>,
) -> String {
    let read = {
        let copy = copy.clone();
        move |workspace: &Workspace| workspace.read_up_to(&copy, FILE_BYTES_MAX)
    };
    let bytes = services.workspace.run_blocking(read).await.unwrap_or_default();
    match (readable_text(&bytes), shown) {
        (None, Some(shown)) => replies::trusted_unseen(path, copy, shown),
        _ => replies::trusted(path, copy),
    }
}

/// The outcome of a `/trust` about a file or folder.
enum TrustedFile {
    /// The list of a folder, or the reason why nothing is shown or copied.
    Replied(String),
    /// The messages that show it.
    Shown(Vec<Body>),
    Prepared(PreparedCopy),
}

/// Answers `/trust`: shows a file, lists a folder, or copies the content that was shown.
pub(super) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    wanted: Option<TrustCommand>,
) -> Result<(), StoreError> {
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let store = &services.bus.store;
    if !CommandId::Trust.spec().allows(role, control.inbound.chat_kind) {
        return commits::reply(store, control, replies::OWNER_ONLY.to_owned()).await;
    }
    let Some(TrustCommand { path, shown }) = wanted else {
        return commits::reply(store, control, replies::TRUST_USAGE.to_owned()).await;
    };
    if let (Some(order), None) = (MarkedFilesCommand::parse(&path), &shown) {
        return former_home::handle(services, control, order).await;
    }
    if let Some(server) = path.strip_prefix(MCP) {
        return handle_mcp(services, control, server, shown).await;
    }
    let (given, hash) = (path.clone(), shown.clone());
    let read_or_copy = move |workspace: &Workspace| {
        if shown.is_none()
            && let Some(list) = folder::list(workspace, &path)
        {
            return TrustedFile::Replied(list);
        }
        let read = UntrustedFile::read(workspace, &path);
        let done = read.and_then(|file| match shown {
            Some(shown) => file.prepare_copy(&shown).map(TrustedFile::Prepared),
            None => Ok(TrustedFile::Shown(file.question())),
        });
        done.unwrap_or_else(TrustedFile::Replied)
    };
    match services.workspace.run_blocking(read_or_copy).await {
        TrustedFile::Replied(reply) => {
            reply_without_copy(services, control, &given, hash.as_deref(), reply).await
        }
        TrustedFile::Shown(bodies) => commits::reply_with_bodies(store, control, bodies).await,
        TrustedFile::Prepared(copy) => copy.make(services, control).await,
    }
}

/// Shows the changed texts of an MCP server, or accepts those that were shown.
async fn handle_mcp(
    services: &Services,
    control: &WaitingMessage,
    server: &str,
    shown: Option<String>,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let name = server.to_owned();
    let Some(shown) = shown else {
        let waiting = store.read(move |store| mcp_pins::waiting(store, &name)).await?;
        return match waiting {
            Some(changed) => {
                commits::reply_with_bodies(store, control, changed.question(server)).await
            }
            None => commits::reply(store, control, replies::no_mcp_texts_wait(server)).await,
        };
    };
    let accept = move |store: &_| mcp_pins::accept(store, &name, &shown);
    let reply = match store.write("accepts texts", Sync::Now, accept).await? {
        AcceptedTexts::Accepted => replies::mcp_texts_accepted(server),
        AcceptedTexts::Changed => replies::mcp_texts_changed_since(server),
        AcceptedTexts::None => replies::no_mcp_texts_wait(server),
    };
    services.bus.mcp_texts.notify();
    commits::reply(store, control, reply).await
}
