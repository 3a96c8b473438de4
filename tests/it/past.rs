//! What was said before is found again, also where the model sees only a summary, and by nobody else.

use std::time::{Duration, Instant};

use peacrab::types::untrusted;
use serde_json::json;

use crate::support::rig::{OWNER, Rig, USER};
use crate::support::script::{Reply, calls, says};

fn searches(query: &str) -> Reply {
    calls(&[("search_past", json!({ "query": query }))])
}

/// What the model is shown that searches.
async fn found(rig: &mut Rig, who: &str, chat: &str, query: &str) -> String {
    rig.model.on("look for it", [searches(query), says("Found.")]);
    rig.say_as(who, chat, "look for it");
    assert_eq!(rig.hear(chat).await, "Found.");
    rig.model.last().messages.pop().unwrap()
}

#[tokio::test]
async fn words_of_former_conversations_are_found_where_they_were_said() {
    let mut rig = Rig::new().await;
    rig.model.on("bicycle", [says("Its code is 48-15, under 100%_sure.")]);
    rig.ask("1", "where is the code of my bicycle lock?").await;
    rig.ask("1", "/new").await;
    let shown = found(&mut rig, OWNER, "1", "BICYCLE code").await;
    assert!(shown.contains("where is the code of my bicycle lock?"), "{shown}");
    assert!(shown.contains("You: Its code is 48-15"), "{shown}");
    // Signs of the search itself are letters like others.
    assert!(found(&mut rig, OWNER, "1", "100%_sure").await.contains("48-15"));
    assert!(found(&mut rig, OWNER, "1", "4_-15").await.contains("Nothing was said here"));
    assert!(found(&mut rig, OWNER, "1", "' OR 1=1 --").await.contains("Nothing was said here"));
    assert!(found(&mut rig, OWNER, "1", "bicycle rain").await.contains("Nothing was said here"));
    assert!(found(&mut rig, OWNER, "1", " ").await.contains("`query` is empty"));
    // Elsewhere it was not said.
    assert!(found(&mut rig, USER, "2", "bicycle").await.contains("Nothing was said here"));
    rig.finish().await;
}

#[tokio::test]
async fn what_is_found_is_bounded() {
    let mut rig = Rig::new().await;
    for n in 10..22 {
        rig.model.on(&format!("crab {n}"), [says(&format!("{} crab {n}", "x ".repeat(300)))]);
        rig.ask("1", &format!("crab {n}")).await;
    }
    let shown = found(&mut rig, OWNER, "1", "crab").await;
    assert!(shown.chars().count() < 8_500, "{}", shown.len());
    assert!(shown.contains("crab 21") && !shown.contains("crab 11"), "{shown}");
    rig.finish().await;
}

/// Fills the former conversation of a chat with texts that make a search for a long word long.
fn fill(rig: &Rig, chat: &str) {
    rig.change(&format!(
        r#"INSERT INTO turns (session, sender, attempts, provider, started, ended, ending)
           WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
           SELECT s.id, '{{"id": "7", "name": "Person 7"}}', 1, 'script', 1, 2, '"answered"'
           FROM n, sessions s WHERE s.chat = '{chat}' AND s.closed IS NOT NULL;
           INSERT INTO steps (turn, seq, heard, text, thinking)
           SELECT id, 0, 'go on', printf('%.*c', 10000, 'a'), '[]' FROM turns WHERE started = 1"#
    ));
}

#[tokio::test]
async fn a_long_search_is_stopped_and_delays_no_other_chat() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.ask("1", "/new").await;
    fill(&rig, "1");
    let nearly = format!("{}b", "a".repeat(99));
    rig.model.on("look for it", [searches(&nearly), says("Not found.")]);
    rig.say("1", "look for it");
    rig.becomes(|rig| rig.model.asked().len() == 2).await;
    let begun = Instant::now();
    rig.say_as(USER, "2", "/stop");
    rig.hear("2").await;
    assert!(begun.elapsed() < Duration::from_secs(1), "it took {:?}", begun.elapsed());
    assert_eq!(rig.hear("1").await, "Not found.");
    let shown = rig.model.last().messages.pop().unwrap();
    assert!(shown.contains("took too long") && shown.contains("narrower"), "{shown}");
    // One that SQLite could not be stopped in is refused.
    let shown = found(&mut rig, OWNER, "1", &"a".repeat(101)).await;
    assert!(shown.contains("longer than 100 characters"), "{shown}");
    rig.finish().await;
}

#[tokio::test]
async fn only_what_came_after_words_of_others_is_marked_as_theirs() {
    let mut rig = Rig::new().await;
    rig.ask("1", "an early crab").await;
    rig.ask("1", "a page").await;
    rig.ask("1", "a late lobster").await;
    rig.ask("1", "/new").await;
    rig.change("UPDATE turns SET read_others = 1 WHERE id = 2");
    let is_marked = |shown: &str| shown.contains(untrusted::BEGINS);
    assert!(!is_marked(&found(&mut rig, OWNER, "1", "early crab").await));
    assert!(is_marked(&found(&mut rig, OWNER, "1", "late lobster").await));
    rig.finish().await;
}
