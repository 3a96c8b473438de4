//! Whether a conversation has read what strangers wrote. Found out from what the model is shown, and kept
//! nowhere: as long as it sees their words, they may speak to it.

use std::fmt;

use crate::session::{Call, Session, Step};
use crate::tools::foreign;

/// What brought the newest of their words in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taint {
    /// A call of this tool.
    Tool(String),
    /// What others said here, quoted or overheard.
    Said,
    /// Another conversation, which has read them.
    HandedOn,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(tool) => write!(f, "by {tool}"),
            Self::Said => f.write_str("in what others said here"),
            Self::HandedOn => f.write_str("in what was handed on"),
        }
    }
}

/// What a conversation is tainted with; none if its model sees nobody's words but its person's.
pub(super) fn of(session: &Session) -> Option<Taint> {
    shown(session).rev().find_map(|step| {
        let theirs = |call: &&Call| foreign::is_wrapped(call.outcome.for_model());
        let by_call = step.calls.iter().rev().find(theirs);
        by_call.map(|call| Taint::Tool(call.tool.clone())).or_else(|| {
            let heard = step.heard.as_deref().unwrap_or_default();
            match foreign::is_of_others(heard) {
                true => Some(Taint::Said),
                false => heard.contains(foreign::HAS_READ).then_some(Taint::HandedOn),
            }
        })
    })
}

/// Whether the model was shown an address as it stands, so that nothing of its own is in it.
pub(super) fn knows(session: &Session, url: &str) -> bool {
    let url = url.trim_end_matches('/');
    shown(session).any(|step| {
        let heard = step.heard.iter().any(|heard| heard.contains(url));
        heard || step.calls.iter().any(|call| call.outcome.for_model().contains(url))
    })
}

fn shown(session: &Session) -> impl DoubleEndedIterator<Item = &Step> {
    session.turns.iter().flat_map(|turn| &turn.steps)
}
