//! A step with several calls that must be allowed: one question shows all of them whole, and all, each or none are made.

use std::fs;

use peacrab::replies;
use serde_json::json;

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
async fn two_changes_of_one_file_are_shown_one_after_another() {
    let mut rig = Rig::of(approving(|it| it.approvals.tools = vec!["edit_*".to_owned()])).await;
    fs::write(rig.workspace().join("list.md"), "bread\nmilk\n").unwrap();
    let edit =
        |old: &str, new: &str| ("edit_file", json!({"path": "list.md", "old": old, "new": new}));
    let both = calls(&[edit("bread", "rye bread"), edit("milk", "oat milk")]);
    rig.model.on("change", [both, says("Ready.")]);
    let question = rig.ask("1", "change it").await;
    assert!(question.contains("+rye bread") && !question.contains("oat"), "{question}");
    rig.say("1", "/approve 1");
    let heard = rig.next_messages("1", 3).await;
    let second = heard.iter().find(|text| text.contains("+oat milk")).expect("the second");
    assert!(second.contains("\n rye bread"), "it shows what the file is by then: {second}");
    rig.say("1", "/approve 2");
    rig.next_messages("1", 3).await;
    assert_eq!(read(&rig, "list.md").as_deref(), Some("rye bread\noat milk\n"));
    rig.finish().await;
}
