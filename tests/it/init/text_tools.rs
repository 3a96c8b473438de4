//! Models whose servers accept no tools: each request of a turn has some, so the test of the setup has one, too.

use std::fs;

use serde_json::json;

use super::{answer, config, empty, own_server, unwrapped};
use crate::support::binary::ProgramFixture;
use crate::support::model_api::{KEY, MODEL, ModelApi, Platform, Reply};

/// Ollama's refusal.
fn refusal() -> Reply {
    let message = "registry.ollama.ai/library/pea-1 does not support tools";
    Reply::error(400, &json!({"error": {"message": message, "type": "invalid_request_error"}}))
}

const SAID: &str = "It accepts no tools, so its section gets `tools = \"text\"`";

#[tokio::test]
async fn a_model_without_tools_gets_them_in_words() {
    let (fixture, model) = (empty(), own_server().await);
    model.reply(refusal());
    model.reply(answer("OK"));
    let args =
        ["init", "--yes", "--provider", &model.base_url, "--channel", "none", "--service", "none"];
    let ended = fixture.run(&args).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(unwrapped(&ended.out).contains(SAID), "{ended:?}");
    let requests = model.requests();
    assert!(requests[0]["tools"].is_array() && requests[1]["tools"].is_null(), "{requests:?}");
    assert!(requests[1].to_string().contains("<tool_call>"), "{requests:?}");
    let written = fs::read_to_string(config(&fixture)).unwrap();
    let expected = format!(
        "[providers.server]\ntype = \"openai\"\nmodel = \"{MODEL}\"\nbase_url = \"{}\"\ntools = \"text\"\n",
        model.base_url
    );
    assert_eq!(written, expected);
    // It answers a message.
    model.reply(answer("Hello."));
    let daemon = fixture.daemon().await;
    let ended = fixture.run(&["chat", "-m", "hello"]).await;
    assert!(ended.out.contains("Hello."), "{ended:?}");
    daemon.terminate().await;
    // Once more: nothing is changed.
    model.reply(answer("OK"));
    let ended = fixture.run(&["init", "--yes", "--channel", "none", "--service", "none"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(fs::read_to_string(config(&fixture)).unwrap(), written);
    model.finish();
}

#[tokio::test]
async fn a_model_of_the_config_without_tools_gets_them_in_words() {
    let model = ModelApi::start(Platform::OpenAi).await;
    let section = format!(
        "[providers.main]   # at home\ntype = \"openai\"\nmodel = \"{MODEL}\"\nbase_url = \"{}\"\napi_key = \"{KEY}\"\n",
        model.base_url
    );
    for (before, after) in [
        ("# The end.\n", "tools = \"text\"\n# The end.\n"),
        ("tools = \"native\"   # for now\n", "tools = \"text\"   # for now\n"),
    ] {
        let fixture = ProgramFixture::new(&format!("{section}{before}"));
        model.reply(refusal());
        model.reply(answer("OK"));
        let ended = fixture.run(&["init", "--yes", "--channel", "none", "--service", "none"]).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        assert!(unwrapped(&ended.out).contains(SAID), "{ended:?}");
        assert_eq!(fs::read_to_string(config(&fixture)).unwrap(), format!("{section}{after}"));
    }
    model.finish();
}

#[tokio::test]
async fn a_model_that_answers_neither_way_is_not_saved() {
    let (fixture, model) = (empty(), own_server().await);
    model.reply(refusal());
    model.reply(Reply::error(400, &json!({"error": {"message": "no template"}})));
    let args = ["init", "--yes", "--provider", &model.base_url, "--channel", "none"];
    let ended = fixture.run(&args).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("no template"), "{ended:?}");
    assert!(!config(&fixture).exists());
    model.finish();
}
