//! The provider without a model: rules, no network, no key. It says that it is a rehearsal, and
//! can be led through every tool, so that the whole machine can be seen at work.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use crate::session::Outcome;

use super::{
    Delta, DeltaStream, Message, Provider, ProviderError, Request, StopReason, ToolCall, Usage,
};

/// The longest that `wait` waits.
const WAIT_MAX_S: u64 = 600;

const REHEARSAL: &str = "(This is a rehearsal: no model is connected.)";

pub struct Rehearsal;

/// What the rules make of what was said.
enum Move {
    Say(String),
    Call(&'static str, Value),
    /// Counts seconds aloud.
    Wait(u64),
}

#[async_trait]
impl Provider for Rehearsal {
    fn name(&self) -> &str {
        "rehearsal (no model)"
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let turn = since_last_answer(&request.messages);
        let said = said(turn);
        let (calls, words): (Vec<_>, Vec<_>) = said
            .lines()
            .flat_map(|line| line.split(" then "))
            .map(|command| read(command.trim()))
            .partition(|step| matches!(step, Move::Call(..)));
        let step = match calls.into_iter().nth(made(turn)) {
            Some(call) => call,
            None => together(words),
        };
        let usage = Usage { input: (said.len() as u64).div_ceil(4), cached: 0, output: 1 };
        Ok(perform(step, last_results(turn), request.messages.len(), usage))
    }
}

/// One answer to all that is not a command.
fn together(words: Vec<Move>) -> Move {
    let wait = words.iter().find_map(|step| match step {
        Move::Wait(seconds) => Some(*seconds),
        Move::Say(_) | Move::Call(..) => None,
    });
    if let Some(seconds) = wait {
        return Move::Wait(seconds);
    }
    let said = words.into_iter().filter_map(|step| match step {
        Move::Say(text) if !text.is_empty() => Some(text),
        _ => None,
    });
    let said: Vec<_> = said.collect();
    Move::Say(if said.is_empty() {
        String::new()
    } else {
        format!("You said: {}", said.join("\n"))
    })
}

/// What has been said and done since the last answer, which had no calls.
fn since_last_answer<'a>(messages: &'a [Message<'a>]) -> &'a [Message<'a>] {
    let answer = |message: &Message<'_>| matches!(message, Message::Assistant { calls: [], .. });
    let begin = messages.iter().rposition(answer).map_or(0, |at| at + 1);
    &messages[begin..]
}

/// What the person said, without quotes and without what the program says in square brackets.
fn said(turn: &[Message<'_>]) -> String {
    let texts = turn.iter().filter_map(|message| match message {
        Message::User(text) => Some(text.as_str()),
        _ => None,
    });
    let mut programs_own = false;
    let mut said = Vec::new();
    for line in texts.flat_map(str::lines) {
        programs_own |= line.starts_with('[');
        if !programs_own && !line.starts_with('>') {
            said.push(line);
        }
        programs_own &= !line.ends_with(']');
    }
    said.join("\n")
}

/// How many calls have been made; one that was skipped is made again.
fn made(turn: &[Message<'_>]) -> usize {
    let calls = turn.iter().filter_map(|message| match message {
        Message::Results(calls) => Some(*calls),
        _ => None,
    });
    calls.flatten().filter(|call| call.outcome != Outcome::Skipped).count()
}

/// The results of the last step, if the transcript ends with them.
fn last_results(turn: &[Message<'_>]) -> Option<String> {
    let Some(Message::Results(calls)) = turn.last() else { return None };
    let results: Vec<&str> = calls.iter().map(|call| call.outcome.for_model()).collect();
    Some(results.join("\n"))
}

fn read(command: &str) -> Move {
    let words: Vec<&str> = command.split_whitespace().collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let between = |from: usize, to: usize| words.get(from..to).unwrap_or_default().join(" ");
    let rest = |from: usize| between(from, words.len());
    let at = |word: &str| lower.iter().rposition(|other| *other == word);
    match (lower.as_slice(), at("to"), at("in")) {
        (["write", _, .., _], Some(to), _) if to > 0 && to + 1 < words.len() => Move::Call(
            "write_file",
            json!({ "path": rest(to + 1), "content": between(1, to) + "\n" }),
        ),
        (["append", _, .., _], Some(to), _) if to > 0 && to + 1 < words.len() => Move::Call(
            "append_file",
            json!({ "path": rest(to + 1), "content": between(1, to) + "\n" }),
        ),
        (["replace", .., _], _, Some(place)) if at("with").is_some_and(|with| with < place) => {
            let with = at("with").unwrap_or_default();
            let (old, new) = (between(1, with), between(with + 1, place));
            Move::Call("edit_file", json!({ "path": rest(place + 1), "old": old, "new": new }))
        }
        (["read", _, ..], ..) => Move::Call("read_file", json!({ "path": rest(1) })),
        (["list"], ..) => Move::Call("list_files", json!({})),
        (["list", _, ..], ..) => Move::Call("list_files", json!({ "path": rest(1) })),
        (["remember", "that", _, ..], ..) => Move::Call("remember", json!({ "text": rest(2) })),
        (["note", "that", _, ..], ..) => Move::Call("note", json!({ "text": rest(2) })),
        (["tell", place, _, ..], ..) if place.contains(':') => {
            Move::Call("message", json!({ "to": words[1], "text": rest(2) }))
        }
        (["wait", seconds, ..], ..) if seconds.parse::<u64>().is_ok() => {
            Move::Wait(seconds.parse::<u64>().unwrap_or_default().min(WAIT_MAX_S))
        }
        ([], ..) => Move::Say(String::new()),
        _ => Move::Say(command.to_owned()),
    }
}

fn perform(step: Move, results: Option<String>, done: usize, usage: Usage) -> DeltaStream<'static> {
    let before = results.map(|results| format!("{results}\n")).unwrap_or_default();
    match step {
        Move::Call(name, arguments) => {
            let id = format!("rehearsal_{done}");
            let call = ToolCall { id, name: name.to_owned(), arguments: arguments.to_string() };
            let deltas = [Delta::Call(call), Delta::Usage(usage), Delta::End(StopReason::Calls)];
            stream::iter(deltas.map(Ok)).boxed()
        }
        Move::Say(text) => {
            let text = format!("{before}{text}");
            let text = format!("{}\n\n{REHEARSAL}", text.trim());
            let deltas: Vec<_> = text
                .split_inclusive(' ')
                .map(|word| Delta::Text(word.to_owned()))
                .chain([Delta::Usage(usage), Delta::End(StopReason::Done)])
                .collect();
            stream::iter(deltas.into_iter().map(Ok)).boxed()
        }
        Move::Wait(seconds) => {
            let counted = stream::iter(1..=seconds).then(|second| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Delta::Text(format!("{second} ")))
            });
            let end = [
                Delta::Text(format!("seconds have passed.\n\n{REHEARSAL}")),
                Delta::Usage(usage),
                Delta::End(StopReason::Done),
            ];
            counted.chain(stream::iter(end.map(Ok))).boxed()
        }
    }
}
