//! `[budgets.NAME]`, and the prices in `[providers.NAME]`: what models cost, and how much they may.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::config::reading::NamedSection;
use crate::conversation::budgets::{Allowance, Budget, Budgets, Scope};
use crate::people::Role;
use crate::provider::prices::{Cost, Price, TokenPrices};

use super::hints::hint;
use super::reading::{ConfigSource, Section};
use super::values::Within;

/// More than anybody wants to pay for.
pub(super) const TOKENS_MOST: u32 = 4_000_000_000;
const DOLLARS_MOST: f64 = 1_000_000.0;

/// An amount of dollars, with or without a point.
#[derive(Clone, Copy, JsonSchema)]
#[schemars(with = "f64", title = "dollars")]
pub(super) struct Dollars(pub(super) f64);

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DollarsVisitor)
    }
}

struct DollarsVisitor;

impl Visitor<'_> for DollarsVisitor {
    type Value = Dollars;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount of dollars, such as 5 or 0.25")
    }

    fn visit_f64<E: Error>(self, dollars: f64) -> Result<Dollars, E> {
        match (0.0..=DOLLARS_MOST).contains(&dollars) {
            true => Ok(Dollars(dollars)),
            false => Err(E::custom(format!("must be from 0 to {DOLLARS_MOST}"))),
        }
    }

    fn visit_i64<E: Error>(self, dollars: i64) -> Result<Dollars, E> {
        let dollars = i32::try_from(dollars)
            .map_err(|_| E::custom(format!("must be from 0 to {DOLLARS_MOST}")))?;
        self.visit_f64(dollars.into())
    }
}

/// A budget: how much models may use in a day and in a month. NAME is total (everything together), jobs
/// (all jobs together), job (each job), heartbeat, or a role for each person with it: owner, admin, user,
/// guest. The owner can change it with /budget. A call that does not fit is refused with the time at
/// which the budget is full again; people are warned at 80 %. Jobs and the heartbeat can use 80 % of the
/// total, other people 90 %, the owner's own chats all of it. Days and months are the owner's ([agent]
/// timezone); a guest's month is the 30 days after the first message.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BudgetSection {
    /// Tokens in a day, read (cached ones included) and written. 0: no limit.
    pub(super) tokens_per_day: Option<Within<0, TOKENS_MOST>>,
    /// Tokens in a month. Default for guest: 5000, which are at least eight short exchanges; guests with
    /// such a budget get a short prompt without the older messages. 0: no limit.
    pub(super) tokens_per_month: Option<Within<0, TOKENS_MOST>>,
    /// Dollars in a day. Calls with an unknown price do not count; `peacrab usage` names them. 0: no limit.
    pub(super) dollars_per_day: Option<Dollars>,
    /// Dollars in a month. 0: no limit.
    pub(super) dollars_per_month: Option<Dollars>,
}

impl BudgetSection {
    pub(super) fn over(&self, default: Budget) -> Budget {
        let tokens = |set: Option<Within<0, TOKENS_MOST>>, default: Option<u64>| match set {
            Some(set) => Some(u64::from(set.0)).filter(|most| *most > 0),
            None => default,
        };
        let cost = |set: Option<Dollars>, default: Option<Cost>| match set {
            Some(set) => Some(Cost::from_dollars(set.0)).filter(|most| most.0 > 0),
            None => default,
        };
        Budget {
            day: Allowance {
                tokens: tokens(self.tokens_per_day, default.day.tokens),
                cost: cost(self.dollars_per_day, default.day.cost),
            },
            month: Allowance {
                tokens: tokens(self.tokens_per_month, default.month.tokens),
                cost: cost(self.dollars_per_month, default.month.cost),
            },
        }
    }
}

/// The budgets of the file.
pub(super) fn budgets(
    source: &ConfigSource<'_>,
    sections: BTreeMap<String, BudgetSection>,
) -> Budgets {
    let mut budgets = Budgets::default();
    for NamedSection { name, place, read: section } in source.named("budgets", sections) {
        let Some(scope) = Scope::OF_CONFIG.into_iter().find(|scope| scope.key() == name) else {
            let names: Vec<_> = Scope::OF_CONFIG.iter().map(|scope| scope.key()).collect();
            let meant = hint(&name, names.iter().map(String::as_str));
            place.fault(format!("{} is not a budget{meant}", place.title()));
            continue;
        };
        let budget = match scope {
            Scope::Total => &mut budgets.total,
            Scope::Jobs => &mut budgets.jobs,
            Scope::EachJob => &mut budgets.job,
            Scope::Heartbeat => &mut budgets.heartbeat,
            Scope::Role(Role::Owner) => &mut budgets.owner,
            Scope::Role(Role::Admin) => &mut budgets.admin,
            Scope::Role(Role::User) => &mut budgets.user,
            Scope::Role(Role::Guest) => &mut budgets.guest,
            Scope::Job(_) | Scope::Person(_) | Scope::Persona(_) => continue,
        };
        *budget = section.over(*budget);
    }
    budgets
}

/// Dollars for a million tokens, from a provider's section.
pub(super) struct PriceKeys {
    pub(super) input: Option<Dollars>,
    pub(super) cached: Option<Dollars>,
    pub(super) cache_write: Option<Dollars>,
    pub(super) output: Option<Dollars>,
}

impl PriceKeys {
    /// Returns the price. None if the section has no key for it.
    pub(super) fn price(&self, place: &Section<'_, '_>) -> Option<Price> {
        let Self { input, cached, cache_write, output } = self;
        match (input, output) {
            (Some(Dollars(input)), Some(Dollars(output))) => {
                let or_input = |it: &Option<Dollars>| it.map_or(*input, |it| it.0);
                let usual = TokenPrices::of_dollars(
                    *input,
                    or_input(cached),
                    or_input(cache_write),
                    *output,
                );
                Some(Price { usual, long: None })
            }
            (None, None) if cached.is_none() && cache_write.is_none() => None,
            _ => {
                place.fault(format!(
                    "{} says only a part of its price: it needs `price_input` and `price_output`",
                    place.title()
                ));
                None
            }
        }
    }
}
