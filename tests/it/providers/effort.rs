//! How much a model is asked to think, as each API wants to hear it.

use super::*;
use crate::support::model_api::MODEL;

/// What a request holds that asks for this effort after these turns.
async fn sent(platform: Platform, config: Config, turns: &[Turn], effort: Effort) -> Value {
    let api = ModelApi::start(platform).await;
    api.know(&config.model);
    api.reply(Reply::events(&answer(platform, "Hi")));
    let config = Config { base_url: api.base_url.clone(), ..config };
    let request = Request {
        system: &system(),
        tools: &tools(),
        may_call: true,
        effort,
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
            Platform::OpenAi => Kind::OpenAi,
            Platform::Anthropic => Kind::Anthropic,
        },
        model: model.to_owned(),
        api_key: Some(Secret::new(KEY)),
        base_url: String::new(),
        tokens_max: Some(tokens_max),
        context: 100_000,
        tools: Tools::Native,
        images: false,
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
        heard: Some("See?".to_owned()),
        calls: vec![call("toolu_1", Outcome::Done("seen".to_owned()))],
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
