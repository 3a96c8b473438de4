//! Code that both wire formats share: converts ids and names of earlier models for a strict API, and a stream of
//! events to deltas. Nothing here knows a vendor's fields.

use std::collections::{HashSet, VecDeque};

use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::http::SseEvents;
use super::{Delta, DeltaStream, ProviderError, StopReason, ToolCall};
use crate::types::hex::hex;
use crate::types::session::Call;

/// OpenAI's limit for the id of a call; Anthropic has none that is smaller.
const ID_CHARS_MAX: usize = 40;
/// Both vendors' limit for the name of a function.
pub(super) const NAME_CHARS_MAX: usize = 64;

/// The ids of the calls of one transcript. Each id is unique, short enough for every vendor, and stays the
/// same from request to request; it is the call's own one if that is possible, as some models
/// (Kimi K2: `functions.look:0`) read it.
pub struct CallIds {
    taken: HashSet<String>,
    spell: fn(&str, usize) -> String,
}

impl CallIds {
    /// Accepts all letters, at most 40 of them.
    pub fn of_any_letters() -> Self {
        Self { taken: HashSet::new(), spell: |id, copy| numbered(id, |c| c, copy) }
    }

    /// Anthropic's pattern is `^[a-zA-Z0-9_-]+$`.
    pub fn of_plain_letters() -> Self {
        Self { taken: HashSet::new(), spell: |id, copy| numbered(id, plain, copy) }
    }

    /// Mistral's pattern is `^[a-zA-Z0-9]{9}$`.
    pub fn of_nine_letters() -> Self {
        Self { taken: HashSet::new(), spell: nine_letters }
    }

    /// Returns the ids of `calls`, in their order.
    pub fn name(&mut self, calls: &[Call]) -> Vec<String> {
        calls.iter().map(|call| self.name_one(&call.wire_id)).collect()
    }

    fn name_one(&mut self, wire_id: &str) -> String {
        let mut copy = 1;
        loop {
            let id = (self.spell)(wire_id, copy);
            if self.taken.insert(id.clone()) {
                return id;
            }
            copy += 1;
        }
    }
}

/// Returns the id, from the second copy on with the copy's number.
fn numbered(id: &str, fit: fn(char) -> char, copy: usize) -> String {
    let number = if copy == 1 { String::new() } else { format!("-{copy}") };
    respelt(id, fit, ID_CHARS_MAX - number.len()) + &number
}

fn nine_letters(id: &str, copy: usize) -> String {
    if copy == 1 && id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    let digest = Sha256::digest(format!("{copy} {id}"));
    hex(&digest)[..9].to_owned()
}

/// Returns an id for a call without one.
pub(super) fn new_id() -> String {
    format!("call_{:016x}", fastrand::u64(..))
}

/// Returns a tool's name, which a model may have made up, in the letters and the length that all vendors accept.
pub fn tool_name(name: &str) -> String {
    respelt(name, plain, NAME_CHARS_MAX)
}

/// Creates an object and moves the values into it. `json!` would copy them.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

/// Returns the arguments if they are a JSON object. Others were refused by the tool, and the API would refuse
/// every later request with them.
pub(super) fn arguments(arguments: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(arguments).ok()
}

/// Returns the result as the model reads it, never blank.
pub(super) fn result(call: &Call) -> &str {
    let text = call.outcome.for_model();
    if super::request::is_blank(text) { "(no output)" } else { text }
}

fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }
}

/// Returns the text in accepted letters, never empty.
fn respelt(text: &str, fit: fn(char) -> char, chars_max: usize) -> String {
    let respelt: String = text.chars().take(chars_max).map(fit).collect();
    if respelt.is_empty() { "_".to_owned() } else { respelt }
}

/// Converts a vendor's events to deltas.
pub(super) trait DeltaReader: Send + 'static {
    /// Takes one event that is not an error.
    fn take(&mut self, event: &Value, deltas: &mut VecDeque<Delta>) -> StreamFlow;

    /// Ends the answer; `closed` if the server itself announced the end. If the answer is whole, emits the held
    /// deltas and [`Delta::End`], and returns true.
    fn finish(&mut self, closed: bool, deltas: &mut VecDeque<Delta>) -> bool;
}

pub(super) enum StreamFlow {
    More,
    Last,
}

/// Returns the deltas of a completion that arrives as `events`.
pub(super) fn deltas(events: SseEvents, reader: impl DeltaReader) -> DeltaStream<'static> {
    let reading = StreamReading { events, reader, ready: VecDeque::new(), ended: false };
    stream::try_unfold(reading, |mut reading| async move {
        while reading.ready.is_empty() && !reading.ended {
            reading.step().await?;
        }
        Ok(reading.ready.pop_front().map(|delta| (delta, reading)))
    })
    .boxed()
}

/// Returns the error in an event. OpenRouter may report an error of its upstream inside the choice.
fn error_of(event: &Value) -> Option<&Value> {
    let at = |pointer| event.pointer(pointer).filter(|error| !error.is_null());
    at("/error").or_else(|| at("/choices/0/error"))
}

struct StreamReading<F> {
    events: SseEvents,
    reader: F,
    ready: VecDeque<Delta>,
    ended: bool,
}

impl<F: DeltaReader> StreamReading<F> {
    async fn step(&mut self) -> Result<(), ProviderError> {
        match self.events.next().await {
            Ok(Some(text)) if text.trim() == "[DONE]" => self.end(true, ProviderError::cut()),
            Ok(Some(text)) => match serde_json::from_str::<Value>(&text) {
                Err(_) => self.end(false, ProviderError::cut()),
                Ok(event) => match error_of(&event) {
                    Some(error) => Err(self.events.classify(&json!({"error": error}))),
                    None => match self.reader.take(&event, &mut self.ready) {
                        StreamFlow::More => Ok(()),
                        StreamFlow::Last => self.end(true, ProviderError::cut()),
                    },
                },
            },
            Ok(None) => self.end(false, ProviderError::cut()),
            Err(error) => self.end(false, error),
        }
    }

    /// Ends the stream. An error after a complete answer does not matter.
    fn end(&mut self, closed: bool, error: ProviderError) -> Result<(), ProviderError> {
        self.ended = true;
        if self.reader.finish(closed, &mut self.ready) { Ok(()) } else { Err(error) }
    }
}

/// Emits the last deltas of an answer: its calls, completed where the server left something out, and its end. A
/// call that the token limit cut in two is dropped: its beginning must not run.
pub(super) fn close(calls: Vec<ToolCall>, stop: StopReason, deltas: &mut VecDeque<Delta>) {
    let is_whole =
        |call: &ToolCall| stop != StopReason::MaxTokens || arguments(&call.arguments).is_some();
    let calls: Vec<_> = calls.into_iter().filter(is_whole).map(complete).collect();
    let stop = match stop {
        StopReason::Done if !calls.is_empty() => StopReason::Calls,
        StopReason::Calls if calls.is_empty() => StopReason::Done,
        stop => stop,
    };
    deltas.extend(calls.into_iter().map(Delta::Call));
    deltas.push_back(Delta::End(stop));
}

fn complete(mut call: ToolCall) -> ToolCall {
    if call.id.is_empty() {
        call.id = new_id();
    }
    if super::request::is_blank(&call.arguments) {
        call.arguments = "{}".to_owned();
    }
    call
}
