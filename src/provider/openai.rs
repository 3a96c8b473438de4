//! Chat completions, as OpenAI and everybody who imitates it speak them. Takes what imitators get
//! slightly wrong; sends only what all of them know.

mod answer;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value, json};
use url::Url;

use super::http::Endpoint;
use super::wire::{self, CallIds};
use super::{Config, DeltaStream, Limits, Message, Provider, ProviderError, Request, ToolSchema};
use crate::session::{Call, Thinking};
use answer::Answer;

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
        for (field, value) in
            thinking.iter().filter_map(|it| it.block["beside"].as_object()).flatten()
        {
            message[field] = value.clone();
        }
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
