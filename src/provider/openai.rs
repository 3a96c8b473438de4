//! Chat completions of OpenAI and compatible servers. Accepts slight deviations of those servers, and
//! sends only fields that all of them know.

mod answer;
pub mod dialect;
pub mod tags;

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Map, Value, json};

use super::answer_schema::{AnswerForm, AnswerSchema};
use super::http::{ModelEndpoint, PostFailure};
use super::names::ToolNames;
use super::tool_json::{RequestBody, ToolJsonCache};
use super::window::{self, ContextWindow, ServerWindow};
use super::wire;
use super::{
    Config, DeltaStream, HttpTimeouts, LearnedWindow, Picture, PromptMessage, Provider,
    ProviderError, ReadPictures, Request, ToolSchema, is_vendor,
};
use crate::provider::http::ApiKeyHeader;
use crate::types::session::{Call, Thinking};
use answer::OpenAiAnswer;
use dialect::HostDialect;

/// A model behind an OpenAI-compatible endpoint.
pub struct OpenAi {
    name: String,
    model: String,
    tokens_max: Option<u32>,
    images: bool,
    window: Arc<ContextWindow>,
    dialect: HostDialect,
    tool_json: ToolJsonCache,
    schema: AnswerSchema,
    endpoint: ModelEndpoint,
}

impl OpenAi {
    /// Creates a client of the endpoint.
    ///
    /// # Errors
    ///
    /// The base URL or the key is invalid.
    pub fn new(name: &str, config: &Config, limits: HttpTimeouts) -> anyhow::Result<Self> {
        let url = format!("{}/chat/completions", config.base_url.trim_end_matches('/'));
        let (header, scheme) = (AUTHORIZATION, "Bearer ");
        let key = config.api_key.as_ref().map(|key| ApiKeyHeader { header, scheme, key });
        let full_name = format!("{name} ({})", config.model);
        let window = Arc::new(ContextWindow::new(&full_name, config));
        let endpoint = ModelEndpoint::new(&url, key, HeaderMap::new(), limits)?;
        let endpoint = endpoint.learning(&window);
        Ok(Self {
            schema: AnswerSchema::new(&full_name, config),
            name: full_name,
            model: config.model.clone(),
            tokens_max: config.answer_tokens_max(),
            images: config.images,
            window,
            dialect: HostDialect::of(&endpoint.url),
            tool_json: ToolJsonCache::default(),
            endpoint,
        })
    }

    /// Returns the JSON of a request, with null in place of the tools. Variable parts come last, so that
    /// requests share their beginning.
    pub fn body(
        &self,
        request: &Request<'_>,
        form: AnswerForm,
        names: &ToolNames,
        pictures: &ReadPictures,
    ) -> Value {
        let mut body = Map::new();
        body.insert("model".to_owned(), json!(self.model));
        if let Some(tokens_max) = self.tokens_max.into_iter().chain(request.tokens_max).min() {
            body.insert(self.dialect.limit_field().to_owned(), json!(tokens_max));
        }
        body.insert("stream".to_owned(), json!(true));
        if self.dialect.has_stream_options() {
            body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        body.extend(self.dialect.effort(request.effort, &self.model));
        if !request.tools.is_empty() {
            body.insert("tools".to_owned(), Value::Null);
            if !request.may_call {
                body.insert("tool_choice".to_owned(), json!("none"));
            }
        }
        if let Some(schema) = form.schema(request) {
            let schema = json!({"name": "answer", "strict": true, "schema": schema});
            let format = json!({"type": "json_schema", "json_schema": schema});
            body.insert("response_format".to_owned(), format);
        }
        let system = form.system(request);
        let messages = self.transcript(&system, request, names, pictures);
        body.insert("messages".to_owned(), messages.into());
        body.into()
    }

    /// Asks the owner's own server for its context window. Missing paths take no time.
    async fn ask_window(&self) {
        if is_vendor(&self.endpoint.url) || !self.window.is_to_be_asked() {
            return;
        }
        let (models, props, loaded) = tokio::join!(
            self.endpoint.get_json("models"),
            self.endpoint.get_json("/props"),
            self.endpoint.get_json("/api/ps"),
        );
        let have_answered = models.is_ok() && props.is_ok() && loaded.is_ok();
        let [models, props, loaded] = [models, props, loaded].map(Result::unwrap_or_default);
        let (models, props, loaded) = (models.as_ref(), props.as_ref(), loaded.as_ref());
        let answer = window::server_window(&self.model, models, props, loaded);
        // A server that did not answer now is asked again.
        if have_answered || answer != ServerWindow::Unknown {
            self.window.note_answer(answer);
        }
    }

    /// Sends a request. Returns the answer as a stream.
    async fn post(
        &self,
        request: &Request<'_>,
        form: AnswerForm,
    ) -> Result<DeltaStream<'static>, PostFailure> {
        let names = ToolNames::of(request.tools);
        let pictures = request.pictures.load_if(self.images).await;
        let fields = self.body(request, form, &names, &pictures);
        let tools = (!request.tools.is_empty()).then(|| {
            let write = || request.tools.iter().map(|it| tool(it, &names)).collect();
            self.tool_json.get(request.tools, false, write)
        });
        let _in_turn = pictures.written();
        self.endpoint
            .stream(RequestBody { fields, tools }, OpenAiAnswer::new(&self.model, names))
            .await
    }

    fn transcript(
        &self,
        system: &[String],
        request: &Request<'_>,
        names: &ToolNames,
        pictures: &ReadPictures,
    ) -> Vec<Value> {
        let mut ids = self.dialect.call_ids();
        let mut sent = Vec::new();
        if !system.is_empty() {
            sent.push(json!({"role": "system", "content": system.join("\n\n")}));
        }
        let mut call_ids = Vec::new();
        for message in &request.messages {
            match message {
                PromptMessage::User { text, images } => {
                    let content = user_content(text, pictures.of(images).collect());
                    sent.push(wire::object([("role", "user".into()), ("content", content)]));
                }
                PromptMessage::Assistant { text, thinking, calls } => {
                    call_ids = ids.name(calls);
                    let own: Vec<_> = thinking.iter().filter(|it| it.model == self.model).collect();
                    let calls = calls.iter().zip(&call_ids);
                    let calls =
                        calls.map(|(call, id)| function_call(call, id, &own, names)).collect();
                    sent.push(assistant(text, &own, calls));
                }
                PromptMessage::Results(calls) => sent.extend(call_ids.iter().zip(*calls).map(|(id, call)| {
                    json!({"role": "tool", "tool_call_id": id, "content": wire::result(call)})
                })),
            }
        }
        sent
    }
}

#[async_trait]
impl Provider for OpenAi {
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

    async fn learn_window(&self) {
        self.ask_window().await;
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        self.ask_window().await;
        self.schema.ask(request, |form| self.post(request, form)).await
    }
}

fn tool(tool: &ToolSchema, names: &ToolNames) -> Value {
    let ToolSchema { name, description, parameters } = tool;
    let function =
        json!({"name": names.api_name(name), "description": description, "parameters": parameters});
    json!({"type": "function", "function": function})
}

/// Returns a text, which every server supports, or parts if there are pictures.
fn user_content(text: &str, pictures: Vec<&Picture>) -> Value {
    if pictures.is_empty() {
        return json!(text);
    }
    // Never copied: a picture is large.
    let parts = pictures.into_iter().map(|Picture { mime, base64 }| {
        let url = wire::object([("url", format!("data:{mime};base64,{base64}").into())]);
        wire::object([("type", "image_url".into()), ("image_url", url)])
    });
    parts.chain([json!({"type": "text", "text": text})]).collect()
}

fn assistant(text: &str, thinking: &[&Thinking], calls: Vec<Value>) -> Value {
    let content = if super::request::is_blank(text) { Value::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
        for (field, value) in
            thinking.iter().filter_map(|it| it.block["beside"].as_object()).flatten()
        {
            message[field] = value.clone();
        }
    }
    message
}

fn function_call(call: &Call, id: &str, thinking: &[&Thinking], names: &ToolNames) -> Value {
    let arguments = match wire::arguments(&call.arguments) {
        Some(_) => &call.arguments,
        None => "{}",
    };
    let function = json!({"name": names.api_name(&call.tool), "arguments": arguments});
    let mut sent = json!({"id": id, "type": "function", "function": function});
    if let Some(signed) = thinking.iter().find(|it| it.block["call"] == *call.wire_id) {
        sent["extra_content"] = signed.block["extra_content"].clone();
    }
    sent
}
