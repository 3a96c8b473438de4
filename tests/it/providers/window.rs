//! Context windows: what servers tell of theirs, and what their refusals name.

use peacrab::provider::fault::ApiFault;
use peacrab::provider::window::{ServerWindow, server_window};
use peacrab::provider::{Config, LearnedWindow, Provider, ProviderError, connect};
use serde_json::{Value, json};

use super::config;
use crate::support::model_api::{MODEL, ModelApi, Platform, Reply};

#[test]
fn servers_tell_their_window() {
    let llama = json!({"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1});
    let ollama =
        |tokens: Value| json!({"models": [{"name": "m:latest", "context_length": tokens}]});
    let vllm = json!({"data": [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 16_384}]});
    let trained = json!({"data": [{"id": "m", "meta": {"n_ctx_train": 131_072}}]});
    let check = |models: &Value, props: &Value, loaded: &Value| {
        server_window("m", Some(models), Some(props), Some(loaded))
    };
    let none = json!(null);
    assert_eq!(check(&vllm, &none, &none), ServerWindow::Tokens(16_384));
    assert_eq!(check(&trained, &llama, &none), ServerWindow::Tokens(8_192));
    assert_eq!(check(&trained, &none, &ollama(json!(4_096))), ServerWindow::Tokens(4_096));
    assert_eq!(check(&trained, &none, &json!({"models": []})), ServerWindow::NotLoaded);
    assert_eq!(check(&trained, &none, &ollama(json!(null))), ServerWindow::Unknown);
    assert_eq!(
        check(&none, &json!({"default_generation_settings": 3}), &none),
        ServerWindow::Unknown
    );
    assert_eq!(server_window("m", None, None, None), ServerWindow::Unknown);
}

#[test]
fn refusals_name_the_window() {
    for (body, window) in [
        (
            r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"too long","n_prompt_tokens":9000,"n_ctx":4096}}"#,
            Some(4_096),
        ),
        (
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 9000","code":"context_length_exceeded"}}"#,
            Some(8_192),
        ),
        (
            r#"{"error":{"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}"#,
            Some(4_096),
        ),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            Some(200_000),
        ),
        (r#"{"error":{"message":"prompt is too long"}}"#, None),
        (r#"{"error":{"message":"maximum context length is 3 tokens"}}"#, None),
        // About something else.
        (r#"{"error":{"message":"model not found","n_ctx":4096}}"#, None),
    ] {
        assert_eq!(ApiFault::of_response(400, None, body).window(), window, "{body}");
    }
}

fn provider(api: &ModelApi, context_is_set: bool) -> std::sync::Arc<dyn Provider> {
    let config = Config { context: 32_768, context_is_set, tokens_max: None, ..config(api) };
    connect("main", &config).unwrap()
}

fn learned(tokens: u32, is_set: bool) -> Option<LearnedWindow> {
    Some(LearnedWindow { given: 32_768, is_set, tokens })
}

async fn ask(provider: &dyn Provider) -> Result<(), ProviderError> {
    super::ask(provider).await.0.map(drop)
}

fn fine() -> Reply {
    let chunk = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    Reply::events(&[chunk(json!({"content": "hi"}), Value::Null), chunk(json!({}), json!("stop"))])
}

#[tokio::test]
async fn asks_a_server_of_ones_own() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.show("/props", json!({"default_generation_settings": {"n_ctx": 4_096}}));
    let provider = provider(&api, false);
    assert_eq!((provider.context_window(), provider.learned_window()), (28_672, None));
    api.reply(fine());
    ask(&*provider).await.unwrap();
    assert_eq!(
        (provider.context_window(), provider.learned_window()),
        (3_584, learned(4_096, false))
    );
    api.finish();
}

#[tokio::test]
async fn asks_again_once_the_model_is_loaded() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.show("/api/ps", json!({"models": []}));
    let provider = provider(&api, false);
    api.reply(fine());
    ask(&*provider).await.unwrap();
    assert_eq!(provider.learned_window(), None);
    api.show("/api/ps", json!({"models": [{"name": MODEL, "context_length": 4_096}]}));
    api.reply(fine());
    ask(&*provider).await.unwrap();
    assert_eq!(provider.learned_window(), learned(4_096, false));
    api.finish();
}

#[tokio::test]
async fn what_the_config_says_is_not_asked_for_but_a_refusal_counts() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.show("/props", json!({"default_generation_settings": {"n_ctx": 2_048}}));
    let provider = provider(&api, true);
    api.reply(fine());
    ask(&*provider).await.unwrap();
    assert_eq!(provider.learned_window(), None);
    let refusal =
        json!({"error": {"type": "exceed_context_size_error", "message": "", "n_ctx": 4_096}});
    api.reply(Reply::error(400, &refusal));
    assert!(matches!(ask(&*provider).await, Err(ProviderError::TooLong)));
    assert_eq!(provider.learned_window(), learned(4_096, true));
    api.finish();
}
