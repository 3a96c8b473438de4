//! One short completion that tests if a model works.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::timeout;

use super::{
    Attempts, Pictures, PromptMessage, Provider, ProviderError, Request, ToolSchema, complete,
};
use crate::types::session::Effort;

/// The shortest request that every model answers. Reasoning models may think about it first.
const QUESTION: &str = "This is a test of the connection. Answer with the word OK.";

/// Asks a model for a word, once. Returns the time that the answer took. The request has a tool, as each of a turn has: some
/// servers accept no request with one.
///
/// # Errors
/// The model gave no answer within `within`, or an empty one.
pub async fn probe_model(
    provider: &dyn Provider,
    within: Duration,
) -> Result<Duration, ProviderError> {
    let message = PromptMessage::User { text: QUESTION.to_owned(), images: Vec::new() };
    let tools = [test_tool()];
    let request = Request {
        system: &[],
        tools: &tools,
        facts: &[],
        may_call: true,
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
    let is_empty = completion.text.trim().is_empty() && completion.thinking.is_empty();
    // A model that calls the tool has answered, too.
    if is_empty && completion.calls.is_empty() {
        return Err(ProviderError::Broken("the answer was empty".to_owned()));
    }
    Ok(started.elapsed())
}

/// The smallest tool that every API accepts. It is never run.
fn test_tool() -> ToolSchema {
    ToolSchema {
        name: "note".to_owned(),
        description: "Keeps a note. Not needed in this test.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": { "text": { "type": "string", "description": "The note" } },
            "required": ["text"],
        }),
    }
}
