//! The message to the person at the end of a turn.

use crate::people::Role;
use crate::provider::{Completion, StopReason};
use crate::replies;
use crate::tools::message;
use crate::turn::end::is_no_reply;
use crate::turn::run::active::ActiveTurn;
use crate::types::session::TurnOutcome;

impl ActiveTurn<'_> {
    /// Returns the message to the person for a completion without calls.
    pub(super) fn words(&self, completion: &Completion) -> (TurnOutcome, Option<String>) {
        let text = completion.text.trim();
        if is_no_reply(text) && self.owes_words() {
            return (TurnOutcome::Answered, Some(replies::NOTHING_TO_SAY.to_owned()));
        }
        if is_no_reply(text) {
            return (TurnOutcome::Silent, None);
        }
        if text.is_empty() {
            let words = match completion.stop {
                Some(StopReason::Refused) => replies::MODEL_REFUSED,
                Some(StopReason::MaxTokens) if self.asker.role == Role::Owner => {
                    replies::LIMIT_USED_UP_OWNER
                }
                Some(StopReason::MaxTokens) => replies::LIMIT_USED_UP,
                _ if self.said_here().next().is_some() => return (TurnOutcome::Answered, None),
                _ if self.part.caller.may_say_nothing() => return (TurnOutcome::Silent, None),
                _ => replies::NO_WORDS,
            };
            return (TurnOutcome::Failed, Some(words.to_owned()));
        }
        if self.said_here().any(|said| said.trim() == text) {
            return (TurnOutcome::Answered, None);
        }
        let cut = (completion.stop == Some(StopReason::MaxTokens)).then_some(replies::CUT_SHORT);
        let parts = [Some(text), cut, completion.note.as_deref()];
        let said = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        (TurnOutcome::Answered, Some(self.with_thoughts(&said)))
    }

    /// Returns the message, after the model's thinking if people want to see that.
    pub(super) fn with_thoughts(&self, said: &str) -> String {
        match self.session.settings.show_thinking && !self.thought.trim().is_empty() {
            true => format!("{}\n\n{said}", replies::thought(&self.thought)),
            false => said.to_owned(),
        }
    }

    /// Returns the texts that the message tool has sent here in this turn.
    pub(super) fn said_here(&self) -> impl Iterator<Item = String> {
        let calls = self.steps().iter().flat_map(|step| &step.calls);
        calls.filter_map(|call| message::said_here(call, &self.part.people_at))
    }
}
