//! What the model APIs accept, each object closed: an unknown field is a fault.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use peacrab::workspace::picture_type;
use serde_json::{Value, json};

/// The faults of a chat completions request, none if it is right. `beside` is a field that this
/// server demands back with calls, and no other server knows.
pub(crate) fn openai(body: &Value, model: &str, beside: Option<&str>) -> Vec<String> {
    let mut rules = Rules::default();
    let keys = ["model", "stream", "stream_options", "messages"];
    rules.closed(
        body,
        &keys,
        &["tools", "tool_choice", "max_tokens", "reasoning_effort", "response_format"],
        "the body",
    );
    if let Some(format) = body.get("response_format") {
        rules.closed(format, &["type", "json_schema"], &[], "a format");
        rules.check(format["type"] == "json_schema", "a format's type");
        let named = &format["json_schema"];
        rules.closed(named, &["name", "strict", "schema"], &[], "a named schema");
        rules.name(&named["name"]);
        rules.schema(&named["schema"]);
    }
    rules.head(body, model);
    rules.check(body["stream_options"] == json!({"include_usage": true}), "stream_options");
    for tool in rules.tools(body) {
        rules.closed(&tool, &["type", "function"], &[], "a tool");
        rules.closed(&tool["function"], &["name", "description", "parameters"], &[], "a function");
        rules.name(&tool["function"]["name"]);
        rules.check(tool["function"]["parameters"].is_object(), "parameters are no object");
    }
    let mut before = "";
    let mut open = Vec::new();
    for (at, message) in array(&body["messages"]).iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            rules.check(open.is_empty(), "a call has no result");
        }
        rules.check(role == "tool" || role != before, "two messages of one role in a row");
        rules.check(role != "assistant" || !matches!(before, "" | "system"), "assistant first");
        match role {
            "system" => rules.check(at == 0, "a late system message"),
            "user" => {}
            "assistant" => open = rules.openai_calls(message, beside),
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                rules.check(open.first().is_some_and(|open| open == id), "a result of no call");
                open.drain(..open.len().min(1));
            }
            _ => rules.check(false, "an unknown role"),
        }
        match role {
            "assistant" => {}
            "tool" => rules.closed(message, &["role", "content", "tool_call_id"], &[], "a result"),
            _ => rules.closed(message, &["role", "content"], &[], "a message"),
        }
        match &message["content"] {
            Value::Array(parts) if role == "user" => rules.openai_parts(parts),
            content if role != "assistant" => rules.text(content),
            _ => {}
        }
        before = role;
    }
    rules.check(open.is_empty(), "a call has no result");
    rules.check(matches!(before, "user" | "tool"), "nothing to answer");
    rules.faults
}

/// The faults of a Messages API request, none if it is right.
pub(crate) fn anthropic(body: &Value, model: &str) -> Vec<String> {
    let mut rules = Rules::default();
    let keys = ["model", "max_tokens", "stream", "messages"];
    let optional = ["system", "tools", "thinking", "output_config"];
    rules.closed(body, &keys, &optional, "the body");
    rules.head(body, model);
    rules.thinking(body);
    if let Some(config) = body.get("output_config") {
        rules.closed(config, &[], &["effort", "format"], "the output's config");
        if let Some(format) = config.get("format") {
            rules.closed(format, &["type", "schema"], &[], "a format");
            rules.check(format["type"] == "json_schema", "a format's type");
            rules.schema(&format["schema"]);
        }
    }
    for tool in rules.tools(body) {
        rules.closed(&tool, &["name", "description", "input_schema"], &["cache_control"], "a tool");
        rules.name(&tool["name"]);
        rules.check(tool["input_schema"]["type"] == "object", "input_schema is of no object");
        rules.breakpoint(&tool);
    }
    for part in array(&body["system"]) {
        rules.check(part["type"] == "text", "a system part without text");
        rules.block(part);
    }
    rules.check(body.get("system").is_none_or(|it| !array(it).is_empty()), "an empty system");
    let mut before = "assistant";
    let mut open: Vec<String> = Vec::new();
    for message in array(&body["messages"]) {
        rules.closed(message, &["role", "content"], &[], "a message");
        let role = message["role"].as_str().unwrap_or_default();
        rules.check(
            matches!((before, role), ("assistant", "user") | ("user", "assistant")),
            "roles",
        );
        before = role;
        let content = array(&message["content"]);
        rules.check(!content.is_empty(), "a message without content");
        let kinds: Vec<_> = content.iter().map(|block| rules.block(block)).collect();
        if role == "user" {
            let results: Vec<_> =
                content.iter().filter_map(|it| it["tool_use_id"].as_str()).collect();
            rules.check(results == open, "results differ from the calls before");
            open.clear();
            rules.in_order(&kinds, &["tool_result", "image", "text"]);
        } else {
            let uses = content.iter().filter(|it| it["type"] == "tool_use");
            open = uses.map(|it| it["id"].as_str().unwrap_or_default().to_owned()).collect();
            rules.in_order(&kinds, &["thinking", "text", "tool_use"]);
        }
    }
    rules.check(before == "user" && body["messages"] != json!([]), "nothing to answer");
    rules.check(rules.breakpoints <= 4, "more than four cache breakpoints");
    rules.faults
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[derive(Default)]
struct Rules {
    faults: Vec<String>,
    ids: BTreeSet<String>,
    breakpoints: usize,
}

impl Rules {
    fn check(&mut self, holds: bool, fault: &str) {
        if !holds {
            self.faults.push(fault.to_owned());
        }
    }

    fn closed(&mut self, object: &Value, wanted: &[&str], allowed: &[&str], what: &str) {
        for key in wanted {
            self.check(object.get(key).is_some(), &format!("{what} lacks {key}"));
        }
        for key in object.as_object().into_iter().flat_map(|object| object.keys()) {
            let is_known = wanted.contains(&key.as_str()) || allowed.contains(&key.as_str());
            self.check(is_known, &format!("{what} has an unknown field {key}"));
        }
    }

    /// Strict schemas: each object closed, and all of its fields required.
    fn schema(&mut self, schema: &Value) {
        self.check(schema["type"] == "object", "a schema of no object");
        self.check(schema["additionalProperties"] == json!(false), "an open schema");
        let fields = schema["properties"].as_object().into_iter().flatten();
        let mut fields: Vec<_> = fields.map(|(name, _)| json!(name)).collect();
        fields.sort_by_key(Value::to_string);
        self.check(schema["required"] == json!(fields), "a field that is not required");
    }

    /// A budget is at least 1024 tokens, less than the whole, and begins with the turn.
    fn thinking(&mut self, body: &Value) {
        if let Some(budget) = body["thinking"]["budget_tokens"].as_u64() {
            let tokens_max = body["max_tokens"].as_u64().unwrap_or_default();
            self.check((1024..tokens_max).contains(&budget), "the budget for thinking");
        }
    }

    fn head(&mut self, body: &Value, model: &str) {
        self.check(body["model"] == model, "an unknown model");
        self.check(body["stream"] == json!(true), "stream");
        let is_bound = |max: &Value| max.as_u64().is_some_and(|max| max > 0);
        self.check(body.get("max_tokens").is_none_or(is_bound), "max_tokens");
    }

    fn tools(&mut self, body: &Value) -> Vec<Value> {
        let Some(tools) = body.get("tools") else { return Vec::new() };
        self.check(!array(tools).is_empty(), "an empty list of tools");
        array(tools).to_vec()
    }

    fn name(&mut self, name: &Value) {
        let name = name.as_str().unwrap_or_default();
        self.check((1..=64).contains(&name.len()) && is_plain(name), "a tool's name");
    }

    fn id(&mut self, id: &Value) -> String {
        let id = id.as_str().unwrap_or_default().to_owned();
        self.check((1..=40).contains(&id.chars().count()), "a call's id");
        let is_new = self.ids.insert(id.clone());
        self.check(is_new, "two calls of one id");
        id
    }

    fn text(&mut self, text: &Value) {
        self.check(text.as_str().is_some_and(|text| !text.trim().is_empty()), "an empty text");
    }

    /// Pictures and one text.
    fn openai_parts(&mut self, parts: &[Value]) {
        let texts = parts.iter().filter(|part| part["type"] == "text").count();
        self.check(texts == 1 && parts.len() > 1, "parts without need");
        for part in parts {
            match part["type"].as_str().unwrap_or_default() {
                "text" => {
                    self.closed(part, &["type", "text"], &[], "a text");
                    self.text(&part["text"]);
                }
                "image_url" => {
                    self.closed(part, &["type", "image_url"], &[], "a picture");
                    self.closed(&part["image_url"], &["url"], &[], "a picture's address");
                    let url = part["image_url"]["url"].as_str().unwrap_or_default();
                    let data = url.strip_prefix("data:").and_then(|it| it.split_once(";base64,"));
                    let (mime, data) = data.unwrap_or_default();
                    self.picture(mime, data);
                }
                _ => self.check(false, "an unknown part"),
            }
        }
    }

    fn picture(&mut self, mime: &str, data: &str) {
        let known = ["image/jpeg", "image/png", "image/gif", "image/webp"];
        self.check(known.contains(&mime), "a picture of an unknown type");
        let bytes = STANDARD.decode(data).unwrap_or_default();
        self.check((1..=5_000_000).contains(&bytes.len()), "a picture's bytes");
        self.check(picture_type(&bytes) == Some(mime), "a picture of another type");
    }

    fn openai_calls(&mut self, message: &Value, beside: Option<&str>) -> Vec<String> {
        let beside = beside.filter(|_| message.get("tool_calls").is_some());
        let wanted: Vec<_> = ["role", "content"].into_iter().chain(beside).collect();
        self.closed(message, &wanted, &["tool_calls"], "an answer");
        let calls = array(&message["tool_calls"]);
        match message.get("tool_calls") {
            Some(_) => self.check(!calls.is_empty(), "an empty list of calls"),
            None => self.text(&message["content"]),
        }
        if !message["content"].is_null() {
            self.text(&message["content"]);
        }
        let mut ids = Vec::new();
        for call in calls {
            // Gemini's own field, which it sends and demands back.
            self.closed(call, &["id", "type", "function"], &["extra_content"], "a call");
            self.closed(&call["function"], &["name", "arguments"], &[], "a called function");
            self.name(&call["function"]["name"]);
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
            self.check(arguments.is_object(), "arguments are no object");
            ids.push(self.id(&call["id"]));
        }
        ids
    }

    /// Checks a content block, and names its kind.
    fn block(&mut self, block: &Value) -> &'static str {
        self.breakpoint(block);
        match block["type"].as_str().unwrap_or_default() {
            "text" => {
                self.closed(block, &["type", "text"], &["cache_control"], "a text");
                self.text(&block["text"]);
                "text"
            }
            "image" => {
                self.closed(block, &["type", "source"], &["cache_control"], "a picture");
                let source = &block["source"];
                self.closed(source, &["type", "media_type", "data"], &[], "a picture's source");
                self.check(source["type"] == "base64", "a picture's source");
                let word = |key: &str| source[key].as_str().unwrap_or_default().to_owned();
                self.picture(&word("media_type"), &word("data"));
                "image"
            }
            "thinking" => {
                self.closed(block, &["type", "thinking", "signature"], &[], "thinking");
                "thinking"
            }
            "redacted_thinking" => {
                self.closed(block, &["type", "data"], &[], "redacted thinking");
                "thinking"
            }
            "tool_use" => {
                self.closed(block, &["type", "id", "name", "input"], &[], "a call");
                self.name(&block["name"]);
                let id = self.id(&block["id"]);
                self.check(is_plain(&id), "a call's id is not plain");
                self.check(block["input"].is_object(), "input is no object");
                "tool_use"
            }
            "tool_result" => {
                let optional = ["is_error", "cache_control"];
                self.closed(block, &["type", "tool_use_id", "content"], &optional, "a result");
                self.text(&block["content"]);
                "tool_result"
            }
            _ => {
                self.check(false, "an unknown block");
                "unknown"
            }
        }
    }

    fn breakpoint(&mut self, block: &Value) {
        if let Some(control) = block.get("cache_control") {
            self.breakpoints += 1;
            self.check(*control == json!({"type": "ephemeral"}), "cache_control");
        }
    }

    fn in_order(&mut self, kinds: &[&str], order: &[&str]) {
        let places: Vec<_> =
            kinds.iter().map(|kind| order.iter().position(|known| known == kind)).collect();
        self.check(places.is_sorted() && !places.contains(&None), "blocks in a wrong order");
    }
}

fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
