//! Things that one person says and has done on the page, or by the API, are on nobody else's list, stream or page; the owner
//! sees in the events that others are answered, and not what.

use std::fs;

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::browser::{Browser, Stream, rig, token_of};
use crate::support::rig::{OWNER, Rig, USER};
use crate::support::script::{Reply, calls, says};

const STORES: [&str; 4] = ["said", "answer", "argument", "result"];

fn secret(who: &str, store: &str) -> String {
    format!("{who}-{store}-marmalade")
}

/// The model looks for a file, whose name and text are private, and answers.
fn looks(who: &str) -> [Reply; 2] {
    let path = format!("{}.md", secret(who, "argument"));
    [calls(&[("read_file", json!({"path": path}))]), says(&secret(who, "answer"))]
}

async fn events(browser: &Browser) -> Stream {
    Stream::of(browser.request(Method::GET, "/events").send().await.unwrap())
}

/// All that a person gets from the gateway.
async fn see_everything(rig: &Rig, browser: &Browser, who: &str) -> String {
    let mut seen = String::new();
    for path in [
        "/sessions",
        "/sessions/main",
        "/sessions/api",
        "/usage",
        "/me",
        "/openapi.json",
        "/metrics",
        "/health",
    ] {
        let response = browser.request(Method::GET, path).send().await.unwrap();
        seen.push_str(&response.text().await.unwrap());
    }
    // The names of others' sessions lead nowhere.
    for session in ["local%2Fmain", "ben%2Fmain", "..%2Flocal%2Fmain", "8%2Fmain"] {
        let path = format!("/sessions/{session}");
        let response = browser.request(Method::GET, &path).send().await.unwrap();
        assert_ne!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
        seen.push_str(&response.text().await.unwrap());
    }
    let models = browser.client.get(format!("{}/v1/models", browser.url));
    let models = models.bearer_auth(token_of(who)).send().await.unwrap();
    seen.push_str(&models.text().await.unwrap());
    let files = rig.query("SELECT DISTINCT chat FROM outbox WHERE channel = 'web'");
    assert!(!files.is_empty());
    seen
}

#[tokio::test]
async fn nobody_sees_what_others_say_and_have_done_on_the_page() {
    let mut rig = rig().await;
    rig.ask(OWNER, "hello").await;
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    let (mut of_owner, mut of_ben) = (events(&owner).await, events(&ben).await);
    fs::write(
        rig.workspace().join(format!("{}.md", secret("local", "argument"))),
        secret("local", "result"),
    )
    .unwrap();
    for (who, browser) in [("local", &owner), ("ben", &ben)] {
        rig.model.on(&secret(who, "said"), looks(who));
        browser.say("main", &format!("message-of-{who}"), &secret(who, "said")).await;
        assert_eq!(browser.stream("main", "0.0").await.answer().await, secret(who, "answer"));
        rig.settled().await;
    }
    // Somebody on another channel, too.
    rig.model.on(&secret("user", "said"), looks("user"));
    rig.say_as(USER, "2", &secret("user", "said"));
    assert_eq!(rig.next_message("2").await, secret("user", "answer"));
    ben.say("main", "message-2", "the end").await;
    owner.say("main", "message-2", "the end").await;
    let mut seen = vec![
        ("local", see_everything(&rig, &owner, "local").await),
        ("ben", see_everything(&rig, &ben, "ben").await),
    ];
    for (who, stream) in [("local", &mut of_owner), ("ben", &mut of_ben)] {
        let (mut all, mut turns) = (String::new(), 0);
        loop {
            let event = stream.any().await.unwrap();
            all.push_str(&event.data.to_string());
            let own = event.data["address"]["chat"] == format!("{who}/main");
            turns += usize::from(own && event.event == "turn_end");
            if turns == 2 {
                break;
            }
        }
        // The owner sees that the others were answered.
        assert_eq!(all.contains("\"chat\":\"2\""), who == "local", "{all}");
        assert!(all.contains("read_file"), "{all}");
        seen.push((who, all));
    }
    for (reader, all) in &seen {
        for teller in ["local", "ben", "user"].iter().filter(|teller| *teller != reader) {
            for store in STORES {
                let leaked = all.contains(&secret(teller, store));
                assert!(!leaked, "{reader} sees {store} of {teller}: {all}");
            }
        }
    }
    for (reader, all) in &seen[2..] {
        assert!(all.contains(&secret(reader, "answer")), "{reader}: {all}");
    }
    rig.finish().await;
}
