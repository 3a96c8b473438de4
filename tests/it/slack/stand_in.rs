//! The stand-in refuses what Slack would refuse.

use serde_json::{Value, json};
use tokio_tungstenite::connect_async;

use super::CREW;
use crate::support::slack_api::{APP_TOKEN, BOT_TOKEN, SlackApi};

const JSON: &str = "application/json; charset=utf-8";
const FORM: &str = "application/x-www-form-urlencoded";

#[expect(clippy::disallowed_methods, reason = "loopback only, and the test has its own deadline")]
async fn call(api: &SlackApi, token: &str, method: &str, kind: &str, body: &str) -> Value {
    let url = format!("{}/{method}", api.url());
    let post = reqwest::Client::new().post(url).bearer_auth(token).header("content-type", kind);
    post.body(body.to_owned()).send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn the_stand_in_is_strict() {
    let api = SlackApi::start().await;
    let ok = json!({ "channel": CREW, "text": "hi" });
    let with = |field: &str, value: Value| {
        let mut body = ok.clone();
        body[field] = value;
        body.to_string()
    };
    let metadata = json!({ "event_type": "x", "event_payload": "y" });
    let (post, history) = ("chat.postMessage", "conversations.history");
    for (token, method, kind, body, expected) in [
        ("xoxb-wrong", post, JSON, ok.to_string(), "invalid_auth"),
        (APP_TOKEN, post, JSON, ok.to_string(), "not_allowed_token_type"),
        (BOT_TOKEN, "chat.crab", JSON, ok.to_string(), "unknown_method"),
        (BOT_TOKEN, post, "application/json", ok.to_string(), "invalid_post_type"),
        (BOT_TOKEN, post, JSON, "{".to_owned(), "invalid_json"),
        (BOT_TOKEN, post, JSON, json!({ "text": "hi" }).to_string(), "channel_not_found"),
        (BOT_TOKEN, post, JSON, with("text", json!("")), "no_text"),
        (BOT_TOKEN, post, JSON, with("text", json!("x".repeat(40_001))), "msg_too_long"),
        (BOT_TOKEN, post, JSON, with("txet", json!("hi")), "invalid_arguments"),
        (BOT_TOKEN, post, JSON, with("thread_ts", json!("170000.1")), "invalid_ts"),
        (BOT_TOKEN, post, JSON, with("metadata", metadata), "invalid_metadata_format"),
        (BOT_TOKEN, post, JSON, with("blocks", json!([{ "type": "actions" }])), "invalid_blocks"),
        (BOT_TOKEN, history, JSON, ok.to_string(), "invalid_post_type"),
        (BOT_TOKEN, history, FORM, "limit=10".to_owned(), "channel_not_found"),
        (BOT_TOKEN, history, FORM, format!("channel={CREW}&limit=ten"), "invalid_arguments"),
    ] {
        let answer = call(&api, token, method, kind, &body).await;
        assert_eq!((&answer["ok"], &answer["error"]), (&json!(false), &json!(expected)), "{body}");
    }
    assert_eq!(call(&api, BOT_TOKEN, post, JSON, &ok.to_string()).await["ok"], true);
    assert_eq!(api.sent().len(), 1);
}

#[tokio::test]
async fn a_ticket_is_good_for_one_link() {
    let api = SlackApi::start().await;
    let opened = call(&api, APP_TOKEN, "apps.connections.open", FORM, "").await;
    let url = opened["url"].as_str().unwrap();
    let _link = connect_async(url).await.unwrap();
    assert!(connect_async(url).await.is_err());
}
