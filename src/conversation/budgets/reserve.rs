//! Reservations: before a model is called, the maximum usage of the call is entered, so that parallel calls cannot
//! exceed a budget together. The real usage replaces the reservation in the transaction of the call's result.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::{Connection, OptionalExtension, params};

use super::stored::StoredBudgets;
use super::{
    Allowance, ApplicableBudget, BudgetWindow, Budgets, PeriodStart, Scope, WARNED_AT, bounds,
};
use crate::conversation::ledger::sums::{Period, Spent};
use crate::conversation::ledger::{self, LedgerId, Payer, Reserved};
use crate::provider::Usage;
use crate::provider::prices::Price;
use crate::store::Time;
use crate::types::session::TurnId;

/// Least number of tokens of an answer. If a budget has fewer left, the call is refused.
pub const OUTPUT_MIN: u64 = 200;

/// A requested model call.
#[derive(Clone, Debug)]
pub struct WantedCall {
    pub payer: Payer,
    pub provider: String,
    pub price: Option<Price>,
    pub turn: Option<TurnId>,
    /// Estimated tokens of the prompt.
    pub input: u64,
    /// Maximum tokens of the answer.
    pub output: u64,
}

/// The outcome of a reservation.
#[derive(Clone, Debug, PartialEq)]
pub enum Reservation {
    /// No budget applies to the call.
    Unbudgeted,
    /// The answer may have `output` tokens. People must get warnings about budgets that are nearly used.
    Made {
        row: LedgerId,
        output: u64,
        warnings: Vec<BudgetState>,
    },
    Refused(BudgetState),
}

/// A budget and its usage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetState {
    pub scope: Scope,
    pub period: Period,
    pub allowance: Allowance,
    pub spent: Spent,
    pub since: DateTime<Utc>,
    /// Time at which it is full again.
    pub until: DateTime<Utc>,
}

impl BudgetState {
    fn new(bound: &ApplicableBudget, window: BudgetWindow, spent: Spent) -> Self {
        let ApplicableBudget { scope, period, allowance, .. } = *bound;
        let BudgetWindow { since, until } = window;
        Self { scope, period, allowance, spent, since, until }
    }

    /// Returns the used percentage.
    pub fn percent(&self) -> u64 {
        let tokens = self.allowance.tokens.map(|max| percent(self.spent.tokens, max));
        let cost = self.allowance.cost.map(|max| percent(self.spent.cost.0, max.0));
        tokens.max(cost).unwrap_or_default()
    }

    /// Returns the tokens that an answer may have.
    fn output_left(&self, wanted: &WantedCall) -> u64 {
        let by_tokens = self
            .allowance
            .tokens
            .map(|max| max.saturating_sub(self.spent.tokens).saturating_sub(wanted.input));
        let by_cost = self.allowance.cost.zip(wanted.price).and_then(|(max, price)| {
            let cost_left = crate::provider::prices::Cost(max.0.saturating_sub(self.spent.cost.0));
            price.output_for(cost_left, wanted.input)
        });
        by_tokens.unwrap_or(u64::MAX).min(by_cost.unwrap_or(u64::MAX))
    }
}

fn percent(used: u64, max: u64) -> u64 {
    let percent = u128::from(used) * 100 / u128::from(max.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// Returns true if a budget applies to calls of this payer.
pub fn is_budgeted(store: &Connection, budgets: &Budgets, payer: &Payer) -> rusqlite::Result<bool> {
    Ok(!bounds(budgets, &StoredBudgets::read(store)?, payer).is_empty())
}

/// Reserves the usage of a call, lowered to the rest of each budget; or refuses the call, with the exhausted budget that
/// is full again last.
pub fn reserve(
    store: &Connection,
    budgets: &Budgets,
    zone: Tz,
    wanted: &WantedCall,
    now: DateTime<Utc>,
) -> rusqlite::Result<Reservation> {
    let bounds = bounds(budgets, &StoredBudgets::read(store)?, &wanted.payer);
    if bounds.is_empty() {
        return Ok(Reservation::Unbudgeted);
    }
    let (mut output, mut refused, mut nearly_used) =
        (wanted.output, None::<BudgetState>, Vec::new());
    for bound in &bounds {
        let window = window_of(store, bound, zone, now)?;
        let spent = bound.sum(window).keep(store)?;
        let state = BudgetState::new(bound, window, spent);
        let output_left = state.output_left(wanted);
        if output_left < OUTPUT_MIN.min(wanted.output) {
            refused = refused.filter(|other| other.until >= state.until).or(Some(state));
        }
        if state.percent() >= WARNED_AT {
            nearly_used.push(state);
        }
        output = output.min(output_left);
    }
    if let Some(state) = refused {
        return Ok(Reservation::Refused(state));
    }
    let usage = Usage { input: wanted.input, output, ..Usage::default() };
    let cost = wanted.price.map(|price| price.cost(usage));
    let WantedCall { payer, provider, turn, .. } = wanted;
    let reserved = Reserved { payer, provider, turn: *turn, usage, cost };
    let row = ledger::reserve(store, &reserved, now)?;
    for bound in bounds.iter().filter(|bound| bound.begins == PeriodStart::WithFirstUse) {
        note_first_use(store, bound, now)?;
    }
    let mut warnings = Vec::new();
    for state in nearly_used {
        if note_warned(store, &state)? {
            warnings.push(state);
        }
    }
    Ok(Reservation::Made { row, output, warnings })
}

/// Returns the budgets that apply to a payer, and their usage.
pub fn states(
    store: &Connection,
    budgets: &Budgets,
    zone: Tz,
    payer: &Payer,
    now: DateTime<Utc>,
) -> rusqlite::Result<Vec<BudgetState>> {
    let bounds = bounds(budgets, &StoredBudgets::read(store)?, payer);
    bounds.iter().map(|bound| state_of(store, bound, zone, now)).collect()
}

/// All budgets, for the owner.
#[derive(Clone, Debug, Default)]
pub struct BudgetOverview {
    /// Budgets for one scope each.
    pub states: Vec<BudgetState>,
    /// Budgets that each member of a scope has.
    pub each: Vec<(Scope, Period, Allowance)>,
}

/// Returns all budgets, and their usage.
pub fn overview(
    store: &Connection,
    budgets: &Budgets,
    zone: Tz,
    now: DateTime<Utc>,
) -> rusqlite::Result<BudgetOverview> {
    let stored = StoredBudgets::read(store)?;
    let personas = budgets.personas.keys().map(|name| Scope::Persona(*name));
    let is_listed = |scope: &Scope| match scope {
        Scope::Persona(name) => budgets.personas.contains_key(name),
        scope => Scope::OF_CONFIG.contains(scope),
    };
    let set = stored.scopes().filter(|scope| !is_listed(scope));
    let mut overview = BudgetOverview::default();
    for scope in Scope::OF_CONFIG.into_iter().chain(personas).chain(set) {
        let budget = stored.budget(budgets, &[scope]);
        for period in [Period::Day, Period::Month] {
            let allowance = budget.of(period);
            match scope.part() {
                _ if allowance.is_none() => {}
                None => overview.each.push((scope, period, allowance)),
                Some(part) => {
                    // The role is unknown here: a stored beginning marks a guest's month of 30 days.
                    let period_start =
                        period_start(store, scope, period)?.filter(|_| period == Period::Month);
                    let begins = match (period_start, scope) {
                        (Some(_), Scope::Person(_)) => PeriodStart::WithFirstUse,
                        _ => PeriodStart::ByCalendar,
                    };
                    let bound = ApplicableBudget { scope, part, period, allowance, begins };
                    overview.states.push(state_of(store, &bound, zone, now)?);
                }
            }
        }
    }
    Ok(overview)
}

fn state_of(
    store: &Connection,
    bound: &ApplicableBudget,
    zone: Tz,
    now: DateTime<Utc>,
) -> rusqlite::Result<BudgetState> {
    let window = window_of(store, bound, zone, now)?;
    Ok(BudgetState::new(bound, window, bound.sum(window).spent(store)?))
}

fn window_of(
    store: &Connection,
    bound: &ApplicableBudget,
    zone: Tz,
    now: DateTime<Utc>,
) -> rusqlite::Result<BudgetWindow> {
    let ApplicableBudget { scope, period, begins, .. } = *bound;
    Ok(match begins {
        PeriodStart::ByCalendar => BudgetWindow::of_calendar(period, now, zone),
        PeriodStart::WithFirstUse => {
            BudgetWindow::of_guest(period_start(store, scope, period)?, now)
        }
    })
}

fn period_start(
    store: &Connection,
    scope: Scope,
    period: Period,
) -> rusqlite::Result<Option<DateTime<Utc>>> {
    let period_start: Option<Time> = store
        .prepare_cached("SELECT began FROM budget_periods WHERE scope = ? AND period = ?")?
        .query_row(params![scope.key(), period.as_str()], |row| row.get(0))
        .optional()?;
    Ok(period_start.map(|period_start| period_start.0))
}

fn note_first_use(
    store: &Connection,
    bound: &ApplicableBudget,
    now: DateTime<Utc>,
) -> rusqlite::Result<()> {
    let before = period_start(store, bound.scope, bound.period)?;
    let since = BudgetWindow::of_guest(before, now).since;
    if before == Some(since) {
        return Ok(());
    }
    put_period(store, bound.scope, bound.period, since).map(drop)
}

/// Records a warning. Returns false if people were warned before in this period.
fn note_warned(store: &Connection, state: &BudgetState) -> rusqlite::Result<bool> {
    let warned: Option<Time> = store
        .prepare_cached("SELECT warned FROM budget_periods WHERE scope = ? AND period = ?")?
        .query_row(params![state.scope.key(), state.period.as_str()], |row| row.get(0))
        .optional()?;
    if warned == Some(Time(state.since)) {
        return Ok(false);
    }
    put_period(store, state.scope, state.period, state.since)?;
    store
        .prepare_cached("UPDATE budget_periods SET warned = ? WHERE scope = ? AND period = ?")?
        .execute(params![Time(state.since), state.scope.key(), state.period.as_str()])?;
    Ok(true)
}

fn put_period(
    store: &Connection,
    scope: Scope,
    period: Period,
    period_start: DateTime<Utc>,
) -> rusqlite::Result<usize> {
    store
        .prepare_cached(
            "INSERT INTO budget_periods (scope, period, began) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET began = ?3",
        )?
        .execute(params![scope.key(), period.as_str(), Time(period_start)])
}
