//! One tool call, from planned or interrupted to its outcome.

mod attempts;
mod fate;
mod reports;

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::services::Services;
use crate::tasks::schedule::JobOperation;
use crate::tools::{
    AnyTool, Effect, ToolChange, ToolContext, ToolError, ToolKind, ToolOutput, ToolTerms,
};
use crate::trust::taint::{ReadingPerson, SourceReader};
use crate::turn::call_context::CallContext;
use crate::turn::commits::{self, CallEnd, CallStart};
use crate::turn::detour;
use crate::turn::error::TurnError;
use crate::turn::job_commands::refused_commands;
use crate::turn::proposed::KnownResult;
use crate::turn::services::TurnServices;
use crate::turn::{prompt, proposed, suspension};
use crate::types::session::{Call, CallOutcome, Intent, TurnId};
use crate::types::source::Source;
use crate::types::untrusted;
use crate::workspace::{FileChange, FileError, Workspace, WorkspacePath};

use attempts::call_tool;
pub(crate) use fate::{CallFate, find_fate};
use reports::{
    instruction_changes, interrupted_changes, report_instruction_change, show_own_words,
};

/// Maximum number of tries of a call whose file others change at the same time: more than approved calls run at once.
const TRIES_MAX: usize = 8;

/// The tool that a call may use. The error explains to the model why there is none.
pub(crate) type ToolLookup = Result<Arc<dyn AnyTool>, String>;

/// The result of a call.
pub(crate) struct CallResult {
    pub(crate) outcome: CallOutcome,
    /// The sources of the outcome.
    pub(crate) sources: Vec<Source>,
    /// The file that the call has changed.
    pub(crate) changed: Option<WorkspacePath>,
}

impl CallResult {
    fn unsettled(outcome: CallOutcome) -> Self {
        Self { outcome, sources: Vec::new(), changed: None }
    }
}

/// Settles a call that cannot begin.
pub(crate) async fn refuse(
    services: &Services,
    turn: TurnId,
    call: &Call,
    reason: String,
) -> Result<CallResult, TurnError> {
    settle(services, turn, call, CallOutcome::Failed(reason)).await
}

/// Settles a call that cannot begin, and defers it until people are told of it.
pub(crate) async fn refuse_and_defer(
    services: &Services,
    turn: TurnId,
    call: &Call,
    reason: String,
    deferral: Effect,
) -> Result<CallResult, TurnError> {
    let end_of_call = CallEnd::of(call, Utc::now(), CallOutcome::Failed(reason));
    end(services, turn, CallEnd { effects: vec![deferral], ..end_of_call }).await
}

/// Settles a call whose result is known before it begins: it does nothing.
pub(crate) async fn settle_known(
    turns: &TurnServices,
    turn: TurnId,
    call: &Call,
    cx: &ToolContext,
    known: KnownResult,
) -> Result<CallResult, TurnError> {
    let began = Utc::now();
    let end_of_call = match known {
        KnownResult::Nothing(text, sources) => {
            let outcome = CallOutcome::Done(marked(text, &sources, cx).await?);
            CallEnd { sources, ..CallEnd::of(call, began, outcome) }
        }
        KnownResult::Failed(error) => failure(call, began, error)?,
    };
    end(&turns.services, turn, end_of_call).await
}

/// Runs a planned call, or finds out the outcome of one that a crash interrupted. The outcome is
/// committed when this returns. If the approval does not cover the files of the call any more, nothing is done, and it is
/// still planned.
pub(crate) async fn run(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    cx: &ToolContext,
    tool: ToolLookup,
) -> Result<CallResult, TurnError> {
    let CallContext { turn, call, .. } = *calling;
    if let CallOutcome::Running { intent, result } = &call.outcome {
        match find_fate(&turns.services, intent).await {
            CallFate::Happened => {
                let outcome = CallOutcome::Done(result.clone());
                let mut effects = match interrupted_changes(turns, intent).await {
                    Some((path, lines)) => vec![report_instruction_change(calling, &path, &lines)],
                    None => Vec::new(),
                };
                if let Intent::File { path, .. } = intent {
                    effects.extend(show_own_words(calling, path));
                }
                let sources = call.sources.clone();
                let end_of_call =
                    CallEnd { sources, effects, ..CallEnd::of(call, Utc::now(), outcome) };
                return end(&turns.services, turn, end_of_call).await;
            }
            CallFate::Unknown => {
                return settle(&turns.services, turn, call, CallOutcome::Interrupted).await;
            }
            CallFate::NotHappened => {}
        }
    }
    let tool = match tool {
        Ok(tool) => tool,
        Err(reason) => return refuse(&turns.services, turn, call, reason).await,
    };
    let mut reason = String::new();
    for _ in 0..TRIES_MAX {
        match Box::pin(try_call(turns, calling, cx, tool.as_ref())).await? {
            TriedCall::Ended(result) => return Ok(result),
            TriedCall::Overtaken(why) => reason = why,
            TriedCall::Uncovered => return Ok(CallResult::unsettled(CallOutcome::Planned)),
        }
    }
    settle(&turns.services, turn, call, CallOutcome::Failed(reason)).await
}

/// A call after one try.
enum TriedCall {
    Ended(CallResult),
    /// Another change came first, so a call that only adds to the file can be tried again. Has the words for the model.
    Overtaken(String),
    /// Its files are not those that were approved. Nothing was done.
    Uncovered,
}

/// Calls a tool, and carries out its output.
async fn try_call(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    cx: &ToolContext,
    tool: &dyn AnyTool,
) -> Result<TriedCall, TurnError> {
    let CallContext { turn, call, .. } = *calling;
    let (terms, began) = (tool.terms(), Utc::now());
    let acts = matches!(terms.kind, ToolKind::Acts { .. });
    let approval = calling.approval.as_ref();
    // Once it has acted, it is too late.
    if let Some(approval) = approval.filter(|_| acts)
        && !proposed::covers_paths(approval, tool, call, cx).await
    {
        return Ok(TriedCall::Uncovered);
    }
    let called = match acts {
        true => {
            // Its files may change until it begins.
            let approved_files = approval.and_then(|approval| approval.files.clone());
            let cx = ToolContext { approved_files, ..cx.clone() };
            act(turns, calling, &cx, tool, terms).await?
        }
        false => call_tool(tool, terms, call, cx).await,
    };
    if let (Ok(output), Some(approval)) = (&called, approval.filter(|_| !acts))
        && !proposed::covers(approval, proposed::files_of(turns, output).await.as_ref())
    {
        return Ok(TriedCall::Uncovered);
    }
    if let Ok(ToolOutput::Change(change)) = &called {
        let reach = tool.call_terms(&call.arguments, &cx.address).reach.within(cx.chat_kind);
        if let Some(reason) = detour::refuse_wider_reach(turns, cx, reach, &change.file.path).await
        {
            return refuse(&turns.services, turn, call, reason).await.map(TriedCall::Ended);
        }
    }
    match called {
        Ok(output) => carry_out(turns, calling, cx, began, output).await,
        Err(error) => {
            let failed = failure(call, began, error)?;
            end(&turns.services, turn, failed).await.map(TriedCall::Ended)
        }
    }
}

/// Carries out the output of a tool: commits texts and effects, makes changes, or suspends the turn.
async fn carry_out(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    cx: &ToolContext,
    began: DateTime<Utc>,
    output: ToolOutput,
) -> Result<TriedCall, TurnError> {
    let CallContext { turn, call, .. } = *calling;
    let end_of_call = match output {
        ToolOutput::Text { for_model, sources } => {
            let outcome = CallOutcome::Done(marked(for_model, &sources, cx).await?);
            CallEnd { sources, ..CallEnd::of(call, began, outcome) }
        }
        ToolOutput::Change(change) => return make_change(turns, calling, began, change).await,
        ToolOutput::Effects { for_model, mut effects } => {
            effects.iter_mut().for_each(|effect| mark_own_words(calling, effect));
            if let Some(reason) = refused_effects(turns, calling, &effects).await? {
                return refuse(&turns.services, turn, call, reason).await.map(TriedCall::Ended);
            }
            CallEnd { effects, ..CallEnd::of(call, began, CallOutcome::Done(for_model)) }
        }
        ToolOutput::Asks(question) => {
            suspension::ask(turns, calling, question).await?;
            return Ok(TriedCall::Ended(CallResult::unsettled(CallOutcome::Waiting)));
        }
        ToolOutput::Awaits(task) => {
            let outcome = suspension::await_subagent(turns, calling, task).await?;
            return Ok(TriedCall::Ended(CallResult::unsettled(outcome)));
        }
    };
    end(&turns.services, turn, end_of_call).await.map(TriedCall::Ended)
}

/// Returns the end of a failed call. The error means that the turn cannot go on.
fn failure(call: &Call, began: DateTime<Utc>, error: ToolError) -> Result<CallEnd, TurnError> {
    match error {
        ToolError::TellModel(reason) | ToolError::Transient(reason) => {
            Ok(CallEnd::of(call, began, CallOutcome::Failed(reason)))
        }
        ToolError::TellUntrusted(source, reason) => {
            let outcome = CallOutcome::Failed(untrusted::wrap(&reason));
            Ok(CallEnd { sources: vec![source], ..CallEnd::of(call, began, outcome) })
        }
        ToolError::Abort(error) => Err(TurnError::Abort(error)),
    }
}

/// Returns a text as the model is shown it: between marks if it has an untrusted source.
async fn marked(text: String, sources: &[Source], cx: &ToolContext) -> Result<String, TurnError> {
    let (account, role, chat_kind) = (Some(cx.author()), cx.role, cx.chat_kind);
    let person = ReadingPerson { account, role, chat_kind };
    let reader = SourceReader::of(&cx.actions.store, &cx.people, person, sources).await?;
    Ok(match sources.iter().any(|source| reader.distrusts(source)) {
        true => untrusted::wrap(&text),
        false => text,
    })
}

/// Marks a reminder in a person's own words as trusted, and to be shown to that person.
fn mark_own_words(calling: &CallContext<'_>, effect: &mut Effect) {
    if let (Some(_), Effect::Schedule { order: JobOperation::Add(definition), in_words_of, .. }) =
        (&calling.own_words, effect)
    {
        definition.tainted = false;
        *in_words_of = Some(calling.person.id.clone());
    }
}

/// Returns an explanation for the model if the effects are not allowed now or for this person.
async fn refused_effects(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    effects: &[Effect],
) -> Result<Option<String>, TurnError> {
    let sends = effects.iter().any(|effect| matches!(effect, Effect::Send { .. }));
    match calling.keeps_quiet && sends && turns.heartbeat.is_quiet() {
        true => Ok(Some(prompt::NOT_IN_QUIET_HOURS.to_owned())),
        false => Ok(refused_commands(turns, calling.role, effects).await?),
    }
}

/// Calls a tool that acts outside. Its start is committed first, and so is the state of the instructions,
/// which it may change.
async fn act(
    turns: &TurnServices,
    CallContext { turn, call, .. }: &CallContext<'_>,
    cx: &ToolContext,
    tool: &dyn AnyTool,
    terms: ToolTerms,
) -> Result<Result<ToolOutput, ToolError>, TurnError> {
    let watch = turns.instruction_watcher.watch(cx.actor(&call.tool)).await?;
    let idempotent = matches!(terms.kind, ToolKind::Acts { idempotent: true });
    let intent = Intent::Act { idempotent };
    let (result, sources) = (String::new(), Vec::new());
    let start = CallStart { call: call.id, intent, undo: None, result, sources };
    commits::start_call(&turns.services.bus.store, *turn, start).await?;
    let called = call_tool(tool, terms, call, cx).await;
    drop(watch);
    turns.instruction_watcher.report_changes().await?;
    Ok(called)
}

/// Makes the change that a tool has prepared, between the commits of its start and its end. The former
/// content of the file is saved before the first commit, so that the change can be undone.
async fn make_change(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    began: DateTime<Utc>,
    change: ToolChange,
) -> Result<TriedCall, TurnError> {
    let CallContext { turn, call, .. } = *calling;
    let ToolChange { for_model, file, undoes, only_adds } = change;
    let (intent, undo) = (file.intent(undoes), file.undo());
    let images = turns.actions.images.clone();
    let keep = move |workspace: &Workspace| {
        let shown = instruction_changes(workspace, &file);
        (images.keep_before(workspace, &file), shown, file)
    };
    let (kept, shown, file) = turns.services.workspace.run_blocking(keep).await;
    let undo = kept.then_some(undo);
    let (result, sources) = (for_model.clone(), Vec::new());
    let start = CallStart { call: call.id, intent, undo, result, sources };
    commits::start_call(&turns.services.bus.store, turn, start).await?;
    let path = file.path.clone();
    let applied = turns.services.workspace.run_blocking(move |workspace| workspace.apply(&file));
    if let Err(error) = applied.await {
        let reason = not_changed(&error);
        match error {
            FileError::Changed(_) if only_adds => return Ok(TriedCall::Overtaken(reason)),
            FileError::Changed(_) if calling.approval.is_some() => {
                let store = &turns.services.bus.store;
                commits::take_back_start(store, turn, call.id).await?;
                return Ok(TriedCall::Uncovered);
            }
            _ => {}
        }
        let failed = CallEnd::of(call, began, CallOutcome::Failed(reason));
        return end(&turns.services, turn, failed).await.map(TriedCall::Ended);
    }
    let effects = shown.map(|(path, lines)| report_instruction_change(calling, &path, &lines));
    let effects = effects.into_iter().chain(show_own_words(calling, path.as_str())).collect();
    let end_of_call = CallEnd { effects, ..CallEnd::of(call, began, CallOutcome::Done(for_model)) };
    let ran = end(&turns.services, turn, end_of_call).await?;
    Ok(TriedCall::Ended(CallResult { changed: Some(path), ..ran }))
}

/// Applies a change of a file. The error explains to the model why nothing was changed.
pub(crate) async fn apply(services: &Services, change: FileChange) -> Result<(), String> {
    let applied = services.workspace.run_blocking(move |workspace| workspace.apply(&change)).await;
    applied.map_err(|error| not_changed(&error))
}

fn not_changed(error: &FileError) -> String {
    format!("Not changed: {error}.")
}

async fn settle(
    services: &Services,
    turn: TurnId,
    call: &Call,
    outcome: CallOutcome,
) -> Result<CallResult, TurnError> {
    end(services, turn, CallEnd::of(call, Utc::now(), outcome)).await
}

async fn end(
    services: &Services,
    turn: TurnId,
    call_end: CallEnd,
) -> Result<CallResult, TurnError> {
    let outcome = without_secrets(services, call_end.outcome);
    let call_end = CallEnd { outcome, ..call_end };
    let queues = !call_end.effects.is_empty();
    let (outcome, sources) = commits::end_call(&services.bus, turn, call_end).await?;
    if queues {
        services.bus.outbox.notify();
        services.bus.inbox.notify();
        services.bus.jobs.notify();
    }
    Ok(CallResult { outcome, sources, changed: None })
}

/// Removes secrets from an outcome, because models would repeat them.
fn without_secrets(services: &Services, outcome: CallOutcome) -> CallOutcome {
    let redact = |text: String| services.redactor.redact(&text).into_owned();
    match outcome {
        CallOutcome::Done(text) => CallOutcome::Done(redact(text)),
        CallOutcome::Failed(text) => CallOutcome::Failed(redact(text)),
        CallOutcome::Denied(text) => CallOutcome::Denied(redact(text)),
        other => other,
    }
}
