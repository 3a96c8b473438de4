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
    /// The draft that an attempt before a crash has left.
    pub(crate) made: Option<MessageId>,
    /// The number of messages below the draft: the next draft stands below them.
    pub(crate) anew: u32,
    /// The answer has not waited for the draft that is on its way.
    pub(crate) left: bool,
}
