//! A job that has read untrusted content delivers its text to people, and a reference to their private conversation: the
//! next turn is clean, and a call opens the text, which is untrusted.

use std::fs;

use peacrab::replies;
use peacrab::types::message::Quote;
use peacrab::types::untrusted;
use serde_json::{Value, json};

use super::jobs::{Scene, TASK, completes};
use crate::support::rig::{OWNER, USER};
use crate::support::script::{Reply, calls, says};

/// The call that the reference in a transcript names.
pub(super) fn opens(told: &str) -> (&'static str, Value) {
    let query = told.split("query “").nth(1).and_then(|rest| rest.split('”').next());
    let query = query.unwrap_or_else(|| panic!("no reference: {told}"));
    ("memory_search", json!({"query": query, "scope": "untrusted"}))
}

fn writes(content: &str) -> Reply {
    calls(&[("write_file", json!({"path": "tea.md", "content": content}))])
}

fn is_question(text: &str) -> bool {
    text.contains("Approve?")
}

/// A job of the owner has read a page and tells this.
async fn reported(words: &str) -> Scene {
    let mut scene = Scene::of(Default::default()).await;
    fs::write(scene.rig.path().join("downloads/page.txt"), "Crabs!").unwrap();
    scene.add("1", json!({"when": "20m", "text": TASK})).await;
    let reads = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    scene.rig.model.on(TASK, [reads, completes(words)]);
    scene.later(21);
    assert_eq!(scene.rig.next_message("1").await, words);
    scene
}

/// The owner goes on, and the conversation is clean; gives what its model was told.
async fn goes_on(scene: &mut Scene) -> String {
    scene.rig.model.on("note the tea", [writes("tea"), says("Noted.")]);
    assert_eq!(scene.rig.ask("1", "note the tea").await, "Noted.");
    scene.rig.model.last().transcript()
}

/// The model opens the result, and what it would do then is asked about; gives what it was told.
async fn opened(scene: &mut Scene, open: (&str, Value)) -> String {
    scene.rig.model.on("did it say", [calls(&[open]), writes("crabs"), says("No.")]);
    let question = scene.rig.ask("1", "what did it say?").await;
    assert!(is_question(&question) && question.contains("from memory_search"), "{question}");
    let told = scene.rig.model.last().transcript();
    scene.rig.say("1", "/deny 1");
    scene.rig.next_messages("1", 3).await;
    told
}

#[tokio::test]
async fn the_next_turn_is_clean_and_a_call_opens_the_whole_text() {
    let words = format!("Walk sideways. {}The end.", "Crabs do. ".repeat(150));
    let mut scene = reported(&words).await;
    let told = goes_on(&mut scene).await;
    assert!(told.contains("user: [The result of job 1 (“look at the tide”), "), "{told}");
    assert!(!told.contains("sideways"), "{told}");
    // It is still so after a restart.
    scene.rig.stop_and_start_again().await;
    scene.rig.ask("1", "hello").await;
    let told = scene.rig.model.last().transcript();
    assert!(!told.contains("sideways"), "{told}");
    let told = opened(&mut scene, opens(&told)).await;
    assert!(told.contains(untrusted::FIRST_LINE) && told.contains(&words), "{told}");
    scene.rig.finish().await;
}

#[tokio::test]
async fn nobody_else_opens_it() {
    let mut scene = reported("Walk sideways.").await;
    let open = opens(&goes_on(&mut scene).await);
    scene.rig.model.on("steal it", [calls(&[open]), says("Nothing.")]);
    scene.rig.say_as(USER, "2", "steal it");
    assert_eq!(scene.rig.next_message("2").await, "Nothing.");
    let told = scene.rig.model.last().transcript();
    assert!(told.contains("Nothing was found") && !told.contains("sideways"), "{told}");
    scene.rig.finish().await;
}

#[tokio::test]
async fn who_quotes_it_shows_it_as_the_words_of_others() {
    let mut scene = reported("Walk sideways.").await;
    goes_on(&mut scene).await;
    scene.rig.model.on("do this", [writes("crabs"), says("No.")]);
    scene.rig.say_changed(OWNER, "1", "do this", |message| {
        let (author, text) = ("Peacrab".to_owned(), "Walk sideways.".to_owned());
        message.body.quoted = Some(Quote { author, text, by_others: false, by_bot: true });
    });
    let question = scene.rig.next_message("1").await;
    assert!(is_question(&question), "{question}");
    scene.rig.say("1", "/deny 1");
    scene.rig.next_messages("1", 3).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_text_that_was_written_after_reading_others_is_not_even_named() {
    for chat in ["1", "-1"] {
        let mut scene = Scene::of(Default::default()).await;
        scene.add(chat, json!({"when": "20m", "text": "Walk sideways.", "kind": "message"})).await;
        scene.rig.execute("UPDATE jobs SET tainted = 1");
        scene.later(21);
        assert_eq!(scene.rig.next_message(chat).await, "Walk sideways.");
        scene.rig.ask(chat, "and now?").await;
        let told = scene.rig.model.last().transcript();
        // In a group it stands as it was sent.
        let since = told.split("I will.").last().unwrap();
        match chat {
            "1" => {
                assert!(since.contains("[The result of job 1, "), "{since}");
                assert!(!since.contains("sideways"), "{since}");
            }
            _ => assert!(since.contains("assistant: Walk sideways."), "{since}"),
        }
        scene.rig.finish().await;
    }
}

#[tokio::test]
async fn an_incognito_conversation_keeps_nothing_elsewhere() {
    let mut scene = Scene::of(Default::default()).await;
    scene.add("1", json!({"when": "20m", "text": "Walk sideways.", "kind": "message"})).await;
    scene.rig.execute("UPDATE jobs SET tainted = 1");
    assert_eq!(scene.rig.ask("1", "/incognito").await, replies::INCOGNITO);
    scene.later(21);
    assert_eq!(scene.rig.next_message("1").await, "Walk sideways.");
    scene.rig.wait_for_count("SELECT count(*) FROM sessions WHERE kind = 'aside'", 0).await;
    scene.rig.ask("1", "and now?").await;
    let told = scene.rig.model.last().transcript();
    assert!(told.contains("assistant: Walk sideways."), "{told}");
    scene.rig.finish().await;
}
