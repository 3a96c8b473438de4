//! The stand-in refuses what Discord would refuse.

use serde_json::{Value, json};

use crate::support::discord_api::line::{ADA, CREW, Line, THREAD};
use crate::support::discord_api::{DiscordApi, TOKEN};

#[expect(clippy::disallowed_methods, reason = "loopback only, and the test has its own deadline")]
async fn call(api: &DiscordApi, token: &str, path: &str, body: &Value) -> (u16, u64) {
    let (method, path) = path.split_once(' ').unwrap();
    let url = format!("{}/api/v10{path}", api.url());
    let response = reqwest::Client::new()
        .request(method.parse().unwrap(), url)
        .header("authorization", format!("Bot {token}"))
        .header("user-agent", "DiscordBot (https://example.org, 1)")
        .json(body)
        .send()
        .await
        .unwrap();
    let status = response.status().as_u16();
    let answer: Value = response.json().await.unwrap_or_default();
    (status, answer["code"].as_u64().unwrap_or_default())
}

#[tokio::test]
async fn the_stand_in_is_strict() {
    let api = DiscordApi::start().await;
    let said = api.say(&Line::server(CREW, &ADA, "hello"));
    let ok = json!({ "content": "hi", "allowed_mentions": { "parse": [] } });
    let with = |field: &str, value: Value| {
        let mut body = ok.clone();
        body[field] = value;
        body
    };
    let post = format!("POST /channels/{CREW}/messages");
    let edit = format!("PATCH /channels/{CREW}/messages/{said}");
    let thread = format!("POST /channels/{CREW}/messages/{said}/threads");
    let nested = format!("POST /channels/{THREAD}/messages/{said}/threads");
    let row = |buttons: Value| json!([{ "type": 1, "components": buttons }]);
    for (token, path, body, expected) in [
        ("wrong", &post, ok.clone(), (401, 0)),
        (TOKEN, &"POST /channels/5/messages".to_owned(), ok.clone(), (404, 10003)),
        (TOKEN, &"POST /crabs".to_owned(), ok.clone(), (404, 0)),
        (TOKEN, &post, with("txet", json!("hi")), (400, 50035)),
        (TOKEN, &post, with("content", json!(5)), (400, 50035)),
        (TOKEN, &post, with("content", json!(" \n ")), (400, 50006)),
        (TOKEN, &post, with("content", json!("x".repeat(2001))), (400, 50035)),
        (TOKEN, &post, with("nonce", json!("x".repeat(26))), (400, 50035)),
        (TOKEN, &post, with("allowed_mentions", json!({ "parse": ["users"] })), (400, 50035)),
        (TOKEN, &post, json!({ "content": "hi" }), (400, 50035)),
        (TOKEN, &post, with("message_reference", json!({ "message_id": "5" })), (400, 50035)),
        (TOKEN, &post, with("components", row(json!([]))), (400, 50035)),
        (TOKEN, &edit, ok.clone(), (403, 50005)),
        (TOKEN, &thread, json!({ "name": "x".repeat(101) }), (400, 50035)),
        (TOKEN, &thread, json!({ "name": "x" }), (200, 0)),
        (TOKEN, &thread, json!({ "name": "x" }), (400, 160_004)),
        (TOKEN, &nested, json!({ "name": "x" }), (404, 10008)),
        (TOKEN, &"POST /interactions/5/x/callback".to_owned(), json!({ "type": 6 }), (404, 10062)),
        (TOKEN, &post, with("content", json!("🦀".repeat(2000))), (200, 0)),
    ] {
        assert_eq!(call(&api, token, path, &body).await, expected, "{path} {body}");
    }
    assert_eq!(api.sent().len(), 1);
}
