//! Secrets: what is known of them leaves neither to models nor to people, and rules are not changed
//! behind the owner's back.

use std::fs;

use peacrab::provider::{Delta, StopReason};
use peacrab::replies;
use peacrab::secret::{Redactor, Secret};
use serde_json::json;

use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{Reply, calls, says};

const KEY: &str = "opensesame-77";

fn parts() -> RigOptions {
    RigOptions { redactor: Redactor::new(&[Secret::new(KEY)]), ..RigOptions::default() }
}

#[tokio::test]
async fn what_a_tool_comes_upon_is_shown_to_no_model() {
    let mut rig = Rig::of(parts()).await;
    // Plain, in base64, percent-encoded, and keys that were never told to it.
    let found = format!(
        "a {KEY} b b3BlbnNlc2FtZS03Nw c opensesame%2D77 d ghp_0123456789abcdefghij e AKIA0123456789ABCDEF f xoxb-1-0123456789abcdef"
    );
    fs::write(rig.workspace().join("found.txt"), found).unwrap();
    rig.model.on("read", [calls(&[("read_file", json!({ "path": "found.txt" }))]), says("Read.")]);
    assert_eq!(rig.ask("1", "read it").await, "Read.");
    let told = rig.model.last().transcript();
    assert!(told.contains("result: a [secret] b [secret] c "), "{told}");
    assert!(told.ends_with("d [secret] e [secret] f [secret]"), "{told}");
    assert!(!told.contains(KEY));
    rig.finish().await;
}

#[tokio::test]
async fn what_a_model_says_of_them_reaches_nobody() {
    let mut rig = Rig::with(FakeChannel::new(), parts()).await;
    rig.model.on("tell", [says(&format!("It is {KEY}, or {}", "sk-live0123456789abcdef"))]);
    assert_eq!(rig.ask("1", "tell me").await, "It is [secret], or [secret]");
    let buttons =
        calls(&[("message", json!({ "text": format!("Is it {KEY}?"), "choices": ["yes"] }))]);
    rig.model.on("ask", [buttons, says("Asked.")]);
    rig.say("1", "ask me");
    let heard = rig.next_messages("1", 2).await;
    assert!(heard.iter().any(|text| text == "Is it [secret]?"), "{heard:?}");
    let words =
        vec![Delta::Text(format!("task-0123456789abcdef {KEY}")), Delta::End(StopReason::Done)];
    rig.model.on("words", [Reply::Says(words)]);
    assert_eq!(rig.ask("1", "words").await, "task-0123456789abcdef [secret]");
    rig.finish().await;
}

#[tokio::test]
async fn the_owner_is_shown_what_is_changed_of_its_rules_and_can_undo_it() {
    let mut rig = Rig::new().await;
    fs::write(rig.workspace().join("SOUL.md"), "Be kind.\nBe brief.\n").unwrap();
    let edit = json!({ "path": "SOUL.md", "old": "Be kind.", "new": "Be rude." });
    rig.model.on("change", [calls(&[("edit_file", edit)]), says("Done.")]);
    rig.say("1", "change your soul");
    let heard = rig.next_messages("1", 2).await;
    let lines = "- removed: Be kind.\n- added: Be rude.";
    assert!(heard.contains(&replies::instructions_changed("SOUL.md", lines, 1)), "{heard:?}");
    assert!(rig.ask("1", "/undo 1").await.contains("SOUL.md"));
    assert_eq!(
        fs::read_to_string(rig.workspace().join("SOUL.md")).unwrap(),
        "Be kind.\nBe brief.\n"
    );
    // Other files are not announced.
    let write = json!({ "path": "list.md", "content": "eggs" });
    rig.model.on("list", [calls(&[("write_file", write)]), says("Listed.")]);
    assert_eq!(rig.ask("1", "list it").await, "Listed.");
    rig.finish().await;
}
