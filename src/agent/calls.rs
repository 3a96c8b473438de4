//! One tool call, from planned (or cut off) to its outcome.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use tokio::time::timeout;

use super::Means;
use super::commits::{self, Ends, Starts};
use super::parking;
use super::turn::TurnError;
use crate::message::{Address, Sender};
use crate::people::Role;
use crate::session::{Call, Intent, Outcome, TurnId};
use crate::tools::{AnyTool, Effect, Kind, Terms, ToolContext, ToolError, ToolOutput};
use crate::workspace::{FileChange, Hash, Workspace, WorkspacePath};

/// A tool that takes longer is given up.
const CALL_TIME_MAX: Duration = Duration::from_secs(120);

/// What came of a call.
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    /// The file that it has changed.
    pub(super) changed: Option<WorkspacePath>,
}

/// A call, and on whose behalf it is made.
pub(super) struct Calling<'a> {
    pub(super) turn: TurnId,
    pub(super) call: &'a Call,
    pub(super) person: &'a Sender,
    /// The person's own, also in a group.
    pub(super) role: Role,
    pub(super) at: &'a Address,
}

/// What kind a call is of, or words for the model if it cannot begin.
pub(super) fn check(means: &Means, call: &Call, cx: &ToolContext) -> Result<Kind, String> {
    let (tool, terms) = means.tools.authorise(&call.tool, cx.role)?;
    tool.check(&call.arguments)?;
    Ok(terms.kind)
}

/// Settles a call that cannot begin.
pub(super) async fn refuse(
    means: &Means,
    turn: TurnId,
    call: &Call,
    words: String,
) -> Result<Ran, TurnError> {
    settle(means, turn, call, Outcome::Failed(words)).await
}

/// Runs a call that is planned, or finds out what became of one that a crash cut off. Its outcome
/// is committed when this returns.
pub(super) async fn run(
    means: &Means,
    calling: &Calling<'_>,
    cx: &ToolContext,
) -> Result<Ran, TurnError> {
    let Calling { turn, call, .. } = *calling;
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
        Err(words) => return refuse(means, turn, call, words).await,
    };
    let began = Utc::now();
    if let Kind::Acts { idempotent } = terms.kind {
        let intent = Intent::Act { idempotent };
        let starts = Starts { call: call.id, intent, undo: None, result: String::new() };
        commits::call_starts(&means.bus.store, turn, starts).await?;
    }
    match attempts(tool.as_ref(), terms, call, cx).await {
        Ok(ToolOutput { asks: Some(question), .. }) => {
            parking::ask(means, calling, question).await?;
            Ok(Ran { outcome: Outcome::Waiting, changed: None })
        }
        Ok(ToolOutput { awaits: Some(task), .. }) => {
            let outcome = parking::await_subagent(means, calling, task).await?;
            Ok(Ran { outcome, changed: None })
        }
        Ok(output) => carry_out(means, turn, (call, began), output).await,
        Err(ToolError::TellModel(words) | ToolError::Transient(words)) => {
            end(means, turn, (call, began), Outcome::Failed(words), Vec::new()).await
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

/// Makes the change that a tool has worked out, between the commits that say so. What the file was
/// is kept before the first of them, so that what is written down can be undone.
async fn carry_out(
    means: &Means,
    turn: TurnId,
    (call, began): (&Call, DateTime<Utc>),
    output: ToolOutput,
) -> Result<Ran, TurnError> {
    let mut changed = None;
    if let Some(change) = output.change {
        let (intent, undo) = (change.intent(output.undoes), change.undo());
        let images = means.actions.images.clone();
        let keep = move |workspace: &Workspace| (images.keep_before(workspace, &change), change);
        let (kept, change) = means.workspace.off_thread(keep).await;
        let undo = kept.then_some(undo);
        let starts = Starts { call: call.id, intent, undo, result: output.for_model.clone() };
        commits::call_starts(&means.bus.store, turn, starts).await?;
        let path = change.path.clone();
        if let Err(words) = apply(means, change).await {
            return end(means, turn, (call, began), Outcome::Failed(words), Vec::new()).await;
        }
        changed = Some(path);
    }
    let queues = !output.effects.is_empty();
    let outcome = Outcome::Done(output.for_model);
    let ran = end(means, turn, (call, began), outcome, output.effects).await?;
    if queues {
        means.bus.outbox.up();
        means.bus.inbox.up();
        means.bus.jobs.up();
    }
    Ok(Ran { changed, ..ran })
}

pub(super) async fn apply(means: &Means, change: FileChange) -> Result<(), String> {
    let applied = means.workspace.off_thread(move |workspace| workspace.apply(&change)).await;
    applied.map_err(|error| format!("Not changed: {error}."))
}

pub(super) enum Happened {
    Yes,
    No,
    Unknown,
}

/// Whether what a crash cut off has happened, or may as well happen again.
pub(super) async fn look(means: &Means, intent: &Intent) -> Happened {
    let (path, before, after) = match intent {
        Intent::File { path, before, after, .. } => (path, before, after),
        Intent::Act { idempotent: true } => return Happened::No,
        Intent::Act { idempotent: false } => return Happened::Unknown,
    };
    let Ok(path) = path.parse::<WorkspacePath>() else { return Happened::Unknown };
    let hash = means.workspace.off_thread(move |workspace| workspace.hash(&path)).await;
    let Ok(now) = hash else { return Happened::Unknown };
    match now.as_ref().map(Hash::as_str) {
        now if now == after.as_deref() => Happened::Yes,
        now if now == before.as_deref() => Happened::No,
        _ => Happened::Unknown,
    }
}

async fn settle(
    means: &Means,
    turn: TurnId,
    call: &Call,
    outcome: Outcome,
) -> Result<Ran, TurnError> {
    end(means, turn, (call, Utc::now()), outcome, Vec::new()).await
}

async fn end(
    means: &Means,
    turn: TurnId,
    (call, began): (&Call, DateTime<Utc>),
    outcome: Outcome,
    effects: Vec<Effect>,
) -> Result<Ran, TurnError> {
    let ends = Ends { call: call.id, began, outcome, effects };
    let outcome = commits::call_ends(&means.bus.store, turn, ends).await?;
    Ok(Ran { outcome, changed: None })
}
