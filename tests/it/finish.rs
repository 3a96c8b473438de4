//! Turns that only a call ends: what ends them, what a text alone leads to, and what a crash means.

use std::sync::Arc;

use peacrab::config::AgentConfig;
use peacrab::provider::StopReason;
use peacrab::provider::rehearsal::Rehearsal;
use peacrab::types::event::EventKind;
use peacrab::types::session::Finish;
use serde_json::json;

use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{Gate, Reply, calls, ends, held, says};

async fn explicit() -> Rig {
    Rig::of(parts()).await
}

fn parts() -> RigOptions {
    let agent = AgentConfig { finish: Finish::Explicit, ..AgentConfig::default() };
    RigOptions { agent, ..RigOptions::default() }
}

fn completes(result: &str) -> Reply {
    calls(&[("task_completion", json!({ "result": result }))])
}

fn converses(text: &str) -> Reply {
    calls(&[("converse", json!({ "text": text }))])
}

#[tokio::test]
async fn only_a_call_ends_it_and_its_words_are_the_answer() {
    let mut rig = explicit().await;
    rig.model.on("count", [says("Let me see.")]);
    rig.model.on("no call", [completes("There are 42.")]);
    assert_eq!(rig.ask("1", "count the crabs").await, "There are 42.");
    rig.model.on("hello", [converses("Hello! What is it?")]);
    assert_eq!(rig.ask("1", "hello").await, "Hello! What is it?");
    let told = rig.model.last().transcript();
    let (thought, reminded) =
        (told.find("assistant: Let me see."), told.find("user: [That was no call"));
    assert!(thought.is_some() && thought < reminded, "{told}");
    assert!(reminded < told.find("result: There are 42."), "{told}");
    let system = rig.model.last().system.join("\n");
    assert!(system.contains("call task_completion with the answer"), "{system}");
    // One request each, but for the reminder.
    assert_eq!(rig.model.asked().len(), 3);
    rig.finish().await;
}

#[tokio::test]
async fn a_text_is_no_end_three_times_and_then_it_is_the_answer() {
    let mut rig = explicit().await;
    let mut onlooker = rig.events.as_ref().unwrap().subscribe();
    rig.model.on("count", [says("one")]);
    rig.model.on("no call", ["two", "three", "four"].map(says));
    assert_eq!(rig.ask("1", "count the crabs").await, "four");
    let mut reminders = Vec::new();
    loop {
        match onlooker.next().await.unwrap().what {
            EventKind::NoToolCall { reminder } => reminders.push(reminder),
            EventKind::TurnEnd { .. } => break,
            _ => {}
        }
    }
    assert_eq!(reminders, [1, 2, 3]);
    // They are counted in each turn anew.
    rig.model.on("again", [says("hm")]);
    rig.model.on("no call", [completes("Still four.")]);
    assert_eq!(rig.ask("1", "again").await, "Still four.");
    rig.finish().await;
}

#[tokio::test]
async fn silence_and_what_was_cut_short_end_it_without_a_reminder() {
    let mut rig = explicit().await;
    rig.model.on("psst", [says("NO_REPLY")]);
    rig.model.on("long", [ends("A long story", StopReason::MaxTokens)]);
    rig.say("-2", "psst");
    assert!(rig.ask("1", "a long one").await.starts_with("A long story"));
    rig.settled().await;
    assert_eq!(rig.model.asked().len(), 2);
    rig.finish().await;
}

#[tokio::test]
async fn an_empty_end_is_told_to_the_model_and_other_calls_of_its_step_are_made() {
    let mut rig = explicit().await;
    let both = calls(&[
        ("write_file", json!({ "path": "crabs.txt", "content": "42" })),
        ("task_completion", json!({ "result": "Written." })),
    ]);
    rig.model.on("count", [completes(" "), both]);
    assert_eq!(rig.ask("1", "count the crabs").await, "Written.");
    let told = rig.model.last().transcript();
    assert!(told.contains("result: `result` is empty."), "{told}");
    assert_eq!(std::fs::read_to_string(rig.workspace().join("crabs.txt")).unwrap(), "42");
    rig.finish().await;
}

#[tokio::test]
async fn what_is_said_meanwhile_is_heard_before_the_reminder_ends_nothing() {
    let mut rig = explicit().await;
    let gate = Gate::shut();
    rig.model.on("count", [held(&gate, says("I will count."))]);
    rig.model.on("shrimps", [completes("No shrimps.")]);
    rig.say("1", "count the crabs");
    rig.wait_at(&gate).await;
    rig.say("1", "the shrimps, too");
    // Once a second command is followed, the loop has handed over what came before the first.
    rig.ask("1", "/whoami").await;
    rig.ask("1", "/whoami").await;
    gate.open();
    assert_eq!(rig.next_message("1").await, "No shrimps.");
    let told = rig.model.last().transcript();
    assert!(
        told.contains("user: [That was no call") && told.contains("the shrimps, too"),
        "{told}"
    );
    rig.finish().await;
}

#[tokio::test]
async fn a_restart_between_text_and_reminder_changes_nothing() {
    let mut rig = explicit().await;
    let gate = Gate::shut();
    rig.model.on("count", [says("Let me see.")]);
    rig.model.on("no call", [held(&gate, says("lost")), completes("42")]);
    rig.say("1", "count the crabs");
    rig.wait_at(&gate).await;
    let before = rig.model.last().transcript();
    rig.stop_and_start_again().await;
    assert_eq!(rig.next_message("1").await, "42");
    assert_eq!(rig.model.last().transcript(), before);
    assert_eq!(before.matches("[That was no call").count(), 1, "{before}");
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_that_a_text_ends_is_not_offered_the_calls() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [converses("Hi."), says("Hello.")]);
    assert_eq!(rig.ask("1", "hello").await, "Hello.");
    let last = rig.model.last();
    assert!(!last.has_tool("converse") && !last.has_tool("task_completion"));
    assert!(last.transcript().contains("result: There is no tool `converse`."));
    rig.finish().await;
}

#[tokio::test]
async fn the_rehearsal_ends_its_turns_by_a_call_too() {
    let parts = RigOptions { provider: Some(Arc::new(Rehearsal)), ..parts() };
    let mut rig = Rig::of(parts).await;
    let answer = rig.ask("1", "write hello to a.txt then read a.txt").await;
    assert!(answer.contains("hello"), "{answer}");
    let answer = rig.ask("1", "what was that?").await;
    assert!(answer.starts_with("You said: what was that?"), "{answer}");
    rig.finish().await;
}
