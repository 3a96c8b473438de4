//! One tool call, from planned (or cut off) to its outcome.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use tokio::time::timeout;

use crate::memory;
use crate::replies;
use crate::services::Services;
use crate::tasks::schedule::JobOrder;
use crate::tools::{
    AnyTool, Effect, ToolChange, ToolContext, ToolError, ToolKind, ToolOutput, ToolTerms,
};
use crate::trust::taint;
use crate::turn::calling::CallContext;
use crate::turn::commits::{self, CallEnd, CallStart};
use crate::turn::detour;
use crate::turn::error::TurnError;
use crate::turn::job_commands::refused_commands;
use crate::turn::services::TurnServices;
use crate::turn::{prompt, suspension};
use crate::types::commands::CommandId;
use crate::types::message::{Body, Choice, Entitled, Question};
use crate::types::session::{Call, CallOutcome, Intent, TurnId};
use crate::types::source::Source;
use crate::types::untrusted;
use crate::workspace::{FileChange, Hash, READ_BYTES_MAX, Workspace, WorkspacePath};

/// A tool that takes longer is given up.
const CALL_TIME_MAX: Duration = Duration::from_secs(120);

/// Maximum length of any tool's output, in characters: more than the tools' own bounds. A longer one would fill the
/// disk, and every later prompt.
const OUTPUT_CHARS_MAX: usize = 32_000;

/// The result of a call.
pub(crate) struct CallResult {
    pub(crate) outcome: CallOutcome,
    /// The sources of the outcome.
    pub(crate) sources: Vec<Source>,
    /// The file that it has changed.
    pub(crate) changed: Option<WorkspacePath>,
}

/// Settles a call that cannot begin.
pub(crate) async fn refuse(
    services: &Services,
    turn: TurnId,
    call: &Call,
    words: String,
) -> Result<CallResult, TurnError> {
    settle(services, turn, call, CallOutcome::Failed(words)).await
}

/// As [`refuse`], and tells people of it.
pub(crate) async fn refuse_and_report(
    services: &Services,
    turn: TurnId,
    call: &Call,
    words: String,
    report: Effect,
) -> Result<CallResult, TurnError> {
    let ends = CallEnd::of(call, Utc::now(), CallOutcome::Failed(words));
    end(services, turn, CallEnd { effects: vec![report], ..ends }).await
}

/// Runs a call that is planned, or finds out what became of one that a crash cut off. Its outcome
/// is committed when this returns.
pub(crate) async fn run(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    cx: &ToolContext,
) -> Result<CallResult, TurnError> {
    let CallContext { turn, call, .. } = *calling;
    if let CallOutcome::Running { intent, result } = &call.outcome {
        match look(&turns.services, intent).await {
            Happened::Yes => {
                let outcome = CallOutcome::Done(result.clone());
                let mut effects = match shown_again(turns, intent).await {
                    Some((path, lines)) => vec![tell_of_rules(calling, &path, &lines)],
                    None => Vec::new(),
                };
                if let Intent::File { path, .. } = intent {
                    effects.extend(tell_of_own_words(calling, path));
                }
                let sources = call.sources.clone();
                let ends = CallEnd { sources, effects, ..CallEnd::of(call, Utc::now(), outcome) };
                return end(&turns.services, turn, ends).await;
            }
            Happened::Unknown => {
                return settle(&turns.services, turn, call, CallOutcome::Interrupted).await;
            }
            Happened::No => {}
        }
    }
    turns.tools.arrived().await;
    let (tool, terms) = match turns.tools.authorise(&call.tool, cx.user()) {
        Ok(tool) => tool,
        Err(words) => return refuse(&turns.services, turn, call, words).await,
    };
    let began = Utc::now();
    let came = match terms.kind {
        ToolKind::Acts { .. } => act(turns, calling, cx, tool.as_ref(), terms).await?,
        ToolKind::Reads | ToolKind::Writes | ToolKind::Queues => {
            attempts(tool.as_ref(), terms, call, cx).await
        }
    };
    if let Ok(ToolOutput::Change(change)) = &came {
        let reach = tool.reach(&call.arguments, &cx.address).within(cx.chat_kind);
        if let Some(words) = detour::refused(turns, cx, reach, &change.file.path).await {
            return refuse(&turns.services, turn, call, words).await;
        }
    }
    match came {
        Ok(output) => carry_out(turns, calling, cx, began, output).await,
        Err(error) => end(&turns.services, turn, failure(call, began, error)?).await,
    }
}

/// Carries out what a tool's output asks for.
async fn carry_out(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    cx: &ToolContext,
    began: DateTime<Utc>,
    output: ToolOutput,
) -> Result<CallResult, TurnError> {
    let CallContext { turn, call, .. } = *calling;
    let ends = match output {
        ToolOutput::Text { for_model, sources } => {
            let outcome = CallOutcome::Done(marked(for_model, &sources, cx));
            CallEnd { sources, ..CallEnd::of(call, began, outcome) }
        }
        ToolOutput::Change(change) => return make_change(turns, calling, began, change).await,
        ToolOutput::Effects { for_model, mut effects } => {
            effects.iter_mut().for_each(|effect| mark_own_words(calling, effect));
            if let Some(words) = refused_effects(turns, calling, &effects).await? {
                return refuse(&turns.services, turn, call, words).await;
            }
            CallEnd { effects, ..CallEnd::of(call, began, CallOutcome::Done(for_model)) }
        }
        ToolOutput::Asks(question) => {
            suspension::ask(turns, calling, question).await?;
            return Ok(CallResult {
                outcome: CallOutcome::Waiting,
                sources: Vec::new(),
                changed: None,
            });
        }
        ToolOutput::Awaits(task) => {
            let outcome = suspension::await_subagent(turns, calling, task).await?;
            return Ok(CallResult { outcome, sources: Vec::new(), changed: None });
        }
    };
    end(&turns.services, turn, ends).await
}

/// The end of a call that has failed; an error if the turn cannot go on.
fn failure(call: &Call, began: DateTime<Utc>, error: ToolError) -> Result<CallEnd, TurnError> {
    match error {
        ToolError::TellModel(words) | ToolError::Transient(words) => {
            Ok(CallEnd::of(call, began, CallOutcome::Failed(words)))
        }
        ToolError::TellUntrusted(source, words) => {
            let outcome = CallOutcome::Failed(untrusted::wrap(&words));
            Ok(CallEnd { sources: vec![source], ..CallEnd::of(call, began, outcome) })
        }
        ToolError::Abort(error) => Err(TurnError::Abort(error)),
    }
}

/// A text as the model is shown it: between marks if it has an untrusted source.
fn marked(text: String, sources: &[Source], cx: &ToolContext) -> String {
    let audience = cx.reader().audience;
    match sources.iter().any(|source| taint::is_untrusted(source, audience)) {
        true => untrusted::wrap(&text),
        false => text,
    }
}

/// A reminder in a person's own words is as trusted as these, and they are shown it.
fn mark_own_words(calling: &CallContext<'_>, effect: &mut Effect) {
    if let (Some(_), Effect::Schedule { order: JobOrder::Add(brief), in_words_of, .. }) =
        (&calling.own_words, effect)
    {
        brief.tainted = false;
        *in_words_of = Some(calling.person.id.clone());
    }
}

/// Words for the model if effects may not happen now or for this person.
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

/// Calls a tool that acts outside: that it begins is written down first, and so is what it may change of
/// what the bot goes by.
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
    let starts = CallStart { call: call.id, intent, undo: None, result, sources };
    commits::call_starts(&turns.services.bus.store, *turn, starts).await?;
    let came = attempts(tool, terms, call, cx).await;
    drop(watch);
    turns.instruction_watcher.look().await?;
    Ok(came)
}

/// Calls the tool, and once more if it says that this is safe and may help.
async fn attempts(
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

/// Calls the tool; one that hangs or panics has failed, and nothing more.
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

fn within_bounds(called: Result<ToolOutput, ToolError>) -> Result<ToolOutput, ToolError> {
    match called {
        Ok(ToolOutput::Text { for_model, sources }) => {
            Ok(ToolOutput::Text { for_model: bounded(for_model), sources })
        }
        // These are the program's own sentences.
        Ok(
            output @ (ToolOutput::Change(_)
            | ToolOutput::Effects { .. }
            | ToolOutput::Asks(_)
            | ToolOutput::Awaits(_)),
        ) => Ok(output),
        Err(ToolError::TellModel(words)) => Err(ToolError::TellModel(bounded(words))),
        Err(ToolError::Transient(words)) => Err(ToolError::Transient(bounded(words))),
        Err(ToolError::TellUntrusted(source, words)) => {
            Err(ToolError::TellUntrusted(source, bounded(words)))
        }
        Err(error @ ToolError::Abort(_)) => Err(error),
    }
}

fn bounded(text: String) -> String {
    match text.char_indices().nth(OUTPUT_CHARS_MAX) {
        None => text,
        Some((at, _)) => {
            format!("{}\n[Cut at {OUTPUT_CHARS_MAX} characters; the rest is lost.]", &text[..at])
        }
    }
}

/// Makes the change that a tool has worked out, between the commits that say so. What the file was
/// is kept before the first of them, so that what is written down can be undone.
async fn make_change(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    began: DateTime<Utc>,
    change: ToolChange,
) -> Result<CallResult, TurnError> {
    let CallContext { turn, call, .. } = *calling;
    let ToolChange { for_model, file, undoes } = change;
    let (intent, undo) = (file.intent(undoes), file.undo());
    let images = turns.actions.images.clone();
    let keep = move |workspace: &Workspace| {
        let shown = rule_changes(workspace, &file);
        (images.keep_before(workspace, &file), shown, file)
    };
    let (kept, shown, file) = turns.services.workspace.off_thread(keep).await;
    let undo = kept.then_some(undo);
    let (result, sources) = (for_model.clone(), Vec::new());
    let starts = CallStart { call: call.id, intent, undo, result, sources };
    commits::call_starts(&turns.services.bus.store, turn, starts).await?;
    let path = file.path.clone();
    if let Err(words) = apply(&turns.services, file).await {
        return end(&turns.services, turn, CallEnd::of(call, began, CallOutcome::Failed(words)))
            .await;
    }
    let effects = shown.map(|(rule, lines)| tell_of_rules(calling, &rule, &lines));
    let effects = effects.into_iter().chain(tell_of_own_words(calling, path.as_str())).collect();
    let ends = CallEnd { effects, ..CallEnd::of(call, began, CallOutcome::Done(for_model)) };
    let ran = end(&turns.services, turn, ends).await?;
    Ok(CallResult { changed: Some(path), ..ran })
}

/// Returns a change of an instruction file for the owner: its path by which the bot follows it, and the changed lines.
fn rule_changes(workspace: &Workspace, change: &FileChange) -> Option<(WorkspacePath, String)> {
    let rule = workspace.shown_changed_as(&change.path)?;
    let before = workspace.open_exactly(&change.path);
    let before = before.and_then(|file| file.read_up_to(READ_BYTES_MAX)).unwrap_or_default();
    let now = String::from_utf8_lossy(&change.contents);
    Some((rule, memory::changes(&String::from_utf8_lossy(&before), &now)?))
}

/// The same of a change that a crash came after.
async fn shown_again(turns: &TurnServices, intent: &Intent) -> Option<(WorkspacePath, String)> {
    let Intent::File { path, before, .. } = intent else { return None };
    let path = path.parse::<WorkspacePath>().ok()?;
    let (images, before) = (turns.actions.images.clone(), before.clone());
    let lines = move |workspace: &Workspace| {
        let rule = workspace.shown_changed_as(&path)?;
        let before = before.and_then(|hash| images.get(&Hash::stored(&hash)?)).unwrap_or_default();
        let now = workspace.open_exactly(&path);
        let now = now.and_then(|file| file.read_up_to(READ_BYTES_MAX)).unwrap_or_default();
        let lines =
            memory::changes(&String::from_utf8_lossy(&before), &String::from_utf8_lossy(&now))?;
        Some((rule, lines))
    };
    turns.services.workspace.off_thread(lines).await
}

/// Tells the owner of a changed instruction: whoever can change instructions unseen controls the bot. Only the owner
/// can have them changed, in private, so the message goes where it was asked for.
fn tell_of_rules(calling: &CallContext<'_>, path: &WorkspacePath, lines: &str) -> Effect {
    let words = replies::rules_changed(path, lines, calling.call.id);
    Effect::Say { to: calling.at.clone(), body: Body::Text(words) }
}

/// Shows a person that their own words were kept unasked, with the way back.
fn tell_of_own_words(calling: &CallContext<'_>, path: &str) -> Option<Effect> {
    let text = calling.own_words.as_ref()?;
    let id = calling.call.id;
    let undo = Choice { label: replies::UNDO_IT.to_owned(), says: CommandId::Undo.line(id) };
    let who = Entitled::Only(calling.person.id.clone());
    let text = replies::kept_own_words(path, text, id);
    let question = Question::new(text, vec![undo], who);
    Some(Effect::Say { to: calling.at.clone(), body: Body::Choice(question) })
}

pub(crate) async fn apply(services: &Services, change: FileChange) -> Result<(), String> {
    let applied = services.workspace.off_thread(move |workspace| workspace.apply(&change)).await;
    applied.map_err(|error| format!("Not changed: {error}."))
}

pub(crate) enum Happened {
    Yes,
    No,
    Unknown,
}

/// Finds out if an interrupted call has happened, or may as well happen again.
pub(crate) async fn look(services: &Services, intent: &Intent) -> Happened {
    let (path, before, after) = match intent {
        Intent::File { path, before, after, .. } => (path, before, after),
        Intent::Act { idempotent: true } => return Happened::No,
        Intent::Act { idempotent: false } => return Happened::Unknown,
    };
    let Ok(path) = path.parse::<WorkspacePath>() else { return Happened::Unknown };
    let hash = services.workspace.off_thread(move |workspace| workspace.hash(&path)).await;
    let Ok(now) = hash else { return Happened::Unknown };
    match now.as_ref().map(Hash::as_str) {
        now if now == after.as_deref() => Happened::Yes,
        now if now == before.as_deref() => Happened::No,
        _ => Happened::Unknown,
    }
}

async fn settle(
    services: &Services,
    turn: TurnId,
    call: &Call,
    outcome: CallOutcome,
) -> Result<CallResult, TurnError> {
    end(services, turn, CallEnd::of(call, Utc::now(), outcome)).await
}

async fn end(services: &Services, turn: TurnId, ends: CallEnd) -> Result<CallResult, TurnError> {
    let outcome = without_secrets(services, ends.outcome);
    let ends = CallEnd { outcome, ..ends };
    let queues = !ends.effects.is_empty();
    let (outcome, sources) = commits::call_ends(&services.bus.store, turn, ends).await?;
    if queues {
        services.bus.outbox.up();
        services.bus.inbox.up();
        services.bus.jobs.up();
    }
    Ok(CallResult { outcome, sources, changed: None })
}

/// Removes secrets from an outcome: models would repeat them.
fn without_secrets(services: &Services, outcome: CallOutcome) -> CallOutcome {
    let redact = |text: String| services.redactor.redact(&text).into_owned();
    match outcome {
        CallOutcome::Done(text) => CallOutcome::Done(redact(text)),
        CallOutcome::Failed(text) => CallOutcome::Failed(redact(text)),
        CallOutcome::Denied(text) => CallOutcome::Denied(redact(text)),
        other => other,
    }
}
