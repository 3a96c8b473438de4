//! What was said before is found again, also where the model sees only a summary, and by nobody else.

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
