//! The visible state of a running turn. `turn::progress` decides how it is shown.

use crate::types::message::MessageId;
use crate::types::session::TurnId;

/// The visible state of a running turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    /// None before the turn is in the store.
    pub(crate) turn: Option<TurnId>,
    /// The text of the step so far.
    pub(crate) text: String,
    /// The line for the running tool.
    pub(crate) doing: Option<String>,
    pub(crate) reply_to: Option<MessageId>,
    /// The draft message of an attempt before a crash.
    pub(crate) made: Option<MessageId>,
    /// The number of times that a message was sent below the draft. After each, a new draft begins below it.
    pub(crate) anew: u32,
    /// True if the turn ended without waiting for a draft that is still being sent.
    pub(crate) left: bool,
}
