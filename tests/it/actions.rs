//! What was done is on record, and a change of a file can be turned back: by the model, by people, and
//! from the command line.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use peacrab::config::AgentConfig;
use peacrab::conversation::actions::{BeforeImages, UndoLimits};
use peacrab::replies;
use peacrab::tools::{AnyTool, ToolSet, files, plan, undo};
use peacrab::workspace::Hash;
use serde_json::json;

use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, USER};
use crate::support::script::{Gate, calls, says};
use crate::support::tools::{HangingTool, LookingTool};

/// Has a file written, by whoever says so.
async fn write(rig: &mut Rig, who: &str, chat: &str, (path, content): (&str, &str)) {
    let words = format!("write {content} to {path}");
    let args = json!({ "path": path, "content": content });
    rig.model.on(&words, [calls(&[("write_file", args)]), says("written")]);
    rig.say_as(who, chat, &words);
    assert_eq!(rig.next_message(chat).await, "written");
}

fn text(rig: &Rig, path: &str) -> Option<String> {
    fs::read_to_string(rig.workspace().join(path)).ok()
}

#[tokio::test]
async fn refuses_wrong_calls_before_any_call_of_the_step_begins() {
    let gate = Gate::shut();
    let hang = Arc::new(HangingTool(gate.clone())) as Arc<dyn AnyTool>;
    let tools = ToolSet::new([hang, Arc::new(files::WriteFile)]);
    let mut rig = Rig::of(RigOptions { tools, ..RigOptions::default() }).await;
    let wrong = json!({ "path": "../outside", "content": "x" });
    let step =
        [("hang", json!({})), ("write_file", json!({})), ("write_file", wrong), ("no", json!({}))];
    rig.model.on("go", [calls(&step), says("done")]);
    rig.say("1", "go");
    rig.wait_at(&gate).await;
    assert_eq!(
        rig.query("SELECT state FROM calls ORDER BY id"),
        ["planned", "failed", "failed", "failed"]
    );
    let told = rig.query("SELECT output FROM calls WHERE state = 'failed' ORDER BY id");
    assert!(told[0].contains("`path` is missing"), "{told:?}");
    assert!(told[1].contains("climbs with `..`"), "{told:?}");
    assert_eq!(told[2], "There is no tool `no`.");
    gate.open();
    assert_eq!(rig.next_message("1").await, "done");
    rig.finish().await;
}

#[tokio::test]
async fn looks_at_four_things_at_once_and_keeps_their_order() {
    let gate = Gate::shut();
    let look = Arc::new(LookingTool(gate.clone())) as Arc<dyn AnyTool>;
    let tools = ToolSet::new([look, Arc::new(files::WriteFile), Arc::new(files::ReadFile)]);
    let mut rig = Rig::of(RigOptions { tools, ..RigOptions::default() }).await;
    let look = ("look", json!({}));
    let step = [
        look.clone(),
        look.clone(),
        look.clone(),
        look.clone(),
        look.clone(),
        ("write_file", json!({ "path": "a.md", "content": "a" })),
        ("read_file", json!({ "path": "a.md" })),
    ];
    rig.model.on("go", [calls(&step), says("done")]);
    rig.say("1", "go");
    rig.wait_at_times(&gate, 4).await;
    assert_eq!(rig.query("SELECT state FROM calls WHERE state <> 'planned'").len(), 0);
    gate.open();
    assert_eq!(rig.next_message("1").await, "done");
    let asked = rig.model.last();
    let results: Vec<_> =
        asked.messages.iter().filter(|line| line.starts_with("result: ")).collect();
    assert_eq!(results[..5], ["result: looked"; 5]);
    assert_eq!(results[6], "result: a");
    rig.finish().await;
}

#[tokio::test]
async fn an_action_says_who_did_what_and_how_long_it_took() {
    let mut rig = Rig::new().await;
    write(&mut rig, OWNER, "1", ("a.md", "one")).await;
    let list = [calls(&[("list_actions", json!({ "tool": "write_file" }))]), says("listed")];
    rig.model.on("what did you do", list);
    rig.ask("1", "what did you do").await;
    let told = rig.model.last().messages.pop().unwrap();
    assert!(told.contains("write_file {\"path\":\"a.md\""), "{told}");
    assert!(told.contains("→ Made a.md"), "{told}");
    let actions = rig.ask("1", "/actions").await;
    let lines: Vec<_> = actions.lines().collect();
    assert_eq!(lines.len(), 2, "{actions}");
    assert!(lines[0].starts_with("2 · ") && lines[0].contains("list_actions"), "{actions}");
    assert!(lines[1].starts_with("1 · ") && lines[1].contains(" ms · Person 7"), "{actions}");
    assert!(lines[1].ends_with("can be undone"), "{actions}");
    assert_eq!(rig.ask("1", "/actions 1").await.lines().count(), 1);
    assert_eq!(rig.ask("1", "/actions x").await, replies::ACTIONS_USAGE);
    let took = "SELECT tool FROM calls WHERE started IS NULL OR ended < started";
    assert!(rig.query(took).is_empty());
    rig.finish().await;
}

#[tokio::test]
async fn others_see_the_actions_of_their_own_conversation_only() {
    let mut rig = Rig::new().await;
    write(&mut rig, OWNER, "1", ("a.md", "one")).await;
    write(&mut rig, USER, "2", ("b.md", "two")).await;
    rig.say_as(USER, "2", "/actions");
    let told = rig.next_message("2").await;
    assert!(told.contains("b.md") && !told.contains("a.md"), "{told}");
    rig.say_as(USER, "2", "/undo 1");
    assert_eq!(rig.next_message("2").await, replies::no_such_action(1));
    rig.say_as(OTHER_USER, "3", "/undo");
    assert_eq!(rig.next_message("3").await, replies::NOTHING_TO_UNDO);
    // The owner in private sees that all was done, and of others' private conversations not what.
    let told = rig.ask("1", "/actions").await;
    assert!(told.contains("a.md") && !told.contains("b.md"), "{told}");
    assert!(told.contains("write_file") && told.contains("Person 8"), "{told}");
    // But people undo their own.
    assert!(!rig.ask("1", "/undo 2").await.starts_with("Undone"));
    rig.say_as(USER, "2", "/undo");
    assert!(rig.next_message("2").await.starts_with("Undone"));
    // In a group it is one's own.
    write(&mut rig, USER, "-1", ("c.md", "three")).await;
    rig.say_as(OTHER_USER, "-1", "/undo");
    assert_eq!(rig.next_message("-1").await, replies::NOTHING_TO_UNDO);
    rig.say_as(USER, "-1", "/undo");
    assert!(rig.next_message("-1").await.starts_with("Undone"));
    assert_eq!(text(&rig, "c.md"), None);
    rig.finish().await;
}

#[tokio::test]
async fn what_somebody_else_did_for_a_conversation_does_not_hide_ones_own() {
    let mut rig = Rig::new().await;
    write(&mut rig, USER, "2", ("b.md", "two")).await;
    write(&mut rig, USER, "2", ("c.md", "three")).await;
    // The last change is that of the owner's job, which reports here.
    rig.execute(
        "UPDATE turns SET sender = '{\"id\":\"7\",\"name\":\"Person 7\"}' WHERE id = (SELECT max(id) FROM turns)",
    );
    rig.say_as(USER, "2", "/actions 1");
    let told = rig.next_message("2").await;
    assert!(told.contains("b.md") && !told.contains("c.md"), "{told}");
    rig.say_as(USER, "2", "/undo");
    let told = rig.next_message("2").await;
    assert!(told.starts_with("Undone") && told.contains("b.md"), "{told}");
    rig.say_as(USER, "2", "/undo");
    assert_eq!(rig.next_message("2").await, replies::NOTHING_TO_UNDO);
    rig.finish().await;
}

#[tokio::test]
async fn in_a_new_conversation_the_command_names_what_undoes_an_earlier_change() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "/undo").await, replies::NOTHING_TO_UNDO);
    write(&mut rig, OWNER, "1", ("a.md", "one")).await;
    rig.ask("1", "/new").await;
    assert_eq!(rig.ask("1", "/undo").await, replies::NOTHING_TO_UNDO_BUT_EARLIER);
    assert_eq!(text(&rig, "a.md").as_deref(), Some("one"));
    // The actions of earlier conversations are not other people's to undo.
    rig.say_as(USER, "2", "/undo");
    assert_eq!(rig.next_message("2").await, replies::NOTHING_TO_UNDO);
    assert_eq!(rig.ask("1", "/undo 1").await, replies::undone(1, "write_file", "a.md"));
    assert_eq!(text(&rig, "a.md"), None);
    rig.finish().await;
}

#[tokio::test]
async fn undoes_the_last_change_and_the_one_before_and_undoes_that_again() {
    let mut rig = Rig::new().await;
    write(&mut rig, OWNER, "1", ("a.md", "one")).await;
    write(&mut rig, OWNER, "1", ("a.md", "two")).await;
    let blobs = fs::read_dir(rig.path().join("undo")).unwrap();
    for blob in blobs.map(Result::unwrap) {
        assert_eq!(blob.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(rig.ask("1", "/undo").await, replies::undone(2, "write_file", "a.md"));
    assert_eq!(text(&rig, "a.md").as_deref(), Some("one"));
    assert_eq!(rig.ask("1", "/undo 2").await, replies::already_undone(2));
    assert_eq!(rig.ask("1", "/undo").await, replies::undone(1, "write_file", "a.md"));
    assert_eq!(text(&rig, "a.md"), None);
    assert_eq!(rig.ask("1", "/undo").await, replies::NOTHING_TO_UNDO);
    // Actions 3 and 4 are the two undos.
    assert_eq!(rig.ask("1", "/undo 4").await, replies::undone(4, "undo", "a.md"));
    assert_eq!(text(&rig, "a.md").as_deref(), Some("one"));
    assert_eq!(rig.ask("1", "/undo #3").await, replies::undone(3, "undo", "a.md"));
    assert_eq!(text(&rig, "a.md").as_deref(), Some("two"));
    // And the change itself can be undone anew, by the model this time.
    rig.model.on("undo it", [calls(&[("undo", json!({}))]), says("undone")]);
    rig.ask("1", "undo it").await;
    assert_eq!(text(&rig, "a.md").as_deref(), Some("one"));
    let undone = "SELECT tool || id FROM calls WHERE undone IS NOT NULL ORDER BY id";
    assert_eq!(rig.query(undone), ["write_file2", "undo3", "undo4"]);
    assert_eq!(rig.ask("1", "/undo x").await, replies::UNDO_USAGE);
    rig.finish().await;
}

#[tokio::test]
async fn says_how_a_file_differs_that_was_changed_since() {
    let mut rig = Rig::new().await;
    write(&mut rig, OWNER, "1", ("a.md", "one\n")).await;
    write(&mut rig, OWNER, "1", ("a.md", "one\ntwo\n")).await;
    fs::write(rig.workspace().join("a.md"), "one\ntwo\nby hand\n").unwrap();
    let words = rig.ask("1", "/undo").await;
    assert!(words.starts_with("Not undone: a.md has changed since then."), "{words}");
    assert!(words.contains("- added: by hand"), "{words}");
    assert_eq!(text(&rig, "a.md").as_deref(), Some("one\ntwo\nby hand\n"));
    rig.model.on("undo it", [calls(&[("undo", json!({ "id": 2 }))]), says("could not")]);
    rig.ask("1", "undo it").await;
    assert!(rig.model.last().transcript().contains("- added: by hand"));
    rig.finish().await;
}

#[tokio::test]
async fn a_memory_is_forgotten_again_and_only_for_the_owner() {
    let mut rig = Rig::new().await;
    let before = text(&rig, "memory/MEMORY.md");
    rig.model.on("tea", [calls(&[("remember", json!({ "text": "likes tea" }))]), says("ok")]);
    rig.ask("1", "I like tea").await;
    assert!(text(&rig, "memory/MEMORY.md").unwrap().contains("likes tea"));
    // The owner in a group is not alone.
    rig.say("-1", "/undo 1");
    assert_eq!(rig.next_message("-1").await, replies::no_such_action(1));
    assert!(rig.ask("1", "/undo").await.starts_with("Undone"));
    assert_eq!(text(&rig, "memory/MEMORY.md"), before);
    rig.finish().await;
}

#[tokio::test]
async fn what_files_were_is_kept_as_long_as_something_refers_to_it() {
    let mut rig = Rig::new().await;
    write(&mut rig, OWNER, "1", ("a.md", "one")).await;
    write(&mut rig, OWNER, "1", ("a.md", "two")).await;
    let folder = rig.path().join("undo");
    fs::write(folder.join("0".repeat(64)), "left by a crash").unwrap();
    rig.stop_and_start_again().await;
    rig.wait_until(|_| fs::read_dir(&folder).unwrap().count() == 1).await;
    // Nobody can put anything else in its place.
    let blob = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    fs::write(&blob, "something else").unwrap();
    assert_eq!(rig.ask("1", "/undo").await, replies::old_content_gone("a.md"));
    // Old actions of closed conversations are forgotten, and with them what the files were.
    rig.ask("1", "/new").await;
    rig.execute("UPDATE calls SET ended = 1");
    rig.stop_and_start_again().await;
    rig.wait_until(|_| fs::read_dir(&folder).unwrap().count() == 0).await;
    assert_eq!(rig.ask("1", "/actions").await, replies::NO_ACTIONS);
    rig.finish().await;
}

#[tokio::test]
async fn a_plan_is_shown_late_in_the_prompt_until_it_is_done() {
    let tools = ToolSet::new([Arc::new(plan::KeepPlan) as Arc<dyn AnyTool>, Arc::new(undo::Undo)]);
    let mut rig = Rig::of(RigOptions { tools, ..RigOptions::default() }).await;
    assert_eq!(rig.ask("1", "/plan").await, replies::NO_PLAN);
    let items = |state: &str| {
        json!({ "items": [
        { "text": "buy\nflour", "state": "done" }, { "text": "bake", "state": state }] })
    };
    rig.model.on("a cake", [calls(&[("plan", items("doing"))]), says("planned")]);
    rig.ask("1", "a cake please").await;
    rig.ask("1", "go on").await;
    let tail = rig.model.last().messages.pop().unwrap();
    assert!(tail.ends_with("with `plan`:\n- [x] buy flour\n- [>] bake]"), "{tail}");
    rig.stop_and_start_again().await;
    assert_eq!(rig.ask("1", "/plan").await, "- [x] buy flour\n- [>] bake");
    rig.model.on("baked", [calls(&[("plan", items("done"))]), says("well done")]);
    rig.ask("1", "it is baked").await;
    rig.ask("1", "what now").await;
    assert!(!rig.model.last().messages.pop().unwrap().contains("bake]"));
    rig.ask("1", "/new").await;
    assert_eq!(rig.ask("1", "/plan").await, replies::NO_PLAN);
    rig.finish().await;
}

#[test]
fn former_contents_stay_for_30_days_and_within_their_space() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let documented = UndoLimits { age_max: 30 * DAY, bytes_max: 200_000_000 };
    assert_eq!(UndoLimits::default(), documented);
    // Each of these is as long as the others.
    let all = ["one of 29 days", "two of 29 days", "one of 31 days"];
    let hashes = all.map(|contents| Hash::of(contents.as_bytes()));
    let wanted: HashSet<String> = hashes.iter().map(ToString::to_string).collect();
    let bytes = all[0].len() as u64;
    for (bytes_max, left) in [(200_000_000, vec![0, 1]), (2 * bytes, vec![0, 1]), (bytes, vec![1])]
    {
        let home = tempfile::tempdir().unwrap();
        let limits = UndoLimits { bytes_max, ..UndoLimits::default() };
        let images = BeforeImages::open_within(home.path(), limits).unwrap();
        for ((contents, hash), age) in
            all.iter().zip(&hashes).zip([29 * DAY + DAY / 2, 29 * DAY, 31 * DAY])
        {
            images.put(hash, contents.as_bytes()).unwrap();
            let file = home.path().join("undo").join(hash.as_str());
            let file = fs::File::options().append(true).open(file).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        images.sweep(&wanted, Duration::ZERO).unwrap();
        let found = (0..3).filter(|at| images.get(&hashes[*at]).is_some());
        assert_eq!(found.collect::<Vec<_>>(), left, "{bytes_max}");
    }
}

#[test]
fn several_blobs_are_kept_together_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let images = BeforeImages::open(home.path()).unwrap();
    let hash = Hash::of(b"one");
    let put = || {
        let mut several = images.several();
        for contents in ["one", "one", "two"] {
            several.put(&Hash::of(contents.as_bytes()), contents.as_bytes()).unwrap();
        }
        several
    };
    drop(put());
    assert_eq!(std::fs::read_dir(home.path().join("undo")).unwrap().count(), 0);
    let several = put();
    assert_eq!(images.get(&hash), None);
    several.finish().unwrap();
    assert_eq!(images.get(&hash).unwrap(), b"one");
    put().finish().unwrap();
    assert_eq!(std::fs::read_dir(home.path().join("undo")).unwrap().count(), 2);
}

#[tokio::test]
async fn the_times_of_actions_are_those_of_the_owners_clock() {
    // No machine of a test is there.
    let zone = chrono_tz::Pacific::Kiritimati;
    let agent = AgentConfig { timezone: Some(zone), ..AgentConfig::default() };
    let mut rig = Rig::of(RigOptions { agent, ..RigOptions::default() }).await;
    write(&mut rig, OWNER, "1", ("a.md", "one")).await;
    let actions = rig.ask("1", "/actions").await;
    let started: i64 = rig.query("SELECT started || '' FROM calls")[0].parse().unwrap();
    let started = DateTime::from_timestamp_millis(started).unwrap();
    let now = Utc::now().with_timezone(&zone);
    let shown = format!("1 · {} · write_file", replies::time_relative_to(now, started));
    assert!(actions.starts_with(&shown), "{actions}");
    let list = [calls(&[("list_actions", json!({}))]), says("listed")];
    rig.model.on("what did you do", list);
    rig.ask("1", "what did you do").await;
    let told = rig.model.last().messages.pop().unwrap();
    assert!(told.contains(&shown), "{told}");
    rig.finish().await;
}
