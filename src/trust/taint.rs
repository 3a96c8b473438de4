//! Detects untrusted content in a conversation by the sources of its prompt. The result is not stored: it holds as long
//! as the model sees such content, whose authors may instruct it.

use std::collections::BTreeSet;
use std::fmt;

use crate::bus::Bus;
use crate::memory::audience;
use crate::people::Role;
use crate::store::StoreError;
use crate::trust::acts::tool_role;
use crate::types::message::{ChannelName, ChatKind, SenderId};
use crate::types::session::{Call, Session, Step};
use crate::types::source::{Source, SourcedText};
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
    /// Another conversation that has read untrusted content.
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

/// Returns true if a source is untrusted for this audience. A person's own messages are not, because their role
/// already limits what they may cause.
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
        Source::Plan { read_others }
        | Source::Proposal { read_others }
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
/// only messages of people with this role or a higher one, who could do themselves what they request.
pub(crate) async fn find_taint(
    bus: &Bus,
    session: &Session,
    role: Role,
) -> Result<Option<Taint>, StoreError> {
    let lower = read_lower_speakers(bus, session, role).await?;
    Ok(TaintReader { audience: audience(role, session.chat_kind), lower }.taint(session))
}

/// Returns the taint of a conversation with only one speaker.
pub(crate) fn session_taint(session: &Session, role: Role) -> Option<Taint> {
    let (audience, lower) = (audience(role, session.chat_kind), BTreeSet::new());
    TaintReader { audience, lower }.taint(session)
}

type SpeakerId = (ChannelName, SenderId);

/// Returns the people who have spoken here and have a lower role.
async fn read_lower_speakers(
    bus: &Bus,
    session: &Session,
    role: Role,
) -> Result<BTreeSet<SpeakerId>, StoreError> {
    let speakers = speakers(session);
    let last_speaker = session.turns.last().map(|turn| &turn.by);
    if session.chat_kind == ChatKind::Private
        || speakers.iter().all(|(_, id)| Some(id) == last_speaker)
    {
        return Ok(BTreeSet::new());
    }
    let people = bus.people.clone();
    // In a group, the owner has the tools of an admin.
    let (chat_kind, role) = (session.chat_kind, tool_role(role, session.chat_kind));
    let query = move |store: &_| {
        let mut lower = BTreeSet::new();
        for (channel, speaker) in speakers {
            let speaker_role = people.role_of(store, &channel, &speaker)?;
            if tool_role(speaker_role.unwrap_or(Role::Guest), chat_kind) < role {
                lower.insert((channel, speaker));
            }
        }
        Ok(lower)
    };
    bus.store.read(query).await
}

fn speakers(session: &Session) -> BTreeSet<SpeakerId> {
    let people = session.sources().into_iter().filter_map(|source| match source {
        Source::Person { channel, id } | Source::Button { channel, id } => Some((channel, id)),
        _ => None,
    });
    people.collect()
}

/// Looks for the taint of a conversation, as this audience sees it.
struct TaintReader {
    audience: Audience,
    /// Speakers with a lower role.
    lower: BTreeSet<SpeakerId>,
}

impl TaintReader {
    /// Returns the source of the newest untrusted content.
    fn taint(&self, session: &Session) -> Option<Taint> {
        let mut steps = session.turns.iter().rev().flat_map(|turn| turn.steps.iter().rev());
        let of_steps = steps.find_map(|step| self.of_step(step));
        of_steps.or_else(|| {
            let is_untrusted = |source| self.of_input_source(source).is_some();
            session.summary_sources.iter().any(is_untrusted).then_some(Taint::Summed)
        })
    }

    fn of_step(&self, step: &Step) -> Option<Taint> {
        let untrusted =
            |call: &&Call| call.sources.iter().any(|source| is_untrusted(source, self.audience));
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
        let is_untrusted = is_untrusted(source, self.audience);
        match source {
            Source::Person { channel, id } | Source::Button { channel, id } => {
                let speaker = (channel.clone(), id.clone());
                self.lower.contains(&speaker).then_some(Taint::Said)
            }
            Source::Quoted { .. } | Source::Overheard { .. } | Source::Unknown => {
                is_untrusted.then_some(Taint::Said)
            }
            Source::File { .. } => is_untrusted.then_some(Taint::Sent),
            _ => is_untrusted.then_some(Taint::HandedOn),
        }
    }
}
