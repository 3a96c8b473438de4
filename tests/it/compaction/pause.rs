//! A private conversation that has read what others wrote goes on without it after a pause. No model is asked for that. The
//! model is told how much was left out, and opens it by a call, which makes the conversation untrusted again.

use std::fs;

use serde_json::json;

use super::apart::{PAGE, tainted_with, tells};
use super::{RECORD, asked_for};
use crate::support::rig::{OWNER, Rig, RigOptions, USER};
use crate::support::script::{Reply, calls, says};

/// The words that the conversation of [`tainted_with`] keeps.
const KEPT: [&str; 4] =
    ["the key is under the mat", "I know where it is.", "what is on the page?", "boat is blue"];

/// Nobody speaks for so many minutes.
fn pause(rig: &Rig, minutes: u32) {
    rig.execute(&format!("UPDATE turns SET ended = ended - {minutes} * 60000"));
}

fn appends() -> Reply {
    calls(&[("append_file", json!({"path": "list.md", "content": "milk\n"}))])
}

/// The model writes into the workspace, and nobody is asked. Gives what it was shown.
async fn writes_unasked(rig: &mut Rig) -> String {
    rig.model.on("the list", [appends(), says("Written.")]);
    assert_eq!(rig.ask("1", "put it on the list").await, "Written.");
    rig.model.last().transcript()
}

/// The model writes to somebody else, of which its person is asked, and says no.
async fn is_asked(rig: &mut Rig, chat: &str, why: &str) {
    rig.model.on("tell", [tells(), says("No.")]);
    let question = rig.ask(chat, "tell them").await;
    assert!(question.contains(why), "{question}");
    rig.say(chat, "/deny 1");
    rig.next_messages(chat, 3).await;
}

#[tokio::test]
async fn nobody_is_asked_after_the_pause_and_what_others_wrote_is_left_out() {
    let mut rig = tainted_with(RigOptions::default()).await;
    pause(&rig, 121);
    for lines in ["milk\n", "milk\nmilk\n"] {
        let told = writes_unasked(&mut rig).await;
        assert_eq!(fs::read_to_string(rig.workspace().join("list.md")).unwrap(), lines);
        for kept in KEPT {
            assert!(told.contains(kept), "{kept}: {told}");
        }
        assert!(!told.to_lowercase().contains("zebras"), "{told}");
        assert!(told.contains("is left out (3 parts)"), "{told}");
        assert!(told.contains("memory_search with scope \"summary\""), "{told}");
        rig.stop_and_start_again().await;
    }
    // No model was asked to sum it up, and the log has all of it.
    assert!(asked_for(&rig, RECORD).is_empty());
    assert_eq!(rig.query("SELECT text FROM steps WHERE text LIKE '%ebras%'").len(), 2);
    assert_eq!(rig.query("SELECT chat FROM sessions WHERE kind = 'chat'"), ["1"]);
    rig.finish().await;
}

#[tokio::test]
async fn nothing_changes_before_the_pause_is_over() {
    let mut rig = tainted_with(RigOptions::default()).await;
    pause(&rig, 119);
    is_asked(&mut rig, "1", "from read_file").await;
    let told = rig.model.last().transcript();
    assert!(told.contains(PAGE) && !told.contains("left out"), "{told}");
    rig.finish().await;
}

#[tokio::test]
async fn nothing_changes_where_it_is_switched_off() {
    let mut parts = RigOptions::default();
    parts.agent.clean_after = None;
    let mut rig = tainted_with(parts).await;
    pause(&rig, 10_000);
    is_asked(&mut rig, "1", "from read_file").await;
    assert!(rig.model.last().transcript().contains(PAGE));
    rig.finish().await;
}

#[tokio::test]
async fn a_clean_conversation_stays_whole() {
    let mut rig = Rig::new().await;
    rig.model.on("the key", [says("I know where it is.")]);
    rig.ask("1", "the key is under the mat").await;
    pause(&rig, 10_000);
    let told = writes_unasked(&mut rig).await;
    assert!(
        told.contains("assistant: I know where it is.") && !told.contains("left out"),
        "{told}"
    );
    rig.finish().await;
}

#[tokio::test]
async fn who_opens_what_was_left_out_is_asked_again_until_the_next_pause() {
    let mut rig = tainted_with(RigOptions::default()).await;
    pause(&rig, 121);
    let opens = calls(&[("memory_search", json!({"query": "page", "scope": "summary"}))]);
    rig.model.on("which page", [opens, tells(), says("No.")]);
    let question = rig.ask("1", "which page was it?").await;
    assert!(question.contains("from memory_search"), "{question}");
    let told = rig.model.last().transcript();
    for left_out in [PAGE, "It is about zebras.", "Zebras like boats."] {
        assert!(told.contains(left_out), "{left_out}: {told}");
    }
    rig.say("1", "/deny 1");
    rig.next_messages("1", 3).await;
    pause(&rig, 121);
    let told = writes_unasked(&mut rig).await;
    assert!(!told.to_lowercase().contains("zebras"), "{told}");
    for kept in KEPT.into_iter().chain(["which page was it?"]) {
        assert!(told.contains(kept), "{kept}: {told}");
    }
    let opened = rig.query("SELECT untrusted_summary FROM sessions WHERE kind = 'chat'").remove(0);
    assert!(opened.contains(PAGE) && opened.contains("which page was it?"), "{opened}");
    rig.finish().await;
}

#[tokio::test]
async fn a_group_stays_as_it_is() {
    let mut rig = Rig::new().await;
    rig.say_as(USER, "-1", "home:2 wants to hear of zebras");
    rig.next_message("-1").await;
    pause(&rig, 10_000);
    rig.model.on("tell", [tells(), says("No.")]);
    rig.say_as(OWNER, "-1", "tell them");
    let question = rig.next_message("-1").await;
    assert!(question.contains("messages of others here"), "{question}");
    assert!(rig.model.last().transcript().contains("home:2 wants to hear of zebras"));
    rig.say("-1", "/deny 1");
    rig.next_messages("-1", 3).await;
    rig.finish().await;
}

#[tokio::test]
async fn what_the_program_has_said_in_the_pause_stays_whole() {
    let mut rig = tainted_with(RigOptions::default()).await;
    pause(&rig, 121);
    let reports = calls(&[("task_completion", json!({"result": "It rains."}))]);
    rig.model.on("look outside", [reports]);
    rig.ask("1", "/jobs add every 2h | look outside").await;
    rig.say("1", "/jobs run 1");
    assert!(rig.next_messages("1", 2).await.iter().any(|text| text.contains("It rains.")));
    rig.ask("1", "/jobs rm 1").await;
    let told = writes_unasked(&mut rig).await;
    assert!(told.contains("It rains.") && told.contains("boat is blue"), "{told}");
    assert!(!told.to_lowercase().contains("zebras"), "{told}");
    let opened = rig.query("SELECT untrusted_summary FROM sessions WHERE kind = 'chat'").remove(0);
    assert!(!opened.contains("It rains."), "{opened}");
    rig.finish().await;
}

#[tokio::test]
async fn a_plan_that_retells_it_is_left_out() {
    let mut rig = Rig::new().await;
    fs::write(rig.path().join("downloads/page.txt"), PAGE).unwrap();
    let reads = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    let items = json!({"items": [{"text": "Count zebras", "state": "todo"}]});
    rig.model.on("the page", [reads, calls(&[("plan", items)]), says("Planned.")]);
    rig.ask("1", "what is on the page?").await;
    pause(&rig, 121);
    let told = writes_unasked(&mut rig).await;
    assert!(!told.to_lowercase().contains("zebras"), "{told}");
    let opened = rig.query("SELECT untrusted_summary FROM sessions WHERE kind = 'chat'").remove(0);
    assert!(opened.ends_with("The plan:\n- [ ] Count zebras"), "{opened}");
    rig.finish().await;
}

#[tokio::test]
async fn a_summary_of_a_former_version_is_left_out_and_can_be_opened() {
    let mut rig = tainted_with(RigOptions::default()).await;
    rig.stop().await;
    rig.execute(
        "UPDATE sessions SET begins = (SELECT max(id) + 1 FROM turns), summary = 'They spoke of zebras.',
         summary_sources = NULL",
    );
    pause(&rig, 121);
    rig.start().await;
    let told = writes_unasked(&mut rig).await;
    assert!(!told.contains("They spoke") && told.contains("is left out (1 part)"), "{told}");
    let opens = calls(&[("memory_search", json!({"query": "page", "scope": "summary"}))]);
    rig.model.on("which page", [opens, says("That one.")]);
    rig.ask("1", "which page was it?").await;
    assert!(rig.model.last().transcript().contains("They spoke of zebras."));
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_of_a_former_version_without_sources_is_left_out_whole() {
    let mut rig = tainted_with(RigOptions::default()).await;
    rig.stop().await;
    rig.execute("UPDATE steps SET sources = NULL; UPDATE calls SET sources = NULL");
    pause(&rig, 121);
    rig.start().await;
    let told = writes_unasked(&mut rig).await;
    // Nobody knows any more which of it was quoted.
    assert!(!told.contains("the key") && !told.to_lowercase().contains("zebras"), "{told}");
    let opens = calls(&[("memory_search", json!({"query": "page", "scope": "summary"}))]);
    rig.model.on("which page", [opens, says("That one.")]);
    rig.ask("1", "which page was it?").await;
    let told = rig.model.last().transcript();
    assert!(told.contains("the key is under the mat") && told.contains(PAGE), "{told}");
    rig.finish().await;
}

#[tokio::test]
async fn of_a_long_conversation_the_words_of_its_person_stay_longest() {
    let mut rig = Rig::new().await;
    fs::write(rig.path().join("downloads/page.txt"), PAGE).unwrap();
    let answer = "lorem ipsum sit ".repeat(200);
    let said: Vec<_> = (0..40).map(|n| format!("crab number {n} is red")).collect();
    for said in &said {
        rig.model.on(said, [says(&answer)]);
        rig.ask("1", said).await;
    }
    let reads = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    rig.model.on("the page", [reads, says("It is about zebras.")]);
    rig.ask("1", "what is on the page?").await;
    pause(&rig, 121);
    let told = writes_unasked(&mut rig).await;
    for said in &said {
        assert!(told.contains(said), "{said}: {told}");
    }
    let answers = told.matches(answer.trim()).count();
    assert!((1..said.len()).contains(&answers), "{answers}");
    rig.finish().await;
}
