//! The context of a call: its turn, its person and its place.

use crate::conversation::asks::CallApproval;
use crate::people::Role;
use crate::types::message::{Address, ChatKind, Sender};
use crate::types::session::{Call, TurnId};

/// A call, with the person for whom it is made and the place.
pub(crate) struct CallContext<'a> {
    pub(crate) turn: TurnId,
    pub(crate) call: &'a Call,
    pub(crate) person: &'a Sender,
    /// The person's own role, also in a group.
    pub(crate) role: Role,
    pub(crate) at: &'a Address,
    pub(crate) chat_kind: ChatKind,
    /// True if the person uses the channel of `at`, and so can be asked there.
    pub(crate) is_there: bool,
    /// The person's own words that it keeps without approval after untrusted content. The person is shown them.
    pub(crate) own_words: Option<String>,
    /// The approval by which it is made. It covers only the files that people were shown.
    pub(crate) approval: Option<CallApproval>,
    /// True if nothing may be sent in quiet hours.
    pub(crate) keeps_quiet: bool,
}
