//! How much a model is asked to think, as each API wants to hear it.

use peacrab::provider::anthropic::effort::{ThinkingMode as Asked, budget, kind};
use peacrab::provider::openai::dialect::HostDialect;
use url::Url;

use super::*;
use crate::support::model_api::MODEL;
use crate::support::tool_context::said;

/// What a request holds that asks for this effort after these turns.
async fn sent(platform: Platform, config: Config, turns: &[Turn], effort: Effort) -> Value {
    let api = ModelApi::start(platform).await;
    api.know(&config.model);
    api.reply(Reply::events(&answer(platform, "Hi")));
    let config = Config { base_url: api.base_url.clone(), ..config };
    let request = Request {
        system: &system(),
        tools: &tools(),
        facts: &[],
        may_call: true,
        effort,
        attempts: Attempts::Usual,
        tokens_max: None,
        messages: messages(turns),
        pictures: &Pictures::default(),
    };
    complete(&*connected(&config, "main", LIMITS), &request, |_| {}).await.unwrap();
    api.finish();
    api.requests().remove(0)
}

fn of(platform: Platform, model: &str, tokens_max: u32) -> Config {
    Config {
        kind: match platform {
            Platform::OpenAi => ProviderKind::OpenAi,
            Platform::Anthropic => ProviderKind::Anthropic,
        },
        model: model.to_owned(),
        api_key: Some(Secret::new(KEY)),
        base_url: String::new(),
        tokens_max: Some(tokens_max),
        context: 100_000,
        context_is_set: true,
        tools: Tools::Native,
        structured: Default::default(),
        images: false,
        timeouts: Default::default(),
        price: None,
    }
}

#[tokio::test]
async fn asks_anthropic_for_an_effort_as_the_model_takes_it() {
    let enabled = |budget: u32| json!({"type": "enabled", "budget_tokens": budget});
    let (adaptive, none) = (json!({"type": "adaptive"}), Value::Null);
    let high = json!({"effort": "high"});
    for (model, effort, thinking, output) in [
        ("claude-sonnet-4-5", Effort::Default, &none, &none),
        ("claude-sonnet-4-5", Effort::Off, &none, &none),
        ("claude-sonnet-4-5", Effort::Low, &enabled(2048), &none),
        ("claude-sonnet-4-5", Effort::High, &enabled(7500), &none),
        ("claude-opus-4-7", Effort::High, &adaptive, &high),
        ("claude-opus-4-7", Effort::Default, &none, &none),
        ("claude-opus-4-7", Effort::Off, &none, &json!({"effort": "low"})),
        ("claude-3-5-haiku", Effort::High, &none, &none),
        (MODEL, Effort::Off, &json!({"type": "disabled"}), &none),
    ] {
        let config = of(Platform::Anthropic, model, 10_000);
        let body = sent(Platform::Anthropic, config, &[hearing("Hello?")], effort).await;
        assert_eq!(
            (&body["thinking"], &body["output_config"]),
            (thinking, output),
            "{model} {effort:?}"
        );
    }
}

#[tokio::test]
async fn does_not_ask_for_thinking_in_the_middle_of_calls_without() {
    let steps = vec![Step {
        input: Some(said("See?")),
        calls: vec![call("toolu_1", CallOutcome::Done("seen".to_owned()))],
        ..Step::default()
    }];
    let config = of(Platform::Anthropic, "claude-sonnet-4-5", 10_000);
    let body = sent(Platform::Anthropic, config, &[turn(steps, None)], Effort::High).await;
    assert_eq!(body.get("thinking"), None);
}

#[tokio::test]
async fn asks_imitators_for_an_effort_only_when_told_to() {
    for (effort, expected) in [
        (Effort::Default, Value::Null),
        (Effort::Off, json!("none")),
        (Effort::Low, json!("low")),
        (Effort::Medium, json!("medium")),
        (Effort::High, json!("high")),
    ] {
        let config = of(Platform::OpenAi, MODEL, 1000);
        let body = sent(Platform::OpenAi, config, &[hearing("Hello?")], effort).await;
        assert_eq!(body["reasoning_effort"], expected);
    }
}

#[test]
fn knows_how_each_model_is_asked() {
    for (model, expected) in [
        ("claude-3-5-haiku-20241022", Asked::NoThinking),
        ("claude-3-haiku-20240307", Asked::NoThinking),
        ("claude-3-7-sonnet-latest", Asked::Budget),
        ("claude-opus-4-20250514", Asked::Budget),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", Asked::Budget),
        ("claude-sonnet-4-6", Asked::Adaptive),
        ("claude-opus-4.7", Asked::Adaptive),
        ("claude-opus-5", Asked::Adaptive),
        ("claude-mythos-preview", Asked::Adaptive),
        ("glm-4.6", Asked::OtherVendor),
    ] {
        assert_eq!(kind(model), expected, "{model}");
    }
}

#[test]
fn leaves_room_for_words() {
    for (effort, tokens_max, expected) in [
        (Effort::High, 16_384, Some(12_288)),
        (Effort::High, 64_000, Some(24_576)),
        (Effort::Low, 16_384, Some(2_048)),
        (Effort::Medium, 1_500, Some(1_125)),
        (Effort::Low, 1_000, None),
        (Effort::Off, 16_384, None),
    ] {
        assert_eq!(budget(effort, tokens_max), expected, "{effort:?} {tokens_max}");
    }
}

#[test]
fn knows_a_host_by_its_name() {
    let dialect = |host| HostDialect::of(&Url::parse(&format!("https://{host}/v1")).unwrap());
    for host in ["api.openai.com", "eu.api.openai.com", "mine.openai.azure.com"] {
        assert_eq!(dialect(host), HostDialect::OpenAi, "{host}");
    }
    assert_eq!(dialect("api.mistral.ai"), HostDialect::Mistral);
    assert_eq!(dialect("openrouter.ai"), HostDialect::OpenRouter);
    for host in ["127.0.0.1:11434", "notapi.openai.com", "api.openai.com.example"] {
        assert_eq!(dialect(host), HostDialect::Common, "{host}");
    }
}

#[test]
fn asks_each_for_an_effort_in_its_own_words() {
    let said = |dialect: HostDialect, effort, model| {
        dialect.effort(effort, model).map(|(field, value)| format!("{field} {value}"))
    };
    for (dialect, effort, model, expected) in [
        (HostDialect::Common, Effort::Default, "qwen3:8b", None),
        (HostDialect::Common, Effort::Off, "qwen3:8b", Some(r#"reasoning_effort "none""#)),
        (HostDialect::Common, Effort::Medium, "qwen3:8b", Some(r#"reasoning_effort "medium""#)),
        (HostDialect::OpenRouter, Effort::High, "x/y", Some(r#"reasoning {"effort":"high"}"#)),
        (HostDialect::OpenAi, Effort::Off, "gpt-5.1", Some(r#"reasoning_effort "none""#)),
        (HostDialect::OpenAi, Effort::Off, "gpt-5-mini", Some(r#"reasoning_effort "minimal""#)),
        (HostDialect::OpenAi, Effort::Off, "o4-mini", Some(r#"reasoning_effort "low""#)),
        (HostDialect::OpenAi, Effort::Low, "gpt-5-pro", Some(r#"reasoning_effort "high""#)),
        (HostDialect::OpenAi, Effort::High, "gpt-4.1", None),
        (HostDialect::Mistral, Effort::High, "magistral", None),
    ] {
        assert_eq!(said(dialect, effort, model).as_deref(), expected, "{effort:?} {model}");
    }
}
