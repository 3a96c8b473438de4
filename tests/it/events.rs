//! What happens inside, as it is told to onlookers and to the owner's hooks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use peacrab::hooks::Hook;
use peacrab::provider::{Delta, StopReason};
use peacrab::types::event::{Event, EventKind, Events, NAMES};
use peacrab::types::message::Address;
use serde_json::{Value, json};

use crate::support::rig::{Rig, RigOptions, USER};
use crate::support::script::{Reply, calls, says};

fn event(what: EventKind) -> Event {
    let address = Address { channel: "home".into(), chat: "1".into(), thread: None };
    let origin = Some(address.into());
    Event { session: None, turn: None, origin, is_others_private: false, what }
}

#[tokio::test]
async fn a_turn_is_told_from_its_start_to_its_delivery() {
    let mut rig = Rig::new().await;
    let mut onlooker = rig.events.as_ref().unwrap().subscribe();
    let thinks = vec![
        Delta::Thinking("hm".to_owned()),
        Delta::Text("noted".to_owned()),
        Delta::End(StopReason::Done),
    ];
    let remember = calls(&[("remember", json!({ "text": "likes tea" })), ("no", json!({}))]);
    rig.model.on("tea", [remember, Reply::Says(thinks)]);
    rig.ask("1", "I like tea").await;
    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(EventKind::Delivered { .. })) {
        let event = onlooker.next().await.unwrap();
        assert_eq!(event.origin.unwrap().chat().unwrap().chat.as_str(), "1");
        seen.push(event.what);
    }
    let names: Vec<_> = seen.iter().map(EventKind::name).collect();
    let expected = [
        "turn_start",
        "step_start",
        "step_end",
        "tool_start",
        "tool_end",
        "tool_start",
        "tool_end",
        "memory_updated",
        "step_start",
        "thinking_start",
        "thinking",
        "thinking_end",
        "text",
        "step_end",
        "turn_end",
        "delivered",
    ];
    assert_eq!(names, expected);
    let (action, failed) = seen
        .iter()
        .find_map(|what| match what {
            EventKind::ToolEnd { action, tool, failed, .. } if tool == "remember" => {
                Some((action, failed))
            }
            _ => None,
        })
        .unwrap();
    assert_eq!((action.0, *failed), (1, false));
    rig.finish().await;
}

#[tokio::test]
async fn a_slow_onlooker_is_told_how_much_it_has_missed() {
    let events = Events::default();
    let mut slow = events.subscribe();
    for step in 0..300 {
        events.emit(|| event(EventKind::StepStart { step }));
    }
    let missed = slow.next().await.unwrap();
    assert_eq!(missed.what, EventKind::Missed { events: 44 });
    assert_eq!(slow.next().await.unwrap().what, EventKind::StepStart { step: 44 });
}

#[test]
fn every_event_is_written_with_its_name() {
    let end = event(EventKind::TurnEnd { silent: true });
    let written = serde_json::to_value(&end).unwrap();
    assert_eq!(written["event"], end.what.name());
    assert_eq!(serde_json::from_value::<Event>(written).unwrap(), end);
    let unknown =
        serde_json::from_value::<EventKind>(json!({ "event": "?" })).unwrap_err().to_string();
    let named: Vec<_> = unknown.split('`').skip(3).step_by(2).collect();
    assert_eq!(named, NAMES, "{unknown}");
}

fn hook(on: &'static str, script: &str, file: &Path, time_max: Duration) -> Hook {
    let command = ["/bin/sh", "-c", script, "hook", file.to_str().unwrap()];
    Hook {
        on: vec![on],
        command: command.map(str::to_owned).to_vec(),
        private_texts: false,
        time_max,
        environment: vec![("PATH", "/usr/bin:/bin".into()), ("TZ", "UTC".into())],
        refused: None,
    }
}

async fn rig_with(hook: Hook) -> Rig {
    Rig::of(RigOptions {
        hooks: BTreeMap::from([("one".to_owned(), hook)]),
        ..RigOptions::default()
    })
    .await
}

#[tokio::test]
async fn a_hook_gets_no_words_of_others_private_turns_unless_its_section_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["usual", "all"].map(|name| folder.path().join(name));
    let script = "cat >> \"$1\"";
    let [usual, all] =
        files.each_ref().map(|file| hook("text", script, file, Duration::from_secs(20)));
    let all = Hook { private_texts: true, ..all };
    let hooks = BTreeMap::from([("usual".to_owned(), usual), ("all".to_owned(), all)]);
    let mut rig = Rig::of(RigOptions { hooks, ..RigOptions::default() }).await;
    rig.model.on("my plums", [says("The user's plums.")]);
    rig.say_as(USER, "2", "my plums");
    assert_eq!(rig.next_message("2").await, "The user's plums.");
    rig.model.on("my pears", [says("The owner's pears.")]);
    assert_eq!(rig.ask("1", "my pears").await, "The owner's pears.");
    let told = || files.each_ref().map(|file| fs::read_to_string(file).unwrap_or_default());
    rig.wait_until(|_| told().iter().all(|told| told.contains("pears"))).await;
    let [usual, all] = told();
    assert!(all.contains("plums"), "{all}");
    // The event itself is there.
    assert!(usual.contains("\"chat\":\"2\"") && !usual.contains("plums"), "{usual}");
    rig.finish().await;
}

#[tokio::test]
async fn a_hook_is_given_the_event_and_little_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("told");
    let script = "cat > \"$1.part\"; env >> \"$1.part\"; mv \"$1.part\" \"$1\"";
    let mut rig = rig_with(hook("turn_end", script, &file, Duration::from_secs(20))).await;
    rig.ask("1", "hello").await;
    rig.wait_until(|_| file.exists()).await;
    let told = fs::read_to_string(&file).unwrap();
    let mut lines = told.lines();
    let event: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(event["event"], "turn_end");
    assert_eq!(event["address"]["chat"], "1");
    let names: Vec<_> = lines.map(|line| line.split('=').next().unwrap()).collect();
    // The shell itself adds three.
    let known = ["PATH", "TZ", "PWD", "SHLVL", "_", "OLDPWD"];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    rig.finish().await;
}

#[tokio::test]
async fn a_hook_that_takes_too_long_is_killed_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("child");
    let script = "sleep 600 & echo $! > \"$1.part\"; mv \"$1.part\" \"$1\"; wait";
    let mut rig = rig_with(hook("turn_end", script, &file, Duration::from_millis(500))).await;
    rig.model.on("hello", [says("hi")]);
    rig.ask("1", "hello").await;
    rig.wait_until(|_| file.exists()).await;
    let child = fs::read_to_string(&file).unwrap().trim().to_owned();
    let gone = |pid: &str| match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => true,
        // A zombie of which nobody has heard yet.
        Ok(stat) => stat.rsplit(')').next().unwrap().trim().starts_with('Z'),
    };
    rig.wait_until(|_| gone(&child)).await;
    // And the daemon goes on.
    rig.ask("1", "still there?").await;
    rig.finish().await;
}
