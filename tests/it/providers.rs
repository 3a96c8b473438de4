//! Model providers, against strict fakes of the APIs behind them.

mod anthropic;
mod call_ids;
mod connections;
mod echo;
mod effort;
mod errors;
mod event_stream;
mod fault;
mod names;
mod tool_json;
mod openai;
mod patience;
mod quirks;
mod repetition;
mod room;
mod scan;
mod structured;
mod tags;
mod text_tools;
mod transcript;
mod vendors;
mod window;

use std::sync::Arc;
use std::time::Duration;

use peacrab::provider::anthropic::Anthropic;
use peacrab::provider::openai::OpenAi;
use peacrab::provider::{
    Attempts, Completion, Config, Delta, Effort, HttpTimeouts, Pictures, Provider, ProviderError,
    ProviderKind, Request, ToolSchema, Tools, complete, messages,
};
use peacrab::secret::Secret;
use peacrab::types::session::{Call, CallId, CallOutcome, Step, Turn, TurnId, TurnOutcome};
use serde_json::{Value, json};

use crate::support::model_api::{Ending as StreamEnding, KEY, MODEL, ModelApi, Platform, Reply};
use crate::support::tool_context::said;

/// Longer than loopback takes on a busy machine.
const LIMITS: HttpTimeouts = limits(Duration::from_secs(20));
/// For what is to stall.
const SHORT_LIMITS: HttpTimeouts = limits(Duration::from_millis(500));

const fn limits(wait: Duration) -> HttpTimeouts {
    HttpTimeouts {
        connect: Duration::from_secs(20),
        begin: wait,
        stall: wait,
        whole: Duration::from_secs(60),
    }
}

fn config(api: &ModelApi) -> Config {
    api.config()
}

/// The bare provider, without retries.
fn provider(api: &ModelApi) -> Arc<dyn Provider> {
    connected(&config(api), "main", LIMITS)
}

fn connected(config: &Config, name: &str, limits: HttpTimeouts) -> Arc<dyn Provider> {
    match config.kind {
        ProviderKind::OpenAi => Arc::new(OpenAi::new(name, config, limits).unwrap()),
        ProviderKind::Anthropic => Arc::new(Anthropic::new(name, config, limits).unwrap()),
        ProviderKind::Rehearsal => unreachable!("no API"),
    }
}

fn tools() -> Vec<ToolSchema> {
    ["look", "write"]
        .map(|name| ToolSchema {
            name: name.to_owned(),
            description: format!("Does {name}."),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        })
        .into()
}

fn system() -> Vec<String> {
    vec!["You are a crab.".to_owned(), "Be brief.".to_owned()]
}

/// Asks with `turns` before, and shows every delta.
async fn ask_after(
    provider: &dyn Provider,
    turns: &[Turn],
    input: Option<&str>,
) -> (Result<Completion, ProviderError>, Vec<Delta>) {
    let (system, tools) = (system(), tools());
    let turns = [turns, &input.map(hearing).into_iter().collect::<Vec<_>>()].concat();
    let (messages, pictures) = (messages(&turns), &Pictures::default());
    let request = Request {
        system: &system,
        tools: &tools,
        facts: &[],
        may_call: true,
        effort: Effort::Default,
        attempts: Attempts::Usual,
        tokens_max: None,
        messages,
        pictures,
    };
    let mut deltas = Vec::new();
    let completion = complete(provider, &request, |delta| deltas.push(delta.clone())).await;
    (completion, deltas)
}

async fn ask(provider: &dyn Provider) -> (Result<Completion, ProviderError>, Vec<Delta>) {
    ask_after(provider, &[], Some("Hello?")).await
}

/// A turn that has just begun.
fn hearing(input: &str) -> Turn {
    turn(vec![Step { input: Some(said(input)), ..Step::default() }], None)
}

fn turn(steps: Vec<Step>, ending: Option<TurnOutcome>) -> Turn {
    Turn { id: TurnId(1), by: "7".into(), steps, ending }
}

fn call(wire_id: &str, outcome: CallOutcome) -> Call {
    Call {
        id: CallId(1),
        wire_id: wire_id.to_owned(),
        tool: "look".to_owned(),
        arguments: r#"{"path": "a"}"#.to_owned(),
        outcome,
        sources: Vec::new(),
        images: Vec::new(),
    }
}

/// The events of a plain answer.
fn answer(platform: Platform, text: &str) -> Vec<Value> {
    match platform {
        Platform::OpenAi => vec![
            json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
            json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 20}}}),
        ],
        Platform::Anthropic => vec![
            json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [],
                "usage": {"input_tokens": 4, "cache_read_input_tokens": 20,
                    "cache_creation_input_tokens": 6, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "ping"}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
            json!({"type": "message_stop"}),
        ],
    }
}

/// An answer that ends in the middle of it.
fn half_an_answer(platform: Platform, ending: StreamEnding) -> Reply {
    let whole = crate::support::model_api::sse(&answer(platform, "Half a"));
    let text = String::from_utf8(whole).unwrap();
    let end = text.find("Half a").unwrap() + "Half a".len();
    let end = end + text[end..].find("\n\n").unwrap() + 2;
    // And the beginning of a line that never ends.
    Reply::Stream(vec![text.as_bytes()[..end].to_vec(), b"data: {\"ty".to_vec()], ending)
}
