//! Costs and permission of model calls: prices, budgets, reservations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::bus::{Bus, notices};
use crate::conversation::budgets::reserve::{
    BudgetState, Reservation, WantedCall, is_budgeted, reserve,
};
use crate::conversation::budgets::stored::StoredBudgets;
use crate::conversation::budgets::{Budgets, Scope};
use crate::conversation::ledger::{self, CallCause, Charge, LedgerId, Payer};
use crate::people::{Role, persons};
use crate::provider::prices::{Cost, Prices};
use crate::provider::{Completion, ProviderError, Usage};
use crate::replies::{self, BudgetFor, BudgetShown};
use crate::services::Services;
use crate::store::{Store, StoreError, Sync};
use crate::types::message::{ChannelName, Sender};
use crate::types::session::TurnId;

/// Maximum answer for which tokens are reserved: a file of some hundred lines. Only budgeted calls are limited to it.
const OUTPUT_MAX: u64 = 8_192;

/// The same for guests with a small budget. A crash books the whole reservation, which must not use up a guest's month.
const BRIEF_OUTPUT_MAX: u64 = 600;

/// The budgets and the prices of the daemon, cheap to clone.
#[derive(Clone)]
pub struct Spending {
    pub budgets: Arc<Budgets>,
    pub prices: Prices,
    /// The owner's time zone.
    pub zone: Tz,
    /// The monthly tokens of guests, including the owner's changes. 0 means no limit. Read before each prompt.
    guest_tokens: Arc<AtomicU64>,
}

/// Maximum monthly budget of guests for short prompts, in tokens. With a larger one, guests get usual prompts.
const BRIEF_UP_TO: u64 = 100_000;

/// A granted model call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granted {
    /// The reservation. None if no budget applies to the call.
    pub(crate) row: Option<LedgerId>,
    /// Maximum length of the answer, in tokens. None leaves it to the provider.
    pub(crate) tokens_max: Option<u32>,
    /// A warning to the person whose budget is nearly used.
    pub(crate) warning: Option<String>,
}

/// A planned model call.
pub(crate) struct Planned<'a> {
    pub(crate) payer: Payer,
    pub(crate) provider: &'a str,
    pub(crate) turn: Option<TurnId>,
    /// Estimated tokens of the prompt.
    pub(crate) input: u64,
    /// Maximum useful length of the answer, in tokens. None if there is no limit.
    pub(crate) output: Option<u64>,
}

impl Spending {
    /// Creates the value, and reads the budgets that the owner has set.
    pub async fn open(
        store: &Store,
        budgets: Budgets,
        prices: Prices,
        zone: Tz,
    ) -> Result<Self, StoreError> {
        let guest_tokens = Arc::default();
        let spending = Self { budgets: Arc::new(budgets), prices, zone, guest_tokens };
        let set = spending.clone();
        store.read(move |store| set.refresh(store)).await?;
        Ok(spending)
    }

    /// Reads the budget that the owner has set for guests.
    pub fn refresh(&self, store: &Connection) -> rusqlite::Result<()> {
        let scope = Scope::Role(Role::Guest);
        let budget = StoredBudgets::read(store)?.budget(&self.budgets, &[scope]);
        self.guest_tokens.store(budget.month.tokens.unwrap_or_default(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns true if the budget of a role is so small that its prompts are short.
    pub(crate) fn has_short_prompt(&self, role: Role) -> bool {
        let tokens = self.guest_tokens.load(Ordering::Relaxed);
        role == Role::Guest && (1..=BRIEF_UP_TO).contains(&tokens)
    }

    /// Reserves the tokens of a call. The inner error explains a refusal.
    pub(crate) async fn reserve(
        &self,
        bus: &Bus,
        planned: Planned<'_>,
    ) -> Result<Result<Granted, ProviderError>, StoreError> {
        let (payer, budgets) = (planned.payer, Arc::clone(&self.budgets));
        let query = move |store: &Connection| is_budgeted(store, &budgets, &payer);
        if !bus.store.read(query).await? {
            return Ok(Ok(Granted::default()));
        }
        let output_max =
            if self.has_short_prompt(payer.role) { BRIEF_OUTPUT_MAX } else { OUTPUT_MAX };
        let wanted = WantedCall {
            payer,
            provider: planned.provider.to_owned(),
            price: self.prices.of(planned.provider),
            turn: planned.turn,
            input: planned.input,
            output: planned.output.unwrap_or(output_max).min(output_max),
        };
        let (budgets, zone) = (Arc::clone(&self.budgets), self.zone);
        let reserve_call =
            move |store: &Connection| reserve(store, &budgets, zone, &wanted, Utc::now());
        match bus.store.write("reserved", Sync::Later, reserve_call).await? {
            Reservation::Unbudgeted => Ok(Ok(Granted::default())),
            Reservation::Refused(state) => {
                let explanation =
                    replies::over_budget(&self.shown(&state, &payer), payer.role == Role::Owner);
                tracing::info!(person = ?payer.person, cause = payer.cause.as_str(), words = explanation, "Refused a model call");
                Ok(Err(ProviderError::OverBudget(explanation)))
            }
            Reservation::Made { row, output, warnings } => {
                let warning = self.warn(bus, &payer, &warnings).await?;
                let tokens_max = u32::try_from(output).ok();
                Ok(Ok(Granted { row: Some(row), tokens_max, warning }))
            }
        }
    }

    /// Notifies the owner of budgets that are nearly used. Returns the warning to the payer about their own budget.
    async fn warn(
        &self,
        bus: &Bus,
        payer: &Payer,
        warnings: &[BudgetState],
    ) -> Result<Option<String>, StoreError> {
        let mut own_warning = None;
        for state in warnings {
            let shown = self.shown(state, payer);
            let warning = replies::budget_nearly_used(&shown);
            if shown.whose == BudgetFor::You {
                own_warning = Some(warning);
            } else {
                let (scope, period) = (state.scope.key(), state.period.as_str());
                let key = format!("budget {scope} {period} {}", state.since.timestamp());
                notices::notify_owner(bus, key, warning).await?;
            }
        }
        Ok(own_warning)
    }

    /// Returns the cost of a finished call.
    pub(crate) fn charge(
        &self,
        payer: Payer,
        granted: &Granted,
        provider: &str,
        made: &Completion,
    ) -> Charge {
        let provider = made.by.as_deref().unwrap_or(provider);
        Charge { wasted: made.wasted, ..self.charge_for(payer, granted, provider, made.usage) }
    }

    /// Returns the cost of several calls together.
    pub(crate) fn charge_for(
        &self,
        payer: Payer,
        granted: &Granted,
        provider: &str,
        usage: Usage,
    ) -> Charge {
        Charge {
            payer,
            provider: provider.to_owned(),
            usage,
            wasted: Usage::default(),
            price: self.prices.of(provider),
            reserved: granted.row,
        }
    }

    /// Ends the reservation of a failed call. Books nothing if the model has not begun, and the whole reservation if
    /// the cost is unknown.
    pub(crate) async fn failed(
        &self,
        bus: &Bus,
        granted: &Granted,
        error: &ProviderError,
    ) -> Result<(), StoreError> {
        let Some(row) = granted.row else { return Ok(()) };
        let has_begun = matches!(error, ProviderError::Broken(_) | ProviderError::Stalled(_));
        let end_reservation = move |store: &Connection| match has_begun {
            true => ledger::book_estimated(store, row),
            false => ledger::release(store, row),
        };
        bus.store.write("reservation ended", Sync::Later, end_reservation).await
    }

    /// Returns a budget as this payer is shown it.
    pub fn shown(&self, state: &BudgetState, payer: &Payer) -> BudgetShown {
        self.shown_at(state, payer, Utc::now())
    }

    fn shown_at(&self, state: &BudgetState, payer: &Payer, now: DateTime<Utc>) -> BudgetShown {
        let BudgetState { scope, period, allowance, spent, until, .. } = *state;
        let whose = match scope {
            Scope::Total => BudgetFor::Total,
            Scope::Jobs => BudgetFor::Jobs,
            Scope::Job(number) => BudgetFor::Job(number),
            Scope::Heartbeat => BudgetFor::Heartbeat,
            Scope::Person(person) if payer.person == Some(person) => BudgetFor::You,
            Scope::Person(_) | Scope::Persona(_) | Scope::Role(_) | Scope::EachJob => {
                BudgetFor::Other(scope.key())
            }
        };
        let cost_text = |cost: Cost| cost.to_string();
        BudgetShown {
            whose,
            period: period.as_str(),
            tokens: allowance.tokens.map(|limit| (spent.tokens, limit)),
            cost: allowance.cost.map(|limit| (cost_text(spent.cost), cost_text(limit))),
            percent: state.percent(),
            is_in_use: spent.reserved > 0,
            until: replies::time_relative_to(now.with_timezone(&self.zone), until),
        }
    }
}

/// Returns the payer of model calls for a sender on a channel.
pub(crate) async fn payer_on(
    services: &Services,
    channel: &ChannelName,
    sender: &Sender,
    cause: CallCause,
) -> Result<Payer, StoreError> {
    let (people, channel, sender) =
        (services.bus.people.clone(), channel.clone(), sender.id.clone());
    let query = move |store: &Connection| {
        let role = people.role_of(store, &channel, &sender)?.unwrap_or(Role::Guest);
        let person = persons::person_of(store, &channel, &sender)?;
        Ok(Payer { person, role, cause, job: None, persona: None })
    };
    services.bus.store.read(query).await
}
