//! What goes wrong around jobs: one that breaks, places that are held, people who are not there.

use peacrab::config::AgentConfig;
use peacrab::conversation::sessions::NOTES_MAX;
use peacrab::replies;
use peacrab::tasks::schedule::{AT_ONCE_MAX, JOBS_MAX};
use peacrab::types::session::QueueMode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::jobs::{Scene, TASK, completes};
use crate::support::rig::{OWNER, RigOptions};
use crate::support::script::{Gate, calls, held, says};

impl Scene {
    /// What `peacrab cron` asks for.
    pub(super) async fn cron(&self, wanted: Value, to: &str) -> String {
        let to = json!({"channel": "home", "chat": to, "thread": null});
        let request = json!({"verb": "cron", "wanted": wanted, "to": to});
        let mut stream = UnixStream::connect(self.rig.path().join("control.sock")).await.unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        BufReader::new(stream).lines().next_line().await.unwrap().unwrap()
    }
}

fn message(when: &str, text: &str) -> Value {
    json!({"when": when, "text": text, "kind": "message"})
}

#[tokio::test]
async fn one_job_that_breaks_stops_none_of_the_others() {
    let mut scene = Scene::of(RigOptions::default()).await;
    for text in ["Tea.", "Coffee.", "Milk.", "Water."] {
        scene.add("1", message("20m", text)).await;
    }
    // Nobody can read the first; the others cannot be claimed, or say what cannot be kept.
    scene.rig.execute("UPDATE jobs SET payload = '{' WHERE id = 1");
    scene.rig.execute("UPDATE jobs SET sender = 'nobody' WHERE id = 2");
    scene.rig.execute(
        "CREATE TRIGGER broken BEFORE INSERT ON tasks WHEN new.job = 3
         BEGIN SELECT RAISE(ABORT, 'a broken page'); END",
    );
    scene.later(21);
    let mut heard = scene.rig.next_messages("1", 4).await;
    heard.sort();
    for (nth, why) in [
        (0, "I can't read or save job 1,"),
        (1, "I can't read or save job 2,"),
        (2, "I can't read or save job 3,"),
    ] {
        let told = &heard[nth];
        assert!(told.starts_with(why), "{heard:#?}");
    }
    assert!(heard[2].contains("a broken page"), "{heard:#?}");
    assert_eq!(heard[3], "Water.");
    let states = scene.rig.query("SELECT state FROM jobs ORDER BY id");
    assert_eq!(states, ["paused", "paused", "paused", "done"]);
    let listed = scene.rig.ask("1", "/jobs").await;
    assert!(listed.starts_with("3, once") && listed.contains("paused: it can't be"), "{listed}");
    assert_eq!(scene.rig.ask("1", "/jobs show 1").await, replies::no_job(1));
    assert_eq!(scene.rig.ask("1", "/jobs rm 1").await, replies::job_removed(1));
    assert_eq!(scene.rig.ask("1", "/jobs rm 1").await, replies::no_job(1));
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_waits_for_a_person_leaves_its_place_to_others() {
    let mut scene = Scene::of(RigOptions::default()).await;
    let asks = || calls(&[("ask_question", json!({"question": "Which beach?"}))]);
    for chat in 1..=AT_ONCE_MAX {
        let task = format!("look {chat}");
        scene.add(&chat.to_string(), json!({"when": "20m", "text": task})).await;
        scene.rig.model.on(&task, [asks(), completes("There it is low.")]);
    }
    scene.add("9", json!({"when": "30m", "text": "count the crabs"})).await;
    scene.rig.model.on("count", [completes("42")]);
    scene.later(21);
    for chat in 1..=AT_ONCE_MAX {
        assert_eq!(scene.rig.next_message(&chat.to_string()).await, "Which beach?");
    }
    scene.later(31);
    assert_eq!(scene.rig.next_message("9").await, "42");
    for chat in 1..=AT_ONCE_MAX {
        let answer = scene.rig.ask(&chat.to_string(), "the north one").await;
        assert_eq!(answer, "There it is low.");
    }
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_works_where_nobody_is_any_more_holds_no_place() {
    let mut scene = Scene::of(RigOptions::default()).await;
    let gate = Gate::shut();
    for _ in 0..AT_ONCE_MAX {
        scene.add("1", json!({"when": "20m", "text": TASK})).await;
        scene.rig.model.on(TASK, [held(&gate, says("lost"))]);
    }
    scene.add("1", json!({"when": "30m", "text": "count the crabs"})).await;
    scene.later(21);
    scene.rig.wait_at_times(&gate, AT_ONCE_MAX).await;
    scene.rig.stop().await;
    // The channel of the first ones is not in the config any more.
    scene.rig.execute("UPDATE jobs SET channel = 'gone' WHERE id <= 4");
    scene.rig.execute("UPDATE turns SET ending = '\"stopped\"', ended = 1 WHERE ending IS NULL");
    scene.rig.execute("UPDATE inbound SET state = 'waiting', turn = NULL, thread = 'gone' WHERE state = 'in turn'");
    scene.rig.model.on("count", [completes("42")]);
    scene.later(31);
    scene.rig.start().await;
    assert_eq!(scene.rig.next_message("1").await, "42");
    scene.rig.execute("UPDATE inbound SET state = 'done' WHERE thread = 'gone'");
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_job_that_is_removed_or_paused_works_no_longer() {
    let mut scene = Scene::of(RigOptions::default()).await;
    let gate = Gate::shut();
    for (id, kind) in [(1, "prompt"), (2, "here")] {
        let text = format!("look {id}");
        scene.add("1", json!({"when": "20m", "text": text, "kind": kind})).await;
        scene.rig.model.on(&text, [held(&gate, says("lost"))]);
    }
    scene.later(21);
    scene.rig.wait_at_times(&gate, 2).await;
    let removed = format!("{} {}", replies::job_removed(1), replies::RUN_ENDED);
    assert_eq!(scene.rig.ask("2", "/jobs rm 1").await, removed);
    // It was to be done once, and is over.
    let over = replies::one_time_job_paused(2);
    assert_eq!(scene.rig.ask("2", "/jobs pause 2").await, over);
    assert_eq!(scene.runs(), ["stopped", "stopped"]);
    assert_eq!(scene.rig.ask("1", "/jobs").await, replies::NO_JOBS);
    assert_eq!(scene.rig.ask("1", "/jobs resume 2").await, replies::job_is_over(2));
    // No turn of theirs holds the conversation up.
    assert_eq!(scene.rig.ask("1", "hello").await, "re: hello");
    scene.rig.wait_for_count("SELECT count(*) FROM turns WHERE ending IS NULL", 0).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn resuming_what_goes_on_skips_nothing_and_nobody_has_more_jobs_by_a_detour() {
    let mut scene = Scene::of(RigOptions::default()).await;
    scene.add("1", message("every 1h", "Drink.")).await;
    let next = scene.rig.query("SELECT next || '' FROM jobs");
    assert_eq!(scene.rig.ask("1", "/jobs resume 1").await, replies::job_is_active(1));
    assert_eq!(scene.rig.query("SELECT next || '' FROM jobs"), next);
    scene.add("1", message("1m", "Tea.")).await;
    scene.later(2);
    assert_eq!(scene.rig.next_message("1").await, "Tea.");
    assert_eq!(scene.rig.ask("1", "/jobs pause 2").await, replies::job_is_over(2));
    let one = |n| ("schedule", json!({"action": "add", "when": "2d", "text": format!("x{n}")}));
    let mut many: Vec<_> = (1..JOBS_MAX).map(one).collect();
    many.push(("schedule", json!({"action": "edit", "id": 2, "when": "2d"})));
    scene.rig.model.on("many", [calls(&many), says("Many.")]);
    assert_eq!(scene.rig.ask("1", "many").await, "Many.");
    let last = scene.rig.query("SELECT output FROM calls ORDER BY id DESC LIMIT 1");
    assert_eq!(last, [replies::too_many_jobs(JOBS_MAX)]);
    scene.rig.finish().await;
}

#[tokio::test]
async fn whoever_sits_at_the_machine_is_asked_as_the_owner_where_the_job_goes() {
    let mut scene = Scene::of(RigOptions::default()).await;
    scene.rig.ask("1", "hello").await;
    let made = scene.cron(json!({"action": "add", "when": "20m", "text": TASK}), "1").await;
    assert!(made.contains("Created: job 1, once"), "{made}");
    let asks =
        calls(&[("ask_question", json!({"question": "Which?", "choices": ["north", "south"]}))]);
    scene.rig.model.on(TASK, [asks, completes("In the north it is low.")]);
    scene.later(21);
    assert_eq!(scene.rig.next_message("1").await, "Which?");
    scene.rig.say_as(OWNER, "1", "north");
    let heard = scene.rig.next_messages("1", 2).await;
    assert!(heard.contains(&"In the north it is low.".to_owned()), "{heard:?}");
    assert!(scene.rig.model.last().transcript().contains("north"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_a_job_would_have_asked_is_not_done_and_the_owner_learns_of_it() {
    let approvals = peacrab::conversation::asks::Approvals {
        tools: vec!["write_file".to_owned()],
        roles: vec![],
    };
    let asking = peacrab::conversation::asks::ApprovalSettings { approvals, ..Default::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut scene = Scene::of(RigOptions { agent, ..RigOptions::default() }).await;
    scene.rig.ask("1", "hello").await;
    // To a chat in which the owner never was.
    scene.cron(json!({"action": "add", "when": "20m", "text": TASK}), "5").await;
    let writes = calls(&[("write_file", json!({"path": "a.md", "content": "x"}))]);
    scene.rig.model.on(TASK, [writes, completes("Written.")]);
    scene.later(21);
    let report = scene.rig.next_message("1").await;
    assert!(report.starts_with("I did not run write_file for job 1"), "{report}");
    assert_eq!(scene.rig.next_message("5").await, "Written.");
    assert!(!scene.rig.workspace().join("a.md").exists());
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_was_missed_is_told_by_the_owners_clock() {
    let agent = AgentConfig {
        timezone: Some(chrono_tz::Tz::Pacific__Kiritimati),
        ..AgentConfig::default()
    };
    let mut scene = Scene::of(RigOptions { agent, ..RigOptions::default() }).await;
    scene.add("1", message("20m", "Tea.")).await;
    let due = scene.rig.query("SELECT next || '' FROM jobs").remove(0).parse().unwrap();
    let due = chrono::DateTime::from_timestamp_millis(due).unwrap();
    let due = due.with_timezone(&chrono_tz::Tz::Pacific__Kiritimati);
    scene.later(100);
    let told = scene.rig.next_message("1").await;
    // It is the next day there, from some times of the day on.
    let now = chrono::Utc::now() + chrono::TimeDelta::minutes(100);
    let now = now.with_timezone(&due.timezone());
    let due = replies::time_relative_to(now, due.to_utc());
    assert_eq!(told, format!("(This was due {due}, but I wasn't running then.)\nTea."));
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_conversation_knows_of_what_it_was_reminded_of_and_of_the_last_ones_only() {
    let mut scene = Scene::of(RigOptions::default()).await;
    scene.add("1", message("every 1h", "Drink some water.")).await;
    let times = NOTES_MAX as i64 + 5;
    for nth in 1..=times {
        scene.later(60 * nth + 1);
        assert_eq!(scene.rig.next_message("1").await, "Drink some water.");
    }
    scene.rig.ask("1", "what did you just remind me of?").await;
    let told = scene.rig.model.last().transcript();
    assert_eq!(told.matches("[Job 1 (“Drink some water.”) was due;").count(), NOTES_MAX, "{told}");
    assert_eq!(told.matches("assistant: Drink some water.").count(), NOTES_MAX);
    // Since somebody has spoken, those stay, and there is room for as many again.
    scene.later(60 * (times + 1) + 1);
    scene.rig.next_message("1").await;
    scene.rig.ask("1", "again?").await;
    let told = scene.rig.model.last().transcript();
    assert_eq!(told.matches("was due;").count(), NOTES_MAX + 1);
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_run_that_was_interrupted_by_words_says_so_in_its_history() {
    let agent = AgentConfig { queue: QueueMode::Interrupt, ..AgentConfig::default() };
    let mut scene = Scene::of(RigOptions { agent, ..RigOptions::default() }).await;
    let gate = Gate::shut();
    scene.add("1", json!({"when": "every 1h", "text": TASK, "kind": "here"})).await;
    scene.rig.model.on(TASK, [held(&gate, says("lost")), held(&gate, says("lost"))]);
    scene.later(61);
    scene.rig.wait_at(&gate).await;
    // Taken up again, it is its person's turn.
    scene.rig.stop_and_start_again().await;
    scene.rig.wait_at_times(&gate, 2).await;
    assert_eq!(scene.rig.ask("1", "hello").await, "re: hello");
    scene
        .rig
        .wait_for_count("SELECT count(*) FROM tasks WHERE kind = 'job' AND state = 'stopped'", 1)
        .await;
    let history = scene.rig.ask("1", "/jobs history 1").await;
    assert!(history.contains(&format!(" stopped: {}", replies::JOB_INTERRUPTED)), "{history}");
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_run_of_a_job_that_cannot_be_read_holds_no_place() {
    let mut scene = Scene::of(RigOptions::default()).await;
    let gate = Gate::shut();
    for _ in 0..AT_ONCE_MAX {
        scene.add("1", json!({"when": "20m", "text": TASK})).await;
        scene.rig.model.on(TASK, [held(&gate, completes("lost"))]);
    }
    scene.add("1", json!({"when": "30m", "text": "count the crabs"})).await;
    scene.rig.model.on("count", [completes("42")]);
    scene.later(21);
    scene.rig.wait_at_times(&gate, AT_ONCE_MAX).await;
    // They are due no more, so that nobody looks at them but for their runs.
    scene.rig.execute("UPDATE jobs SET payload = '{' WHERE id <= 4");
    scene.later(31);
    let heard = scene.rig.next_messages("1", AT_ONCE_MAX + 1).await;
    assert!(heard.contains(&"42".to_owned()), "{heard:#?}");
    let broken = heard.iter().filter(|told| told.contains("can't read or save"));
    assert_eq!(broken.count(), AT_ONCE_MAX, "{heard:#?}");
    gate.open();
    scene.rig.wait_for_count("SELECT count(*) FROM turns WHERE ending IS NULL", 0).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn stop_reaches_a_run_whose_job_was_changed_meanwhile() {
    let mut scene = Scene::of(RigOptions::default()).await;
    let gate = Gate::shut();
    for (id, (kind, other, minutes)) in (1..).zip([("prompt", "here", 61), ("here", "prompt", 92)])
    {
        let text = format!("look {id}");
        let when = format!("{}m", minutes - 1);
        scene.add("1", json!({"when": when, "text": text, "kind": kind})).await;
        scene.rig.model.on(&text, [held(&gate, completes("lost"))]);
        scene.later(minutes);
        scene.rig.wait_at(&gate).await;
        scene.add("2", json!({"action": "edit", "id": id, "kind": other})).await;
        assert_eq!(scene.rig.ask("1", "/stop").await, replies::STOPPED);
        assert_eq!(scene.runs().last().unwrap(), "stopped");
    }
    scene.rig.finish().await;
}
