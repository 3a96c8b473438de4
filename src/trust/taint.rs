//! Detects untrusted content in a conversation by the sources of its prompt. The result is not stored: it holds as long
//! as the model sees such content, whose authors may instruct it.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::Connection;

use crate::bus::Bus;
use crate::memory::audience;
use crate::people::{People, Role};
use crate::store::{Store, StoreError};
use crate::trust::acts::tool_role;
use crate::types::message::ChatKind;
use crate::types::session::{Call, Session, Step};
use crate::types::source::{Author, Source, SourcedText};
use crate::workspace::{Audience, WorkspacePath};

/// The source of the newest untrusted content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taint {
    /// The result of a call of this tool.
    Tool(String),
    /// Messages of others here: quoted, overheard, or of a person with a lower role.
    Said,
    /// A file that was sent here: a picture, or its name.
    Sent,
    /// Another conversation that has read untrusted content, or works for a person with a lower role.
    HandedOn,
    /// The summary of this conversation.
    Summed,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(tool) => write!(f, "from {tool}"),
            Self::Said => f.write_str("messages of others here"),
            Self::Sent => f.write_str("in a file that was sent here"),
            Self::HandedOn => f.write_str("from another task"),
            Self::Summed => f.write_str("in the summary of this conversation"),
        }
    }
}

/// Returns true if a file lies in no untrusted folder.
pub(crate) fn is_own_file(path: &str) -> bool {
    path.parse::<WorkspacePath>().is_ok_and(|path| !path.is_untrusted())
}

/// Returns true if a source is untrusted for this audience, whoever its author is. A person's own messages are not,
/// because their role already limits what they may cause. [`SourceReader`] compares the roles too, in a group.
pub fn is_untrusted(source: &Source, audience: Audience) -> bool {
    match source {
        Source::Program
        | Source::Person { .. }
        | Source::Button { .. }
        | Source::Skill { .. }
        | Source::Memory => false,
        Source::Overheard { .. }
        | Source::Page { .. }
        | Source::Search { .. }
        | Source::LinkedFile { .. }
        | Source::MarkedFile { .. }
        | Source::Unknown => true,
        Source::Quoted { by_others, .. } => *by_others,
        Source::Plan { read_others, .. }
        | Source::Proposal { read_others, .. }
        | Source::Task { read_others, .. }
        | Source::Command { read_others } => *read_others,
        Source::McpServer { is_trusted, .. } => !is_trusted,
        Source::Past { in_group } => *in_group,
        Source::File { path } => match (path.parse::<WorkspacePath>(), audience) {
            (Ok(path), Audience::Owner) => path.is_untrusted() || path.is_beside_workspace(),
            // Only the folder of the same person can have been read.
            (Ok(path), Audience::Others) => !path.is_beside_workspace() || path.is_untrusted(),
            (Err(_), _) => true,
        },
    }
}

/// Returns the taint of a conversation for a turn with this role. None if its model sees no untrusted content, and
/// only content of people with this role or a higher one, who could do themselves what they request.
pub(crate) async fn find_taint(
    bus: &Bus,
    session: &Session,
    role: Role,
) -> Result<Option<Taint>, StoreError> {
    Ok(find_reader(bus, session, role).await?.taint(session))
}

/// Returns the taint of a conversation with only one speaker.
pub(crate) fn session_taint(session: &Session, role: Role) -> Option<Taint> {
    let chat_kind = session.chat_kind;
    let audience = audience(role, chat_kind);
    SourceReader { audience, chat_kind, lower: BTreeSet::new() }.taint(session)
}

/// Returns the person of a conversation's last turn, who has this role, as the reader of its sources.
pub(crate) async fn find_reader(
    bus: &Bus,
    session: &Session,
    role: Role,
) -> Result<SourceReader, StoreError> {
    let channel = session.origin.channel();
    let account = session.turns.last().map(|turn| turn.by.clone());
    let account = account.map(|id| Author { channel: channel.clone(), id });
    let person = ReadingPerson { account, role, chat_kind: session.chat_kind };
    SourceReader::of(&bus.store, &bus.people, person, &session.sources()).await
}

/// A person who reads sources.
pub(crate) struct ReadingPerson {
    /// None if they are not known.
    pub(crate) account: Option<Author>,
    pub(crate) role: Role,
    pub(crate) chat_kind: ChatKind,
}

/// Returns those of some people who have a lower role in this chat than a reader with this role.
pub(crate) fn with_lower_role(
    store: &Connection,
    people: &People,
    authors: BTreeSet<Author>,
    role: Role,
    chat_kind: ChatKind,
) -> rusqlite::Result<BTreeSet<Author>> {
    // In a group, the owner has the tools of an admin.
    let role = tool_role(role, chat_kind);
    let mut lower = BTreeSet::new();
    for author in authors {
        let author_role = people.role_of(store, &author.channel, &author.id)?;
        if tool_role(author_role.unwrap_or(Role::Guest), chat_kind) < role {
            lower.insert(author);
        }
    }
    Ok(lower)
}

/// The reader of sources, for whom each of them is trusted or not.
#[derive(Clone, Debug)]
pub struct SourceReader {
    pub audience: Audience,
    pub chat_kind: ChatKind,
    /// Authors of the sources who have a lower role than the reader.
    pub lower: BTreeSet<Author>,
}

impl SourceReader {
    /// Returns a person as the reader of these sources.
    pub(crate) async fn of(
        store: &Store,
        people: &People,
        person: ReadingPerson,
        sources: &[Source],
    ) -> Result<Self, StoreError> {
        let ReadingPerson { account, role, chat_kind } = person;
        let audience = audience(role, chat_kind);
        let authors = sources.iter().filter_map(Source::author);
        let others: BTreeSet<_> =
            authors.filter(|author| Some(author) != account.as_ref()).collect();
        // A private chat has one person.
        if chat_kind == ChatKind::Private || others.is_empty() {
            return Ok(Self { audience, chat_kind, lower: BTreeSet::new() });
        }
        let people = people.clone();
        let query =
            move |store: &Connection| with_lower_role(store, &people, others, role, chat_kind);
        Ok(Self { audience, chat_kind, lower: store.read(query).await? })
    }

    /// Returns true if a source is untrusted: for this audience, or because its author has a lower role. In a group also
    /// if its author is not known.
    pub fn distrusts(&self, source: &Source) -> bool {
        let is_unnamed = || match source {
            // A former version did not store who it was made for.
            Source::Plan { by, .. } | Source::Proposal { by, .. } | Source::Task { by, .. } => {
                by.is_none()
            }
            // It sees the group's folder, and its words may be those of another person's model.
            Source::Command { .. } => true,
            _ => false,
        };
        is_untrusted(source, self.audience)
            || self.is_of_lower(source)
            || (self.chat_kind == ChatKind::Group && is_unnamed())
    }

    /// Returns true if a person with a lower role said something, or it was made for them.
    pub(crate) fn is_of_lower(&self, source: &Source) -> bool {
        source.author().is_some_and(|author| self.lower.contains(&author))
    }

    /// Returns the source of the newest untrusted content of a conversation.
    pub(crate) fn taint(&self, session: &Session) -> Option<Taint> {
        let mut steps = session.turns.iter().rev().flat_map(|turn| turn.steps.iter().rev());
        let of_steps = steps.find_map(|step| self.of_step(step));
        of_steps.or_else(|| {
            let is_untrusted = |source| self.distrusts(source);
            session.summary_sources.iter().any(is_untrusted).then_some(Taint::Summed)
        })
    }

    fn of_step(&self, step: &Step) -> Option<Taint> {
        let untrusted = |call: &&Call| call.sources.iter().any(|source| self.distrusts(source));
        let by_call = step.calls.iter().rev().find(untrusted);
        by_call.map(|call| Taint::Tool(call.tool.clone())).or_else(|| {
            let parts = step.input.iter().flat_map(SourcedText::iter);
            let taints: Vec<_> =
                parts.filter_map(|part| self.of_input_source(part.source)).collect();
            let said = taints.iter().find(|taint| **taint == Taint::Said);
            said.or(taints.first()).cloned()
        })
    }

    fn of_input_source(&self, source: &Source) -> Option<Taint> {
        if !self.distrusts(source) {
            return None;
        }
        Some(match source {
            Source::Person { .. }
            | Source::Button { .. }
            | Source::Quoted { .. }
            | Source::Overheard { .. }
            | Source::Unknown => Taint::Said,
            Source::File { .. } => Taint::Sent,
            _ => Taint::HandedOn,
        })
    }
}
