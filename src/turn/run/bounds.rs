//! The ends of a turn without a text answer: a limit, or a call that ends it. Also the reminders to a model whose
//! answer should have been a call, or a text.

use crate::bus::journal::InboundOutcome;
use crate::conversation::transcript;
use crate::provider::{ASK_QUESTION, Completion, StopReason, answer_in_lone_call, is_lone_call};
use crate::replies;
use crate::tools::{Caller, delegate, finish};
use crate::turn::end::{is_like_no_reply, is_no_reply};
use crate::turn::error::TurnError;
use crate::turn::prompt;
use crate::turn::run::active::ActiveTurn;
use crate::types::message::ChatKind;
use crate::types::session::{Call, CallOutcome, Finish, Session, Step, TurnOutcome};

/// Maximum number of reminders. More would not help, and the model's text is better than none.
const REMINDERS_MAX: usize = 3;

/// The message of a turn that a call has ended. None sends nothing.
pub(super) struct FinishingText(Option<String>);

/// A limit that was reached, with the note for the model and the explanation for the person.
pub(super) struct ReachedLimit {
    pub(super) note: String,
    pub(super) words: String,
}

impl ActiveTurn<'_> {
    /// Returns the limit that the turn has reached, before another step begins.
    pub(super) async fn find_reached_limit(&self) -> Result<Option<ReachedLimit>, TurnError> {
        let steps = self.limits.steps_max;
        if self.steps_made() >= steps {
            let words = match self.limits.background {
                None => replies::steps_exhausted(steps),
                Some(_) => replies::task_steps_used_up(steps),
            };
            let note = match self.limits.background {
                None => prompt::steps_used_up(steps),
                Some(kind) => kind.steps_used_up(steps),
            };
            return Ok(Some(ReachedLimit { note, words }));
        }
        if self.limits.keeps_quiet && self.turns.heartbeat.is_quiet() {
            let (note, words) = (prompt::QUIET_HOURS_BEGAN, replies::QUIET_HOURS_BEGAN);
            return Ok(Some(ReachedLimit { note: note.to_owned(), words: words.to_owned() }));
        }
        let Some(tokens_max) = self.limits.tokens_max else { return Ok(None) };
        let turn = self.turn;
        let used = self
            .turns
            .services
            .bus
            .store
            .read(move |store| transcript::used_in(store, turn))
            .await?;
        let (note, words) = (prompt::TOKENS_USED_UP, replies::task_tokens_used_up(tokens_max));
        Ok((used >= tokens_max).then(|| ReachedLimit { note: note.to_owned(), words }))
    }

    /// Returns the message of the call that has ended the turn, in its last step.
    pub(super) fn finished(&self) -> Option<FinishingText> {
        let last = self.steps().last().filter(|_| self.limits.finish == Finish::Explicit)?;
        let (_, text) = finish::find_ending_call(&last.calls)?;
        let message = match self.limits.background {
            None if is_no_reply(text) => {
                self.owes_answer().then(|| replies::NOTHING_TO_SAY.to_owned())
            }
            None => Some(text.to_owned()),
            Some(kind) => kind.closing_message(self.steps(), text),
        };
        // The text was written before the results of the other calls were known.
        last.calls.iter().all(went_as_planned).then_some(FinishingText(message))
    }

    /// Ends the turn with the text of a call, without another completion.
    pub(super) async fn finish(
        self,
        finished: FinishingText,
    ) -> Result<Option<Session>, TurnError> {
        let FinishingText(message) = finished;
        let mut end = self.end_with(String::new());
        end.outcome = InboundOutcome::Answered;
        end.ending = if message.is_some() { TurnOutcome::Answered } else { TurnOutcome::Silent };
        let message = message.map(|message| self.with_thoughts(&message));
        (end.words, end.files) = self.attach(message).await?;
        self.end(end, None).await
    }

    /// Returns true if a person waits for an answer in a private chat, and got no message in this turn.
    pub(super) fn owes_answer(&self) -> bool {
        let is_conversation = matches!(self.limits.caller, Caller::Conversation(_));
        is_conversation
            && self.session.chat_kind == ChatKind::Private
            && self.sent_here().next().is_none()
    }

    /// Returns the reminder for the next step, if the last one was silence while a person waits, a call written as
    /// text, or a text where only a call ends the turn.
    pub(super) fn reminder(&self) -> Option<String> {
        let last = self.steps().last().filter(|step| is_text_alone(step));
        if last.is_some_and(|step| is_like_no_reply(&step.text)) && self.owes_answer() {
            return Some(prompt::ANSWER_DUE.to_owned());
        }
        if self.has_lost_call() {
            return Some(prompt::LOST_CALL.to_owned());
        }
        let is_due = self.limits.finish == Finish::Explicit
            && self.steps().last().is_some_and(is_text_alone);
        is_due.then(|| match self.limits.background {
            None => prompt::reminder(&[finish::COMPLETION, finish::CONVERSE]),
            Some(kind) => kind.reminder(),
        })
    }

    /// Returns true if the last answer is a call written as text. The next step is then asked without calls.
    pub(super) fn has_lost_call(&self) -> bool {
        let is_made = |step: &&Step| !step.text.is_empty() || !step.calls.is_empty();
        let last = self.steps().iter().rfind(is_made);
        self.limits.finish == Finish::Answer && last.is_some_and(is_lost_call)
    }

    /// Returns the completion with the answer extracted, if the model has written it as a call for the second time.
    pub(super) fn without_call(&self, mut completion: Completion) -> Completion {
        if self.has_lost_call()
            && let Some(answer) = answer_in_lone_call(&completion.text)
        {
            completion.text = answer;
        }
        completion
    }

    /// Returns the number of the reminder that a text leads to. None if the text is the answer.
    pub(super) fn reminds(&self, completion: &Completion) -> Option<u32> {
        let text = completion.text.trim();
        let is_cut = matches!(completion.stop, Some(StopReason::MaxTokens | StopReason::Refused));
        let is_silence = match self.limits.background {
            None => is_no_reply(text),
            Some(kind) => kind.is_silence(text),
        };
        if (is_silence || is_like_no_reply(text)) && self.owes_answer() {
            let was_silent = |step: &Step| is_text_alone(step) && is_like_no_reply(&step.text);
            return (!self.steps().iter().any(was_silent)).then_some(1);
        }
        if self.limits.finish == Finish::Answer && !is_cut && is_lone_call(text) {
            // The second time the JSON is the answer: the person may have asked for it.
            return (!self.steps().iter().any(is_lost_call)).then_some(1);
        }
        if self.limits.finish == Finish::Answer || text.is_empty() || is_cut || is_silence {
            return None;
        }
        let before = self.steps().iter().filter(|step| is_text_alone(step)).count();
        (before < REMINDERS_MAX).then(|| u32::try_from(before + 1).unwrap_or(u32::MAX))
    }
}

fn is_text_alone(step: &Step) -> bool {
    !step.text.is_empty() && step.calls.is_empty()
}

fn is_lost_call(step: &Step) -> bool {
    is_text_alone(step) && is_lone_call(&step.text)
}

/// Returns true if a call succeeded, and its result has nothing new for the model.
fn went_as_planned(call: &Call) -> bool {
    let has_new_content = [ASK_QUESTION, delegate::SUBAGENT].contains(&call.tool.as_str());
    matches!(call.outcome, CallOutcome::Done(_)) && !has_new_content
}
