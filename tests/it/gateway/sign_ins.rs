//! The browsers that are signed in as a person: their list, their end, and the streams that end with them.

use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

use super::browser::{Browser, Stream, client, rig, token_of, url};
use crate::support::rig::{OTHER_USER, Rig, USER};
use crate::support::script::{Gate, held, says};

async fn sign_ins(browser: &Browser) -> Vec<Value> {
    browser.get("/sign-ins").await["sign_ins"].as_array().unwrap().clone()
}

async fn revoke(browser: &Browser, id: &str) -> StatusCode {
    let path = format!("/sign-ins/{id}");
    browser.post(&path, &json!({ "action": "revoke" })).await.status()
}

async fn status(browser: &Browser, path: &str) -> StatusCode {
    browser.request(Method::GET, path).send().await.unwrap().status()
}

async fn events(browser: &Browser) -> Stream {
    Stream::of(browser.request(Method::GET, "/events").send().await.unwrap())
}

/// Reads a stream to its end, which must not show a text.
async fn ends_without(mut stream: Stream, text: &str) {
    while let Some(sent) = stream.any().await {
        assert!(!sent.data.to_string().contains(text), "{sent:?}");
    }
}

#[tokio::test]
async fn people_see_and_end_their_own_sign_ins() {
    let rig = rig().await;
    let (owner, phone) = (Browser::owner(&rig).await, Browser::owner(&rig).await);
    let ben = Browser::of(&rig, "ben").await;
    rig.execute(
        "UPDATE web_logins SET agent = 'Phone <b>' WHERE hash = (SELECT hash FROM
         web_logins WHERE person = 'local' ORDER BY since DESC LIMIT 1)",
    );
    let listed = sign_ins(&owner).await;
    assert_eq!(listed.len(), 2, "{listed:?}");
    let other = listed.iter().find(|it| it["current"] == false).unwrap();
    assert!(listed.iter().any(|it| it["current"] == true), "{listed:?}");
    assert!(other["since"].is_string() && other["seen"].is_string(), "{other}");
    let other = other["id"].as_str().unwrap();
    // Nothing of it signs anybody in.
    assert!(!json!(listed).to_string().contains(owner.cookie.split('=').nth(1).unwrap()));
    let bens = sign_ins(&ben).await;
    assert_eq!((bens.len(), &bens[0]["current"]), (1, &json!(true)));
    assert_eq!(revoke(&ben, other).await, StatusCode::NOT_FOUND);
    for wrong in ["", "%00", "00000000", "ALL", "..", "a'%20OR%201=1"] {
        let refused = revoke(&ben, wrong).await;
        assert!(refused.is_client_error(), "{wrong}: {refused}");
    }
    let wrong = ben.post("/sign-ins/all", &json!({ "action": "end" })).await.status();
    assert_eq!(wrong, StatusCode::BAD_REQUEST);
    let forged = client().post(format!("{}/sign-ins/all", ben.url)).header("Cookie", &ben.cookie);
    let forged = forged.json(&json!({ "action": "revoke" })).send().await.unwrap();
    assert_eq!(forged.status(), StatusCode::FORBIDDEN);
    assert_eq!((sign_ins(&owner).await.len(), sign_ins(&ben).await.len()), (2, 1));
    // One browser signs the other out, whose streams end.
    let (of_phone, all) = (phone.stream("main", "0.0").await, events(&phone).await);
    let mut of_owner = owner.stream("main", "0.0").await;
    assert_eq!(revoke(&owner, other).await, StatusCode::OK);
    assert_eq!(revoke(&owner, other).await, StatusCode::NOT_FOUND);
    ends_without(of_phone, "re:").await;
    ends_without(all, "re:").await;
    assert_eq!(status(&phone, "/me").await, StatusCode::UNAUTHORIZED);
    owner.say("main", "message-1", "hello").await;
    assert_eq!(of_owner.answer().await, "re: hello");
    // All of one's own, and no others.
    assert_eq!(revoke(&owner, "all").await, StatusCode::OK);
    assert_eq!(status(&owner, "/sessions").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&ben, "/sessions").await, StatusCode::OK);
    ends_without(of_owner, "re:").await;
    rig.finish().await;
}

#[tokio::test]
async fn a_browser_is_listed_as_it_calls_itself() {
    let rig = rig().await;
    url(&rig).await;
    let link = rig.web.as_ref().unwrap().link(&"ben".into()).await.unwrap();
    let (at, code) = link.split_once("/#").unwrap();
    let login = client().post(format!("{at}/login")).json(&json!({ "code": code }));
    let agent = format!("Crab <script> {}", "x".repeat(500));
    let entered = login.header(header::USER_AGENT, agent).send().await.unwrap();
    assert_eq!(entered.status(), StatusCode::NO_CONTENT);
    // With a token, no browser is the current one.
    let listed = client().get(format!("{at}/sign-ins")).bearer_auth(token_of("ben"));
    let listed: Value = listed.send().await.unwrap().json().await.unwrap();
    let [only] = listed["sign_ins"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!(only["current"], false);
    let shown = only["browser"].as_str().unwrap();
    assert!(shown.starts_with("Crab <script> xxx") && shown.len() == 120, "{shown}");
    rig.finish().await;
}

#[tokio::test]
async fn both_accounts_of_a_person_on_the_page_list_the_same() {
    let mut rig = rig().await;
    rig.say_as(USER, "2", "/web");
    let made = Browser::by_link(&rig.next_message("2").await).await;
    rig.say_as(OTHER_USER, "3", "/web");
    let other = Browser::by_link(&rig.next_message("3").await).await;
    let ben = Browser::of(&rig, "ben").await;
    ben.say("main", "message-1", "hello").await;
    rig.settled().await;
    assert_eq!((sign_ins(&made).await.len(), sign_ins(&ben).await.len()), (1, 1));
    rig.execute(&format!(
        "UPDATE accounts SET person = (SELECT person FROM accounts WHERE channel = 'home' AND sender = '{USER}')
         WHERE channel = 'web' AND sender = 'ben'"
    ));
    assert_eq!((sign_ins(&made).await.len(), sign_ins(&ben).await.len()), (2, 2));
    assert_eq!(revoke(&made, "all").await, StatusCode::OK);
    assert_eq!(status(&ben, "/me").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&other, "/me").await, StatusCode::OK);
    rig.finish().await;
}

/// Ben is blocked while his answer is being written.
async fn blocked_in_a_turn(rig: &mut Rig, ben: &Browser) -> Stream {
    let gate = Gate::shut();
    rig.model.on("secret", [held(&gate, says("the secret answer"))]);
    let stream = ben.stream("main", "0.0").await;
    ben.say("main", "message-1", "a secret question").await;
    gate.reached(1).await;
    rig.execute("UPDATE persons SET blocked = 1 WHERE id = (SELECT person FROM accounts WHERE sender = 'ben')");
    gate.open();
    stream
}

#[tokio::test]
async fn a_stream_of_somebody_who_is_blocked_meanwhile_shows_no_more_messages() {
    let mut rig = rig().await;
    let ben = Browser::of(&rig, "ben").await;
    let stream = blocked_in_a_turn(&mut rig, &ben).await;
    ends_without(stream, "the secret answer").await;
    assert_eq!(status(&ben, "/sessions/main/stream").await, StatusCode::FORBIDDEN);
    rig.finish().await;
}

#[tokio::test]
async fn a_completion_ends_with_the_access_of_its_person() {
    let rig = rig().await;
    let ben = Browser::of(&rig, "ben").await;
    let asks = |text: &str| json!({ "model": "peacrab", "stream": true, "messages": [{ "role": "user", "content": text }] });
    let block = "UPDATE persons SET blocked = 1 WHERE id = (SELECT person FROM accounts WHERE sender = 'ben')";
    let sign_out = "DELETE FROM web_logins WHERE person = 'ben'";
    for (question, end) in [("first", sign_out), ("second", block)] {
        let gate = Gate::shut();
        rig.model.on(question, [held(&gate, says("the secret answer"))]);
        let ben = if question == "first" { &ben } else { &Browser::of(&rig, "ben").await };
        let response = ben.post("/v1/chat/completions", &asks(question)).await;
        assert_eq!(response.status(), StatusCode::OK);
        gate.reached(1).await;
        rig.execute(end);
        gate.open();
        let rest = response.text().await.unwrap();
        assert!(!rest.contains("secret") && !rest.contains("[DONE]"), "{rest}");
        assert!(rest.contains("authentication_error"), "{rest}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn more_sign_ins_than_a_person_needs_take_the_place_of_old_ones() {
    let rig = rig().await;
    let first = Browser::owner(&rig).await;
    let ben = Browser::of(&rig, "ben").await;
    rig.execute("UPDATE web_logins SET seen = seen - 5000 WHERE person = 'local'");
    rig.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 49)
         INSERT INTO web_logins (hash, person, since, seen, agent)
         SELECT format('%064d', i), 'local', since, seen + i, '' FROM n, web_logins WHERE person = 'local'",
    );
    assert_eq!(sign_ins(&first).await.len(), 50);
    let newest = Browser::owner(&rig).await;
    assert_eq!(sign_ins(&newest).await.len(), 50);
    assert_eq!(status(&first, "/me").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&ben, "/me").await, StatusCode::OK);
    rig.finish().await;
}
