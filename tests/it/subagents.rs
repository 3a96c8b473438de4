//! Subagents: tasks that are handed on, and what comes of them, once, to where it was asked for.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::provider::{Delta, ProviderError, StopReason, ToolCall, Usage};
use peacrab::replies;
use peacrab::types::message::{DeliveryId, Press};
use serde_json::json;

use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, USER};
use crate::support::script::{Gate, Reply, calls, held, says};

const TASK: &str = "count the crabs";

fn spawns(tasks: &[&str]) -> Reply {
    let tasks: Vec<_> = tasks.iter().map(|task| ("spawn", json!({"task": task}))).collect();
    calls(&tasks)
}

fn awaits(task: &str) -> Reply {
    calls(&[("subagent", json!({"task": task}))])
}

fn completes(result: &str) -> Reply {
    calls(&[("task_completion", json!({"result": result}))])
}

fn done(id: i64, task: &str, result: &str) -> String {
    replies::subagent_ended(id, task, true, result)
}

fn failed(id: i64, task: &str, words: &str) -> String {
    replies::subagent_ended(id, task, false, words)
}

fn states(rig: &Rig) -> Vec<String> {
    rig.query("SELECT state FROM tasks WHERE kind = 'subagent' ORDER BY id")
}

/// What a chat gets next, in any order.
async fn heard(rig: &mut Rig, chat: &str, n: usize) -> Vec<String> {
    let mut heard = rig.next_messages(chat, n).await;
    heard.sort();
    heard
}

fn sorted<const N: usize>(mut texts: [String; N]) -> Vec<String> {
    texts.sort();
    texts.to_vec()
}

#[tokio::test]
async fn a_result_comes_once_to_the_thread_that_asked_and_the_model_knows_it_later() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
    rig.model.on(TASK, [held(&gate, completes("42 crabs"))]);
    rig.say_in_thread("1", "beach", "go");
    assert_eq!(rig.next_message("1").await, "It has begun.");
    gate.open();
    let result = rig.next_messages_on(Arc::clone(&rig.home), "1", 1).await.remove(0);
    assert_eq!(
        (&*result.text, result.thread.as_deref()),
        (&*done(1, TASK, "42 crabs"), Some("beach"))
    );
    assert_eq!(states(&rig), ["done"]);
    rig.say_in_thread("1", "beach", "how many?");
    assert_eq!(rig.next_message("1").await, "re: how many?");
    let told = rig.model.last().transcript();
    assert!(told.contains("result: Subagent 1 has begun"), "{told}");
    assert!(
        told.contains(&format!("user: [Subagent 1, to which you have handed the task “{TASK}”"))
    );
    assert!(told.contains("assistant: 42 crabs"), "{told}");
    // Elsewhere nobody knows.
    rig.ask("1", "hello").await;
    assert!(!rig.model.last().transcript().contains("42 crabs"));
    rig.finish().await;
}

#[tokio::test]
async fn a_result_of_what_others_wrote_stands_as_a_reference_that_a_call_opens() {
    let mut rig = Rig::new().await;
    fs::write(rig.path().join("downloads/page.txt"), "There are 42.").unwrap();
    let reads = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
    rig.model.on(TASK, [reads, completes("42 crabs")]);
    rig.say("1", "go");
    let expected = sorted(["It has begun.".to_owned(), done(1, TASK, "42 crabs")]);
    assert_eq!(heard(&mut rig, "1", 2).await, expected);
    let writes =
        |content: &str| calls(&[("write_file", json!({"path": "tea.md", "content": content}))]);
    rig.model.on("note the tea", [writes("tea"), says("Noted.")]);
    assert_eq!(rig.ask("1", "note the tea").await, "Noted.");
    let told = rig.model.last().transcript();
    assert!(told.contains("user: [The result of subagent 1, "), "{told}");
    assert!(!told.contains("42 crabs"), "{told}");
    let query = told.split("query “").nth(1).unwrap().split('”').next().unwrap().to_owned();
    let opens = calls(&[("memory_search", json!({"query": query, "scope": "untrusted"}))]);
    rig.model.on("how many", [opens, writes("crabs"), says("No.")]);
    let question = rig.ask("1", "how many?").await;
    assert!(question.contains("Approve?"), "{question}");
    assert!(rig.model.last().transcript().contains("42 crabs"));
    rig.say("1", "/deny 1");
    rig.next_messages("1", 3).await;
    rig.finish().await;
}

#[tokio::test]
async fn a_result_that_comes_while_the_model_speaks_is_known_at_the_next_turn() {
    let mut rig = Rig::new().await;
    let (gate, speaks) = (Gate::shut(), Gate::shut());
    rig.model.on("go", [spawns(&[TASK]), held(&speaks, says("It has begun."))]);
    rig.model.on(TASK, [held(&gate, completes("42 crabs"))]);
    rig.say("1", "go");
    rig.wait_at(&speaks).await;
    gate.open();
    assert_eq!(rig.next_message("1").await, done(1, TASK, "42 crabs"));
    speaks.open();
    assert_eq!(rig.next_message("1").await, "It has begun.");
    assert_eq!(rig.ask("1", "how many?").await, "re: how many?");
    let told = rig.model.last().transcript();
    assert!(told.find("It has begun.") < told.find("assistant: 42 crabs"), "{told}");
    rig.stop_and_start_again().await;
    rig.ask("1", "again").await;
    assert!(rig.model.last().transcript().starts_with(&told));
    rig.finish().await;
}

#[tokio::test]
async fn at_most_four_work_at_once_side_by_side() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    let tasks = ["task a", "task b", "task c", "task d", "task e"];
    rig.model.on("go", [spawns(&tasks), says("Four have begun.")]);
    for task in &tasks[..4] {
        rig.model.on(task, [held(&gate, completes("done"))]);
    }
    assert_eq!(rig.ask("1", "go").await, "Four have begun.");
    rig.wait_at_times(&gate, 4).await;
    let listed = rig.ask("1", "/subagents").await;
    assert!(listed.contains("4 running, since") && listed.contains("task a"), "{listed}");
    assert_eq!(rig.ask("2", "/subagents").await, replies::NO_SUBAGENTS);
    rig.model.on("wait for it", [awaits("task f"), says("No.")]);
    assert_eq!(rig.ask("1", "wait for it").await, "No.");
    assert!(rig.model.last().transcript().ends_with("or do it yourself."));
    gate.open();
    let results = heard(&mut rig, "1", 4).await;
    assert_eq!(results.len(), 4);
    assert_eq!(
        rig.query("SELECT state FROM calls WHERE tool IN ('spawn', 'subagent') ORDER BY id"),
        ["done", "done", "done", "done", "failed", "failed"]
    );
    rig.finish().await;
}

#[tokio::test]
async fn a_call_can_wait_for_the_result_and_nobody_else_hears_it() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    // Each message is a turn of its own.
    rig.ask("1", "/queue followup").await;
    rig.model.on("go", [awaits(TASK), awaits("count again"), says("There are 42.")]);
    rig.model.on(TASK, [held(&gate, completes("42 crabs"))]);
    rig.model.on("count again", [completes("still 42")]);
    rig.say("1", "go");
    rig.wait_at(&gate).await;
    // The conversation waits; others do not.
    rig.say("1", "more");
    rig.waiting(1).await;
    assert_eq!(rig.ask("2", "hello").await, "re: hello");
    gate.open();
    assert_eq!(rig.next_messages("1", 2).await, ["There are 42.", "re: more"]);
    let told = rig.model.last().transcript();
    assert!(told.contains("result: 42 crabs") && told.contains("result: still 42"), "{told}");
    rig.finish().await;
}

#[tokio::test]
async fn is_told_its_task_and_the_rules_and_has_no_tools_for_people() {
    let mut rig = Rig::new().await;
    rig.model.on("go", [awaits(TASK), says("42.")]);
    rig.model.on(
        TASK,
        [
            calls(&[("message", json!({"text": "hi"})), ("spawn", json!({"task": "more"}))]),
            completes("42"),
        ],
    );
    rig.ask("1", "hello").await;
    assert!(!rig.model.last().has_tool("task_completion"));
    assert_eq!(rig.ask("1", "go").await, "42.");
    let asked = rig.model.asked();
    let told = asked.iter().find(|it| it.has_tool("task_completion")).unwrap();
    for tool in ["message", "ask_question", "propose", "spawn", "subagent"] {
        assert!(!told.has_tool(tool), "{tool}");
    }
    assert!(told.has_tool("read_file"));
    let system = told.system.join("\n");
    let rules = fs::read_to_string(rig.workspace().join("AGENTS.md")).unwrap();
    assert!(system.starts_with("You are a subagent") && system.ends_with(rules.trim()), "{system}");
    assert!(!told.transcript().contains("hello") && told.transcript().ends_with(TASK));
    let outputs = rig.query("SELECT output FROM calls WHERE state = 'failed'");
    assert_eq!(outputs, ["There is no tool `message`.", "There is no tool `spawn`."]);
    rig.finish().await;
}

#[tokio::test]
async fn stop_and_new_reach_them() {
    for (command, words) in [("/stop", replies::STOPPED), ("/new", replies::NEW_SESSION)] {
        let mut rig = Rig::new().await;
        let (gate, waits) = (Gate::shut(), Gate::shut());
        rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
        rig.model.on(TASK, [held(&gate, completes("42"))]);
        assert_eq!(rig.ask("1", "go").await, "It has begun.");
        rig.wait_at(&gate).await;
        assert_eq!(rig.ask("2", "/stop").await, replies::NOTHING_TO_STOP);
        assert_eq!(rig.ask("1", command).await, words);
        rig.model.on("wait", [awaits("sort them")]);
        rig.model.on("sort them", [held(&waits, completes("sorted"))]);
        rig.say("1", "wait");
        rig.wait_at(&waits).await;
        assert_eq!(rig.ask("1", command).await, words);
        gate.open();
        waits.open();
        assert_eq!(states(&rig), ["stopped", "stopped"]);
        assert_eq!(rig.ask("1", "hello").await, "re: hello");
        assert!(rig.ask("1", "/subagents").await.contains("1 stopped"));
        rig.finish().await;
    }
}

#[tokio::test]
async fn in_a_group_others_cannot_stop_them() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
    rig.model.on(TASK, [held(&gate, completes("42"))]);
    rig.say_as(USER, "-1", "go");
    assert_eq!(rig.next_message("-1").await, "It has begun.");
    rig.say_as(OTHER_USER, "-1", "/stop");
    assert_eq!(rig.next_message("-1").await, replies::NOTHING_TO_STOP);
    gate.open();
    let result = rig.next_messages_on(Arc::clone(&rig.home), "-1", 1).await.remove(0);
    assert_eq!((&*result.text, result.reply_to.as_deref()), (&*done(1, TASK, "42"), Some("m1")));
    // It was asked by who may not use the memory.
    let asked = rig.model.asked();
    let told = asked.iter().find(|it| it.has_tool("task_completion")).unwrap();
    assert!(!told.has_tool("remember"));
    rig.finish().await;
}

#[tokio::test]
async fn goes_on_after_a_restart_and_is_told_once() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
    rig.model.on("wait", [awaits("sort them"), says("Sorted.")]);
    for task in [TASK, "sort them"] {
        let writes =
            calls(&[("append_file", json!({"path": format!("{task}.md"), "content": "x"}))]);
        rig.model.on(task, [writes, held(&gate, says("lost")), completes("42")]);
    }
    assert_eq!(rig.ask("1", "go").await, "It has begun.");
    rig.say("2", "wait");
    rig.wait_at_times(&gate, 2).await;
    rig.stop_and_start_again().await;
    assert_eq!(rig.next_message("1").await, done(1, TASK, "42"));
    assert_eq!(rig.next_message("2").await, "Sorted.");
    assert!(rig.model.asked().iter().any(|it| it.transcript().contains("result: 42")));
    for task in [TASK, "sort them"] {
        let file = fs::read_to_string(rig.workspace().join(format!("{task}.md"))).unwrap();
        assert_eq!(file, "x");
    }
    rig.finish().await;
}

#[tokio::test]
async fn one_that_was_cut_off_too_often_is_told_as_interrupted() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
    rig.model.on(TASK, [held(&gate, says("lost"))]);
    assert_eq!(rig.ask("1", "go").await, "It has begun.");
    rig.wait_at(&gate).await;
    rig.stop().await;
    rig.execute("UPDATE turns SET attempts = 3 WHERE ending IS NULL");
    rig.start().await;
    assert_eq!(rig.next_message("1").await, failed(1, TASK, replies::SUBAGENT_GAVE_UP));
    assert_eq!(states(&rig), ["interrupted"]);
    rig.finish().await;
}

/// An older version ended their turns alone, and they took up places for ever.
#[tokio::test]
async fn those_that_were_left_behind_are_ended_at_the_start() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
    rig.model.on(TASK, [held(&gate, says("lost"))]);
    assert_eq!(rig.ask("1", "go").await, "It has begun.");
    rig.wait_at(&gate).await;
    rig.stop().await;
    rig.execute("UPDATE turns SET ending = '\"stopped\"', ended = 1 WHERE ending IS NULL");
    rig.execute("UPDATE inbound SET state = 'done', outcome = 'stopped' WHERE state = 'in turn'");
    rig.start().await;
    assert_eq!(states(&rig), ["stopped"]);
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.finish().await;
}

#[tokio::test]
async fn a_failure_is_told() {
    let mut rig = Rig::new().await;
    rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
    rig.model.on(TASK, [Reply::Fails(ProviderError::Refused("no credit".to_owned()))]);
    rig.say("1", "go");
    let words = failed(1, TASK, &replies::model_refused_us("no credit", true));
    assert_eq!(heard(&mut rig, "1", 2).await, sorted(["It has begun.".to_owned(), words]));
    rig.model.on("wait", [awaits("sort them"), says("It failed.")]);
    rig.model.on("sort them", [Reply::Panics, Reply::Panics, Reply::Panics]);
    assert_eq!(rig.ask("1", "wait").await, "It failed.");
    let told = rig.model.last().transcript();
    assert!(told.contains("Subagent 1, to which") && told.contains("no credit"), "{told}");
    assert!(told.ends_with(replies::SUBAGENT_GAVE_UP), "{told}");
    assert_eq!(states(&rig), ["failed", "interrupted"]);
    rig.finish().await;
}

#[tokio::test]
async fn has_its_own_bounds_of_steps_and_tokens() {
    let agent = AgentConfig { subagent_steps_max: 2, steps_max: 3, ..AgentConfig::default() };
    let mut rig = Rig::of(RigOptions { agent, ..RigOptions::default() }).await;
    let lists = |depth| calls(&[("list_files", json!({"depth": depth}))]);
    rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
    rig.model.on(TASK, [lists(1), lists(2)]);
    rig.model.on("used up", [says("Half of them: 21.")]);
    rig.say("1", "go");
    let result = format!("Half of them: 21.\n\n{}", replies::task_steps_used_up(2));
    let told = ["It has begun.".to_owned(), done(1, TASK, &result)];
    assert_eq!(heard(&mut rig, "1", 2).await, sorted(told));

    let arguments = "{}".to_owned();
    let call = ToolCall { id: "c".to_owned(), name: "list_files".to_owned(), arguments };
    let usage = Usage { input: 150_000, cached: 0, cache_written: 0, output: 50_000 };
    let dear = [Delta::Call(call), Delta::Usage(usage), Delta::End(StopReason::Calls)];
    rig.model.on("wait", [awaits("sort them"), says("Stopped.")]);
    rig.model.on("sort them", [Reply::Says(dear.to_vec())]);
    rig.model.on("used up", [says("Sorted a few.")]);
    assert_eq!(rig.ask("1", "wait").await, "Stopped.");
    let told = rig.model.last().transcript();
    let words = format!("Sorted a few.\n\n{}", replies::task_tokens_used_up(200_000));
    assert!(told.ends_with(&words), "{told}");
    rig.finish().await;
}

/// Nobody sees one work, so nobody would stop it.
#[tokio::test]
async fn one_that_works_for_ten_minutes_is_ended() {
    let mut rig = Rig::new().await;
    let (gate, waits) = (Gate::shut(), Gate::shut());
    rig.model.on("go", [spawns(&[TASK]), says("It has begun.")]);
    rig.model.on(TASK, [held(&gate, says("lost"))]);
    rig.model.on("wait", [awaits("sort them"), says("It took too long.")]);
    rig.model.on("sort them", [held(&waits, says("lost"))]);
    assert_eq!(rig.ask("1", "go").await, "It has begun.");
    rig.wait_at(&gate).await;
    rig.say("2", "wait");
    rig.wait_at(&waits).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3_590)).await;
    tokio::time::resume();
    assert!(rig.ask("1", "/subagents").await.contains("1 running, since"));
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let words = replies::task_too_slow(Duration::from_secs(3_600));
    assert_eq!(rig.next_message("1").await, failed(1, TASK, &words));
    assert_eq!(rig.next_message("2").await, "It took too long.");
    assert!(rig.model.last().transcript().ends_with(&words));
    assert_eq!(states(&rig), ["failed", "failed"]);
    rig.finish().await;
}

#[tokio::test]
async fn several_that_one_step_waits_for_work_in_order() {
    let mut rig = Rig::new().await;
    let append = |line: &str| ("append_file", json!({"path": "a.md", "content": line}));
    let task = |task: &str| ("subagent", json!({"task": task}));
    let all = [task("the first"), append("2"), task("the third"), task("the fourth")];
    rig.model.on("go", [calls(&all), says("All done.")]);
    rig.model.on("the first", [calls(&[append("1")]), completes("one")]);
    rig.model.on("the third", [calls(&[append("3")]), completes("three")]);
    rig.model.on("the fourth", [Reply::Fails(ProviderError::Refused("no credit".to_owned()))]);
    assert_eq!(rig.ask("1", "go").await, "All done.");
    assert_eq!(fs::read_to_string(rig.workspace().join("a.md")).unwrap(), "1\n2\n3");
    let results = rig.model.last().messages.split_off(5);
    assert_eq!((&*results[0], &*results[2]), ("result: one", "result: three"));
    assert!(results[1].starts_with("result: ") && results[3].contains("no credit"), "{results:?}");
    assert_eq!(states(&rig), ["done", "done", "failed"]);
    rig.finish().await;
}

#[tokio::test]
async fn of_several_that_one_step_waits_for_stop_ends_those_to_come_too() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    let task = |task: &str| ("subagent", json!({"task": task}));
    rig.model.on("go", [calls(&[task("the first"), task("the second")])]);
    rig.model.on("the first", [held(&gate, says("one"))]);
    rig.say("1", "go");
    rig.wait_at(&gate).await;
    assert_eq!(rig.ask("1", "/stop").await, replies::STOPPED);
    gate.open();
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    assert_eq!(states(&rig), ["stopped"]);
    assert_eq!(rig.query("SELECT state FROM calls ORDER BY id"), ["skipped", "skipped"]);
    rig.finish().await;
}

#[tokio::test]
async fn what_must_be_allowed_is_asked_where_it_was_asked_for() {
    let approvals = Approvals { tools: vec!["write_file".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut rig = Rig::of(RigOptions { agent, ..RigOptions::default() }).await;
    let writes =
        |content: &str| calls(&[("write_file", json!({"path": "note.md", "content": content}))]);
    rig.model.on("go", [awaits(TASK), says("Written.")]);
    rig.model.on(TASK, [writes("hello"), completes("done")]);
    assert!(rig.ask("1", "go").await.contains("Approve?"));
    let press = |rig: &mut Rig| {
        let delivery = DeliveryId(rig.home.got().borrow().last().unwrap().delivery);
        rig.say_changed(OWNER, "1", "", |message| {
            message.body.press = Some(Press { delivery, choice: 0 });
        });
    };
    press(&mut rig);
    // The question shows the press, and the subagent goes on.
    while rig.next_message("1").await != "Written." {}
    // A tool of `approve_tools` is asked about each time.
    rig.model.on("again", [awaits("sort them"), says("Again.")]);
    rig.model.on("sort them", [writes("hello again"), completes("done")]);
    assert!(rig.ask("1", "again").await.contains("Approve?"));
    press(&mut rig);
    while rig.next_message("1").await != "Again." {}
    // What it has done is the conversation's.
    assert!(rig.ask("1", "/undo").await.starts_with("Undone"));
    rig.finish().await;
}

#[tokio::test]
async fn one_that_waited_for_somebody_has_no_more_time_than_one_that_did_not() {
    let approvals = Approvals { tools: vec!["write_file".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut rig = Rig::of(RigOptions { agent, ..RigOptions::default() }).await;
    let (gate, waits) = (Gate::shut(), Gate::shut());
    let writes = calls(&[("write_file", json!({"path": "note.md", "content": "hello"}))]);
    rig.model.on("go", [awaits(TASK), says("It took too long.")]);
    rig.model.on(TASK, [held(&gate, writes), held(&waits, completes("lost"))]);
    rig.say("1", "go");
    rig.wait_at(&gate).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3_400)).await;
    tokio::time::resume();
    gate.open();
    assert!(rig.next_message("1").await.contains("Approve?"));
    rig.say("1", "/approve 1");
    rig.wait_at(&waits).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(201)).await;
    tokio::time::resume();
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"It took too long.".to_owned()), "{heard:?}");
    let words = replies::task_too_slow(Duration::from_secs(3_600));
    assert!(rig.model.last().transcript().ends_with(&words));
    assert_eq!(states(&rig), ["failed"]);
    rig.finish().await;
}
