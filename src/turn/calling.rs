//! A call, and on whose behalf it is made.

use crate::people::Role;
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::session::{Call, TurnId};

/// A call, and on whose behalf it is made.
pub(crate) struct CallContext<'a> {
    pub(crate) turn: TurnId,
    pub(crate) call: &'a Call,
    pub(crate) person: &'a Sender,
    /// The person's own, also in a group.
    pub(crate) role: Role,
    pub(crate) at: &'a Address,
    pub(crate) chat_kind: ChatKind,
    /// The person is known there, and so can be asked.
    pub(crate) is_there: bool,
    /// The person's own words that it keeps unasked after untrusted content. They are shown what was kept.
    pub(crate) own_words: Option<String>,
    /// Nothing is to be sent in quiet hours.
    pub(crate) keeps_quiet: bool,
}
