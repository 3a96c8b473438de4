//! A request to a model, in no vendor's form.

use serde_json::Value;

use super::pictures::Pictures;
use crate::types::session::{Call, Effort, Image, Step, Thinking, Turn, TurnOutcome};

/// One completion to be made.
pub struct Request<'a> {
    /// The system prompt. The parts that change least come first; a cached prefix may end after each part.
    pub system: &'a [String],
    pub tools: &'a [ToolSchema],
    /// The numbers of the facts in the system prompt. The model is asked on which of them its answer rests. If there
    /// are none, it is not asked.
    pub facts: &'a [i64],
    /// True if the model may call tools now. Their schemas are sent in either case, for the cache.
    pub may_call: bool,
    pub effort: Effort,
    pub attempts: Attempts,
    /// Maximum length of the answer that a budget allows, in tokens. None leaves it to the provider's config.
    pub tokens_max: Option<u32>,
    pub messages: Vec<PromptMessage<'a>>,
    /// The available pictures of the messages. The others are only described to the model.
    pub pictures: &'a Pictures,
}

/// Retry policy for an unreachable provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attempts {
    /// As often as a person would wait for.
    #[default]
    Usual,
    /// Once: it was away a moment ago, and whoever asks will ask again.
    Once,
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSchema {
    /// Ours: `[a-z0-9_]`, at most 64 characters. Those of MCP servers may have other signs; a provider respells
    /// names that its API does not accept.
    pub name: String,
    pub description: String,
    /// JSON schema of an object.
    pub parameters: Value,
}

/// A message of the transcript. Roles alternate validly: a `User` comes first, `Results` follow the
/// calls they answer, each call has exactly one, and neither two `User` nor two `Assistant`
/// messages follow each other.
#[derive(Debug, PartialEq)]
pub enum PromptMessage<'a> {
    /// The text is never blank.
    User {
        text: String,
        images: Vec<&'a Image>,
    },
    /// With text or calls or both. The text may be blank beside calls.
    Assistant {
        text: &'a str,
        thinking: &'a [Thinking],
        calls: &'a [Call],
    },
    Results(&'a [Call]),
}

/// The text beside the pictures of an answer that is a call's result.
const OF_ANSWER: &str = "[The pictures that came with the answer above.]";

/// Replaces a missing message of the person: a model needs one to answer.
const GO_ON: &str = "[Go on.]";

/// Converts `turns` to messages. The last one is that which the model answers: `User` or `Results`.
pub fn messages(turns: &[Turn]) -> Vec<PromptMessage<'_>> {
    transcript_as_messages(None, turns)
}

/// Converts `turns` to messages, the first of which begins with a summary of earlier turns.
pub fn transcript_as_messages<'a>(
    summary: Option<&str>,
    turns: &'a [Turn],
) -> Vec<PromptMessage<'a>> {
    let mut messages = Vec::new();
    push_user(&mut messages, summary.unwrap_or_default(), &[]);
    for turn in turns {
        let summarized = turn.steps.iter().take_while(|step| step.is_summarized).count();
        let (summarized, steps) = turn.steps.split_at(summarized);
        summarized.iter().for_each(|step| push_step(&mut messages, step));
        push_user(
            &mut messages,
            &super::call_record::calls_record(summarized).unwrap_or_default(),
            &[],
        );
        steps.iter().for_each(|step| push_step(&mut messages, step));
        if let Some(note) = ending_note(turn) {
            push_assistant(&mut messages, note, &[], &[]);
        }
    }
    if !matches!(messages.last(), Some(PromptMessage::User { .. } | PromptMessage::Results(_))) {
        push_user(&mut messages, GO_ON, &[]);
    }
    messages
}

fn push_step<'a>(messages: &mut Vec<PromptMessage<'a>>, step: &'a Step) {
    push_user(messages, step.input.as_deref().unwrap_or_default(), &step.images);
    if step.is_summarized {
        return;
    }
    let Step { text, thinking, calls, .. } = step;
    if !is_blank(text) || !calls.is_empty() {
        push_assistant(messages, text, thinking, calls);
    }
}

fn push_user<'a>(messages: &mut Vec<PromptMessage<'a>>, input: &str, new_images: &'a [Image]) {
    if is_blank(input) {
        return;
    }
    match messages.last_mut() {
        Some(PromptMessage::User { text, images }) => {
            text.push_str("\n\n");
            text.push_str(input);
            images.extend(new_images);
        }
        _ => {
            let (text, images) = (input.to_owned(), new_images.iter().collect());
            messages.push(PromptMessage::User { text, images });
        }
    }
}

fn push_assistant<'a>(
    messages: &mut Vec<PromptMessage<'a>>,
    text: &'a str,
    thinking: &'a [Thinking],
    calls: &'a [Call],
) {
    if matches!(messages.last(), None | Some(PromptMessage::Assistant { .. })) {
        push_user(messages, GO_ON, &[]);
    }
    messages.push(PromptMessage::Assistant { text, thinking, calls });
    if !calls.is_empty() {
        messages.push(PromptMessage::Results(calls));
    }
    // Not all formats accept pictures within a result.
    for call in calls.iter().filter(|call| !call.images.is_empty()) {
        push_user(messages, OF_ANSWER, &call.images);
    }
}

/// The tool whose result is a person's answer.
pub const ASK_QUESTION: &str = "ask_question";

/// The calls that end a turn, with their text as the answer.
pub const COMPLETION: &str = "task_completion";
pub const CONVERSE: &str = "converse";

/// Returns the note that replaces the answer of a turn that ended without one.
fn ending_note(turn: &Turn) -> Option<&'static str> {
    let last = turn.steps.last()?;
    match turn.ending? {
        _ if !is_blank(&last.text) && last.calls.is_empty() => None,
        TurnOutcome::Answered
            if last.calls.iter().any(|call| [COMPLETION, CONVERSE].contains(&&*call.tool)) =>
        {
            Some("[Sent.]")
        }
        TurnOutcome::Answered => Some("[Answered without words.]"),
        TurnOutcome::Silent => Some("NO_REPLY"),
        TurnOutcome::Stopped => Some("[Stopped by the person.]"),
        TurnOutcome::Failed => Some("[This failed; the person was told why.]"),
    }
}

/// Returns true if a text has no visible character. Vendors refuse such texts.
pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
