//! The heartbeat when things go wrong: models that fail, clocks that are set, crashes, `/stop`.

use std::fs;
use std::sync::Arc;

use chrono::{DateTime, Duration, TimeZone as _, Utc};
use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::provider::ProviderError;
use peacrab::replies;
use peacrab::tools::ToolSet;
use serde_json::json;

use super::{Scene, WATCH, by_day, is_silent, quiet, tells};
use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{OWNER, Rig, RigOptions};
use crate::support::script::{Gate, Reply, calls, held};
use crate::support::tools::AbortingTool;

fn refuses() -> Reply {
    Reply::Fails(ProviderError::Refused("no credit".to_owned()))
}

#[tokio::test]
async fn two_failures_in_a_row_are_told_with_the_reason_and_ten_switch_it_off() {
    let mut scene = Scene::new().await;
    scene.rig.model.on("Is the tide high?", (0..10).map(|_| refuses()));
    let mut at = 0;
    for heartbeat_run in 1..=10 {
        // Longer each time; a day is the most.
        at += 31 + if heartbeat_run > 6 { 24 * 60 } else { 1 << heartbeat_run };
        scene.at(at).await;
        scene.ended(heartbeat_run).await;
    }
    let told = scene.rig.next_messages("1", 2).await;
    assert!(told[0].starts_with("My heartbeat has failed 2 times in a row: "), "{told:?}");
    assert!(told[0].contains("no credit"), "{told:?}");
    assert!(told[1].contains("10 times in a row, so I turned it off: "), "{told:?}");
    scene.off_at(at + 5 * 24 * 60).await;
    assert_eq!(scene.beats().len(), 10);
    assert!(scene.rig.ask("1", "/heartbeat").await.starts_with("Heartbeat: off. "));
    assert_eq!(scene.rig.ask("1", "/heartbeat on").await, replies::HEARTBEAT_ON);
    // Counted anew.
    scene.rig.model.on("Is the tide high?", [refuses(), is_silent()]);
    for (heartbeat_run, more) in [(11, 6), (12, 7)] {
        scene.at(at + more * 24 * 60).await;
        scene.ended(heartbeat_run).await;
    }
    scene.rig.finish().await;
}

/// It began before them.
#[tokio::test]
async fn a_run_that_breaks_in_quiet_hours_is_told_of_when_they_end() {
    let tools = ToolSet::standard_with(vec![Arc::new(AbortingTool) as _]);
    let mut scene = quiet(80, 240, RigOptions { tools, ..RigOptions::default() }).await;
    fs::write(scene.rig.path().join("downloads/page.txt"), "Write it down.").unwrap();
    let gate = Gate::shut();
    let reads = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    let writes = calls(&[("write_file", json!({"path": "tide.md", "content": "high"}))]);
    let breaks = held(&gate, calls(&[("abort", json!({}))]));
    scene.rig.model.on("Is the tide high?", [refuses(), reads, writes, breaks]);
    scene.at(31).await;
    scene.ended(1).await;
    scene.at(70).await;
    scene.rig.wait_at(&gate).await;
    scene.at(85).await;
    gate.open();
    scene.ended(2).await;
    assert_eq!(scene.beats(), ["failed", "failed"]);
    assert_eq!(scene.rig.ask("2", "hello").await, "re: hello");
    assert_eq!(scene.rig.unread("1"), Vec::<String>::new());
    scene.rig.stop_and_start_again().await;
    scene.rig.model.on("Is the tide high?", [is_silent()]);
    scene.at(241).await;
    // The owner is told of the failure where they spoke last.
    let failed = scene.rig.next_message("2").await;
    assert!(failed.starts_with("My heartbeat has failed 2 times in a row: "), "{failed}");
    let report = scene.rig.next_message("1").await;
    assert!(report.starts_with("I did not run write_file for the heartbeat"), "{report}");
    // After a start, a minute later.
    scene.at(243).await;
    scene.ended(3).await;
    scene.rig.finish().await;
}

/// No turn can begin with a run, so that it is closed after some attempts.
const NO_TURN: &str = "CREATE TRIGGER none BEFORE INSERT ON turns
    WHEN (SELECT kind FROM sessions WHERE id = NEW.session) = 'heartbeat'
    BEGIN SELECT raise(ABORT, 'none'); END";

/// It began before them.
#[tokio::test]
async fn a_run_that_is_closed_in_quiet_hours_is_told_of_when_they_end() {
    let mut scene = quiet(80, 240, RigOptions::default()).await;
    scene.rig.model.on("Is the tide high?", [refuses(), is_silent()]);
    scene.at(31).await;
    scene.ended(1).await;
    scene.rig.execute(NO_TURN);
    scene.at(70).await;
    scene.at(85).await;
    scene.ended(2).await;
    assert_eq!(scene.beats(), ["failed", "failed"]);
    assert_eq!(scene.rig.ask("2", "hello").await, "re: hello");
    assert_eq!(scene.rig.unread("1"), Vec::<String>::new());
    scene.rig.execute("DROP TRIGGER none");
    scene.at(241).await;
    let failed = scene.rig.next_message("2").await;
    assert!(failed.starts_with("My heartbeat has failed 2 times in a row: "), "{failed}");
    scene.ended(3).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_run_that_is_closed_by_day_is_told_of_at_once() {
    let mut scene = Scene::new().await;
    scene.rig.model.on("Is the tide high?", [refuses()]);
    scene.at(31).await;
    scene.ended(1).await;
    scene.rig.execute(NO_TURN);
    scene.at(70).await;
    let failed = scene.rig.next_message("1").await;
    assert!(failed.starts_with("My heartbeat has failed 2 times in a row: "), "{failed}");
    scene.rig.execute("DROP TRIGGER none");
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_run_waits_for_the_model_until_its_next_time() {
    let mut scene = Scene::new().await;
    let away = Reply::Fails(ProviderError::busy("no network"));
    scene.rig.model.on("Is the tide high?", [away, tells("High tide.")]);
    scene.at(31).await;
    scene.rig.wait_for_count("SELECT count(*) FROM turns WHERE model_wait IS NOT NULL", 1).await;
    assert_eq!(scene.beats(), ["running"]);
    let until = scene.rig.query(
        "SELECT json_extract(model_wait, '$.until') FROM turns WHERE model_wait IS NOT NULL",
    );
    let next = scene.rig.heart.as_ref().unwrap().next.borrow().unwrap();
    let before = next - until[0].parse::<DateTime<Utc>>().unwrap();
    assert!(before.abs() < Duration::minutes(1), "{until:?} {next}");
    // Nobody is told that it waits.
    assert_eq!(scene.rig.next_message("1").await, "High tide.");
    scene.ended(1).await;
    assert_eq!(scene.beats(), ["done"]);
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_clock_that_is_set_neither_stops_it_nor_makes_it_race() {
    let mut scene = Scene::new().await;
    scene.rig.model.on("Is the tide high?", (0..4).map(|_| is_silent()));
    scene.at(31).await;
    scene.ended(1).await;
    // Days ahead: one heartbeat run, not all that were missed.
    scene.at(10 * 24 * 60).await;
    scene.ended(2).await;
    // Set back by all that: the next is half an hour from then, not in ten days.
    scene.hands.send_replace(scene.begun);
    let soon = scene.begun + Duration::minutes(31);
    let mut next = scene.rig.heart.as_ref().unwrap().next.subscribe();
    next.wait_for(|next| next.is_some_and(|next| next < soon)).await.unwrap();
    scene.at(40).await;
    scene.ended(3).await;
    // A board without a clock begins in 1970, and waits for a sane one.
    scene.hands.send_replace(Utc.with_ymd_and_hms(1970, 1, 1, 12, 0, 0).unwrap());
    next.wait_for(Option::is_none).await.unwrap();
    scene.at(80).await;
    scene.at(82).await;
    scene.ended(4).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn stop_ends_it_without_a_word() {
    let mut scene = Scene::new().await;
    let gate = Gate::shut();
    scene.rig.model.on("Is the tide high?", [held(&gate, tells("High tide.")), is_silent()]);
    scene.at(31).await;
    scene.rig.wait_at(&gate).await;
    // One at a time.
    assert_eq!(scene.rig.ask("1", "/heartbeat now").await, replies::HEARTBEAT_WORKS);
    scene.rig.ask("1", "/stop").await;
    gate.open();
    scene.ended(1).await;
    scene.at(62).await;
    scene.ended(2).await;
    assert_eq!(scene.beats(), ["stopped", "silent"]);
    scene.rig.finish().await;
}

#[tokio::test]
async fn it_waits_for_no_approval_and_does_not_repeat_its_report() {
    let approvals = Approvals { tools: vec!["write_file".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut scene = Scene::of(by_day(), RigOptions { agent, ..RigOptions::default() }).await;
    let writes = || calls(&[("write_file", json!({"path": "tide.md", "content": "high\n"}))]);
    scene.rig.model.on("Is the tide high?", [writes(), is_silent()]);
    scene.at(31).await;
    let report = scene.rig.next_message("1").await;
    assert!(report.contains("I did not run write_file") && report.contains("tide.md"), "{report}");
    scene.ended(1).await;
    scene.rig.model.on("Is the tide high?", [writes(), is_silent()]);
    scene.at(62).await;
    scene.ended(2).await;
    assert_eq!(scene.beats(), ["silent", "silent"]);
    assert!(scene.rig.unread("1").is_empty());
    assert!(!scene.rig.workspace().join("tide.md").exists());
    scene.rig.finish().await;
}

#[tokio::test]
async fn restarts_do_not_make_it_beat_more_often() {
    let mut scene = Scene::new().await;
    scene.rig.model.on("Is the tide high?", [is_silent(), is_silent()]);
    scene.at(31).await;
    scene.ended(1).await;
    for minutes in [33, 35, 50, 59] {
        scene.rig.stop_and_start_again().await;
        scene.at(minutes).await;
    }
    assert_eq!(scene.beats(), ["silent"]);
    scene.at(62).await;
    scene.ended(2).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_beats_said_is_forgotten_after_a_month_and_the_conversation_keeps_it() {
    let mut scene = Scene::new().await;
    scene.rig.model.on("Is the tide high?", [tells("High tide.")]);
    scene.at(31).await;
    assert_eq!(scene.rig.next_message("1").await, "High tide.");
    scene.rig.settled().await;
    let long_ago = (Utc::now() - Duration::days(40)).timestamp_millis();
    scene.rig.stop().await;
    scene.rig.execute(&format!(
        "UPDATE tasks SET begun = {long_ago} WHERE kind = 'heartbeat';
        UPDATE sessions SET closed = {long_ago} WHERE kind = 'heartbeat'"
    ));
    scene.watches("");
    scene.rig.start().await;
    // Tidying begins once the daemon is ready.
    for table in ["tasks WHERE kind = 'heartbeat'", "sessions WHERE kind = 'heartbeat'"] {
        let count = format!("SELECT count(*) || '' FROM {table}");
        scene.rig.wait_until(|rig| rig.query(&count) == ["0"]).await;
    }
    scene.rig.ask("1", "and now?").await;
    assert!(scene.rig.model.last().transcript().contains("assistant: High tide."));
    scene.watches(WATCH);
    scene.rig.finish().await;
}

#[tokio::test]
async fn quiet_hours_and_prompts_go_by_the_zone_that_stands_in_user_md() {
    let rig = Rig::at_rest(FakeChannel::new(), RigOptions::default());
    fs::create_dir_all(rig.workspace()).unwrap();
    fs::write(rig.workspace().join("USER.md"), "- Time zone: Pacific/Kiritimati\n").unwrap();
    let mut rig = rig;
    rig.start().await;
    assert_eq!(rig.heart.as_ref().unwrap().services.zone, chrono_tz::Pacific::Kiritimati);
    rig.ask("1", "hello").await;
    assert!(rig.model.last().transcript().contains(" +14:00]\nhello"));
    rig.finish().await;
}

#[tokio::test]
async fn who_asks_for_a_look_while_one_works_is_told_what_comes_of_that() {
    let mut scene = Scene::new().await;
    let gate = Gate::shut();
    scene.rig.model.on("Is the tide high?", [held(&gate, is_silent())]);
    scene.at(31).await;
    scene.rig.wait_at(&gate).await;
    assert_eq!(scene.rig.ask("1", "/heartbeat now").await, replies::HEARTBEAT_WORKS);
    gate.open();
    assert_eq!(scene.rig.next_message("1").await, replies::HEARTBEAT_SILENT);
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_failed_look_that_was_asked_for_is_told_at_once() {
    let mut scene = Scene::new().await;
    scene.rig.model.on("Is the tide high?", [refuses()]);
    scene.rig.say("1", "/heartbeat now");
    let told = scene.rig.next_messages("1", 2).await;
    assert_eq!(told[0], replies::HEARTBEAT_BEGUN);
    assert!(told[1].starts_with("I couldn't check HEARTBEAT.md: "), "{told:?}");
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_beat_whose_details_cannot_be_read_does_not_hold_up_the_others() {
    let mut scene = Scene::of(by_day(), RigOptions::default()).await;
    let gate = Gate::shut();
    let tells = [held(&gate, tells("High.")), tells("High."), tells("Low.")];
    scene.rig.model.on("Is the tide high?", tells);
    scene.at(31).await;
    scene.rig.wait_at(&gate).await;
    scene.rig.stop().await;
    gate.open();
    scene.rig.execute("UPDATE tasks SET details = 'no JSON' WHERE kind = 'heartbeat'");
    scene.rig.start().await;
    assert_eq!(scene.rig.next_message("1").await, "High.");
    scene.at(62).await;
    assert_eq!(scene.rig.next_message("1").await, "Low.");
    assert_eq!(scene.beats(), ["done", "done"]);
    scene.rig.finish().await;
}

/// One that was cut off, and whose channel the config does not have any more.
#[tokio::test]
async fn a_beat_whose_channel_is_gone_does_not_hold_up_the_others() {
    let elsewhere = Arc::new(FakeChannel::new());
    let channels = vec![("away", Arc::clone(&elsewhere))];
    let mut scene = Scene::of(by_day(), RigOptions { channels, ..RigOptions::default() }).await;
    elsewhere.hears(elsewhere.message(OWNER, "9", "hello"));
    scene.rig.next_messages_on(Arc::clone(&elsewhere), "9", 1).await;
    let gate = Gate::shut();
    scene.rig.model.on("Is the tide high?", [held(&gate, tells("High.")), tells("High.")]);
    scene.at(31).await;
    scene.rig.wait_at(&gate).await;
    scene.rig.stop().await;
    gate.open();
    scene.rig.parts.channels.clear();
    scene.rig.start().await;
    scene.rig.ask("1", "hello from here").await;
    scene.at(62).await;
    assert_eq!(scene.rig.next_message("1").await, "High.");
    assert_eq!(scene.beats(), ["stopped", "done"]);
    scene.rig.stop().await;
}
