//! Budgets among many people and many calls: what a crowd costs, and what a budget costs the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use peacrab::config::AgentConfig;
use peacrab::conversation::budgets::{Allowance, Budget, Budgets};
use peacrab::people::Access;
use peacrab::store::{CommitEvent, Observer, Phase, StoreOptions, Sync};

use crate::support::effort;
use crate::support::rig::{OWNER, Rig, RigOptions};

fn tokens(most: u64) -> Allowance {
    Allowance { tokens: Some(most), cost: None }
}

fn for_everybody() -> Access {
    Access { owners: vec![OWNER.to_owned()], allow: vec!["*".to_owned()], ..Access::default() }
}

#[tokio::test]
async fn a_crowd_of_guests_is_answered_or_refused_and_never_uses_more_than_there_is() {
    let guests = effort::times(100, 1_000);
    // Room for a few calls at a time, beside what all guests use in two rounds. Nine tenths of it are for others than
    // the owner.
    let most_of_all = 20_000 + u64::from(guests) * 27;
    let total = Budget { day: tokens(most_of_all), month: Allowance::default() };
    let budgets = Budgets { total, ..Budgets::default() };
    let limits = RigOptions::default().agent.limits;
    let agent = AgentConfig { budgets, limits, ..AgentConfig::default() };
    let most = Arc::new(Mutex::new(0));
    let mut rig =
        Rig::of(RigOptions { agent, access: for_everybody(), ..RigOptions::default() }).await;
    let chat = |guest: u32| format!("g{guest}");
    for round in 1..=2 {
        for guest in 0..guests {
            let id = (1_000 + guest).to_string();
            rig.say_as(&id, &chat(guest), &format!("hello {round}"));
        }
        // On a busy machine, a thousand answers take longer than one wait.
        for some in (0..=guests).step_by(50) {
            let least = ((round - 1) * guests + some) as usize;
            rig.wait_until(|rig| rig.home.got().borrow().len() >= least).await;
        }
        let (mut answered, mut refused) = (0, 0);
        for guest in 0..guests {
            let heard = rig.next_message(&chat(guest)).await;
            match heard.as_str() {
                "re: hello 1" | "re: hello 2" => answered += 1,
                _ => {
                    assert!(heard.contains("the rest is reserved"), "{heard}");
                    refused += 1;
                }
            }
            let sum = "SELECT CAST(ifnull(sum(input + output), 0) AS TEXT) FROM ledger";
            let used: u64 = rig.query(sum).remove(0).parse().unwrap();
            let mut most = most.lock().unwrap();
            *most = used.max(*most);
        }
        assert_eq!(answered + refused, guests);
        assert!(answered > 0, "all were refused");
    }
    let most = *most.lock().unwrap();
    assert!(most <= most_of_all * 9 / 10, "{most}");
    // Each is a person with a ledger of their own, and the owner is still answered.
    let payers = "SELECT CAST(count(DISTINCT person) AS TEXT) FROM ledger WHERE state = 'settled'";
    assert!(rig.query(payers).remove(0).parse::<u32>().unwrap() > 1);
    assert_eq!(rig.ask("1", "and I?").await, "re: and I?");
    rig.finish().await;
}

/// The labels of commits, and how each was synced.
type SeenCommits = Arc<Mutex<Vec<(Vec<&'static str>, Sync)>>>;

/// The commits of some turns in a row, by label, and those that were synced.
async fn commits(budgets: Budgets) -> (BTreeMap<&'static str, usize>, Vec<&'static str>) {
    const TURNS: usize = 5;
    let seen = SeenCommits::default();
    let noted = Arc::clone(&seen);
    let observer: Observer = Arc::new(move |moment: CommitEvent<'_>| {
        if moment.phase == Phase::After {
            noted.lock().unwrap().push((moment.labels.to_vec(), moment.sync));
        }
    });
    let store = StoreOptions { observer: Some(observer), ..StoreOptions::default() };
    let limits = RigOptions::default().agent.limits;
    let agent = AgentConfig { budgets, limits, ..AgentConfig::default() };
    let mut rig = Rig::of(RigOptions { agent, store, ..RigOptions::default() }).await;
    rig.ask("1", "the first").await;
    rig.settled().await;
    seen.lock().unwrap().clear();
    for turn in 0..TURNS {
        rig.ask("1", &format!("number {turn}")).await;
        rig.settled().await;
    }
    let seen = seen.lock().unwrap().clone();
    let mut labels = BTreeMap::new();
    for label in seen.iter().flat_map(|(labels, _)| labels) {
        *labels.entry(*label).or_default() += 1;
    }
    let alone = seen.iter().filter(|(labels, sync)| labels.len() == 1 && *sync == Sync::Now);
    let synced = alone.flat_map(|(labels, _)| labels.clone()).collect();
    rig.finish().await;
    (labels, synced)
}

#[tokio::test]
async fn a_budget_costs_one_commit_for_each_call_and_no_sync() {
    let (without, _) = commits(Budgets::default()).await;
    let budget = Budget { day: tokens(1_000_000), month: tokens(10_000_000) };
    let all = Budgets { total: budget, owner: budget, ..Budgets::default() };
    let (mut with, synced) = commits(all).await;
    assert_eq!(with.remove("reserved"), Some(5));
    assert!(!synced.contains(&"reserved"), "{synced:?}");
    assert_eq!(with, without);
}
