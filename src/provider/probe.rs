//! One short completion that tests if a model works.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{Attempts, Pictures, PromptMessage, Provider, ProviderError, Request, complete};
use crate::types::session::Effort;

/// The shortest request that every model answers. Reasoning models may think about it first.
const QUESTION: &str = "This is a test of the connection. Answer with the word OK.";

/// Asks a model for a word, once. Returns the time that the answer took.
///
/// # Errors
/// The model gave no answer within `within`, or an empty one.
pub async fn probe_model(
    provider: &dyn Provider,
    within: Duration,
) -> Result<Duration, ProviderError> {
    let message = PromptMessage::User { text: QUESTION.to_owned(), images: Vec::new() };
    let request = Request {
        system: &[],
        tools: &[],
        facts: &[],
        may_call: false,
        effort: Effort::Default,
        attempts: Attempts::Once,
        tokens_max: None,
        messages: vec![message],
        pictures: &Pictures::default(),
    };
    let started = Instant::now();
    let result = timeout(within, complete(provider, &request, |_| {})).await;
    let seconds = within.as_secs();
    let late = |_| ProviderError::busy(format!("no answer within {seconds} s"));
    let completion = result.map_err(late)??;
    if completion.text.trim().is_empty() && completion.thinking.is_empty() {
        return Err(ProviderError::Broken("the answer was empty".to_owned()));
    }
    Ok(started.elapsed())
}
