//! What of a turn people see while it works. How it is shown is decided in `turn::progress`.

use crate::types::message::MessageId;
use crate::types::session::TurnId;

/// What there is to show of a turn that works.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    /// None before the turn is in the store.
    pub(crate) turn: Option<TurnId>,
    /// The text of the step so far.
    pub(crate) text: String,
    /// What a tool is doing.
    pub(crate) doing: Option<String>,
    pub(crate) reply_to: Option<MessageId>,
    /// The draft that an attempt before a crash has left.
    pub(crate) made: Option<MessageId>,
    /// How often something has been said below the draft: the next one stands below that.
    pub(crate) anew: u32,
    /// The answer has not waited for the draft that is on its way.
    pub(crate) left: bool,
}
