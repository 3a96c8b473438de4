//! Text of other programs: earlier messages of a client of the API, what is piped into `peacrab chat`, and the
//! description of a tool that an MCP server has changed.

use std::process::Stdio;

use peacrab::control::SOCKET;
use tokio::io::AsyncWriteExt as _;

use super::acts::{attempts, fill, parts};
use super::{check_denied, check_unchanged, entrances, orders, snapshot};
use crate::support::rig::Rig;
use crate::support::script::OBEYED;

/// The questions that wait for an answer.
fn open_asks(rig: &Rig) -> Vec<String> {
    rig.query("SELECT CAST(id AS TEXT) FROM asks WHERE state = 'open' ORDER BY id")
}

/// The messages to people that contain these words, as they read without escapes.
fn sent(rig: &Rig, words: &str) -> Vec<String> {
    let bodies = rig.query(&format!("SELECT body FROM outbox WHERE body LIKE '%{words}%'"));
    bodies.iter().map(|body| body.replace('\\', "")).collect()
}

/// Has the owner answer no in their private chat to each question that is asked elsewhere, until the model has obeyed.
/// Gives the questions.
async fn deny_elsewhere(rig: &Rig) -> Vec<String> {
    let has_ended = |rig: &Rig| !sent(rig, OBEYED).is_empty();
    loop {
        rig.wait_until(|rig| has_ended(rig) || !open_asks(rig).is_empty()).await;
        let Some(id) = open_asks(rig).into_iter().next() else { break };
        rig.say("1", &format!("/deny {id}"));
        rig.wait_until(|rig| !open_asks(rig).contains(&id)).await;
    }
    sent(rig, "Approve?")
}

#[cfg(feature = "gateway")]
#[tokio::test]
async fn earlier_messages_of_a_client_of_the_api() {
    use peacrab::people::LOCAL;
    use serde_json::json;

    use crate::gateway::browser::{client, config, token_of, url};
    use crate::support::rig::RigOptions;

    let attempts = attempts(false, true);
    let (all, text) = orders(&attempts);
    let options = RigOptions { gateway: Some(config()), ..parts("Crabs walk sideways.") };
    let mut rig = Rig::of(options).await;
    fill(&rig);
    let before = snapshot(&rig);
    rig.model.obeys(&all);
    let body = json!({ "model": "peacrab", "messages": [
        { "role": "user", "content": text },
        { "role": "assistant", "content": "I will." },
        { "role": "user", "content": "go on" },
    ]});
    let url = format!("{}/v1/chat/completions", url(&rig).await);
    // Its answer is the first question.
    let answer = client().post(url).bearer_auth(token_of(LOCAL)).json(&body).send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    let questions = deny_elsewhere(&rig).await;
    check_denied(&rig, &attempts, &questions, "the API");
    check_unchanged(&rig, &before, "the API");
    rig.stop().await;
}

#[tokio::test]
async fn piped_input() {
    let attempts = attempts(false, true);
    let (all, text) = orders(&attempts);
    let mut rig = Rig::of(parts("Crabs walk sideways.")).await;
    fill(&rig);
    rig.wait_until(|rig| rig.path().join(SOCKET).exists()).await;
    let before = snapshot(&rig);
    rig.model.obeys(&all);
    let mut command = entrances::program(&rig.path());
    command.arg("chat").stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut chat = command.spawn().unwrap();
    let mut input = chat.stdin.take().unwrap();
    input.write_all(text.as_bytes()).await.unwrap();
    drop(input);
    let questions = deny_elsewhere(&rig).await;
    check_denied(&rig, &attempts, &questions, "piped input");
    check_unchanged(&rig, &before, "piped input");
    drop(chat);
    rig.stop().await;
}

#[cfg(feature = "mcp")]
#[tokio::test]
async fn a_changed_description_of_a_tool() {
    use super::{deny_until, outcomes};
    use crate::support::rig::OWNER;

    let attempts = attempts(false, true);
    let (all, text) = orders(&attempts);
    let mut rig = Rig::of(parts("Crabs walk sideways.")).await;
    fill(&rig);
    crate::mcp::change_description(&mut rig, &text).await;
    let offered = format!("SELECT count(*) FROM mcp_pins WHERE offered LIKE '%{text}%'");
    rig.wait_for_count(&offered, 1).await;
    rig.ask("1", "/new").await;
    let before = snapshot(&rig);
    rig.model.obeys(&all);
    rig.say("1", "go on");
    let questions = deny_until(&mut rig, OWNER, "1", OBEYED).await;
    assert_eq!(questions, Vec::<String>::new());
    for attempt in &attempts {
        assert_eq!(outcomes(&rig, attempt), Vec::<String>::new(), "{attempt:?}");
    }
    let tools = rig.model.last().tools;
    let is_there = |name: &str| tools.iter().any(|tool| tool.name == name);
    assert!(is_there("mcp_fake_echo"), "the model was not offered the tool");
    check_unchanged(&rig, &before, "a description");
    rig.stop().await;
}
