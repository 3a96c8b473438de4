//! `/incognito`: a conversation of which nothing is left once it is over, but that it was.

use peacrab::replies;
use serde_json::json;

use crate::forget::places;
use crate::support::rig::{OWNER, Rig, RigOptions, USER};
use crate::support::script::{calls, says};

const WORD: &str = "Quetzalcoatl";

/// Waits until no table has the word any more.
async fn is_gone(rig: &mut Rig) {
    let home = rig.path();
    rig.wait_until(|_| places(&home, WORD).is_empty()).await;
}

#[tokio::test]
async fn nothing_is_left_of_it_but_that_something_was_done() {
    let mut rig = Rig::of(RigOptions { extracts: true, ..RigOptions::default() }).await;
    rig.ask("1", "before: an ordinary word").await;
    assert_eq!(rig.ask("1", "/incognito").await, replies::INCOGNITO);
    let read = calls(&[("list_files", json!({"path": WORD})), ("plan", json!({"steps": []}))]);
    rig.model.on("look for", [read, says(&format!("{WORD} is a god."))]);
    rig.ask("1", &format!("look for {WORD}")).await;
    for text in ["one", "two", "three", "four", "five"] {
        rig.ask("1", &format!("{text} {WORD}")).await;
    }
    // The model sees the conversation, and has no tools that keep something.
    let asked = rig.model.last();
    assert!(asked.whole().contains(WORD) && asked.has_tool("read_file"));
    assert!(!asked.has_tool("remember") && !asked.has_tool("spawn") && !asked.has_tool("schedule"));
    let kept = "SELECT count(*) FROM recall_entries WHERE text LIKE '%quetzal%'";
    rig.wait_for_count(kept, 0).await;
    assert!(!rig.ask("1", "/sessions").await.contains(WORD));
    assert_eq!(rig.ask("1", "/new").await, replies::INCOGNITO_OVER);
    is_gone(&mut rig).await;
    let actions = rig.ask("1", "/actions").await;
    assert!(actions.contains("list_files") && !actions.contains(WORD), "{actions}");
    // What was before and what comes after stays.
    rig.ask("1", "after: an ordinary word").await;
    rig.wait_for_count("SELECT count(*) FROM recall_entries WHERE text LIKE '%ordinary%'", 2).await;
    assert!(!rig.model.last().whole().contains(WORD));
    // Facts are asked for of the conversation before it alone.
    let asked = rig.model.asked();
    let mut asked = asked.iter().filter(|it| it.whole().contains("Which lasting facts"));
    assert!(!asked.any(|it| it.whole().contains(WORD)));
    rig.finish().await;
}

#[tokio::test]
async fn what_is_over_is_erased_after_a_restart_too() {
    let mut rig = Rig::new().await;
    rig.ask("1", "/incognito").await;
    rig.ask("1", &format!("tell me of {WORD}")).await;
    rig.stop_and_start_again().await;
    rig.ask("1", "and more").await;
    assert!(rig.model.last().whole().contains(WORD));
    // As if it had been killed before it was erased.
    rig.ask("1", "/new").await;
    is_gone(&mut rig).await;
    rig.ask("1", "/incognito").await;
    rig.ask("1", &format!("again {WORD}")).await;
    rig.execute(
        "UPDATE sessions SET closed = opened WHERE closed IS NULL AND incognito IS NOT NULL",
    );
    rig.stop_and_start_again().await;
    is_gone(&mut rig).await;
    rig.finish().await;
}

#[tokio::test]
async fn it_ends_when_another_one_is_resumed() {
    let mut rig = Rig::new().await;
    rig.ask("1", "an ordinary word").await;
    rig.ask("1", "/incognito").await;
    rig.ask("1", &format!("tell me of {WORD}")).await;
    let resumed = rig.ask("1", "/resume #1").await;
    assert!(!resumed.contains(WORD), "{resumed}");
    is_gone(&mut rig).await;
    // The other one goes on, and is kept.
    rig.ask("1", "go on").await;
    let whole = rig.model.last().whole();
    assert!(whole.contains("an ordinary word") && !whole.contains(WORD), "{whole}");
    // It cannot be resumed itself, while it lasts neither.
    rig.ask("1", "/incognito").await;
    rig.ask("1", &format!("again {WORD}")).await;
    rig.say("5", "/resume #3");
    let refused = rig.next_message("5").await;
    assert!(!refused.contains(WORD), "{refused}");
    rig.ask("5", "what now?").await;
    assert!(!rig.model.last().whole().contains(WORD));
    rig.ask("1", "/new").await;
    is_gone(&mut rig).await;
    rig.finish().await;
}

#[tokio::test]
async fn others_and_groups_have_it_for_themselves_or_not_at_all() {
    let mut rig = Rig::new().await;
    rig.say_as(OWNER, "-3", "/incognito");
    assert_eq!(rig.next_message("-3").await, replies::INCOGNITO_IN_PRIVATE);
    rig.say_as(USER, "2", "/incognito");
    assert_eq!(rig.next_message("2").await, replies::INCOGNITO);
    rig.say_as(USER, "2", &format!("I like {WORD}"));
    rig.next_message("2").await;
    rig.ask("1", "an ordinary word").await;
    rig.say_as(USER, "2", "/incognito");
    assert_eq!(rig.next_message("2").await, replies::INCOGNITO);
    is_gone(&mut rig).await;
    rig.wait_for_count("SELECT count(*) FROM recall_entries WHERE text LIKE '%ordinary%'", 1).await;
    rig.finish().await;
}
