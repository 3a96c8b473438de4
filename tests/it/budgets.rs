//! Budgets: nobody uses more than they may, also at the same time, across crashes and resets, and people are told.

mod crowd;
mod sums;
mod turns;

use chrono::{DateTime, Duration, TimeZone as _, Utc};
use chrono_tz::Tz;
use peacrab::conversation::budgets::reserve::{Reservation, WantedCall, reserve, states};
use peacrab::conversation::budgets::stored::{Amount, reset, set};
use peacrab::conversation::budgets::{Allowance, Budget, Budgets, Scope};
use peacrab::conversation::ledger::sums::Period;
use peacrab::conversation::ledger::{CallCause, Payer, book_all_estimated};
use peacrab::people::Role;
use peacrab::provider::prices::{Cost, Price, TokenPrices};
use peacrab::store::Store;
use peacrab::types::origin::TaskKind;
use peacrab::types::person::PersonId;
use rusqlite::Connection;
use tempfile::TempDir;

/// A store, and what the config says.
struct Scene {
    _home: TempDir,
    store: Connection,
    budgets: Budgets,
    zone: Tz,
}

impl Scene {
    fn new(budgets: Budgets) -> Self {
        let home = tempfile::tempdir().unwrap();
        drop(Store::open(home.path(), &Default::default()).unwrap());
        let store = Connection::open(home.path().join("state.db")).unwrap();
        Self { _home: home, store, budgets, zone: Tz::Europe__Berlin }
    }

    fn asks(&self, payer: Payer, tokens: (u64, u64), now: DateTime<Utc>) -> Reservation {
        let (input, output) = tokens;
        let wanted = WantedCall {
            payer,
            provider: "script (none)".to_owned(),
            price: Some(Price { usual: TokenPrices::of_dollars(1.0, 1.0, 1.0, 1.0), long: None }),
            turn: None,
            input,
            output,
        };
        reserve(&self.store, &self.budgets, self.zone, &wanted, now).unwrap()
    }

    /// The longest answer that is granted; none if the call is refused.
    fn grants(&self, payer: Payer, tokens: (u64, u64), now: DateTime<Utc>) -> Option<u64> {
        match self.asks(payer, tokens, now) {
            Reservation::Unbudgeted => panic!("no budget counts"),
            Reservation::Made { output, .. } => Some(output),
            Reservation::Refused(_) => None,
        }
    }

    /// When the budget is full again that refuses a call.
    fn refused_until(&self, payer: Payer, now: DateTime<Utc>) -> DateTime<Utc> {
        match self.asks(payer, (100, 400), now) {
            Reservation::Refused(state) => state.until,
            other => panic!("{other:?}"),
        }
    }
}

fn tokens(most: u64) -> Allowance {
    Allowance { tokens: Some(most), cost: None }
}

fn payer(person: i64, role: Role) -> Payer {
    Payer { person: Some(PersonId(person)), role, cause: CallCause::Chat, job: None, persona: None }
}

fn at(month: u32, day: u32, hour: u32) -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, month, day, hour, 0, 0).unwrap()
}

fn daily(most: u64) -> Budgets {
    Budgets {
        user: Budget { day: tokens(most), month: Allowance::default() },
        ..Budgets::default()
    }
}

#[test]
fn two_calls_at_once_share_what_is_left() {
    let scene = Scene::new(daily(1_000));
    let (ann, now) = (payer(1, Role::User), at(5, 4, 12));
    assert_eq!(scene.grants(ann, (100, 600), now), Some(600));
    // The answer is lowered to what is left, and refused below 200 tokens.
    assert_eq!(scene.grants(ann, (50, 600), now), Some(250));
    assert_eq!(scene.grants(ann, (10, 600), now), None);
    // Nobody else has less for that.
    assert_eq!(scene.grants(payer(2, Role::User), (100, 600), now), Some(600));
    let used: i64 = scene
        .store
        .query_row("SELECT sum(input + output) FROM ledger WHERE person = 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(used, 1_000);
}

#[test]
fn what_was_reserved_when_the_program_ended_is_spent() {
    let scene = Scene::new(daily(1_000));
    let (ann, now) = (payer(1, Role::User), at(5, 4, 12));
    assert_eq!(scene.grants(ann, (100, 600), now), Some(600));
    assert_eq!(book_all_estimated(&scene.store).unwrap(), 1);
    assert_eq!(scene.grants(ann, (50, 600), now), Some(250));
    let states: Vec<String> = scene
        .store
        .prepare("SELECT state FROM ledger ORDER BY id")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(states, ["estimated", "reserved"]);
}

#[test]
fn who_has_no_budget_writes_nothing() {
    let scene = Scene::new(Budgets::default());
    for role in [Role::User, Role::Admin, Role::Owner] {
        let asked = scene.asks(payer(1, role), (1_000_000, 8_000), at(5, 4, 12));
        assert_eq!(asked, Reservation::Unbudgeted);
    }
    let rows: i64 =
        scene.store.query_row("SELECT count(*) FROM ledger", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0);
}

#[test]
fn days_and_months_are_the_owners_also_where_clocks_change() {
    // In Berlin it is summer from 29 March 2026 to 25 October.
    for (now, until) in [
        (at(3, 28, 12), at(3, 28, 23)),
        (at(3, 29, 12), at(3, 29, 22)),
        (at(10, 25, 12), at(10, 25, 23)),
        (at(5, 4, 22), at(5, 5, 22)),
    ] {
        let scene = Scene::new(daily(600));
        let ann = payer(1, Role::User);
        assert_eq!(scene.grants(ann, (100, 500), now), Some(500), "{now}");
        assert_eq!(scene.refused_until(ann, now), until);
        assert_eq!(scene.grants(ann, (100, 500), until - Duration::milliseconds(1)), None);
        assert_eq!(scene.grants(ann, (100, 500), until), Some(500));
    }
    let month = Budget { day: Allowance::default(), month: tokens(600) };
    let scene = Scene::new(Budgets { user: month, ..Budgets::default() });
    let ann = payer(1, Role::User);
    assert_eq!(scene.grants(ann, (100, 500), at(1, 31, 12)), Some(500));
    assert_eq!(scene.refused_until(ann, at(1, 31, 12)), at(1, 31, 23));
    assert_eq!(scene.grants(ann, (100, 500), at(1, 31, 23)), Some(500));
}

#[test]
fn a_guests_month_is_thirty_days_from_the_first_use() {
    let scene = Scene::new(Budgets::default());
    let guest = payer(1, Role::Guest);
    let first = at(1, 31, 12);
    assert_eq!(scene.grants(guest, (100, 4_900), first), Some(4_900));
    let until = first + Duration::days(30);
    assert_eq!(scene.refused_until(guest, first + Duration::days(7)), until);
    assert_eq!(scene.grants(guest, (100, 400), until - Duration::seconds(1)), None);
    // The next thirty days begin with the next use.
    let next = until + Duration::days(10);
    assert_eq!(scene.grants(guest, (100, 4_900), next), Some(4_900));
    assert_eq!(scene.refused_until(guest, next), next + Duration::days(30));
}

#[test]
fn a_clock_that_was_set_back_gives_nothing_away_for_ever_and_locks_nobody_out() {
    let scene = Scene::new(Budgets::default());
    let (guest, ahead) = (payer(1, Role::Guest), at(12, 1, 12));
    assert_eq!(scene.grants(guest, (100, 2_000), ahead), Some(2_000));
    // What was used by the wrong clock still counts, and is over thirty days after the right one.
    let now = at(5, 4, 12);
    assert_eq!(scene.grants(guest, (100, 4_900), now), Some(2_800));
    assert_eq!(scene.refused_until(guest, now), now + Duration::days(30));
    let scene = Scene::new(daily(600));
    let ann = payer(1, Role::User);
    assert_eq!(scene.grants(ann, (100, 500), at(5, 5, 12)), Some(500));
    assert_eq!(scene.grants(ann, (100, 500), at(5, 4, 12)), None);
}

#[test]
fn a_month_of_days_resets_each_day_and_the_month_holds_all_the_same() {
    let user = Budget { day: tokens(600), month: tokens(6_000) };
    let scene = Scene::new(Budgets { user, ..Budgets::default() });
    let ann = payer(1, Role::User);
    let granted = (1..=31).filter(|day| {
        let now = at(7, *day, 12);
        let granted = scene.grants(ann, (100, 500), now).is_some();
        assert!(!granted || scene.grants(ann, (100, 500), now).is_none(), "{day}");
        granted
    });
    assert_eq!(granted.count(), 10);
    // The later of the two is told.
    assert_eq!(scene.refused_until(ann, at(7, 10, 12)), at(7, 31, 22));
}

#[test]
fn background_work_stops_first_and_the_owners_chat_last() {
    let total = Budget { day: tokens(10_000), month: Allowance::default() };
    let (now, jobs) = (at(5, 4, 12), CallCause::Task(TaskKind::Job));
    let owner = payer(1, Role::Owner);
    let job = Payer { cause: jobs, job: Some(3), ..owner };
    let heartbeat = Payer { cause: CallCause::Task(TaskKind::Heartbeat), ..owner };
    let scene = Scene::new(Budgets { total, ..Budgets::default() });
    assert_eq!(scene.grants(owner, (3_900, 4_000), now), Some(4_000));
    assert_eq!(scene.grants(job, (10, 500), now), None);
    assert_eq!(scene.grants(heartbeat, (10, 500), now), None);
    assert_eq!(scene.grants(payer(2, Role::User), (10, 900), now), Some(900));
    assert_eq!(scene.grants(payer(2, Role::User), (10, 900), now), None);
    assert_eq!(scene.grants(owner, (10, 500), now), Some(500));
    assert_eq!(scene.grants(owner, (10, 5_000), now), Some(670));
    assert_eq!(scene.grants(owner, (10, 500), now), None);
}

#[test]
fn jobs_have_a_budget_together_and_each_its_own() {
    let budgets = Budgets {
        jobs: Budget { day: tokens(2_000), month: Allowance::default() },
        job: Budget { day: tokens(1_200), month: Allowance::default() },
        ..Budgets::default()
    };
    let (scene, now) = (Scene::new(budgets), at(5, 4, 12));
    let run = |number| Payer {
        cause: CallCause::Task(TaskKind::Job),
        job: Some(number),
        ..payer(1, Role::Owner)
    };
    assert_eq!(scene.grants(run(1), (200, 5_000), now), Some(1_000));
    assert_eq!(scene.grants(run(1), (10, 500), now), None);
    assert_eq!(scene.grants(run(2), (200, 5_000), now), Some(600));
    assert_eq!(scene.grants(run(3), (10, 500), now), None);
    assert_eq!(scene.asks(payer(1, Role::Owner), (10, 500), now), Reservation::Unbudgeted);
}

#[test]
fn money_counts_as_tokens_do() {
    let day = Allowance { tokens: None, cost: Some(Cost::from_dollars(0.001)) };
    let user = Budget { day, month: Allowance::default() };
    let (scene, now) = (Scene::new(Budgets { user, ..Budgets::default() }), at(5, 4, 12));
    let ann = payer(1, Role::User);
    // A dollar for a million tokens: a thousand of them.
    assert_eq!(scene.grants(ann, (300, 400), now), Some(400));
    assert_eq!(scene.grants(ann, (50, 4_000), now), Some(250));
    assert_eq!(scene.grants(ann, (10, 400), now), None);
}

#[test]
fn what_the_owner_sets_takes_the_place_of_the_config_number_by_number() {
    let (scene, now) = (Scene::new(daily(1_000)), at(5, 4, 12));
    let (ann, ben) = (payer(1, Role::User), payer(2, Role::User));
    let whose = Scope::Person(PersonId(1));
    set(&scene.store, whose, Period::Day, Amount::Tokens(500)).unwrap();
    assert_eq!(scene.grants(ann, (100, 9_000), now), Some(400));
    assert_eq!(scene.grants(ben, (100, 9_000), now), Some(900));
    // 0 is no limit, for one or for all with a role.
    set(&scene.store, whose, Period::Day, Amount::Tokens(0)).unwrap();
    assert_eq!(scene.asks(ann, (100, 9_000), now), Reservation::Unbudgeted);
    set(&scene.store, Scope::Role(Role::User), Period::Day, Amount::Tokens(5_000)).unwrap();
    assert_eq!(scene.grants(ben, (100, 9_000), now), Some(3_900));
    assert_eq!(scene.asks(ann, (100, 9_000), now), Reservation::Unbudgeted);
    assert!(reset(&scene.store, whose).unwrap());
    assert!(!reset(&scene.store, whose).unwrap());
    assert_eq!(scene.grants(ann, (100, 9_000), now), Some(4_400));
}

#[test]
fn people_are_warned_once_at_eighty_percent() {
    let (scene, now) = (Scene::new(daily(1_000)), at(5, 4, 12));
    let ann = payer(1, Role::User);
    let warned = |input, now| match scene.asks(ann, (input, 200), now) {
        Reservation::Made { warnings, .. } => {
            warnings.iter().map(|state| state.percent()).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(warned(580, now), Vec::<u64>::new());
    let states = states(&scene.store, &scene.budgets, scene.zone, &ann, now).unwrap();
    assert_eq!((states.len(), states[0].percent()), (1, 78));
    scene.store.execute("UPDATE ledger SET input = 590, output = 210", []).unwrap();
    assert_eq!(warned(0, now), [80]);
    scene.store.execute("DELETE FROM ledger WHERE id = 2", []).unwrap();
    assert_eq!(warned(0, now), Vec::<u64>::new());
    // The next day, anew.
    let tomorrow = now + Duration::days(1);
    assert_eq!(warned(650, tomorrow), Vec::<u64>::new());
    scene.store.execute("DELETE FROM ledger WHERE id < 3", []).unwrap();
    scene.store.execute("UPDATE ledger SET input = 800, output = 0", []).unwrap();
    assert_eq!(warned(0, tomorrow), [80]);
}

#[test]
fn a_thousand_guests_do_not_use_each_others_budgets() {
    let (scene, now) = (Scene::new(Budgets::default()), at(5, 4, 12));
    scene.store.execute_batch("BEGIN").unwrap();
    for round in 0..9_i64 {
        for guest in 1..=1_000 {
            let granted = scene.grants(payer(guest, Role::Guest), (100, 500), now);
            assert_eq!(granted.is_some(), round < 8, "{round} {guest}");
        }
    }
    scene.store.execute_batch("COMMIT").unwrap();
    let most: i64 = scene
        .store
        .query_row(
            "SELECT max(used) FROM (SELECT sum(input + output) used FROM ledger GROUP BY person)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(most, 4_800);
}

#[test]
fn scopes_are_read_as_they_are_written() {
    let scopes = [Scope::Job(3), Scope::Person(PersonId(5))];
    for scope in Scope::OF_CONFIG.into_iter().chain(scopes) {
        assert_eq!(Scope::parse(&scope.key()), Some(scope));
    }
    assert_eq!(Scope::parse("job #3"), Some(Scope::Job(3)));
    for wrong in ["", "job x", "p", "px", "everybody"] {
        assert_eq!(Scope::parse(wrong), None, "{wrong}");
    }
}
