//! Budgets in conversations: what people are told, and what is booked.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{TimeZone as _, Utc};
use futures_util::{StreamExt, stream};
use peacrab::config::AgentConfig;
use peacrab::conversation::budgets::{Allowance, Budget, Budgets};
use peacrab::people::Access;
use peacrab::provider::Models;
use peacrab::provider::prices::{Price, Prices, TokenPrices};
use peacrab::provider::{
    Delta, DeltaStream, PromptMessage, Provider, ProviderError, Request, StopReason, Usage, tokens,
};
use peacrab::replies;
use peacrab::tasks::schedule::{Clock, Timing, runs_a_month};

use crate::support::rig::{OWNER, Rig, RigOptions, STRANGER, USER};
use crate::support::script::{Gate, Reply, calls, held, says};

/// A model that counts the tokens of its prompts, and answers briefly.
#[derive(Default)]
struct Counting {
    calls: Mutex<Vec<(Usage, Option<u32>)>>,
}

#[async_trait]
impl Provider for Counting {
    fn name(&self) -> &'static str {
        "counting (none)"
    }

    async fn stream<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let system: u64 = request.system.iter().map(|part| tokens(part)).sum();
        let tools: u64 = request.tools.iter().map(|tool| tool.tokens()).sum();
        let said: u64 = request
            .messages
            .iter()
            .map(|message| match message {
                PromptMessage::User { text, .. } => tokens(text),
                PromptMessage::Assistant { text, .. } => tokens(text),
                PromptMessage::Results(_) => 0,
            })
            .sum();
        let answer =
            "That is a good question. The short answer is yes, with butter and a little salt.";
        let usage = Usage {
            input: system + tools + said + 4 * request.messages.len() as u64,
            output: tokens(answer),
            ..Usage::default()
        };
        self.calls.lock().unwrap().push((usage, request.tokens_max));
        let deltas =
            [Delta::Text(answer.to_owned()), Delta::Usage(usage), Delta::End(StopReason::Done)];
        Ok(stream::iter(deltas.map(Ok)).boxed())
    }
}

fn open_to_all() -> Access {
    Access {
        owners: vec![OWNER.to_owned()],
        allow: vec![USER.to_owned(), "*".to_owned()],
        ..Access::default()
    }
}

#[tokio::test]
async fn five_thousand_tokens_carry_eight_short_exchanges_of_a_guest() {
    let model = Arc::<Counting>::default();
    let provider = Arc::clone(&model) as Arc<dyn Provider>;
    let parts =
        RigOptions { access: open_to_all(), provider: Some(provider), ..RigOptions::default() };
    let mut rig = Rig::of(parts).await;
    let mut answered = 0;
    let refusal = loop {
        let text = format!(
            "Could you tell me whether crabs like toast, please? I ask for friend {answered}."
        );
        rig.say_as(STRANGER, "66", &text);
        let answer = rig.next_message("66").await;
        if !answer.starts_with("That is a good question.") {
            break answer;
        }
        answered += 1;
        assert!(answered < 100, "it never ends");
    };
    let calls = model.calls.lock().unwrap().clone();
    let used: u64 = calls.iter().map(|(usage, _)| usage.input + usage.output).sum();
    assert!(answered >= 8, "{answered} {calls:?}");
    assert!(used <= 5_000, "{used}");
    assert!(refusal.starts_with("Your monthly budget of 5,000 tokens is used up"), "{refusal}");
    assert!(refusal.contains("It resets ") && !refusal.contains("/budget"), "{refusal}");
    // The refused call was not made.
    assert_eq!(calls.len(), answered);
    assert!(calls.iter().all(|(_, most)| most.is_some()), "{calls:?}");
    // They were warned once before, and can see it.
    let heard = rig.query("SELECT body FROM outbox");
    let warned = heard.iter().filter(|text| text.contains("Your monthly budget is 8")).count();
    assert_eq!(warned, 1, "{heard:#?}");
    rig.say_as(STRANGER, "66", "/budget");
    let shown = rig.next_message("66").await;
    assert!(shown.starts_with("Your monthly budget: ") && !shown.contains("set WHOSE"), "{shown}");
    // The owner is not limited by that, and raises it without a restart.
    assert!(rig.ask("1", "hello").await.starts_with("That is a good question."));
    let set = rig.ask("1", "/budget set guest 20k month").await;
    assert_eq!(set, "The budget of guest is now 20,000 tokens for a month.");
    rig.say_as(STRANGER, "66", "And now?");
    assert!(rig.next_message("66").await.starts_with("That is a good question."));
    rig.finish().await;
}

/// The same reply, which has used so much.
fn with_usage(reply: Reply, usage: Usage) -> Reply {
    let Reply::Says(deltas) = reply else { panic!("only plain replies have a usage") };
    let deltas = deltas.into_iter().filter(|delta| !matches!(delta, Delta::Usage(_)));
    let mut deltas: Vec<_> = deltas.collect();
    deltas.insert(0, Delta::Usage(usage));
    Reply::Says(deltas)
}

fn with_daily(most: u64) -> RigOptions {
    let day = Allowance { tokens: Some(most), cost: None };
    let user = Budget { day, month: Allowance::default() };
    let budgets = Budgets { user, ..Budgets::default() };
    RigOptions { agent: AgentConfig { budgets, ..AgentConfig::default() }, ..RigOptions::default() }
}

#[tokio::test]
async fn two_turns_of_one_person_at_once_do_not_use_more_than_there_is() {
    // Room for a prompt with an answer, and not for another.
    let mut rig = Rig::of(with_daily(6_000)).await;
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("slowly"))]);
    rig.say_as(USER, "2", "slow");
    rig.wait_at(&gate).await;
    rig.say_as(USER, "3", "quick");
    let refused = rig.next_message("3").await;
    let begins =
        "Your daily budget of 6,000 tokens: the rest is reserved for an answer in progress.";
    assert!(refused.starts_with(begins), "{refused}");
    // Others have their own.
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    gate.open();
    assert_eq!(rig.next_message("2").await, "slowly");
    // What the first one did not use is there again.
    rig.say_as(USER, "3", "quick");
    assert_eq!(rig.next_message("3").await, "re: quick");
    let rows = "SELECT state || ' ' || cause || ' ' || input || ' ' || output FROM ledger WHERE person = \
                (SELECT person FROM accounts WHERE sender = '8') ORDER BY id";
    assert_eq!(rig.query(rows), ["settled chat 10 2", "settled chat 10 2"]);
    rig.finish().await;
}

#[tokio::test]
async fn subagents_of_a_person_use_that_persons_budget() {
    let mut rig = Rig::of(with_daily(6_000)).await;
    let task = serde_json::json!({"task": "count crabs"});
    rig.model.on("hand it on", [calls(&[("subagent", task)]), says("It was refused.")]);
    // The turn waits, and has nothing reserved. The subagent's first call leaves too little for its second one.
    let used = Usage { input: 5_500, output: 100, ..Usage::default() };
    let search = calls(&[("list_files", serde_json::json!({}))]);
    rig.model.on("count crabs", [with_usage(search, used)]);
    rig.say_as(USER, "2", "hand it on");
    let refused = rig.next_message("2").await;
    assert!(refused.starts_with("Your daily budget of 6,000 tokens is used up"), "{refused}");
    let rows = "SELECT cause || ' ' || state FROM ledger WHERE person =
                (SELECT person FROM accounts WHERE sender = '8') ORDER BY id";
    assert_eq!(rig.query(rows), ["chat settled", "subagent settled"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_call_that_never_began_costs_nothing_and_one_that_broke_off_costs_the_most() {
    let mut rig = Rig::of(with_daily(20_000)).await;
    rig.model.on("refuse", [Reply::Fails(ProviderError::Refused("no".to_owned()))]);
    rig.model.on("break", [Reply::Fails(ProviderError::Broken("no".to_owned()))]);
    rig.say_as(USER, "2", "refuse");
    rig.next_message("2").await;
    assert_eq!(rig.query("SELECT state FROM ledger"), Vec::<String>::new());
    rig.say_as(USER, "2", "break");
    rig.next_message("2").await;
    assert_eq!(rig.query("SELECT state FROM ledger"), ["estimated"]);
    rig.finish().await;
}

#[tokio::test]
async fn a_side_question_counts_and_is_refused_like_a_message() {
    let mut rig = Rig::of(with_daily(1_000)).await;
    rig.say_as(USER, "2", "/btw how are you?");
    let refused = rig.next_message("2").await;
    assert!(refused.starts_with("Your daily budget of 1,000 tokens is used up"), "{refused}");
    rig.finish().await;
}

#[tokio::test]
async fn stopping_a_turn_books_what_was_reserved() {
    let mut rig = Rig::of(with_daily(20_000)).await;
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("slowly"))]);
    rig.say_as(USER, "2", "slow");
    rig.wait_at(&gate).await;
    rig.say_as(USER, "2", "/stop");
    assert_eq!(rig.next_message("2").await, replies::STOPPED);
    gate.open();
    rig.stop_and_start_again().await;
    rig.wait_for_count("SELECT count(*) FROM ledger WHERE state = 'estimated'", 1).await;
    rig.finish().await;
}

#[tokio::test]
async fn the_ledger_says_whose_and_what_for() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.say_as(USER, "2", "hello");
    rig.next_message("2").await;
    rig.ask("1", "/btw and you?").await;
    let rows =
        "SELECT cause || ' ' || (SELECT sender FROM accounts a WHERE a.person = l.person) || ' ' ||
                (session IS NOT NULL) FROM ledger l ORDER BY id";
    assert_eq!(rig.query(rows), ["chat 7 1", "chat 8 1", "aside 7 1"]);
    rig.finish().await;
}

#[tokio::test]
async fn only_the_owner_changes_budgets_and_in_private() {
    let mut rig = Rig::new().await;
    rig.say_as(USER, "2", "/budget set p1 1 day");
    assert_eq!(rig.next_message("2").await, replies::BUDGET_FOR_OWNER);
    rig.say_as(USER, "2", "/budget");
    assert_eq!(rig.next_message("2").await, "No budget limits you.");
    rig.say("-1", "/budget set guest 1 day");
    assert_eq!(rig.next_message("-1").await, replies::BUDGET_FOR_OWNER);
    for wrong in [
        "/budget set guest lots day",
        "/budget set guest 1 year",
        "/budget reset nobody",
        "/budget raise",
    ] {
        assert_eq!(rig.ask("1", wrong).await, replies::BUDGET_USAGE.trim_start());
    }
    assert_eq!(
        rig.ask("1", "/budget set total $2.50 day").await,
        "The budget of total is now $2.50 for a day."
    );
    let shown = rig.ask("1", "/budget").await;
    let begins = "My daily budget: $0.00 of $2.50, resets tomorrow at 00:00\nEach guest: 5,000 tokens a month\n";
    assert!(shown.starts_with(begins), "{shown}");
    assert_eq!(
        rig.ask("1", "/budget reset total").await,
        "The budget of total follows the config again."
    );
    rig.finish().await;
}

#[tokio::test]
async fn jobs_are_listed_with_their_cost() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    assert!(rig.ask("1", "/jobs add every 2h | look outside").await.starts_with("Created"));
    let plain = rig.ask("1", "/jobs").await;
    assert!(!plain.contains("in 30 days"), "{plain}");
    rig.execute("UPDATE ledger SET cause = 'job', job = 1, cost = 12000000");
    let listed = rig.ask("1", "/jobs").await;
    assert!(
        listed.contains(", $0.01 in 30 days, about 1.2 ct a run, $4.32 a month: look outside"),
        "{listed}"
    );
    rig.finish().await;
}

#[tokio::test]
async fn a_new_job_is_told_with_its_expected_cost_once() {
    let (hands, clock) = tokio::sync::watch::channel(Utc::now());
    let usual = TokenPrices::of_dollars(100.0, 100.0, 100.0, 1_000.0);
    let prices = [("script (none)".to_owned(), Price { usual, long: None })];
    let models = Models::default().with_prices(Prices::new(prices));
    let clock = Clock::with_hands(clock);
    let mut rig = Rig::of(RigOptions { models, clock, ..RigOptions::default() }).await;
    rig.ask("1", "hello").await;
    assert!(rig.ask("1", "/jobs add every 2h | look outside").await.starts_with("Created"));
    let mut told = Vec::new();
    for run in 1..=2 {
        hands.send_replace(Utc::now() + chrono::Duration::minutes(121 * run));
        told.push(rig.next_message("1").await);
    }
    // Ten tokens read and two written, four times until it ends, are 1.2 ct; there are 360 runs in a month.
    let line = "Job 1 costs about 1.2 ct a run, $4.32 a month. /jobs lists it.";
    assert!(told[0].ends_with(line), "{told:?}");
    assert!(!told[1].contains("costs"), "{told:?}");
    let listed = rig.ask("1", "/jobs").await;
    assert!(listed.contains(", about 1.2 ct a run, $4.32 a month: look outside"), "{listed}");
    rig.finish().await;
}

#[test]
fn the_cost_of_a_month_is_reckoned_from_the_due_times() {
    let now = Utc.with_ymd_and_hms(2026, 11, 2, 12, 0, 0).unwrap();
    let cron = |fields: &str| Timing::Cron { fields: fields.to_owned(), zone: chrono_tz::UTC };
    for (timing, runs) in [
        (Timing::At(now), None),
        (Timing::Every { seconds: 7_200, from: now }, Some(360)),
        (cron("30 7 * * *"), Some(30)),
        (cron("30 7 * * 1-5"), Some(22)),
        (cron("0 0 29 2 *"), Some(0)),
        // So many are reckoned from the first 200.
        (cron("*/10 * * * *"), Some(4_320)),
    ] {
        assert_eq!(runs_a_month(&timing, now), runs, "{timing:?}");
    }
    for (cost, words) in [
        (4_000_000, "about 0.4 ct a run, 9.0 ct a month"),
        (400, "about less than 0.1 ct a run, less than 0.1 ct a month"),
    ] {
        let month = if cost == 400 { 9_000 } else { 90_000_000 };
        assert_eq!(replies::job_expected(cost, month), words);
    }
}
