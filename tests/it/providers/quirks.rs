//! What imitators of OpenAI's API get slightly wrong, each with where it was seen.

use peacrab::provider::{StopReason, Usage};

use super::openai::{calls, chunk, completion_of, finish};
use super::*;
use crate::support::model_api::sse;
use crate::support::tool_context::said;

fn fragment(id: &str, name: &str, arguments: &Value) -> Value {
    chunk(&json!({"tool_calls": [{"id": id, "function": {"name": name, "arguments": arguments}}]}))
}

/// Ollama names calls after their tool: tetsuo-ai/agenc-core#417, ollama/ollama#11417.
#[tokio::test]
async fn tells_calls_apart_that_have_one_id() {
    let one = fragment("look", "look", &json!("{\"path\": \"a\"}"));
    let two = fragment("look", "look", &json!("{\"path\": \"b\"}"));
    let three = fragment("look", "write", &json!("{}"));
    let completion = completion_of(&[one.clone(), two, three, finish("tool_calls")]).await;
    let expected = [
        ("look", "look", "{\"path\": \"a\"}"),
        ("look", "look", "{\"path\": \"b\"}"),
        ("look", "write", "{}"),
    ];
    assert_eq!(calls(&completion), expected);

    // And they come back with ids that differ: the fake's rules see to that.
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(Reply::events(&answer(Platform::OpenAi, "Hi")));
    let done = || call("look", CallOutcome::Done("seen".to_owned()));
    let steps =
        vec![Step { input: Some(said("See?")), calls: vec![done(), done()], ..Step::default() }];
    ask_after(&*provider(&api), &[turn(steps, None)], None).await.0.unwrap();
    api.finish();
}

/// Qwen and DeepSeek repeat id and name in every chunk (langchain4j#4544); some send a whole call twice
/// (agno-agi/agno#2336).
#[tokio::test]
async fn takes_a_repeated_call_once() {
    let completion = completion_of(&[
        fragment("a", "look", &json!("")),
        fragment("a", "look", &json!("{\"path\": ")),
        fragment("a", "look", &json!("\"a\"}")),
        fragment("a", "look", &json!("{\"path\":\"a\"}")),
        fragment("a", "look", &json!("")),
        fragment("a", "look", &Value::Null),
        finish("stop"),
    ])
    .await;
    assert_eq!(calls(&completion), [("a", "look", "{\"path\": \"a\"}")]);
    assert_eq!(completion.stop, Some(StopReason::Calls));
}

/// Gemini sends each parallel call in a chunk of its own, all with index 0 or none, under one name and
/// other ids (su-kaka/gcli2api#406, noho/dayu-agent#82).
#[tokio::test]
async fn tells_parallel_calls_of_gemini_apart() {
    for index in [json!(0), Value::Null] {
        let one = |id: &str, path: &str| {
            let arguments = json!({"path": path}).to_string();
            chunk(
                &json!({"role": "assistant", "content": null, "tool_calls": [{"index": index, "id": id,
                "type": "function", "function": {"name": "look", "arguments": arguments}}]}),
            )
        };
        let events = [one("x", "a"), one("y", "b"), one("z", "b"), finish("stop")];
        let completion = completion_of(&events).await;
        let expected = [
            ("x", "look", "{\"path\":\"a\"}"),
            ("y", "look", "{\"path\":\"b\"}"),
            ("z", "look", "{\"path\":\"b\"}"),
        ];
        assert_eq!(calls(&completion), expected);
    }
}

/// The API before there were several calls; some proxies still speak it (OpenAI, "Function calling").
#[tokio::test]
async fn takes_a_call_of_the_old_form() {
    let completion = completion_of(&[
        chunk(&json!({"function_call": {"name": "look", "arguments": "{\"path\":"}})),
        chunk(&json!({"function_call": {"arguments": " \"a\"}"}})),
        finish("function_call"),
    ])
    .await;
    let [call] = &completion.calls[..] else { panic!("{completion:?}") };
    assert_eq!((&*call.name, &*call.arguments), ("look", "{\"path\": \"a\"}"));
}

/// Mistral's reasoning models (docs.mistral.ai, "Reasoning").
#[tokio::test]
async fn reads_content_in_parts() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(Reply::events(&[
        chunk(&json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]})),
        chunk(&json!({"content": [{"type": "text", "text": "Yes"}, {"type": "text", "text": "."}]})),
        chunk(&json!({"content": "!", "role": null, "tool_calls": null})),
        chunk(&Value::Null),
        finish("stop"),
    ]));
    let (completion, deltas) = ask(&*provider(&api)).await;
    assert_eq!(completion.unwrap().text, "Yes.!");
    assert_eq!(deltas[0], Delta::Thinking("Hm.".to_owned()));
    api.finish();
}

/// Azure begins with a chunk without choices, vLLM counts in every chunk if told so
/// (`continuous_usage_stats`), OpenRouter comments while it waits (openrouter.ai/docs, "Streaming").
#[tokio::test]
async fn takes_chunks_without_choices_and_counts_in_each() {
    let api = ModelApi::start(Platform::OpenAi).await;
    let usage = |output: u64| json!({"prompt_tokens": 30, "completion_tokens": output});
    let mut one = chunk(&json!({"content": "Hi"}));
    one["usage"] = usage(1);
    let mut last = finish("stop");
    last["usage"] = usage(2);
    let mut stream = b": OPENROUTER PROCESSING\n\n".to_vec();
    stream.extend(sse(&[json!({"choices": [], "prompt_filter_results": []}), one, last]));
    api.reply(Reply::Stream(vec![stream], StreamEnding::Closes));
    let completion = ask(&*provider(&api)).await.0.unwrap();
    assert_eq!(completion.text, "Hi");
    assert_eq!(completion.usage, Usage { input: 30, cached: 0, cache_written: 0, output: 2 });
    api.finish();
}

/// OpenRouter, "Handling errors during streaming": the status was 200 long ago.
#[tokio::test]
async fn tells_errors_within_a_stream() {
    let error = json!({"code": 502, "message": "Provider disconnected"});
    let mut whole = finish("error");
    whole["error"] = error.clone();
    let mut inside = finish("error");
    inside["choices"][0]["error"] = error;
    for last in [whole, inside, finish("error")] {
        let api = ModelApi::start(Platform::OpenAi).await;
        api.reply(Reply::events(&[chunk(&json!({"content": "Half"})), last]));
        let error = ask(&*provider(&api)).await.0.unwrap_err();
        let again = matches!(error, ProviderError::Busy { .. } | ProviderError::Broken(_));
        assert!(again, "{error:?}");
        api.finish();
    }
}

/// Both vendors take `^[a-zA-Z0-9_-]{1,64}$`; MCP servers name their tools as they like.
#[tokio::test]
async fn respells_names_that_an_api_does_not_take() {
    for platform in [Platform::OpenAi, Platform::Anthropic] {
        let api = ModelApi::start(platform).await;
        let name = "mcp_git_repo.read/all";
        let tools = [ToolSchema { name: name.to_owned(), ..tools().remove(0) }];
        let sent = "mcp_git_repo_read_all";
        api.reply(Reply::events(&match platform {
            Platform::OpenAi => {
                vec![fragment("a", sent, &json!("{}")), finish("tool_calls")]
            }
            Platform::Anthropic => vec![
                json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "tool_use", "id": "a", "name": sent, "input": {}}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
                json!({"type": "message_stop"}),
            ],
        }));
        let mut called = call("x", CallOutcome::Done("seen".to_owned()));
        called.tool = name.to_owned();
        let steps =
            vec![Step { input: Some(said("See?")), calls: vec![called], ..Step::default() }];
        let turns = [turn(steps, None)];
        let request = Request {
            system: &[],
            tools: &tools,
            facts: &[],
            may_call: true,
            effort: Effort::Default,
            attempts: Attempts::Usual,
            tokens_max: None,
            messages: messages(&turns),
            pictures: &Pictures::default(),
        };
        let completion = complete(&*provider(&api), &request, |_| {}).await.unwrap();
        assert_eq!(completion.calls[0].name, name);
        assert_eq!(api.requests()[0].to_string().matches(sent).count(), 2);
        api.finish();
    }
}
