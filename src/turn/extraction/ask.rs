//! Asks a model for facts, unless somebody waits for its provider or the budget is used up. A conversation that has
//! been due for long does not yield.

use std::time::Duration;

use tokio::time::timeout;

use crate::conversation::ledger::{Charge, Payer};
use crate::conversation::tokens;
use crate::memory::extraction::answer::{self, ExtractedFacts};
use crate::memory::extraction::due::ReadingPriority;
use crate::provider::{
    self, Attempts, Completion, Effort, Pictures, Provider, ProviderError, Request, ToolSchema,
};
use crate::store::StoreError;
use crate::turn::compaction;
use crate::turn::services::TurnServices;
use crate::turn::spending::Planned;
use crate::types::session::Turn;

/// Maximum length of an answer, in tokens.
const ANSWER_TOKENS_MAX: u64 = 4_000;

/// Maximum bytes that are received of an answer, including the reasoning before it.
const RECEIVED_BYTES_MAX: usize = 256 * 1_024;

/// Maximum time of an answer: nobody waits for it, and a slow machine may need that long.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(300);

/// A request for facts.
pub(super) struct FactsPrompt {
    pub(super) system: Vec<String>,
    pub(super) tools: Vec<ToolSchema>,
    pub(super) tools_tokens: u64,
    /// The fact numbers of the conversation's prompt, because they change the bytes of its requests.
    pub(super) facts: Vec<i64>,
    pub(super) effort: Effort,
    pub(super) summary: Option<String>,
    /// The turns of the prompt. The last one has the question.
    pub(super) turns: Vec<Turn>,
    pub(super) pictures: Pictures,
}

impl FactsPrompt {
    /// Returns the estimated number of its tokens.
    pub(super) fn tokens(&self, sees: bool) -> u64 {
        let conversation_tokens =
            tokens::conversation_tokens(self.summary.as_deref(), &self.turns, sees);
        tokens::fixed_tokens(&self.system, None) + self.tools_tokens + conversation_tokens
    }
}

/// The outcome of a request.
pub(super) enum FactsAnswer {
    Found(ExtractedFacts, Charge),
    /// The model has answered something else, or refused.
    Bad(String, Option<Charge>),
    /// Somebody waits for the provider, it is away, or a budget is used up.
    Later(String),
}

/// Asks a provider for facts, on the account of a payer.
pub(super) async fn ask(
    turns: &TurnServices,
    provider: &dyn Provider,
    payer: Payer,
    prompt: &FactsPrompt,
    priority: ReadingPriority,
) -> Result<FactsAnswer, StoreError> {
    let (bus, name) = (&turns.services.bus, provider.name());
    let planned = Planned {
        payer,
        provider: name,
        turn: None,
        input: prompt.tokens(provider.sees()),
        output: Some(ANSWER_TOKENS_MAX),
    };
    let entered = turns.models.all.in_use.wait_for_use(name);
    let granted = match turns.spending.reserve(bus, planned).await? {
        Ok(granted) => granted,
        Err(refused) => return Ok(FactsAnswer::Later(refused.to_string())),
    };
    let limit = u32::try_from(ANSWER_TOKENS_MAX).ok();
    let summary = prompt.summary.as_deref().map(compaction::shown);
    let request = Request {
        system: &prompt.system,
        tools: &prompt.tools,
        facts: &prompt.facts,
        may_call: false,
        effort: prompt.effort,
        attempts: Attempts::Once,
        tokens_max: granted.tokens_max.or(limit),
        messages: provider::transcript_as_messages(summary.as_deref(), &prompt.turns),
        pictures: &prompt.pictures,
    };
    let asking = timeout(
        ANSWER_TIME_MAX,
        Box::pin(provider::complete_within(provider, &request, RECEIVED_BYTES_MAX)),
    );
    let completed = tokio::select! {
        biased;
        () = entered, if priority == ReadingPriority::Interruptible => None,
        completed = asking => Some(completed.unwrap_or_else(|_| {
            Err(ProviderError::Stalled("the answer took too long".to_owned()))
        })),
    };
    drop(request);
    let Some(completed) = completed else {
        let reason = "somebody waits for the model".to_owned();
        // The cost is unknown, so the reservation is booked.
        let error = ProviderError::Broken(reason.clone());
        turns.spending.failed(bus, &granted, &error).await?;
        return Ok(FactsAnswer::Later(reason));
    };
    match completed {
        Ok(completion) => {
            let charge = turns.spending.charge(payer, &granted, name, &completion);
            Ok(parse_answer(&completion, charge))
        }
        Err(error) => {
            turns.spending.failed(bus, &granted, &error).await?;
            Ok(match error {
                ProviderError::Busy { .. } | ProviderError::OverBudget(_) => {
                    FactsAnswer::Later(error.to_string())
                }
                error => FactsAnswer::Bad(error.to_string(), None),
            })
        }
    }
}

fn parse_answer(completion: &Completion, charge: Charge) -> FactsAnswer {
    match answer::parse(&completion.text) {
        Some(facts) => FactsAnswer::Found(facts, charge),
        None => FactsAnswer::Bad("the answer has no such JSON".to_owned(), Some(charge)),
    }
}
