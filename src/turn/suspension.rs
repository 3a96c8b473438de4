//! Suspends turns. A turn that waits for a person has no running task: one transaction stores the call as
//! waiting, the message that asks, and its expiry, and the task of the turn ends. An answer, a decision, the
//! expiry or `/stop` is a row that resumes the turn, also after a restart. A call that waits for a subagent
//! suspends its turn in the same way.

use std::time::Duration;

use rusqlite::Connection;

use crate::conversation::asks::{Approvals, Ask, AskId, AskKind, AskedCall, NewAsk, ShownCall};
use crate::conversation::{presence, transcript};
use crate::people::{self, Role};
use crate::replies::{self, ApprovalPrompt};
use crate::tools::SubagentTask;
use crate::trust::permission::{Decider, PermissionReason};
use crate::turn::call_context::CallContext;
use crate::turn::error::TurnError;
use crate::turn::proposed::ProposedFiles;
use crate::turn::services::TurnServices;
use crate::turn::{commits, progress};
use crate::types::commands::CommandId;
use crate::types::message::{
    Address, AllowedPressers, Attachment, Body, ChatKind, Choice, Content, MediaKind, Question,
};
use crate::types::session::{Call, CallOutcome};
use crate::types::source::Source;

/// Minimum time until asks are examined again.
pub(crate) const EXPIRY_PAUSE_MIN: Duration = Duration::from_millis(50);

/// Asks the person of the turn a question of the model.
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
        // The author of a job that was made on this machine cannot answer there, but the owner can.
        who: calling.is_there.then(|| calling.person.id.clone()),
        time: turns.config.asking.question_time,
        offers_always: false,
        shown: None,
        files: None,
    };
    let is_there = calling.is_there;
    let body = body.written_in(calling.turn);
    suspend(turns, calling, vec![new], None, move |_| match body {
        Body::Choice(question) if !is_there => {
            vec![Body::Choice(Question { who: AllowedPressers::Owner, ..question })]
        }
        body => vec![body],
    })
    .await
}

/// A call that needs approval.
pub(crate) struct CallToAllow<'a> {
    pub(crate) call: &'a Call,
    pub(crate) why: &'a PermissionReason,
    /// Its files as they are now, with its change of one as a diff.
    pub(crate) proposed: ProposedFiles,
    /// The chat to which it sends private content.
    pub(crate) tells: Option<Address>,
    /// The least role that its tool needs. None if the tool is gone.
    pub(crate) needs: Option<Role>,
    /// True if the model has read untrusted content.
    pub(crate) is_tainted: bool,
    /// True if it was approved before, which does not cover its files as they are now.
    pub(crate) is_asked_again: bool,
}

/// Asks for the approval of calls of a step, in one question. It is sent to this chat if the person of the turn may
/// decide and is here, otherwise to the chat where the owner last spoke in private.
pub(crate) async fn ask_permission(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    decider: Decider,
    calls: &[CallToAllow<'_>],
) -> Result<(), TurnError> {
    let target_chat = calls.iter().find_map(|asked| asked.tells.clone());
    let query = move |store: &Connection| {
        let reader = target_chat.map(|to| reader_of(store, &to)).transpose()?;
        Ok((people::owner_address(store)?, reader))
    };
    let (owner, tells) = turns.services.bus.store.read(query).await?;
    let who = (decider == Decider::Person && calling.is_there).then(|| calling.person.id.clone());
    let is_decided_here = who.is_some() || (calling.is_there && calling.role >= Approvals::BY);
    let elsewhere = owner.filter(|_| !is_decided_here);
    let notify = elsewhere.is_some().then(|| calling.at.clone());
    let is_in_group = notify.is_none() && calling.chat_kind == ChatKind::Group;
    let time = match is_in_group {
        true => turns.config.asking.group_approval_time,
        false => turns.config.asking.approval_time,
    };
    let at = elsewhere.unwrap_or_else(|| calling.at.clone());
    let new_asks = calls.iter().map(|asked| NewAsk {
        turn: calling.turn,
        call: asked.call.id,
        kind: AskKind::Approval,
        at: at.clone(),
        who: who.clone(),
        time,
        offers_always: asked.why.can_be_granted(),
        shown: Some(ShownCall {
            why: asked.why.to_string(),
            change: asked.proposed.diff.clone(),
            tells: tells.clone(),
            needs: asked.needs,
        }),
        files: asked.proposed.files.clone(),
    });
    let person = who.is_none().then(|| calling.person.to_string());
    let prompt =
        |asked| ApprovalPrompt { tells: tells.clone(), ..prompt_of(asked, person.as_deref()) };
    let prompts: Vec<_> = calls.iter().map(prompt).collect();
    // `/clean` elsewhere would clean another conversation.
    let is_untrusted = calls.iter().any(|it| matches!(it.why, PermissionReason::Untrusted(..)));
    let offers_clean = is_untrusted && notify.is_none() && calling.chat_kind == ChatKind::Private;
    let minutes = time.as_secs().div_ceil(60);
    let new_asks: Vec<_> = new_asks.collect();
    let entitled = who.map_or(AllowedPressers::Admins, AllowedPressers::Only);
    let bodies = move |ids: &[AskId]| {
        let ids = ids.iter().map(|AskId(id)| *id);
        let chars_max = replies::ARGUMENTS_CHARS_MAX / prompts.len().max(1);
        let prompts: Vec<_> = ids
            .zip(prompts)
            .map(|(id, prompt)| ApprovalPrompt { id, chars_max, ..prompt })
            .collect();
        bodies(&prompts, entitled, offers_clean, minutes)
    };
    suspend(turns, calling, new_asks, notify, bodies).await
}

fn prompt_of(asked: &CallToAllow<'_>, person: Option<&str>) -> ApprovalPrompt {
    let Call { tool, arguments, .. } = asked.call;
    ApprovalPrompt {
        id: 0,
        person: person.map(str::to_owned),
        is_tainted: asked.is_tainted,
        tool: tool.clone(),
        arguments: arguments.clone(),
        change: asked.proposed.diff.clone(),
        files: asked.proposed.files.clone(),
        is_asked_again: asked.is_asked_again,
        why: asked.why.to_string(),
        tells: None,
        can_be_granted: asked.why.can_be_granted(),
        chars_max: replies::ARGUMENTS_CHARS_MAX,
    }
}

/// Returns the messages of a question. Content that is too long for it comes as files before it.
fn bodies(
    prompts: &[ApprovalPrompt],
    who: AllowedPressers,
    offers_clean: bool,
    minutes: u64,
) -> Vec<Body> {
    let choice = |label: &str, says: String| Choice { label: label.to_owned(), says };
    let first = prompts.first().map_or(0, |prompt| prompt.id);
    let mut choices = match prompts {
        [prompt] => choices_of_one(prompt.id, prompt.can_be_granted),
        _ => vec![
            choice(replies::ALL, CommandId::Approve.line(format_args!("{first} all"))),
            choice(replies::EACH, CommandId::Approve.line(format_args!("{first} each"))),
            choice(replies::NONE, CommandId::Deny.line(format_args!("{first} all"))),
        ],
    };
    if offers_clean {
        choices.push(choice(replies::CLEAN, CommandId::Clean.line("")));
    }
    let files = prompts.iter().filter_map(ApprovalPrompt::file).map(|(name, whole)| {
        Body::File(Attachment {
            name,
            kind: MediaKind::Document,
            caption: String::new(),
            printed: true,
            content: Content::Text(whole),
        })
    });
    let text = match prompts {
        [prompt] => replies::ask_approval(prompt, minutes),
        prompts => replies::ask_joint_approval(prompts, minutes),
    };
    let question = Question::new(text, choices, who);
    files.chain([Body::Choice(question)]).collect()
}

fn choices_of_one(id: i64, can_be_granted: bool) -> Vec<Choice> {
    let choice = |label: &str, says: String| Choice { label: label.to_owned(), says };
    let always = choice(replies::ALWAYS, CommandId::Approve.line(format_args!("{id} always")));
    let once = choice(replies::ONCE, CommandId::Approve.line(id));
    let deny = choice(replies::DENY, CommandId::Deny.line(id));
    [Some(once), can_be_granted.then_some(always), Some(deny)].into_iter().flatten().collect()
}

/// Returns the question about one of several calls, which were shown in full before.
pub(crate) fn one_question(asked: &AskedCall) -> Body {
    let id = asked.ask.id.0;
    let text = replies::ask_single_approval(id, &asked.tool, &asked.arguments);
    let choices = choices_of_one(id, asked.offers_always);
    let who = asked.ask.who.clone().map_or(AllowedPressers::Admins, AllowedPressers::Only);
    Body::Choice(Question::new(text, choices, who))
}

/// Returns the reader of a chat as a text for people.
fn reader_of(store: &Connection, to: &Address) -> rusqlite::Result<String> {
    let reader = presence::private_reader(store, to)?;
    Ok(match reader {
        Some(reader) => replies::reader(&reader.name, to),
        None => to.to_string(),
    })
}

async fn suspend(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    new: Vec<NewAsk>,
    notify: Option<Address>,
    bodies: impl FnOnce(&[AskId]) -> Vec<Body> + Send + 'static,
) -> Result<(), TurnError> {
    let store = &turns.services.bus.store;
    let draft = commits::suspend_to_ask(store, calling.turn, new, notify, bodies).await?;
    turns.services.bus.outbox.notify();
    // A job that waits for a person frees its place for others.
    turns.services.bus.jobs.notify();
    if let Some(draft) = draft {
        progress::erase(turns, calling.at, draft);
    }
    Ok(())
}

/// Hands a task to a subagent, and suspends the turn until it has ended. Returns the present outcome of the call.
pub(crate) async fn await_subagent(
    turns: &TurnServices,
    calling: &CallContext<'_>,
    task: SubagentTask,
) -> Result<CallOutcome, TurnError> {
    let (turn, call) = (calling.turn, calling.call.id);
    let (outcome, draft) =
        commits::suspend_for_subagent(&turns.services.bus.store, turn, call, task).await?;
    turns.services.bus.inbox.notify();
    if let Some(draft) = draft {
        progress::erase(turns, calling.at, draft);
    }
    Ok(outcome)
}

/// Resumes a turn with the outcome of the waiting call, and its sources.
pub(crate) fn resume_call(
    store: &Connection,
    ask: &Ask,
    outcome: &CallOutcome,
    sources: &[Source],
) -> rusqlite::Result<()> {
    transcript::end_call(store, ask.call, outcome, sources)?;
    transcript::resume_call(store, ask.turn)
}
