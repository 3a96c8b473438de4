//! `/budget`: the budgets that count for somebody. The owner can change them.

use chrono::{DateTime, Utc};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::bus::journal::WaitingMessage;
use crate::conversation::budgets::Scope;
use crate::conversation::budgets::reserve::{BudgetState, overview, states};
use crate::conversation::budgets::stored::{self, Amount};
use crate::conversation::ledger::sums::Period;
use crate::conversation::ledger::{CallCause, Payer};
use crate::people::Role;
use crate::provider::prices::Cost;
use crate::replies;
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::services::TurnServices;
use crate::turn::spending::{Spending, payer_on};
use crate::types::message::ChatKind;

/// The most that a budget can be, in dollars.
const DOLLARS_MOST: f64 = 1_000_000.0;

/// A `/budget` subcommand, or the same from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetCommand {
    Show,
    Set { scope: Scope, period: Period, amount: Amount },
    Reset(Scope),
}

impl BudgetCommand {
    /// Parses no argument, `show`, `set WHOSE AMOUNT PER` or `reset WHOSE`. WHOSE may have two words: `job 3`.
    pub fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let words: Vec<_> = words.collect();
        match words.as_slice() {
            [] => Some(Self::Show),
            [verb] if verb.eq_ignore_ascii_case("show") => Some(Self::Show),
            [verb, whose @ .., amount, period] if verb.eq_ignore_ascii_case("set") => {
                let scope = Scope::parse(&whose.join(" "))?;
                let (period, amount) = (Period::parse(period)?, parse_amount(amount)?);
                Some(Self::Set { scope, period, amount })
            }
            [verb, whose @ ..] if verb.eq_ignore_ascii_case("reset") => {
                Scope::parse(&whose.join(" ")).map(Self::Reset)
            }
            _ => None,
        }
    }
}

/// Parses `20000`, `20,000`, `20k`, `$2` or `$0.50`.
fn parse_amount(text: &str) -> Option<Amount> {
    if let Some(dollars) = text.strip_prefix('$').or_else(|| text.strip_suffix('$')) {
        let dollars: f64 = dollars.parse().ok()?;
        let is_in_range = (0.0..=DOLLARS_MOST).contains(&dollars);
        return is_in_range.then(|| Amount::Cost(Cost::from_dollars(dollars)));
    }
    let text = text.replace([',', '_'], "").to_ascii_lowercase();
    let (digits, factor) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1_000),
        None => (text.as_str(), 1),
    };
    let tokens: u32 = digits.parse().ok()?;
    Some(Amount::Tokens(u64::from(tokens) * factor))
}

/// Answers `/budget`.
pub(super) async fn handle(
    turns: &TurnServices,
    control: &WaitingMessage,
    order: Option<BudgetCommand>,
) -> Result<(), StoreError> {
    let services = &turns.services;
    let channel = &control.inbound.from.channel;
    let payer = payer_on(services, channel, control.sender(), CallCause::Chat).await?;
    let may_change = payer.role == Role::Owner && control.inbound.chat_kind == ChatKind::Private;
    let spending = turns.spending.clone();
    let reply = match order {
        None if may_change => replies::BUDGET_USAGE.trim_start().to_owned(),
        Some(BudgetCommand::Show) if !may_change => {
            let read = move |store: &Connection| own_text(store, &spending, &payer, Utc::now());
            services.bus.store.read(read).await?
        }
        Some(order) if may_change => {
            return commits::apply_command(&services.bus.store, control, move |store| {
                let now = Utc::now();
                let text = apply_budget_command(store, &spending, order, now)?;
                match order {
                    BudgetCommand::Show if payer.person.is_some() => {
                        let own = states(store, &spending.budgets, spending.zone, &payer, now)?;
                        let is_own = |it: &&BudgetState| matches!(it.scope, Scope::Person(_));
                        let own = own.iter().filter(is_own);
                        let own: Vec<_> = own.map(|it| spending.shown(it, &payer)).collect();
                        let own = (!own.is_empty()).then(|| replies::budgets(&own));
                        Ok(own.into_iter().chain([text]).collect::<Vec<_>>().join("\n"))
                    }
                    _ => Ok(text),
                }
            })
            .await;
        }
        None | Some(_) => replies::BUDGET_FOR_OWNER.to_owned(),
    };
    commits::reply(&services.bus.store, control, reply).await
}

/// Returns the text with the budgets that count for one person.
fn own_text(
    store: &Connection,
    spending: &Spending,
    payer: &Payer,
    now: DateTime<Utc>,
) -> rusqlite::Result<String> {
    let states = states(store, &spending.budgets, spending.zone, payer, now)?;
    // Other budgets cover several persons, and are shown to the owner alone.
    let own = states.iter().filter(|state| matches!(state.scope, Scope::Person(_)));
    let own: Vec<_> = own.map(|state| spending.shown(state, payer)).collect();
    Ok(replies::budgets(&own))
}

/// Returns all budgets and their usage, for a script.
pub fn budgets_listing(
    store: &Connection,
    spending: &Spending,
    now: DateTime<Utc>,
) -> rusqlite::Result<Value> {
    let found = overview(store, &spending.budgets, spending.zone, now)?;
    let budgets = found.states.iter().map(|state| {
        json!({
            "whose": state.scope.key(), "period": state.period.as_str(), "percent": state.percent(),
            "tokens": state.spent.tokens, "tokens_max": state.allowance.tokens,
            "dollars": state.spent.cost.dollars(), "dollars_max": state.allowance.cost.map(Cost::dollars),
            "since": state.since, "until": state.until,
        })
    });
    let each = found.each.iter().map(|(scope, period, allowance)| {
        json!({
            "whose": scope.key(), "period": period.as_str(),
            "tokens_max": allowance.tokens, "dollars_max": allowance.cost.map(Cost::dollars),
        })
    });
    Ok(json!({ "budgets": budgets.collect::<Vec<_>>(), "each": each.collect::<Vec<_>>() }))
}

/// Carries out an order of the owner. Returns the reply.
pub fn apply_budget_command(
    store: &Connection,
    spending: &Spending,
    order: BudgetCommand,
    now: DateTime<Utc>,
) -> rusqlite::Result<String> {
    match order {
        BudgetCommand::Show => {
            let nobody = Payer {
                person: None,
                role: Role::Owner,
                cause: CallCause::Chat,
                job: None,
                persona: None,
            };
            let found = overview(store, &spending.budgets, spending.zone, now)?;
            let shown: Vec<_> =
                found.states.iter().map(|state| spending.shown(state, &nobody)).collect();
            let each = found.each.into_iter().map(|(scope, period, allowance)| {
                let cost = allowance.cost.map(|cost| cost.to_string());
                replies::budget_each(&scope.key(), period.as_str(), allowance.tokens, cost)
            });
            let each: Vec<_> = each.collect();
            Ok(replies::all_budgets(&shown, &each))
        }
        BudgetCommand::Set { scope, period, amount } => {
            stored::set(store, scope, period, amount)?;
            spending.refresh(store)?;
            let amount = match amount {
                Amount::Tokens(0) | Amount::Cost(Cost(0)) => "0".to_owned(),
                Amount::Tokens(tokens) => format!("{} tokens", replies::grouped(tokens)),
                Amount::Cost(cost) => cost.to_string(),
            };
            Ok(replies::budget_is_set(&scope.key(), &amount, period.as_str()))
        }
        BudgetCommand::Reset(scope) => {
            let was_set = stored::reset(store, scope)?;
            spending.refresh(store)?;
            Ok(replies::budget_is_reset(&scope.key(), was_set))
        }
    }
}
