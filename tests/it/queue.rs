//! What becomes of what is said while a turn works, as `/queue` and the config say: nothing is lost,
//! and nothing overtakes.

use std::sync::Arc;

use peacrab::replies;
use peacrab::tools::{AnyTool, ToolSet};
use peacrab::types::session::QueueMode;
use serde_json::json;

use crate::media::photo;
use crate::support::fake_channel::FetchBehavior;
use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, USER};
use crate::support::script::{Gate, calls, held, says};
use crate::support::tools::HangingTool;

/// A rig whose config has that mode, and which works for `who` in `chat` until the gate opens.
async fn working(mode: QueueMode, who: &str, chat: &str) -> (Rig, Gate) {
    let mut parts = RigOptions::default();
    parts.agent.queue = mode;
    let mut rig = Rig::of(parts).await;
    let gate = Gate::shut();
    rig.model.on("tea", [held(&gate, says("tea"))]);
    rig.say_as(who, chat, "tea");
    rig.wait_at(&gate).await;
    (rig, gate)
}

#[tokio::test]
async fn followup_answers_each_message_by_itself_in_order() {
    let (mut rig, gate) = working(QueueMode::Followup, OWNER, "1").await;
    for text in ["sugar", "milk", "cake"] {
        rig.say("1", text);
    }
    rig.waiting(3).await;
    rig.ask("1", "/whoami").await;
    gate.open();
    assert_eq!(rig.next_messages("1", 4).await, ["tea", "re: sugar", "re: milk", "re: cake"]);
    rig.finish().await;
}

#[tokio::test]
async fn followup_is_kept_over_a_restart_and_shows_no_step_what_waits() {
    let gate = Gate::shut();
    let hang = Arc::new(HangingTool(gate.clone())) as Arc<dyn AnyTool>;
    let mut rig =
        Rig::of(RigOptions { tools: ToolSet::new([hang]), ..RigOptions::default() }).await;
    rig.ask("1", "/queue followup").await;
    rig.model.on("tea", [calls(&[("hang", json!({}))]), says("tea")]);
    rig.say("1", "tea");
    rig.wait_at(&gate).await;
    rig.say("1", "sugar");
    rig.say("1", "milk");
    rig.waiting(2).await;
    rig.stop_and_start_again().await;
    gate.open();
    assert_eq!(rig.next_messages("1", 3).await, ["tea", "re: sugar", "re: milk"]);
    rig.finish().await;
}

#[tokio::test]
async fn parts_of_one_thing_are_one_message_also_then() {
    let (mut rig, gate) = working(QueueMode::Followup, OWNER, "1").await;
    rig.say_changed(OWNER, "1", "one", |message| message.body.more = true);
    rig.say("1", "thing");
    rig.say("1", "other");
    rig.waiting(3).await;
    gate.open();
    assert_eq!(rig.next_messages("1", 3).await, ["tea", "re: one thing", "re: other"]);
    rig.finish().await;
}

#[tokio::test]
async fn collect_answers_all_of_it_at_once_and_each_person_by_themselves() {
    let (mut rig, gate) = working(QueueMode::Collect, USER, "-1").await;
    rig.say_as(USER, "-1", "sugar");
    rig.waiting(1).await;
    rig.say_as(USER, "-1", "milk");
    rig.waiting(2).await;
    rig.say_as(OTHER_USER, "-1", "cake");
    rig.waiting(3).await;
    rig.say_as(USER, "-1", "spoon");
    rig.waiting(4).await;
    gate.open();
    let heard = rig.next_messages("-1", 4).await;
    assert_eq!(heard, ["tea", "re: sugar milk", "re: cake", "re: spoon"]);
    rig.finish().await;
}

#[tokio::test]
async fn collect_waits_for_files() {
    let (mut rig, gate) = working(QueueMode::Collect, OWNER, "1").await;
    rig.home.has_file("cat", [FetchBehavior::Bytes(b"meow".to_vec())]);
    rig.say_changed(OWNER, "1", "look", |message| {
        message.body.media = vec![photo("cat")];
    });
    rig.say("1", "and this");
    rig.waiting(2).await;
    gate.open();
    assert_eq!(rig.next_messages("1", 2).await, ["tea", "re: look and this"]);
    assert!(rig.model.last().transcript().contains("[photo: downloads/"));
    rig.finish().await;
}

#[tokio::test]
async fn interrupt_turns_to_what_was_said_last_without_a_word() {
    let (mut rig, gate) = working(QueueMode::Interrupt, OWNER, "1").await;
    assert_eq!(rig.ask("1", "no, coffee").await, "re: no, coffee");
    gate.open();
    let transcript = rig.model.last().transcript();
    assert!(transcript.contains("tea\nassistant: [Stopped by the person.]"), "{transcript}");
    let outcomes = rig.query("SELECT outcome FROM inbound ORDER BY id");
    assert_eq!(outcomes, ["stopped", "answered"]);
    rig.finish().await;
}

#[tokio::test]
async fn interrupt_spares_the_turns_of_others() {
    let (mut rig, gate) = working(QueueMode::Interrupt, USER, "-1").await;
    rig.say_as(OTHER_USER, "-1", "cake");
    rig.waiting(1).await;
    rig.say_as(OWNER, "-1", "/whoami");
    rig.next_message("-1").await;
    // Their own next word does end it; who waits for longer comes first.
    rig.say_as(USER, "-1", "coffee");
    assert_eq!(rig.next_messages("-1", 2).await, ["re: cake", "re: coffee"]);
    gate.open();
    rig.finish().await;
}

#[tokio::test]
async fn interrupt_waits_for_the_files_of_what_was_said() {
    let file = Gate::shut();
    let (mut rig, gate) = working(QueueMode::Interrupt, OWNER, "1").await;
    rig.home.has_file("cat", [FetchBehavior::Held(file.clone(), b"meow".to_vec())]);
    rig.say_changed(OWNER, "1", "look", |message| {
        message.body.media = vec![photo("cat")];
    });
    rig.wait_at(&file).await;
    rig.ask("1", "/whoami").await;
    assert_eq!(rig.query("SELECT 'one' FROM turns WHERE ending IS NULL"), ["one"]);
    file.open();
    assert_eq!(rig.next_message("1").await, "re: look");
    gate.open();
    rig.finish().await;
}

#[tokio::test]
async fn interrupt_holds_over_a_restart() {
    let (mut rig, gate) = working(QueueMode::Interrupt, OWNER, "1").await;
    rig.model.on("tea", [held(&gate, says("tea"))]);
    rig.stop().await;
    rig.say("1", "coffee");
    rig.start().await;
    assert_eq!(rig.next_message("1").await, "re: coffee");
    gate.open();
    rig.say("1", "tea");
    rig.next_messages("1", 1).await;
    rig.finish().await;
}

fn interrupting() -> RigOptions {
    let mut parts = RigOptions::default();
    parts.agent.queue = QueueMode::Interrupt;
    parts.agent.asking.approvals.tools = vec!["write_file".to_owned()];
    parts
}

#[tokio::test]
async fn interrupt_ends_a_turn_that_waits_for_a_subagent_and_the_subagent() {
    for restarts in [false, true] {
        let mut rig = Rig::of(interrupting()).await;
        let (gate, beside) = (Gate::shut(), Gate::shut());
        let task = |task: &str| json!({"task": task});
        let boiled = || calls(&[("task_completion", json!({"result": "boiled"}))]);
        rig.model.on("go", [calls(&[("spawn", task("boil")), ("subagent", task("sort"))])]);
        rig.model.on("boil", [held(&beside, boiled()), held(&beside, boiled())]);
        rig.model.on("sort", [held(&gate, says("sorted"))]);
        rig.say("1", "go");
        rig.wait_at(&gate).await;
        rig.wait_at(&beside).await;
        if restarts {
            rig.model.on("sort", [held(&gate, says("sorted"))]);
            rig.stop().await;
            rig.say("1", "no, coffee");
            rig.start().await;
            rig.wait_at_times(&beside, 2).await;
        } else {
            rig.say("1", "no, coffee");
        }
        assert_eq!(rig.next_message("1").await, "re: no, coffee");
        gate.open();
        beside.open();
        // What works beside the conversation goes on.
        assert_eq!(rig.next_message("1").await, replies::subagent_ended(1, "boil", true, "boiled"));
        assert_eq!(
            rig.query("SELECT state FROM tasks WHERE kind = 'subagent' ORDER BY id"),
            ["done", "stopped"]
        );
        let calls = "SELECT state FROM calls WHERE tool IN ('spawn', 'subagent') ORDER BY id";
        assert_eq!(rig.query(calls), ["done", "skipped"]);
        assert_eq!(rig.ask("1", "thanks").await, "re: thanks");
    }
}

#[tokio::test]
async fn interrupt_ends_a_turn_that_waits_to_be_allowed() {
    let mut rig = Rig::of(interrupting()).await;
    rig.model.on("go", [calls(&[("write_file", json!({"path": "a.md", "content": "a"}))])]);
    assert!(rig.ask("1", "go").await.contains("Approve?"));
    rig.say("1", "no, coffee");
    let heard = rig.next_messages("1", 2).await;
    assert!(heard[0].ends_with(replies::NO_LONGER_NEEDED), "{heard:?}");
    assert_eq!(heard[1], "re: no, coffee");
    assert_eq!(rig.ask("1", "/approve 1").await, replies::ALREADY_DECIDED);
    assert!(!rig.workspace().join("a.md").exists());
    rig.finish().await;
}

#[tokio::test]
async fn interrupt_takes_the_answer_to_a_question_for_that() {
    let mut rig = Rig::of(interrupting()).await;
    let asks =
        || calls(&[("ask_question", json!({"question": "Which?", "choices": ["tea", "milk"]}))]);
    rig.model.on("go", [asks(), says("Tea it is.")]);
    assert_eq!(rig.ask("1", "go").await, "Which?");
    rig.say("1", "tea");
    assert_eq!(rig.next_message("1").await, replies::closed("Which?", "answered by Person 7"));
    assert_eq!(rig.next_message("1").await, "Tea it is.");
    rig.finish().await;
}

/// What was said before the question is no answer to it.
#[tokio::test]
async fn interrupt_ends_a_question_for_what_waited_before_it() {
    let mut rig = Rig::new().await;
    rig.ask("1", "/queue collect").await;
    let gate = Gate::shut();
    let asks =
        calls(&[("ask_question", json!({"question": "Which?", "choices": ["tea", "milk"]}))]);
    rig.model.on("go", [held(&gate, asks)]);
    rig.say("1", "go");
    rig.wait_at(&gate).await;
    rig.say("1", "no, coffee");
    rig.waiting(1).await;
    gate.open();
    assert_eq!(rig.next_message("1").await, "Which?");
    rig.say("1", "/queue interrupt");
    let mut heard = rig.next_messages("1", 3).await;
    heard.sort();
    let closed = replies::closed("Which?", replies::NO_LONGER_NEEDED);
    let mut expected = [replies::queue_is("interrupt"), closed, "re: no, coffee".to_owned()];
    expected.sort();
    assert_eq!(heard, expected);
    rig.finish().await;
}

#[tokio::test]
async fn a_chat_can_choose_and_go_back() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("tea", [held(&gate, says("tea"))]);
    rig.say("1", "tea");
    rig.wait_at(&gate).await;
    // Holds for the turn that runs already.
    assert_eq!(rig.ask("1", "/queue Followup").await, replies::queue_is("followup"));
    assert_eq!(rig.ask("2", "/queue").await, replies::queue_is("steer"));
    assert!(rig.ask("1", "/status").await.contains("New messages while I work: followup"));
    rig.say("1", "sugar");
    rig.say("1", "milk");
    rig.waiting(2).await;
    gate.open();
    assert_eq!(rig.next_messages("1", 3).await, ["tea", "re: sugar", "re: milk"]);
    assert_eq!(rig.ask("1", "/queue default").await, replies::queue_is("steer"));
    assert_eq!(rig.ask("1", "/queue backwards").await, replies::queue_is("steer"));
    rig.say_as(USER, "-1", "/queue collect");
    assert_eq!(rig.next_message("-1").await, replies::NOT_YOURS_TO_SET);
    rig.finish().await;
}
