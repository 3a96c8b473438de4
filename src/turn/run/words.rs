//! What the person is told at the end of a turn.

use crate::people::Role;
use crate::provider::{Completion, ProviderError, StopReason};
use crate::replies;
use crate::tools::message;
use crate::turn::run::Active;
use crate::types::session::Ending;

/// What a model answers to say nothing.
pub(crate) const NO_REPLY: &str = "NO_REPLY";

impl Active<'_> {
    /// What the person is told of a completion without calls.
    pub(super) fn words(&self, completion: &Completion) -> (Ending, Option<String>) {
        let text = completion.text.trim();
        if is_no_reply(text) {
            return (Ending::Silent, None);
        }
        if text.is_empty() {
            let words = match completion.stop {
                Some(StopReason::Refused) => replies::MODEL_REFUSED,
                Some(StopReason::MaxTokens) if self.asker.role == Role::Owner => {
                    replies::LIMIT_USED_UP_OWNER
                }
                Some(StopReason::MaxTokens) => replies::LIMIT_USED_UP,
                _ if self.said_here().next().is_some() => return (Ending::Answered, None),
                _ if self.part.caller.may_say_nothing() => return (Ending::Silent, None),
                _ => replies::NO_WORDS,
            };
            return (Ending::Failed, Some(words.to_owned()));
        }
        if self.said_here().any(|said| said.trim() == text) {
            return (Ending::Answered, None);
        }
        let cut = (completion.stop == Some(StopReason::MaxTokens)).then_some(replies::CUT_SHORT);
        let parts = [Some(text), cut, completion.note.as_deref()];
        let said = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        (Ending::Answered, Some(self.with_thoughts(&said)))
    }

    /// What is said, after what was thought if people wish to see that.
    pub(super) fn with_thoughts(&self, said: &str) -> String {
        match self.session.settings.show_thinking && !self.thought.trim().is_empty() {
            true => format!("{}\n\n{said}", replies::thought(&self.thought)),
            false => said.to_owned(),
        }
    }

    /// What the message tool has said here in this turn.
    fn said_here(&self) -> impl Iterator<Item = String> {
        let calls = self.steps().iter().flat_map(|step| &step.calls);
        calls.filter_map(|call| message::said_here(call, &self.part.people_at))
    }
}

/// What the person is told who gets no answer.
pub(crate) fn failure_words(error: &ProviderError, to: Role) -> String {
    match error {
        ProviderError::TooLong => replies::TOO_LONG.to_owned(),
        ProviderError::Busy { reason, .. } => replies::model_unavailable(reason),
        ProviderError::Refused(reason) => replies::model_refused_us(reason, to == Role::Owner),
    }
}

/// Whether an answer is silence, also with the signs that models like to put around it.
pub(crate) fn is_no_reply(text: &str) -> bool {
    text.trim_matches(|sign: char| "`*\"'.".contains(sign)) == NO_REPLY
}
