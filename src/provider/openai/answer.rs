//! Assembles an answer of chat completions from its chunks: text, reasoning, and calls whose parts arrive
//! one by one.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::tags::ThinkTags;
use crate::provider::names::ToolNames;
use crate::provider::wire::{self, DeltaReader, StreamFlow};
use crate::provider::{Delta, StopReason, ToolCall, Usage};
use crate::types::session::Thinking;

/// The answer so far. Calls are held back until it is complete.
pub(super) struct OpenAiAnswer {
    model: String,
    names: ToolNames,
    reasoning: Reasoning,
    tags: ThinkTags,
    calls: Vec<Fragments>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    has_begun: bool,
    /// True if the server itself gave up in the middle.
    has_failed: bool,
}

/// Reasoning that servers require back beside the calls that resulted from it.
#[derive(Default)]
struct Reasoning {
    /// The field of DeepSeek and Kimi.
    content: String,
    /// The field of OpenRouter, with the signatures of Gemini and Claude.
    details: Vec<Value>,
}

/// A call whose parts arrive one by one.
#[derive(Default)]
struct Fragments {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// Gemini's signature of its reasoning, which it requires back with the call.
    extra_content: Option<Value>,
}

impl DeltaReader for OpenAiAnswer {
    fn take(&mut self, event: &Value, deltas: &mut VecDeque<Delta>) -> StreamFlow {
        // The second place is Groq's, if usage was not requested.
        let usages = [event.get("usage"), event.pointer("/x_groq/usage")];
        if let Some(usage) = usages.into_iter().flatten().find(|usage| usage.is_object()) {
            self.usage = Some(read_usage(usage));
        }
        let Some(choice) = event.pointer("/choices/0") else { return StreamFlow::More };
        self.has_begun = true;
        // A server that does not stream sends a `message` instead.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        self.reasoning.take(delta);
        self.read_text(delta, deltas);
        for fragment in list(&delta["tool_calls"]) {
            self.join(fragment);
        }
        // The form before several calls were possible.
        if delta["function_call"].is_object() {
            self.join(&json!({"index": 0, "function": delta["function_call"]}));
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.has_failed |= is_failure(reason);
            self.stop = Some(stop_reason(reason));
        }
        StreamFlow::More
    }

    fn finish(&mut self, closed: bool, deltas: &mut VecDeque<Delta>) -> bool {
        let stop = match self.stop {
            _ if self.has_failed => return false,
            Some(stop) => stop,
            // Some servers never give a reason.
            None if closed && self.has_begun => StopReason::Done,
            None => return false,
        };
        self.tags.finish(deltas);
        let (mut calls, mut blocks) = (Vec::new(), Vec::new());
        for fragments in std::mem::take(&mut self.calls) {
            let (mut call, block) = fragments.into_call();
            call.name = self.names.own_name(call.name);
            calls.push(call);
            blocks.extend(block);
        }
        if !calls.is_empty() {
            blocks.extend(std::mem::take(&mut self.reasoning).into_block());
        }
        let keep = |block| Thinking { model: self.model.clone(), block };
        deltas.extend(blocks.into_iter().map(keep).map(Delta::ThinkingBlock));
        deltas.extend(self.usage.map(Delta::Usage));
        wire::close(calls, stop, deltas);
        true
    }
}

impl OpenAiAnswer {
    pub(super) fn new(model: &str, names: ToolNames) -> Self {
        Self {
            model: model.to_owned(),
            names,
            reasoning: Reasoning::default(),
            tags: ThinkTags::default(),
            calls: Vec::new(),
            usage: None,
            stop: None,
            has_begun: false,
            has_failed: false,
        }
    }

    fn read_text(&mut self, delta: &Value, deltas: &mut VecDeque<Delta>) {
        // DeepSeek and llama.cpp use `reasoning_content`, OpenRouter and Ollama `reasoning`.
        let reasoning = delta["reasoning_content"].as_str().or_else(|| delta["reasoning"].as_str());
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            deltas.push_back(Delta::Thinking(text.to_owned()));
        }
        // Mistral's reasoning models send parts, and their reasoning as parts of a part.
        let parts = list(&delta["content"]);
        let thoughts = parts.iter().flat_map(|part| list(&part["thinking"]));
        for thought in thoughts.filter_map(|it| it["text"].as_str()) {
            deltas.push_back(Delta::Thinking(thought.to_owned()));
        }
        let mut take_text =
            |text: &Value| self.tags.take(text.as_str().unwrap_or_default(), deltas);
        take_text(&delta["content"]);
        take_text(&delta["refusal"]);
        parts.iter().for_each(|part| take_text(&part["text"]));
    }

    fn join(&mut self, fragment: &Value) {
        let index = fragment["index"].as_u64();
        let id = fragment["id"].as_str().unwrap_or_default();
        let function = &fragment["function"];
        let name = function["name"].as_str().unwrap_or_default();

        let found = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None => self.calls.len().checked_sub(1),
        };
        // Some servers give all calls the same index, or none. Then a second name begins a new call: with
        // another id, or without one if the name differs or the arguments of the call before are
        // complete.
        let found = found.filter(|&at| {
            let call = &self.calls[at];
            let continues_call = || call.name == name && wire::arguments(&call.arguments).is_none();
            let is_same = match id {
                "" => index.is_some() && continues_call(),
                // Some servers use the tool's name as the id of every call.
                id if call.id != id || call.name != name => false,
                _ => continues_call() || is_repeated(&call.arguments, function),
            };
            name.is_empty() || call.name.is_empty() || is_same
        });
        let at = found.unwrap_or_else(|| {
            self.calls.push(Fragments { index, ..Fragments::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        if call.name.is_empty() {
            call.name.push_str(name);
        }
        if let Some(extra) = fragment.get("extra_content").filter(|extra| extra.is_object()) {
            call.extra_content = Some(extra.clone());
        }
        match &function["arguments"] {
            _ if !name.is_empty() && is_repeated(&call.arguments, function) => {}
            Value::String(part) => call.arguments.push_str(part),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }
}

impl Reasoning {
    fn take(&mut self, delta: &Value) {
        self.content.push_str(delta["reasoning_content"].as_str().unwrap_or_default());
        for detail in list(&delta["reasoning_details"]) {
            match self.details.last_mut().filter(|last| continues(last, detail)) {
                Some(last) => append(last, detail),
                None => self.details.push(detail.clone()),
            }
        }
    }

    /// Returns the fields to send back beside the calls. None if the server sent no reasoning.
    fn into_block(self) -> Option<Value> {
        let Self { content, details } = self;
        let mut beside = Map::new();
        if !content.is_empty() {
            beside.insert("reasoning_content".to_owned(), content.into());
        }
        if !details.is_empty() {
            beside.insert("reasoning_details".to_owned(), details.into());
        }
        (!beside.is_empty()).then(|| json!({"beside": beside}))
    }
}

/// Returns true if this detail continues a text that arrives in pieces. Encrypted details are never
/// split.
fn continues(last: &Value, detail: &Value) -> bool {
    matches!(detail["type"].as_str(), Some("reasoning.text" | "reasoning.summary"))
        && last["type"] == detail["type"]
        && last["index"] == detail["index"]
}

fn append(last: &mut Value, detail: &Value) {
    for (field, part) in detail.as_object().into_iter().flatten() {
        match (field.as_str(), &mut last[field], part) {
            (_, _, Value::Null) => {}
            ("text" | "summary", Value::String(text), Value::String(part)) => text.push_str(part),
            (_, whole, part) => *whole = part.clone(),
        }
    }
}

impl Fragments {
    /// Returns the call, and the block that its server requires back beside it.
    fn into_call(self) -> (ToolCall, Option<Value>) {
        let Self { mut id, name, arguments, extra_content, .. } = self;
        if id.is_empty() {
            id = wire::new_id();
        }
        let block = extra_content.map(|extra| json!({"call": id, "extra_content": extra}));
        (ToolCall { id, name, arguments }, block)
    }
}

/// Returns true if a complete call is repeated, or its fragment adds nothing.
fn is_repeated(arguments: &str, function: &Value) -> bool {
    let whole = wire::arguments(arguments);
    match &function["arguments"] {
        Value::String(part) if part.trim().is_empty() => whole.is_some(),
        Value::String(part) => whole.is_some() && wire::arguments(part) == whole,
        Value::Null => whole.is_some(),
        Value::Object(object) => whole.as_ref() == Some(object),
        _ => false,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns true if the server gave up, and may succeed on another attempt. `error` is OpenRouter's reason
/// for a failure of its upstream ("Handling errors during streaming"), the second one DeepSeek's ("Create
/// Chat Completion"). Gemini's endpoint ends in this way, without other output, when its model has
/// written an invalid call.
fn is_failure(reason: &str) -> bool {
    matches!(reason, "error" | "insufficient_system_resource")
        || reason.starts_with("function_call_filter")
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_calls" | "function_call" => StopReason::Calls,
        "length" => StopReason::MaxTokens,
        // Gemini's endpoint appends the filtered category.
        _ if reason.starts_with("content_filter") => StopReason::Refused,
        _ => StopReason::Done,
    }
}

fn read_usage(usage: &Value) -> Usage {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    Usage {
        input: count("/prompt_tokens").unwrap_or_default(),
        // The second field is DeepSeek's.
        cached: count("/prompt_tokens_details/cached_tokens")
            .or_else(|| count("/prompt_cache_hit_tokens"))
            .unwrap_or_default(),
        // OpenRouter reports it, for models whose vendors ask a price for it.
        cache_written: count("/prompt_tokens_details/cache_write_tokens").unwrap_or_default(),
        output: count("/completion_tokens").unwrap_or_default(),
    }
}
