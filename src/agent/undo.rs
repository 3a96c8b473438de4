//! `/undo`: the same as the tool, without a model. The action is stored before the file is changed. After
//! a crash in between, the command finds the action by its row, and the file shows if the change happened.

use rusqlite::Connection;
use serde_json::json;

use crate::bus::journal::{InboundOutcome, WaitingMessage};
use crate::conversation::actions::{self, ActionReader, ActionScope, UndoTarget};
use crate::conversation::proposals;
use crate::conversation::transcript;
use crate::memory::file_scope;
use crate::people::folders::folder_owner;
use crate::replies;
use crate::services::{Services, role_of};
use crate::store::{StoreError, Sync};
use crate::trust::acts::tool_role;
use crate::turn::calls::{self, CallFate};
use crate::turn::commits;
use crate::turn::services::TurnServices;
use crate::types::commands::CommandId;
use crate::types::session::{CallId, CallOutcome, Intent};
use crate::workspace::FileChange;

/// Undoes the action with that number, or the last one that changed a file.
pub(super) async fn handle(
    turns: &TurnServices,
    control: &WaitingMessage,
    number: Option<&str>,
) -> Result<(), StoreError> {
    let role = role_of(&turns.services, &control.inbound.from, control.sender()).await?;
    let chat_kind = control.inbound.chat_kind;
    let role = tool_role(role, chat_kind);
    let number = number.map(|number| number.trim_start_matches('#').parse().map(CallId));
    let id = match number {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => {
            return refuse(&turns.services, control, replies::UNDO_USAGE.to_owned()).await;
        }
    };
    if !CommandId::Undo.spec().allows(role, chat_kind) {
        return refuse(&turns.services, control, replies::OWNER_ONLY.to_owned()).await;
    }
    let mark = format!("command {}", control.id.0);
    let (at, who, own_mark) =
        (control.inbound.from.clone(), control.sender().clone(), mark.clone());
    let reader = reader_of(&turns.services, control);
    let query = move |store: &Connection| {
        let session = actions::session_at(store, &at)?;
        let scope = ActionScope::of(&who, role, chat_kind, session);
        let begun = actions::find_interrupted(store, &own_mark)?;
        let whole = scope.clone();
        let (scope, id) = match (&begun, id) {
            (Some((_, Intent::File { undoes, .. })), _) => (scope, *undoes),
            (None, None) => (scope.within(session), None),
            (_, id) => (scope, id),
        };
        let owner = folder_owner(store, &at.channel, &who.id)?;
        let target = actions::find_undo_target(store, &reader, &scope, id)?;
        let has_earlier =
            target.is_none() && actions::find_undo_target(store, &reader, &whole, None)?.is_some();
        Ok((begun, target, owner, has_earlier))
    };
    let (begun, target, owner, has_earlier) = turns.services.bus.store.read(query).await?;
    let Some(target) = target else {
        let reply = id.map(replies::no_such_action);
        let nothing = match has_earlier {
            true => replies::NOTHING_TO_UNDO_BUT_EARLIER,
            false => replies::NOTHING_TO_UNDO,
        };
        let reply = reply.unwrap_or_else(|| nothing.to_owned());
        return refuse(&turns.services, control, reply).await;
    };
    let call = match begun {
        None => None,
        Some((call, intent)) => match calls::find_fate(&turns.services, &intent).await {
            CallFate::Happened => {
                return done(&turns.services, control, call, &target, &intent).await;
            }
            CallFate::Unknown => {
                let reply = replies::UNDO_STATE_UNKNOWN.to_owned();
                let settled = SettledAction { call, outcome: CallOutcome::Interrupted };
                return end(&turns.services, control, Some(settled), reply).await;
            }
            CallFate::NotHappened => Some(call),
        },
    };
    let scope = file_scope(role, chat_kind, &control.inbound.from, &owner);
    let (images, asked) = (turns.actions.images.clone(), target);
    let prepared = turns.services.workspace.run_blocking(move |workspace| {
        let change = actions::change_that_undoes(workspace, &images, &asked, &scope);
        let kept = change.as_ref().is_ok_and(|change| images.keep_before(workspace, change));
        (change, kept, asked)
    });
    let (change, kept, target) = prepared.await;
    match change {
        Err(reply) => {
            let outcome = CallOutcome::Failed(reply.clone());
            let failed = call.map(|call| SettledAction { call, outcome });
            end(&turns.services, control, failed, reply).await
        }
        Ok(change) => {
            let undoing = UndoChange { mark, begun: call, change, kept };
            make(&turns.services, control, &target, undoing).await
        }
    }
}

/// A change that undoes an action.
struct UndoChange {
    /// Identifies the command, to find the action again after a crash.
    mark: String,
    /// The action, if it was stored before a crash.
    begun: Option<CallId>,
    change: FileChange,
    /// True if the present content was saved, so that this change can be undone too.
    kept: bool,
}

/// Stores the action, unless it was stored before a crash, and makes its change.
async fn make(
    services: &Services,
    control: &WaitingMessage,
    target: &UndoTarget,
    UndoChange { mark, begun, change, kept }: UndoChange,
) -> Result<(), StoreError> {
    let intent = change.intent(Some(target.id));
    let call = match begun {
        Some(call) => call,
        None => {
            let undoing = actions::CommandChange {
                at: control.inbound.from.clone(),
                chat_kind: control.inbound.chat_kind,
                who: control.sender().clone(),
                mark,
                tool: actions::UNDO,
                arguments: json!({ "id": target.id }).to_string(),
                undo: kept.then(|| change.undo()),
                change: intent.clone(),
            };
            let begin = move |store: &Connection| actions::begin(store, &undoing);
            services.bus.store.write("undo starts", Sync::Now, begin).await?
        }
    };
    match calls::apply(services, change).await {
        Ok(()) => done(services, control, call, target, &intent).await,
        Err(reason) => {
            let settled = SettledAction { call, outcome: CallOutcome::Failed(reason.clone()) };
            end(services, control, Some(settled), reason).await
        }
    }
}

/// Settles a command whose change was made.
async fn done(
    services: &Services,
    control: &WaitingMessage,
    call: CallId,
    target: &UndoTarget,
    intent: &Intent,
) -> Result<(), StoreError> {
    let path = match intent {
        Intent::File { path, .. } => path.as_str(),
        Intent::Act { .. } => "",
    };
    let reply = replies::undone(target.id, &target.tool, path);
    let settled = SettledAction { call, outcome: CallOutcome::Done(reply.clone()) };
    end(services, control, Some(settled), reply).await
}

/// Settles a command that begins no action.
async fn refuse(
    services: &Services,
    control: &WaitingMessage,
    reply: String,
) -> Result<(), StoreError> {
    end(services, control, None, reply).await
}

/// An action of a command, with its outcome.
pub(super) struct SettledAction {
    pub(super) call: CallId,
    pub(super) outcome: CallOutcome,
}

/// Settles the command together with its action, if one was begun, and sends the reply.
pub(super) async fn end(
    services: &Services,
    control: &WaitingMessage,
    settled: Option<SettledAction>,
    reply: String,
) -> Result<(), StoreError> {
    let control = control.clone();
    let end = move |store: &Connection| {
        let is_done = matches!(settled, Some(SettledAction { outcome: CallOutcome::Done(_), .. }));
        let outcome = if is_done { InboundOutcome::Handled } else { InboundOutcome::Refused };
        if let Some(SettledAction { call, outcome }) = &settled {
            transcript::end_call(store, *call, outcome, &[])?;
        }
        commits::settle_command(store, &control, outcome, || Ok(reply)).map(drop)
    };
    services.bus.store.write("command", Sync::Now, end).await
}

/// Returns the sender of a command as a reader of actions.
fn reader_of(services: &Services, control: &WaitingMessage) -> ActionReader {
    ActionReader { people: services.bus.people.clone(), accounts: vec![control.account()] }
}

/// Returns the text of `/actions`: the conversation's actions, or all of them for the owner in private.
pub(super) async fn list(
    services: &Services,
    control: &WaitingMessage,
    limit: usize,
) -> Result<String, StoreError> {
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let (at, chat_kind) = (control.inbound.from.clone(), control.inbound.chat_kind);
    let who = control.sender().clone();
    let reader = reader_of(services, control);
    let query = move |store: &Connection| {
        let session = actions::session_at(store, &at)?;
        let scope = ActionScope::of(&who, role, chat_kind, session);
        reader.list(store, &scope, None, limit)
    };
    let found = services.bus.store.read(query).await?;
    if found.is_empty() {
        return Ok(replies::NO_ACTIONS.to_owned());
    }
    let now = services.now();
    Ok(replies::actions(found.iter().map(|action| action.describe(now))))
}

/// Returns the text of `/plan`.
pub(super) async fn plan(
    services: &Services,
    control: &WaitingMessage,
) -> Result<String, StoreError> {
    let at = control.inbound.from.clone();
    let query = move |store: &Connection| match actions::session_at(store, &at)? {
        Some(session) => crate::conversation::plans::of(store, session),
        None => Ok(None),
    };
    let plan = services.bus.store.read(query).await?;
    Ok(plan.map_or_else(|| replies::NO_PLAN.to_owned(), |plan| plan.to_string()))
}

/// Returns the text of `/proposals`.
pub(super) async fn proposals(
    services: &Services,
    control: &WaitingMessage,
) -> Result<String, StoreError> {
    let at = control.inbound.from.clone();
    let query = move |store: &Connection| match actions::session_at(store, &at)? {
        Some(session) => proposals::list(store, session),
        None => Ok(Vec::new()),
    };
    let found = services.bus.store.read(query).await?;
    Ok(match found.is_empty() {
        true => replies::NO_PROPOSALS.to_owned(),
        false => replies::proposals(found.iter().map(proposals::Proposal::describe)),
    })
}
