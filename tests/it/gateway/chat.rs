//! The page as a channel: each message once, nothing missed, people apart.

use peacrab::channels::Channel as _;
use peacrab::channels::web::{PageNotice, Web};
use peacrab::people::LOCAL;
use peacrab::replies;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::browser::{Browser, client, rig, url};
use crate::support::outbound::text_to;
use crate::support::script::{Gate, calls, held, paced, says};

#[tokio::test]
async fn answers_on_the_page_while_it_is_written() {
    let rig = rig().await;
    let gate = Gate::shut();
    rig.model.on("weather", [paced(&[("It **is** ", None), ("sunny.", Some(&gate))])]);
    let browser = Browser::owner(&rig).await;
    let mut stream = browser.stream("main", "0.0").await;
    assert_eq!(browser.say("main", "message-1", "weather?").await, StatusCode::ACCEPTED);
    let mine = stream.next("message").await.unwrap();
    assert_eq!((&mine.data["from"], &mine.data["text"]), (&json!("you"), &json!("weather?")));
    let draft = loop {
        let draft = stream.next("draft").await.unwrap();
        if draft.data["text"] != "" {
            break draft;
        }
    };
    assert_eq!(draft.data["html"], "<p>It <strong>is</strong></p>\n");
    gate.open();
    let answer = stream.next("message").await.unwrap();
    assert_eq!(answer.data["html"], "<p>It <strong>is</strong> sunny.</p>\n");
    assert_eq!(answer.id.as_deref(), answer.data["cursor"].as_str());
    rig.finish().await;
}

#[tokio::test]
async fn a_repeated_request_sends_once() {
    let rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let mut stream = browser.stream("main", "0.0").await;
    let (one, two) = tokio::join!(
        browser.say("main", "same-one", "hello"),
        browser.say("main", "same-one", "hello")
    );
    let mut both = [one, two];
    both.sort();
    assert_eq!(both, [StatusCode::OK, StatusCode::ACCEPTED]);
    assert_eq!(stream.answer().await, "re: hello");
    assert_eq!(browser.say("main", "another-1", "bye").await, StatusCode::ACCEPTED);
    assert_eq!(stream.answer().await, "re: bye");
    assert_eq!(
        rig.query("SELECT json_extract(message, '$.body.text') FROM inbound"),
        ["hello", "bye"]
    );
    rig.finish().await;
}

#[tokio::test]
async fn a_page_that_was_away_misses_nothing() {
    let mut rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let mut stream = browser.stream("main", "0.0").await;
    browser.say("main", "message-1", "one").await;
    assert_eq!(stream.answer().await, "re: one");
    drop(stream);
    let end = browser.get("/sessions/main").await["cursor"].as_str().unwrap().to_owned();
    // The laptop sleeps. Others speak, and the daemon is restarted.
    let other = Browser::owner(&rig).await;
    other.say("main", "message-2", "two").await;
    rig.settled().await;
    rig.stop_and_start_again().await;
    let other = Browser { url: url(&rig).await, ..other };
    other.say("main", "message-3", "three").await;
    rig.settled().await;
    let browser = Browser { url: url(&rig).await, ..browser };
    let mut stream = browser.stream("main", &end).await;
    let mut texts = Vec::new();
    for _ in 0..4 {
        let message = stream.next("message").await.unwrap();
        texts.push(message.data["text"].as_str().unwrap().to_owned());
    }
    assert_eq!(texts, ["two", "re: two", "three", "re: three"]);
    rig.finish().await;
}

#[tokio::test]
async fn a_page_hears_of_news_in_other_conversations_of_its_person_alone() {
    let rig = rig().await;
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let (mut plans, mut bens) =
        (owner.stream("plans", "0.0").await, ben.stream("plans", "0.0").await);
    owner.say("main", "message-1", "hello").await;
    assert_eq!(plans.next("elsewhere").await.unwrap().data, json!({}));
    // Nothing of it is shown there, and Ben hears of nothing but his own.
    owner.say("plans", "message-2", "and here?").await;
    let mut first = plans.next("message").await.unwrap().data;
    assert_eq!(first["text"].take(), "and here?");
    ben.say("plans", "message-1", "hello").await;
    let events = [bens.any().await.unwrap().event, bens.any().await.unwrap().event];
    assert!(!events.contains(&"elsewhere".to_owned()), "{events:?}");
    rig.finish().await;
}

#[tokio::test]
async fn news_elsewhere_never_take_the_place_of_those_here() {
    let folder = tempfile::tempdir().unwrap();
    let web = Web::new("web".into(), folder.path().to_owned());
    let main = web.address(&LOCAL.into(), "main");
    let mut signs = web.attach(&main.chat);
    for n in 0..100 {
        let other = web.address(&LOCAL.into(), &format!("other-{n}"));
        web.send(&text_to(n, other, "hello")).await.unwrap();
    }
    web.send(&text_to(100, main, "hello")).await.unwrap();
    let given: Vec<_> = std::iter::from_fn(|| signs.try_recv().ok()).collect();
    assert!(
        given.contains(&PageNotice::NewElsewhere) && given.contains(&PageNotice::NewMessages),
        "{given:?}"
    );
}

#[tokio::test]
async fn a_stop_of_the_daemon_ends_streams() {
    let mut rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let mut stream = browser.stream("main", "0.0").await;
    rig.stop_by_itself().await;
    assert!(stream.next("message").await.is_none());
}

#[tokio::test]
async fn a_long_conversation_is_read_in_pages() {
    let mut rig = rig().await;
    let browser = Browser::owner(&rig).await;
    for n in 0..60 {
        let id = format!("message-{n}");
        assert_eq!(browser.say("main", &id, &format!("/btw{n}x")).await, StatusCode::ACCEPTED);
    }
    rig.settled().await;
    let last = browser.get("/sessions/main").await;
    let first =
        browser.get(&format!("/sessions/main?before={}", last["before"].as_str().unwrap())).await;
    let begin =
        browser.get(&format!("/sessions/main?before={}", first["before"].as_str().unwrap())).await;
    assert!(begin["before"].is_null());
    let mut mine = Vec::new();
    for page in [&begin, &first, &last] {
        let messages = page["messages"].as_array().unwrap();
        mine.extend(messages.iter().filter(|it| it["from"] == "you").map(|it| it["text"].clone()));
    }
    let expected: Vec<_> = (0..60).map(|n| json!(format!("/btw{n}x"))).collect();
    assert_eq!(mine, expected);
    rig.finish().await;
}

#[tokio::test]
async fn a_button_answers_a_question() {
    let rig = rig().await;
    let asks =
        calls(&[("ask_question", json!({"question": "Which?", "choices": ["red", "blue"]}))]);
    rig.model.on("paint", [asks, says("Blue it is.")]);
    let browser = Browser::owner(&rig).await;
    let mut stream = browser.stream("main", "0.0").await;
    browser.say("main", "message-1", "paint it").await;
    stream.next("message").await.unwrap();
    let question = stream.next("message").await.unwrap().data;
    assert_eq!(question["choices"], json!(["red", "blue"]));
    let press =
        json!({ "session": "main", "id": "press-00001", "message": question["id"], "choice": 1 });
    assert_eq!(browser.post("/press", &press).await.status(), StatusCode::ACCEPTED);
    let pressed = stream.next("message").await.unwrap().data;
    assert_eq!((&pressed["from"], &pressed["text"]), (&json!("you"), &json!("blue")));
    let decided = stream.next("message").await.unwrap().data;
    assert_eq!(decided["replaces"], question["id"]);
    assert_eq!(decided["text"], replies::decided("Which?", "blue", "owner"));
    assert_eq!(stream.answer().await, "Blue it is.");
    let again =
        json!({ "session": "main", "id": "press-00002", "message": question["id"], "choice": 0 });
    assert_eq!(browser.post("/press", &again).await.status(), StatusCode::CONFLICT);
    rig.finish().await;
}

#[tokio::test]
async fn stop_ends_the_turn() {
    let rig = rig().await;
    let gate = Gate::shut();
    rig.model.on("long", [held(&gate, says("never"))]);
    let browser = Browser::owner(&rig).await;
    let mut stream = browser.stream("main", "0.0").await;
    browser.say("main", "message-1", "a long one").await;
    let started = stream.next("activity").await.unwrap().data;
    assert_eq!(started, json!({ "turn": "start", "id": 1 }));
    browser.say("main", "message-2", "/stop").await;
    assert_eq!(stream.answer().await, replies::STOPPED);
    gate.open();
    rig.finish().await;
}

#[tokio::test]
async fn people_are_kept_apart() {
    let mut rig = rig().await;
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    assert_eq!(ben.get("/me").await["role"], "user");
    owner.say("main", "message-1", "my secret").await;
    ben.say("plans", "message-1", "hello").await;
    rig.settled().await;
    let names = |listed: serde_json::Value| listed["sessions"][0]["name"].clone();
    assert_eq!(names(owner.get("/sessions").await), "main");
    assert_eq!(names(ben.get("/sessions").await), "plans");
    assert_eq!(ben.get("/sessions/main").await["messages"], json!([]));
    assert!(ben.get("/sessions/plans").await.to_string().contains("re: hello"));
    assert_eq!(
        ben.request(Method::GET, "/usage").send().await.unwrap().status(),
        StatusCode::FORBIDDEN
    );
    assert!(owner.get("/usage").await["days_30"].is_array());
    rig.finish().await;
}

#[tokio::test]
async fn a_link_counts_once_and_a_sign_in_can_be_ended() {
    let mut rig = rig().await;
    let url = url(&rig).await;
    let entrance = rig.web.clone().unwrap();
    let link = entrance.link(&LOCAL.into()).await.unwrap();
    let code = link.strip_prefix(&format!("{url}/#")).unwrap().to_owned();
    let client = client();
    let enter = || client.post(format!("{url}/login")).json(&json!({ "code": code })).send();
    assert_eq!(enter().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(enter().await.unwrap().status(), StatusCode::UNAUTHORIZED);

    let (one, two) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let status = async |browser: &Browser| {
        browser.request(Method::GET, "/me").send().await.unwrap().status()
    };
    assert_eq!(one.post("/logout", &json!({})).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(status(&one).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&two).await, StatusCode::OK);
    // Only hashes are stored, and they hold after a restart.
    let value = two.cookie.split_once('=').unwrap().1;
    assert!(!rig.query("SELECT hash FROM web_logins").contains(&value.to_owned()));
    rig.stop_and_start_again().await;
    let two = Browser { url: super::browser::url(&rig).await, ..two };
    assert_eq!(status(&two).await, StatusCode::OK);
    rig.execute("DELETE FROM web_logins");
    assert_eq!(status(&two).await, StatusCode::UNAUTHORIZED);
    rig.finish().await;
}

#[tokio::test]
async fn a_turn_is_seen_at_work_by_its_person_alone() {
    let mut rig = rig().await;
    std::fs::write(rig.path().join("downloads/page.txt"), "what others wrote").unwrap();
    let read = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    rig.model.on("page", [read, says("Read.")]);
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let (mut own, mut bens) = (owner.stream("main", "0.0").await, ben.stream("main", "0.0").await);
    owner.say("main", "message-1", "the page").await;
    let mut seen = Vec::new();
    while seen.last() != Some(&json!({ "turn": "end" })) {
        seen.push(own.next("activity").await.unwrap().data);
    }
    let shape = |it: &serde_json::Value| {
        let mut keys: Vec<_> = it.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    let shapes: Vec<_> = seen.iter().map(shape).collect();
    let expected = [
        "id turn",
        "step",
        "step usage",
        "action args state tool",
        "action ms state tool",
        "action sources",
        "step",
        "step usage",
        "turn",
    ];
    assert_eq!(shapes, expected, "{seen:?}");
    assert_eq!(seen[3]["args"], "{\"path\":\"downloads/page.txt\"}");
    assert_eq!((&seen[4]["state"], &seen[4]["action"]), (&json!("done"), &seen[3]["action"]));
    assert_eq!(seen[5]["sources"], json!(["the file downloads/page.txt (untrusted)"]));
    assert!(seen[2]["usage"]["input"].is_u64(), "{}", seen[2]);
    rig.settled().await;
    ben.say("main", "message-1", "hello").await;
    let first = bens.next("activity").await.unwrap().data;
    assert_eq!(first, json!({ "turn": "start", "id": 2 }));
    assert_eq!(bens.answer().await, "re: hello");
    rig.finish().await;
}
