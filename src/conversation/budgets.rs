//! Budgets: the limits of model usage in a day or a month, by person and purpose. A call over a budget is refused before
//! it is made. Background tasks stop first, the owner's own chat last.

pub mod reserve;
pub mod stored;

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike as _, Duration, NaiveDate, NaiveTime, TimeZone as _, Utc};
use chrono_tz::Tz;
use serde::Serialize;

use crate::conversation::ledger::sums::{LedgerFilter, Period, SumSince};
use crate::conversation::ledger::{CallCause, Payer};
use crate::people::Role;
use crate::provider::prices::Cost;
use crate::types::origin::TaskKind;
use crate::types::person::PersonId;
use crate::types::persona::PersonaName;

/// The default monthly budget of a guest in tokens: at least eight short exchanges.
pub const GUEST_TOKENS: u64 = 5_000;

/// The length of a guest's month, which begins with the first use, so that one who comes on the 31st does not get a new
/// budget on the 1st.
const GUEST_MONTH: Duration = Duration::days(30);

/// Percentage of a budget at which people are warned.
const WARNED_AT: u64 = 80;

/// Percentages of the total budget beyond which calls are refused: those of jobs and the heartbeat, and those of people
/// other than the owner.
const BACKGROUND_PART: u64 = 80;
const OTHERS_PART: u64 = 90;

/// The limit for one day or one month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Allowance {
    /// Tokens read and written.
    pub tokens: Option<u64>,
    pub cost: Option<Cost>,
}

impl Allowance {
    pub fn is_none(&self) -> bool {
        self.tokens.is_none() && self.cost.is_none()
    }

    /// Returns a percentage of the allowance.
    fn part(self, percent: u64) -> Self {
        Self {
            tokens: self.tokens.map(|max| max.saturating_mul(percent) / 100),
            cost: self.cost.map(|max| Cost(max.0.saturating_mul(percent) / 100)),
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
    /// For all calls together.
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
    /// For all people with a persona, together.
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
    /// Returns the config's budget for a scope. Empty for a person: the role's budget applies.
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
    /// All calls together.
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
    /// All people with this persona, together.
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

    /// Returns the form for people and for the store: `total`, `jobs`, `job`, `job 3`, `heartbeat`, `guest`, `p5`,
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

    /// Parses a key. A job's number may follow a `#`.
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

    /// Returns the part of the ledger that counts for the scope. None for a scope that stands for several.
    fn part(self) -> Option<LedgerFilter> {
        match self {
            Self::Total => Some(LedgerFilter::All),
            Self::Jobs => Some(LedgerFilter::Cause(CallCause::Task(TaskKind::Job))),
            Self::Job(number) => Some(LedgerFilter::Job(number)),
            Self::Heartbeat => Some(LedgerFilter::Cause(CallCause::Task(TaskKind::Heartbeat))),
            Self::Person(person) => Some(LedgerFilter::Person(person)),
            Self::Persona(name) => Some(LedgerFilter::Persona(name)),
            Self::EachJob | Self::Role(_) => None,
        }
    }
}

/// The rule for a period's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeriodStart {
    /// In the owner's time zone: at midnight, on the first of the month.
    ByCalendar,
    /// With the first use; the period takes 30 days.
    WithFirstUse,
}

/// The beginning and the end of a day or a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetWindow {
    pub since: DateTime<Utc>,
    pub until: DateTime<Utc>,
}

impl BudgetWindow {
    /// Returns the calendar day or month in the owner's time zone.
    pub fn of_calendar(period: Period, now: DateTime<Utc>, zone: Tz) -> Self {
        let today = now.with_timezone(&zone).date_naive();
        let first = today.with_day(1).unwrap_or(today);
        let (since, until) = match period {
            Period::Day => (today, today.succ_opt().unwrap_or(today)),
            Period::Month => (first, first + chrono::Months::new(1)),
        };
        Self { since: midnight(since, zone), until: midnight(until, zone) }
    }

    /// Returns the current 30 days, or new ones if these are over, or the clock was set back before them.
    pub fn of_guest(began: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Self {
        let contains_now = |began: &DateTime<Utc>| *began <= now && now < *began + GUEST_MONTH;
        let since = began.filter(contains_now).unwrap_or(now);
        Self { since, until: since + GUEST_MONTH }
    }
}

/// Returns the first moment of a day. Some zones skip midnight when they change their clocks.
fn midnight(day: NaiveDate, zone: Tz) -> DateTime<Utc> {
    let start = day.and_time(NaiveTime::MIN);
    let quarters = (0..16).map(|quarter| start + Duration::minutes(15 * quarter));
    let mut moments = quarters.filter_map(|wall| zone.from_local_datetime(&wall).earliest());
    moments.next().map_or_else(|| start.and_utc(), |moment| moment.with_timezone(&Utc))
}

/// A budget that applies to a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApplicableBudget {
    pub(super) scope: Scope,
    pub(super) part: LedgerFilter,
    pub(super) period: Period,
    pub(super) allowance: Allowance,
    pub(super) begins: PeriodStart,
}

impl ApplicableBudget {
    /// Returns the part of the ledger that counts in its present period.
    fn sum(&self, window: BudgetWindow) -> SumSince {
        SumSince { part: self.part, period: self.period, since: window.since }
    }
}

/// Returns the budgets that apply to a call.
pub(super) fn bounds(
    budgets: &Budgets,
    stored: &stored::StoredBudgets,
    payer: &Payer,
) -> Vec<ApplicableBudget> {
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
            bounds.push(ApplicableBudget { scope, part, period, allowance, begins });
        }
    }
    bounds
}

/// Returns the percentage of the total budget that a call may use.
fn part_of_total(payer: &Payer) -> u64 {
    let is_background = match payer.cause {
        CallCause::Task(kind) => kind.starts_without_request(),
        CallCause::Memory => true,
        CallCause::Chat | CallCause::Aside | CallCause::Compaction | CallCause::Notes => false,
    };
    match payer.role {
        _ if is_background => BACKGROUND_PART,
        Role::Owner => 100,
        _ => OTHERS_PART,
    }
}
