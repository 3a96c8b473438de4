//! What is said while a turn works: shown to the model at its next step, never answered twice, and
//! never lost.

use std::sync::Arc;

use peacrab::replies;
use peacrab::tools::{AnyTool, ToolSet, files};
use peacrab::types::session::CallOutcome;
use serde_json::json;

use crate::support::rig::{OTHER_USER, Rig, RigOptions, USER};
use crate::support::script::{Gate, calls, held, says};
use crate::support::tools::HangingTool;

/// A rig with a tool that hangs at the gate.
async fn with_hanging_tool(gate: &Gate) -> Rig {
    let hang = Arc::new(HangingTool(gate.clone())) as Arc<dyn AnyTool>;
    let tools = ToolSet::new([hang, Arc::new(files::ListFiles)]);
    Rig::of(RigOptions { tools, ..RigOptions::default() }).await
}

#[tokio::test]
async fn shows_the_model_at_its_next_step_what_was_said_meanwhile() {
    let gate = Gate::shut();
    let mut rig = with_hanging_tool(&gate).await;
    rig.model.on("tea", [calls(&[("hang", json!({})), ("list_files", json!({}))])]);
    rig.model.on("coffee", [says("coffee it is")]);
    rig.say("1", "make tea");
    rig.wait_at(&gate).await;
    rig.say("1", "no, coffee");
    rig.waiting(1).await;
    // The loop hands it over after a command that came later.
    rig.ask("1", "/whoami").await;
    gate.open();
    assert_eq!(rig.next_message("1").await, "coffee it is");
    rig.settled().await;
    let asked = rig.model.last();
    let skipped = CallOutcome::Skipped;
    let tail: Vec<_> = asked.messages.iter().rev().take(3).rev().collect();
    assert_eq!(tail[0], "result: hung no more");
    assert_eq!(*tail[1], format!("result: {}", skipped.for_model()));
    assert!(tail[2].ends_with("no, coffee"), "{tail:?}");
    // One outcome for both.
    assert_eq!(rig.query("SELECT outcome FROM inbound WHERE control = 0"), ["answered"; 2]);
    assert_eq!(rig.model.asked().len(), 2);
    rig.ask("1", "thanks").await;
    rig.finish().await;
}

#[tokio::test]
async fn others_in_a_group_wait_for_the_next_turn() {
    let gate = Gate::shut();
    let mut rig = with_hanging_tool(&gate).await;
    rig.model.on("tea", [calls(&[("hang", json!({}))]), says("tea")]);
    rig.say_as(USER, "-1", "make tea");
    rig.wait_at(&gate).await;
    rig.say_as(OTHER_USER, "-1", "and for me cake");
    rig.say_as(USER, "-1", "and sugar");
    rig.waiting(2).await;
    rig.say_as(USER, "-1", "/whoami");
    rig.next_message("-1").await;
    gate.open();
    let heard = rig.next_messages("-1", 3).await;
    assert_eq!(heard, ["tea", "re: and for me cake", "re: and sugar"]);
    assert!(!rig.model.asked()[1].transcript().contains("cake"));
    rig.finish().await;
}

#[tokio::test]
async fn what_is_said_during_the_last_step_begins_the_next_turn() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("tea", [held(&gate, says("tea"))]);
    rig.say("1", "tea");
    rig.wait_at(&gate).await;
    rig.say("1", "sugar");
    rig.say("1", "milk");
    rig.waiting(2).await;
    rig.ask("1", "/whoami").await;
    gate.open();
    assert_eq!(rig.next_messages("1", 2).await, ["tea", "re: sugar milk"]);
    rig.finish().await;
}

#[tokio::test]
async fn what_was_said_after_the_last_step_that_is_allowed_is_answered_next() {
    let gate = Gate::shut();
    let mut rig = with_hanging_tool(&gate).await;
    rig.parts.agent.steps_max = 1;
    rig.stop_and_start_again().await;
    rig.model.on("tea", [calls(&[("hang", json!({}))])]);
    rig.model.on("used up", [says("")]);
    rig.say("1", "tea");
    rig.wait_at(&gate).await;
    rig.say("1", "sugar");
    rig.waiting(1).await;
    rig.ask("1", "/whoami").await;
    gate.open();
    let words = peacrab::replies::steps_exhausted(1);
    assert_eq!(rig.next_messages("1", 2).await, [&words, "re: sugar"]);
    rig.finish().await;
}

#[tokio::test]
async fn nothing_said_meanwhile_is_lost_in_a_restart() {
    let gate = Gate::shut();
    let mut rig = with_hanging_tool(&gate).await;
    rig.model.on("tea", [calls(&[("hang", json!({}))])]);
    rig.model.on("sugar", [says("tea with sugar")]);
    rig.say("1", "tea");
    rig.wait_at(&gate).await;
    rig.say("1", "sugar");
    rig.waiting(1).await;
    rig.ask("1", "/whoami").await;
    rig.stop_and_start_again().await;
    // The call may be begun again or skipped; the loop hands over first what came meanwhile.
    rig.say("1", "/whoami");
    rig.wait_until(|rig| !rig.unread("1").is_empty()).await;
    gate.open();
    assert!(rig.next_messages("1", 2).await.contains(&"tea with sugar".to_owned()));
    assert_eq!(rig.model.asked().len(), 2);
    rig.finish().await;
}

#[tokio::test]
async fn more_than_a_turn_can_be_handed_is_still_answered() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("first", [held(&gate, says("done"))]);
    rig.say("1", "first");
    rig.wait_at(&gate).await;
    for n in 0..60 {
        rig.say("1", &format!("n{n}"));
        if n % 2 == 0 {
            rig.waiting(n + 1).await;
        }
    }
    rig.waiting(60).await;
    gate.open();
    assert_eq!(rig.next_message("1").await, "done");
    let mut told = Vec::new();
    while told.len() < 60 {
        let answer = rig.next_message("1").await;
        told.extend(answer.trim_start_matches("re: ").split(' ').map(str::to_owned));
    }
    assert_eq!(told, (0..60).map(|n| format!("n{n}")).collect::<Vec<_>>());
    rig.finish().await;
}

/// Who asks for a skill in vain is told so, and has said nothing that concerns what is being done.
#[tokio::test]
async fn a_skill_that_is_not_there_skips_no_call() {
    let gate = Gate::shut();
    let mut rig = with_hanging_tool(&gate).await;
    let planned = calls(&[("hang", json!({})), ("list_files", json!({}))]);
    rig.model.on("tea", [planned, says("tea")]);
    rig.say("1", "make tea");
    rig.wait_at(&gate).await;
    rig.say("1", "/skill nemo please");
    rig.waiting(1).await;
    rig.ask("1", "/whoami").await;
    gate.open();
    assert_eq!(rig.next_messages("1", 2).await, [&*replies::no_skill("nemo"), "tea"]);
    assert_eq!(rig.query("SELECT state FROM calls"), ["done", "done"]);
    assert_eq!(rig.query("SELECT outcome FROM inbound WHERE control = 0"), ["answered", "refused"]);
    rig.finish().await;
}
