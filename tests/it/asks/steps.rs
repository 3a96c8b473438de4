//! A step with several calls that must be allowed: one question shows all of them whole, and all, each or none are made.

use std::fs;

use peacrab::replies;
use serde_json::{Value, json};

use super::{approving, open, press};
use crate::support::rig::{OWNER, Rig};
use crate::support::script::{Reply, calls, says};

const ALL: usize = 0;
const EACH: usize = 1;
const NONE: usize = 2;

/// Three calls, of which two must be allowed.
fn step() -> Reply {
    calls(&[
        ("write_file", json!({"path": "one.md", "content": "first"})),
        ("list_files", json!({})),
        ("write_file", json!({"path": "two.md", "content": "second"})),
    ])
}

fn read(rig: &Rig, name: &str) -> Option<String> {
    fs::read_to_string(rig.workspace().join(name)).ok()
}

async fn asked() -> (Rig, String) {
    let mut rig = Rig::of(approving(|_| {})).await;
    rig.model.on("write", [step(), says("Ready.")]);
    let question = rig.ask("1", "write both").await;
    (rig, question)
}

#[tokio::test]
async fn one_question_shows_them_whole_and_all_are_made() {
    let (mut rig, question) = asked().await;
    for shown in ["1: write_file", "\n+first", "2: write_file", "\n+second", "/approve 1 all"] {
        assert!(question.contains(shown), "{shown}: {question}");
    }
    assert_eq!(open(&rig), ["1", "2"]);
    assert!(rig.unread("1").is_empty());
    assert_eq!(read(&rig, "one.md"), None);
    rig.stop_and_start_again().await;
    press(&rig, OWNER, "1", ALL);
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(read(&rig, "one.md").as_deref(), Some("first"));
    assert_eq!(read(&rig, "two.md").as_deref(), Some("second"));
    rig.finish().await;
}

#[tokio::test]
async fn none_is_made_and_the_model_is_told() {
    let (mut rig, _) = asked().await;
    press(&rig, OWNER, "1", NONE);
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!((read(&rig, "one.md"), read(&rig, "two.md")), (None, None));
    let told = rig.model.last().transcript();
    assert_eq!(told.matches("did not allow it").count(), 2, "{told}");
    rig.finish().await;
}

#[tokio::test]
async fn each_is_asked_about_alone() {
    let (mut rig, _) = asked().await;
    press(&rig, OWNER, "1", EACH);
    let heard = rig.next_messages("1", 4).await;
    let alone: Vec<_> = heard.iter().filter(|text| text.ends_with("/deny 1.)")).collect();
    assert!(alone.len() == 1 && alone[0].starts_with("1: write_file"), "{heard:?}");
    rig.stop_and_start_again().await;
    // The last question that was shown is the one about the second call.
    press(&rig, OWNER, "1", 0);
    rig.next_messages("1", 2).await;
    assert_eq!(open(&rig), ["1"]);
    assert_eq!(read(&rig, "two.md"), None, "the step goes on once all is decided");
    rig.say("1", "/deny 1");
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(read(&rig, "one.md"), None);
    assert_eq!(read(&rig, "two.md").as_deref(), Some("second"));
    rig.finish().await;
}

#[tokio::test]
async fn one_can_be_decided_before_the_others() {
    let (mut rig, _) = asked().await;
    assert_eq!(rig.ask("1", "/deny 2").await, replies::denied_call("write_file"));
    assert_eq!(open(&rig), ["1"]);
    press(&rig, OWNER, "1", ALL);
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(read(&rig, "one.md").as_deref(), Some("first"));
    assert_eq!(read(&rig, "two.md"), None);
    assert_eq!(rig.ask("1", "/approve 1 all").await, replies::ALREADY_DECIDED);
    rig.finish().await;
}

#[tokio::test]
async fn a_late_answer_to_all_covers_no_later_question_of_the_turn() {
    let mut rig = Rig::of(approving(|_| {})).await;
    let more = calls(&[
        ("write_file", json!({"path": "three.md", "content": "third"})),
        ("write_file", json!({"path": "four.md", "content": "fourth"})),
    ]);
    rig.model.on("write", [step(), more, says("Ready.")]);
    rig.ask("1", "write all").await;
    press(&rig, OWNER, "1", ALL);
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.iter().any(|text| text.contains("+fourth")), "{heard:?}");
    assert_eq!(open(&rig), ["3", "4"]);
    for late in ["/approve 1 all", "/approve 2 all", "/approve 1 each", "/deny 1 all"] {
        assert_eq!(rig.ask("1", late).await, replies::ALREADY_DECIDED, "{late}");
    }
    assert_eq!(open(&rig), ["3", "4"]);
    rig.say("1", "/approve 4 all");
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(read(&rig, "three.md").as_deref(), Some("third"));
    rig.finish().await;
}

/// All tools for files are asked about, and the list has bread and milk.
async fn with_list() -> Rig {
    let tools = ["edit_file", "append_file", "write_file"].map(str::to_owned).to_vec();
    let rig = Rig::of(approving(|it| it.approvals.tools = tools)).await;
    fs::write(rig.workspace().join("list.md"), "bread\nmilk\n").unwrap();
    rig
}

fn edit(old: &str, new: &str) -> (&'static str, Value) {
    ("edit_file", json!({"path": "list.md", "old": old, "new": new}))
}

fn append(content: &str) -> (&'static str, Value) {
    ("append_file", json!({"path": "list.md", "content": content}))
}

/// A step with these changes is asked about in one question; gives the question.
async fn asks_once(rig: &mut Rig, changes: &[(&str, Value)]) -> String {
    rig.model.on("change", [calls(changes), says("Ready.")]);
    let question = rig.ask("1", "change it").await;
    let all: Vec<_> = (1..=changes.len()).map(|id| id.to_string()).collect();
    assert_eq!(open(rig), all, "{question}");
    question
}

#[tokio::test]
async fn changes_of_one_file_are_one_question_that_shows_each_after_the_former() {
    let mut rig = with_list().await;
    let changes = [edit("bread", "rye bread"), append("eggs"), edit("milk\neggs", "oat milk")];
    let question = asks_once(&mut rig, &changes).await;
    assert!(question.contains("-bread\n+rye bread\n"), "{question}");
    assert!(question.contains(" rye bread\n milk\n+eggs"), "{question}");
    assert!(question.contains(" rye bread\n-milk\n-eggs"), "{question}");
    assert_eq!(read(&rig, "list.md").as_deref(), Some("bread\nmilk\n"));
    rig.stop_and_start_again().await;
    press(&rig, OWNER, "1", ALL);
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(read(&rig, "list.md").as_deref(), Some("rye bread\noat milk"));
    rig.finish().await;
}

#[tokio::test]
async fn a_new_file_and_what_is_added_to_it_are_one_question() {
    let mut rig = with_list().await;
    let path = "notes/plan.md";
    let changes = [
        ("write_file", json!({"path": path, "content": "Pack.\n"})),
        ("append_file", json!({"path": path, "content": "Go.\n"})),
        ("edit_file", json!({"path": path, "old": "Pack", "new": "Pack a hat"})),
    ];
    let question = asks_once(&mut rig, &changes).await;
    assert!(question.contains(" Pack.\n+Go.\n"), "{question}");
    assert!(!rig.workspace().join("notes").exists());
    press(&rig, OWNER, "1", ALL);
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(read(&rig, path).as_deref(), Some("Pack a hat.\nGo.\n"));
    rig.finish().await;
}

#[tokio::test]
async fn a_yes_to_a_later_change_alone_covers_no_other_change() {
    let mut rig = with_list().await;
    let changes = [edit("bread", "rye bread"), edit("milk", "oat milk")];
    asks_once(&mut rig, &changes).await;
    assert_eq!(rig.ask("1", "/deny 1").await, replies::denied_call("edit_file"));
    rig.say("1", "/approve 2");
    let heard = rig.next_messages("1", 3).await;
    // It was shown as a change of a file that has rye bread.
    let again = heard.iter().find(|text| text.contains("asking again because"));
    let again = again.expect("a question");
    assert!(again.contains("\n bread") && again.contains("+oat milk"), "{again}");
    assert_eq!(read(&rig, "list.md").as_deref(), Some("bread\nmilk\n"));
    rig.say("1", "/approve 3");
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(read(&rig, "list.md").as_deref(), Some("bread\noat milk\n"));
    rig.finish().await;
}

#[tokio::test]
async fn all_changes_of_a_file_are_asked_about_again_if_somebody_else_has_changed_it() {
    let mut rig = with_list().await;
    let changes = [edit("bread", "rye bread"), edit("milk", "oat milk")];
    asks_once(&mut rig, &changes).await;
    fs::write(rig.workspace().join("list.md"), "bread\nmilk\nsalt\n").unwrap();
    press(&rig, OWNER, "1", ALL);
    let heard = rig.next_messages("1", 3).await;
    let again = heard.iter().find(|text| text.contains("asking again because"));
    let again = again.expect("a question");
    assert!(again.contains("+rye bread") && again.contains("+oat milk"), "{again}");
    assert!(again.contains("\n salt"), "{again}");
    press(&rig, OWNER, "1", ALL);
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(read(&rig, "list.md").as_deref(), Some("rye bread\noat milk\nsalt\n"));
    rig.finish().await;
}

#[tokio::test]
async fn a_change_that_is_made_unasked_in_between_is_counted_in() {
    let mut rig = Rig::of(approving(|it| it.approvals.tools = vec!["edit_file".to_owned()])).await;
    fs::write(rig.workspace().join("list.md"), "bread\nmilk\n").unwrap();
    let changes = [edit("bread", "rye bread"), append("eggs\n"), edit("eggs", "two eggs")];
    rig.model.on("change", [calls(&changes), says("Ready.")]);
    let question = rig.ask("1", "change it").await;
    assert_eq!(open(&rig), ["1", "2"]);
    assert!(question.contains("-eggs\n+two eggs"), "{question}");
    press(&rig, OWNER, "1", ALL);
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Ready.".to_owned()), "{heard:?}");
    assert_eq!(read(&rig, "list.md").as_deref(), Some("rye bread\nmilk\ntwo eggs\n"));
    rig.finish().await;
}
