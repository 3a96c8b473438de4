//! The safe mode: a daemon that was killed again and again answers, and nothing acts by itself.

use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::time::Duration;

use chrono::{DateTime, Utc};
use peacrab::config::AgentConfig;
use peacrab::daemon::starts::{FoundDamage, STARTS_MAX, StartRecord, WITHIN_S, last_record};
use peacrab::hooks::Hook;
use peacrab::replies;
use peacrab::tasks::heartbeat;
use peacrab::tasks::schedule::Clock;
use rusqlite::Connection;
use serde_json::json;
use tokio::sync::watch;

use crate::support::binary::{Daemon, ProgramFixture, home, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB};
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{Gate, Reply, calls, held, says};

/// A daemon that was killed so often, and was started again.
async fn killed(fixture: &ProgramFixture, times: usize) -> Daemon {
    for _ in 0..times {
        fixture.daemon().await.kill().await;
    }
    fixture.daemon().await
}

#[tokio::test]
async fn three_kills_in_five_minutes_lead_to_a_mode_in_which_nothing_acts_by_itself() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    let job = ["cron", "add", "--at", "1h", "--message", "Water the plants."];
    let ended = fixture.run(&job).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    daemon.kill().await;
    let daemon = killed(&fixture, 1).await;
    assert!(fixture.status().await["safe_mode"].is_null(), "two are not enough");
    daemon.kill().await;

    // The job is due, and does not run.
    let store = Connection::open(fixture.home().join("state.db")).unwrap();
    store.execute("UPDATE jobs SET next = next - 8000000", []).unwrap();
    drop(store);
    let daemon = fixture.daemon().await;
    let told = api.wait_for_words(ADA.id, "I'm in safe mode").await;
    assert!(told.text.contains("was killed 3 times"), "{told:?}");
    assert!(told.text.contains("peacrab reload"), "{told:?}");
    let status = fixture.run(&["status"]).await;
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.out.contains("I'm in safe mode"), "{status:?}");
    assert_eq!(fixture.status().await["safe_mode"]["starts"], 3);
    api.say(&said(&BOB, "are you there?"));
    api.wait_for_words(BOB.id, "You said: are you there?").await;
    api.say(&said(&ADA, "/status"));
    let shown = api.wait_for_words(ADA.id, "idle here").await;
    assert!(shown.text.contains("To leave safe mode"), "{shown:?}");
    assert!(daemon.log().contains("Running in safe mode"), "{}", daemon.log());
    assert!(!api.sent().iter().any(|sent| sent.text.contains("Water")), "{:?}", api.sent());

    // It is told once, however often it is killed on.
    daemon.kill().await;
    let _daemon = fixture.daemon().await;
    assert_eq!(fixture.status().await["safe_mode"]["starts"], 4);
    // The way out.
    let ended = fixture.run(&["reload"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    api.wait_for_words(ADA.id, "Water the plants.").await;
    until("the usual mode", async || {
        let ended = fixture.run(&["status", "--json"]).await;
        (ended.code == Some(0) && ended.out.contains("\"safe_mode\": null")).then_some(())
    })
    .await;
    let notices = api.sent().into_iter().filter(|sent| sent.text.starts_with("I'm in safe mode"));
    assert_eq!(notices.filter(|sent| !sent.text.contains("idle here")).count(), 1);
}

fn completes(result: &str) -> Reply {
    calls(&[("task_completion", json!({ "result": result }))])
}

/// A hook that writes a line for each turn.
fn counting_turns(file: &str) -> Hook {
    let command = ["/bin/sh", "-c", "echo . >> \"$1\"", "hook", file];
    Hook {
        on: vec!["turn_end"],
        command: command.map(str::to_owned).to_vec(),
        private_texts: false,
        time_max: Duration::from_secs(20),
        environment: vec![("PATH", "/usr/bin:/bin".into()), ("TZ", "UTC".into())],
        refused: None,
    }
}

#[tokio::test]
async fn jobs_the_heartbeat_hooks_and_subagents_wait_for_its_end() {
    let begun = Utc::now();
    let (hands, clock) = watch::channel(begun);
    let at = |minutes: i64| hands.send_replace(begun + chrono::Duration::minutes(minutes));
    let folder = tempfile::tempdir().unwrap();
    let turns = folder.path().join("turns");
    let turns_told = || fs::read_to_string(&turns).unwrap_or_default().lines().count();
    let hook = counting_turns(turns.to_str().unwrap());
    let heartbeat = heartbeat::Config { quiet: None, ..heartbeat::Config::default() };
    let agent =
        AgentConfig { heartbeat, timezone: Some(chrono_tz::UTC), ..RigOptions::default().agent };
    let mut rig = Rig::of(RigOptions {
        agent,
        hooks: BTreeMap::from([("count".to_owned(), hook)]),
        clock: Clock::with_hands(clock),
        ..RigOptions::default()
    })
    .await;
    rig.ask("1", "hello").await;
    rig.wait_until(|_| turns_told() == 1).await;
    fs::write(rig.workspace().join("HEARTBEAT.md"), "- [ ] Is the tide high?").unwrap();
    let job = json!({"action": "add", "when": "20m", "text": "look at the moon"});
    rig.model.on("later", [calls(&[("schedule", job)]), says("I will.")]);
    assert_eq!(rig.ask("1", "later").await, "I will.");
    rig.wait_until(|_| turns_told() == 2).await;
    let gate = Gate::shut();
    let spawn = |task: &str| calls(&[("spawn", json!({ "task": task }))]);
    rig.model.on("go", [spawn("count the crabs"), says("It has begun.")]);
    rig.model.on("count the crabs", [held(&gate, completes("lost")), completes("12 crabs")]);
    assert_eq!(rig.ask("1", "go").await, "It has begun.");
    rig.wait_at(&gate).await;
    rig.wait_until(|_| turns_told() == 3).await;
    rig.stop().await;
    let before = turns_told();

    rig.start_in_safe_mode().await;
    at(60);
    // People are answered, and what they ask for is done.
    rig.model.on("more", [spawn("count the shells"), says("That, too.")]);
    rig.model.on("count the shells", [completes("7 shells")]);
    rig.say("1", "more");
    let mut heard = rig.next_messages("1", 2).await;
    heard.sort();
    let shells = replies::subagent_ended(2, "count the shells", true, "7 shells");
    assert_eq!(heard, [shells, "That, too.".to_owned()]);
    assert_eq!(rig.ask("1", "still there?").await, "re: still there?");
    let tasks = "SELECT kind || ' ' || state FROM tasks ORDER BY id";
    assert_eq!(rig.query(tasks), ["subagent running", "subagent done"]);
    assert_eq!(turns_told(), before);
    assert_eq!(rig.unread("1"), [""; 0]);

    rig.model.on("look at the moon", [completes("The moon is up.")]);
    rig.stop_and_start_again().await;
    let mut heard = rig.next_messages("1", 2).await;
    heard.sort();
    let crabs = replies::subagent_ended(1, "count the crabs", true, "12 crabs");
    assert!(heard.contains(&crabs), "{heard:?}");
    assert!(heard.iter().any(|text| text.contains("The moon is up.")), "{heard:?}");
    let tells = calls(&[("converse", json!({"text": "High tide."}))]);
    rig.model.on("Is the tide high?", [tells]);
    rig.settled().await;
    at(100);
    assert_eq!(rig.next_message("1").await, "High tide.");
    rig.wait_until(|_| turns_told() > before).await;
    rig.finish().await;
}

/// A daemon in safe mode, with a job that works in a conversation. It was due while a turn worked there, which the end of the
/// daemon has cut off. The turn goes on with these replies.
async fn with_due_job_behind_a_turn(
    goes_on: impl IntoIterator<Item = Reply>,
) -> (Rig, watch::Sender<DateTime<Utc>>) {
    let begun = Utc::now();
    let (hands, clock) = watch::channel(begun);
    let agent = AgentConfig { timezone: Some(chrono_tz::UTC), ..RigOptions::default().agent };
    let clock = Clock::with_hands(clock);
    let mut rig = Rig::of(RigOptions { agent, clock, ..RigOptions::default() }).await;
    let job = json!({"action": "add", "when": "20m", "text": "look at the moon", "kind": "here"});
    rig.model.on("later", [calls(&[("schedule", job)]), says("I will.")]);
    assert_eq!(rig.ask("1", "later").await, "I will.");
    let gate = Gate::shut();
    rig.model.on("busy", iter::once(held(&gate, says("lost"))).chain(goes_on));
    rig.say("1", "busy");
    rig.wait_at(&gate).await;
    hands.send_replace(begun + chrono::Duration::minutes(21));
    rig.waiting(1).await;
    rig.stop().await;
    rig.start_in_safe_mode().await;
    (rig, hands)
}

/// The job runs once safe mode is left.
async fn runs_after_safe_mode(mut rig: Rig) {
    rig.waiting(1).await;
    rig.model.on("look at the moon", [says("The moon is up.")]);
    rig.stop_and_start_again().await;
    assert_eq!(rig.next_message("1").await, "The moon is up.");
    rig.finish().await;
}

#[tokio::test]
async fn a_job_that_works_in_a_conversation_waits_for_its_end_and_people_there_do_not() {
    let (mut rig, _hands) = with_due_job_behind_a_turn([says("Done.")]).await;
    assert_eq!(rig.next_message("1").await, "Done.");
    // Whoever speaks passes it.
    assert_eq!(rig.ask("1", "still there?").await, "re: still there?");
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    runs_after_safe_mode(rig).await;
}

#[tokio::test]
async fn a_message_passes_a_job_that_waits_and_joins_the_turn_that_works_there() {
    let gate = Gate::shut();
    let look = held(&gate, calls(&[("list_files", json!({}))]));
    let (mut rig, _hands) = with_due_job_behind_a_turn([look]).await;
    rig.wait_at(&gate).await;
    rig.say("1", "quickly");
    rig.waiting(2).await;
    // The loop has seen it once it is through with the first of these.
    for _ in 0..2 {
        rig.ask("1", "/whoami").await;
    }
    gate.open();
    assert_eq!(rig.next_message("1").await, "re: quickly");
    runs_after_safe_mode(rig).await;
}

#[cfg(all(feature = "gateway", feature = "mcp"))]
#[tokio::test]
async fn servers_backups_and_webhooks_wait_for_its_end() {
    const TOKEN: &str = "token-of-the-door-bell";
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    daemon.kill().await;
    killed(&fixture, 1).await.kill().await;
    let backups = fixture.folder().join("backups");
    fs::create_dir(&backups).unwrap();
    let config = format!(
        "{}[gateway]\nlisten = \"127.0.0.1:0\"\n\
         [webhooks.bell]\ntoken = \"{TOKEN}\"\nmessage = \"Somebody rings.\"\n\
         [mcp.time]\ncommand = \"/bin/cat\"\n\
         [backup]\nto = \"{}\"\nevery = \"1h\"\nkeep = 2\n",
        home(&api),
        backups.display()
    );
    fs::write(fixture.folder().join("config.toml"), config).unwrap();
    let _daemon = fixture.daemon().await;
    let status = fixture.status().await;
    assert_eq!((&status["safe_mode"]["starts"], &status["mcp"]), (&json!(3), &json!({})));
    let link = fixture.run(&["web"]).await.out;
    let url = link.lines().find_map(|line| Some(line.split_once("/#")?.0)).unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let call = client.post(format!("{url}/hooks/bell")).bearer_auth(TOKEN).body("{}");
    assert_eq!(call.send().await.unwrap().status(), reqwest::StatusCode::ACCEPTED);
    api.say(&said(&BOB, "are you there?"));
    api.wait_for_words(BOB.id, "You said: are you there?").await;
    let made = || fs::read_dir(&backups).unwrap().count();
    assert_eq!(made(), 0);
    assert!(!api.sent().iter().any(|sent| sent.text.contains("rings")), "{:?}", api.sent());

    let ended = fixture.run(&["reload"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    api.wait_for_words(ADA.id, "Somebody rings.").await;
    until("the backup", async || (made() > 0).then_some(())).await;
    until("the server", async || {
        let ended = fixture.run(&["status", "--json"]).await;
        let status: serde_json::Value = serde_json::from_str(&ended.out).ok()?;
        status["mcp"]["time"].is_object().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_orderly_end_begins_the_count_anew() {
    let fixture = ProgramFixture::new("");
    killed(&fixture, 2).await.terminate().await;
    let daemon = killed(&fixture, 2).await;
    assert!(fixture.status().await["safe_mode"].is_null());
    daemon.kill().await;
    let daemon = fixture.daemon().await;
    assert_eq!(fixture.status().await["safe_mode"]["starts"], 3);
    daemon.terminate().await;
    let _daemon = fixture.daemon().await;
    assert!(fixture.status().await["safe_mode"].is_null());
}

#[tokio::test]
async fn a_start_that_is_refused_is_no_crash() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let (workspace, away) = (fixture.home().join("workspace"), fixture.folder().join("away"));
    let refused = async |times: usize| {
        fs::rename(&workspace, &away).unwrap();
        for _ in 0..times {
            let ended = fixture.run(&["run"]).await;
            assert_eq!(ended.code, Some(1), "{ended:?}");
            assert!(ended.err.contains("although this home was in use"), "{ended:?}");
        }
        fs::rename(&away, &workspace).unwrap();
    };
    refused(STARTS_MAX + 1).await;
    let ended = fixture.run(&["doctor"]).await;
    assert!(ended.out.contains("daemon: none runs: its last start was refused"), "{ended:?}");
    let daemon = fixture.daemon().await;
    assert!(fixture.status().await["safe_mode"].is_null());
    // A start that another daemon refuses does not touch that one's record.
    let ended = fixture.run(&["run"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(last_record(&fixture.home()).unwrap().runs);
    // Kills count, also with a refused start between them and the next one.
    daemon.kill().await;
    killed(&fixture, 1).await.kill().await;
    refused(1).await;
    let _daemon = fixture.daemon().await;
    assert_eq!(fixture.status().await["safe_mode"]["starts"], 3);
}

#[tokio::test]
async fn a_start_that_gets_no_control_socket_is_no_crash() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let socket = fixture.home().join("control.sock");
    fs::create_dir(&socket).unwrap();
    for _ in 0..=STARTS_MAX {
        let ended = fixture.run(&["run"]).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("cannot make the control socket"), "{ended:?}");
    }
    fs::remove_dir(&socket).unwrap();
    let _daemon = fixture.daemon().await;
    assert!(fixture.status().await["safe_mode"].is_null());
}

#[tokio::test]
async fn an_unreadable_record_is_none() {
    let fixture = ProgramFixture::new("");
    killed(&fixture, 2).await.kill().await;
    fs::write(fixture.home().join("starts.json"), "{\"boot\": 3").unwrap();
    let _daemon = fixture.daemon().await;
    assert!(fixture.status().await["safe_mode"].is_null());
}

#[test]
fn starts_count_by_the_clock_of_one_boot() {
    let started = |times: &[u64]| {
        let start = |record: StartRecord, at: &u64| record.started("a", *at);
        times.iter().fold(StartRecord::default(), start)
    };
    // The first start follows nothing.
    assert_eq!(started(&[10]).safe_mode(), None);
    assert_eq!(started(&[10, 20, 30]).safe_mode(), None);
    assert_eq!(started(&[10, 20, 30, 40]).safe_mode(), Some(STARTS_MAX));
    // Slowly.
    assert_eq!(started(&[10, 200, 400, 600]).safe_mode(), None);
    assert_eq!(started(&[0, 1, 2, WITHIN_S]).safe_mode(), Some(3));
    assert_eq!(started(&[0, 1, 2, WITHIN_S + 1]).safe_mode(), None);
    // Power cuts are no fault of the program.
    let rebooted = started(&[10, 20, 30]).started("b", 5);
    assert_eq!(rebooted.unexpected, Vec::<u64>::new());
    assert_eq!(rebooted.started("b", 8).unexpected, [8]);
    // Damage of the store is known across boots, until a start finds it whole.
    let damaged = StartRecord { damage: FoundDamage::Told, ..started(&[10]) };
    assert_eq!(damaged.started("b", 5).damage, FoundDamage::Told);
    // A former version has not recorded it.
    let former = r#"{"boot": "a", "runs": true, "unexpected": [1], "is_reported": false}"#;
    let former: StartRecord = serde_json::from_str(former).unwrap();
    assert_eq!((former.runs, former.damage), (true, FoundDamage::None));
    // The owner is told again once it was over.
    let told = StartRecord { is_reported: true, ..started(&[10, 20, 30, 40]) };
    assert!(told.clone().started("a", 50).is_reported);
    assert!(!told.started("a", 1000).is_reported);
}
