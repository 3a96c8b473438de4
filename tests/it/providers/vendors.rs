//! Whole answers of those who imitate OpenAI's API, byte for byte as each of them sends them, with all
//! that they do in their own way at once.

use peacrab::provider::{StopReason, Usage};

use super::openai::calls;
use super::*;

/// What comes of an answer: its words, what was thought, and its calls.
struct Expected {
    text: &'static str,
    thought: &'static str,
    /// Id (none: any that is not empty), name and arguments.
    calls: &'static [(Option<&'static str>, &'static str, &'static str)],
    usage: Usage,
}

const fn usage(input: u64, cached: u64, output: u64) -> Usage {
    Usage { input, cached, cache_written: 0, output }
}

async fn check(stream: &str, expected: Expected) {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(Reply::Stream(vec![stream.as_bytes().to_vec()], StreamEnding::Closes));
    let (completion, deltas) = ask(&*provider(&api)).await;
    let completion = completion.unwrap();
    let thought: String = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::Thinking(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((&*completion.text, &*thought), (expected.text, expected.thought));
    assert_eq!(completion.usage, expected.usage);
    let found = calls(&completion);
    assert_eq!(found.len(), expected.calls.len(), "{found:?}");
    for ((id, name, arguments), (wanted, its_name, its_arguments)) in
        found.iter().zip(expected.calls)
    {
        assert_eq!((name, arguments), (its_name, its_arguments));
        assert!(wanted.map_or(!id.is_empty(), |wanted| *id == wanted), "{found:?}");
    }
    let stop = if expected.calls.is_empty() { StopReason::Done } else { StopReason::Calls };
    assert_eq!(completion.stop, Some(stop));
    api.finish();
}

/// Thinks in `reasoning`, sends each call whole, and says that it stopped (ollama/ollama, `openai.go`).
#[tokio::test]
async fn understands_ollama() {
    let stream = r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"qwen3:8b","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"Hm."},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"qwen3:8b","choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_1","index":0,"type":"function","function":{"name":"look","arguments":"{\"path\":\"a\"}"}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"qwen3:8b","choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_2","index":0,"type":"function","function":{"name":"look","arguments":{"path":"b"}}}]},"finish_reason":null}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"qwen3:8b","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"qwen3:8b","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":5,"total_tokens":35}}

data: [DONE]

"#;
    let calls: &[_] =
        &[(Some("call_1"), "look", r#"{"path":"a"}"#), (Some("call_2"), "look", r#"{"path":"b"}"#)];
    check(stream, Expected { text: "", thought: "Hm.", calls, usage: usage(30, 0, 5) }).await;
}

/// Begins with null, gives calls in pieces and without ids, and ends without `[DONE]` where it is older
/// (ggml-org/llama.cpp, `tools/server`).
#[tokio::test]
async fn understands_llama_cpp() {
    let stream = r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"object":"chat.completion.chunk"}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"reasoning_content":"Hm."}}]}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"id":"","type":"function","function":{"name":"look","arguments":"{"}}]}}]}

data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"path\":\"a\"}"}}]}}]}

data: {"choices":[{"finish_reason":"tool_calls","index":0,"delta":{}}],"timings":{"prompt_n":30,"predicted_n":5}}

data: {"choices":[],"usage":{"completion_tokens":5,"prompt_tokens":30,"total_tokens":35},"timings":{"prompt_n":30}}

"#;
    let calls: &[_] = &[(None, "look", r#"{"path":"a"}"#)];
    check(stream, Expected { text: "", thought: "Hm.", calls, usage: usage(30, 0, 5) }).await;
}

/// Says its reasoning under both names, counts in each chunk, and sends empty lists and nulls
/// (docs.vllm.ai, "Reasoning Outputs").
#[tokio::test]
async fn understands_vllm() {
    let stream = r#"data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[]},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":30,"total_tokens":30,"completion_tokens":0}}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"reasoning":"Hm.","reasoning_content":"Hm."},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":30,"total_tokens":31,"completion_tokens":1}}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Yes.","reasoning_content":null,"tool_calls":[]},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":30,"total_tokens":32,"completion_tokens":2}}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":30,"total_tokens":33,"completion_tokens":3,"prompt_tokens_details":null}}

data: [DONE]

"#;
    check(stream, Expected { text: "Yes.", thought: "Hm.", calls: &[], usage: usage(30, 0, 3) })
        .await;
}

/// Comments while it waits, has a reason of its own for the end, and counts in a chunk that begins a
/// new answer (openrouter.ai/docs, "Streaming", "Usage Accounting").
#[tokio::test]
async fn understands_openrouter() {
    let stream = r#": OPENROUTER PROCESSING

: OPENROUTER PROCESSING

data: {"id":"gen-1","provider":"Fireworks","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"Hm.","reasoning_details":[{"type":"reasoning.text","text":"Hm.","format":"unknown","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}

: OPENROUTER PROCESSING

data: {"id":"gen-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Yes."},"finish_reason":null,"native_finish_reason":null}]}

data: {"id":"gen-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":"end_turn"}]}

data: {"id":"gen-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null}],"usage":{"prompt_tokens":30,"completion_tokens":5,"total_tokens":35,"cost":0.001,"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":2}}}

data: [DONE]

"#;
    check(stream, Expected { text: "Yes.", thought: "Hm.", calls: &[], usage: usage(30, 20, 5) })
        .await;
}

/// Keeps the line open with comments, and has its own words for the cache (api-docs.deepseek.com,
/// "Rate Limit", "Context Caching", "Reasoning Model").
#[tokio::test]
async fn understands_deepseek() {
    let stream = r#": keep-alive

: keep-alive

data: {"id":"1","object":"chat.completion.chunk","model":"deepseek-reasoner","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":null,"reasoning_content":"Hm."},"logprobs":null,"finish_reason":null}]}

: keep-alive

data: {"id":"1","choices":[{"index":0,"delta":{"content":"Yes.","reasoning_content":null},"logprobs":null,"finish_reason":null}]}

data: {"id":"1","choices":[{"index":0,"delta":{"content":"","reasoning_content":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":30,"completion_tokens":5,"total_tokens":35,"prompt_cache_hit_tokens":20,"prompt_cache_miss_tokens":10}}

data: [DONE]

"#;
    check(stream, Expected { text: "Yes.", thought: "Hm.", calls: &[], usage: usage(30, 20, 5) })
        .await;
}

/// Has a field of its own, in which it also counts (console.groq.com/docs, "Chat completions").
#[tokio::test]
async fn understands_groq() {
    let stream = r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"openai/gpt-oss-120b","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":null},"logprobs":null,"finish_reason":null}],"x_groq":{"id":"req_1","queue_length":1}}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"reasoning":"Hm.","channel":"analysis"},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"id":"fc_1","type":"function","function":{"name":"look","arguments":"{\"path\":\"a\"}"},"index":0}]},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.06,"prompt_tokens":30,"prompt_time":0.0002,"completion_tokens":5,"total_tokens":35,"total_time":0.8}}}

data: [DONE]

"#;
    let calls: &[_] = &[(Some("fc_1"), "look", r#"{"path":"a"}"#)];
    check(stream, Expected { text: "", thought: "Hm.", calls, usage: usage(30, 0, 5) }).await;
}

/// Gives calls without index and id, each in a chunk of its own, says that it stopped, and counts in each
/// chunk (discuss.ai.google.dev, "OpenAI Compatibility"; ai.google.dev, "OpenAI compatibility").
#[tokio::test]
async fn understands_geminis_endpoint() {
    let stream = r#"data: {"choices":[{"delta":{"role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"c2ln"}},"function":{"arguments":"{\"path\":\"a\"}","name":"look"},"id":"","type":"function"}]},"index":0}],"created":1,"model":"gemini-2.5-flash","object":"chat.completion.chunk","usage":{"completion_tokens":5,"prompt_tokens":30,"total_tokens":35}}

data: {"choices":[{"delta":{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\":\"b\"}","name":"look"},"id":"","type":"function"}]},"finish_reason":"stop","index":0}],"model":"gemini-2.5-flash","usage":{"completion_tokens":9,"prompt_tokens":30,"total_tokens":39}}

data: [DONE]

"#;
    let calls: &[_] = &[(None, "look", r#"{"path":"a"}"#), (None, "look", r#"{"path":"b"}"#)];
    check(stream, Expected { text: "", thought: "", calls, usage: usage(30, 0, 9) }).await;
}

/// DeepSeek when it is overloaded (api-docs.deepseek.com, "Create Chat Completion"), and Gemini's endpoint
/// when its model has written a call wrongly (BerriAI/litellm#21744 tells of the same): asked again, they
/// may do better.
#[tokio::test]
async fn takes_no_answer_for_whole_that_its_server_gave_up() {
    for reason in ["insufficient_system_resource", "function_call_filter: MALFORMED_FUNCTION_CALL"]
    {
        let api = ModelApi::start(Platform::OpenAi).await;
        api.reply(Reply::events(&[
            super::openai::chunk(&json!({"role": "assistant", "content": "Half"})),
            super::openai::finish(reason),
        ]));
        let error = ask(&*provider(&api)).await.0.unwrap_err();
        assert!(matches!(error, ProviderError::Broken(_)), "{error:?}");
        api.finish();
    }
}

#[tokio::test]
async fn knows_a_refusal_whatever_was_filtered() {
    for reason in ["content_filter", "content_filter: PROHIBITED_CONTENT"] {
        let api = ModelApi::start(Platform::OpenAi).await;
        api.reply(Reply::events(&[super::openai::finish(reason)]));
        let completion = ask(&*provider(&api)).await.0.unwrap();
        assert_eq!((&*completion.text, completion.stop), ("", Some(StopReason::Refused)));
        api.finish();
    }
}
