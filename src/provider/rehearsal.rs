//! The provider without a model: rules, no network, no key. It says that it is a rehearsal, and calls every
//! tool on command, so that the whole program can be seen at work.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use crate::types::session::CallOutcome;

use super::{
    COMPLETION, Delta, DeltaStream, PromptMessage, Provider, ProviderError, Request, StopReason,
    ToolCall, Usage,
};

/// Maximum duration of `wait`, in seconds.
const WAIT_MAX_S: u64 = 600;

const REHEARSAL: &str =
    "(This is a rehearsal: no model is connected. Say help to see what I understand.)";

/// Every tool once; ` then ` between two makes them steps of one turn.
const UNDERSTOOD: &str = "I follow fixed rules. I understand:
write WORDS to FILE
append WORDS to FILE
replace WORDS with WORDS in FILE
read FILE
list, or list FOLDER
remember that …
note that …
tell CHANNEL:CHAT …
plan WORDS
ask WORDS, or ask WORDS: WORDS, WORDS
actions
undo, or undo NUMBER
wait SECONDS
To do several, put then between them. I repeat everything else.";

/// The name that is shown for the provider without a model.
pub const NAME: &str = "rehearsal (no model)";

pub struct Rehearsal;

/// A command as the rules understand it.
enum Rule {
    Call(&'static str, Value),
    Wait(u64),
    Help,
    /// Text that no rule understands.
    Words(String),
}

/// The event that ends its turns.
#[derive(Clone, Copy)]
enum RehearsalEnd {
    ByText,
    ByCall,
}

/// The work of one step.
enum RehearsalStep {
    Call(&'static str, Value),
    /// Counts seconds aloud.
    Wait(u64),
    Say(String),
}

#[async_trait]
impl Provider for Rehearsal {
    fn name(&self) -> &str {
        NAME
    }

    fn is_model(&self) -> bool {
        false
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let turn = since_last_answer(&request.messages);
        let text = own_words(turn);
        let (calls, others): (Vec<_>, Vec<_>) = text
            .lines()
            .flat_map(|line| line.split(" then "))
            .map(|command| parse_command(command.trim().trim_start_matches("- [ ] ")))
            .partition(|rule| matches!(rule, Rule::Call(..)));
        let step = match calls.into_iter().nth(count_calls(turn)) {
            Some(Rule::Call(tool, arguments)) => RehearsalStep::Call(tool, arguments),
            _ => answer_together(others),
        };
        let by_call = request.may_call && request.tools.iter().any(|tool| tool.name == COMPLETION);
        let end = if by_call { RehearsalEnd::ByCall } else { RehearsalEnd::ByText };
        let usage = Usage { input: (text.len() as u64).div_ceil(4), output: 1, ..Usage::default() };
        Ok(perform(step, results(turn), end, request.messages.len(), usage))
    }
}

/// Returns one answer to all commands that call no tool.
fn answer_together(rules: Vec<Rule>) -> RehearsalStep {
    let mut said = Vec::new();
    for rule in rules {
        match rule {
            Rule::Wait(seconds) => return RehearsalStep::Wait(seconds),
            Rule::Help => return RehearsalStep::Say(UNDERSTOOD.to_owned()),
            Rule::Words(text) if !text.is_empty() => said.push(text),
            Rule::Words(_) | Rule::Call(..) => {}
        }
    }
    RehearsalStep::Say(if said.is_empty() {
        String::new()
    } else {
        format!("You said: {}", said.join("\n"))
    })
}

/// Returns the messages since the last answer.
fn since_last_answer<'a>(messages: &'a [PromptMessage<'a>]) -> &'a [PromptMessage<'a>] {
    let is_answer = |message: &PromptMessage<'_>| match message {
        PromptMessage::Assistant { calls: [], .. } => true,
        PromptMessage::Results(calls) => calls.iter().any(|call| call.tool == COMPLETION),
        _ => false,
    };
    let begin = messages.iter().rposition(is_answer).map_or(0, |at| at + 1);
    &messages[begin..]
}

/// Returns the person's own words, without quotes, others' words, and the program's lines in square brackets.
fn own_words(turn: &[PromptMessage<'_>]) -> String {
    let texts = turn.iter().filter_map(|message| match message {
        PromptMessage::User { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let mut in_program_line = false;
    let mut lines = Vec::new();
    for line in texts.flat_map(str::lines) {
        in_program_line |= line.starts_with('[');
        if !in_program_line && !line.starts_with(['>', '|']) {
            lines.push(line);
        }
        in_program_line &= !line.ends_with(']');
    }
    lines.join("\n")
}

/// Returns the number of calls made so far. A skipped call is made again.
fn count_calls(turn: &[PromptMessage<'_>]) -> usize {
    let calls = turn.iter().filter_map(|message| match message {
        PromptMessage::Results(calls) => Some(*calls),
        _ => None,
    });
    calls.flatten().filter(|call| call.outcome != CallOutcome::Skipped).count()
}

/// Returns the results of all steps of the turn, in order.
fn results(turn: &[PromptMessage<'_>]) -> Option<String> {
    let steps = turn.iter().filter_map(|message| match message {
        PromptMessage::Results(calls) => Some(*calls),
        _ => None,
    });
    let results: Vec<&str> = steps.flatten().map(|call| call.outcome.for_model()).collect();
    (!results.is_empty()).then(|| results.join("\n"))
}

fn parse_command(command: &str) -> Rule {
    let words: Vec<&str> = command.split_whitespace().collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let between = |from: usize, to: usize| words.get(from..to).unwrap_or_default().join(" ");
    let rest = |from: usize| between(from, words.len());
    let at = |word: &str| lower.iter().rposition(|other| *other == word);
    match (lower.as_slice(), at("to"), at("in")) {
        (["write", _, .., _], Some(to), _) if to > 0 && to + 1 < words.len() => Rule::Call(
            "write_file",
            json!({ "path": rest(to + 1), "content": between(1, to) + "\n" }),
        ),
        (["append", _, .., _], Some(to), _) if to > 0 && to + 1 < words.len() => Rule::Call(
            "append_file",
            json!({ "path": rest(to + 1), "content": between(1, to) + "\n" }),
        ),
        (["replace", .., _], _, Some(place)) if at("with").is_some_and(|with| with < place) => {
            let with = at("with").unwrap_or_default();
            let (old, new) = (between(1, with), between(with + 1, place));
            Rule::Call("edit_file", json!({ "path": rest(place + 1), "old": old, "new": new }))
        }
        (["read", _, ..], ..) => Rule::Call("read_file", json!({ "path": rest(1) })),
        (["list"], ..) => Rule::Call("list_files", json!({})),
        (["list", _, ..], ..) => Rule::Call("list_files", json!({ "path": rest(1) })),
        (["remember", "that", _, ..], ..) => Rule::Call("remember", json!({ "text": rest(2) })),
        (["note", "that", _, ..], ..) => Rule::Call("note", json!({ "text": rest(2) })),
        (["tell", place, _, ..], ..) if place.contains(':') => {
            Rule::Call("message", json!({ "to": words[1], "text": rest(2) }))
        }
        (["plan", _, ..], ..) => {
            Rule::Call("plan", json!({ "items": [{ "text": rest(1), "state": "doing" }] }))
        }
        (["ask", _, ..], ..) => {
            let (question, choices) = split_question(&rest(1));
            Rule::Call("ask_question", json!({ "question": question, "choices": choices }))
        }
        (["actions"], ..) => Rule::Call("list_actions", json!({})),
        (["undo"], ..) => Rule::Call("undo", json!({})),
        (["undo", number], ..) if number.parse::<u64>().is_ok() => {
            let number = number.parse::<u64>().unwrap_or_default();
            Rule::Call("undo", json!({ "id": number }))
        }
        (["wait", seconds, ..], ..) if seconds.parse::<u64>().is_ok() => {
            Rule::Wait(seconds.parse::<u64>().unwrap_or_default().min(WAIT_MAX_S))
        }
        (["help"], ..) => Rule::Help,
        _ => Rule::Words(command.to_owned()),
    }
}

/// Splits a question from the choices behind it.
fn split_question(words: &str) -> (String, Vec<String>) {
    let Some((question, choices)) = words.split_once(": ") else {
        return (words.to_owned(), Vec::new());
    };
    (question.to_owned(), choices.split(", ").map(str::to_owned).collect())
}

fn perform(
    step: RehearsalStep,
    results: Option<String>,
    end_kind: RehearsalEnd,
    done: usize,
    usage: Usage,
) -> DeltaStream<'static> {
    let before = results.map(|results| format!("{results}\n")).unwrap_or_default();
    let with_notice = |text: &str| format!("{}\n\n{REHEARSAL}", format!("{before}{text}").trim());
    let step = match (step, end_kind) {
        (RehearsalStep::Say(text), RehearsalEnd::ByText) => RehearsalStep::Say(with_notice(&text)),
        (RehearsalStep::Say(text), RehearsalEnd::ByCall) => {
            RehearsalStep::Call(COMPLETION, json!({ "result": with_notice(&text) }))
        }
        (step, _) => step,
    };
    match step {
        RehearsalStep::Call(name, arguments) => {
            let id = format!("rehearsal_{done}");
            let call = ToolCall { id, name: name.to_owned(), arguments: arguments.to_string() };
            let deltas = [Delta::Call(call), Delta::Usage(usage), Delta::End(StopReason::Calls)];
            stream::iter(deltas.map(Ok)).boxed()
        }
        RehearsalStep::Say(text) => {
            let deltas: Vec<_> = text
                .split_inclusive(' ')
                .map(|word| Delta::Text(word.to_owned()))
                .chain([Delta::Usage(usage), Delta::End(StopReason::Done)])
                .collect();
            stream::iter(deltas.into_iter().map(Ok)).boxed()
        }
        RehearsalStep::Wait(seconds) => {
            let counted = stream::iter(1..=seconds).then(|second| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Delta::Text(format!("{second} ")))
            });
            let end = [
                Delta::Text(format!("seconds have passed.\n\n{REHEARSAL}")),
                Delta::Usage(usage),
                Delta::End(StopReason::Done),
            ];
            let before = (!before.is_empty()).then_some(Ok(Delta::Text(before)));
            stream::iter(before).chain(counted).chain(stream::iter(end.map(Ok))).boxed()
        }
    }
}
