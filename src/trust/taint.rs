//! Whether a conversation has read what strangers wrote. Found out from what the model is shown, and kept
//! nowhere: as long as it sees their words, they may speak to it.

use std::collections::BTreeSet;
use std::fmt;

use crate::bus::Bus;
use crate::people::Role;
use crate::provider::ASK_QUESTION;
use crate::store::StoreError;
use crate::trust::acts::tool_role;
use crate::types::message::{Place, SenderId};
use crate::types::session::{Call, Session, Step};
use crate::types::untrusted;

/// What brought the newest of their words in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taint {
    /// A call of this tool.
    Tool(String),
    /// What others said here, quoted or overheard, or somebody with fewer rights in a turn of their own.
    Said,
    /// Another conversation, which has read them.
    HandedOn,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(tool) => write!(f, "it came by {tool}"),
            Self::Said => f.write_str("in what others said here"),
            Self::HandedOn => f.write_str("in what was handed on"),
        }
    }
}

/// What a conversation is tainted with for a turn that works with a role; none if its model sees nobody's
/// words but those of people who have that role, or a higher one: they may have done themselves what
/// they talk it into.
pub(crate) async fn of(
    bus: &Bus,
    session: &Session,
    role: Role,
) -> Result<Option<Taint>, StoreError> {
    Ok(shown_to(session, &lower(bus, session, role).await?))
}

/// The same where only one person speaks.
pub(crate) fn of_one(session: &Session) -> Option<Taint> {
    shown_to(session, &BTreeSet::new())
}

/// Those who have spoken here and have a lower role.
async fn lower(bus: &Bus, session: &Session, role: Role) -> Result<BTreeSet<SenderId>, StoreError> {
    let speakers: BTreeSet<SenderId> = session.turns.iter().map(|turn| turn.by.clone()).collect();
    if session.place == Place::Private || speakers.len() < 2 {
        return Ok(BTreeSet::new());
    }
    let (people, channel) = (bus.people.clone(), session.origin.channel().clone());
    // In a group an owner's tools are an admin's.
    let (place, role) = (session.place, tool_role(role, session.place));
    let look = move |store: &_| {
        let mut lower = BTreeSet::new();
        for speaker in speakers {
            let own = people.role_of(store, &channel, &speaker)?;
            if tool_role(own.unwrap_or(Role::Guest), place) < role {
                lower.insert(speaker);
            }
        }
        Ok(lower)
    };
    bus.store.read(look).await
}

fn shown_to(session: &Session, lower: &BTreeSet<SenderId>) -> Option<Taint> {
    let mut turns = session.turns.iter().rev();
    turns.find_map(|turn| {
        let has_said = |step: &&Step| step.heard.is_some() && lower.contains(&turn.by);
        let mut steps = turn.steps.iter().rev();
        steps.find_map(|step| {
            of_step(step).or_else(|| Some(step).filter(has_said).map(|_| Taint::Said))
        })
    })
}

fn of_step(step: &Step) -> Option<Taint> {
    // An answer that a call asked for comes as messages do.
    let theirs = |call: &&Call| {
        let result = call.outcome.for_model();
        untrusted::is_wrapped(result)
            || (call.tool == ASK_QUESTION && untrusted::is_of_others(result))
    };
    let by_call = step.calls.iter().rev().find(theirs);
    by_call.map(|call| Taint::Tool(call.tool.clone())).or_else(|| {
        let heard = step.heard.as_deref().unwrap_or_default();
        match untrusted::is_of_others(heard) {
            true => Some(Taint::Said),
            false => heard.contains(untrusted::HAS_READ).then_some(Taint::HandedOn),
        }
    })
}
