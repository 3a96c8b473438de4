//! `/btw`: answered aside, once, and never silent.

use peacrab::provider::ProviderError;
use peacrab::replies;

use crate::support::rig::{OTHER_USER, Rig, USER};
use crate::support::script::{Gate, Reply, held, says};

#[tokio::test]
async fn is_answered_while_a_turn_works_and_leaves_no_trace_in_the_conversation() {
    let mut rig = Rig::new().await;
    rig.ask("1", "the word is crab").await;
    let gate = Gate::shut();
    rig.model.on("think", [held(&gate, says("thought"))]);
    rig.say("1", "think");
    rig.wait_at(&gate).await;
    rig.model.on("which word", [says("crab")]);
    assert_eq!(rig.ask("1", "/btw which word was it?").await, "crab");
    let aside = rig.model.last();
    assert!(aside.transcript().contains("the word is crab"), "{}", aside.transcript());
    assert!(!aside.may_call);
    assert!(aside.messages.last().unwrap().ends_with("\nwhich word was it?"));
    gate.open();
    assert_eq!(rig.next_message("1").await, "thought");
    rig.ask("1", "and now?").await;
    assert!(!rig.model.last().transcript().contains("which word"));
    // It begins as the conversation's own requests do, and is paid for.
    assert_eq!(rig.model.last().system, aside.system);
    assert_eq!(rig.model.last().tools, aside.tools);
    assert_eq!(rig.query("SELECT 'one' FROM ledger").len(), 4);
    let all = "SELECT outcome FROM inbound WHERE control = 1";
    assert_eq!(rig.query(all), ["obeyed"]);
    rig.finish().await;
}

#[tokio::test]
async fn holds_up_no_other_command_and_there_is_one_at_a_time() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("slowly"))]);
    rig.say_as(USER, "-1", "/btw slow?");
    rig.wait_at(&gate).await;
    rig.say_as(OTHER_USER, "-1", "/btw me too");
    assert_eq!(rig.next_message("-1").await, replies::BTW_BUSY);
    assert_eq!(rig.ask("2", "/btw elsewhere").await, "re: elsewhere");
    assert!(rig.ask("-1", "/status").await.contains("I'm idle here"));
    gate.open();
    assert_eq!(rig.next_message("-1").await, "slowly");
    assert_eq!(rig.ask("-1", "/btw").await, replies::BTW_USAGE);
    rig.finish().await;
}

#[tokio::test]
async fn says_what_went_wrong() {
    let mut rig = Rig::new().await;
    rig.model.on("one", [Reply::Fails(ProviderError::busy("no network"))]);
    rig.model.on("two", [Reply::Panics]);
    rig.model.on("three", [says("NO_REPLY")]);
    assert_eq!(rig.ask("1", "/btw one").await, replies::model_unavailable("no network"));
    assert_eq!(rig.ask("1", "/btw two").await, replies::SOMETHING_BROKE);
    assert_eq!(rig.ask("1", "/btw three").await, replies::EMPTY_ANSWER);
    rig.finish().await;
}

#[tokio::test]
async fn stop_ends_it() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("slowly"))]);
    rig.say("1", "/btw slow?");
    rig.wait_at(&gate).await;
    assert_eq!(rig.ask("1", "/stop").await, replies::STOPPED);
    gate.open();
    assert_eq!(rig.ask("1", "/btw again").await, "re: again");
    rig.finish().await;
}

/// A turn of one person's that hangs, and a question aside of another's.
async fn with_a_turn_and_an_aside() -> (Rig, Gate, Gate) {
    let mut rig = Rig::new().await;
    let (turn, aside) = (Gate::shut(), Gate::shut());
    rig.model.on("tea", [held(&turn, says("tea"))]);
    rig.say_as(USER, "-1", "tea");
    rig.wait_at(&turn).await;
    rig.model.on("slow", [held(&aside, says("slowly"))]);
    rig.say_as(OTHER_USER, "-1", "/btw slow?");
    rig.wait_at(&aside).await;
    (rig, turn, aside)
}

#[tokio::test]
async fn to_stop_ones_own_spares_the_turn_of_somebody_else() {
    let (mut rig, turn, aside) = with_a_turn_and_an_aside().await;
    rig.say_as(OTHER_USER, "-1", "/stop");
    assert_eq!(rig.next_message("-1").await, replies::STOPPED);
    turn.open();
    assert_eq!(rig.next_message("-1").await, "tea");
    aside.open();
    rig.finish().await;
}

#[tokio::test]
async fn is_spared_by_who_stops_a_turn_of_their_own() {
    let (mut rig, turn, aside) = with_a_turn_and_an_aside().await;
    rig.say_as(USER, "-1", "/stop");
    assert_eq!(rig.next_message("-1").await, replies::STOPPED);
    aside.open();
    assert_eq!(rig.next_message("-1").await, "slowly");
    turn.open();
    rig.finish().await;
}

#[tokio::test]
async fn is_answered_after_a_restart_once() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("too late"))]);
    rig.say("1", "/btw slow?");
    rig.wait_at(&gate).await;
    rig.stop_and_start_again().await;
    assert_eq!(rig.next_message("1").await, "re: slow?");
    gate.open();
    rig.finish().await;
}

#[tokio::test]
async fn tells_that_a_crash_came_between() {
    let mut rig = Rig::new().await;
    rig.ask("1", "/btw hello").await;
    rig.stop().await;
    // As a process leaves it that was killed in the middle.
    rig.execute("UPDATE inbound SET state = 'in turn', outcome = NULL");
    rig.start().await;
    assert_eq!(rig.next_message("1").await, replies::BTW_INTERRUPTED);
    rig.stop_and_start_again().await;
    rig.finish().await;
}
