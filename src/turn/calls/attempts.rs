//! Calls a tool: within its time, once more after a transient error, and with a bounded output, whatever bounds the tool
//! itself keeps. Not here: what becomes of the output (`calls.rs`).

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

use crate::tools::{AnyTool, ToolContext, ToolError, ToolOutput, ToolTerms};
use crate::types::session::Call;

/// Maximum time of a tool call.
const CALL_TIME_MAX: Duration = Duration::from_secs(120);

/// Maximum length of any tool's output, in characters. It is above the tools' own limits. A longer output would fill
/// the disk and every later prompt.
const OUTPUT_CHARS_MAX: usize = 32_000;

/// Calls the tool, and once more after a transient error if the tool allows retries.
pub(super) async fn call_tool(
    tool: &dyn AnyTool,
    terms: ToolTerms,
    call: &Call,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    match attempt(tool, call, cx).await {
        Err(ToolError::Transient(words)) if terms.retries => {
            tracing::info!(tool = %call.tool, %words, "Retrying a tool call");
            attempt(tool, call, cx).await
        }
        ended => ended,
    }
}

/// Calls the tool. A tool that hangs or panics fails alone.
async fn attempt(
    tool: &dyn AnyTool,
    call: &Call,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let called = AssertUnwindSafe(tool.call_json(&call.arguments, cx)).catch_unwind();
    match timeout(CALL_TIME_MAX, called).await {
        Ok(Ok(output)) => within_bounds(output),
        Ok(Err(_)) => {
            tracing::error!(tool = %call.tool, "A tool panicked");
            Err(ToolError::Transient(format!("{} broke; the fault is in my log.", call.tool)))
        }
        Err(_) => Err(ToolError::Transient(format!(
            "{} took longer than {} seconds and was given up.",
            call.tool,
            CALL_TIME_MAX.as_secs()
        ))),
    }
}

/// Cuts what a tool says to the maximum length.
fn within_bounds(mut called: Result<ToolOutput, ToolError>) -> Result<ToolOutput, ToolError> {
    match &mut called {
        Ok(ToolOutput::Text { for_model: text, .. })
        | Err(
            ToolError::TellModel(text)
            | ToolError::Transient(text)
            | ToolError::TellUntrusted(_, text),
        ) => *text = bounded(std::mem::take(text)),
        // These are the program's own sentences.
        Ok(
            ToolOutput::Change(_)
            | ToolOutput::Effects { .. }
            | ToolOutput::Asks(_)
            | ToolOutput::Awaits(_),
        )
        | Err(ToolError::Abort(_)) => {}
    }
    called
}

fn bounded(text: String) -> String {
    match text.char_indices().nth(OUTPUT_CHARS_MAX) {
        None => text,
        Some((at, _)) => {
            format!("{}\n[Cut at {OUTPUT_CHARS_MAX} characters; the rest is lost.]", &text[..at])
        }
    }
}
