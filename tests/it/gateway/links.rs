//! `/web`: who gets a link to sign in, where, and how often.

use peacrab::gateway::Config;
use peacrab::people::LOCAL;
use peacrab::replies;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use super::browser::{Browser, client, config, rig, token_of, url};
use crate::support::rig::{Parts, Rig, USER};

/// The person whom a link in an answer signs in.
async fn signed_in_by(answer: &str) -> (String, String) {
    let link = answer.lines().find(|line| line.starts_with("http://")).expect(answer);
    let (url, code) = link.split_once("/#").unwrap();
    let client = Client::builder().no_proxy().build().unwrap();
    let entered = client.post(format!("{url}/login")).json(&json!({ "code": code }));
    let entered = entered.send().await.unwrap();
    assert_eq!(entered.status(), StatusCode::NO_CONTENT);
    let cookie = entered.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let me = client.get(format!("{url}/me")).header("Cookie", cookie).send().await.unwrap();
    let me: Value = me.json().await.unwrap();
    (me["name"].as_str().unwrap().to_owned(), me["role"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_owner_gets_a_link_in_a_private_chat() {
    let mut rig = rig().await;
    url(&rig).await;
    let answer = rig.ask("1", "/web").await;
    assert!(answer.contains("only on the computer on which I run"), "{answer}");
    assert_eq!(signed_in_by(&answer).await, ("owner".to_owned(), "owner".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn a_public_address_stands_in_the_link() {
    let config = Config { url: Some("https://bot.example".to_owned()), ..config() };
    let mut rig = Rig::of(Parts { gateway: Some(config), ..Parts::default() }).await;
    url(&rig).await;
    let answer = rig.ask("1", "/web").await;
    assert!(answer.contains("\nhttps://bot.example/#"), "{answer}");
    assert!(!answer.contains("only on the computer"), "{answer}");
    rig.finish().await;
}

#[tokio::test]
async fn no_link_is_given_in_a_group() {
    let mut rig = rig().await;
    url(&rig).await;
    assert_eq!(rig.ask("-1", "/web").await, replies::WEB_PRIVATELY);
    rig.say_as(USER, "-1", "/web");
    assert_eq!(rig.hear("-1").await, replies::WEB_PRIVATELY);
    rig.finish().await;
}

#[tokio::test]
async fn others_sign_in_with_the_account_that_they_have_linked() {
    let mut rig = rig().await;
    let ben = Browser::of(&rig, "ben").await;
    rig.say_as(USER, "2", "/web");
    assert_eq!(rig.hear("2").await, replies::WEB_WITHOUT_ACCOUNT);
    ben.say("main", "message-1", "hello").await;
    rig.settled().await;
    rig.change(&format!(
        "UPDATE accounts SET person = (SELECT person FROM accounts WHERE channel = 'home' AND sender = '{USER}')
         WHERE channel = 'web' AND sender = 'ben'"
    ));
    rig.say_as(USER, "2", "/web");
    let answer = rig.hear("2").await;
    assert_eq!(signed_in_by(&answer).await, ("ben".to_owned(), "user".to_owned()));
    // Whoever is blocked is not answered, and has no sign-in either.
    rig.change("UPDATE persons SET blocked = 1 WHERE id = (SELECT person FROM accounts WHERE sender = 'ben')");
    assert_eq!(
        ben.request(reqwest::Method::GET, "/me").send().await.unwrap().status(),
        StatusCode::FORBIDDEN
    );
    rig.finish().await;
}

#[tokio::test]
async fn a_program_cannot_make_a_sign_in_of_its_token() {
    let rig = rig().await;
    let browser = Browser::owner(&rig).await;
    let asks = json!({ "model": "peacrab", "messages": [{ "role": "user", "content": "/web" }] });
    let answer = client().post(format!("{}/v1/chat/completions", browser.url)).json(&asks);
    let answer: Value =
        answer.bearer_auth(token_of(LOCAL)).send().await.unwrap().json().await.unwrap();
    let said = &answer["choices"][0]["message"]["content"];
    assert_eq!(said, replies::WEB_FROM_ELSEWHERE);
    let mut stream = browser.stream("main", "0.0").await;
    browser.say("main", "message-1", "/web").await;
    assert_eq!(stream.answer().await, replies::WEB_FROM_ELSEWHERE);
    rig.finish().await;
}

#[tokio::test]
async fn links_are_limited_and_take_no_others_place() {
    let mut rig = rig().await;
    url(&rig).await;
    let bens = rig.web.as_ref().unwrap().link(&"ben".into()).await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(rig.ask("1", "/web").await);
    }
    assert_eq!(answers[3], replies::WEB_TOO_OFTEN);
    // Those of one person are few, whoever asks for them.
    for _ in 0..40 {
        rig.web.as_ref().unwrap().link_now(&LOCAL.into()).unwrap();
    }
    let (url, first) = answers[0].lines().nth(1).unwrap().split_once("/#").unwrap();
    let used = client().post(format!("{url}/login")).json(&json!({ "code": first }));
    assert_eq!(used.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    assert_eq!(signed_in_by(&bens).await, ("ben".to_owned(), "user".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn without_the_section_the_owner_learns_how_to_switch_it_on() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "/web").await, replies::WEB_IS_OFF);
    rig.say_as(USER, "2", "/web");
    assert_eq!(rig.hear("2").await, replies::WEB_IS_OFF_HERE);
    assert_eq!(rig.ask("-1", "/web").await, replies::WEB_PRIVATELY);
    rig.finish().await;
}
