//! Proposals: what the model suggests waits for a person's yes or no.

use peacrab::replies;
use peacrab::types::message::{DeliveryId, Press};
use serde_json::json;

use crate::support::rig::{OWNER, Rig};
use crate::support::script::{calls, says};

const TITLE: &str = "Tidy the notes";

async fn proposed(rig: &mut Rig) {
    let args = json!({"title": TITLE, "body": "Move last year's notes into one file."});
    rig.model.on("ideas", [calls(&[("propose", args)]), says("Have a look.")]);
    rig.say("1", "any ideas?");
    let mut heard = rig.next_messages("1", 2).await;
    heard.sort();
    assert_eq!(heard[0], "Have a look.");
    assert!(heard[1].contains(TITLE) && heard[1].contains("into one file"), "{heard:?}");
}

fn press(rig: &Rig, choice: usize) {
    let got = rig.home.got();
    let asked = got.borrow().iter().rev().find(|got| !got.choices.is_empty()).unwrap().delivery;
    rig.say_changed(OWNER, "1", "", |message| {
        message.body.press = Some(Press { delivery: DeliveryId(asked), choice });
    });
}

#[tokio::test]
async fn a_yes_is_a_message_that_the_model_acts_on() {
    let mut rig = Rig::new().await;
    proposed(&mut rig).await;
    assert_eq!(rig.ask("1", "/proposals").await, format!("1 (open): {TITLE}"));
    let done = calls(&[("update_proposal", json!({"id": 1, "state": "accepted"}))]);
    rig.model.on("Yes to proposal 1", [done, says("Done.")]);
    press(&rig, 0);
    rig.next_message("1").await;
    assert_eq!(rig.next_message("1").await, "Done.");
    assert_eq!(rig.ask("1", "/proposals").await, format!("1 (accepted): {TITLE}"));
    rig.finish().await;
}

#[tokio::test]
async fn a_press_decides_without_the_model() {
    for (choice, state) in [(0, "accepted"), (1, "declined")] {
        let mut rig = Rig::new().await;
        proposed(&mut rig).await;
        press(&rig, choice);
        rig.next_messages("1", 2).await;
        assert_eq!(rig.ask("1", "/proposals").await, format!("1 ({state}): {TITLE}"));
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_no_is_one_too_and_proposals_outlive_a_restart() {
    let mut rig = Rig::new().await;
    proposed(&mut rig).await;
    rig.stop_and_start_again().await;
    press(&rig, 1);
    rig.next_message("1").await;
    assert!(rig.next_message("1").await.ends_with(&replies::declines(1, TITLE)));
    rig.model.on("what was it", [calls(&[("list_proposals", json!({}))]), says("That.")]);
    assert_eq!(rig.ask("1", "what was it?").await, "That.");
    assert!(rig.model.last().transcript().contains("Move last year's notes"));
    rig.finish().await;
}

#[tokio::test]
async fn what_cannot_be_is_told_to_the_model() {
    let mut rig = Rig::new().await;
    proposed(&mut rig).await;
    for (tool, args, expected) in [
        ("propose", json!({"title": " ", "body": "x"}), "A title has 1 to 120 characters."),
        ("propose", json!({"title": "x", "body": ""}), "A body has 1 to 3000 characters."),
        ("update_proposal", json!({"id": 7, "state": "accepted"}), "There is no proposal 7 here"),
        ("update_proposal", json!({"id": 1}), "Nothing to change"),
        ("update_proposal", json!({"id": 1, "state": "lost"}), "are wrong"),
    ] {
        let words = format!("try {tool} {args}");
        rig.model.on(&words, [calls(&[(tool, args)]), says("ok")]);
        assert_eq!(rig.ask("1", &words).await, "ok");
        let told = rig.model.last().transcript();
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert_eq!(rig.ask("1", "/new").await, replies::NEW_SESSION);
    assert_eq!(rig.ask("1", "/proposals").await, replies::NO_PROPOSALS);
    rig.finish().await;
}
