//! What is particular to the Messages API.

use peacrab::provider::{StopReason, ToolCall, Usage};
use peacrab::types::session::Thinking;

use super::*;
use crate::support::model_api::sse;
use crate::support::tool_context::said;

fn start(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

/// Thinks, speaks, and calls two tools.
fn busy_answer() -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 4, "output_tokens": 1}}}),
        start(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "Where is "})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "it? 🦀"})),
        delta(0, &json!({"type": "signature_delta", "signature": "EqQB=="})),
        stop(0),
        start(1, &json!({"type": "redacted_thinking", "data": "b64=="})),
        stop(1),
        start(2, &json!({"type": "text", "text": ""})),
        delta(2, &json!({"type": "text_delta", "text": "I look."})),
        stop(2),
        start(3, &json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}})),
        delta(3, &json!({"type": "input_json_delta", "partial_json": ""})),
        delta(3, &json!({"type": "input_json_delta", "partial_json": "{\"path\""})),
        delta(3, &json!({"type": "input_json_delta", "partial_json": ": \"a\"}"})),
        stop(3),
        start(4, &json!({"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}})),
        stop(4),
        json!({"type": "a_later_invention"}),
    ];
    events.extend(end("tool_use"));
    events
}

fn own_blocks() -> [Value; 2] {
    [
        json!({"type": "thinking", "thinking": "Where is it? 🦀", "signature": "EqQB=="}),
        json!({"type": "redacted_thinking", "data": "b64=="}),
    ]
}

#[tokio::test]
async fn reads_a_stream_split_in_odd_places() {
    let api = ModelApi::start(Platform::Anthropic).await;
    let stream = sse(&answer(Platform::Anthropic, "Ünïcödé 🦀"));
    for size in [1, 2, 3, 7] {
        let pieces = stream.chunks(size).map(<[u8]>::to_vec).collect();
        api.reply(Reply::Stream(pieces, StreamEnding::Closes));
        let expected = Completion {
            text: "Ünïcödé 🦀".to_owned(),
            usage: Usage { input: 30, cached: 20, cache_written: 6, output: 5 },
            stop: Some(StopReason::Done),
            ..Completion::default()
        };
        assert_eq!(ask(&*provider(&api)).await.0.unwrap(), expected);
    }
    api.finish();
}

#[tokio::test]
async fn passes_reasoning_back_unharmed_and_only_to_its_model() {
    let api = ModelApi::start(Platform::Anthropic).await;
    api.reply(Reply::events(&busy_answer()));
    api.reply(Reply::events(&answer(Platform::Anthropic, "There.")));
    let (completion, deltas) = ask(&*provider(&api)).await;
    let completion = completion.unwrap();
    assert_eq!(deltas[0], Delta::Thinking("Where is ".to_owned()));
    let call_of = |id: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments: arguments.to_owned(),
    };
    let expected = Completion {
        text: "I look.".to_owned(),
        thinking: own_blocks().map(|block| Thinking { model: MODEL.to_owned(), block }).into(),
        calls: vec![call_of("toolu_1", "{\"path\": \"a\"}"), call_of("toolu_2", "{}")],
        usage: Usage { input: 4, cached: 0, cache_written: 0, output: 9 },
        stop: Some(StopReason::Calls),
        ..Completion::default()
    };
    assert_eq!(completion, expected);

    let foreign = Thinking { model: "other".to_owned(), block: own_blocks()[0].clone() };
    let mut second = call("toolu_2", CallOutcome::Failed("no such file".to_owned()));
    second.arguments = "[1]".to_owned();
    let step = Step {
        input: Some(said("Hello?")),
        text: completion.text,
        thinking: [completion.thinking, vec![foreign]].concat(),
        calls: vec![call("toolu_1", CallOutcome::Done("seen".to_owned())), second],
        ..Step::default()
    };
    let turns = [turn(vec![step], None)];
    ask_after(&*provider(&api), &turns, Some("And?")).await.0.unwrap();

    let cut = json!({"type": "ephemeral"});
    let [thinking, redacted] = own_blocks();
    assert_eq!(
        api.requests()[1]["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Hello?", "cache_control": cut}]},
            {"role": "assistant", "content": [thinking, redacted,
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"path": "a"}},
                {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no such file", "is_error": true},
                {"type": "text", "text": "And?", "cache_control": cut}]},
        ])
    );
    // Byte for byte: signed blocks may not even change the order of their fields.
    let sent = api.requests()[1]["messages"][1]["content"][0].to_string();
    assert_eq!(sent, own_blocks()[0].to_string());
    api.finish();
}

#[tokio::test]
async fn cuts_the_cache_after_what_changes_least() {
    let api = ModelApi::start(Platform::Anthropic).await;
    let provider = provider(&api);
    let tools = tools();
    let places = |request: &Value| {
        let cut = |part: &Value| part.get("cache_control").is_some();
        let all = |list: &Value| list.as_array().into_iter().flatten().map(cut).collect::<Vec<_>>();
        (all(&request["tools"]), all(&request["system"]))
    };
    for (system, expected) in [
        (vec![], (vec![false, true], vec![])),
        (vec!["a", " "], (vec![false, false], vec![true])),
        (vec!["a", "b"], (vec![false, false], vec![true, true])),
        (vec!["a", "b", "c"], (vec![false, false], vec![true, false, true])),
    ] {
        api.reply(Reply::events(&answer(Platform::Anthropic, "Hi")));
        let system: Vec<_> = system.into_iter().map(str::to_owned).collect();
        let input = [hearing("Hello?")];
        let (messages, pictures) = (messages(&input), &Pictures::default());
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
        complete(&*provider, &request, |_| {}).await.unwrap();
        assert_eq!(places(api.requests().last().unwrap()), expected);
    }
    api.finish();
}

#[tokio::test]
async fn drops_a_call_that_was_cut_at_the_limit() {
    let api = ModelApi::start(Platform::Anthropic).await;
    let mut events = vec![
        start(0, &json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}})),
        stop(0),
    ];
    events.extend(end("max_tokens"));
    api.reply(Reply::events(&events));
    let completion = ask(&*provider(&api)).await.0.unwrap();
    assert_eq!((completion.stop, completion.calls), (Some(StopReason::MaxTokens), vec![]));
    api.finish();
}
