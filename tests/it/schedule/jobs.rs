//! Jobs in a conversation with the daemon: asked for by a model, changed by commands, done when the clock
//! says so.

use std::fs;
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::provider::ProviderError;
use peacrab::replies;
use peacrab::tasks::schedule::{Clock, JOBS_MAX};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, USER};
use crate::support::script::{Gate, Reply, calls, held, says};

pub(super) const TASK: &str = "look at the tide";

/// A rig whose clock a test sets.
pub(super) struct Scene {
    pub(super) rig: Rig,
    hands: watch::Sender<DateTime<Utc>>,
}

impl Scene {
    async fn new() -> Self {
        Self::of(RigOptions::default()).await
    }

    pub(super) async fn of(parts: RigOptions) -> Self {
        let (hands, clock) = watch::channel(Utc::now());
        let rig = Rig::of(RigOptions { clock: Clock::with_hands(clock), ..parts }).await;
        Self { rig, hands }
    }

    /// Sets the clock to so long after now.
    pub(super) fn later(&self, minutes: i64) {
        self.hands.send_replace(Utc::now() + Duration::minutes(minutes));
    }

    /// The owner asks for a job.
    pub(super) async fn add(&mut self, chat: &str, arguments: Value) {
        self.rig.model.on("later", [schedules(arguments), says("I will.")]);
        assert_eq!(self.rig.ask(chat, "later").await, "I will.");
    }

    pub(super) fn runs(&self) -> Vec<String> {
        self.rig.query("SELECT state FROM tasks WHERE kind = 'job' ORDER BY id")
    }
}

pub(super) fn schedules(mut arguments: Value) -> Reply {
    if arguments["action"].is_null() {
        arguments["action"] = "add".into();
    }
    calls(&[("schedule", arguments)])
}

fn in_20_minutes(text: &str) -> Value {
    json!({"when": "20m", "text": text})
}

pub(super) fn completes(result: &str) -> Reply {
    calls(&[("task_completion", json!({"result": result}))])
}

#[tokio::test]
async fn a_message_comes_when_it_is_due_to_the_thread_that_asked() {
    let mut scene = Scene::new().await;
    let reminder = json!({"when": "20m", "text": "Tea is ready.", "kind": "message"});
    scene.rig.model.on("remind", [schedules(reminder), says("I will.")]);
    scene.rig.say_in_thread("1", "beach", "remind me");
    assert_eq!(scene.rig.next_message("1").await, "I will.");
    let told = scene.rig.model.last().transcript();
    assert!(told.contains("result: Created: job 1, once, "), "{told}");
    scene.later(19);
    scene.rig.ask("1", "hello").await;
    scene.later(21);
    let home = Arc::clone(&scene.rig.home);
    let got = scene.rig.next_messages_on(home, "1", 1).await.remove(0);
    assert_eq!((&*got.text, got.thread.as_deref()), ("Tea is ready.", Some("beach")));
    assert_eq!(scene.runs(), ["done"]);
    assert_eq!(scene.rig.ask("1", "/jobs").await, replies::NO_JOBS);
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_job_writes_to_the_chats_that_its_text_names_and_to_no_others() {
    let mut scene = Scene::new().await;
    let tells = || calls(&[("message", json!({"to": "home:2", "text": "The tide is low."}))]);
    scene.add("1", in_20_minutes("tell home:2 of the tide")).await;
    scene.rig.model.on("tell home:2 of the tide", [tells(), completes("Told.")]);
    scene.later(21);
    assert_eq!(scene.rig.next_message("2").await, "The tide is low.");
    assert_eq!(scene.rig.next_message("1").await, "Told.");
    scene.add("1", json!({"when": "30m", "text": TASK})).await;
    scene.rig.model.on(TASK, [tells(), completes("I did not tell.")]);
    scene.later(31);
    let mut heard = scene.rig.next_messages("1", 2).await;
    heard.sort();
    assert!(heard[0].starts_with("I did not run message for job 2"), "{heard:?}");
    assert_eq!(heard[1], "I did not tell.");
    let told = scene.rig.model.last().transcript();
    assert!(told.contains("tells somebody else what was said in private"), "{told}");
    scene.rig.settled().await;
    assert!(scene.rig.unread("2").is_empty());
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_prompt_is_worked_on_alone_and_the_conversation_knows_what_came_of_it() {
    let mut scene = Scene::new().await;
    scene.add("1", in_20_minutes(TASK)).await;
    scene.rig.ask("1", "we like crabs").await;
    scene.rig.model.on(TASK, [completes("It is low.")]);
    scene.later(21);
    assert_eq!(scene.rig.next_message("1").await, "It is low.");
    let asked = scene.rig.model.last();
    let system = asked.system.join("\n");
    assert!(system.contains("You work on a job that is due"), "{system}");
    let told = asked.transcript();
    assert!(
        told.contains("job 1 of Person 7 (owner) · home, private]\nlook at the tide"),
        "{told}"
    );
    assert!(!told.contains("we like crabs"), "{told}");
    for tool in ["schedule", "spawn", "subagent", "propose", "converse"] {
        assert!(!asked.has_tool(tool), "{tool}");
    }
    assert!(asked.has_tool("message") && asked.has_tool("read_file"));
    scene.rig.ask("1", "and now?").await;
    let told = scene.rig.model.last().transcript();
    assert!(told.contains("user: [Job 1 (“look at the tide”) was due;"), "{told}");
    assert!(told.contains("assistant: It is low."), "{told}");
    assert_eq!(scene.runs(), ["done"]);
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_prompt_can_be_worked_on_in_the_conversation_that_asked() {
    let mut scene = Scene::new().await;
    scene.add("1", json!({"when": "20m", "text": TASK, "kind": "here"})).await;
    scene.rig.ask("1", "we like crabs").await;
    let more = schedules(json!({"when": "20m", "text": "again"}));
    scene.rig.model.on(TASK, [more, says("It is low.")]);
    scene.later(21);
    assert_eq!(scene.rig.next_message("1").await, "It is low.");
    let asked = scene.rig.model.last();
    assert!(asked.transcript().contains("we like crabs"), "{}", asked.transcript());
    // It is told of the same tools as ever, for the cache, and makes no jobs all the same.
    assert!(asked.has_tool("schedule"));
    assert!(asked.transcript().ends_with("There is no tool `schedule`."), "{}", asked.transcript());
    assert_eq!(scene.runs(), ["done"]);
    assert_eq!(scene.rig.ask("1", "and now?").await, "re: and now?");
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_people_say_meanwhile_is_no_part_of_a_job() {
    let mut scene = Scene::new().await;
    let gate = Gate::shut();
    scene.add("1", json!({"when": "20m", "text": TASK, "kind": "here"})).await;
    scene.rig.model.on("busy", [held(&gate, says("Done."))]);
    scene.rig.say("1", "busy");
    scene.rig.wait_at(&gate).await;
    scene.later(21);
    scene.rig.waiting(1).await;
    gate.open();
    scene.rig.model.on(TASK, [says("It is low.")]);
    assert_eq!(scene.rig.next_messages("1", 2).await, ["Done.", "It is low."]);
    assert_eq!(scene.rig.query("SELECT count(*) || '' FROM turns"), ["3"]);
    scene.rig.finish().await;
}

#[tokio::test]
async fn silence_is_silent_and_written_down_as_such() {
    let mut scene = Scene::new().await;
    let every = |text: &str, kind: &str| json!({"when": "every 1h", "text": text, "kind": kind});
    scene.add("1", every("the first", "prompt")).await;
    scene.add("1", every("the second", "prompt")).await;
    scene.add("1", every("the third", "here")).await;
    scene.rig.model.on("the first", [completes("NO_REPLY")]);
    scene.rig.model.on("the second", [says("NO_REPLY")]);
    scene.rig.model.on("the third", [says("")]);
    scene.later(61);
    scene
        .rig
        .wait_for_count("SELECT count(*) FROM tasks WHERE kind = 'job' AND state = 'silent'", 3)
        .await;
    let history = scene.rig.ask("1", "/jobs history 1").await;
    assert!(history.ends_with(" silent"), "{history}");
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_model_reads_times_and_texts_without_escapes() {
    let mut scene = Scene::new().await;
    let weather = json!({"when": "cron 30 7 * * *", "text": "tell the *weather*"});
    let unclear = json!({"when": "a*b", "text": "tell the weather"});
    let list = calls(&[("schedule", json!({"action": "list"}))]);
    let steps = [schedules(weather), list, schedules(unclear), says("I will.")];
    scene.rig.model.on("mornings", steps);
    assert_eq!(scene.rig.ask("1", "mornings").await, "I will.");
    let told = scene.rig.model.last().transcript();
    assert!(told.contains("result: Created: job 1, cron 30 7 * * *"), "{told}");
    assert!(told.contains(": tell the *weather*"), "{told}");
    assert!(told.contains("the time “a*b”"), "{told}");
    scene.rig.finish().await;
}

#[tokio::test]
async fn people_see_and_change_their_own_jobs_and_the_owner_all() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.rig.ask("1", "/jobs").await, replies::NO_JOBS);
    scene
        .add(
            "1",
            json!({"when": "30 7 * * 1-5 Asia/Tokyo", "text": "tell the weather if it rains"}),
        )
        .await;
    let reminder = json!({"when": "every 2h", "text": "drink", "kind": "message"});
    scene.rig.model.on("mine", [schedules(reminder), says("I will.")]);
    scene.rig.say_as(USER, "2", "mine");
    assert_eq!(scene.rig.next_message("2").await, "I will.");
    let listed = scene.rig.ask("1", "/jobs").await;
    assert!(listed.starts_with("1, cron 30 7 \\* \\* 1-5 (Asia/Tokyo), next "), "{listed}");
    assert!(listed.contains(": tell the weather if it rains\n2, every 2h, next "), "{listed}");
    // The text of somebody else's private job is theirs alone.
    assert!(listed.ends_with(&format!(", fixed text: {}", replies::PRIVATE_JOB)), "{listed}");
    let mut say = async |who: &str, chat: &str, text: &str| {
        scene.rig.say_as(who, chat, text);
        scene.rig.next_message(chat).await
    };
    assert!(say(USER, "2", "/jobs").await.starts_with("2, every 2h"));
    assert_eq!(say(OTHER_USER, "3", "/jobs").await, replies::NO_JOBS);
    assert_eq!(say(OTHER_USER, "3", "/jobs rm 2").await, replies::no_job(2));
    assert_eq!(say(USER, "2", "/jobs pause 1").await, replies::no_job(1));
    assert_eq!(say(USER, "2", "/jobs pause 2").await, replies::job_paused(2));
    assert!(say(USER, "2", "/jobs").await.starts_with("2, every 2h, paused, fixed text"));
    assert_eq!(say(USER, "2", "/jobs run 2").await, replies::job_not_active(2));
    assert!(say(USER, "2", "/jobs resume 2").await.starts_with("Resumed: job 2, every 2h, next"));
    for wanted in ["/jobs history 2", "/jobs show 2"] {
        let shown = say(OWNER, "1", wanted).await;
        assert!(shown.ends_with(&format!("to home:2\n{}", replies::PRIVATE_JOB)), "{shown}");
    }
    assert_eq!(say(USER, "2", "/jobs history 2").await, "Job 2 has not run yet.");
    assert!(say(USER, "2", "/jobs show 2").await.ends_with("to home:2\ndrink"));
    for wrong in ["/jobs run", "/jobs swim 2", "/jobs rm x"] {
        assert_eq!(say(OWNER, "1", wrong).await, replies::JOBS_USAGE, "{wrong}");
    }
    // The owner in a group has their own only.
    assert!(!say(OWNER, "-1", "/jobs").await.contains("drink"));
    assert_eq!(say(OWNER, "1", "/jobs rm #2").await, replies::job_removed(2));
    assert_eq!(say(USER, "2", "/jobs").await, replies::NO_JOBS);
    assert_eq!(say(USER, "2", "/jobs show 2").await, replies::no_job(2));
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_job_can_be_run_now_in_place_of_its_next_time() {
    let mut scene = Scene::new().await;
    scene.add("1", json!({"when": "every 2h", "text": "drink", "kind": "message"})).await;
    scene.later(1);
    scene.rig.say("1", "/jobs run 1");
    let mut heard = scene.rig.next_messages("1", 2).await;
    heard.sort();
    assert_eq!(heard, [replies::job_runs_now(1), "drink".to_owned()]);
    assert!(scene.rig.ask("1", "/jobs").await.starts_with("1, every 2h, next"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn each_run_begins_without_what_was_said_in_the_one_before() {
    let mut scene = Scene::new().await;
    scene.add("1", json!({"when": "every 2h", "text": "count the crabs"})).await;
    for n in 1..=2 {
        let result = json!({"result": format!("{n} crabs")});
        scene
            .rig
            .model
            .on("count", [crate::support::script::calls(&[("task_completion", result)])]);
        scene.later(n);
        scene.rig.say("1", "/jobs run 1");
        let heard = scene.rig.next_messages("1", 2).await;
        assert!(heard.iter().any(|text| text.contains(&format!("{n} crabs"))), "{heard:?}");
        assert!(!scene.rig.model.last().transcript().contains("1 crabs"));
    }
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_model_changes_and_removes_jobs_and_is_told_what_is_wrong() {
    let mut scene = Scene::new().await;
    scene.add("1", in_20_minutes(TASK)).await;
    let edits = [
        json!({"action": "edit", "id": 1, "when": "tomorrow 8:00", "text": "look at the moon"}),
        json!({"action": "list"}),
        json!({"action": "edit", "id": 1}),
        json!({"action": "edit", "id": 9, "text": "x"}),
        json!({"action": "pause"}),
        json!({"action": "add", "text": "x"}),
        json!({"action": "add", "when": "20m"}),
        json!({"action": "add", "when": "soon", "text": "x"}),
        json!({"action": "swim"}),
        json!({"action": "remove", "id": 1}),
        json!({"action": "list"}),
    ];
    let calls: Vec<_> = edits.iter().map(|edit| ("schedule", edit.clone())).collect();
    scene.rig.model.on("change", [crate::support::script::calls(&calls), says("Changed.")]);
    assert_eq!(scene.rig.ask("1", "change").await, "Changed.");
    let outputs =
        scene.rig.query("SELECT state || ' ' || output FROM calls WHERE id > 1 ORDER BY id");
    assert!(outputs[0].starts_with("done Changed: job 1, once, "), "{outputs:#?}");
    assert!(outputs[1].ends_with(" 08:00: look at the moon"), "{outputs:#?}");
    let refused = |words: &str| format!("failed {words}");
    assert_eq!(outputs[2], refused(replies::NOTHING_TO_CHANGE));
    assert_eq!(outputs[3], refused("There is no job 9."));
    assert_eq!(outputs[4], refused(replies::WHICH_JOB));
    assert_eq!(outputs[5], refused(replies::WHEN_JOB));
    assert_eq!(outputs[6], refused(replies::WHAT_JOB));
    assert_eq!(outputs[7], refused(&replies::unclear_time("soon")));
    assert!(outputs[8].contains("The arguments of schedule are wrong"), "{outputs:#?}");
    assert_eq!(outputs[9..], ["done Job 1 has been removed.", "done There are no jobs."]);
    let one = |n| ("schedule", json!({"action": "add", "when": "1d", "text": format!("x{n}")}));
    let many: Vec<_> = (0..=JOBS_MAX).map(one).collect();
    scene.rig.model.on("many", [crate::support::script::calls(&many), says("Many.")]);
    assert_eq!(scene.rig.ask("1", "many").await, "Many.");
    assert_eq!(scene.rig.query("SELECT count(*) || '' FROM jobs WHERE state = 'active'"), ["50"]);
    let last = scene.rig.query("SELECT output FROM calls ORDER BY id DESC LIMIT 1");
    assert_eq!(last, [replies::too_many_jobs(JOBS_MAX)]);
    scene.rig.finish().await;
}

#[tokio::test]
async fn guests_have_no_jobs() {
    let access = peacrab::people::Access {
        owners: vec![OWNER.to_owned()],
        allow: vec!["*".to_owned()],
        ..Default::default()
    };
    let mut scene = Scene::of(RigOptions { access, ..RigOptions::default() }).await;
    scene.rig.say_as(USER, "2", "/jobs");
    assert_eq!(scene.rig.next_message("2").await, replies::NO_JOBS_FOR_GUESTS);
    scene.rig.say_as(USER, "2", "hello");
    scene.rig.next_message("2").await;
    assert!(!scene.rig.model.last().has_tool("schedule"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_is_missed_while_nobody_runs_comes_late_and_says_so() {
    let mut scene = Scene::new().await;
    let reminder = json!({"when": "20m", "text": "Tea is ready.", "kind": "message"});
    scene.add("1", reminder).await;
    scene.add("1", in_20_minutes(TASK)).await;
    scene.rig.model.on(TASK, [completes("It was low.")]);
    scene.rig.stop().await;
    scene.later(300);
    scene.rig.start().await;
    let mut heard = scene.rig.next_messages("1", 2).await;
    assert!(heard.iter().all(|text| text.starts_with("(This was due ")), "{heard:?}");
    // The first lines tell the day, and may differ if the test runs at midnight.
    heard.sort_by_key(|text| text.lines().last().map(str::to_owned));
    assert!(
        heard[0].ends_with("\nIt was low.") && heard[1].ends_with("\nTea is ready."),
        "{heard:?}"
    );
    assert!(scene.rig.model.last().transcript().contains(" and is late · home"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_failure_of_what_happens_once_is_told_at_once_and_of_the_rest_after_two() {
    let mut scene = Scene::new().await;
    let fails = || Reply::Fails(ProviderError::Refused("no credit".to_owned()));
    scene.add("2", in_20_minutes(TASK)).await;
    scene.rig.model.on(TASK, [fails()]);
    scene.later(21);
    let told = scene.rig.next_message("2").await;
    assert!(told.starts_with("Job 1 (look at the tide) failed, and I"), "{told}");
    assert!(told.contains("no credit"), "{told}");
    scene.add("2", json!({"when": "every 1h", "text": "count crabs"})).await;
    scene.rig.model.on("count crabs", [fails(), fails(), completes("42")]);
    // The owner is where they last spoke.
    scene.rig.ask("1", "hello").await;
    scene.later(61);
    scene
        .rig
        .wait_for_count("SELECT count(*) FROM tasks WHERE kind = 'job' AND state = 'failed'", 2)
        .await;
    scene.later(121);
    let told = scene.rig.next_message("1").await;
    assert!(told.starts_with("Job 2 (count crabs) has failed 2 times in a row"), "{told}");
    scene.later(181);
    assert_eq!(scene.rig.next_message("2").await, "42");
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_must_be_allowed_is_not_done_and_reported_where_the_job_was_asked_for() {
    let approvals = Approvals { tools: vec!["write_file".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut scene = Scene::of(RigOptions { agent, ..RigOptions::default() }).await;
    let write = |n: u8| ("write_file", json!({"path": format!("{n}.md"), "content": "hello"}));
    scene.add("1", json!({"when": "every 1h", "text": TASK})).await;
    scene.rig.model.on(TASK, [calls(&[write(1), write(2)]), completes("Not written.")]);
    scene.later(61);
    let heard = scene.rig.next_messages("1", 2).await;
    assert_eq!(heard[0], "Not written.");
    // One message for both of them, after the report.
    assert!(heard[1].contains("I did not run write_file for job 1"), "{heard:?}");
    assert!(heard[1].contains("1.md") && heard[1].contains("2.md"), "{heard:?}");
    assert!(!scene.rig.workspace().join("1.md").exists());
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_question_of_a_job_is_answered_where_it_was_asked_for() {
    let mut scene = Scene::new().await;
    scene.add("1", in_20_minutes(TASK)).await;
    let asks = calls(&[("ask_question", json!({"question": "Which beach?"}))]);
    scene.rig.model.on(TASK, [asks, completes("At the north beach it is low.")]);
    scene.later(21);
    assert_eq!(scene.rig.next_message("1").await, "Which beach?");
    assert_eq!(scene.rig.ask("1", "the north one").await, "At the north beach it is low.");
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_job_says_more_than_its_answer_where_it_was_asked_for() {
    let mut scene = Scene::new().await;
    scene.add("1", in_20_minutes(TASK)).await;
    let says_more = calls(&[("message", json!({"text": "I look."}))]);
    scene.rig.model.on(TASK, [says_more, completes("It is low.")]);
    scene.later(21);
    assert_eq!(scene.rig.next_messages("1", 2).await, ["I look.", "It is low."]);
    scene.rig.finish().await;
}

#[tokio::test]
async fn stop_ends_what_a_job_does_and_the_job_goes_on() {
    let mut scene = Scene::new().await;
    let gate = Gate::shut();
    scene.add("1", json!({"when": "every 1h", "text": TASK})).await;
    scene.rig.model.on(TASK, [held(&gate, says("lost")), completes("It is low.")]);
    scene.later(61);
    scene.rig.wait_at(&gate).await;
    assert_eq!(scene.rig.ask("2", "/stop").await, replies::NOTHING_TO_STOP);
    assert_eq!(scene.rig.ask("1", "/stop").await, replies::STOPPED);
    assert_eq!(scene.runs(), ["stopped"]);
    gate.open();
    scene.later(121);
    assert_eq!(scene.rig.next_message("1").await, "It is low.");
    // What waits in the conversation is withdrawn with it.
    let busy = Gate::shut();
    scene.add("1", json!({"when": "140m", "text": "never", "kind": "here"})).await;
    scene.rig.model.on("busy", [held(&busy, says("lost"))]);
    scene.rig.say("1", "busy");
    scene.rig.wait_at(&busy).await;
    scene.later(150);
    scene.rig.waiting(1).await;
    assert!(scene.rig.ask("1", "/stop").await.starts_with("Stopped"));
    busy.open();
    scene
        .rig
        .wait_for_count("SELECT count(*) FROM tasks WHERE kind = 'job' AND state = 'stopped'", 2)
        .await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_run_goes_on_after_a_restart_and_one_cut_off_too_often_is_told() {
    let mut scene = Scene::new().await;
    let gate = Gate::shut();
    scene.add("1", json!({"when": "every 1h", "text": TASK})).await;
    let writes = calls(&[("append_file", json!({"path": "tide.md", "content": "x"}))]);
    let lost = || held(&gate, says("lost"));
    scene.rig.model.on(TASK, [writes, lost(), completes("It is low."), lost()]);
    scene.later(61);
    scene.rig.wait_at(&gate).await;
    scene.rig.stop_and_start_again().await;
    assert_eq!(scene.rig.next_message("1").await, "It is low.");
    assert_eq!(fs::read_to_string(scene.rig.workspace().join("tide.md")).unwrap(), "x");
    scene.later(121);
    scene.rig.wait_at_times(&gate, 2).await;
    scene.rig.stop().await;
    scene.rig.execute("UPDATE turns SET attempts = 3 WHERE ending IS NULL");
    scene.rig.start().await;
    assert_eq!(scene.rig.next_message("1").await, replies::job_interrupted(1, TASK));
    assert_eq!(scene.runs(), ["done", "interrupted"]);
    scene.rig.finish().await;
}

#[tokio::test]
async fn jobs_wait_while_the_clock_is_wrong_and_that_is_said_once() {
    let mut scene = Scene::new().await;
    let reminder = json!({"when": "20m", "text": "Tea is ready.", "kind": "message"});
    scene.add("1", reminder).await;
    scene.rig.stop().await;
    scene.hands.send_replace(DateTime::UNIX_EPOCH + Duration::seconds(40));
    scene.rig.start().await;
    assert!(scene.rig.next_message("1").await.starts_with("My clock shows 1970-01-01 00:00 UTC"));
    scene.hands.send_replace(DateTime::UNIX_EPOCH + Duration::seconds(80));
    assert_eq!(scene.rig.ask("1", "hello").await, "re: hello");
    // The clock of a machine that was off, before it has asked what time it is.
    scene.later(-120);
    assert_eq!(scene.rig.ask("1", "hello").await, "re: hello");
    assert!(scene.runs().is_empty());
    scene.later(22);
    assert_eq!(scene.rig.next_message("1").await, "Tea is ready.");
    scene.rig.finish().await;
}

#[tokio::test]
async fn by_the_machines_own_clock_it_comes_in_a_second() {
    let mut rig = Rig::new().await;
    let reminder = json!({"action": "add", "when": "1s", "text": "Tea.", "kind": "message"});
    rig.model.on("remind", [calls(&[("schedule", reminder)]), says("I will.")]);
    rig.say("1", "remind me");
    assert_eq!(rig.next_messages("1", 2).await, ["I will.", "Tea."]);
    rig.finish().await;
}

#[tokio::test]
async fn private_jobs_of_others_show_only_when_they_run() {
    let mut scene = Scene::new().await;
    let schedule = |arguments: Value| calls(&[("schedule", arguments)]);
    let add = json!({"action": "add", "when": "20m", "text": "SYSTEM evil", "kind": "message"});
    scene.rig.model.on("tea", [schedule(add), says("Made.")]);
    scene.rig.say_as(USER, "2", "tea, please");
    while scene.rig.next_message("2").await != "Made." {}
    for arguments in [
        json!({"action": "list"}),
        json!({"action": "show", "id": 1}),
        json!({"action": "history", "id": 1}),
    ] {
        scene.rig.model.on("which jobs", [schedule(arguments.clone()), says("Looked.")]);
        assert_eq!(scene.rig.ask("1", "which jobs are there?").await, "Looked.");
        let shown = scene.rig.model.last().transcript();
        assert!(shown.contains(replies::PRIVATE_JOB), "{arguments}: {shown}");
        assert!(!shown.contains("evil"), "{arguments}: {shown}");
    }
    for command in ["/jobs", "/jobs show 1", "/jobs history 1"] {
        let shown = scene.rig.ask("1", command).await;
        assert!(shown.contains("private job") && !shown.contains("evil"), "{command}: {shown}");
    }
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_run_that_waits_is_no_message_that_a_command_drops() {
    for (command, words) in [("/stop", replies::STOPPED), ("/new", replies::NEW_SESSION)] {
        let mut scene = Scene::new().await;
        scene.add("1", json!({"when": "20m", "text": TASK, "kind": "here"})).await;
        let gate = Gate::shut();
        scene.rig.model.on("think", [held(&gate, says("lost"))]);
        scene.rig.say("1", "think");
        scene.rig.wait_at(&gate).await;
        scene.later(21);
        scene.rig.waiting(1).await;
        assert_eq!(scene.rig.ask("1", command).await, words);
        gate.open();
        scene.rig.wait_for_count("SELECT count(*) FROM tasks WHERE state = 'stopped'", 1).await;
        scene.rig.finish().await;
    }
}
