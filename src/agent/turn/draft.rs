//! What of a turn people see while it works. How it is shown is decided in `agent::progress`.

use crate::message::MessageId;
use crate::session::TurnId;

/// What there is to show of a turn that works.
#[derive(Clone, Debug, Default)]
pub(in crate::agent) struct Draft {
    /// None before the turn is in the store.
    pub(in crate::agent) turn: Option<TurnId>,
    /// The text of the step so far.
    pub(in crate::agent) text: String,
    /// What a tool is doing.
    pub(in crate::agent) doing: Option<String>,
    pub(in crate::agent) reply_to: Option<MessageId>,
    /// The draft that an attempt before a crash has left.
    pub(in crate::agent) made: Option<MessageId>,
    /// How often something has been said below the draft: the next one stands below that.
    pub(in crate::agent) anew: u32,
    /// The answer has not waited for the draft that is on its way.
    pub(in crate::agent) left: bool,
}
