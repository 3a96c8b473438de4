//! `init --yes --json`: one object for a script on the standard output, and the progress beside it.

use std::fs;

use serde_json::{Value, json};

use super::{answer, config, empty, unwrapped};
use crate::json_output::{fails, parsed};
use crate::support::binary::{Ended, ProgramFixture};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;
use crate::support::model_api::{KEY, MODEL, ModelApi, Platform};

/// Sets up a home, and returns its outcome.
async fn set_up(fixture: &ProgramFixture, args: &[&str]) -> (Value, Ended) {
    let ended = fixture.run(&[&["init", "--yes", "--json"], args].concat()).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    (parsed(&ended), ended)
}

fn put(fixture: &ProgramFixture, name: &str, text: &str) -> String {
    let path = fixture.folder().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn a_script_gets_the_whole_outcome_and_the_progress_beside_it() {
    let (fixture, model, api) =
        (empty(), ModelApi::start(Platform::OpenAi).await, BotApi::start().await);
    let (key, token) = (put(&fixture, "my-key", KEY), put(&fixture, "my-token", api.token()));
    let owner = ADA.id.to_string();
    api.is_known_to(&ADA);
    model.reply(answer("OK"));
    let telegram = ["--channel", "telegram", "--token-file", &token, "--api-url", api.url()];
    let with_model = ["--provider", &model.base_url, "--model", MODEL, "--key-file", &key];
    let args = [&with_model as &[&str], &telegram, &["--owner", &owner]].concat();
    let (outcome, ended) = set_up(&fixture, &args).await;
    model.finish();
    for (name, value) in [
        ("home", json!(fixture.home())),
        ("config", json!(config(&fixture))),
        ("provider", json!("server")),
        ("model", json!(MODEL)),
        ("channel", json!("telegram")),
        ("owner", json!("paired")),
        ("pairing", Value::Null),
        ("service", json!("none")),
    ] {
        assert_eq!(outcome[name], value, "{name}: {outcome}");
    }
    assert!(outcome["bot"].as_str().unwrap().contains("peacrab_bot"), "{outcome}");
    assert_eq!(outcome["link"], "https://t.me/peacrab_bot", "{outcome}");
    assert!(outcome["next"].as_str().unwrap().contains("Start it with"), "{outcome}");
    assert!(!outcome["warnings"].to_string().contains("has not reached you"), "{outcome}");
    let progress = unwrapped(&ended.err);
    assert!(progress.contains("Testing: ") && progress.contains("All is set up."), "{ended:?}");
    let secrets = [KEY, api.token()];
    let written = ended.out + &ended.err;
    assert!(!secrets.iter().any(|secret| written.contains(secret)), "{written}");
}

#[tokio::test]
async fn a_script_learns_how_somebody_becomes_the_owner_and_what_went_wrong_beside() {
    let (fixture, api) = (empty(), BotApi::start().await);
    let token = put(&fixture, "my-token", api.token());
    let telegram = ["--channel", "telegram", "--token-file", &token, "--api-url", api.url()];
    let args = [&["--provider", "none"] as &[&str], &telegram].concat();
    let (outcome, _) = set_up(&fixture, &args).await;
    assert_eq!((&outcome["provider"], &outcome["model"]), (&Value::Null, &Value::Null));
    assert_eq!(outcome["owner"], "pending", "{outcome}");
    assert!(outcome["pairing"].as_str().unwrap().contains(" pair approve CODE`"), "{outcome}");
    assert!(
        outcome["warnings"].to_string().contains("nobody has access until paired"),
        "{outcome}"
    );
    // Telegram lets no bot write first.
    let owner = ADA.id.to_string();
    let (outcome, _) = set_up(&fixture, &[&args as &[&str], &["--owner", &owner]].concat()).await;
    assert_eq!((&outcome["owner"], &outcome["pairing"]), (&json!("paired"), &Value::Null));
    assert!(outcome["warnings"].to_string().contains("has not reached you"), "{outcome}");
}

#[tokio::test]
async fn a_home_in_which_nothing_is_set_up_is_told_from_others() {
    let fixture = empty();
    let (outcome, _) = set_up(&fixture, &["--provider", "none", "--channel", "none"]).await;
    for name in ["config", "provider", "model", "channel", "bot", "link", "pairing"] {
        assert_eq!(outcome[name], Value::Null, "{name}: {outcome}");
    }
    assert_eq!(outcome["owner"], "none", "{outcome}");
}

#[tokio::test]
async fn a_script_that_can_be_asked_nothing_and_each_failure_is_told() {
    let fixture = empty();
    let ended = fixture.run(&["init", "--json"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.err.contains("--yes"), "{ended:?}");
    let run =
        async |args: &[&str]| fixture.run(&[&["init", "--yes", "--json"], args].concat()).await;
    let ended = run(&["--provider", "none", "--channel", "icq"]).await;
    fails(&ended, 1, "icq is not a platform");
    fails(&run(&["--provider", "http://127.0.0.1:9/v1"]).await, 1, "cannot be reached");
    assert!(!config(&fixture).exists());
    let broken = ProgramFixture::new("[agent]\nstep_max = 3\n");
    fails(&broken.run(&["init", "--yes", "--json"]).await, 2, "steps_max");
}
