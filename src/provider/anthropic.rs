//! Anthropic's Messages API: streaming, tools, reasoning that is passed back, prompt caching.

pub mod effort;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::answer_schema::{AnswerForm, AnswerSchema};
use super::http::{ModelEndpoint, PostFailure};
use super::names::ToolNames;
use super::tool_json::{RequestBody, ToolJsonCache};
use super::window::ContextWindow;
use super::{
    Config, Delta, DeltaStream, HttpTimeouts, LearnedWindow, Picture, PromptMessage, Provider,
    ProviderError, ReadPictures, Request, StopReason, ToolCall, ToolSchema, Usage,
};
use crate::provider::http::ApiKeyHeader;
use crate::provider::wire::{self, CallIds, DeltaReader, StreamFlow};
use crate::types::session::{Call, Thinking};

/// The only version of the API so far.
const VERSION: &str = "2023-06-01";
/// Numbers of system parts and of messages that end with a cache breakpoint: the API allows four in all.
/// Of the messages, these are the newest, where the next request will find it, and the one before, where
/// this request finds that of the last request: the API itself looks back only 20 blocks.
const SYSTEM_CUTS: usize = 2;
const MESSAGE_CUTS: usize = 2;

/// Maximum tokens of an answer. Anthropic requires a limit, and every current model supports this one.
const TOKENS_MAX: u32 = 16_384;

/// A model behind Anthropic's API or a compatible one.
pub struct Anthropic {
    name: String,
    model: String,
    tokens_max: u32,
    images: bool,
    window: Arc<ContextWindow>,
    tool_json: ToolJsonCache,
    schema: AnswerSchema,
    endpoint: ModelEndpoint,
}

impl Anthropic {
    /// Creates a client of the API.
    ///
    /// # Errors
    ///
    /// The base URL or the key is invalid.
    pub fn new(name: &str, config: &Config, limits: HttpTimeouts) -> anyhow::Result<Self> {
        let base = config.base_url.trim_end_matches('/').trim_end_matches("/v1");
        let key = config.api_key.as_ref();
        let key = key.map(|key| ApiKeyHeader {
            header: HeaderName::from_static("x-api-key"),
            scheme: "",
            key,
        });
        let version =
            (HeaderName::from_static("anthropic-version"), HeaderValue::from_static(VERSION));
        let headers = HeaderMap::from_iter([version]);
        let name = format!("{name} ({})", config.model);
        let window = Arc::new(ContextWindow::new(&name, config));
        Ok(Self {
            endpoint: ModelEndpoint::new(&format!("{base}/v1/messages"), key, headers, limits)?
                .learning(&window),
            schema: AnswerSchema::new(&name, config),
            name,
            model: config.model.clone(),
            tokens_max: config.tokens_max.unwrap_or(TOKENS_MAX),
            images: config.images,
            window,
            tool_json: ToolJsonCache::default(),
        })
    }

    /// Builds the body of a request. Its variable parts come last, so that requests share their
    /// beginning.
    fn body(
        &self,
        request: &Request<'_>,
        form: AnswerForm,
        names: &ToolNames,
        pictures: &ReadPictures,
    ) -> RequestBody {
        let mut tools = None;
        let tokens_max = request.tokens_max.map_or(self.tokens_max, |it| it.min(self.tokens_max));
        let mut body = json!({"model": self.model, "max_tokens": tokens_max, "stream": true});
        let system = system(&form.system(request));
        if !request.tools.is_empty() {
            // A breakpoint in the system prompt is after the tools, and so covers them too.
            let is_cut = system.is_empty();
            tools = Some(self.tool_json.get(request.tools, is_cut, || {
                let mut tools: Vec<_> = request.tools.iter().map(|it| tool(it, names)).collect();
                if is_cut {
                    tools.last_mut().map(cut);
                }
                tools
            }));
            body["tools"] = Value::Null;
            if !request.may_call {
                body["tool_choice"] = json!({"type": "none"});
            }
        }
        if !system.is_empty() {
            body["system"] = system.into();
        }
        let is_unthinking =
            effort::ask(&mut body, request.effort, &self.model, tokens_max, &request.messages);
        if let Some(schema) = form.schema(request) {
            body["output_config"]["format"] = json!({"type": "json_schema", "schema": schema});
        }
        let mut messages = self.transcript(request, !is_unthinking, names, pictures);
        let input = messages.iter_mut().rev().filter(|message| message["role"] == "user");
        for message in input.take(MESSAGE_CUTS) {
            message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()).map(cut);
        }
        body["messages"] = messages.into();
        RequestBody { fields: body, tools }
    }

    /// Sends a request. Returns the answer as a stream.
    async fn post(
        &self,
        request: &Request<'_>,
        form: AnswerForm,
    ) -> Result<DeltaStream<'static>, PostFailure> {
        let names = ToolNames::of(request.tools);
        let pictures = request.pictures.load_if(self.images).await;
        let body = self.body(request, form, &names, &pictures);
        let _in_turn = pictures.written();
        self.endpoint.stream(body, AnthropicAnswer::new(&self.model, names)).await
    }

    /// Builds the messages. `thinks` is true if reasoning may be passed back.
    fn transcript(
        &self,
        request: &Request<'_>,
        thinks: bool,
        names: &ToolNames,
        pictures: &ReadPictures,
    ) -> Vec<Value> {
        let mut sent: Vec<Value> = Vec::new();
        let mut ids = CallIds::of_plain_letters();
        let mut call_ids = Vec::new();
        for message in &request.messages {
            match message {
                PromptMessage::User { text, images } => {
                    // Pictures first: models understand them better that way (Anthropic, Vision).
                    let blocks = pictures.of(images).map(image_block).chain([text_block(text)]);
                    push_user(&mut sent, blocks.collect());
                }
                PromptMessage::Assistant { text, thinking, calls } => {
                    call_ids = ids.name(calls);
                    let mut blocks =
                        if thinks { own_thinking(thinking, &self.model) } else { Vec::new() };
                    blocks.extend((!super::request::is_blank(text)).then(|| text_block(text)));
                    blocks.extend(
                        calls.iter().zip(&call_ids).map(|(call, id)| tool_use(call, id, names)),
                    );
                    sent.push(json!({"role": "assistant", "content": blocks}));
                }
                PromptMessage::Results(calls) => {
                    let results =
                        call_ids.iter().zip(*calls).map(|(id, call)| tool_result(call, id));
                    push_user(&mut sent, results.collect());
                }
            }
        }
        sent
    }
}

#[async_trait]
impl Provider for Anthropic {
    fn name(&self) -> &str {
        &self.name
    }

    fn sees(&self) -> bool {
        self.images
    }

    fn context_window(&self) -> u64 {
        self.window.context_window()
    }

    fn learned_window(&self) -> Option<LearnedWindow> {
        self.window.learned()
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        self.schema.ask(request, |form| self.post(request, form)).await
    }
}

/// Sets a cache breakpoint after a block.
fn cut(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image_block(Picture { mime, base64 }: &Picture) -> Value {
    // Not copied more than once: a picture is large.
    let (mime, data) = ((*mime).into(), base64.as_str().into());
    let source = [("type", "base64".into()), ("media_type", mime), ("data", data)];
    wire::object([("type", "image".into()), ("source", wire::object(source))])
}

/// Builds the system blocks, with breakpoints after the first part, which changes least, and after the
/// last.
fn system(parts: &[String]) -> Vec<Value> {
    let mut blocks: Vec<_> = parts
        .iter()
        .filter(|part| !super::request::is_blank(part))
        .map(|part| text_block(part))
        .collect();
    let parts = blocks.len();
    for at in [0, parts.saturating_sub(1)].into_iter().take(parts.min(SYSTEM_CUTS)) {
        cut(&mut blocks[at]);
    }
    blocks
}

fn tool(tool: &ToolSchema, names: &ToolNames) -> Value {
    let mut schema = tool.parameters.clone();
    if !schema.is_object() {
        schema = json!({});
    }
    if schema.get("type").is_none() {
        schema["type"] = json!("object");
    }
    let name = names.api_name(&tool.name);
    json!({"name": name, "description": tool.description, "input_schema": schema})
}

/// Appends to the user's message. Roles alternate, so a person's text after results joins the same
/// message.
fn push_user(sent: &mut Vec<Value>, blocks: Vec<Value>) {
    match sent.last_mut() {
        Some(last) if last["role"] == "user" => {
            if let Some(content) = last["content"].as_array_mut() {
                content.extend(blocks);
            }
        }
        _ => sent.push(wire::object([("role", "user".into()), ("content", blocks.into())])),
    }
}

/// Returns the blocks that `model` made, unchanged, because they are signed. Another model's would be
/// refused.
fn own_thinking(thinking: &[Thinking], model: &str) -> Vec<Value> {
    let is_own = |thinking: &&Thinking| {
        let kind = thinking.block["type"].as_str();
        thinking.model == model && matches!(kind, Some("thinking" | "redacted_thinking"))
    };
    thinking.iter().filter(is_own).map(|thinking| thinking.block.clone()).collect()
}

fn tool_use(call: &Call, id: &str, names: &ToolNames) -> Value {
    let input = wire::arguments(&call.arguments).unwrap_or_default();
    json!({"type": "tool_use", "id": id, "name": names.api_name(&call.tool), "input": input})
}

fn tool_result(call: &Call, id: &str) -> Value {
    let mut block =
        json!({"type": "tool_result", "tool_use_id": id, "content": wire::result(call)});
    if call.outcome.is_error() {
        block["is_error"] = json!(true);
    }
    block
}

/// The answer so far. Calls are held back until it is complete.
struct AnthropicAnswer {
    model: String,
    names: ToolNames,
    open: BTreeMap<u64, AnthropicBlock>,
    calls: Vec<ToolCall>,
    /// The token counts so far. Later ones replace earlier ones, field by field.
    counts: BTreeMap<&'static str, u64>,
    stop: Option<StopReason>,
}

/// A block whose parts arrive one by one.
enum AnthropicBlock {
    /// Reasoning, open or redacted.
    Thinking(Value),
    Call {
        id: String,
        name: String,
        /// The input in the block's start event, for servers that send it at once.
        input: Value,
        json: String,
    },
}

impl DeltaReader for AnthropicAnswer {
    fn take(&mut self, event: &Value, deltas: &mut VecDeque<Delta>) -> StreamFlow {
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.count(&event["message"]["usage"]),
            "content_block_start" => self.open_block(index, &event["content_block"], deltas),
            "content_block_delta" => self.add_part(index, &event["delta"], deltas),
            "content_block_stop" => self.close_block(index, deltas),
            "message_delta" => {
                self.count(&event["usage"]);
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop_reason(reason));
                }
            }
            "message_stop" => return StreamFlow::Last,
            // Pings, and future events (Versioning: "new event types may be added").
            _ => {}
        }
        StreamFlow::More
    }

    fn finish(&mut self, closed: bool, deltas: &mut VecDeque<Delta>) -> bool {
        let stop = match self.stop {
            Some(stop) => stop,
            None if closed => StopReason::Done,
            None => return false,
        };
        deltas.push_back(Delta::Usage(self.usage()));
        wire::close(std::mem::take(&mut self.calls), stop, deltas);
        true
    }
}

impl AnthropicAnswer {
    fn new(model: &str, names: ToolNames) -> Self {
        Self {
            model: model.to_owned(),
            names,
            open: BTreeMap::new(),
            calls: Vec::new(),
            counts: BTreeMap::new(),
            stop: None,
        }
    }

    fn open_block(&mut self, index: u64, block: &Value, deltas: &mut VecDeque<Delta>) {
        let word = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str().unwrap_or_default() {
            "text" => push_text(&block["text"], Delta::Text, deltas),
            "thinking" | "redacted_thinking" => {
                self.open.insert(index, AnthropicBlock::Thinking(block.clone()));
            }
            "tool_use" => {
                let (id, name, input) = (word("id"), word("name"), block["input"].clone());
                self.open
                    .insert(index, AnthropicBlock::Call { id, name, input, json: String::new() });
            }
            _ => {}
        }
    }

    fn add_part(&mut self, index: u64, delta: &Value, deltas: &mut VecDeque<Delta>) {
        match (delta["type"].as_str().unwrap_or_default(), self.open.get_mut(&index)) {
            ("text_delta", _) => push_text(&delta["text"], Delta::Text, deltas),
            ("thinking_delta", Some(AnthropicBlock::Thinking(block))) => {
                push_text(&delta["thinking"], Delta::Thinking, deltas);
                append(block, "thinking", &delta["thinking"]);
            }
            ("signature_delta", Some(AnthropicBlock::Thinking(block))) => {
                append(block, "signature", &delta["signature"]);
            }
            ("input_json_delta", Some(AnthropicBlock::Call { json, .. })) => {
                json.push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            _ => {}
        }
    }

    fn close_block(&mut self, index: u64, deltas: &mut VecDeque<Delta>) {
        match self.open.remove(&index) {
            Some(AnthropicBlock::Thinking(block)) => {
                let model = self.model.clone();
                deltas.push_back(Delta::ThinkingBlock(Thinking { model, block }));
            }
            Some(AnthropicBlock::Call { id, name, input, json }) => {
                let is_given = input.as_object().is_some_and(|input| !input.is_empty());
                let arguments = if json.is_empty() && is_given { input.to_string() } else { json };
                let name = self.names.own_name(name);
                self.calls.push(ToolCall { id, name, arguments });
            }
            None => {}
        }
    }

    fn count(&mut self, usage: &Value) {
        for key in [
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
        ] {
            if let Some(count) = usage[key].as_u64() {
                self.counts.insert(key, count);
            }
        }
    }

    fn usage(&self) -> Usage {
        let count = |key| self.counts.get(key).copied().unwrap_or_default();
        let cached = count("cache_read_input_tokens");
        Usage {
            input: count("input_tokens") + cached + count("cache_creation_input_tokens"),
            cached,
            cache_written: count("cache_creation_input_tokens"),
            output: count("output_tokens"),
        }
    }
}

fn push_text(text: &Value, delta: fn(String) -> Delta, deltas: &mut VecDeque<Delta>) {
    if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
        deltas.push_back(delta(text.to_owned()));
    }
}

fn append(block: &mut Value, key: &str, part: &Value) {
    let before = block[key].as_str().unwrap_or_default();
    block[key] = json!(format!("{before}{}", part.as_str().unwrap_or_default()));
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::Calls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refused,
        _ => StopReason::Done,
    }
}
