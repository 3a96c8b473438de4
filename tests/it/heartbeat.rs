//! The heartbeat: what it looks after, whom it tells, and what it costs when there is nothing to do.

mod others;
mod reading;
mod trouble;

use std::fs;
use std::sync::Arc;
use std::time::Duration as Pause;

use chrono::{DateTime, Duration, Timelike, Utc};
use peacrab::backup::archive;
use peacrab::backup::restore::{Existing, restore};
use peacrab::config::AgentConfig;
use peacrab::provider::models::{Model, Models, Standing};
use peacrab::replies;
use peacrab::tasks::heartbeat::{Config, QuietHours};
use peacrab::tasks::schedule::Clock;
use peacrab::types::source::{self, Source};
use serde_json::json;
use tokio::sync::watch;

use crate::support::rig::{Rig, RigOptions, USER};
use crate::support::script::{Gate, Reply, ScriptedModel, calls, held, says};

const WATCH: &str = "- [ ] Is the tide high?";

/// A rig whose clock a test sets, and whose heartbeat runs each half hour, also at night.
struct Scene {
    rig: Rig,
    hands: watch::Sender<DateTime<Utc>>,
    begun: DateTime<Utc>,
}

fn by_day() -> Config {
    Config { quiet: None, ..Config::default() }
}

fn agent(heartbeat: Config) -> AgentConfig {
    AgentConfig { heartbeat, timezone: Some(chrono_tz::UTC), ..AgentConfig::default() }
}

impl Scene {
    async fn new() -> Self {
        Self::of(by_day(), RigOptions::default()).await
    }

    /// The owner has spoken in chat 1, and has something looked after.
    async fn of(config: Config, parts: RigOptions) -> Self {
        let begun = Utc::now();
        let (hands, clock) = watch::channel(begun);
        let agent = AgentConfig { asking: parts.agent.asking.clone(), ..agent(config) };
        let parts = RigOptions { clock: Clock::with_hands(clock), agent, ..parts };
        let mut rig = Rig::of(parts).await;
        rig.ask("1", "hello").await;
        let scene = Self { rig, hands, begun };
        scene.watches(WATCH);
        scene
    }

    fn watches(&self, text: &str) {
        fs::write(self.rig.workspace().join("HEARTBEAT.md"), text).unwrap();
    }

    /// Sets the clock to so long after the beginning, and waits until the heart has looked.
    async fn at(&self, minutes: i64) {
        let to = self.begun + Duration::minutes(minutes);
        self.hands.send_replace(to);
        let mut next = self.rig.heart.as_ref().unwrap().next.subscribe();
        let looked = next.wait_for(|next| next.is_some_and(|next| next > to));
        tokio::time::timeout(Pause::from_secs(30), looked).await.expect("it looks").unwrap();
    }

    /// The same where the heartbeat does not run by itself.
    async fn off_at(&self, minutes: i64) {
        self.hands.send_replace(self.begun + Duration::minutes(minutes));
        let mut next = self.rig.heart.as_ref().unwrap().next.subscribe();
        next.wait_for(Option::is_none).await.unwrap();
    }

    fn beats(&self) -> Vec<String> {
        self.rig.query("SELECT state FROM tasks WHERE kind = 'heartbeat' ORDER BY id")
    }

    async fn ended(&mut self, beats: i64) {
        self.rig
            .wait_for_count(
                "SELECT count(*) FROM tasks WHERE kind = 'heartbeat' AND state <> 'running'",
                beats,
            )
            .await;
    }
}

fn tells(text: &str) -> Reply {
    calls(&[("converse", json!({"text": text}))])
}

fn is_silent() -> Reply {
    calls(&[("task_completion", json!({"result": "The tide is low, nothing to tell."}))])
}

#[tokio::test]
async fn it_tells_the_owner_what_the_file_asks_for_and_their_conversation_knows() {
    let mut scene = Scene::new().await;
    scene.rig.ask("1", "we like crabs").await;
    scene.rig.model.on("Is the tide high?", [tells("1. High tide. 2. A storm comes.")]);
    scene.at(31).await;
    assert_eq!(scene.rig.next_message("1").await, "1. High tide. 2. A storm comes.");
    let asked = scene.rig.model.last();
    let told = asked.transcript();
    assert!(asked.system.join("\n").contains("you look after what your owner has written"));
    assert!(told.contains("· heartbeat for 7 (owner) · home, private]\nHEARTBEAT.md:"), "{told}");
    assert!(!told.contains("crabs"), "no history: {told}");
    for tool in ["schedule", "spawn", "subagent", "propose", "ask_question"] {
        assert!(!asked.has_tool(tool), "{tool}");
    }
    assert!(asked.has_tool("converse"));
    let silent = asked.tools.iter().find(|tool| tool.name == "task_completion").unwrap();
    assert_eq!(silent.description, "Call this when there is nothing to tell.");
    scene.rig.ask("1", "do the second one").await;
    let told = scene.rig.model.last().transcript();
    assert!(told.contains("user: [Your heartbeat looked after HEARTBEAT.md;"), "{told}");
    assert!(told.contains("assistant: 1. High tide. 2. A storm comes."), "{told}");
    assert_eq!(scene.beats(), ["done"]);
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_month_with_nothing_to_do_calls_no_model_and_writes_nothing() {
    let scene = Scene::new().await;
    let (calls, template) =
        (scene.rig.model.asked().len(), include_str!("../../workspace-template/HEARTBEAT.md"));
    let commits = || scene.rig.query("SELECT count(*) || '' FROM sessions");
    let before = commits();
    for (day, text) in
        (0..30).zip([template, "# Later\n\n- [ ]\n", "", "<!-- - a thing -->"].iter().cycle())
    {
        scene.watches(text);
        for heartbeat_run in 1..=48 {
            scene.at(day * 24 * 60 + heartbeat_run * 30).await;
        }
    }
    fs::remove_file(scene.rig.workspace().join("HEARTBEAT.md")).unwrap();
    scene.at(31 * 24 * 60).await;
    assert_eq!(scene.rig.model.asked().len(), calls);
    assert_eq!((scene.beats(), commits()), (Vec::new(), before));
    scene.rig.finish().await;
}

#[tokio::test]
async fn silence_is_silent_however_a_model_puts_it() {
    let mut scene = Scene::new().await;
    let silences = [is_silent(), tells("NO_REPLY"), tells("HEARTBEAT_OK"), says("NO_REPLY")];
    let more = [says("**HEARTBEAT_OK** All is clear."), tells("All is clear.\n\nHEARTBEAT_OK.")];
    let all = silences.into_iter().chain(more).collect::<Vec<_>>();
    let beats = i64::try_from(all.len()).unwrap();
    scene.rig.model.on("Is the tide high?", all);
    for heartbeat_run in 1..=beats {
        scene.at(heartbeat_run * 31).await;
        scene.ended(heartbeat_run).await;
    }
    assert!(scene.beats().iter().all(|state| state == "silent"), "{:?}", scene.beats());
    assert_eq!(scene.rig.unread("1"), Vec::<String>::new());
    let shown = scene.rig.ask("1", "/heartbeat").await;
    assert!(shown.contains("Last 24 hours: 6 silent."), "{shown}");
    scene.rig.finish().await;
}

#[tokio::test]
async fn the_same_alert_is_told_once_in_a_day() {
    let mut scene = Scene::new().await;
    let alert = || tells("The tide  is high.\n");
    scene
        .rig
        .model
        .on("Is the tide high?", [alert(), alert(), tells("It falls."), alert(), alert()]);
    for (heartbeat_run, at) in (1..).zip([31, 62, 93, 124, 31 + 24 * 60 + 2]) {
        scene.at(at).await;
        scene.ended(heartbeat_run).await;
    }
    assert_eq!(scene.beats(), ["done", "repeated", "done", "repeated", "done"]);
    let high = "The tide  is high.";
    assert_eq!(scene.rig.next_messages("1", 3).await, [high, "It falls.", high]);
    // It is told of what it told, so that it need not repeat itself in other words.
    let told = scene.rig.model.asked().remove(2).transcript();
    assert!(told.contains("What you have told them lately:\n- The tide is high."), "{told}");
    scene.rig.finish().await;
}

#[tokio::test]
async fn it_waits_while_the_owners_conversation_is_in_a_turn() {
    let mut scene = Scene::new().await;
    let gate = Gate::shut();
    scene.rig.model.on("busy", [held(&gate, says("Done."))]);
    scene.rig.say("1", "busy");
    scene.rig.wait_at(&gate).await;
    scene.at(31).await;
    scene.at(32).await;
    assert_eq!(scene.beats(), Vec::<String>::new());
    gate.open();
    assert_eq!(scene.rig.next_message("1").await, "Done.");
    scene.rig.model.on("Is the tide high?", [is_silent()]);
    // A minute later, not half an hour.
    scene.at(34).await;
    scene.ended(1).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn it_is_quiet_in_quiet_hours_and_looks_when_they_end() {
    let begun = Utc::now();
    let clock = |minutes: i64| (begun + Duration::minutes(minutes)).format("%H:%M").to_string();
    let quiet: QuietHours = format!("{}-{}", clock(20), clock(200)).parse().unwrap();
    let config = Config { quiet: Some(quiet), ..Config::default() };
    let mut scene = Scene::of(config, RigOptions::default()).await;
    for minutes in [31, 62, 93, 124, 155, 186, 199] {
        scene.at(minutes - 1).await;
    }
    assert_eq!(scene.beats(), Vec::<String>::new());
    scene.rig.model.on("Is the tide high?", [is_silent()]);
    scene.at(201).await;
    scene.ended(1).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn when_the_days_tokens_are_spent_it_rests_until_the_next_day() {
    let mut scene = Scene::of(Config { tokens_max: 20, ..by_day() }, RigOptions::default()).await;
    // Tokens are written down by the real clock.
    let usage = |text: &str| says(text);
    scene.rig.model.on("Is the tide high?", [usage("NO_REPLY"), usage("NO_REPLY"), is_silent()]);
    for (heartbeat_run, at) in [(1, 31), (2, 62)] {
        scene.at(at).await;
        scene.ended(heartbeat_run).await;
    }
    let to_midnight = 24 * 60 - i64::from(scene.begun.hour() * 60 + scene.begun.minute());
    for at in [93, 124] {
        if at < to_midnight {
            scene.at(at).await;
            assert_eq!(scene.beats().len(), 2);
            assert_eq!(scene.rig.ask("1", "/heartbeat now").await, replies::HEARTBEAT_OVER_BUDGET);
        }
    }
    scene.at(to_midnight.max(93) + 31).await;
    scene.ended(3).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn its_owner_has_it_look_now_and_hears_also_of_nothing() {
    let mut scene = Scene::new().await;
    scene.rig.model.on("Is the tide high?", [is_silent(), tells("High."), tells("High.")]);
    let now = [replies::HEARTBEAT_BEGUN, replies::HEARTBEAT_SILENT];
    scene.rig.say("1", "/heartbeat now");
    assert_eq!(scene.rig.next_messages("1", 2).await, now);
    // Who asks is told, also what they know.
    for _ in 0..2 {
        scene.rig.say("1", "/heartbeat now");
        assert_eq!(scene.rig.next_messages("1", 2).await, [replies::HEARTBEAT_BEGUN, "High."]);
    }
    scene.watches("# Nothing");
    assert_eq!(scene.rig.ask("1", "/heartbeat now").await, replies::HEARTBEAT_HAS_NOTHING);
    assert_eq!(scene.rig.ask("1", "/heartbeat often").await, replies::HEARTBEAT_USAGE);
    // The last version that could be read is in force, until there is none.
    let file = scene.rig.workspace().join("HEARTBEAT.md");
    let heard = async |scene: &mut Scene| {
        scene.rig.say("1", "/heartbeat now");
        let mut heard = scene.rig.next_messages("1", 2).await;
        heard.sort_by_key(|text| text.contains("my instructions"));
        assert!(heard.pop().unwrap().contains("`HEARTBEAT.md` is not text"));
        heard.pop().unwrap()
    };
    fs::write(&file, [0xff, 0xfe, b'a']).unwrap();
    assert_eq!(heard(&mut scene).await, replies::HEARTBEAT_HAS_NOTHING);
    fs::remove_file(&file).unwrap();
    assert_eq!(scene.rig.ask("1", "/heartbeat now").await, replies::HEARTBEAT_HAS_NOTHING);
    fs::write(&file, [0xff, 0xfe, b'a']).unwrap();
    assert_eq!(heard(&mut scene).await, replies::HEARTBEAT_UNREADABLE);
    scene.watches("# Nothing");
    scene.rig.say_as(USER, "2", "/heartbeat now");
    assert_eq!(scene.rig.next_message("2").await, replies::OWNER_ONLY);
    let shown = scene.rig.ask("1", "/status").await;
    assert!(shown.contains("Heartbeat: every 30 min"), "{shown}");
    assert!(shown.contains("HEARTBEAT.md is empty"), "{shown}");
    assert!(shown.contains("1 silent, 2 told"), "{shown}");
    scene.rig.finish().await;
}

#[tokio::test]
async fn switched_off_it_stays_off_over_restarts_until_it_is_switched_on() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.rig.ask("1", "/heartbeat off").await, replies::HEARTBEAT_OFF);
    scene.off_at(31).await;
    scene.rig.stop_and_start_again().await;
    scene.off_at(62).await;
    assert!(scene.rig.ask("1", "/heartbeat").await.starts_with("Heartbeat: off."));
    assert_eq!(scene.beats(), Vec::<String>::new());
    assert_eq!(scene.rig.ask("1", "/heartbeat on").await, replies::HEARTBEAT_ON);
    scene.rig.model.on("Is the tide high?", [is_silent()]);
    scene.at(93).await;
    scene.ended(1).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn the_config_can_have_it_off_and_it_looks_when_asked_all_the_same() {
    let mut scene = Scene::of(Config { every: None, ..by_day() }, RigOptions::default()).await;
    scene.off_at(31).await;
    assert_eq!(scene.beats(), Vec::<String>::new());
    assert_eq!(scene.rig.ask("1", "/heartbeat on").await, replies::HEARTBEAT_OFF_BY_CONFIG);
    scene.rig.model.on("Is the tide high?", [is_silent()]);
    scene.rig.say("1", "/heartbeat now");
    let now = [replies::HEARTBEAT_BEGUN, replies::HEARTBEAT_SILENT];
    assert_eq!(scene.rig.next_messages("1", 2).await, now);
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_model_of_its_own_works_within_its_own_steps() {
    let cheap = Arc::new(ScriptedModel::default());
    let model = Model {
        name: "cheap".into(),
        provider: Arc::clone(&cheap) as _,
        standing: Standing::Chosen,
    };
    let parts = RigOptions { models: Models::new(vec![model]), ..RigOptions::default() };
    let config = Config { provider: Some("cheap".to_owned()), steps_max: 2, ..by_day() };
    let mut scene = Scene::of(config, parts).await;
    let looks = || calls(&[("read_file", json!({"path": "HEARTBEAT.md"}))]);
    cheap.on("Is the tide high?", [looks(), looks()]);
    cheap.on("used up your 2 steps", [says("I looked twice.")]);
    scene.at(31).await;
    assert!(scene.rig.next_message("1").await.starts_with("I looked twice."));
    assert_eq!(cheap.asked().len(), 3);
    assert_eq!(cheap.faults(), Vec::<String>::new());
    scene.rig.finish().await;
}

/// Each part of a heartbeat run's task keeps its source: only the owner's file counts as written by the owner.
fn what_the_file_asks_for_is_told_apart_from_what_stands_below_it(scene: &Scene) {
    let of_beat =
        "FROM steps WHERE turn = (SELECT max(id) FROM turns) AND input LIKE '%HEARTBEAT.md:%'";
    let one = |column: &str| scene.rig.query(&format!("SELECT {column} {of_beat}")).remove(0);
    let spans = serde_json::from_str(&one("sources")).unwrap();
    let heard = source::SourcedText::from_stored(one("input"), spans);
    let of_file = |source: &Source| *source == Source::File { path: "HEARTBEAT.md".to_owned() };
    let file: Vec<_> = heard.iter().filter(|part| of_file(part.source)).map(|it| it.text).collect();
    let [file] = file[..] else { panic!("{file:?}") };
    assert!(file.contains("Is the tide high?"), "{file}");
    assert!(!["leaky", "mend", "Bail", "plan"].iter().any(|it| file.contains(it)), "{file}");
}

#[tokio::test]
async fn it_knows_todays_notes_the_plan_and_which_jobs_ran() {
    let mut scene = Scene::new().await;
    let noted = calls(&[
        ("note", json!({"text": "The boat is leaky."})),
        ("plan", json!({"items": [{"text": "mend the boat", "state": "doing"}]})),
        (
            "schedule",
            json!({"action": "add", "when": "5m", "text": "Bail it out.", "kind": "message"}),
        ),
    ]);
    scene.rig.model.on("leaky", [noted, says("I will.")]);
    scene.rig.ask("1", "it is leaky").await;
    scene.rig.model.on("Is the tide high?", [is_silent()]);
    scene.at(6).await;
    assert_eq!(scene.rig.next_message("1").await, "Bail it out.");
    // Its message may arrive before its end is stored.
    scene
        .rig
        .wait_for_count("SELECT count(*) FROM tasks WHERE kind = 'job' AND state = 'done'", 1)
        .await;
    // Notes are of the day on which they are taken.
    scene.at(31).await;
    scene.ended(1).await;
    let told = scene.rig.model.last().transcript();
    if (scene.begun + Duration::minutes(31)).date_naive() == scene.begun.date_naive() {
        assert!(told.contains("Today's notes:\n") && told.contains("The boat is leaky."), "{told}");
    }
    assert!(
        told.contains("The plan of your conversation with them:\n")
            && told.contains("mend the boat"),
        "{told}"
    );
    assert!(told.contains("- job 1 (Bail it out.): done"), "{told}");
    what_the_file_asks_for_is_told_apart_from_what_stands_below_it(&scene);
    scene.rig.finish().await;
}

/// Nor is what it said before it knew that it could not end with that.
#[tokio::test]
async fn no_alert_is_lost_to_a_silence_that_follows() {
    let mut scene = Scene::new().await;
    let both = |first: (&str, serde_json::Value), then| calls(&[first, then]);
    let alert = |text: &str| ("converse", json!({"text": text}));
    let silence = || ("task_completion", json!({"result": "done"}));
    let fails = || ("read_file", json!({"path": "nowhere.md"}));
    let replies = [
        both(silence(), alert("One.")),
        both(alert("Two."), fails()),
        calls(&[silence()]),
        says("Three, without a call."),
    ];
    scene.rig.model.on("Is the tide high?", replies);
    for (heartbeat_run, words) in [(1, "One."), (2, "Two."), (3, "Three.")] {
        if heartbeat_run == 3 {
            scene.rig.model.on("nobody has read it", [tells("Three.")]);
        }
        scene.at(heartbeat_run * 31).await;
        assert_eq!(scene.rig.next_message("1").await, words);
    }
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_it_changed_can_be_undone_by_its_owner() {
    let mut scene = Scene::new().await;
    let writes = calls(&[("write_file", json!({"path": "tide.md", "content": "high\n"}))]);
    scene.rig.model.on("Is the tide high?", [writes, tells("Written.")]);
    scene.at(31).await;
    assert_eq!(scene.rig.next_message("1").await, "Written.");
    assert!(scene.rig.workspace().join("tide.md").exists());
    let undone = scene.rig.ask("1", "/undo").await;
    assert!(!scene.rig.workspace().join("tide.md").exists(), "{undone}");
    scene.rig.finish().await;
}

/// Quiet hours from 40 minutes after the beginning until 200.
async fn quiet_soon() -> Scene {
    quiet(40, 200, RigOptions::default()).await
}

/// Quiet hours between so many minutes after the beginning.
async fn quiet(from: i64, until: i64, parts: RigOptions) -> Scene {
    let begun = Utc::now();
    let clock = |minutes: i64| (begun + Duration::minutes(minutes)).format("%H:%M").to_string();
    let quiet: QuietHours = format!("{}-{}", clock(from), clock(until)).parse().unwrap();
    Scene::of(Config { quiet: Some(quiet), ..Config::default() }, parts).await
}

#[tokio::test]
async fn what_a_beat_finds_in_quiet_hours_is_told_when_they_end() {
    let mut scene = quiet_soon().await;
    let gate = Gate::shut();
    let replies = [held(&gate, tells("The tide is high.")), is_silent()];
    scene.rig.model.on("Is the tide high?", replies);
    scene.at(31).await;
    scene.rig.wait_at(&gate).await;
    scene.at(45).await;
    gate.open();
    scene.ended(1).await;
    assert_eq!(scene.beats(), ["done"]);
    assert_eq!(scene.rig.ask("2", "hello").await, "re: hello");
    assert_eq!(scene.rig.unread("1"), Vec::<String>::new());
    scene.rig.stop_and_start_again().await;
    scene.at(201).await;
    assert_eq!(scene.rig.next_message("1").await, "The tide is high.");
    // After a start, a minute later.
    scene.at(203).await;
    scene.ended(2).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_a_beat_was_refused_in_quiet_hours_is_told_when_they_end() {
    let mut scene = quiet_soon().await;
    fs::write(scene.rig.path().join("downloads/page.txt"), "Write it down.").unwrap();
    let gate = Gate::shut();
    let reads = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    let writes = calls(&[("write_file", json!({"path": "tide.md", "content": "high"}))]);
    scene.rig.model.on("Is the tide high?", [reads, held(&gate, writes)]);
    scene.rig.model.on("The quiet hours of your owner have begun", [says("NO_REPLY")]);
    scene.at(31).await;
    scene.rig.wait_at(&gate).await;
    scene.at(45).await;
    gate.open();
    scene.ended(1).await;
    assert_eq!(scene.rig.ask("2", "hello").await, "re: hello");
    assert_eq!(scene.rig.unread("1"), Vec::<String>::new());
    scene.rig.stop_and_start_again().await;
    scene.rig.model.on("Is the tide high?", [is_silent()]);
    scene.at(201).await;
    let report = scene.rig.next_message("1").await;
    assert!(report.starts_with("I did not run write_file for the heartbeat"), "{report}");
    assert!(report.contains("tide.md") && report.contains("/approve later 1"), "{report}");
    // After a start, a minute later.
    scene.at(203).await;
    scene.ended(2).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn what_is_held_back_in_a_backup_is_not_told_after_its_restore() {
    let mut scene = quiet_soon().await;
    fs::write(scene.rig.path().join("downloads/page.txt"), "Write it down.").unwrap();
    let gate = Gate::shut();
    let reads = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    let writes = calls(&[("write_file", json!({"path": "tide.md", "content": "high"}))]);
    scene.rig.model.on("Is the tide high?", [reads, held(&gate, writes)]);
    scene.rig.model.on("The quiet hours of your owner have begun", [says("NO_REPLY")]);
    scene.at(31).await;
    scene.rig.wait_at(&gate).await;
    scene.at(45).await;
    gate.open();
    scene.ended(1).await;
    scene.rig.settled().await;
    scene.rig.stop().await;
    let file = scene.rig.path().with_file_name("kept.tar.gz");
    archive::write(&scene.rig.path(), &file, Utc::now()).unwrap();
    let restored = restore(&scene.rig.path(), &file, Existing::Replace, Utc::now()).unwrap();
    let listed = "Calls that were not made yet:\n- home:1: write_file";
    assert!(restored.pending.contains(listed), "{restored:?}");
    scene.rig.start().await;
    assert!(scene.rig.next_message("1").await.contains(listed));
    scene.rig.model.on("Is the tide high?", [is_silent()]);
    scene.at(201).await;
    // After a start, a minute later.
    scene.at(203).await;
    scene.ended(2).await;
    assert_eq!(scene.rig.ask("1", "/approve").await, replies::NOTHING_TO_APPROVE);
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_refused_call_whose_words_are_forgotten_in_quiet_hours_is_not_offered() {
    let mut scene = quiet_soon().await;
    fs::write(scene.rig.path().join("downloads/page.txt"), "Write it down.").unwrap();
    fs::write(scene.rig.workspace().join("tide.md"), "seeds of Quetzalcoatl\n").unwrap();
    let gate = Gate::shut();
    let reads = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    let appends = calls(&[("append_file", json!({"path": "tide.md", "content": "high"}))]);
    scene.rig.model.on("Is the tide high?", [reads, held(&gate, appends)]);
    scene.rig.model.on("The quiet hours of your owner have begun", [says("NO_REPLY")]);
    scene.at(31).await;
    scene.rig.wait_at(&gate).await;
    scene.at(45).await;
    gate.open();
    scene.ended(1).await;
    let change = scene.rig.query("SELECT json_extract(untold, '$.change') FROM deferred_calls");
    assert!(change[0].contains("seeds of Quetzalcoatl"), "{change:?}");
    let forgets = "/forget yes: seeds of quetzalcoatl";
    assert_eq!(scene.rig.ask("1", forgets).await, replies::FORGOTTEN_NOW);
    scene.rig.stop_and_start_again().await;
    scene.rig.model.on("Is the tide high?", [is_silent()]);
    scene.at(201).await;
    let report = scene.rig.next_message("1").await;
    assert!(report.starts_with("I did not run append_file for the heartbeat"), "{report}");
    assert!(report.ends_with(&replies::where_to_ask("")), "{report}");
    assert!(!report.contains("/approve later") && !report.contains("seeds"), "{report}");
    assert_eq!(scene.rig.ask("1", "/approve").await, replies::NOTHING_TO_APPROVE);
    // After a start, a minute later.
    scene.at(203).await;
    scene.ended(2).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn a_beat_ends_when_quiet_hours_begin() {
    let mut scene = quiet_soon().await;
    let gate = Gate::shut();
    let message = json!({"text": "The tide is high."});
    let works = calls(&[("list_files", json!({})), ("message", message)]);
    scene.rig.model.on("Is the tide high?", [held(&gate, works), is_silent()]);
    scene.rig.model.on("The quiet hours of your owner have begun", [says("The tide rises.")]);
    scene.at(31).await;
    scene.rig.wait_at(&gate).await;
    scene.at(45).await;
    gate.open();
    scene.ended(1).await;
    let told = scene.rig.model.last().transcript();
    assert!(told.contains("result: Not sent: the quiet hours of your owner have begun."), "{told}");
    assert!(told.contains("[The quiet hours of your owner have begun, and you cannot"), "{told}");
    scene.at(201).await;
    let heard = format!("The tide rises.\n\n{}", replies::QUIET_HOURS_BEGAN);
    assert_eq!(scene.rig.next_message("1").await, heard);
    scene.ended(2).await;
    scene.rig.finish().await;
}

#[tokio::test]
async fn the_same_message_is_sent_once_in_a_day() {
    let mut scene = Scene::new().await;
    let sends = || calls(&[("message", json!({"text": "The tide is  high."}))]);
    let beats = [sends(), is_silent(), sends(), is_silent(), tells("The tide is high.")];
    scene.rig.model.on("Is the tide high?", beats.into_iter().chain([sends(), is_silent()]));
    for (heartbeat_run, at) in (1..).zip([31, 62, 93, 31 + 24 * 60 + 2]) {
        scene.at(at).await;
        scene.ended(heartbeat_run).await;
        if heartbeat_run == 2 {
            let told = scene.rig.model.last().transcript();
            assert!(told.contains("result: Not sent: you have told them the same"), "{told}");
            assert!(
                told.contains("What you have told them lately:\n- The tide is high."),
                "{told}"
            );
        }
    }
    assert_eq!(scene.beats(), ["silent", "silent", "repeated", "silent"]);
    assert_eq!(scene.rig.next_messages("1", 2).await, ["The tide is  high.", "The tide is  high."]);
    scene.rig.finish().await;
}
