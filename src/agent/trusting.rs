//! `/trust PATH`: the owner sees an untrusted file whole, or what it is if it cannot be shown, and has exactly these bytes
//! copied into a new file of the workspace. The file itself stays where it is, and untrusted. A folder is listed
//! (`folder.rs`). `/trust mcp:NAME`: the owner sees the changed texts of an MCP server whole, and has exactly these used.
//! `/trust marked`: see `former_home`.

mod folder;

use rusqlite::Connection;

use crate::agent::former_home::{self, MarkedFilesCommand};
use crate::bus::journal::WaitingMessage;
use crate::conversation::actions::{
    self, ActionAuthor, ActionQuery, ActionScope, FoundChange, UndoState,
};
use crate::replies::{self, UnseenFile};
use crate::services::{Services, role_of};
use crate::store::{StoreError, Sync};
use crate::trust::mcp_pins::{self, AcceptedTexts};
use crate::turn::commits;
use crate::types::commands::CommandId;
use crate::types::message::{
    AllowedPressers, Attachment, Body, Choice, Content, MediaKind, Question,
};
use crate::types::session::FileUndo;
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

    /// Returns the content if a person can read it whole. None for binary data, and for what is too large.
    fn text(&self) -> Option<&str> {
        let is_binary = |sign: char| sign.is_control() && !"\n\t\r\u{c}".contains(sign);
        let bytes = (self.bytes.len() <= TEXT_BYTES_MAX).then_some(&*self.bytes)?;
        std::str::from_utf8(bytes).ok().filter(|text| !text.contains(is_binary))
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

    /// Makes the copy, if the content is still the one that was shown. The error explains to the owner why not.
    fn copy(self, workspace: &Workspace, shown: &str) -> Result<MadeCopy, String> {
        if self.hash() != shown {
            return Err(replies::changed_since_shown(&self.path));
        }
        let reply = match self.text() {
            Some(_) => replies::trusted(&self.path, &self.copy),
            None => replies::trusted_unseen(&self.path, &self.copy, shown),
        };
        let change = FileChange::new(self.copy.clone(), None, self.bytes);
        let copy = MadeCopy { reply, path: self.copy.clone(), undo: change.undo() };
        match workspace.apply(&change) {
            Ok(()) => Ok(copy),
            // The copy may have been made before a crash.
            Err(FileError::Changed(_)) if workspace.hash(&self.copy).ok() == Some(change.after) => {
                Ok(copy)
            }
            Err(FileError::Changed(_)) => {
                Err(replies::not_trusted(self.path.as_str(), &replies::file_exists(&self.copy)))
            }
            Err(error) => Err(replies::not_trusted(self.path.as_str(), &error)),
        }
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

/// A copy that was made, now or before a crash.
struct MadeCopy {
    /// The reply to the owner.
    reply: String,
    path: WorkspacePath,
    undo: FileUndo,
}

impl MadeCopy {
    /// Closes the command, and stores the copy as an action, which can be undone, unless it is stored already.
    async fn commit(self, services: &Services, control: &WaitingMessage) -> Result<(), StoreError> {
        let Self { reply, path, undo } = self;
        let tool = CommandId::Trust.spec().name;
        let (at, who) = (control.inbound.from.clone(), control.sender().clone());
        let chat_kind = control.inbound.chat_kind;
        let note = move |store: &Connection| {
            let query = ActionQuery::File(path.clone());
            let last = actions::find(store, &ActionScope::ALL, &query)?;
            let is_stored =
                last.is_some_and(|(it, _)| it.tool == tool && it.undo == UndoState::Open);
            if !is_stored {
                let author = ActionAuthor { tool, at: &at, chat_kind, who: &who };
                let change = FoundChange { path: path.to_string(), undo: Some(undo) };
                actions::note(store, &author, &[change])?;
            }
            Ok(reply)
        };
        commits::apply_command(&services.bus.store, control, note).await
    }
}

/// The outcome of a `/trust` about a file or folder.
enum TrustedFile {
    /// The list of a folder, or the reason why nothing is shown or copied.
    Replied(String),
    /// The messages that show it.
    Shown(Vec<Body>),
    Copied(MadeCopy),
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
    let read_or_copy = move |workspace: &Workspace| {
        if shown.is_none()
            && let Some(list) = folder::list(workspace, &path)
        {
            return TrustedFile::Replied(list);
        }
        let read = UntrustedFile::read(workspace, &path);
        let done = read.and_then(|file| match shown {
            Some(shown) => file.copy(workspace, &shown).map(TrustedFile::Copied),
            None => Ok(TrustedFile::Shown(file.question())),
        });
        done.unwrap_or_else(TrustedFile::Replied)
    };
    match services.workspace.run_blocking(read_or_copy).await {
        TrustedFile::Replied(reply) => commits::reply(store, control, reply).await,
        TrustedFile::Shown(bodies) => commits::reply_with_bodies(store, control, bodies).await,
        TrustedFile::Copied(copy) => copy.commit(services, control).await,
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
