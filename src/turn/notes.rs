//! Notes before compaction: the model may save lasting content of a conversation of the owner before it is
//! compacted. It is one silent step in which it can only call `remember` and `note`. A new message of the
//! person cancels it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::bus::journal::WaitingMessage;
use crate::conversation::asks::OnUntrusted;
use crate::conversation::ledger::{CallCause, Payer};
use crate::conversation::shares::NOTES_PERCENT;
use crate::conversation::{tokens, transcript};
use crate::memory::audience;
use crate::people::Role;
use crate::provider::{self, Attempts, Completion, Pictures, Provider, ProviderError, Request};
use crate::services::role_on;
use crate::tools::{Caller, ToolContext};
use crate::trust::permission::{self, Decision, PermissionRequest};
use crate::trust::taint;
use crate::turn::STORE_PAUSE;
use crate::turn::call_context::CallContext;
use crate::turn::calls::ToolLookup;
use crate::turn::commits;
use crate::turn::end::TurnEnd;
use crate::turn::error::{CommitError, TurnError};
use crate::turn::instructions::{self, PromptBase, Speaker};
use crate::turn::personas::{PersonaListener, persona_for};
use crate::turn::run::{self as turn, CheckedCall, check_call};
use crate::turn::services::TurnServices;
use crate::turn::spending::{Planned, payer_on};
use crate::turn::{calls, compaction, prompt};
use crate::types::message::Sender;
use crate::types::origin::Origin;
use crate::types::session::{Call, Session, Step, Turn, TurnId, TurnOutcome};
use crate::types::source::{Source, SourcedText};
use crate::workspace::Audience;

/// The tools that can be called. The prompt has all tools, because they are at the beginning of the provider's cache.
const TOOLS: [&str; 2] = ["note", "remember"];

/// Estimated bytes of a token.
const BYTES_A_TOKEN: u64 = 4;

/// Maximum length of the notes, in tokens.
const OUTPUT_MAX: u64 = 1_000;

/// Maximum time for saving notes. Nobody waits for it, but it delays the compaction.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Saves notes, and returns the session.
pub(crate) async fn take(
    turns: Arc<TurnServices>,
    session: Session,
    sender: Sender,
    steer: mpsc::Receiver<Vec<WaitingMessage>>,
    stop: CancellationToken,
) -> Result<Option<Session>, TurnError> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Ok(None),
        ended = Box::pin(take_notes(&turns, session, sender, steer)) => {
            if let Err(TurnError::Commit(CommitError::Store(_))) = &ended {
                // The command is tried again at once, so the pause is here and not in the loop.
                sleep(STORE_PAUSE).await;
            }
            ended
        }
    }
}

/// Returns true if the persona allows one of the tools.
fn may_note(session: &Session) -> bool {
    TOOLS.iter().any(|tool| session.persona.tools.allow(tool))
}

async fn take_notes(
    turns: &TurnServices,
    mut session: Session,
    sender: Sender,
    steer: mpsc::Receiver<Vec<WaitingMessage>>,
) -> Result<Option<Session>, TurnError> {
    let Origin::Chat(at) = &session.origin.clone() else { return Ok(Some(session)) };
    let role = role_on(&turns.services, session.origin.channel(), &sender).await?;
    if audience(role, session.chat_kind) != Audience::Owner {
        return Ok(Some(session));
    }
    let who = PersonaListener { known_on: &at.channel, sender: &sender, role };
    persona_for(&turns.services, &turns.config.personas, at, who).await?.enter(&mut session);
    let provider = turns.models.for_session(&session);
    let id = session.id;
    let query = move |store: &_| transcript::bytes_since_notes(store, id);
    let new_tokens = turns.services.bus.store.read(query).await? / BYTES_A_TOKEN;
    let context_window = session.estimate.context_window(provider.context_window());
    if !may_note(&session) || new_tokens < tokens::percent(context_window, NOTES_PERCENT) {
        return Ok(Some(session));
    }
    let input = SourcedText::of(Source::Program, prompt::TAKE_NOTES);
    let input = Step { input: Some(input), ..Step::default() };
    // Notes from untrusted content would not be reviewed, and later conversations would trust them.
    let is_tainted = taint::find_taint(&turns.services.bus, &session, role).await?.is_some();
    if is_tainted && turns.config.asking.untrusted != OnUntrusted::Allow {
        return Ok(Some(session));
    }
    let by = sender.id.clone();
    let steps = vec![input.clone()];
    session.turns.push(Turn { id: TurnId(0), by: by.clone(), steps, ending: None });
    let payer = payer_on(&turns.services, session.origin.channel(), &sender, CallCause::Notes);
    let payer = Payer { persona: session.persona.name, ..payer.await? };
    let planned = Planned {
        payer,
        provider: provider.name(),
        turn: None,
        input: session.estimate.used,
        output: Some(OUTPUT_MAX),
    };
    let bus = &turns.services.bus;
    let granted = match turns.spending.reserve(bus, planned).await? {
        Ok(granted) => granted,
        Err(error) => {
            tracing::info!(%error, "Took no notes before compaction");
            session.turns.pop();
            return Ok(Some(session));
        }
    };
    let speaker = Speaker { name: &sender.name, role };
    let completion = ask(turns, provider.as_ref(), &session, speaker, steer).await;
    session.turns.pop();
    let Some(completion) = completion else {
        turns.spending.failed(bus, &granted, &ProviderError::Broken(String::new())).await?;
        return Ok(Some(session));
    };
    let charge = turns.spending.charge(payer, &granted, provider.name(), &completion);
    if completion.calls.is_empty() {
        let turn =
            commits::store_empty_notes(&bus.store, session.id, sender.clone(), charge).await?;
        let ending = Some(TurnOutcome::Silent);
        session.turns.push(Turn { id: turn, by, steps: Vec::new(), ending });
        return Ok(Some(session));
    }
    let step = Step { text: completion.text, thinking: completion.thinking, ..input };
    let notes = commits::NewNotes {
        session: session.id,
        sender: sender.clone(),
        charge,
        step: step.clone(),
        calls: completion.calls,
    };
    let (turn, calls) = commits::begin_notes(&turns.services.bus.store, notes).await?;
    let mut step = Step { calls, ..step };
    for call in &mut step.calls {
        let cx = turn::tool_context(turns, &session, at, &sender, role).await?;
        let result = match check(turns, call, &cx, role) {
            Ok(tool) => {
                calls::run(
                    turns,
                    &CallContext {
                        own_words: None,
                        approval: None,
                        turn,
                        call,
                        person: &sender,
                        role,
                        at,
                        chat_kind: session.chat_kind,
                        is_there: true,
                        keeps_quiet: false,
                    },
                    &cx,
                    Ok(tool),
                )
                .await
            }
            Err(reason) => calls::refuse(&turns.services, turn, call, reason).await,
        };
        let result = result?;
        (call.outcome, call.sources) = (result.outcome, result.sources);
    }
    commits::end_turn(&bus.store, turn, None, TurnEnd::silent(&session.origin)).await?;
    session.turns.push(Turn { id: turn, by, steps: vec![step], ending: Some(TurnOutcome::Silent) });
    Ok(Some(session))
}

/// Returns the tool of a call that can be made now. The error explains to the model why it cannot. Nobody is asked for
/// approval, because the step is invisible to people.
fn check(turns: &TurnServices, call: &Call, cx: &ToolContext, role: Role) -> ToolLookup {
    if !TOOLS.contains(&call.tool.as_str()) {
        return Err("Only `remember` and `note` can be called now.".to_owned());
    }
    let CheckedCall { tool, terms, reach, .. } = check_call(turns, call, cx)?;
    let request = PermissionRequest {
        tool: &call.tool,
        terms,
        reach,
        role: cx.role,
        own_role: role,
        taint: None,
        knows_url: false,
        is_attended: true,
    };
    match permission::decide(&request, &turns.config.asking) {
        Decision::Allow => Ok(tool),
        Decision::Ask(why) | Decision::Deny(why) => Err(prompt::denied(&why)),
    }
}

/// Asks the model for its notes. None if it cannot be asked now.
async fn ask(
    turns: &TurnServices,
    provider: &dyn Provider,
    session: &Session,
    speaker: Speaker<'_>,
    mut steer: mpsc::Receiver<Vec<WaitingMessage>>,
) -> Option<Completion> {
    let caller = Caller::Conversation(turns.finish_of(session));
    let PromptBase { system, tools, facts, .. } =
        instructions::base(turns, session, speaker, caller).await;
    if !tools.iter().any(|tool| TOOLS.contains(&tool.name.as_str())) {
        return None;
    }
    let summary = compaction::shown_of(session);
    let request = Request {
        system: &system,
        tools: &tools,
        facts: &facts,
        may_call: true,
        effort: session.settings.effort,
        attempts: Attempts::Usual,
        tokens_max: None,
        messages: provider::transcript_as_messages(summary.as_deref(), &session.turns),
        pictures: &Pictures::default(),
    };
    let asking = provider::complete(provider, &request, |_| {});
    let asking = timeout(TIME_MAX, AssertUnwindSafe(asking).catch_unwind());
    tokio::select! {
        biased;
        Some(_) = steer.recv() => {
            tracing::debug!("Took no notes, because a new message arrived");
            None
        }
        completed = Box::pin(asking) => match completed {
            Ok(Ok(Ok(completion))) => Some(completion),
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "Took no notes before compaction");
                None
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("Took no notes before compaction, because the model failed or took too long");
                None
            }
        },
    }
}
