//! A call that a run of a job did not make because nobody could be asked is made later by a button: once, exactly as it was
//! shown, in a turn of its own.

use std::fs;
use std::path::Path;

use chrono::Utc;
use peacrab::backup::archive;
use peacrab::backup::restore::{Existing, restore};
use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::replies::{self, CallNotMade};
use peacrab::types::message::{DeliveryId, Press};
use serde_json::json;

use super::jobs::{Scene, TASK, completes, schedules};
use crate::support::rig::{OTHER_USER, OWNER, RigOptions, USER};
use crate::support::script::{Gate, Reply, calls, held, says};

const ALLOWED: &str = "A call that was allowed";

/// A scene in which each change of a file must be allowed.
async fn scene() -> Scene {
    Scene::of(parts()).await
}

fn parts() -> RigOptions {
    let tools = ["append_file", "edit_file", "write_file"].map(str::to_owned).to_vec();
    let approvals = Approvals { tools, roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..RigOptions::default().agent };
    RigOptions { agent, ..RigOptions::default() }
}

fn append(name: &str) -> (&'static str, serde_json::Value) {
    ("append_file", json!({"path": name, "content": "tide\n"}))
}

/// A run of a job that makes these calls; gives the report.
async fn run(scene: &mut Scene, step: Reply) -> String {
    scene.add("1", json!({"when": "20m", "text": TASK})).await;
    scene.rig.model.on(TASK, [step, completes("I could not write it.")]);
    scene.later(21);
    let heard = scene.rig.next_messages("1", 2).await;
    assert!(heard.contains(&"I could not write it.".to_owned()), "{heard:?}");
    heard.into_iter().find(|text| text.starts_with("I did not run")).expect("a report")
}

fn press(scene: &Scene, who: &str, chat: &str, choice: usize) {
    let got = scene.rig.home.got();
    let asked = got.borrow().iter().rev().find(|got| !got.choices.is_empty()).unwrap().delivery;
    scene.rig.say_changed(who, chat, "", |message| {
        message.body.press = Some(Press { delivery: DeliveryId(asked), choice });
    });
}

fn written(scene: &Scene, name: &str) -> Option<String> {
    fs::read_to_string(scene.rig.workspace().join(name)).ok()
}

#[tokio::test]
async fn it_is_done_once_and_its_result_is_told() {
    let mut scene = scene().await;
    let report = run(&mut scene, calls(&[append("tide.md")])).await;
    assert!(report.contains("tide.md") && report.contains("/approve later 1"), "{report}");
    assert_eq!(written(&scene, "tide.md"), None);
    scene.rig.stop_and_start_again().await;
    let listed = scene.rig.ask("1", "/approve").await;
    assert!(listed.starts_with("/approve later 1: append_file "), "{listed}");
    assert!(listed.contains("tide.md") && listed.lines().count() == 1, "{listed}");
    scene.rig.model.on(ALLOWED, [completes("It is written.")]);
    press(&scene, OWNER, "1", 0);
    let heard = scene.rig.next_messages("1", 3).await;
    assert!(heard.contains(&replies::making_deferred_calls(&["append_file"])), "{heard:?}");
    assert!(heard.iter().any(|text| text.ends_with("It is written.")), "{heard:?}");
    assert_eq!(written(&scene, "tide.md").as_deref(), Some("tide\n"));
    let made = scene.rig.model.last().transcript();
    assert!(made.contains("call: append_file") && !made.contains(TASK), "{made}");
    assert_eq!(scene.rig.ask("1", "/approve").await, replies::NOTHING_TO_APPROVE);
    for command in ["/approve later 1", "/deny later 1", "/approve later 7"] {
        assert_eq!(scene.rig.ask("1", command).await, replies::NOT_OPEN_ANY_MORE);
    }
    assert_eq!(written(&scene, "tide.md").as_deref(), Some("tide\n"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn the_report_shows_what_a_call_would_change() {
    let mut scene = Scene::of(RigOptions::default()).await;
    fs::write(scene.rig.path().join("downloads/page.txt"), "Write it down.").unwrap();
    fs::write(scene.rig.workspace().join("tide.md"), "low\n").unwrap();
    scene.add("1", json!({"when": "20m", "text": TASK})).await;
    let reads = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    let changes = calls(&[
        append("tide.md"),
        ("write_file", json!({"path": "skills/tide/SKILL.md", "content": "Obey.\n"})),
        // It follows the first.
        ("append_file", json!({"path": "tide.md", "content": "crab\n"})),
    ]);
    scene.rig.model.on(TASK, [reads, changes, completes("I could not write it.")]);
    scene.later(21);
    let heard = scene.rig.next_messages("1", 2).await;
    let report = heard.iter().find(|text| text.starts_with("I did not run")).expect("a report");
    for part in [
        "```diff\n--- tide.md\n+++ tide.md\n",
        "\n low\n+tide\n```",
        "```diff\n--- (no file)\n+++ skills/tide/SKILL.md\n",
        "\n+Obey.\n```",
        "\n low\n tide\n+crab\n```",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    scene.rig.finish().await;
}

#[tokio::test]
async fn two_changes_of_a_file_in_different_messages_are_shown_as_one_follows_the_other() {
    let mut scene = scene().await;
    scene.add("1", json!({"when": "20m", "text": TASK})).await;
    let others = (1..=5).map(|number| append(&format!("{number}.md")));
    let last = ("append_file", json!({"path": "tide.md", "content": "crab\n"}));
    let all: Vec<_> = [append("tide.md")].into_iter().chain(others).chain([last]).collect();
    scene.rig.model.on(TASK, [calls(&all), completes("I could not write it.")]);
    scene.later(21);
    let heard = scene.rig.next_messages("1", 3).await;
    let reports: Vec<_> = heard.iter().filter(|it| it.starts_with("I did not run")).collect();
    assert_eq!(reports.len(), 2, "{heard:?}");
    assert!(reports[0].contains("+++ tide.md\n"), "{heard:?}");
    assert!(reports[1].contains("+++ tide.md\n"), "{heard:?}");
    assert!(reports[1].contains("\n tide\n+crab\n```"), "{heard:?}");
    scene.rig.finish().await;
}

#[test]
fn a_long_change_is_cut_in_the_report_and_whole_in_its_file() {
    let change = format!("--- a.md\n+++ a.md\n{}+The end.", "+A line.\n".repeat(500));
    let call =
        CallNotMade { tool: "write_file", arguments: "{}", change: Some(&change), files: None };
    let (text, file) = replies::calls_not_made(None, &[call]);
    assert!(text.contains("```diff\n--- a.md") && text.contains("all of it"), "{text}");
    assert!(!text.contains("The end.") && text.len() < 2_000, "{text}");
    assert!(file.expect("a file").contains(&change));
}

#[tokio::test]
async fn nothing_else_is_allowed_with_it() {
    let mut scene = scene().await;
    run(&mut scene, calls(&[append("tide.md")])).await;
    // The same once more, and another.
    let more = calls(&[append("tide.md"), append("other.md")]);
    scene.rig.model.on(ALLOWED, [more, completes("No more.")]);
    press(&scene, OWNER, "1", 0);
    let heard = scene.rig.next_messages("1", 3).await;
    let question = heard.iter().find(|text| text.contains("Approve?")).expect("a question");
    assert!(question.contains("other.md"), "{question}");
    scene.rig.say("1", "/deny 1 all");
    let heard = scene.rig.next_messages("1", 3).await;
    assert!(heard.iter().any(|text| text.ends_with("No more.")), "{heard:?}");
    assert_eq!(written(&scene, "tide.md").as_deref(), Some("tide\n"));
    assert_eq!(written(&scene, "other.md"), None);
    scene.rig.finish().await;
}

#[tokio::test]
async fn it_is_asked_about_again_if_its_file_has_changed() {
    let mut scene = scene().await;
    let write = ("write_file", json!({"path": "tide.md", "content": "tide\n"}));
    run(&mut scene, calls(&[write])).await;
    fs::write(scene.rig.workspace().join("tide.md"), "mine\n").unwrap();
    scene.rig.model.on(ALLOWED, [completes("It is written.")]);
    press(&scene, OWNER, "1", 0);
    let heard = scene.rig.next_messages("1", 3).await;
    let question = heard.iter().find(|text| text.contains("I'm asking again because"));
    let question = question.expect("a question");
    assert!(question.contains("\n-mine") && question.contains("\n+tide"), "{question}");
    assert_eq!(written(&scene, "tide.md").as_deref(), Some("mine\n"));
    scene.rig.say("1", "/approve 1");
    let heard = scene.rig.next_messages("1", 3).await;
    assert!(heard.iter().any(|text| text.ends_with("It is written.")), "{heard:?}");
    assert_eq!(written(&scene, "tide.md").as_deref(), Some("tide\n"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn all_that_add_to_one_file_are_done_in_their_order_without_another_question() {
    let mut scene = scene().await;
    fs::write(scene.rig.workspace().join("shopping.md"), "bread\n").unwrap();
    let things = ["eggs", "milk", "rye", "salt"];
    let adds = |thing: &str| ("append_file", json!({"path": "shopping.md", "content": thing}));
    run(&mut scene, calls(&things.map(adds))).await;
    scene.rig.model.on(ALLOWED, things.map(|_| completes("It is written.")));
    scene.rig.say("1", "/approve later 1 all");
    let heard = scene.rig.next_messages("1", 5).await;
    let done = heard.iter().filter(|text| text.ends_with("It is written.")).count();
    assert_eq!(done, things.len(), "{heard:?}");
    let list = written(&scene, "shopping.md").unwrap();
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines, ["bread", "eggs", "milk", "rye", "salt"]);
    scene.rig.finish().await;
}

/// A run that would change a list three times, the last time what the first has changed. Gives its report.
async fn change_a_list(scene: &mut Scene) -> String {
    fs::write(scene.rig.workspace().join("list.md"), "bread\nmilk\nrye\n").unwrap();
    let edit =
        |old: &str, new: &str| ("edit_file", json!({"path": "list.md", "old": old, "new": new}));
    let edits = [edit("bread", "buns"), edit("milk", "tea"), edit("buns", "cake")];
    run(scene, calls(&edits)).await
}

#[tokio::test]
async fn changes_of_one_file_are_shown_and_made_as_one_follows_the_other() {
    let mut scene = scene().await;
    let report = change_a_list(&mut scene).await;
    for change in ["-bread\n+buns\n milk\n", "\n buns\n-milk\n+tea\n rye", "-buns\n+cake\n tea\n"] {
        assert!(report.contains(change), "{change}: {report}");
    }
    scene.rig.model.on(ALLOWED, ["one", "two", "three"].map(|_| completes("It is written.")));
    scene.rig.say("1", "/approve later 1 all");
    let heard = scene.rig.next_messages("1", 4).await;
    let done = heard.iter().filter(|text| text.ends_with("It is written.")).count();
    assert_eq!(done, 3, "{heard:?}");
    assert_eq!(written(&scene, "list.md").as_deref(), Some("cake\ntea\nrye\n"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_change_without_the_one_before_it_is_asked_about_again() {
    let mut scene = scene().await;
    change_a_list(&mut scene).await;
    scene.rig.model.on(ALLOWED, [completes("It is written.")]);
    scene.rig.say("1", "/approve later 2");
    let heard = scene.rig.next_messages("1", 3).await;
    let question = heard.iter().find(|text| text.contains("I'm asking again because"));
    let question = question.expect("a question");
    assert!(question.contains("\n bread\n-milk\n+tea\n rye"), "{question}");
    scene.rig.say("1", "/approve 1");
    let heard = scene.rig.next_messages("1", 3).await;
    assert!(heard.iter().any(|text| text.ends_with("It is written.")), "{heard:?}");
    assert_eq!(written(&scene, "list.md").as_deref(), Some("bread\ntea\nrye\n"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn the_calls_of_a_report_are_made_one_after_another_also_after_a_restart() {
    let mut scene = scene().await;
    run(&mut scene, calls(&[append("1.md"), append("2.md"), append("3.md")])).await;
    let gate = Gate::shut();
    let done = ["one", "two", "three"].map(|_| completes("It is written."));
    scene.rig.model.on(ALLOWED, [held(&gate, completes("Lost."))].into_iter().chain(done));
    scene.rig.say("1", "/approve later 1");
    scene.rig.wait_at(&gate).await;
    assert_eq!(scene.rig.next_messages("1", 2).await.len(), 2);
    // It joins the line behind the first.
    let both = replies::will_make_deferred_calls(&["append_file"; 2]);
    assert_eq!(scene.rig.ask("1", "/approve later 2 all").await, both);
    assert!(written(&scene, "1.md").is_some());
    scene.rig.stop_and_start_again().await;
    let heard = scene.rig.next_messages("1", 3).await;
    assert!(heard.iter().all(|text| text.ends_with("It is written.")), "{heard:?}");
    for name in ["1.md", "2.md", "3.md"] {
        assert_eq!(written(&scene, name).as_deref(), Some("tide\n"), "{name}");
    }
    let order = "SELECT json_extract(details, '$.approved.arguments') FROM tasks
                 WHERE kind = 'subagent' ORDER BY id";
    let order = scene.rig.query(order);
    let names = ["1.md", "2.md", "3.md"];
    assert!(order.iter().zip(names).all(|(call, name)| call.contains(name)), "{order:?}");
    scene.rig.finish().await;
}

/// Restores the home from a backup in which a call was not made yet, and begins the daemon, which tells so.
async fn restore_with_a_pending_call(scene: &mut Scene, file: &Path) {
    scene.rig.stop().await;
    let restored = restore(&scene.rig.path(), file, Existing::Replace, Utc::now()).unwrap().pending;
    let listed = "Calls that were not made yet:\n- home:1: append_file";
    assert!(restored.contains(listed), "{restored}");
    scene.rig.start().await;
    let told = scene.rig.next_message("1").await;
    assert!(told.starts_with("I was restored") && told.contains(listed), "{told}");
}

#[tokio::test]
async fn those_that_wait_in_a_backup_are_not_made_again_after_its_restore() {
    let mut scene = scene().await;
    run(&mut scene, calls(&[append("1.md"), append("2.md")])).await;
    let gate = Gate::shut();
    scene.rig.model.on(ALLOWED, [held(&gate, completes("Lost."))]);
    scene.rig.say("1", "/approve later 1 all");
    scene.rig.wait_at(&gate).await;
    let making = replies::making_deferred_calls(&["append_file"; 2]);
    assert_eq!(scene.rig.next_message("1").await, making);
    let file = scene.rig.path().with_file_name("kept.tar.gz");
    archive::write(&scene.rig.path(), &file, Utc::now()).unwrap();
    restore_with_a_pending_call(&mut scene, &file).await;
    assert_eq!(scene.rig.ask("1", "still there?").await, "re: still there?");
    scene.rig.settled().await;
    assert_eq!(written(&scene, "2.md"), None);
    let states = scene.rig.query("SELECT state || ' ' || queued FROM deferred_calls ORDER BY id");
    assert_eq!(states, ["made 0", "denied 0"]);
    assert_eq!(scene.rig.ask("1", "/approve later 2").await, replies::NOT_OPEN_ANY_MORE);
    scene.rig.finish().await;
}

#[tokio::test]
async fn those_that_were_allowed_after_a_backup_are_not_made_again_after_its_restore() {
    let mut scene = scene().await;
    run(&mut scene, calls(&[append("1.md")])).await;
    let file = scene.rig.path().with_file_name("kept.tar.gz");
    archive::write(&scene.rig.path(), &file, Utc::now()).unwrap();
    scene.rig.model.on(ALLOWED, [completes("It is written.")]);
    scene.rig.say("1", "/approve later 1");
    scene.rig.wait_until(|rig| rig.workspace().join("1.md").exists()).await;
    scene.rig.settled().await;
    let heard = scene.rig.unread("1").len();
    scene.rig.next_messages("1", heard).await;
    restore_with_a_pending_call(&mut scene, &file).await;
    press(&scene, OWNER, "1", 0);
    let heard = scene.rig.next_messages("1", 2).await;
    assert!(heard.contains(&replies::NOT_OPEN_ANY_MORE.to_owned()), "{heard:?}");
    assert_eq!(scene.rig.ask("1", "/approve").await, replies::NOTHING_TO_APPROVE);
    scene.rig.settled().await;
    assert_eq!(written(&scene, "1.md"), None);
    scene.rig.finish().await;
}

#[tokio::test]
async fn those_that_wait_go_on_at_each_start() {
    for is_readable in [true, false] {
        let mut scene = scene().await;
        run(&mut scene, calls(&[append("1.md"), append("2.md")])).await;
        let gate = Gate::shut();
        let lost = held(&gate, completes("Lost."));
        let second = is_readable.then(|| completes("It is written."));
        scene.rig.model.on(ALLOWED, [lost].into_iter().chain(second).collect::<Vec<_>>());
        scene.rig.say("1", "/approve later 1 all");
        scene.rig.wait_at(&gate).await;
        scene.rig.next_message("1").await;
        scene.rig.stop().await;
        // The first has ended, and the others were not begun.
        scene.rig.execute(
            "UPDATE tasks SET state = 'stopped', ended = 1 WHERE kind = 'subagent';
             UPDATE turns SET ending = '\"stopped\"', ended = 1 WHERE ending IS NULL;
             UPDATE inbound SET state = 'done', outcome = 'stopped' WHERE state = 'in turn'",
        );
        if !is_readable {
            scene.rig.execute("UPDATE deferred_calls SET sender = 'nobody' WHERE queued = 1");
        }
        scene.rig.start().await;
        let heard = scene.rig.next_message("1").await;
        match is_readable {
            true => assert!(heard.ends_with("It is written."), "{heard}"),
            false => assert_eq!(heard, replies::APPROVED_UNREADABLE),
        }
        assert_eq!(written(&scene, "2.md").is_some(), is_readable);
        let waiting = scene.rig.query("SELECT state FROM deferred_calls WHERE queued = 1");
        assert_eq!(waiting, [""; 0]);
        scene.rig.finish().await;
    }
}

#[tokio::test]
async fn those_that_wait_go_on_after_the_safe_mode() {
    let mut scene = scene().await;
    run(&mut scene, calls(&[append("1.md"), append("2.md"), append("3.md")])).await;
    let gate = Gate::shut();
    let done = ["two", "three"].map(|_| completes("It is written."));
    scene.rig.model.on(ALLOWED, [held(&gate, completes("Lost."))].into_iter().chain(done));
    scene.rig.say("1", "/approve later 1 all");
    scene.rig.wait_at(&gate).await;
    scene.rig.next_message("1").await;
    scene.rig.stop().await;
    // The first has ended, and the others were not begun.
    scene.rig.execute(
        "UPDATE tasks SET state = 'stopped', ended = 1 WHERE kind = 'subagent';
         UPDATE turns SET ending = '\"stopped\"', ended = 1 WHERE ending IS NULL;
         UPDATE inbound SET state = 'done', outcome = 'stopped' WHERE state = 'in turn'",
    );
    scene.rig.start_in_safe_mode().await;
    // Work that people ask for now ends, which makes room for others.
    scene
        .rig
        .model
        .on("go", [calls(&[("spawn", json!({"task": "count the shells"}))]), says("Yes.")]);
    scene.rig.model.on("count the shells", [completes("7 shells")]);
    scene.rig.say("1", "go");
    let heard = scene.rig.next_messages("1", 2).await;
    assert!(heard.iter().any(|text| text.contains("7 shells")), "{heard:?}");
    assert_eq!(scene.rig.ask("1", "hello").await, "re: hello");
    assert_eq!((written(&scene, "2.md"), written(&scene, "3.md")), (None, None));
    scene.rig.stop_and_start_again().await;
    let heard = scene.rig.next_messages("1", 2).await;
    assert!(heard.iter().all(|text| text.ends_with("It is written.")), "{heard:?}");
    assert!(written(&scene, "2.md").is_some() && written(&scene, "3.md").is_some());
    scene.rig.finish().await;
}

#[tokio::test]
async fn who_stops_one_of_them_has_stopped_those_behind_it() {
    let mut scene = scene().await;
    run(&mut scene, calls(&[append("1.md"), append("2.md")])).await;
    let gate = Gate::shut();
    scene.rig.model.on(ALLOWED, [held(&gate, completes("Lost."))]);
    scene.rig.say("1", "/approve later 1 all");
    scene.rig.wait_at(&gate).await;
    let making = replies::making_deferred_calls(&["append_file"; 2]);
    assert_eq!(scene.rig.next_message("1").await, making);
    assert_eq!(scene.rig.ask("1", "/stop").await, replies::STOPPED);
    gate.open();
    scene.rig.wait_for_count("SELECT count(*) FROM deferred_calls WHERE state = 'denied'", 1).await;
    assert_eq!(scene.rig.ask("1", "/approve later 2").await, replies::NOT_OPEN_ANY_MORE);
    assert_eq!(written(&scene, "2.md"), None);
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_would_do_nothing_is_not_reported() {
    let mut scene = scene().await;
    fs::write(scene.rig.workspace().join("tide.md"), "tide\n").unwrap();
    scene.add("1", json!({"when": "20m", "text": TASK})).await;
    let write = calls(&[("write_file", json!({"path": "tide.md", "content": "tide\n"}))]);
    scene.rig.model.on(TASK, [write, completes("It is there already.")]);
    scene.later(21);
    assert_eq!(scene.rig.next_message("1").await, "It is there already.");
    assert!(scene.rig.model.last().transcript().contains("tide.md already reads like that."));
    assert_eq!(scene.rig.ask("1", "/approve").await, replies::NOTHING_TO_APPROVE);
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_crash_in_the_middle_does_not_do_it_twice() {
    let mut scene = scene().await;
    run(&mut scene, calls(&[append("tide.md")])).await;
    let gate = Gate::shut();
    scene.rig.model.on(ALLOWED, [held(&gate, completes("Lost.")), completes("It is written.")]);
    press(&scene, OWNER, "1", 0);
    scene.rig.wait_at(&gate).await;
    scene.rig.stop_and_start_again().await;
    let heard = scene.rig.next_messages("1", 3).await;
    assert!(heard.iter().any(|text| text.ends_with("It is written.")), "{heard:?}");
    assert_eq!(written(&scene, "tide.md").as_deref(), Some("tide\n"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn after_a_day_it_is_not_done_any_more() {
    let mut scene = scene().await;
    run(&mut scene, calls(&[append("tide.md")])).await;
    let valid = scene.rig.query(
        "SELECT CAST((d.expires - c.ended) / 3600000 AS TEXT) FROM deferred_calls d JOIN calls c ON c.id = d.call",
    );
    assert!(["23", "24"].contains(&valid[0].as_str()), "{valid:?}");
    scene.rig.execute("UPDATE deferred_calls SET expires = 1");
    press(&scene, OWNER, "1", 0);
    let heard = scene.rig.next_messages("1", 2).await;
    assert!(heard.contains(&replies::NOT_OPEN_ANY_MORE.to_owned()), "{heard:?}");
    assert_eq!(written(&scene, "tide.md"), None);
    scene.rig.finish().await;
}

#[tokio::test]
async fn of_several_each_has_its_button_and_the_rest_is_offered_again() {
    let mut scene = scene().await;
    let report = run(&mut scene, calls(&[append("1.md"), append("2.md"), append("3.md")])).await;
    for name in ["1.md", "2.md", "3.md"] {
        assert!(report.contains(name), "{report}");
    }
    scene.rig.model.on(ALLOWED, [completes("One.")]);
    press(&scene, OWNER, "1", 1);
    let heard = scene.rig.next_messages("1", 4).await;
    assert!(
        heard.iter().any(|text| text.starts_with("Still open: 1: append_file, 3:")),
        "{heard:?}"
    );
    assert_eq!((written(&scene, "1.md"), written(&scene, "3.md")), (None, None));
    assert!(written(&scene, "2.md").is_some());
    scene.rig.model.on(ALLOWED, [completes("Two."), completes("Three.")]);
    scene.rig.say("1", "/approve later 1 all");
    scene.rig.next_messages("1", 3).await;
    assert!(written(&scene, "1.md").is_some() && written(&scene, "3.md").is_some());
    scene.rig.finish().await;
}

#[tokio::test]
async fn nobody_else_has_it_done() {
    let mut scene = scene().await;
    run(&mut scene, calls(&[append("tide.md")])).await;
    scene.rig.say_as(USER, "2", "/approve later 1");
    assert_eq!(scene.rig.next_message("2").await, replies::NOT_YOURS_TO_APPROVE);
    assert_eq!(written(&scene, "tide.md"), None);
    assert_eq!(scene.rig.ask("1", "/deny later 1").await, replies::denied_call("append_file"));
    assert_eq!(scene.rig.ask("1", "/approve later 1").await, replies::NOT_OPEN_ANY_MORE);
    scene.rig.finish().await;
}

#[tokio::test]
async fn all_calls_of_a_run_are_told_of_once_at_its_end_also_after_a_crash() {
    let mut scene = scene().await;
    scene.add("1", json!({"when": "20m", "text": TASK})).await;
    let gate = Gate::shut();
    let second = || calls(&[append("2.md"), append("1.md")]);
    let steps = [calls(&[append("1.md")]), held(&gate, second()), second()];
    scene.rig.model.on(TASK, steps.into_iter().chain([completes("I could not.")]));
    scene.later(21);
    scene.rig.wait_at(&gate).await;
    assert_eq!(scene.rig.unread("1"), Vec::<String>::new());
    scene.rig.stop_and_start_again().await;
    let heard = scene.rig.next_messages("1", 2).await;
    assert!(heard.contains(&"I could not.".to_owned()), "{heard:?}");
    let report = heard.iter().find(|text| text.starts_with("I did not run")).expect("a report");
    for name in ["1.md", "2.md"] {
        assert_eq!(report.matches(name).count(), 1, "{report}");
    }
    scene.rig.finish().await;
}

#[tokio::test]
async fn calls_of_a_turn_that_cannot_be_read_any_more_are_told_of_too() {
    let mut scene = scene().await;
    scene.add("1", json!({"when": "20m", "text": TASK, "kind": "here"})).await;
    let gate = Gate::shut();
    scene.rig.model.on(TASK, [calls(&[append("tide.md")]), held(&gate, says("Lost."))]);
    scene.later(21);
    scene.rig.wait_at(&gate).await;
    scene.rig.stop().await;
    gate.open();
    scene.rig.execute("UPDATE turns SET sender = 'nobody' WHERE ending IS NULL");
    scene.rig.start().await;
    let heard = scene.rig.next_messages("1", 2).await;
    assert!(heard.contains(&replies::TURN_UNREADABLE.to_owned()), "{heard:?}");
    let report = heard.iter().find(|text| text.starts_with("I did not run")).expect("a report");
    assert!(report.contains("tide.md") && report.contains("/approve later 1"), "{report}");
    scene.rig.model.on(ALLOWED, [completes("It is written.")]);
    press(&scene, OWNER, "1", 0);
    let heard = scene.rig.next_messages("1", 3).await;
    assert!(heard.iter().any(|text| text.ends_with("It is written.")), "{heard:?}");
    assert_eq!(written(&scene, "tide.md").as_deref(), Some("tide\n"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_call_whose_record_cannot_be_read_is_counted() {
    let mut scene = scene().await;
    for (minutes, unreadable) in [(20, "untold = 'nothing'"), (40, "sender = 'nobody'")] {
        scene.add("1", json!({"when": format!("{minutes}m"), "text": TASK})).await;
        let gate = Gate::shut();
        let refused = calls(&[append("1.md"), append("2.md")]);
        scene.rig.model.on(TASK, [refused, held(&gate, completes("I could not."))]);
        scene.later(minutes + 1);
        scene.rig.wait_at(&gate).await;
        let which = if minutes == 20 { "LIKE '%1.md%'" } else { "<> ''" };
        scene.rig.execute(&format!(
            "UPDATE deferred_calls SET {unreadable} WHERE untold IS NOT NULL AND arguments {which}"
        ));
        gate.open();
        let heard = scene.rig.next_messages("1", 2).await;
        assert!(heard.contains(&"I could not.".to_owned()), "{heard:?}");
        match minutes {
            20 => {
                let report = heard.iter().find(|it| it.starts_with("I did not run")).unwrap();
                assert!(report.contains(&replies::more_calls_not_made(1)), "{report}");
                assert!(report.contains("2.md") && !report.contains("1.md"), "{report}");
            }
            _ => assert!(heard.contains(&replies::not_done_unreadable(2)), "{heard:?}"),
        }
    }
    scene.rig.finish().await;
}

#[tokio::test]
async fn who_stops_a_run_is_told_of_no_calls() {
    let mut scene = scene().await;
    scene.add("1", json!({"when": "20m", "text": TASK})).await;
    let gate = Gate::shut();
    scene.rig.model.on(TASK, [calls(&[append("1.md")]), held(&gate, completes("Lost."))]);
    scene.later(21);
    scene.rig.wait_at(&gate).await;
    assert_eq!(scene.rig.ask("1", "/stop").await, replies::STOPPED);
    gate.open();
    scene.rig.wait_for_count("SELECT count(*) FROM deferred_calls WHERE state = 'denied'", 1).await;
    assert_eq!(scene.rig.ask("1", "/approve later 1").await, replies::NOT_OPEN_ANY_MORE);
    scene.rig.finish().await;
}

#[tokio::test]
async fn many_calls_are_shown_in_four_messages_and_the_rest_is_counted() {
    let mut scene = scene().await;
    scene.add("1", json!({"when": "20m", "text": TASK})).await;
    let all: Vec<_> = (1..=26).map(|number| append(&format!("n{number}.md"))).collect();
    let steps = all.chunks(9).map(calls).chain([completes("I could not.")]);
    scene.rig.model.on(TASK, steps);
    scene.later(21);
    let heard = scene.rig.next_messages("1", 5).await;
    let reports: Vec<_> = heard.iter().filter(|it| it.starts_with("I did not run")).collect();
    assert_eq!(reports.len(), 4, "{heard:?}");
    for (at, report) in reports.iter().enumerate() {
        for number in 1..=26 {
            let is_shown = (number - 1) / 6 == at;
            assert_eq!(report.contains(&format!("n{number}.md")), is_shown, "{number}: {report}");
        }
        let counts = report.contains(&replies::more_calls_not_made(2));
        assert_eq!(counts, at == 3, "{report}");
    }
    // Each message has its own calls.
    let buttons = scene
        .rig
        .home
        .got()
        .borrow()
        .iter()
        .rev()
        .find(|it| !it.choices.is_empty())
        .map(|it| it.choices.len());
    assert_eq!(buttons, Some(8));
    assert_eq!(scene.rig.ask("1", "/approve later 25").await, replies::NOT_OPEN_ANY_MORE);
    let denied = replies::denied_call(&["append_file"; 6].join(", "));
    assert_eq!(scene.rig.ask("1", "/deny later 24 all").await, denied);
    scene.rig.model.on(ALLOWED, [completes("It is written.")]);
    scene.rig.say("1", "/approve later 13");
    let heard = scene.rig.next_messages("1", 3).await;
    assert!(heard.iter().any(|text| text.starts_with("Still open: 14: append_file")), "{heard:?}");
    assert!(written(&scene, "n13.md").is_some());
    scene.rig.finish().await;
}

#[tokio::test]
async fn each_person_decides_about_their_own_folder() {
    let mut scene = Scene::of(RigOptions::default()).await;
    let shared = scene.rig.path().join("shared");
    fs::create_dir_all(&shared).unwrap();
    fs::write(shared.join("page.txt"), "Write it down.").unwrap();
    let job = json!({"when": "20m", "text": TASK});
    scene.rig.model.on("later", [schedules(job), says("I will.")]);
    scene.rig.say_as(USER, "2", "later");
    assert_eq!(scene.rig.next_message("2").await, "I will.");
    let reads = calls(&[("read_file", json!({"path": "shared/page.txt"}))]);
    let steps = [reads, calls(&[append("tide.md")]), completes("I could not write it.")];
    scene.rig.model.on(TASK, steps);
    scene.later(21);
    let heard = scene.rig.next_messages("2", 2).await;
    assert!(heard.iter().any(|text| text.contains("/approve later 1")), "{heard:?}");
    // It is nobody else's.
    assert_eq!(scene.rig.ask("1", "/approve").await, replies::NOTHING_TO_APPROVE);
    assert_eq!(scene.rig.ask("1", "/approve later 1").await, replies::NOT_OPEN_ANY_MORE);
    scene.rig.say_as(OTHER_USER, "3", "/approve later 1");
    assert_eq!(scene.rig.next_message("3").await, replies::NOT_YOURS_TO_APPROVE);
    scene.rig.model.on(ALLOWED, [completes("It is written.")]);
    press(&scene, USER, "2", 0);
    let heard = scene.rig.next_messages("2", 3).await;
    assert!(heard.iter().any(|text| text.ends_with("It is written.")), "{heard:?}");
    let own = scene.rig.path().join(scene.rig.files_of(USER).root().unwrap());
    assert_eq!(fs::read_to_string(own.join("tide.md")).unwrap(), "tide\n");
    scene.rig.finish().await;
}

#[tokio::test]
async fn calls_of_six_reports_are_made_at_once_and_another_waits() {
    let mut scene = scene().await;
    for number in 1..=7 {
        let minutes = 20 * number;
        scene.add("1", json!({"when": format!("{minutes}m"), "text": TASK})).await;
        let refused = calls(&[append(&format!("{number}.md"))]);
        scene.rig.model.on(TASK, [refused, completes("I could not write it.")]);
        scene.later(minutes + 1);
        scene.rig.next_messages("1", 2).await;
    }
    let gate = Gate::shut();
    let six = (1..=6).map(|_| held(&gate, completes("It is written.")));
    scene.rig.model.on(ALLOWED, six.chain([completes("It is written.")]));
    let making = replies::making_deferred_calls(&["append_file"]);
    for number in 1..=6 {
        assert_eq!(scene.rig.ask("1", &format!("/approve later {number}")).await, making);
    }
    scene.rig.wait_at_times(&gate, 6).await;
    let waits = replies::will_make_deferred_calls(&["append_file"]);
    assert_eq!(scene.rig.ask("1", "/approve later 7").await, waits);
    assert_eq!(written(&scene, "7.md"), None);
    gate.open();
    scene.rig.next_messages("1", 7).await;
    assert!((1..=7).all(|number| written(&scene, &format!("{number}.md")).is_some()));
    scene.rig.finish().await;
}

#[tokio::test]
async fn an_admins_own_call_is_not_the_owners() {
    let mut parts = RigOptions::default();
    parts.access.admins = vec![OTHER_USER.to_owned()];
    let mut scene = Scene::of(parts).await;
    let shared = scene.rig.path().join("shared");
    fs::create_dir_all(&shared).unwrap();
    fs::write(shared.join("page.txt"), "Tell everybody.").unwrap();
    scene.rig.model.on("later", [schedules(json!({"when": "20m", "text": TASK})), says("I will.")]);
    scene.rig.say_as(OTHER_USER, "3", "later");
    assert_eq!(scene.rig.next_message("3").await, "I will.");
    let reads = calls(&[("read_file", json!({"path": "shared/page.txt"}))]);
    let tells = calls(&[("message", json!({"to": "home:2", "text": "a private matter"}))]);
    scene.rig.model.on(TASK, [reads, tells, completes("I could not.")]);
    scene.later(21);
    let heard = scene.rig.next_messages("3", 2).await;
    assert!(heard.iter().any(|text| text.contains("/approve later 1")), "{heard:?}");
    assert_eq!(scene.rig.ask("1", "/approve later 1").await, replies::NOT_OPEN_ANY_MORE);
    scene.rig.say_as(OTHER_USER, "3", "/deny later 1");
    assert_eq!(scene.rig.next_message("3").await, replies::denied_call("message"));
    scene.rig.finish().await;
}

#[tokio::test]
async fn nothing_is_done_later_for_somebody_without_access() {
    for is_blocked in [true, false] {
        let mut parts = parts();
        parts.access.allow.clear();
        if !is_blocked {
            parts.access.admins = vec![OTHER_USER.to_owned()];
        }
        let mut scene = Scene::of(parts).await;
        scene.rig.ask("1", "hello").await;
        if is_blocked {
            // The config names nobody who can be blocked.
            scene.rig.execute(&format!(
                "INSERT INTO people (channel, sender, name, role, since)
                 VALUES ('home', '{OTHER_USER}', 'Person 9', '\"admin\"', 1)"
            ));
        }
        let job = schedules(json!({"when": "20m", "text": TASK}));
        scene.rig.model.on("later", [job, says("I will.")]);
        scene.rig.say_as(OTHER_USER, "3", "later");
        assert_eq!(scene.rig.next_message("3").await, "I will.");
        let both = calls(&[append("1.md"), append("2.md")]);
        scene.rig.model.on(TASK, [both, completes("I could not.")]);
        scene.later(21);
        let heard = scene.rig.next_messages("3", 2).await;
        assert!(heard.iter().any(|text| text.contains("/approve later NUMBER")), "{heard:?}");
        let expected = match is_blocked {
            true => {
                let sql =
                    format!("SELECT 'p' || person FROM accounts WHERE sender = '{OTHER_USER}'");
                let order = format!("/people block {}", scene.rig.query(&sql).remove(0));
                let blocked = replies::person_is_blocked("Person 9");
                assert_eq!(scene.rig.ask("1", &order).await, blocked);
                replies::NOT_OPEN_ANY_MORE
            }
            false => {
                scene.rig.stop().await;
                scene.rig.parts.access.admins.clear();
                scene.rig.start().await;
                replies::CALL_WITHOUT_ACCESS
            }
        };
        assert_eq!(scene.rig.ask("1", "/approve later 1").await, expected);
        assert_eq!(scene.rig.query("SELECT state FROM deferred_calls"), ["denied"; 2]);
        assert_eq!(scene.rig.ask("1", "/approve").await, replies::NOTHING_TO_APPROVE);
        assert_eq!(scene.rig.query("SELECT kind FROM tasks WHERE kind <> 'job'"), [""; 0]);
        scene.rig.finish().await;
    }
}
