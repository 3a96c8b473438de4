//! Waiting for a person is not a running task. A call that somebody is asked about suspends its turn:
//! one transaction stores the call as waiting, the message that asks, and when that expires; the
//! turn's task ends. An answer, a decision, the end of its time or `/stop` is a row that unparks it,
//! after a restart as before. A call that waits for a subagent suspends its turn likewise.

use std::time::Duration;

use rusqlite::Connection;

use crate::conversation::asks::{Approvals, Ask, AskId, AskKind, NewAsk};
use crate::conversation::{sessions, transcript};
use crate::people;
use crate::replies;
use crate::tools::SubagentTask;
use crate::trust::permission::{Decider, PermissionReason};
use crate::turn::calling::CallContext;
use crate::turn::error::TurnError;
use crate::turn::services::TurnServices;
use crate::turn::{commits, progress};
use crate::types::message::{
    Address, Attachment, Body, ChatKind, Choice, Content, Entitled, MediaKind, Question,
};
use crate::types::session::CallOutcome;
use crate::types::source::Source;

/// The shortest time until asks are looked at again.
pub(crate) const MOMENT: Duration = Duration::from_millis(50);

/// Asks the person who speaks what the model wants to know.
pub(crate) async fn ask(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    body: Body,
) -> Result<(), TurnError> {
    let new = NewAsk {
        turn: calling.turn,
        call: calling.call.id,
        kind: AskKind::Question,
        at: calling.at.clone(),
        // Whoever made a job at this machine is not there to answer; the owner is.
        who: calling.is_there.then(|| calling.person.id.clone()),
        time: turns.config.asking.question_time,
        offers_always: false,
    };
    let is_there = calling.is_there;
    suspend(turns, calling, new, None, move |_| match body {
        Body::Choice(question) if !is_there => {
            vec![Body::Choice(Question { who: Entitled::Owner, ..question })]
        }
        body => vec![body],
    })
    .await
}

/// A call that somebody must allow.
pub(crate) struct ApprovalNeed<'a> {
    pub(crate) why: &'a PermissionReason,
    pub(crate) decider: Decider,
    /// The difference that it makes to a file.
    pub(crate) change: Option<String>,
    /// The chat in which it tells what was said in private.
    pub(crate) tells: Option<Address>,
}

/// Asks those who may say so whether a call may be made: here if the one who speaks may and is here, else
/// where the owner last spoke in private.
pub(crate) async fn ask_leave(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    ApprovalNeed { why, decider, change, tells }: ApprovalNeed<'_>,
) -> Result<(), TurnError> {
    let look = move |store: &Connection| {
        let reader = tells.map(|to| reader_of(store, &to)).transpose()?;
        Ok((people::owner_place(store)?, reader))
    };
    let (owner, tells) = turns.services.bus.store.read(look).await?;
    let who = (decider == Decider::Person && calling.is_there).then(|| calling.person.id.clone());
    let may_there = who.is_some() || (calling.is_there && calling.role >= Approvals::BY);
    let elsewhere = owner.filter(|_| !may_there);
    let told = elsewhere.is_some().then(|| calling.at.clone());
    let is_in_group = told.is_none() && calling.place == ChatKind::Group;
    let time = match is_in_group {
        true => turns.config.asking.group_approval_time,
        false => turns.config.asking.approval_time,
    };
    let new = NewAsk {
        turn: calling.turn,
        call: calling.call.id,
        kind: AskKind::Approval,
        at: elsewhere.unwrap_or_else(|| calling.at.clone()),
        who: who.clone(),
        time,
        offers_always: why.can_be_granted(),
    };
    let (tool, arguments) = (calling.call.tool.clone(), calling.call.arguments.clone());
    let person = match who {
        Some(_) => replies::YOU_YOURSELF.to_owned(),
        None => calling.person.to_string(),
    };
    let minutes = time.as_secs().div_ceil(60);
    // Who decides elsewhere would clean another conversation.
    let offers_clean = matches!(why, PermissionReason::Foreign(..))
        && told.is_none()
        && calling.place == ChatKind::Private;
    let (why, can_be_granted) = (why.to_string(), why.can_be_granted());
    suspend(turns, calling, new, told, move |AskId(id)| {
        let choice = |label: &str, says: String| Choice { label: label.to_owned(), says };
        let mut choices = vec![
            choice(replies::ONCE, format!("/approve {id}")),
            choice(replies::DENY, format!("/deny {id}")),
        ];
        if can_be_granted {
            choices.insert(1, choice(replies::ALWAYS, format!("/approve {id} always")));
        }
        if offers_clean {
            choices.push(choice(replies::CLEAN, "/clean".to_owned()));
        }
        let change = change.as_deref();
        let call = replies::ApprovalPrompt {
            id,
            person,
            tool: &tool,
            arguments: &arguments,
            change,
            why: &why,
            tells: tells.as_deref(),
        };
        let text = replies::may_i(&call, can_be_granted, minutes);
        let file = call.file().map(|(name, whole)| {
            Body::File(Attachment {
                name,
                kind: MediaKind::Document,
                caption: String::new(),
                printed: true,
                content: Content::Text(whole),
            })
        });
        let who = who.map_or(Entitled::Admins, Entitled::Only);
        let question = Body::Choice(Question { text, choices, who, proposal: None });
        file.into_iter().chain([question]).collect()
    })
    .await
}

/// Returns who reads a chat, for people.
fn reader_of(store: &Connection, to: &Address) -> rusqlite::Result<String> {
    let reader = sessions::private_speaker(store, to)?;
    Ok(match reader {
        Some(reader) => replies::reader(&reader.name, to),
        None => to.to_string(),
    })
}

async fn suspend(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    new: NewAsk,
    told: Option<Address>,
    bodies: impl FnOnce(AskId) -> Vec<Body> + Send + 'static,
) -> Result<(), TurnError> {
    let draft = commits::parks(&turns.services.bus.store, new, told, bodies).await?;
    turns.services.bus.outbox.up();
    // A job that waits for a person leaves its place to others.
    turns.services.bus.jobs.up();
    if let Some(draft) = draft {
        progress::erase(turns, calling.at, draft);
    }
    Ok(())
}

/// Hands a task to a subagent, and suspends the turn until it has ended; gives the call's outcome by now.
pub(crate) async fn await_subagent(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    task: SubagentTask,
) -> Result<CallOutcome, TurnError> {
    let (turn, call) = (calling.turn, calling.call.id);
    let (outcome, draft) = commits::awaits(&turns.services.bus.store, turn, call, task).await?;
    turns.services.bus.inbox.up();
    if let Some(draft) = draft {
        progress::erase(turns, calling.at, draft);
    }
    Ok(outcome)
}

/// The turn goes on with this outcome of the call that waited, which has these sources.
pub(crate) fn resume_call(
    store: &Connection,
    ask: &Ask,
    outcome: &CallOutcome,
    sources: &[Source],
) -> rusqlite::Result<()> {
    transcript::call_ended(store, ask.call, outcome, sources)?;
    transcript::resume_call(store, ask.turn)
}
