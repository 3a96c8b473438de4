//! Budgets: how much models may use in a day or a month, by whom and for what. What is over is refused before the
//! call; background work stops first, the owner's own chat last.

pub mod reserve;
pub mod stored;

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike as _, Duration, NaiveDate, NaiveTime, TimeZone as _, Utc};
use chrono_tz::Tz;
use serde::Serialize;

use crate::conversation::ledger::sums::{LedgerPart, Period, SumSince};
use crate::conversation::ledger::{CallCause, Payer};
use crate::people::Role;
use crate::provider::prices::Cost;
use crate::types::origin::TaskKind;
use crate::types::person::PersonId;
use crate::types::persona::PersonaName;

/// The default budget of a guest in a month, in tokens: at least eight short exchanges.
pub const GUEST_TOKENS: u64 = 5_000;

/// A month of a guest, from the first use on: who comes on the 31st does not begin anew on the 1st.
const GUEST_MONTH: Duration = Duration::days(30);

/// People are warned at so many percent of a budget.
const WARNED_AT: u64 = 80;

/// The parts of the budget for everything, in percent, beyond which jobs and the heartbeat, and people other than the
/// owner, are refused.
const BACKGROUND_PART: u64 = 80;
const OTHERS_PART: u64 = 90;

/// The most for one day or one month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Allowance {
    /// Read and written.
    pub tokens: Option<u64>,
    pub cost: Option<Cost>,
}

impl Allowance {
    pub fn is_none(&self) -> bool {
        self.tokens.is_none() && self.cost.is_none()
    }

    /// A part of it, in percent.
    fn part(self, percent: u64) -> Self {
        Self {
            tokens: self.tokens.map(|most| most.saturating_mul(percent) / 100),
            cost: self.cost.map(|most| Cost(most.0.saturating_mul(percent) / 100)),
        }
    }
}

/// The limits of a day and a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Budget {
    pub day: Allowance,
    pub month: Allowance,
}

impl Budget {
    pub fn of(&self, period: Period) -> Allowance {
        match period {
            Period::Day => self.day,
            Period::Month => self.month,
        }
    }
}

/// The budgets of the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// For everything together.
    pub total: Budget,
    /// For all jobs together.
    pub jobs: Budget,
    /// For each job.
    pub job: Budget,
    pub heartbeat: Budget,
    /// For each person, by their role.
    pub owner: Budget,
    pub admin: Budget,
    pub user: Budget,
    pub guest: Budget,
    /// For all who have a persona, together.
    pub personas: BTreeMap<PersonaName, Budget>,
}

impl Default for Budgets {
    fn default() -> Self {
        let none = Budget::default();
        let month = Allowance { tokens: Some(GUEST_TOKENS), cost: None };
        Self {
            total: none,
            jobs: none,
            job: none,
            heartbeat: none,
            owner: none,
            admin: none,
            user: none,
            guest: Budget { month, ..none },
            personas: BTreeMap::new(),
        }
    }
}

impl Budgets {
    /// The budget of the config for a scope. One for a person is that of nobody yet: the role's counts.
    pub fn of(&self, scope: Scope) -> Budget {
        match scope {
            Scope::Total => self.total,
            Scope::Jobs => self.jobs,
            Scope::EachJob | Scope::Job(_) => self.job,
            Scope::Heartbeat => self.heartbeat,
            Scope::Role(Role::Owner) => self.owner,
            Scope::Role(Role::Admin) => self.admin,
            Scope::Role(Role::User) => self.user,
            Scope::Role(Role::Guest) => self.guest,
            Scope::Persona(name) => self.personas.get(&name).copied().unwrap_or_default(),
            Scope::Person(_) => Budget::default(),
        }
    }
}

/// The calls that count for a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything together.
    Total,
    /// All jobs together.
    Jobs,
    /// Each job.
    EachJob,
    Job(i64),
    Heartbeat,
    /// Each person with this role.
    Role(Role),
    Person(PersonId),
    /// All who have this persona, together.
    Persona(PersonaName),
}

impl Scope {
    /// The scopes that the config can name.
    pub const OF_CONFIG: [Self; 8] = [
        Self::Total,
        Self::Jobs,
        Self::EachJob,
        Self::Heartbeat,
        Self::Role(Role::Owner),
        Self::Role(Role::Admin),
        Self::Role(Role::User),
        Self::Role(Role::Guest),
    ];

    /// As people write it, and as it is stored: `total`, `jobs`, `job`, `job 3`, `heartbeat`, `guest`, `p5`,
    /// `persona kid`.
    pub fn key(self) -> String {
        match self {
            Self::Total => "total".to_owned(),
            Self::Jobs => "jobs".to_owned(),
            Self::EachJob => "job".to_owned(),
            Self::Job(number) => format!("job {number}"),
            Self::Heartbeat => "heartbeat".to_owned(),
            Self::Role(role) => role.as_str().to_owned(),
            Self::Person(person) => person.to_string(),
            Self::Persona(name) => format!("persona {name}"),
        }
    }

    /// Reads a key; a job's number may stand behind `#`.
    pub fn parse(key: &str) -> Option<Self> {
        let given = key.trim();
        let key = given.to_ascii_lowercase();
        if key.starts_with("persona ") {
            return given.split_whitespace().nth(1)?.parse().ok().map(Self::Persona);
        }
        if let Some(scope) = Self::OF_CONFIG.into_iter().find(|scope| scope.key() == key) {
            return Some(scope);
        }
        if let Some(number) = key.strip_prefix("job ") {
            return number.trim().trim_start_matches('#').parse().ok().map(Self::Job);
        }
        key.strip_prefix('p')?.parse().ok().map(|id| Self::Person(PersonId(id)))
    }

    /// The part of the ledger that counts; none of a scope that stands for several.
    fn part(self) -> Option<LedgerPart> {
        match self {
            Self::Total => Some(LedgerPart::All),
            Self::Jobs => Some(LedgerPart::Cause(CallCause::Task(TaskKind::Job))),
            Self::Job(number) => Some(LedgerPart::Job(number)),
            Self::Heartbeat => Some(LedgerPart::Cause(CallCause::Task(TaskKind::Heartbeat))),
            Self::Person(person) => Some(LedgerPart::Person(person)),
            Self::Persona(name) => Some(LedgerPart::Persona(name)),
            Self::EachJob | Self::Role(_) => None,
        }
    }
}

/// The source of a period's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeriodStart {
    /// By the owner's clock: at midnight, on the first of the month.
    ByCalendar,
    /// With the first use, for 30 days.
    WithFirstUse,
}

/// A day or a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetWindow {
    pub since: DateTime<Utc>,
    pub until: DateTime<Utc>,
}

impl BudgetWindow {
    /// The day or the month of the calendar, by the owner's clock.
    pub fn of_calendar(period: Period, now: DateTime<Utc>, zone: Tz) -> Self {
        let today = now.with_timezone(&zone).date_naive();
        let first = today.with_day(1).unwrap_or(today);
        let (since, until) = match period {
            Period::Day => (today, today.succ_opt().unwrap_or(today)),
            Period::Month => (first, first + chrono::Months::new(1)),
        };
        Self { since: midnight(since, zone), until: midnight(until, zone) }
    }

    /// The 30 days that run; new ones if these are over, or the clock was set back before them.
    pub fn of_guest(began: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Self {
        let runs = |began: &DateTime<Utc>| *began <= now && now < *began + GUEST_MONTH;
        let since = began.filter(runs).unwrap_or(now);
        Self { since, until: since + GUEST_MONTH }
    }
}

/// The first moment of a day. Some zones skip midnight when they change their clocks.
fn midnight(day: NaiveDate, zone: Tz) -> DateTime<Utc> {
    let start = day.and_time(NaiveTime::MIN);
    let quarters = (0..16).map(|quarter| start + Duration::minutes(15 * quarter));
    let mut moments = quarters.filter_map(|wall| zone.from_local_datetime(&wall).earliest());
    moments.next().map_or_else(|| start.and_utc(), |moment| moment.with_timezone(&Utc))
}

/// A budget that counts for a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) scope: Scope,
    pub(super) part: LedgerPart,
    pub(super) period: Period,
    pub(super) allowance: Allowance,
    pub(super) begins: PeriodStart,
}

impl Bound {
    /// The part of the ledger that counts in its present period.
    fn sum(&self, window: BudgetWindow) -> SumSince {
        SumSince { part: self.part, period: self.period, since: window.since }
    }
}

/// The budgets that count for a call.
pub(super) fn bounds(
    budgets: &Budgets,
    stored: &stored::StoredBudgets,
    payer: &Payer,
) -> Vec<Bound> {
    let mut scopes = vec![(Scope::Total, stored.budget(budgets, &[Scope::Total]))];
    if payer.cause == CallCause::Task(TaskKind::Heartbeat) {
        scopes.push((Scope::Heartbeat, stored.budget(budgets, &[Scope::Heartbeat])));
    }
    if let (CallCause::Task(TaskKind::Job), Some(number)) = (payer.cause, payer.job) {
        scopes.push((Scope::Jobs, stored.budget(budgets, &[Scope::Jobs])));
        let job = Scope::Job(number);
        scopes.push((job, stored.budget(budgets, &[job, Scope::EachJob])));
    }
    if let Some(name) = payer.persona {
        let scope = Scope::Persona(name);
        scopes.push((scope, stored.budget(budgets, &[scope])));
    }
    if let Some(person) = payer.person {
        let scope = Scope::Person(person);
        scopes.push((scope, stored.budget(budgets, &[scope, Scope::Role(payer.role)])));
    }
    let mut bounds = Vec::new();
    for (scope, budget) in scopes {
        for period in [Period::Day, Period::Month] {
            let allowance = match scope {
                Scope::Total => budget.of(period).part(part_of_total(payer)),
                _ => budget.of(period),
            };
            let Some(part) = scope.part().filter(|_| !allowance.is_none()) else { continue };
            let is_guests = matches!(scope, Scope::Person(_)) && payer.role == Role::Guest;
            let begins = match is_guests && period == Period::Month {
                true => PeriodStart::WithFirstUse,
                false => PeriodStart::ByCalendar,
            };
            bounds.push(Bound { scope, part, period, allowance, begins });
        }
    }
    bounds
}

/// The part of the budget for everything that a call may use, in percent.
fn part_of_total(payer: &Payer) -> u64 {
    let is_background = match payer.cause {
        CallCause::Task(kind) => kind.acts_by_itself(),
        CallCause::Memory => true,
        CallCause::Chat | CallCause::Aside | CallCause::Compaction | CallCause::Notes => false,
    };
    match payer.role {
        _ if is_background => BACKGROUND_PART,
        Role::Owner => 100,
        _ => OTHERS_PART,
    }
}
