//! A person who is removed or blocked: nothing of theirs goes on, and nothing of others ends.

use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::replies;
use peacrab::types::session::QueueMode;
use serde_json::json;

use super::{number, open_to_all};
use crate::support::rig::{OTHER_USER, Rig, RigOptions, STRANGER, USER};
use crate::support::script::{Gate, Reply, calls, held, says};

/// A stranger whom the owner has made a user.
async fn with_a_user(parts: RigOptions) -> Rig {
    let mut rig = Rig::of(parts).await;
    rig.ask("1", "hello").await;
    rig.say_as(STRANGER, "66", "hello");
    rig.next_message("66").await;
    let user = format!("/people user {}", number(&rig, STRANGER));
    assert_eq!(rig.ask("1", &user).await, replies::role_is_set("Person 66", "user"));
    rig
}

/// The owner removes that person.
async fn remove(rig: &mut Rig) {
    let them = number(rig, STRANGER);
    let removed = rig.ask("1", &format!("/people remove {them}")).await;
    assert_eq!(removed, replies::person_is_removed("Person 66", &them));
}

/// The calls that hand tasks to subagents.
fn spawns(tasks: &[&str]) -> Reply {
    let tasks: Vec<_> = tasks.iter().map(|task| ("spawn", json!({"task": task}))).collect();
    calls(&tasks)
}

fn states(rig: &Rig) -> Vec<String> {
    rig.query("SELECT state FROM tasks WHERE kind = 'subagent' ORDER BY id")
}

#[tokio::test]
async fn their_subagents_take_up_no_places_of_others() {
    let mut rig = with_a_user(open_to_all()).await;
    let gate = Gate::shut();
    let tasks = ["count crabs", "count shells", "count gulls", "count boats"];
    rig.model.on("go", [spawns(&tasks), says("They have begun.")]);
    for task in tasks {
        rig.model.on(task, [held(&gate, says("lost"))]);
    }
    rig.say_as(STRANGER, "66", "go");
    assert_eq!(rig.next_message("66").await, "They have begun.");
    rig.wait_at_times(&gate, 4).await;
    remove(&mut rig).await;
    assert_eq!(states(&rig), ["stopped"; 4]);
    let done = calls(&[("task_completion", json!({"result": "three"}))]);
    rig.model.on("begin", [spawns(&["count waves"]), says("It has begun.")]);
    rig.model.on("count waves", [done]);
    rig.say("1", "begin");
    let heard = rig.next_messages("1", 2).await;
    assert!(heard.contains(&"It has begun.".to_owned()), "{heard:?}");
    assert!(heard.contains(&replies::subagent_ended(5, "count waves", true, "three")), "{heard:?}");
    gate.open();
    rig.finish().await;
}

#[tokio::test]
async fn a_subagent_that_waits_for_an_answer_ends_with_the_access_of_its_person() {
    for verb in ["block", "remove"] {
        let mut parts = open_to_all();
        let approvals = Approvals { tools: vec!["write_file".to_owned()], roles: Vec::new() };
        parts.agent.asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
        let mut rig = with_a_user(parts).await;
        let writes = calls(&[("write_file", json!({"path": "note.md", "content": "x"}))]);
        rig.model.on("go", [spawns(&["write it down"]), says("It has begun.")]);
        rig.model.on("write it down", [writes]);
        rig.say_as(STRANGER, "66", "go");
        let heard = rig.next_messages("66", 2).await;
        assert!(heard.contains(&replies::ASKED_ELSEWHERE.to_owned()), "{heard:?}");
        assert!(rig.next_message("1").await.contains("Approve?"));
        let order = format!("/people {verb} {}", number(&rig, STRANGER));
        rig.say("1", &order);
        // The answer, and the question that is closed.
        rig.next_messages("1", 2).await;
        assert_eq!(states(&rig), ["stopped"], "{verb}");
        rig.finish().await;
    }
}

#[tokio::test]
async fn their_subagents_that_wait_for_a_slot_do_not_begin() {
    let mut parts = open_to_all();
    // One slot for everybody, and one for the owner.
    parts.agent.turns_max = 2;
    let mut rig = with_a_user(parts).await;
    let gate = Gate::shut();
    rig.model.on("go", [spawns(&["count crabs"]), held(&gate, says("lost"))]);
    rig.say_as(STRANGER, "66", "go");
    rig.wait_at(&gate).await;
    rig.waiting(1).await;
    remove(&mut rig).await;
    gate.open();
    assert_eq!(states(&rig), ["stopped"]);
    rig.say_as(STRANGER, "66", "hello again");
    assert_eq!(rig.next_message("66").await, "re: hello again");
    rig.settled().await;
    let asked = rig.model.asked();
    assert!(!asked.iter().any(|it| it.transcript().ends_with("count crabs")));
    rig.finish().await;
}

#[tokio::test]
async fn their_side_question_is_not_answered_and_is_kept_for_nobody() {
    let mut rig = with_a_user(open_to_all()).await;
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("slowly"))]);
    rig.say_as(STRANGER, "66", "/btw slow?");
    rig.wait_at(&gate).await;
    remove(&mut rig).await;
    let outcomes = rig.query("SELECT outcome FROM inbound WHERE chat = '66' AND control = 1");
    assert_eq!(outcomes, ["stopped"]);
    rig.say_as(STRANGER, "66", "hello again");
    assert_eq!(rig.next_message("66").await, "re: hello again");
    // It works no more, and so the next one soon has its turn.
    let mut answer = String::new();
    for _ in 0..50 {
        rig.say_as(STRANGER, "66", "/btw again");
        answer = rig.next_message("66").await;
        if answer != replies::BTW_BUSY {
            break;
        }
    }
    assert_eq!(answer, "re: again");
    gate.open();
    rig.finish().await;
}

#[tokio::test]
async fn what_waits_where_a_job_of_theirs_reported_to_somebody_else_is_answered() {
    let mut parts = open_to_all();
    parts.agent.queue = QueueMode::Followup;
    let mut rig = with_a_user(parts).await;
    // Among the owner's turns is a note of a job of theirs, as an older version made it.
    let sender = "'{\"id\":\"66\",\"name\":\"Person 66\"}'";
    rig.ask("1", "let us speak of tides").await;
    rig.execute(&format!(
        "UPDATE turns SET noted = 1, sender = {sender} WHERE id = (SELECT min(id) FROM turns)"
    ));
    let gate = Gate::shut();
    rig.model.on("tea", [held(&gate, says("tea"))]);
    rig.say("1", "tea");
    rig.wait_at(&gate).await;
    rig.say("1", "of what did we speak?");
    rig.waiting(1).await;
    let order = format!("/people remove {}", number(&rig, STRANGER));
    assert!(rig.ask("5", &order).await.contains("Person 66"));
    gate.open();
    assert_eq!(rig.next_messages("1", 2).await, ["tea", "re: of what did we speak?"]);
    assert!(rig.model.last().transcript().contains("let us speak of tides"));
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_with_nothing_but_notes_of_their_jobs_is_over() {
    let mut rig = with_a_user(open_to_all()).await;
    rig.execute("UPDATE turns SET noted = 1 WHERE json_extract(sender, '$.id') = '66'");
    remove(&mut rig).await;
    assert_eq!(
        rig.query(
            "SELECT CAST(count(*) AS TEXT) FROM sessions WHERE chat = '66' AND closed IS NULL"
        ),
        ["0"]
    );
    rig.finish().await;
}

#[tokio::test]
async fn nothing_goes_on_for_somebody_who_is_blocked() {
    let mut rig = with_a_user(open_to_all()).await;
    let gate = Gate::shut();
    rig.model.on("paint", [spawns(&["count crabs"]), held(&gate, says("lost"))]);
    rig.model.on("count crabs", [held(&gate, says("lost"))]);
    rig.model.on("whelk", [held(&gate, says("lost"))]);
    rig.say_as(STRANGER, "66", "paint it");
    rig.wait_at_times(&gate, 2).await;
    rig.say_as(STRANGER, "66", "/btw whelk?");
    rig.wait_at_times(&gate, 3).await;
    let order = format!("/people block {}", number(&rig, STRANGER));
    assert_eq!(rig.ask("1", &order).await, replies::person_is_blocked("Person 66"));
    assert_eq!(states(&rig), ["stopped"]);
    let asked = rig.model.asked().len();
    gate.open();
    rig.settled().await;
    // Nor is anything resumed later.
    rig.stop_and_start_again().await;
    assert_eq!(rig.ask("1", "still there?").await, "re: still there?");
    rig.settled().await;
    assert_eq!(rig.model.asked().len(), asked + 1);
    assert_eq!(rig.unread("66"), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn subagents_do_not_go_on_for_somebody_whom_the_config_names_no_more() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    let gate = Gate::shut();
    rig.model.on("paint", [spawns(&["count crabs"]), says("It has begun.")]);
    rig.model.on("count crabs", [held(&gate, says("lost"))]);
    rig.say_as(USER, "2", "paint it");
    assert_eq!(rig.next_message("2").await, "It has begun.");
    rig.wait_at(&gate).await;
    rig.stop().await;
    rig.parts.access.allow.retain(|id| id != USER);
    let asked = rig.model.asked().len();
    rig.start().await;
    assert_eq!(rig.ask("1", "still there?").await, "re: still there?");
    rig.settled().await;
    assert_eq!(states(&rig), ["stopped"]);
    assert_eq!(rig.model.asked().len(), asked + 1);
    assert_eq!(rig.unread("2"), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_turn_that_waits_for_a_subagent_ends_with_the_access_of_its_person() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    let gate = Gate::shut();
    rig.model.on("paint", [calls(&[("subagent", json!({"task": "count crabs"}))])]);
    rig.model.on("count crabs", [held(&gate, says("lost"))]);
    rig.say_as(USER, "-1", "paint it");
    rig.wait_at(&gate).await;
    rig.stop().await;
    rig.parts.access.allow.retain(|id| id != USER);
    rig.start().await;
    assert_eq!(rig.next_message("-1").await, replies::ACCESS_HAS_ENDED);
    // Nobody has to wait behind it.
    rig.say_as(OTHER_USER, "-1", "and me?");
    assert_eq!(rig.next_message("-1").await, "re: and me?");
    assert_eq!(states(&rig), ["interrupted"]);
    assert_eq!(rig.query("SELECT state FROM calls"), ["failed"]);
    rig.finish().await;
}
