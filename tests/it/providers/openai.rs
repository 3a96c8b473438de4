//! What is particular to chat completions, and to those who imitate them.

use peacrab::provider::names::ToolNames;
use peacrab::provider::{AnswerForm, PromptMessage, ReadPictures, StopReason, Usage};
use peacrab::types::session::Thinking;

use super::*;
use crate::support::model_api::sse;
use crate::support::tool_context::said;

pub(super) fn chunk(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

pub(super) fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// What comes of an answer of these events.
pub(super) async fn completion_of(events: &[Value]) -> Completion {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(Reply::events(events));
    let completion = ask(&*provider(&api)).await.0.unwrap();
    api.finish();
    completion
}

pub(super) fn calls(completion: &Completion) -> Vec<(&str, &str, &str)> {
    completion.calls.iter().map(|it| (&*it.id, &*it.name, &*it.arguments)).collect()
}

#[tokio::test]
async fn reads_a_stream_split_in_odd_places() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let text = "Ünïcödé 🦀🦀 crabs";
    let mut stream = b": keep-alive\n\n".to_vec();
    stream.extend(sse(&answer(Platform::OpenAi, text)));
    for size in [1, 2, 3, 7] {
        let pieces = stream.chunks(size).map(<[u8]>::to_vec).collect();
        api.reply(Reply::Stream(pieces, StreamEnding::Closes));
        let (completion, _) = ask(&*provider(&api)).await;
        let expected = Completion {
            text: text.to_owned(),
            usage: Usage { input: 30, cached: 20, cache_written: 0, output: 5 },
            stop: Some(StopReason::Done),
            ..Completion::default()
        };
        assert_eq!(completion.unwrap(), expected);
    }
    api.finish();
}

#[tokio::test]
async fn joins_parallel_calls_by_index() {
    let completion = completion_of(&[
        chunk(&json!({"content": "Let me see.", "tool_calls": [
            {"index": 0, "id": "call_a", "type": "function", "function": {"name": "look", "arguments": ""}}]})),
        chunk(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"path\":"}}]})),
        chunk(&json!({"tool_calls": [
            {"index": 1, "id": "call_b", "function": {"name": "write", "arguments": "{}"}},
            {"index": 0, "id": "", "function": {"name": null, "arguments": " \"a\"}"}}]})),
        finish("tool_calls"),
    ])
    .await;
    assert_eq!(completion.text, "Let me see.");
    assert_eq!(completion.stop, Some(StopReason::Calls));
    assert_eq!(
        calls(&completion),
        [("call_a", "look", "{\"path\": \"a\"}"), ("call_b", "write", "{}")]
    );
}

#[tokio::test]
async fn takes_calls_as_imitators_send_them() {
    // No index, no ids, arguments as an object or missing, and `stop` as the reason.
    let completion = completion_of(&[
        chunk(&json!({"tool_calls": [
            {"function": {"name": "look", "arguments": {"path": "a"}}},
            {"function": {"name": "look"}}]})),
        finish("stop"),
    ])
    .await;
    assert_eq!(completion.stop, Some(StopReason::Calls));
    let [first, second] = &completion.calls[..] else { panic!("{completion:?}") };
    assert_eq!((&*first.name, &*first.arguments), ("look", r#"{"path":"a"}"#));
    assert_eq!((&*second.name, &*second.arguments), ("look", "{}"));
    assert!(!first.id.is_empty() && !second.id.is_empty() && first.id != second.id);

    // The same index for all.
    let completion = completion_of(&[
        chunk(&json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "look", "arguments": "{}"}}]})),
        chunk(&json!({"tool_calls": [{"index": 0, "id": "y", "function": {"name": "write", "arguments": "{}"}}]})),
        finish("tool_calls"),
    ])
    .await;
    assert_eq!(calls(&completion), [("x", "look", "{}"), ("y", "write", "{}")]);
}

#[tokio::test]
async fn tells_calls_apart_that_have_one_index_and_no_id() {
    let fragment = |name: Option<&str>, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        chunk(&json!({"tool_calls": [{"index": 0, "id": "", "function": function}]}))
    };
    let completion = completion_of(&[
        fragment(Some("look"), "{\"path\": "),
        fragment(Some("look"), "\"a\"}"),
        fragment(Some("look"), "{\"path\": \"b\"}"),
        fragment(None, "\n"),
        fragment(Some("write"), "{}"),
        finish("stop"),
    ])
    .await;
    let calls: Vec<_> = calls(&completion).into_iter().map(|(_, name, it)| (name, it)).collect();
    let expected =
        [("look", "{\"path\": \"a\"}"), ("look", "{\"path\": \"b\"}\n"), ("write", "{}")];
    assert_eq!(calls, expected);
}

#[tokio::test]
async fn drops_a_call_that_was_cut_at_the_limit() {
    let completion = completion_of(&[
        chunk(&json!({"content": "I write.", "tool_calls": [
            {"index": 0, "id": "a", "function": {"name": "write", "arguments": "{\"path\": \"a"}}]})),
        finish("length"),
    ])
    .await;
    assert_eq!((completion.stop, completion.calls), (Some(StopReason::MaxTokens), vec![]));
}

#[tokio::test]
async fn gives_calls_back_as_their_model_knows_them() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let signature = json!({"google": {"thought_signature": "c2lnbmVk"}});
    api.reply(Reply::events(&[
        chunk(&json!({"tool_calls": [{"index": 0, "id": "functions.look:0", "extra_content": signature,
            "function": {"name": "look", "arguments": "{}"}}]})),
        finish("tool_calls"),
    ]));
    let completion = ask(&*provider(&api)).await.0.unwrap();
    let calls = vec![call(&completion.calls[0].id, CallOutcome::Done("seen".to_owned()))];
    let step = |thinking| Step {
        input: Some(said("Hello?")),
        thinking,
        calls: calls.clone(),
        ..Step::default()
    };
    let of_other = completion.thinking.iter().cloned();
    let of_other = of_other.map(|it| Thinking { model: "other".to_owned(), ..it }).collect();
    for (thinking, expected) in [(completion.thinking, Some(&signature)), (of_other, None)] {
        api.reply(Reply::events(&answer(Platform::OpenAi, "Hi")));
        let turns = [turn(vec![step(thinking)], None)];
        ask_after(&*provider(&api), &turns, None).await.0.unwrap();
        let requests = api.requests();
        let sent = &requests.last().unwrap()["messages"][2]["tool_calls"][0];
        assert_eq!(sent["id"], "functions.look:0");
        assert_eq!(sent.get("extra_content"), expected);
    }
    api.finish();
}

/// The answer to a request for calls, whose reasoning comes in these chunks, and what is sent next
/// as the assistant's message: to its own model, and to another.
async fn sent_back(field: &'static str, chunks: &[Value]) -> [Value; 2] {
    let api = ModelApi::start(Platform::OpenAi).await;
    let mut events: Vec<_> = chunks.iter().map(chunk).collect();
    events.push(chunk(&json!({"tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}]})));
    events.push(finish("tool_calls"));
    api.reply(Reply::events(&events));
    let thinking = ask(&*provider(&api)).await.0.unwrap().thinking;
    let of_other = thinking.iter().cloned();
    let of_other = of_other.map(|it| Thinking { model: "other".to_owned(), ..it }).collect();
    let mut sent = Vec::new();
    for (thinking, is_own) in [(of_other, false), (thinking, true)] {
        if is_own {
            api.want_beside_calls(field);
        }
        api.reply(Reply::events(&answer(Platform::OpenAi, "Hi")));
        let calls = vec![call("a", CallOutcome::Done("seen".to_owned()))];
        let input = Some(said("Hello?"));
        let steps = vec![Step { input, thinking, calls, ..Step::default() }];
        ask_after(&*provider(&api), &[turn(steps, None)], None).await.0.unwrap();
        sent.push(api.requests().last().unwrap()["messages"][2].clone());
    }
    api.finish();
    sent.reverse();
    sent.try_into().unwrap()
}

#[tokio::test]
async fn gives_reasoning_back_beside_the_calls_that_came_of_it() {
    let field = "reasoning_content";
    let chunks = [json!({"reasoning_content": "Let me "}), json!({"reasoning_content": "look."})];
    let [own, other] = sent_back(field, &chunks).await;
    assert_eq!(own[field], "Let me look.");
    assert_eq!(other.get(field), None);

    let field = "reasoning_details";
    let detail = |detail: Value| json!({"reasoning": "Hm.", "reasoning_details": [detail]});
    let chunks = [
        detail(json!({"type": "reasoning.text", "text": "Let me ", "index": 0, "signature": null})),
        detail(json!({"type": "reasoning.text", "text": "look.", "index": 0})),
        detail(json!({"type": "reasoning.text", "signature": "c2ln", "index": 0})),
        detail(json!({"type": "reasoning.encrypted", "data": "AAA", "id": "a", "index": 1})),
        detail(json!({"type": "reasoning.encrypted", "data": "BBB", "id": "b", "index": 1})),
    ];
    let [own, other] = sent_back(field, &chunks).await;
    assert_eq!(
        own[field],
        json!([
            {"type": "reasoning.text", "text": "Let me look.", "index": 0, "signature": "c2ln"},
            {"type": "reasoning.encrypted", "data": "AAA", "id": "a", "index": 1},
            {"type": "reasoning.encrypted", "data": "BBB", "id": "b", "index": 1},
        ])
    );
    assert_eq!(other.get(field), None);
}

#[tokio::test]
async fn keeps_no_reasoning_of_an_answer_without_calls() {
    let events = [chunk(&json!({"reasoning_content": "Hm.", "content": "Yes."})), finish("stop")];
    assert_eq!(completion_of(&events).await.thinking, []);
}

#[tokio::test]
async fn shows_reasoning_but_keeps_it_out_of_the_answer() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(Reply::events(&[
        chunk(&json!({"reasoning_content": "Hm. "})),
        chunk(&json!({"reasoning": "Well. "})),
        chunk(&json!({"content": "Yes."})),
        finish("stop"),
    ]));
    let (completion, deltas) = ask(&*provider(&api)).await;
    assert_eq!(completion.unwrap().text, "Yes.");
    let expected = ["Hm. ", "Well. "].map(|text| Delta::Thinking(text.to_owned()));
    assert_eq!(deltas[..2], expected);
    api.finish();
}

#[tokio::test]
async fn never_says_the_reasoning_that_stands_in_the_text() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let pieces = ["\n<thi", "nk>Hm. </", "think>\n\n", "Yes."];
    let mut events: Vec<_> = pieces.iter().map(|it| chunk(&json!({"content": it}))).collect();
    events.push(finish("stop"));
    api.reply(Reply::events(&events));
    let (completion, deltas) = ask(&*provider(&api)).await;
    assert_eq!(completion.unwrap().text, "Yes.");
    assert_eq!(deltas[0], Delta::Thinking("Hm. ".to_owned()));
    api.finish();
}

#[tokio::test]
async fn takes_an_answer_without_done_and_one_that_is_not_streamed() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let mut stream = sse(&answer(Platform::OpenAi, "Hi"));
    stream.truncate(stream.len() - "data: [DONE]\n\n".len());
    api.reply(Reply::Stream(vec![stream.clone()], StreamEnding::Closes));
    api.reply(Reply::Stream(vec![stream], StreamEnding::Breaks));
    api.reply(Reply::error(
        200,
        &json!({"choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Hi"}}], "usage": null}),
    ));
    for _ in 0..3 {
        let completion = ask(&*provider(&api)).await.0.unwrap();
        assert_eq!((&*completion.text, completion.stop), ("Hi", Some(StopReason::Done)));
    }
    api.finish();
}

#[tokio::test]
async fn sends_no_key_where_there_is_none() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.want_no_key();
    api.reply(Reply::events(&answer(Platform::OpenAi, "Hi")));
    let config = Config { api_key: None, ..config(&api) };
    ask(&*connected(&config, "main", LIMITS)).await.0.unwrap();
    api.finish();
}

#[tokio::test]
async fn sends_what_every_imitator_knows() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(Reply::events(&answer(Platform::OpenAi, "Hi")));
    let mut bad = call("", CallOutcome::Failed(String::new()));
    bad.arguments = "{\"path\": ".to_owned();
    bad.tool = "löok!".to_owned();
    let steps = vec![Step {
        input: Some(said("See?")),
        calls: vec![call("call_1", CallOutcome::Done("seen".to_owned())), bad],
        ..Step::default()
    }];
    let (completion, _) = ask_after(&*provider(&api), &[turn(steps, None)], None).await;
    completion.unwrap();
    let requests = api.requests();
    assert_eq!(
        requests[0]["messages"],
        json!([
            {"role": "system", "content": "You are a crab.\n\nBe brief."},
            {"role": "user", "content": "See?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function",
                    "function": {"name": "look", "arguments": "{\"path\": \"a\"}"}},
                {"id": "_", "type": "function", "function": {"name": "l_ok_", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
            {"role": "tool", "tool_call_id": "_", "content": "(no output)"},
        ])
    );
    api.finish();
}

#[test]
fn says_to_mistral_only_what_it_takes() {
    let config = Config {
        kind: ProviderKind::OpenAi,
        model: "m".to_owned(),
        api_key: None,
        base_url: "https://api.mistral.ai/v1".to_owned(),
        tokens_max: Some(1),
        context: 100_000,
        context_is_set: true,
        tools: Tools::Native,
        structured: Default::default(),
        images: false,
        timeouts: Default::default(),
        price: None,
    };
    let mistral = OpenAi::new("main", &config, HttpTimeouts::default()).unwrap();
    let calls = ["call_1", "D681PevKs"].map(|id| call(id, CallOutcome::Done("seen".to_owned())));
    let messages = vec![
        PromptMessage::User { text: "See?".to_owned(), images: Vec::new() },
        PromptMessage::Assistant { text: "", thinking: &[], calls: &calls },
        PromptMessage::Results(&calls),
    ];
    let pictures = &Pictures::default();
    let effort = Effort::High;
    let attempts = Attempts::Usual;
    let request = Request {
        system: &[],
        tools: &[],
        facts: &[],
        may_call: true,
        effort,
        attempts,
        tokens_max: None,
        messages,
        pictures,
    };
    let body =
        mistral.body(&request, AnswerForm::Text, &ToolNames::of(&[]), &ReadPictures::default());
    assert_eq!(body.get("reasoning_effort"), None);
    assert_eq!(body.get("stream_options"), None);
    let id = |pointer| body.pointer(pointer).and_then(Value::as_str).unwrap();
    assert_eq!(id("/messages/1/tool_calls/1/id"), "D681PevKs");
    let respelt = id("/messages/1/tool_calls/0/id");
    assert!(respelt.len() == 9 && respelt.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    assert_eq!(id("/messages/2/tool_call_id"), respelt);
}
