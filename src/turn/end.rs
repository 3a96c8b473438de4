//! The end of a turn: the data of its commit, and the messages to its person if the model is silent or fails.

use chrono_tz::Tz;

use crate::bus::journal::InboundOutcome;
use crate::conversation::transcript::UnfinishedTurn;
use crate::people::Role;
use crate::provider::ProviderError;
use crate::replies;
use crate::types::message::{Attachment, MessageId};
use crate::types::origin::Origin;
use crate::types::session::TurnOutcome;

/// The answer that stands for silence.
pub(crate) const NO_REPLY: &str = "NO_REPLY";

/// The end of a turn.
pub(crate) struct TurnEnd {
    pub(crate) ending: TurnOutcome,
    pub(crate) outcome: InboundOutcome,
    /// The message to the person.
    pub(crate) words: Option<String>,
    /// Files that are sent with the message.
    pub(crate) files: Vec<Attachment>,
    pub(crate) origin: Origin,
    pub(crate) reply_to: Option<MessageId>,
    /// True if the message may replace a draft: not while an edit of it is under way.
    pub(crate) over_draft: bool,
    /// True if the model has read untrusted content.
    pub(crate) tainted: bool,
    /// The owner's time zone.
    pub(crate) zone: Tz,
    /// True if its reports are held back until the heartbeat's quiet hours are over. Decided when it is committed.
    pub(crate) is_quiet: bool,
}

impl TurnEnd {
    /// Returns the end of a turn that failed and has no task, with a message to its person.
    pub(crate) fn failed(turn: &UnfinishedTurn, message: String, zone: Tz) -> Self {
        Self {
            ending: TurnOutcome::Failed,
            outcome: InboundOutcome::Refused,
            words: Some(message),
            reply_to: turn.reply_to.clone(),
            over_draft: true,
            zone,
            ..Self::silent(&turn.origin)
        }
    }

    /// Returns the end of a turn that sends no message.
    pub(crate) fn silent(origin: &Origin) -> Self {
        Self {
            ending: TurnOutcome::Silent,
            outcome: InboundOutcome::Answered,
            words: None,
            files: Vec::new(),
            origin: origin.clone(),
            reply_to: None,
            over_draft: false,
            tainted: false,
            zone: Tz::UTC,
            is_quiet: false,
        }
    }
}

/// Returns the message to a person who gets no answer.
pub(crate) fn failure_text(error: &ProviderError, to: Role) -> String {
    match error {
        ProviderError::TooLong => replies::TOO_LONG.to_owned(),
        ProviderError::Busy { reason, .. } => replies::model_unavailable(reason),
        ProviderError::Broken(reason) | ProviderError::Stalled(reason) => {
            replies::model_broke_off(reason)
        }
        ProviderError::OverBudget(message) => message.clone(),
        ProviderError::NoTools(reason) => replies::model_without_tools(reason, to == Role::Owner),
        ProviderError::Unauthorized(reason)
        | ProviderError::Refused(reason)
        | ProviderError::NoCredit(reason) => replies::model_refused_us(reason, to == Role::Owner),
    }
}

/// Returns true for silence as small models spell it: "No reply.". It may be a real answer, so it only leads to a
/// reminder.
pub(crate) fn is_like_no_reply(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase());
    letters.eq("noreply".chars())
}

/// Returns true if an answer is silence, even with the signs that models like to put around it.
pub(crate) fn is_no_reply(text: &str) -> bool {
    text.trim_matches(|c: char| "`*\"'.".contains(c)) == NO_REPLY
}
