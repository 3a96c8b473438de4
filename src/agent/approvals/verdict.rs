//! Decisions about calls, as the arguments of `/approve` and `/deny`. Not here: how they are carried out.

use crate::conversation::asks::AskId;
use crate::conversation::deferred::DeferredId;

/// A decision of an entitled person about a waiting call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalVerdict {
    Approve {
        ask: AskId,
        always: bool,
    },
    Deny(AskId),
    /// Decides all calls of this one's question that wait.
    All {
        ask: AskId,
        approve: bool,
    },
    /// Asks about each of these calls in a message of its own.
    Each(AskId),
    /// Decides about deferred calls, which nobody could be asked about.
    Later(DeferredVerdict),
    /// Revokes the permanent permission of a tool.
    Revoke(String),
    List,
}

impl ApprovalVerdict {
    /// Returns the waiting call that this decision is about.
    pub(super) fn ask(&self) -> Option<AskId> {
        match self {
            Self::Approve { ask, .. }
            | Self::Deny(ask)
            | Self::All { ask, .. }
            | Self::Each(ask) => Some(*ask),
            Self::Later(_) | Self::Revoke(_) | Self::List => None,
        }
    }

    /// Parses the arguments of `/approve`. None if they are invalid.
    pub(crate) fn approve<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let Some(ask) = words.next() else { return Some(Self::List) };
        if ask.eq_ignore_ascii_case(LATER) {
            return DeferredVerdict::parse(words, true).map(Self::Later);
        }
        let ask = ask.trim_start_matches('#').parse().map(AskId).ok()?;
        match words.next().map(str::to_ascii_lowercase).as_deref() {
            None | Some("once") => Some(Self::Approve { ask, always: false }),
            Some("always") => Some(Self::Approve { ask, always: true }),
            Some("all") => Some(Self::All { ask, approve: true }),
            Some("each") => Some(Self::Each(ask)),
            Some(_) => None,
        }
    }

    /// Parses the arguments of `/deny`.
    pub(crate) fn deny<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let target = words.next()?;
        if target.eq_ignore_ascii_case(LATER) {
            return DeferredVerdict::parse(words, false).map(Self::Later);
        }
        let all = words.next().is_some_and(|word| word.eq_ignore_ascii_case("all"));
        Some(match target.trim_start_matches('#').parse().map(AskId) {
            Ok(ask) if all => Self::All { ask, approve: false },
            Ok(ask) => Self::Deny(ask),
            Err(_) => Self::Revoke(target.to_owned()),
        })
    }
}

/// The argument before the number of a deferred call.
const LATER: &str = "later";

/// A decision about a deferred call, which nobody could be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferredVerdict {
    pub(super) id: DeferredId,
    /// True if it covers all calls that were shown together.
    pub(super) all: bool,
    pub(super) approve: bool,
}

impl DeferredVerdict {
    fn parse<'a>(mut words: impl Iterator<Item = &'a str>, approve: bool) -> Option<Self> {
        let id = words.next()?.trim_start_matches('#').parse().map(DeferredId).ok()?;
        match words.next().map(str::to_ascii_lowercase).as_deref() {
            None => Some(Self { id, all: false, approve }),
            Some("all") => Some(Self { id, all: true, approve }),
            Some(_) => None,
        }
    }
}
