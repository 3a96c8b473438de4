//! Files of people, and of the bot.

use std::fs;

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::browser::{Browser, rig};
use crate::support::script::{calls, says};

#[tokio::test]
async fn a_file_goes_with_its_message() {
    let mut rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let upload = browser.request(Method::POST, "/files").body("apples\npears\n");
    let upload: serde_json::Value = upload.send().await.unwrap().json().await.unwrap();
    let files = json!([{ "id": upload["id"], "name": "../list.txt" }]);
    let message =
        json!({ "session": "main", "id": "message-1", "text": "my list", "files": files });
    assert_eq!(browser.post("/messages", &message).await.status(), StatusCode::ACCEPTED);
    let mut stream = browser.stream("main", "0.0").await;
    stream.answer().await;
    rig.settled().await;
    let path =
        rig.query("SELECT json_extract(message, '$.body.media[0].fetched.workspace') FROM inbound");
    assert_eq!(fs::read_to_string(rig.path().join(&path[0])).unwrap(), "apples\npears\n");
    // Another file of the home is none.
    let files = json!([{ "id": "../state.db", "name": "x" }]);
    let message = json!({ "session": "main", "id": "message-2", "text": "that", "files": files });
    assert_eq!(browser.post("/messages", &message).await.status(), StatusCode::ACCEPTED);
    stream.answer().await;
    let failed = rig.query(
        "SELECT json_extract(message, '$.body.media[0].fetched.failed') FROM inbound ORDER BY id DESC LIMIT 1",
    );
    assert_eq!(failed, ["the upload is gone"]);
    rig.finish().await;
}

#[tokio::test]
async fn uploads_without_messages_are_bounded_for_each_person() {
    let rig = rig().await;
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let upload = async |browser: &Browser| {
        let response = browser.request(Method::POST, "/files").body("x").send().await.unwrap();
        (response.status(), response.json::<serde_json::Value>().await.unwrap())
    };
    for n in 0..20 {
        assert_eq!(upload(&ben).await.0, StatusCode::OK, "{n}");
    }
    let (status, refused) = upload(&ben).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.starts_with("too many files wait for their messages"), "{words}");
    assert_eq!(upload(&owner).await.0, StatusCode::OK);
    // What is old makes room.
    let week = std::time::SystemTime::now() - std::time::Duration::from_secs(7 * 24 * 3600);
    for entry in fs::read_dir(rig.path().join("web")).unwrap() {
        let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(week).unwrap();
    }
    assert_eq!(upload(&ben).await.0, StatusCode::OK);
    assert_eq!(fs::read_dir(rig.path().join("web")).unwrap().count(), 1);
    rig.finish().await;
}

#[tokio::test]
async fn a_file_of_the_bot_can_be_saved() {
    let mut rig = rig().await;
    fs::write(rig.workspace().join("report.html"), "<script>alert(1)</script>").unwrap();
    let sends = calls(&[("message", json!({"text": "Here.", "files": ["report.html"]}))]);
    rig.model.on("report", [sends, says("NO_REPLY")]);
    let browser = Browser::owner(&rig).await;
    let mut stream = browser.stream("main", "0.0").await;
    browser.say("main", "message-1", "the report").await;
    stream.next("message").await.unwrap();
    let sent = stream.next("message").await.unwrap().data;
    assert_eq!(sent["files"][0]["name"], "report.html");
    rig.settled().await;
    // The page keeps what was sent.
    fs::remove_file(rig.workspace().join("report.html")).unwrap();
    let path = format!("/sessions/main/files/{}", sent["files"][0]["id"].as_str().unwrap());
    let file = browser.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(file.headers()["content-disposition"], "attachment");
    assert_eq!(file.headers()["content-type"], "application/octet-stream");
    assert_eq!(file.text().await.unwrap(), "<script>alert(1)</script>");
    let ben = Browser::of(&rig, "ben").await;
    let theirs = ben.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(theirs.status(), StatusCode::NOT_FOUND);
    rig.finish().await;
}
