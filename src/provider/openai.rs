//! Chat completions, as OpenAI and everybody who imitates it speak them. Takes what imitators get
//! slightly wrong; sends only what all of them know.

use std::collections::VecDeque;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value, json};
use url::Url;

use super::http::Endpoint;
use super::wire::{self, CallIds, Flow, Fold};
use super::{
    Config, Delta, DeltaStream, Limits, Message, Provider, ProviderError, Request, StopReason,
    ToolCall, ToolSchema, Usage,
};
use crate::session::{Call, Thinking};

/// A model behind an OpenAI-compatible endpoint.
pub struct OpenAi {
    name: String,
    model: String,
    tokens_max: u32,
    endpoint: Endpoint,
}

impl OpenAi {
    /// # Errors
    /// The base URL or the key cannot be used at all.
    pub fn new(name: &str, config: &Config, limits: Limits) -> anyhow::Result<Self> {
        let url = format!("{}/chat/completions", config.base_url.trim_end_matches('/'));
        let key = config.api_key.as_ref().map(|key| (AUTHORIZATION, "Bearer ", key));
        Ok(Self {
            name: format!("{name} ({})", config.model),
            model: config.model.clone(),
            tokens_max: config.tokens_max,
            endpoint: Endpoint::new(&url, key, HeaderMap::new(), limits)?,
        })
    }

    /// What changes comes last, so that requests share their beginning.
    fn body(&self, request: &Request<'_>) -> Value {
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(self.model));
        body.insert(limit_field(&self.endpoint.url).to_owned(), json!(self.tokens_max));
        body.insert("stream".to_owned(), json!(true));
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        if !request.tools.is_empty() {
            body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
        }
        body.insert("messages".to_owned(), transcript(request, &self.model).into());
        body.into()
    }
}

#[async_trait]
impl Provider for OpenAi {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let events = self.endpoint.post(&self.body(request)).await?;
        Ok(wire::deltas(events, Answer::new(&self.model)))
    }
}

/// OpenAI's newer models refuse `max_tokens`, and most imitators know nothing else.
fn limit_field(url: &Url) -> &'static str {
    if url.host_str() == Some("api.openai.com") { "max_completion_tokens" } else { "max_tokens" }
}

fn tool(tool: &ToolSchema) -> Value {
    let ToolSchema { name, description, parameters } = tool;
    let function = json!({"name": name, "description": description, "parameters": parameters});
    json!({"type": "function", "function": function})
}

fn transcript(request: &Request<'_>, model: &str) -> Vec<Value> {
    let mut sent = Vec::new();
    if !request.system.is_empty() {
        sent.push(json!({"role": "system", "content": request.system.join("\n\n")}));
    }
    let mut ids = CallIds::of_any_letters();
    let mut asked = Vec::new();
    for message in &request.messages {
        match message {
            Message::User(text) => sent.push(json!({"role": "user", "content": text})),
            Message::Assistant { text, thinking, calls } => {
                asked = ids.name(calls);
                let own: Vec<_> = thinking.iter().filter(|it| it.model == model).collect();
                sent.push(assistant(text, &own, calls, &asked));
            }
            Message::Results(calls) => sent.extend(asked.iter().zip(*calls).map(|(id, call)| {
                json!({"role": "tool", "tool_call_id": id, "content": wire::result(call)})
            })),
        }
    }
    sent
}

fn assistant(text: &str, thinking: &[&Thinking], calls: &[Call], ids: &[String]) -> Value {
    let content = if super::is_blank(text) { Value::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] =
            calls.iter().zip(ids).map(|(call, id)| function_call(call, id, thinking)).collect();
    }
    message
}

fn function_call(call: &Call, id: &str, thinking: &[&Thinking]) -> Value {
    let arguments = match wire::arguments(&call.arguments) {
        Some(_) => &call.arguments,
        None => "{}",
    };
    let function = json!({"name": wire::tool_name(&call.tool), "arguments": arguments});
    let mut sent = json!({"id": id, "type": "function", "function": function});
    if let Some(signed) = thinking.iter().find(|it| it.block["call"] == *call.wire_id) {
        sent["extra_content"] = signed.block["extra_content"].clone();
    }
    sent
}

/// An answer as far as it has come. Calls are held back until it is whole.
struct Answer {
    model: String,
    calls: Vec<Fragments>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    has_begun: bool,
}

/// A call whose parts arrive one by one.
#[derive(Default)]
struct Fragments {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// Gemini's signature of its reasoning, which it demands back with the call.
    extra_content: Option<Value>,
}

impl Fold for Answer {
    fn take(&mut self, event: &Value, deltas: &mut VecDeque<Delta>) -> Flow {
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(read_usage(usage));
        }
        let Some(choice) = event.pointer("/choices/0") else { return Flow::More };
        self.has_begun = true;
        // A server that does not stream sends a `message` instead.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        read_words(delta, deltas);
        for fragment in list(&delta["tool_calls"]) {
            self.join(fragment);
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.stop = Some(stop_reason(reason));
        }
        Flow::More
    }

    fn finish(&mut self, closed: bool, deltas: &mut VecDeque<Delta>) -> bool {
        let stop = match self.stop {
            Some(stop) => stop,
            // Some never give a reason.
            None if closed && self.has_begun => StopReason::Done,
            None => return false,
        };
        let mut calls = Vec::new();
        for fragments in std::mem::take(&mut self.calls) {
            let (call, block) = fragments.into_call();
            let model = self.model.clone();
            deltas.extend(block.map(|block| Delta::ThinkingBlock(Thinking { model, block })));
            calls.push(call);
        }
        deltas.extend(self.usage.map(Delta::Usage));
        wire::close(calls, stop, deltas);
        true
    }
}

impl Answer {
    fn new(model: &str) -> Self {
        let model = model.to_owned();
        Self { model, calls: Vec::new(), usage: None, stop: None, has_begun: false }
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
        // Some give all calls the same index, or none; then a second name tells, with another id.
        let found = found.filter(|&at| {
            let call = &self.calls[at];
            let is_same = if id.is_empty() { index.is_some() } else { call.id == id };
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
            Value::String(part) => call.arguments.push_str(part),
            Value::Null => {}
            whole => call.arguments = whole.to_string(),
        }
    }
}

impl Fragments {
    /// The call, and what its server wants to see again beside it.
    fn into_call(self) -> (ToolCall, Option<Value>) {
        let Self { mut id, name, arguments, extra_content, .. } = self;
        if id.is_empty() {
            id = wire::new_id();
        }
        let block = extra_content.map(|extra| json!({"call": id, "extra_content": extra}));
        (ToolCall { id, name, arguments }, block)
    }
}

fn read_words(delta: &Value, deltas: &mut VecDeque<Delta>) {
    // DeepSeek and llama.cpp say `reasoning_content`; OpenRouter and Ollama `reasoning`.
    let reasoning = delta["reasoning_content"].as_str().or_else(|| delta["reasoning"].as_str());
    if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
        deltas.push_back(Delta::Thinking(text.to_owned()));
    }
    let mut say = |text: &Value| {
        if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
            deltas.push_back(Delta::Text(text.to_owned()));
        }
    };
    say(&delta["content"]);
    say(&delta["refusal"]);
    // Mistral's reasoning models send parts.
    list(&delta["content"]).iter().for_each(|part| say(&part["text"]));
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_calls" | "function_call" => StopReason::Calls,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refused,
        _ => StopReason::Done,
    }
}

fn read_usage(usage: &Value) -> Usage {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    Usage {
        input: count("/prompt_tokens").unwrap_or_default(),
        // The second one is DeepSeek's.
        cached: count("/prompt_tokens_details/cached_tokens")
            .or_else(|| count("/prompt_cache_hit_tokens"))
            .unwrap_or_default(),
        output: count("/completion_tokens").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_answers_in_the_words_that_the_host_knows() {
        let field = |url| limit_field(&Url::parse(url).unwrap());
        assert_eq!(field("https://api.openai.com/v1/chat/completions"), "max_completion_tokens");
        assert_eq!(field("http://127.0.0.1:11434/v1/chat/completions"), "max_tokens");
    }
}
