//! `/trust PATH`: the owner sees an untrusted file whole, and has exactly these bytes copied into a new file of the
//! workspace. The file itself stays where it is, and untrusted. `/trust mcp:NAME`: the owner sees the changed texts of an
//! MCP server whole, and has exactly these used. `/trust marked`: see `former_home`.

use crate::agent::former_home::{self, MarkedOrder};
use crate::bus::journal::WaitingMessage;
use crate::replies;
use crate::services::{Services, role_of};
use crate::store::{StoreError, Sync};
use crate::trust::mcp_pins::{self, AcceptedTexts};
use crate::turn::commits;
use crate::types::commands::CommandId;
use crate::types::message::{Attachment, Body, Choice, Content, Entitled, MediaKind, Question};
use crate::workspace::{FileChange, FileError, FileScope, Hash, Workspace, WorkspacePath};

/// Larger files are not read by a person who has to decide about them, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A longer text comes as a file before the question, in characters.
const SHOWN_CHARS_MAX: usize = 3_000;

/// Before the name of an MCP server, whose changed texts are meant.
const MCP: &str = "mcp:";

/// Where copies lie.
const FOLDER: &str = "notes";

/// An order of `/trust`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trusting {
    path: String,
    /// The bytes that were shown. None if they are to be shown.
    shown: Option<String>,
}

impl Trusting {
    /// Parses `PATH`, or `#HASH PATH` as the button says it. None if there is no path.
    pub(super) fn parse(said: &str) -> Option<Self> {
        let said = said.trim();
        let (shown, path) = match said.strip_prefix('#').and_then(|it| it.split_once(' ')) {
            Some((hash, path)) => (Some(hash.to_ascii_lowercase()), path.trim()),
            None => (None, said),
        };
        (!path.is_empty()).then(|| Self { path: path.to_owned(), shown })
    }
}

/// An untrusted file as it was read.
struct UntrustedFile {
    path: WorkspacePath,
    /// The new file for its copy.
    copy: WorkspacePath,
    text: String,
}

impl UntrustedFile {
    /// Reads a file; words for the owner if it cannot be trusted in this way.
    fn read(workspace: &Workspace, given: &str) -> Result<Self, String> {
        let path: WorkspacePath =
            given.parse().map_err(|error| replies::not_trusted(given, &error))?;
        let refused = |error: FileError| replies::not_trusted(given, &error);
        let file = workspace.open_for(&path, &FileScope::Owner).map_err(refused)?;
        file.check_single_name().map_err(refused)?;
        if *file.path() != path {
            return Err(replies::not_trusted(given, &replies::TRUST_NO_LINKS));
        }
        if !path.is_of_others() {
            return Err(replies::not_trusted(given, &replies::TRUSTED_ALREADY));
        }
        let bytes = file.read_up_to(FILE_BYTES_MAX).map_err(refused)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| replies::not_trusted(given, &FileError::NotText(path.clone())))?;
        let copy = format!("{FOLDER}/{}", path.name());
        let copy: WorkspacePath =
            copy.parse().map_err(|error| replies::not_trusted(given, &error))?;
        copy.check_new().map_err(|error| replies::not_trusted(given, &error))?;
        Ok(Self { path, copy, text })
    }

    fn hash(&self) -> String {
        Hash::of(self.text.as_bytes()).as_str().to_owned()
    }

    /// Makes the copy, if the bytes are those that were shown. Gives the answer to the owner.
    fn copy(self, workspace: &Workspace, shown: &str) -> String {
        if self.hash() != shown {
            return replies::changed_since_shown(&self.path);
        }
        let change = FileChange::new(self.copy.clone(), None, self.text.into_bytes());
        match workspace.apply(&change) {
            Ok(()) => replies::trusted(&self.path, &self.copy),
            // After a crash, it may have been made before.
            Err(FileError::Changed(_)) if workspace.hash(&self.copy).ok() == Some(change.after) => {
                replies::trusted(&self.path, &self.copy)
            }
            Err(FileError::Changed(_)) => {
                replies::not_trusted(self.path.as_str(), &replies::is_there(&self.copy))
            }
            Err(error) => replies::not_trusted(self.path.as_str(), &error),
        }
    }

    /// The messages that show the file whole, with a button below them.
    fn question(&self) -> Vec<Body> {
        let long = self.text.chars().count() > SHOWN_CHARS_MAX;
        let file = long.then(|| {
            Body::File(Attachment {
                name: self.path.name().to_owned(),
                kind: MediaKind::Document,
                caption: String::new(),
                printed: true,
                content: Content::Text(replies::shown_whole(&self.text)),
            })
        });
        let text = (!long).then_some(&*self.text);
        let question = Body::Choice(Question::new(
            replies::may_trust(&self.path, &self.copy, text),
            vec![Choice {
                label: replies::COPY_IT.to_owned(),
                says: CommandId::Trust.line(format_args!("#{} {}", self.hash(), self.path)),
            }],
            Entitled::Owner,
        ));
        file.into_iter().chain([question]).collect()
    }
}

/// Shows a file, or copies what was shown.
pub(super) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    wanted: Option<Trusting>,
) -> Result<(), StoreError> {
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let store = &services.bus.store;
    if !CommandId::Trust.spec().allows(role, control.inbound.chat_kind) {
        return commits::handled(store, control, replies::OWNER_ONLY.to_owned()).await;
    }
    let Some(Trusting { path, shown }) = wanted else {
        return commits::handled(store, control, replies::TRUST_USAGE.to_owned()).await;
    };
    if let (Some(order), None) = (MarkedOrder::parse(&path), &shown) {
        return former_home::handle(services, control, order).await;
    }
    if let Some(server) = path.strip_prefix(MCP) {
        return handle_mcp(services, control, server, shown).await;
    }
    let work = move |workspace: &Workspace| {
        let file = UntrustedFile::read(workspace, &path)?;
        match shown {
            Some(shown) => Err(file.copy(workspace, &shown)),
            None => Ok(file.question()),
        }
    };
    match services.workspace.off_thread(work).await {
        Err(words) => commits::handled(store, control, words).await,
        Ok(bodies) => commits::handled_with_bodies(store, control, bodies).await,
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
                commits::handled_with_bodies(store, control, changed.question(server)).await
            }
            None => commits::handled(store, control, replies::no_mcp_texts_wait(server)).await,
        };
    };
    let accept = move |store: &_| mcp_pins::accept(store, &name, &shown);
    let words = match store.write("accepts texts", Sync::Now, accept).await? {
        AcceptedTexts::Accepted => replies::mcp_texts_accepted(server),
        AcceptedTexts::Changed => replies::mcp_texts_changed_since(server),
        AcceptedTexts::None => replies::no_mcp_texts_wait(server),
    };
    services.bus.mcp_texts.up();
    commits::handled(store, control, words).await
}
