//! A request to a model, in no vendor's form.

use serde_json::Value;

use super::pictures::Pictures;
use crate::types::session::{Call, Effort, Image, Step, Thinking, Turn, TurnOutcome};

/// One completion to be made.
pub struct Request<'a> {
    /// The system prompt, what changes least first; a cache may be cut after each part.
    pub system: &'a [String],
    pub tools: &'a [ToolSchema],
    /// The numbers of the facts in the system prompt, of which the model is asked on which its answer rests. Empty: it
    /// is not asked.
    pub facts: &'a [i64],
    /// True if the model may call tools now. Their schemas are sent in either case, for the cache.
    pub may_call: bool,
    pub effort: Effort,
    pub attempts: Attempts,
    /// The longest answer that a budget allows, in tokens; none leaves it to the provider's config.
    pub tokens_max: Option<u32>,
    pub messages: Vec<PromptMessage<'a>>,
    /// The available pictures of the messages. The model is told about the others in words only.
    pub pictures: &'a Pictures,
}

/// The number of attempts at a provider that cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attempts {
    /// As often as a person would wait for.
    #[default]
    Usual,
    /// Once: it was away a moment ago, and whoever asks will ask again.
    Once,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSchema {
    /// Ours: `[a-z0-9_]`, at most 64. What MCP servers name may have other signs; a provider
    /// respells what its API does not take.
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
    /// With words or calls or both; the text may be blank beside calls.
    Assistant {
        text: &'a str,
        thinking: &'a [Thinking],
        calls: &'a [Call],
    },
    Results(&'a [Call]),
}

/// Stands with the pictures of an answer that is a call's result.
const OF_ANSWER: &str = "[The pictures that came with the answer above.]";

/// Stands where the person said nothing, though a model must be given something to answer.
const GO_ON: &str = "[Go on.]";

/// The transcript of `turns` as messages. It ends with what the model is to answer: `User` or
/// `Results`.
pub fn messages(turns: &[Turn]) -> Vec<PromptMessage<'_>> {
    transcript_as_messages(None, turns)
}

/// The same, after words that stand for what was said before; they are part of the first message.
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
        push_user(&mut messages, &super::made::calls_record(summarized).unwrap_or_default(), &[]);
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

fn push_user<'a>(messages: &mut Vec<PromptMessage<'a>>, input: &str, seen: &'a [Image]) {
    if is_blank(input) {
        return;
    }
    match messages.last_mut() {
        Some(PromptMessage::User { text, images }) => {
            text.push_str("\n\n");
            text.push_str(input);
            images.extend(seen);
        }
        _ => {
            let (text, images) = (input.to_owned(), seen.iter().collect());
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
    // Not all formats take pictures within a result.
    for call in calls.iter().filter(|call| !call.images.is_empty()) {
        push_user(messages, OF_ANSWER, &call.images);
    }
}

/// The tool whose result is what a person answered.
pub const ASK_QUESTION: &str = "ask_question";

/// The calls that end a turn, whose words are then the answer.
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

/// Vendors refuse texts without a visible character.
pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
