//! The running sums of budgets are the sums of the ledger, whatever happens to that.

use std::sync::atomic::{AtomicU64, Ordering};

use peacrab::conversation::ledger::sums::{LedgerFilter, spent_since};
use peacrab::conversation::ledger::{book_all_estimated, change_person, prune_usage};
use peacrab::store::Time;
use peacrab::types::persona::PersonaName;
use proptest::prelude::*;

use super::*;
use crate::support::effort;

#[derive(Clone, Copy, Debug)]
enum Event {
    Call {
        person: Option<i64>,
        cause: CallCause,
        has_persona: bool,
        tokens: (u64, u64),
    },
    Ends {
        call: usize,
        tokens: (u64, u64),
    },
    IsTakenBack(usize),
    Restart,
    /// One person joins another.
    Joins(i64, i64),
    /// The clock moves, also back.
    Hours(i64),
    Prunes,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let person = 1..4_i64;
    let tokens = (1..2_000_u64, 200..600_u64);
    let cause = prop_oneof![
        4 => Just(CallCause::Chat),
        2 => Just(CallCause::Task(TaskKind::Job)),
        1 => Just(CallCause::Task(TaskKind::Subagent)),
        1 => Just(CallCause::Task(TaskKind::Heartbeat))
    ];
    let call = (proptest::option::weighted(0.8, person.clone()), cause, any::<bool>());
    let event = prop_oneof![
        8 => (call, tokens.clone()).prop_map(|((person, cause, has_persona), tokens)| Event::Call {
            person, cause, has_persona, tokens
        }),
        6 => (0..20_usize, tokens).prop_map(|(call, tokens)| Event::Ends { call, tokens }),
        2 => (0..20_usize).prop_map(Event::IsTakenBack),
        1 => Just(Event::Restart),
        1 => (person.clone(), person).prop_map(|(from, to)| Event::Joins(from, to)),
        3 => (-3..30_i64).prop_map(Event::Hours),
        1 => Just(Event::Prunes),
    ];
    proptest::collection::vec(event, 1..60)
}

/// Every kind of budget, none of it ever used up.
fn all() -> Budgets {
    let much = tokens(1_000_000_000);
    let each = Budget { day: much, month: much };
    let personas = [(kid(), each)].into();
    Budgets {
        total: each,
        jobs: each,
        job: each,
        heartbeat: each,
        user: each,
        guest: each,
        personas,
        ..daily(1)
    }
}

fn kid() -> PersonaName {
    "kid".parse().unwrap()
}

fn part(key: &str) -> LedgerFilter {
    let number = || key.split(' ').nth(1).unwrap().parse().unwrap();
    match key.split(' ').next().unwrap() {
        "all" => LedgerFilter::All,
        "cause" => LedgerFilter::Cause(CallCause::parse(key.split(' ').nth(1).unwrap()).unwrap()),
        "job" => LedgerFilter::Job(number()),
        "person" => LedgerFilter::Person(PersonId(number())),
        "persona" => LedgerFilter::Persona(kid()),
        _ => panic!("{key}"),
    }
}

/// Fails if a running sum is not that of the ledger.
fn check(scene: &Scene) -> usize {
    let read = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    };
    let mut rows =
        scene.store.prepare("SELECT part, since, tokens, cost, reserved FROM ledger_sums").unwrap();
    let rows: Vec<(String, Time, u64, u64, u64)> =
        rows.query_map([], read).unwrap().collect::<Result<_, _>>().unwrap();
    for (key, since, tokens, cost, reserved) in &rows {
        let since = since.0;
        let spent = spent_since(&scene.store, part(key), since).unwrap();
        assert_eq!(
            (spent.tokens, spent.cost, spent.reserved),
            (*tokens, Cost(*cost), *reserved),
            "{key}"
        );
    }
    rows.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: effort::cases(40), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_running_sum_is_that_of_the_ledger(events in events()) {
        let scene = Scene::new(all());
        let mut now = at(5, 30, 20);
        for event in events {
            apply(&scene, event, &mut now);
            check(&scene);
        }
    }
}

fn apply(scene: &Scene, event: Event, now: &mut DateTime<Utc>) {
    let store = &scene.store;
    let ids = || -> Vec<i64> {
        let mut rows = store.prepare("SELECT id FROM ledger ORDER BY id DESC").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    match event {
        Event::Call { person, cause, has_persona, tokens } => {
            let role = if person == Some(3) { Role::Guest } else { Role::User };
            let payer = Payer {
                person: person.map(PersonId),
                role,
                cause,
                job: matches!(cause, CallCause::Task(TaskKind::Job | TaskKind::Subagent))
                    .then_some(7),
                persona: has_persona.then(kid),
            };
            scene.asks(payer, tokens, *now);
        }
        Event::Ends { call, tokens: (input, output) } => {
            let Some(id) = ids().get(call).copied() else { return };
            let settle = "UPDATE ledger SET state = 'settled', input = ?2, output = ?3, cost = NULL WHERE id = ?1";
            store.execute(settle, (id, input, output)).unwrap();
        }
        Event::IsTakenBack(call) => {
            let Some(id) = ids().get(call).copied() else { return };
            store.execute("DELETE FROM ledger WHERE id = ?", [id]).unwrap();
        }
        Event::Restart => drop(book_all_estimated(store).unwrap()),
        Event::Joins(from, to) => change_person(store, PersonId(from), PersonId(to)).unwrap(),
        Event::Hours(hours) => *now += Duration::hours(hours),
        Event::Prunes => drop(prune_usage(store, *now - Duration::hours(40)).unwrap()),
    }
}

/// The instructions of SQLite that a call costs.
fn instructions(scene: &mut Scene, now: DateTime<Utc>) -> u64 {
    static COUNTED: AtomicU64 = AtomicU64::new(0);
    let count = || {
        COUNTED.fetch_add(1, Ordering::Relaxed);
        false
    };
    COUNTED.store(0, Ordering::Relaxed);
    scene.store.progress_handler(1, Some(count)).unwrap();
    scene.grants(payer(1, Role::User), (100, 300), now).unwrap();
    scene.store.progress_handler(0, None::<fn() -> bool>).unwrap();
    COUNTED.load(Ordering::Relaxed)
}

#[test]
fn a_call_costs_the_same_after_thousands_of_calls() {
    let mut scene = Scene::new(all());
    let now = at(5, 4, 12);
    for _ in 0..3 {
        scene.grants(payer(1, Role::User), (100, 300), now).unwrap();
    }
    let at_first = instructions(&mut scene, now);
    for _ in 0..3_000 {
        scene.grants(payer(1, Role::User), (100, 300), now).unwrap();
    }
    let later = instructions(&mut scene, now);
    assert!(later <= at_first + 10, "{at_first} instructions, later {later}");
    // A day and a month, of everything and of the person.
    assert_eq!(check(&scene), 4);
}
