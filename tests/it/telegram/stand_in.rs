//! The stand-in refuses what Telegram would refuse.

use serde_json::{Value, json};

use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, Line};

#[expect(clippy::disallowed_methods, reason = "loopback only, and the test has its own deadline")]
async fn call(api: &BotApi, token: &str, method: &str, body: &Value) -> (u16, String) {
    let url = format!("{}/bot{token}/{method}", api.url());
    let response = reqwest::Client::new().post(url).json(body).send().await.unwrap();
    let status = response.status().as_u16();
    let answer: Value = response.json().await.unwrap();
    (status, answer["description"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn the_stand_in_is_strict() {
    let api = BotApi::start().await;
    api.say(&Line::private(&ADA, "hello"));
    let (ok, token) = (json!({ "chat_id": ADA.id, "text": "hi" }), api.token());
    let with = |field: &str, value: Value| {
        let mut body = ok.clone();
        body[field] = value;
        body
    };
    for (token, method, body, expected) in [
        ("1:wrong", "sendMessage", ok.clone(), (401, "Unauthorized")),
        (token, "sendCrab", ok.clone(), (404, "Not Found")),
        (token, "sendMessage", json!({ "text": "hi" }), (400, "chat_id is empty")),
        (token, "sendMessage", with("chat_id", json!(12)), (400, "chat not found")),
        (token, "sendMessage", with("chat_id", json!([])), (400, "wrong type")),
        (token, "sendMessage", with("txet", json!("hi")), (400, "unknown parameter")),
        (token, "sendMessage", with("text", json!(" \n ")), (400, "message text is empty")),
        (token, "sendMessage", with("text", json!("🦀".repeat(2049))), (400, "too long")),
        (token, "sendMessage", with("message_thread_id", json!(3)), (400, "thread not found")),
        (token, "SENDMESSAGE", with("chat_id", json!("7001")), (200, "")),
    ] {
        let (status, words) = call(&api, token, method, &body).await;
        assert!(status == expected.0 && words.contains(expected.1), "{body}: {status} {words}");
    }
    assert_eq!(api.sent().len(), 1);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "loopback only, and the test has its own deadline")]
async fn the_stand_in_reads_forms_too() {
    let api = BotApi::start().await;
    api.say(&Line::private(&ADA, "hello"));
    let url = format!("{}/bot{}/sendMessage", api.url(), api.token());
    let client = reqwest::Client::new();
    let form = client.post(&url).form(&[("chat_id", "7001"), ("text", "12")]);
    assert!(form.send().await.unwrap().status().is_success());
    let parts = reqwest::multipart::Form::new().text("chat_id", "7001").text("text", "13");
    assert!(client.post(&url).multipart(parts).send().await.unwrap().status().is_success());
    let texts: Vec<_> = api.sent().into_iter().map(|sent| sent.text).collect();
    assert_eq!(texts, ["12", "13"]);
}

#[tokio::test]
async fn the_stand_in_reads_html_as_strictly_as_telegram() {
    let api = BotApi::start().await;
    api.say(&Line::private(&ADA, "hello"));
    let say = async |html: &str| {
        let preview = json!({ "is_disabled": true });
        let body = json!({
            "chat_id": ADA.id, "text": html, "parse_mode": "HTML", "link_preview_options": preview,
        });
        call(&api, api.token(), "sendMessage", &body).await
    };
    for (html, seen) in [
        ("<b>bold <i>both</i></b> &lt;&amp;&gt; &#33;&#x21;", "bold both <&> !!"),
        ("<pre><code class=\"language-rust\">a &lt; b</code></pre>", "a < b"),
        ("<a href=\"https://example.org/?a=1&amp;b=2\">here</a>", "here"),
        ("<blockquote expandable>much</blockquote>", "much"),
        ("<span class=\"tg-spoiler\">dark</span> <tg-spoiler>too</tg-spoiler>", "dark too"),
    ] {
        assert_eq!(say(html).await, (200, String::new()), "{html}");
        assert_eq!(api.sent().pop().unwrap().text, seen);
    }
    for html in [
        "2 < 3",
        "2 > 3",
        "fish & chips",
        "<b>open",
        "<b><i>crossed</b></i>",
        "closed</b>",
        "<h1>title</h1>",
        "<a>nowhere</a>",
        "<code><b>bold code</b></code>",
        "<b class=\"x\">classy</b>",
        "&nbsp;",
    ] {
        let (status, words) = say(html).await;
        assert!(
            status == 400 && words.contains("can't parse entities"),
            "{html}: {status} {words}"
        );
    }
    let long = format!("<b>{}</b>", "&lt;".repeat(4096));
    assert_eq!(say(&long).await.0, 200);
    assert_eq!(say(&format!("{long}!")).await.0, 400);
}
