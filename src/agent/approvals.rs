//! `/approve` and `/deny`: decisions of entitled people about calls that wait for approval.

use rusqlite::Connection;

use crate::bus::journal::WaitingMessage;
use crate::conversation::asks;
use crate::conversation::asks::{Approvals, Ask, AskId, AskKind, AskOutcome, AskedCall, Grant};
use crate::conversation::transcript;
use crate::people::persons::PersonAccount;
use crate::people::{People, Role};
use crate::replies;
use crate::services::{Services, role_of};
use crate::store::StoreError;
use crate::turn::commits;
use crate::turn::prompt;
use crate::types::commands::CommandId;
use crate::types::message::{Address, ChannelName, ChatKind, SenderId};
use crate::types::origin::Origin;
use crate::types::session::CallOutcome;

use crate::turn::suspension::resume_call;

/// A decision of an entitled person about a waiting call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalVerdict {
    Approve {
        ask: AskId,
        always: bool,
    },
    Deny(AskId),
    /// Revokes the permanent permission of a tool.
    Revoke(String),
    List,
}

impl ApprovalVerdict {
    /// Parses the arguments of `/approve`. None if they are invalid.
    pub(crate) fn approve<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let Some(ask) = words.next() else { return Some(Self::List) };
        let ask = ask.trim_start_matches('#').parse().map(AskId).ok()?;
        match words.next().map(str::to_ascii_lowercase).as_deref() {
            None | Some("once") => Some(Self::Approve { ask, always: false }),
            Some("always") => Some(Self::Approve { ask, always: true }),
            Some(_) => None,
        }
    }

    /// Parses the arguments of `/deny`.
    pub(crate) fn deny<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let what = words.next()?;
        Some(match what.trim_start_matches('#').parse() {
            Ok(ask) => Self::Deny(AskId(ask)),
            Err(_) => Self::Revoke(what.to_owned()),
        })
    }
}

/// Carries out `/approve` and `/deny`.
pub(crate) async fn handle(
    services: &Services,
    control: &WaitingMessage,
    verdict: Option<ApprovalVerdict>,
) -> Result<(), StoreError> {
    let role = role_of(services, &control.inbound.from, control.sender()).await?;
    let Some(verdict) = verdict else {
        return commits::handled(&services.bus.store, control, replies::APPROVE_USAGE.to_owned())
            .await;
    };
    if !CommandId::Approve.spec().allows(role, control.inbound.place) {
        let words = replies::NOT_YOURS_TO_APPROVE.to_owned();
        return commits::handled(&services.bus.store, control, words).await;
    }
    let (sender, at) = (control.sender().clone(), control.inbound.from.clone());
    let judge = ApprovalJudge {
        role,
        people: services.bus.people.clone(),
        account: PersonAccount { channel: at.channel.clone(), sender: sender.id },
        name: sender.name,
        at,
        place: control.inbound.place,
    };
    commits::handled_with(&services.bus.store, control, move |store| {
        Ok(judge.decide(store, verdict)?.unwrap_or_else(|words| words))
    })
    .await
}

/// The person who decides about waiting calls, in a chat.
pub struct ApprovalJudge {
    pub role: Role,
    pub people: People,
    pub account: PersonAccount,
    /// As others are shown them.
    pub name: String,
    pub at: Address,
    pub place: ChatKind,
}

impl ApprovalJudge {
    /// Carries a verdict out. Returns the answer, or an explanation why it was not.
    pub fn decide(
        &self,
        store: &Connection,
        verdict: ApprovalVerdict,
    ) -> rusqlite::Result<Result<String, String>> {
        let is_entitled = self.role >= Approvals::BY;
        match verdict {
            ApprovalVerdict::Approve { ask, always } => match self.refused(store, ask)? {
                Some(words) => Ok(Err(words.to_owned())),
                None => approve(store, ask, always, &self.name),
            },
            ApprovalVerdict::Deny(ask) => match self.refused(store, ask)? {
                Some(words) => Ok(Err(words.to_owned())),
                None => deny(store, ask, &self.name),
            },
            ApprovalVerdict::Revoke(_) if !is_entitled => {
                Ok(Err(replies::NOT_YOURS_TO_APPROVE.to_owned()))
            }
            ApprovalVerdict::Revoke(tool) => {
                Ok(Ok(replies::revoked_grants(&tool, asks::revoke(store, &tool)?)))
            }
            ApprovalVerdict::List => {
                let waiting = self.waiting(store)?;
                let granted = if is_entitled { asks::grants(store)? } else { Vec::new() };
                let waiting = waiting.iter().map(|call| (call.id.0, &*call.tool, &*call.arguments));
                let granted = granted
                    .iter()
                    .map(|it| (&*it.tool, format!("{} on {}", it.sender, it.channel)));
                Ok(Ok(replies::approvals(waiting, granted)))
            }
        }
    }

    /// Returns the calls that wait, are listed in this chat, and are this person's to decide.
    pub fn waiting(&self, store: &Connection) -> rusqlite::Result<Vec<AskedCall>> {
        asks::approvals(store, |call| {
            Ok(self.is_shown_here(call) && self.refuses(store, call)?.is_none())
        })
    }

    /// Returns true if a call is listed here: in a group only the group's, as everybody there reads the list.
    fn is_shown_here(&self, call: &AskedCall) -> bool {
        let chat = call.origin.as_ref().and_then(Origin::chat);
        let here = (&self.at.channel, &self.at.chat);
        self.place == ChatKind::Private
            || chat.is_some_and(|chat| (&chat.channel, &chat.chat) == here)
    }

    /// Returns why somebody may not decide a call; none if they may, or if it does not wait.
    fn refused(&self, store: &Connection, id: AskId) -> rusqlite::Result<Option<&'static str>> {
        match asks::approval(store, id)? {
            Some(call) => self.refuses(store, &call),
            None => Ok(None),
        }
    }

    /// The person of a call decides alone, where it is theirs to decide; else the owner any, and admins a group's and
    /// their own.
    fn refuses(
        &self,
        store: &Connection,
        call: &AskedCall,
    ) -> rusqlite::Result<Option<&'static str>> {
        if let Some(decider) = &call.decider {
            let is_theirs = self.people.are_same(store, decider, &self.account)?;
            return Ok((!is_theirs).then_some(replies::CALL_FOR_ITS_PERSON));
        }
        let PersonAccount { channel, sender } = &self.account;
        let is_theirs = |(on, of, place): &(ChannelName, SenderId, ChatKind)| {
            *place == ChatKind::Group || (on == channel && of == sender)
        };
        Ok(match self.role {
            Role::Guest | Role::User => Some(replies::NOT_YOURS_TO_APPROVE),
            Role::Owner => None,
            Role::Admin => {
                let is_theirs = call.made_for.as_ref().is_some_and(is_theirs);
                (!is_theirs).then_some(replies::CALL_OF_SOMEBODY_ELSE)
            }
        })
    }
}

fn approve(
    store: &Connection,
    id: AskId,
    always: bool,
    by: &str,
) -> rusqlite::Result<Result<String, String>> {
    let Some(ask) = approval(store, id)? else {
        return Ok(Err(replies::ALREADY_DECIDED.to_owned()));
    };
    if always && !asks::approval(store, id)?.is_some_and(|call| call.offers_always) {
        return Ok(Err(replies::no_always(id.0)));
    }
    let choice = if always { replies::ALWAYS } else { replies::ONCE };
    asks::end(store, &ask, AskOutcome::Settled, &replies::choice_of(choice, by))?;
    let (channel, person, tool) = transcript::caller(store, ask.call)?;
    if always {
        let (channel, sender) = (channel.to_string(), person.id.to_string());
        asks::grant(store, &Grant { channel, sender, tool: tool.clone() })?;
    }
    transcript::call_may_run(store, ask.call)?;
    transcript::resume_call(store, ask.turn)?;
    Ok(Ok(match always {
        true => replies::approved_always(&tool, person),
        false => replies::approved_once(&tool),
    }))
}

fn deny(store: &Connection, id: AskId, by: &str) -> rusqlite::Result<Result<String, String>> {
    let Some(ask) = approval(store, id)? else {
        return Ok(Err(replies::ALREADY_DECIDED.to_owned()));
    };
    asks::end(store, &ask, AskOutcome::Settled, &replies::choice_of(replies::DENY, by))?;
    let (_, _, tool) = transcript::caller(store, ask.call)?;
    resume_call(store, &ask, &CallOutcome::Denied(prompt::denied_by(by)), &[])?;
    Ok(Ok(replies::denied_call(&tool)))
}

fn approval(store: &Connection, id: AskId) -> rusqlite::Result<Option<Ask>> {
    Ok(asks::open(store, id)?.filter(|ask| ask.kind == AskKind::Approval))
}
