//! Large things on the page: a file of the greatest size, and a conversation of ten thousand messages.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::browser::{Browser, rig};

/// The largest file that the page takes.
const FILE_BYTES: usize = 50_000_000;

const MESSAGES: usize = 10_000;

async fn upload(browser: &Browser, bytes: usize) -> (StatusCode, Value) {
    let upload = browser.request(Method::POST, "/files").body(vec![b'x'; bytes]);
    let response = upload.send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_file_of_50_megabytes_is_taken_and_a_larger_one_leaves_nothing() {
    let mut rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let uploads = rig.path().join("web");
    let (status, refusal) = upload(&browser, FILE_BYTES + 1).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{refusal}");
    assert!(refusal["error"]["message"].as_str().unwrap().contains("50 MB"), "{refusal}");
    assert_eq!(std::fs::read_dir(&uploads).unwrap().count(), 0);
    let (status, kept) = upload(&browser, FILE_BYTES).await;
    assert_eq!(status, StatusCode::OK);
    let kept_file = uploads.join(kept["id"].as_str().unwrap());
    assert_eq!(std::fs::metadata(kept_file).unwrap().len(), FILE_BYTES as u64);
    // It goes with a message, which is answered whatever becomes of the file.
    let files = json!([{ "id": kept["id"], "name": "film.bin" }]);
    let message = json!({ "session": "main", "id": "message-1", "text": "look", "files": files });
    assert_eq!(browser.post("/messages", &message).await.status(), StatusCode::ACCEPTED);
    let answer = browser.stream("main", "0.0").await.answer().await;
    assert!(answer.contains("look"), "{answer}");
    rig.settled().await;
    rig.finish().await;
}

#[tokio::test]
async fn ten_thousand_messages_are_read_in_pages_and_by_a_stream() {
    let mut rig = rig().await;
    let browser = Browser::owner(&rig).await;
    browser.say("main", "message-1", "hello").await;
    rig.settled().await;
    rig.execute(&format!(
        "INSERT INTO outbox (channel, chat, body, created, state, next)
         WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MESSAGES})
         SELECT channel, chat, json_object('text', 'number ' || n), created + n, 'sent', next
         FROM numbers, (SELECT * FROM outbox WHERE channel = 'web' LIMIT 1)"
    ));
    let (mut seen, mut before, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = browser.get(&format!("/sessions/main{before}")).await;
        let messages = page["messages"].as_array().unwrap();
        let texts = messages.iter().map(|it| it["text"].as_str().unwrap().to_owned());
        seen.splice(0..0, texts.collect::<Vec<_>>());
        pages += 1;
        match page["before"].as_str() {
            Some(place) => before = format!("?before={place}"),
            None => break,
        }
    }
    let numbers = (1..=MESSAGES).map(|n| format!("number {n}"));
    let expected: Vec<_> =
        ["hello".to_owned(), "re: hello".to_owned()].into_iter().chain(numbers).collect();
    assert_eq!(seen, expected);
    assert_eq!(pages, (MESSAGES + 2).div_ceil(50));
    let mut stream = browser.stream("main", "0.0").await;
    for text in &expected {
        assert_eq!(stream.next("message").await.unwrap().data["text"], **text);
    }
    // It is as quick to speak there as elsewhere.
    browser.say("main", "message-2", "and now?").await;
    while stream.answer().await != "re: and now?" {}
    rig.finish().await;
}
