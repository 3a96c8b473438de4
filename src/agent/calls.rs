//! One tool call, from planned (or cut off) to its outcome.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

use super::Means;
use super::commits;
use super::turn::TurnError;
use crate::session::{Call, Intent, Outcome, TurnId};
use crate::tools::{AnyTool, Kind, Terms, ToolContext, ToolError, ToolOutput};
use crate::workspace::{FileChange, WorkspacePath};

/// A tool that takes longer is given up.
const CALL_TIME_MAX: Duration = Duration::from_secs(120);

/// Runs a call that is planned, or finds out what became of one that a crash cut off. Its outcome
/// is committed when this returns.
pub(super) async fn run(
    means: &Means,
    turn: TurnId,
    call: &Call,
    cx: &ToolContext,
) -> Result<Outcome, TurnError> {
    if let Outcome::Running { intent, result } = &call.outcome {
        match look(means, intent).await {
            Happened::Yes => return settle(means, turn, call, Outcome::Done(result.clone())).await,
            Happened::Unknown => return settle(means, turn, call, Outcome::Interrupted).await,
            Happened::No => {}
        }
    }
    means.tools.arrived().await;
    let (tool, terms) = match means.tools.authorise(&call.tool, cx.role) {
        Ok(tool) => tool,
        Err(words) => return settle(means, turn, call, Outcome::Failed(words)).await,
    };
    if let Kind::Acts { idempotent } = terms.kind {
        let intent = Intent::Act { idempotent };
        commits::call_starts(&means.bus.store, turn, call.id, intent, String::new()).await?;
    }
    match attempts(tool.as_ref(), terms, call, cx).await {
        Ok(output) => carry_out(means, turn, call, output).await,
        Err(ToolError::TellModel(words) | ToolError::Transient(words)) => {
            settle(means, turn, call, Outcome::Failed(words)).await
        }
        Err(ToolError::Abort(error)) => Err(TurnError::Abort(error)),
    }
}

/// Calls the tool, and once more if it says that this is safe and may help.
async fn attempts(
    tool: &dyn AnyTool,
    terms: Terms,
    call: &Call,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    match attempt(tool, call, cx).await {
        Err(ToolError::Transient(words)) if terms.retries => {
            tracing::info!(tool = %call.tool, %words, "Calling a tool once more");
            attempt(tool, call, cx).await
        }
        ended => ended,
    }
}

/// Calls the tool; one that hangs or panics has failed, and nothing more.
async fn attempt(
    tool: &dyn AnyTool,
    call: &Call,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let called = AssertUnwindSafe(tool.call_json(&call.arguments, cx)).catch_unwind();
    match timeout(CALL_TIME_MAX, called).await {
        Ok(Ok(output)) => output,
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

/// Makes the change that a tool has worked out, between the commits that say so.
async fn carry_out(
    means: &Means,
    turn: TurnId,
    call: &Call,
    output: ToolOutput,
) -> Result<Outcome, TurnError> {
    let store = &means.bus.store;
    if let Some(change) = output.change {
        let result = output.for_model.clone();
        commits::call_starts(store, turn, call.id, change.intent(), result).await?;
        if let Err(words) = apply(means, change).await {
            return settle(means, turn, call, Outcome::Failed(words)).await;
        }
    }
    let outcome = Outcome::Done(output.for_model);
    let queues = !output.effects.is_empty();
    commits::call_ends(store, turn, call.id, outcome.clone(), output.effects).await?;
    if queues {
        means.bus.outbox.up();
    }
    Ok(outcome)
}

async fn apply(means: &Means, change: FileChange) -> Result<(), String> {
    let applied = means.workspace.off_thread(move |workspace| workspace.apply(&change)).await;
    applied.map_err(|error| format!("Not changed: {error}."))
}

enum Happened {
    Yes,
    No,
    Unknown,
}

/// Whether what a crash cut off has happened, or may as well happen again.
async fn look(means: &Means, intent: &Intent) -> Happened {
    let (path, before, after) = match intent {
        Intent::File { path, before, after } => (path, before, after),
        Intent::Act { idempotent: true } => return Happened::No,
        Intent::Act { idempotent: false } => return Happened::Unknown,
    };
    let Ok(path) = path.parse::<WorkspacePath>() else { return Happened::Unknown };
    let hash = means.workspace.off_thread(move |workspace| workspace.hash(&path)).await;
    match hash {
        Ok(Some(now)) if now == *after.as_str() => Happened::Yes,
        Ok(now) if now.as_ref().map(|now| now.as_str()) == before.as_deref() => Happened::No,
        _ => Happened::Unknown,
    }
}

async fn settle(
    means: &Means,
    turn: TurnId,
    call: &Call,
    outcome: Outcome,
) -> Result<Outcome, TurnError> {
    commits::call_ends(&means.bus.store, turn, call.id, outcome.clone(), Vec::new()).await?;
    Ok(outcome)
}
