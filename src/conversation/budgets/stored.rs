//! Budgets that the owner has set in a chat or on the command line. They override the config's, number by number.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::{Allowance, Budget, Budgets, Scope};
use crate::conversation::ledger::sums::Period;
use crate::provider::prices::Cost;
use crate::types::person::PersonId;

/// A number of a budget. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Tokens(u64),
    Cost(Cost),
}

/// A row of the table. For an unset number, the next scope applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StoredBudget {
    day: Allowance,
    month: Allowance,
}

/// All stored budgets, by scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredBudgets(BTreeMap<String, StoredBudget>);

impl StoredBudgets {
    pub fn read(store: &Connection) -> rusqlite::Result<Self> {
        let mut rows = store.prepare_cached(
            "SELECT scope, day_tokens, day_cost, month_tokens, month_cost FROM budgets",
        )?;
        let rows = rows.query_map([], |row| {
            let day = Allowance { tokens: row.get(1)?, cost: row.get(2)? };
            let month = Allowance { tokens: row.get(3)?, cost: row.get(4)? };
            Ok((row.get(0)?, StoredBudget { day, month }))
        })?;
        Ok(Self(rows.collect::<Result<_, _>>()?))
    }

    /// Returns the effective budget: each number is that of the first of these scopes that sets it, or else the config's
    /// for the last one.
    pub fn budget(&self, budgets: &Budgets, scopes: &[Scope]) -> Budget {
        let config = scopes.last().map(|scope| budgets.of(*scope)).unwrap_or_default();
        let rows: Vec<_> = scopes.iter().filter_map(|scope| self.0.get(&scope.key())).collect();
        let tokens = |field: fn(&StoredBudget) -> Option<u64>, config: Option<u64>| {
            rows.iter().find_map(|row| field(row)).or(config).filter(|max| *max > 0)
        };
        let cost = |field: fn(&StoredBudget) -> Option<Cost>, config: Option<Cost>| {
            rows.iter().find_map(|row| field(row)).or(config).filter(|max| max.0 > 0)
        };
        Budget {
            day: Allowance {
                tokens: tokens(|row| row.day.tokens, config.day.tokens),
                cost: cost(|row| row.day.cost, config.day.cost),
            },
            month: Allowance {
                tokens: tokens(|row| row.month.tokens, config.month.tokens),
                cost: cost(|row| row.month.cost, config.month.cost),
            },
        }
    }

    /// Returns the scopes with stored budgets.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.0.keys().filter_map(|key| Scope::parse(key))
    }
}

/// Sets a number of a budget.
pub fn set(
    store: &Connection,
    scope: Scope,
    period: Period,
    amount: Amount,
) -> rusqlite::Result<()> {
    let key = scope.key();
    store.execute("INSERT OR IGNORE INTO budgets (scope) VALUES (?)", [&key])?;
    let column = match (period, amount) {
        (Period::Day, Amount::Tokens(_)) => "day_tokens",
        (Period::Day, Amount::Cost(_)) => "day_cost",
        (Period::Month, Amount::Tokens(_)) => "month_tokens",
        (Period::Month, Amount::Cost(_)) => "month_cost",
    };
    let number = match amount {
        Amount::Tokens(tokens) => tokens,
        Amount::Cost(cost) => cost.0,
    };
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    store.execute(
        &format!("UPDATE budgets SET {column} = ? WHERE scope = ?"),
        params![number, key],
    )?;
    Ok(())
}

/// Deletes the stored budget of a scope, so that the config applies again. Returns false if there was none.
pub fn reset(store: &Connection, scope: Scope) -> rusqlite::Result<bool> {
    Ok(store.execute("DELETE FROM budgets WHERE scope = ?", [scope.key()])? > 0)
}

/// Gives the person `to` the stricter of both budgets, number by number, and deletes those of `from`.
pub fn merge(store: &Connection, from: PersonId, to: PersonId) -> rusqlite::Result<()> {
    let (from, to) = (Scope::Person(from).key(), Scope::Person(to).key());
    store.execute(
        "INSERT OR IGNORE INTO budgets (scope) SELECT ? FROM budgets WHERE scope = ?",
        [&to, &from],
    )?;
    for column in ["day_tokens", "day_cost", "month_tokens", "month_cost"] {
        // 0 means no limit; of two limits, the lower one is stricter.
        let update_stricter = format!(
            "UPDATE budgets AS b SET {column} = ifnull(
                 (SELECT min(o.{column}) FROM budgets o WHERE o.scope IN (?1, ?2) AND o.{column} > 0),
                 (SELECT max(o.{column}) FROM budgets o WHERE o.scope IN (?1, ?2)))
             WHERE b.scope = ?1"
        );
        store.execute(&update_stricter, [&to, &from])?;
    }
    store.execute("DELETE FROM budgets WHERE scope = ?", [&from])?;
    store.execute("DELETE FROM budget_periods WHERE scope = ?", [&from]).map(drop)
}

/// Copies the budget of one person to another.
pub fn copy(store: &Connection, from: PersonId, to: PersonId) -> rusqlite::Result<()> {
    let (from, to) = (Scope::Person(from).key(), Scope::Person(to).key());
    store.execute(
        "INSERT OR REPLACE INTO budgets (scope, day_tokens, day_cost, month_tokens, month_cost)
         SELECT ?1, day_tokens, day_cost, month_tokens, month_cost FROM budgets WHERE scope = ?2",
        [&to, &from],
    )?;
    Ok(())
}
