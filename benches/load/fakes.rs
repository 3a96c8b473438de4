//! The two fakes between which the daemon runs: Telegram's Bot API and an OpenAI-compatible model API.
//! They answer as quickly as they can and check nothing; the strict fakes are those of the tests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{self, Request};
use super::people::{Model, People};

pub(crate) const TOKEN: &str = "4242:AAAA-this-is-a-token-of-the-right-length";

/// How a message opens that a person says to the model; their chat follows.
const MARK: &[u8] = b"talk-";

/// How a message of a person opens in a request, and what a result has; quotes within texts are escaped.
const NEWEST: &[u8] = br#"{"role":"user""#;
const RESULT: &[u8] = br#""tool_call_id":"#;

/// Both fakes, at their addresses, and the people behind them.
pub(crate) struct Fakes {
    pub(crate) people: Arc<People>,
    pub(crate) telegram_url: String,
    pub(crate) model_url: String,
}

impl Fakes {
    pub(crate) fn start() -> io::Result<Self> {
        let people = Arc::new(People::default());
        let (platform, model) = (Arc::clone(&people), Arc::clone(&people));
        let telegram = http::serve(move |request, out| telegram(&platform, request, out))?;
        let model = http::serve(move |request, out| complete(&model, request, out))?;
        Ok(Self {
            people,
            telegram_url: format!("http://{telegram}"),
            model_url: format!("http://{model}/v1"),
        })
    }
}

/// One call of the Bot API.
fn telegram(people: &People, request: &Request<'_>, out: &mut Vec<u8>) {
    let method = request.path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let body: Value = serde_json::from_slice(request.body).unwrap_or_default();
    let chat = body["chat_id"].as_i64().unwrap_or_default();
    let sent = |id| {
        format!(
            "{{\"ok\":true,\"result\":{{\"message_id\":{id},\"date\":1700000000,\"text\":\"sent\",\
             \"chat\":{{\"id\":{chat},\"type\":\"private\",\"first_name\":\"Ada\"}}}}}}"
        )
    };
    let result = match method.as_str() {
        "getupdates" => {
            let wait = Duration::from_secs(body["timeout"].as_u64().unwrap_or_default());
            people.poll(body["offset"].as_i64().unwrap_or_default(), wait)
        }
        "sendmessage" => sent(people.sent(chat)),
        "editmessagetext" => {
            people.sent(chat);
            sent(body["message_id"].as_u64().unwrap_or_default())
        }
        "getme" => json!({"ok": true, "result": {
            "id": 4242, "is_bot": true, "first_name": "Peacrab", "username": "peacrab_bot",
            "can_join_groups": true, "can_read_all_group_messages": false,
            "supports_inline_queries": false, "can_connect_to_business": false,
            "has_main_web_app": false,
        }})
        .to_string(),
        "getmycommands" => "{\"ok\":true,\"result\":[]}".to_owned(),
        _ => "{\"ok\":true,\"result\":true}".to_owned(),
    };
    http::json(&result, out);
}

/// One chat completion.
fn complete(people: &People, request: &Request<'_>, out: &mut Vec<u8>) {
    // The newest message comes last; what follows it are calls and their results, which may quote
    // older ones.
    let newest = after_last(request.body, NEWEST);
    let place = newest.windows(MARK.len()).position(|bytes| bytes == MARK);
    let id = place.map_or(&[][..], |place| &newest[place + MARK.len()..]);
    let digits = id.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let chat = std::str::from_utf8(&id[..digits]).ok().and_then(|chat| chat.parse().ok());
    let chat: i64 = chat.unwrap_or_default();
    let has_called = newest.windows(RESULT.len()).any(|bytes| bytes == RESULT);
    let events = match people.asked(chat, request.body.len()) {
        Model::Searches(calls) if !has_called => {
            people.called(chat);
            search(calls)
        }
        Model::Searches(_) | Model::Answers | Model::Hangs => {
            people.answered(chat);
            words()
        }
    };
    http::events(events.iter().map(String::as_str).chain(["[DONE]"]), out);
}

/// What follows the last `mark`; all, if there is none.
fn after_last<'a>(body: &'a [u8], mark: &[u8]) -> &'a [u8] {
    let place = body.windows(mark.len()).rposition(|bytes| bytes == mark);
    place.map_or(body, |place| &body[place + mark.len()..])
}

/// An answer in some pieces.
fn words() -> Vec<String> {
    let pieces = ["Still on the list are tea, ", "rope and sandpaper; ", "Ada brings the bread."];
    let pieces = pieces.map(|piece| delta(&json!({"content": piece})));
    pieces.into_iter().chain(end("stop")).collect()
}

/// Calls of `memory_search`, every second one for words that were never said.
fn search(calls: usize) -> Vec<String> {
    let call = |index: usize| {
        let words = if index.is_multiple_of(2) { "list bread" } else { "zebra" };
        let arguments = json!({"query": format!("{words} {}", ["the", "on"][index / 2 % 2])});
        let function = json!({"name": "memory_search", "arguments": arguments.to_string()});
        let id = format!("call_{index}");
        json!({"index": index, "id": id, "type": "function", "function": function})
    };
    let calls: Vec<_> = (0..calls).map(call).collect();
    [delta(&json!({"tool_calls": calls}))].into_iter().chain(end("tool_calls")).collect()
}

fn delta(delta: &Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
    event(&json!([choice]), &Value::Null)
}

fn end(reason: &str) -> [String; 2] {
    let choice = json!({"index": 0, "delta": {}, "finish_reason": reason});
    let usage = json!({"prompt_tokens": 3000, "completion_tokens": 20, "total_tokens": 3020});
    [event(&json!([choice]), &Value::Null), event(&json!([]), &usage)]
}

fn event(choices: &Value, usage: &Value) -> String {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
           "model": "pea-1", "choices": choices, "usage": usage})
    .to_string()
}
