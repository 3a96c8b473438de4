//! A model that cannot be reached: turns wait for it without a slot, each is answered once, and people are told
//! once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::{StreamExt, stream};
use peacrab::conversation::model_waits::ModelWait;
use peacrab::provider::models::{Model, Models, Standing};
use peacrab::provider::{
    Delta, DeltaStream, PromptMessage, Provider, ProviderError, Request, StopReason, fallback,
};
use peacrab::replies;
use peacrab::types::session::QueueMode;
use proptest::prelude::*;
use serde_json::json;

use crate::support::rig::{OTHER_USER, Rig, RigOptions, USER};
use crate::support::script::{Gate, Reply, ScriptedModel, calls, held, says};

const AWAITING: &str = "SELECT count(*) FROM turns WHERE model_wait IS NOT NULL AND suspended = 1";

fn away() -> Reply {
    Reply::Fails(ProviderError::busy("no network"))
}

fn told() -> String {
    replies::model_away_because("no network")
}

fn waiting(time: Option<Duration>) -> RigOptions {
    let mut parts = RigOptions::default();
    parts.agent.wait_for_model = time;
    parts
}

#[tokio::test]
async fn a_turn_is_answered_when_the_model_is_back() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [away(), away(), says("here I am")]);
    assert_eq!(rig.ask("1", "hello").await, told());
    assert_eq!(rig.next_message("1").await, "here I am");
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    assert_eq!(rig.query("SELECT outcome FROM inbound"), ["answered", "answered"]);
    rig.finish().await;
}

#[tokio::test]
async fn only_the_owner_is_told_the_reason() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [away()]);
    rig.say_as(USER, "2", "hello");
    assert_eq!(rig.next_messages("2", 2).await, [replies::MODEL_UNREACHABLE, "re: hello"]);
    rig.finish().await;
}

#[tokio::test]
async fn nothing_waits_where_that_is_switched_off() {
    let mut rig = Rig::of(waiting(None)).await;
    rig.model.on("hello", [away()]);
    assert_eq!(rig.ask("1", "hello").await, replies::model_unavailable("no network"));
    rig.finish().await;
}

#[tokio::test]
async fn what_waiting_does_not_help_is_explained_at_once() {
    let mut rig = Rig::new().await;
    for error in [
        ProviderError::Refused("no such key".to_owned()),
        ProviderError::Stalled("the answer stalled".to_owned()),
        ProviderError::Broken("the answer was cut off".to_owned()),
    ] {
        rig.model.on("hello", [Reply::Fails(error)]);
        rig.ask("1", "hello").await;
    }
    assert!(rig.query("SELECT 'one' FROM turns WHERE wait_notified IS NOT NULL").is_empty());
    rig.finish().await;
}

#[tokio::test]
async fn a_wrong_key_that_shows_when_the_model_is_back_is_explained() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [away(), Reply::Fails(ProviderError::Refused("no such key".to_owned()))]);
    let refused = replies::model_refused_us("no such key", true);
    rig.say("1", "hello");
    assert_eq!(rig.next_messages("1", 2).await, [told(), refused]);
    rig.finish().await;
}

#[tokio::test]
async fn nobody_waits_if_a_fallback_answers() {
    let (first, spare) = (Arc::new(ScriptedModel::default()), Arc::new(ScriptedModel::default()));
    first.on("hello", [away()]);
    let both = vec![first as Arc<dyn Provider>, spare];
    let provider: Option<Arc<dyn Provider>> = Some(Arc::new(fallback::Fallback::new(both)));
    let mut rig = Rig::of(RigOptions { provider, ..RigOptions::default() }).await;
    assert!(
        rig.ask("1", "hello").await.starts_with("re: hello\n\n(script (none) is unavailable: ")
    );
    assert!(rig.query("SELECT 'one' FROM turns WHERE wait_notified IS NOT NULL").is_empty());
    rig.finish().await;
}

#[tokio::test]
async fn a_wait_survives_restarts_and_is_told_once() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [away(), away(), away(), away()]);
    assert_eq!(rig.ask("1", "hello").await, told());
    for _ in 0..3 {
        rig.stop_and_start_again().await;
        rig.wait_for_count(AWAITING, 1).await;
    }
    assert_eq!(rig.next_message("1").await, "re: hello");
    rig.finish().await;
}

#[tokio::test]
async fn waiting_costs_no_attempt_at_the_turn() {
    let mut rig = Rig::new().await;
    let replies = [away(), Reply::Panics, away(), Reply::Panics, away(), Reply::Panics];
    rig.model.on("hello", replies.into_iter().chain([says("at last")]));
    rig.say("1", "hello");
    assert_eq!(rig.next_messages("1", 2).await, [told(), "at last".to_owned()]);
    rig.finish().await;
}

#[tokio::test]
async fn finished_calls_are_not_repeated() {
    let mut rig = Rig::new().await;
    let append = calls(&[("append_file", json!({"path": "log.md", "content": "one\n"}))]);
    rig.model.on("log it", [append, away(), away(), says("it is logged")]);
    rig.say("1", "log it");
    assert_eq!(rig.next_messages("1", 2).await, [told(), "it is logged".to_owned()]);
    let log = std::fs::read_to_string(rig.workspace().join("log.md")).unwrap();
    assert_eq!(log, "one\n");
    assert_eq!(rig.query("SELECT tool FROM calls"), ["append_file"]);
    rig.finish().await;
}

#[tokio::test]
async fn a_turn_that_waits_holds_no_slot() {
    let mut parts = RigOptions::default();
    parts.agent.turns_max = 1;
    let mut rig = Rig::of(parts).await;
    rig.model.on("hello", [away(), away(), says("here")]);
    assert_eq!(rig.ask("1", "hello").await, told());
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    assert_eq!(rig.next_message("1").await, "here");
    rig.finish().await;
}

#[tokio::test]
async fn stop_ends_the_wait() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [away()]);
    assert_eq!(rig.ask("1", "hello").await, told());
    rig.wait_for_count(AWAITING, 1).await;
    assert_eq!(rig.ask("1", "/stop").await, replies::STOPPED);
    rig.wait_for_count(AWAITING, 0).await;
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    assert_eq!(rig.query("SELECT outcome FROM inbound"), ["stopped", "obeyed", "answered"]);
    rig.finish().await;
}

#[tokio::test]
async fn what_is_said_meanwhile_joins_the_turn() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [away(), away()]);
    assert_eq!(rig.ask("1", "hello").await, told());
    rig.say("1", "with sugar");
    rig.say("1", "and milk");
    rig.waiting(2).await;
    assert_eq!(rig.next_message("1").await, "re: hello  with sugar and milk");
    assert_eq!(rig.query("SELECT CAST(count(DISTINCT turn) AS TEXT) FROM inbound"), ["1"]);
    // It was written down as it was shown.
    rig.stop_and_start_again().await;
    rig.ask("1", "and now?").await;
    let transcript = rig.model.last().transcript();
    assert!(transcript.contains("and milk\nassistant: re: hello"), "{transcript}");
    rig.finish().await;
}

#[tokio::test]
async fn what_is_said_meanwhile_joins_between_two_steps() {
    let mut rig = Rig::new().await;
    rig.model.on("look", [calls(&[("list_files", json!({}))]), away()]);
    assert_eq!(rig.ask("1", "look").await, told());
    rig.say("1", "quickly");
    rig.waiting(1).await;
    assert_eq!(rig.next_message("1").await, "re: quickly");
    assert_eq!(rig.query("SELECT CAST(count(DISTINCT turn) AS TEXT) FROM inbound"), ["1"]);
    rig.finish().await;
}

#[tokio::test]
async fn each_message_is_answered_by_itself_where_that_is_wished() {
    let mut parts = RigOptions::default();
    parts.agent.queue = QueueMode::Followup;
    let mut rig = Rig::of(parts).await;
    rig.model.on("hello", [away(), away()]);
    assert_eq!(rig.ask("1", "hello").await, told());
    rig.say("1", "with sugar");
    rig.waiting(1).await;
    assert_eq!(rig.next_messages("1", 2).await, ["re: hello", "re: with sugar"]);
    rig.finish().await;
}

#[tokio::test]
async fn others_in_a_group_wait_behind_it() {
    let mut rig = Rig::new().await;
    rig.model.on("hello", [away(), away()]);
    rig.say_as(USER, "-1", "hello");
    assert_eq!(rig.next_message("-1").await, replies::MODEL_UNREACHABLE);
    rig.say_as(OTHER_USER, "-1", "me too");
    assert_eq!(rig.next_messages("-1", 2).await, ["re: hello", "re: me too"]);
    rig.finish().await;
}

#[tokio::test]
async fn a_wait_has_an_end_that_is_explained() {
    let mut rig = Rig::of(waiting(Some(Duration::from_secs(2)))).await;
    rig.model.on("hello", [away(), away()]);
    assert_eq!(rig.ask("1", "hello").await, told());
    let over = rig.next_message("1").await;
    assert!(over.starts_with("I have waited for the model since "), "{over}");
    assert!(over.contains("so I have stopped waiting: no network."), "{over}");
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

/// The clock jumps ahead, as one without a battery does, or the machine was off for long: the model is tried
/// before the wait is given up.
#[tokio::test]
async fn a_time_jump_gives_no_wait_up() {
    for since in ["-2 days", "+2 days", "-50 years"] {
        let mut rig = Rig::new().await;
        rig.model.on("hello", [away()]);
        assert_eq!(rig.ask("1", "hello").await, told());
        rig.stop().await;
        let time =
            |plus: &str| format!("strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '{since}', '{plus}')");
        let (since, until) = (time("0 days"), time("12 hours"));
        rig.execute(&format!(
            "UPDATE turns SET model_wait =
             json_set(model_wait, '$.since', {since}, '$.until', {until})"
        ));
        rig.start().await;
        assert_eq!(rig.next_message("1").await, "re: hello");
        rig.finish().await;
    }
}

#[test]
fn a_wait_keeps_its_length_when_the_clock_was_wrong() {
    let time = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    let release = time("2026-01-01T00:00:00Z");
    let check = |since: &str, now: &str, expected: &str| {
        let wait = ModelWait {
            chain: "main".to_owned(),
            reason: "away".to_owned(),
            since: time(since),
            until: time(since) + chrono::Duration::hours(12),
            failures: 1,
        };
        let renewed = wait.renewed("still away", time(now), release);
        assert_eq!((renewed.until, renewed.failures), (time(expected), 2), "{since} {now}");
        assert_eq!(renewed.until - renewed.since, wait.until - wait.since);
    };
    check("2026-05-01T00:00:00Z", "2026-05-01T03:00:00Z", "2026-05-01T12:00:00Z");
    check("1970-01-01T00:00:09Z", "2026-05-01T03:00:00Z", "2026-05-01T15:00:00Z");
    check("1970-01-01T00:00:09Z", "1970-01-01T00:01:00Z", "1970-01-01T12:00:09Z");
    check("2030-05-01T00:00:00Z", "2026-05-01T03:00:00Z", "2026-05-01T15:00:00Z");
}

#[tokio::test]
async fn status_says_how_many_turns_wait_and_since_when() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("hello", [away(), held(&gate, says("here"))]);
    assert!(!rig.ask("2", "/status").await.contains("waits"));
    assert_eq!(rig.ask("1", "hello").await, told());
    let shown = rig.ask("2", "/status").await;
    assert!(shown.contains("\n1 turn has been waiting for the model since 20"), "{shown}");
    gate.open();
    assert_eq!(rig.next_message("1").await, "here");
    assert!(!rig.ask("2", "/status").await.contains("waits"));
    rig.finish().await;
}

#[tokio::test]
async fn another_model_that_is_chosen_answers_at_once() {
    let spare = Arc::new(ScriptedModel::default());
    let model = |name: &str, provider: Arc<dyn Provider>, standing| Model {
        name: name.to_owned(),
        provider,
        standing,
    };
    let main = Arc::new(Wavering::new(true));
    let models = vec![
        model("main", Arc::clone(&main) as _, Standing::Default),
        model("spare", Arc::clone(&spare) as _, Standing::Chosen),
    ];
    spare.on("hello", [says("I am the spare one")]);
    let provider = Some(main as Arc<dyn Provider>);
    let parts = RigOptions { provider, models: Models::new(models), ..RigOptions::default() };
    let mut rig = Rig::of(parts).await;
    assert_eq!(rig.ask("1", "hello").await, replies::model_away_because("away"));
    rig.say("1", "/model spare");
    assert_eq!(
        rig.next_messages("1", 2).await,
        [replies::model_is("script (none)"), "I am the spare one".to_owned()]
    );
    rig.finish().await;
}

#[tokio::test]
async fn a_subagent_waits_and_its_conversation_is_told_once() {
    let mut rig = Rig::new().await;
    let hand_on = calls(&[("subagent", json!({"task": "count the crabs"}))]);
    let done = calls(&[("task_completion", json!({"result": "seven"}))]);
    rig.model.on("how many", [hand_on, says("seven it is")]);
    rig.model.on("count the crabs", [away(), done]);
    rig.say("1", "how many");
    assert_eq!(rig.next_messages("1", 2).await, [told(), "seven it is".to_owned()]);
    rig.finish().await;
}

#[tokio::test]
async fn a_job_waits_until_its_next_run_and_one_that_is_due_once_as_others_do() {
    let mut rig = Rig::new().await;
    for (when, kind) in [("every 1h", "prompt"), ("2s", "prompt"), ("every 1h", "here")] {
        let job = json!({"action": "add", "when": when, "text": "count the crabs", "kind": kind});
        rig.model.on("a job", [calls(&[("schedule", job)]), says("noted")]);
        assert_eq!(rig.ask("1", "a job").await, "noted");
    }
    let done = || calls(&[("task_completion", json!({"result": "seven"}))]);
    rig.model.on("count the crabs", [away(), away(), away(), away(), away(), away()]);
    rig.model.on("count the crabs", [done(), done(), says("seven")]);
    // The one that is due once is due soon anyway.
    rig.execute(
        "UPDATE jobs SET next = CAST(strftime('%s', 'now') AS INTEGER) * 1000 WHERE id <> 2",
    );
    rig.stop_and_start_again().await;
    rig.wait_for_count(AWAITING, 3).await;
    let until = "SELECT CAST(round((julianday(json_extract(t.model_wait, '$.until'))
        - julianday(json_extract(t.model_wait, '$.since'))) * 24) AS TEXT)
        FROM turns t JOIN tasks r ON r.turn = t.id WHERE r.kind = 'job' ORDER BY r.job";
    assert_eq!(rig.query(until), ["1.0", "12.0", "1.0"]);
    rig.settled().await;
    assert_eq!(
        rig.query("SELECT state FROM tasks WHERE kind = 'job' ORDER BY job"),
        ["done", "done", "done"]
    );
    rig.stop().await;
}

/// A model that is away as long as a test wishes.
struct Wavering {
    away: AtomicBool,
    asked: AtomicUsize,
    /// Answers of a seeded chance are failures, too.
    chance: Mutex<Option<fastrand::Rng>>,
    answered: Mutex<Vec<String>>,
}

impl Wavering {
    fn new(away: bool) -> Self {
        Self {
            away: AtomicBool::new(away),
            asked: AtomicUsize::new(0),
            chance: Mutex::new(None),
            answered: Mutex::default(),
        }
    }

    fn fails(&self) -> bool {
        let mut chance = self.chance.lock().unwrap();
        self.away.load(Ordering::SeqCst) || chance.as_mut().is_some_and(|it| it.u8(..3) == 0)
    }
}

#[async_trait]
impl Provider for Wavering {
    fn name(&self) -> &'static str {
        "wavering (none)"
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.fails() {
            return Err(ProviderError::busy("away"));
        }
        let newest = request.messages.iter().rev().find_map(|message| match message {
            PromptMessage::User { text, .. } => text.lines().last().map(str::to_owned),
            _ => None,
        });
        let newest = newest.unwrap_or_default();
        self.answered.lock().unwrap().push(newest.clone());
        let deltas = [Delta::Text(format!("re: {newest}")), Delta::End(StopReason::Done)];
        Ok(stream::iter(deltas.map(Ok)).boxed())
    }
}

const CHATS: usize = 40;

#[tokio::test]
async fn many_chats_wait_at_the_cost_of_one_and_are_answered_once_in_order() {
    let model = Arc::new(Wavering::new(true));
    let mut parts = RigOptions { provider: Some(Arc::clone(&model) as _), ..RigOptions::default() };
    parts.agent.turns_max = 1;
    let mut rig = Rig::of(parts).await;
    for n in 0..CHATS {
        rig.say(&format!("c{n}"), &format!("hello {n}"));
        assert_eq!(rig.next_message(&format!("c{n}")).await, replies::model_away_because("away"));
    }
    rig.wait_for_count(AWAITING, CHATS as i64).await;
    // Each has tried once. From now on one of them does, with pauses that grow.
    let before = model.asked.load(Ordering::SeqCst);
    tokio::time::timeout(Duration::from_secs(4), rig.wait_until(|_| false)).await.unwrap_err();
    let probes = model.asked.load(Ordering::SeqCst) - before;
    assert!(probes <= 4, "{probes} attempts in four seconds");
    model.away.store(false, Ordering::SeqCst);
    rig.stop_and_start_again().await;
    for n in 0..CHATS {
        assert_eq!(rig.next_message(&format!("c{n}")).await, format!("re: hello {n}"));
    }
    let expected: Vec<_> = (0..CHATS).map(|n| format!("hello {n}")).collect();
    assert_eq!(*model.answered.lock().unwrap(), expected);
    rig.finish().await;
}

/// A third of all answers fails: whatever comes, each message has one answer, and each chat is told at most once
/// of each turn.
#[tokio::test]
async fn a_model_that_flaps_answers_each_message_once() {
    let model = Arc::new(Wavering::new(false));
    *model.chance.lock().unwrap() = Some(fastrand::Rng::with_seed(7));
    let parts = RigOptions { provider: Some(Arc::clone(&model) as _), ..RigOptions::default() };
    let mut rig = Rig::of(parts).await;
    for n in 0..8 {
        rig.say(&format!("c{n}"), &format!("hello {n}"));
    }
    rig.settled().await;
    let mut answers = BTreeMap::new();
    for n in 0..8 {
        let got = rig.unread(&format!("c{n}"));
        let (told, answered): (Vec<_>, Vec<_>) =
            got.iter().cloned().partition(|text| *text == replies::model_away_because("away"));
        assert!(told.len() <= 1, "{got:?}");
        answers.insert(n, answered);
    }
    for (n, answered) in answers {
        assert_eq!(answered, [format!("re: hello {n}")]);
    }
    rig.stop().await;
}

proptest! {
    /// However often the clock is set, a wait is over at last, and never before its length has passed by the clock.
    #[test]
    fn a_wait_is_never_over_before_its_time(since in 0_i64..4_000_000_000, jumps in prop::collection::vec(0_i64..4_000_000_000, 1..6)) {
        let time = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let release = time(1_767_225_600);
        let length = chrono::Duration::hours(12);
        let mut wait = ModelWait {
            chain: String::new(), reason: String::new(), since: time(since), until: time(since) + length, failures: 1,
        };
        for now in jumps.into_iter().map(time) {
            wait = wait.renewed("away", now, release);
            prop_assert!(wait.since <= now);
            prop_assert_eq!(wait.until - wait.since, length);
            prop_assert_eq!(wait.is_over(now), now - wait.since >= length);
        }
    }
}
