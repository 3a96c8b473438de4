//! `/approve` and `/deny`: decisions of entitled people about calls that wait for approval.

mod verdict;

use chrono::Utc;
use rusqlite::Connection;

use crate::bus::journal::WaitingMessage;
use crate::bus::outbox;
use crate::conversation::asks::{self, Approvals, Ask, AskId, AskOutcome, AskedCall, Grant};
use crate::conversation::deferred::{self, DeferredCall, DeferredId, LaterDecider, QUEUED_MAX};
use crate::conversation::transcript::{self, RequestedCall};
use crate::people::persons::PersonAccount;
use crate::people::{People, Role};
use crate::replies::{self, WaitingCall};
use crate::services::{Services, role_of};
use crate::store::StoreError;
use crate::tasks::deferred_report;
use crate::tasks::subagents;
use crate::trust::acts::tool_role;
use crate::turn::{commits, prompt, suspension};
use crate::types::commands::CommandId;
use crate::types::message::{Address, ChatKind};
use crate::types::origin::Origin;
use crate::types::session::CallOutcome;
pub use verdict::ApprovalVerdict;
use verdict::DeferredVerdict;

/// Carries out `/approve` and `/deny`.
pub(crate) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    verdict: Option<ApprovalVerdict>,
) -> Result<(), StoreError> {
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let store = &services.bus.store;
    let Some(verdict) = verdict else {
        return commits::reply(store, control, replies::APPROVE_USAGE.to_owned()).await;
    };
    if !CommandId::Approve.spec().allows(role, control.inbound.chat_kind) {
        return commits::reply(store, control, replies::NOT_YOURS_TO_APPROVE.to_owned()).await;
    }
    let judge = ApprovalJudge {
        role,
        people: services.bus.people.clone(),
        account: control.account(),
        name: control.sender().name.clone(),
        at: control.inbound.from.clone(),
        chat_kind: control.inbound.chat_kind,
    };
    let decide = move |store: &Connection| {
        Ok(judge.decide(store, verdict)?.unwrap_or_else(VerdictRefusal::words))
    };
    commits::apply_command(store, control, decide).await?;
    // An approved deferred call enters the journal as a message.
    services.bus.inbox.notify();
    Ok(())
}

/// The reason why a decision was not carried out, for its person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerdictRefusal {
    /// Somebody else decides.
    NotTheirs(&'static str),
    /// The call cannot be decided in this way, or not any more.
    NotNow(String),
}

impl VerdictRefusal {
    pub fn words(self) -> String {
        match self {
            Self::NotTheirs(reason) => reason.to_owned(),
            Self::NotNow(reason) => reason,
        }
    }
}

/// The person who decides about waiting calls, in a chat.
pub struct ApprovalJudge {
    pub role: Role,
    pub people: People,
    pub account: PersonAccount,
    /// The name that others are shown.
    pub name: String,
    pub at: Address,
    pub chat_kind: ChatKind,
}

impl ApprovalJudge {
    /// Carries out a verdict if this person may give it. Returns the reply, or the reason of a refusal.
    pub fn decide(
        &self,
        store: &Connection,
        verdict: ApprovalVerdict,
    ) -> rusqlite::Result<Result<String, VerdictRefusal>> {
        let open = match verdict.ask() {
            Some(ask) if !asks::is_known_approval(store, ask)? => {
                return Ok(Err(VerdictRefusal::NotNow(replies::no_such_request(ask.0))));
            }
            Some(ask) => asks::approval(store, ask)?,
            None => None,
        };
        let call_refusal = match &open {
            Some(call) => self.refusal(store, call)?,
            None => None,
        };
        let is_theirs = match &verdict {
            ApprovalVerdict::Revoke(_) => self.is_entitled(),
            ApprovalVerdict::Later(later) => {
                self.is_entitled() || !self.open_later(store, later.id)?.is_empty()
            }
            _ => true,
        };
        let refusal = match is_theirs {
            true => call_refusal,
            false => Some(replies::NOT_YOURS_TO_APPROVE),
        };
        if let Some(reason) = refusal {
            return Ok(Err(VerdictRefusal::NotTheirs(reason)));
        }
        Ok(self.carry_out(store, verdict, open)?.map_err(VerdictRefusal::NotNow))
    }

    fn is_entitled(&self) -> bool {
        self.role >= Approvals::BY
    }

    /// Carries out a verdict about a call, which is `open` if it still waits.
    fn carry_out(
        &self,
        store: &Connection,
        verdict: ApprovalVerdict,
        open: Option<AskedCall>,
    ) -> rusqlite::Result<Result<String, String>> {
        match (verdict, open) {
            (ApprovalVerdict::Approve { always, .. }, Some(call)) => {
                self.approve(store, &call, always)
            }
            (ApprovalVerdict::Deny(_), Some(call)) => Ok(Ok(self.deny(store, &call)?)),
            (ApprovalVerdict::Approve { .. } | ApprovalVerdict::Deny(_), None) => {
                Ok(Err(replies::ALREADY_DECIDED.to_owned()))
            }
            (ApprovalVerdict::All { ask, approve }, _) => {
                self.decide_all(store, &self.open_with(store, ask)?, approve)
            }
            (ApprovalVerdict::Each(ask), _) => ask_each(store, &self.open_with(store, ask)?),
            (ApprovalVerdict::Later(verdict), _) => self.decide_later(store, verdict),
            (ApprovalVerdict::Revoke(tool), _) => {
                Ok(Ok(replies::revoked_grants(&tool, asks::revoke(store, &tool)?)))
            }
            (ApprovalVerdict::List, _) => Ok(Ok(self.list(store)?)),
        }
    }

    /// Returns the list of the calls that this person may decide here, and of granted permissions.
    fn list(&self, store: &Connection) -> rusqlite::Result<String> {
        let waiting = self.waiting(store)?;
        let deferred = deferred::all_open(store, Utc::now(), |call| {
            Ok(self.is_here(&call.to) && self.may_decide_later(store, call)?)
        })?;
        let granted = if self.is_entitled() { asks::grants(store)? } else { Vec::new() };
        let waiting = waiting.iter().map(|call| WaitingCall {
            id: call.ask.id.0,
            tool: &call.tool,
            arguments: &call.arguments,
        });
        let deferred = deferred.iter().map(|(id, call)| WaitingCall {
            id: id.0,
            tool: &call.approved.tool,
            arguments: &call.approved.arguments,
        });
        let granted =
            granted.iter().map(|it| (&*it.tool, format!("{} on {}", it.sender, it.channel)));
        Ok(replies::approvals(waiting, deferred, granted))
    }

    /// Returns the waiting calls that are listed in this chat and that this person may decide.
    pub fn waiting(&self, store: &Connection) -> rusqlite::Result<Vec<AskedCall>> {
        asks::approvals(store, |call| {
            Ok(self.is_shown_here(call) && self.refusal(store, call)?.is_none())
        })
    }

    /// Returns true if a call is listed here. A group lists only its own calls, because everybody there reads the list.
    fn is_shown_here(&self, call: &AskedCall) -> bool {
        let chat = call.origin.as_ref().and_then(Origin::chat);
        self.chat_kind == ChatKind::Private || chat.is_some_and(|chat| self.is_here(chat))
    }

    /// Returns true if the calls of an address are listed here.
    fn is_here(&self, at: &Address) -> bool {
        let here = (&self.at.channel, &self.at.chat);
        self.chat_kind == ChatKind::Private || (&at.channel, &at.chat) == here
    }

    /// Returns why this person may not decide a call. If a call names its decider, only that person decides. Otherwise
    /// the owner decides all calls, and admins decide those of groups and their own.
    fn refusal(
        &self,
        store: &Connection,
        call: &AskedCall,
    ) -> rusqlite::Result<Option<&'static str>> {
        if let Some(decider) = call.decider() {
            let is_theirs = self.people.are_same(store, &decider, &self.account)?;
            return Ok((!is_theirs).then_some(replies::CALL_FOR_ITS_PERSON));
        }
        Ok(match self.role {
            Role::Guest | Role::User => Some(replies::NOT_YOURS_TO_APPROVE),
            Role::Owner => None,
            Role::Admin => {
                let is_theirs = match call.made_for.clone() {
                    Some((_, _, ChatKind::Group)) => true,
                    Some((channel, sender, ChatKind::Private)) => {
                        let made_for = PersonAccount { channel, sender };
                        self.people.are_same(store, &made_for, &self.account)?
                    }
                    None => false,
                };
                (!is_theirs).then_some(replies::CALL_OF_SOMEBODY_ELSE)
            }
        })
    }

    /// Returns the open approvals of the question of this one that this person may decide.
    fn open_with(&self, store: &Connection, id: AskId) -> rusqlite::Result<Vec<AskedCall>> {
        let mut theirs = Vec::new();
        for call in asks::approvals_asked_with(store, id)? {
            if self.refusal(store, &call)?.is_none() {
                theirs.push(call);
            }
        }
        Ok(theirs)
    }

    /// The calls that nobody could be asked about and that were shown with one, if they are theirs to decide.
    fn open_later(
        &self,
        store: &Connection,
        id: DeferredId,
    ) -> rusqlite::Result<Vec<(DeferredId, DeferredCall)>> {
        let mut theirs = Vec::new();
        for (id, call) in deferred::open_in_message_of(store, id, Utc::now())? {
            if self.may_decide_later(store, &call)? {
                theirs.push((id, call));
            }
        }
        Ok(theirs)
    }

    fn may_decide_later(&self, store: &Connection, call: &DeferredCall) -> rusqlite::Result<bool> {
        let made_for =
            PersonAccount { channel: call.known_on.clone(), sender: call.sender.id.clone() };
        match call.decider {
            LaterDecider::Nobody => Ok(false),
            LaterDecider::Person => self.people.are_same(store, &made_for, &self.account),
            LaterDecider::Admins => Ok(match self.role {
                Role::Owner => true,
                Role::Admin => {
                    call.chat_kind == ChatKind::Group
                        || self.people.are_same(store, &made_for, &self.account)?
                }
                Role::User | Role::Guest => false,
            }),
        }
    }

    /// Decides deferred calls. Approved ones are made one after another. Offers the others of the same report again.
    fn decide_later(
        &self,
        store: &Connection,
        DeferredVerdict { id, all, approve }: DeferredVerdict,
    ) -> rusqlite::Result<Result<String, String>> {
        let open = self.open_later(store, id)?;
        let is_decided = |(it, _): &(DeferredId, DeferredCall)| all || *it == id;
        let (decided, mut rest): (Vec<_>, Vec<_>) = open.into_iter().partition(is_decided);
        if decided.is_empty() {
            return Ok(Err(replies::NOT_OPEN_ANY_MORE.to_owned()));
        }
        if approve && self.has_lost_person(store, &decided)? {
            for (id, _) in decided.iter().chain(&rest) {
                deferred::settle(store, *id, false)?;
            }
            return Ok(Err(replies::CALL_WITHOUT_ACCESS.to_owned()));
        }
        let (mut queued, mut tools, mut has_room) = (Vec::new(), Vec::new(), true);
        for (id, call) in decided {
            match approve {
                true => has_room &= deferred::queue(store, id)?,
                false => deferred::settle(store, id, false)?,
            }
            if has_room {
                queued.push(id);
                tools.push(call.approved.tool);
            } else {
                rest.push((id, call));
            }
        }
        let begun = subagents::begin_queued(store)?;
        let is_begun = queued.iter().any(|id| begun.contains(id));
        if !rest.is_empty() {
            rest.sort_by_key(|(id, _)| *id);
            outbox::put_body(store, &self.at, &deferred_report::ask_about_rest(&rest))?;
        }
        let tools: Vec<_> = tools.iter().map(String::as_str).collect();
        Ok(match (approve, has_room) {
            (true, true) if is_begun => Ok(replies::making_deferred_calls(&tools)),
            (true, true) => Ok(replies::will_make_deferred_calls(&tools)),
            (true, false) => Err(replies::too_many_deferred_calls(QUEUED_MAX, &tools)),
            (false, _) => Ok(replies::denied_call(&tools.join(", "))),
        })
    }

    /// Returns true if a person for whom calls are made has no access any more, so that nothing would be done.
    fn has_lost_person(
        &self,
        store: &Connection,
        calls: &[(DeferredId, DeferredCall)],
    ) -> rusqlite::Result<bool> {
        for (_, call) in calls {
            if self.people.has_lost_access(store, &call.known_on, &call.sender.id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn approve(
        &self,
        store: &Connection,
        call: &AskedCall,
        always: bool,
    ) -> rusqlite::Result<Result<String, String>> {
        let ask = &call.ask;
        if always && !call.offers_always {
            return Ok(Err(replies::cannot_always_allow(ask.id.0)));
        }
        let lacks_role = self.lacks_role(store, call)?;
        let choice = if always { replies::ALWAYS } else { replies::ONCE };
        let by = replies::choice_by(choice, &self.name);
        asks::end(store, ask, AskOutcome::Settled, &by)?;
        let RequestedCall { known_on, person, tool } = transcript::requested_call(store, ask.call)?;
        if always && !lacks_role {
            let (channel, sender) = (known_on.to_string(), person.id.to_string());
            asks::grant(store, &Grant { channel, sender, tool: tool.clone() })?;
        }
        transcript::mark_call_planned(store, ask.call)?;
        resume_if_decided(store, ask)?;
        Ok(Ok(match always {
            _ if lacks_role => replies::approved_in_vain(&tool, person),
            true => replies::approved_always(&tool, person),
            false => replies::approved_once(&tool),
        }))
    }

    /// Denies a waiting call. Returns the reply.
    fn deny(&self, store: &Connection, call: &AskedCall) -> rusqlite::Result<String> {
        let (ask, by) = (&call.ask, &*self.name);
        asks::end(store, ask, AskOutcome::Settled, &replies::choice_by(replies::DENY, by))?;
        let denied = CallOutcome::Denied(prompt::denied_by(by));
        transcript::end_call(store, ask.call, &denied, &[])?;
        resume_if_decided(store, ask)?;
        Ok(replies::denied_call(&call.tool))
    }

    /// Returns true if the person for whom a call is made has lost the role that its tool needs. The turn then refuses the
    /// call.
    fn lacks_role(&self, store: &Connection, call: &AskedCall) -> rusqlite::Result<bool> {
        let needs = call.shown.as_ref().and_then(|shown| shown.needs);
        let (Some(needs), Some((channel, sender, chat_kind))) = (needs, &call.made_for) else {
            return Ok(false);
        };
        let role = self.people.role_of(store, channel, sender)?.unwrap_or(Role::Guest);
        Ok(tool_role(role, *chat_kind) < needs)
    }

    /// Decides all these calls.
    fn decide_all(
        &self,
        store: &Connection,
        open: &[AskedCall],
        approves: bool,
    ) -> rusqlite::Result<Result<String, String>> {
        if open.is_empty() {
            return Ok(Err(replies::ALREADY_DECIDED.to_owned()));
        }
        let mut lines = Vec::new();
        for call in open {
            lines.push(match approves {
                true => self.approve(store, call, false)?.unwrap_or_else(|refusal| refusal),
                false => self.deny(store, call)?,
            });
        }
        Ok(Ok(lines.join("\n")))
    }
}

/// Asks about each of these calls in a message of its own.
fn ask_each(store: &Connection, open: &[AskedCall]) -> rusqlite::Result<Result<String, String>> {
    for call in open {
        asks::ask_again(store, &call.ask, &suspension::one_question(call))?;
    }
    Ok(match open.len() {
        0 => Err(replies::ALREADY_DECIDED.to_owned()),
        count => Ok(replies::will_ask_each(count)),
    })
}

/// Resumes the turn once no call of its step waits for a decision.
fn resume_if_decided(store: &Connection, ask: &Ask) -> rusqlite::Result<()> {
    match asks::has_open(store, ask.turn)? {
        true => Ok(()),
        false => transcript::resume_call(store, ask.turn),
    }
}
