//! Checks the calls of a step before any of them begins: each may run, needs approval, or is refused.
//! `trust::permission` decides; this module collects the facts for it, such as the reader of a message.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::DateTime;
use chrono_tz::Tz;
use rusqlite::Connection;

use crate::conversation::asks::{self, CallApproval, OnUntrusted};
use crate::conversation::presence;
use crate::people::Role;
use crate::people::persons::PersonAccount;
use crate::tasks::schedule;
use crate::tools::{AnyTool, CallTerms, Reach, ToolContext, ToolKind, ToolTerms};
use crate::trust::permission::{self, Decider, Decision, PermissionReason, PermissionRequest};
use crate::trust::taint::{self, SourceReader, Taint};
use crate::trust::{own_words, telling};
use crate::turn::calls::ToolLookup;
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::turn::run::comparing::ComparedApprovals;
use crate::turn::services::TurnServices;
use crate::turn::{detour, prompt, proposed};
use crate::types::message::{Address, ChatKind};
use crate::types::session::{Call, CallId, CallOutcome, TurnId};
use crate::workspace::{FileChange, WorkspacePath};

/// A valid call with the properties that the permission needs.
pub(crate) struct CheckedCall {
    pub(crate) tool: Arc<dyn AnyTool>,
    pub(crate) terms: ToolTerms,
    pub(crate) reach: Reach,
    /// The other tool whose work the call does later, with its terms.
    pub(crate) stands_for: Option<(&'static str, ToolTerms)>,
    /// The text, if the call only keeps a text.
    pub(crate) kept_text: Option<String>,
    /// The time at which that text is to be sent.
    pub(crate) kept_time: Option<String>,
    /// The approval that covers the call with its files as they are now.
    pub(crate) approval: Option<CallApproval>,
}

/// Returns the tool, the terms and the reach of a call. The error explains to the model why the call cannot begin.
pub(crate) fn check_call(
    turns: &TurnServices,
    call: &Call,
    cx: &ToolContext,
) -> Result<CheckedCall, String> {
    let (tool, terms) = turns.tools.authorise(&call.tool, cx.user())?;
    tool.check(&call.arguments, &cx.place())?;
    let CallTerms { reach, stands_for, kept_text, kept_time } =
        tool.call_terms(&call.arguments, &cx.address);
    let stands_for = match stands_for {
        Some(other) => {
            let authorised = turns.tools.authorise(other, cx.user());
            let (_, terms) = authorised.map_err(|why| prompt::cannot_stand_for(other, &why))?;
            Some((other, terms))
        }
        None => None,
    };
    let approval = None;
    Ok(CheckedCall { tool, terms, reach, stands_for, kept_text, kept_time, approval })
}

/// A call that can be run.
pub(super) struct OpenCall {
    /// Its index in the step.
    pub(super) index: usize,
    pub(super) call: Call,
    /// Its tool. The error occurs only if it began before a crash, and its tool is gone.
    pub(super) tool: ToolLookup,
    pub(super) reads: bool,
    /// The reason if it needs approval, and who decides.
    pub(super) asks: Option<(PermissionReason, Decider)>,
    /// The approval by which it is made.
    pub(super) approval: Option<CallApproval>,
    /// True if it was approved before, which does not cover its files as they are now.
    pub(super) is_asked_again: bool,
    /// The person's own words that it keeps without approval.
    pub(super) own_words: Option<String>,
}

impl OpenCall {
    /// Returns true if it changes a file, and has not begun.
    pub(super) fn will_write(&self) -> bool {
        let kind = self.tool.as_ref().map(|tool| tool.terms().kind);
        self.call.outcome == CallOutcome::Planned && kind == Ok(ToolKind::Writes)
    }
}

/// The facts with which the calls of a step are judged.
struct StepFacts<'a> {
    cx: &'a ToolContext,
    /// The same with the files as the calls before leave them, as far as these may be made. None if no call of the step was
    /// asked about.
    ahead: Option<ToolContext>,
    reader: SourceReader,
    taint: Option<Taint>,
}

/// A call that may be made, or that needs approval.
struct JudgedCall {
    checked: CheckedCall,
    asks: Option<(PermissionReason, Decider)>,
    own_words: Option<String>,
    /// The change of a file that it makes, if that was worked out.
    change: Option<FileChange>,
}

/// A call that cannot begin.
pub(super) struct RefusedCall {
    /// Its index in the step.
    pub(super) index: usize,
    pub(super) call: Call,
    pub(super) refused: Refused,
}

/// The reason why a call cannot begin.
pub(super) struct Refused {
    /// The explanation for the model.
    pub(super) words: String,
    /// True if approval would be possible, but nobody can be asked.
    pub(super) is_unattended: bool,
    /// The person whose approval it would need.
    pub(super) decider: Decider,
}

impl Refused {
    fn of(why: &PermissionReason, decider: Decider) -> Self {
        let is_unattended = matches!(why, PermissionReason::Unattended(..));
        Self { words: prompt::denied(why), is_unattended, decider }
    }
}

/// Returns true if a turn is the run of a job that names the tool, or the site of the URL.
fn is_named_by_job(
    store: &Connection,
    turn: TurnId,
    tool: &str,
    reach: &Reach,
) -> rusqlite::Result<bool> {
    let run = schedule::find_turn_run(store, turn)?;
    Ok(run.as_ref().and_then(|run| run.job.definition.payload.unasked()).is_some_and(|unasked| {
        match reach {
            Reach::Url(url) => unasked.has_site_of(url),
            _ => unasked.has_tool(tool),
        }
    }))
}

impl ActiveTurn<'_> {
    /// Returns the text that a call keeps, if it consists only of the person's own words in this turn.
    fn own_words(
        &self,
        checked: &CheckedCall,
        taint: Option<&Taint>,
        now: DateTime<Tz>,
    ) -> Option<String> {
        let (is_attended, chat_kind) = (self.limits.is_attended, self.session.chat_kind);
        let text = checked.kept_text.as_ref().filter(|text| {
            let by = &self.requester.sender.id;
            is_attended
                && chat_kind == ChatKind::Private
                && own_words::are_own_words(&self.session, by, text)
                && checked.kept_time.as_ref().is_none_or(|when| {
                    schedule::is_named_time(&own_words::said(&self.session, by), when, now)
                })
        });
        // In all other cases, no approval would be needed.
        text.filter(|_| taint.is_some() && self.turns.config.asking.untrusted == OnUntrusted::Ask)
            .cloned()
    }

    /// Decides if a call may be made now: the call itself, and the call that it stands for. Also returns who decides.
    async fn permit(
        &self,
        call: &Call,
        checked: &CheckedCall,
        cx: &ToolContext,
        reader: &SourceReader,
        taint: Option<&Taint>,
    ) -> Result<(Decision, Decider), TurnError> {
        let is_covered = checked.approval.is_some();
        if call.outcome != CallOutcome::Planned || (is_covered && self.is_approved(call)) {
            return Ok((Decision::Allow, Decider::Admins));
        }
        let asking = &self.turns.config.asking;
        let is_attended = self.limits.is_attended;
        let knows_url = match &checked.reach {
            // Without untrusted content it makes no difference.
            Reach::Url(url) if taint.is_some() => self.may_fetch(url, reader).await?,
            _ => false,
        };
        let request = PermissionRequest {
            tool: &call.tool,
            terms: checked.terms,
            reach: self.reach_here(&checked.reach, cx).await?,
            role: cx.role,
            own_role: self.requester.role,
            taint,
            knows_url,
            is_attended,
        };
        let mut decision = self.decide(is_covered, &request).await?;
        let mut decider = request.decider(&decision, cx.chat_kind, asking);
        let Some((tool, terms)) = checked.stands_for else { return Ok((decision, decider)) };
        // One approval covers both calls.
        let other = PermissionRequest { tool, terms, ..request };
        decider = decider.max(other.decider(&decision, cx.chat_kind, asking));
        if decision == Decision::Allow {
            let stands_for = |why| PermissionReason::StandsFor(tool, Box::new(why));
            decision = self.decide(is_covered, &other).await?;
            decider = other.decider(&decision, cx.chat_kind, asking);
            decision = match decision {
                Decision::Allow => Decision::Allow,
                Decision::Ask(why) => Decision::Ask(stands_for(why)),
                Decision::Deny(why) => Decision::Deny(stands_for(why)),
            };
        }
        Ok((decision, decider))
    }

    /// Returns the reach of a call here. A message to another chat discloses nothing private if the person has
    /// requested exactly that message, or is its reader. For people who may not send messages, the tool refuses it.
    async fn reach_here(&self, reach: &Reach, cx: &ToolContext) -> Result<Reach, TurnError> {
        let reach = reach.clone().within(cx.chat_kind);
        let Reach::Tell(message) = &reach else { return Ok(reach) };
        let is_harmless = cx.role < Role::Admin
            || telling::is_agreed(&self.session, message, self.limits.is_attended)
            || self.is_read_by_asker(&message.to).await?;
        Ok(if is_harmless { Reach::Outside } else { reach })
    }

    /// Returns true if the person of the turn is the reader of a private chat.
    async fn is_read_by_asker(&self, to: &Address) -> Result<bool, TurnError> {
        let people = self.turns.services.bus.people.clone();
        let requester = PersonAccount {
            channel: self.session.origin.channel().clone(),
            sender: self.requester.sender.id.clone(),
        };
        let to = to.clone();
        let query = move |store: &Connection| {
            let Some(reader) = presence::private_speaker(store, &to)? else { return Ok(false) };
            let reader = PersonAccount { channel: to.channel, sender: reader.id };
            people.are_same(store, &requester, &reader)
        };
        Ok(self.turns.services.bus.store.read(query).await?)
    }

    /// Returns the decision about a call, including an approval, a permanent permission, or the permission of its job.
    async fn decide(
        &self,
        is_approved: bool,
        request: &PermissionRequest<'_>,
    ) -> Result<Decision, TurnError> {
        let decision = permission::decide(request, &self.turns.config.asking);
        let why = match &decision {
            Decision::Ask(why) => why,
            // Permanent permissions also apply where nobody can be asked.
            Decision::Deny(PermissionReason::Unattended(why, _)) => &**why,
            Decision::Allow | Decision::Deny(_) => return Ok(decision),
        };
        if is_approved {
            return Ok(Decision::Allow);
        }
        let by_job = request.can_be_named_by_job(why, &self.turns.config.asking);
        let (tool, can_be_granted) = (request.tool.to_owned(), why.can_be_granted());
        let (turn, reach) = (self.turn, request.reach.clone());
        let (channel, sender) =
            (self.limits.people_at.channel.clone(), self.requester.sender.id.clone());
        let query = move |store: &Connection| {
            Ok((can_be_granted && asks::is_granted(store, &channel, &sender, &tool)?)
                || (by_job && is_named_by_job(store, turn, &tool, &reach)?))
        };
        let is_allowed = self.turns.services.bus.store.read(query).await?;
        Ok(if is_allowed { Decision::Allow } else { decision })
    }

    /// Returns the approvals that were given to a call of the turn, with whatever files. A question suspends the turn, so
    /// a step that was planned since has none.
    async fn find_approvals(&self) -> Result<HashMap<CallId, CallApproval>, TurnError> {
        if self.has_planned {
            return Ok(HashMap::new());
        }
        let turn = self.turn;
        let given = move |store: &Connection| asks::given_approvals(store, turn);
        Ok(self.turns.services.bus.store.read(given).await?)
    }

    /// Returns an explanation for the model if people would be asked about a file by another name than its own. They
    /// would not know what they allow, and the call would be refused after their yes.
    async fn find_detour(
        &self,
        call: &Call,
        checked: &CheckedCall,
        decision: &Decision,
        cx: &ToolContext,
    ) -> Option<String> {
        let would_ask =
            matches!(decision, Decision::Ask(_) | Decision::Deny(PermissionReason::Unattended(..)));
        if !would_ask || checked.terms.kind != ToolKind::Writes {
            return None;
        }
        let files = Box::pin(proposed::find_files(self.turns, call, cx)).await.files?;
        let path = files.changed_path()?.parse::<WorkspacePath>().ok()?;
        let reach = checked.reach.clone().within(cx.chat_kind);
        detour::refuse_wider_reach(self.turns, cx, reach, &path).await
    }

    /// Decides about a call whose arguments have passed the check.
    async fn judge(
        &self,
        call: &Call,
        mut checked: CheckedCall,
        given: &[CallApproval],
        facts: &StepFacts<'_>,
    ) -> Result<Result<JudgedCall, Refused>, TurnError> {
        let StepFacts { reader, taint, .. } = facts;
        let (cx, ahead) = (facts.cx, facts.ahead.as_ref());
        let ahead = ahead.filter(|_| checked.terms.kind == ToolKind::Writes);
        let (is_followed, files_cx) = (ahead.is_some(), ahead.unwrap_or(cx));
        let ComparedApprovals { covering, refusal, change } =
            self.compare_approvals(call, given, is_followed, files_cx).await;
        checked.approval = covering;
        let own_words = self.own_words(&checked, taint.as_ref(), cx.now);
        let taint = taint.as_ref().filter(|_| own_words.is_none());
        let (decision, decider) = self.permit(call, &checked, cx, reader, taint).await?;
        let refusal = match refusal {
            // There is nothing that people could be shown.
            Some(words) => Some(words),
            None => self.find_detour(call, &checked, &decision, files_cx).await,
        };
        Ok(match (decision, refusal) {
            (Decision::Allow, _) => Ok(JudgedCall { checked, asks: None, own_words, change }),
            (_, Some(words)) => Err(Refused { words, is_unattended: false, decider }),
            (Decision::Ask(why), None) => {
                let asks = Some((why, decider));
                // A person who is asked sees the words anyway.
                Ok(JudgedCall { checked, asks, own_words: None, change: None })
            }
            (Decision::Deny(why), None) => Err(Refused::of(&why, decider)),
        })
    }

    /// Reads the facts with which the calls of a step are judged.
    async fn step_facts<'a>(
        &self,
        cx: &'a ToolContext,
        has_approvals: bool,
    ) -> Result<StepFacts<'a>, TurnError> {
        let ahead = has_approvals.then(|| cx.clone());
        let bus = &self.turns.services.bus;
        let reader = taint::find_reader(bus, &self.session, self.requester.role).await?;
        let taint = reader.taint(&self.session);
        Ok(StepFacts { cx, ahead, reader, taint })
    }

    /// Checks calls, and settles those that cannot begin. Returns the others.
    pub(super) async fn check(
        &mut self,
        calls: Vec<(usize, Call)>,
        cx: &ToolContext,
    ) -> Result<Vec<OpenCall>, TurnError> {
        self.turns.tools.wait_for_mcp_servers().await;
        let approvals = self.find_approvals().await?;
        let mut facts = self.step_facts(cx, !approvals.is_empty()).await?;
        let (mut open, mut refusals) = (Vec::new(), Vec::new());
        for (index, call) in calls {
            let given = approvals.get(&call.id).cloned().into_iter();
            let given: Vec<_> = given.chain(self.approved_later(&call)).collect();
            let checked = match self.limits.caller.has(&call.tool) || self.is_approved(&call) {
                true => check_call(self.turns, &call, cx),
                false => Err(format!("There is no tool `{}`.", call.tool)),
            };
            let judged = match checked {
                Ok(checked) => Box::pin(self.judge(&call, checked, &given, &facts)).await?,
                Err(words) => {
                    Err(Refused { words, is_unattended: false, decider: Decider::Admins })
                }
            };
            match judged {
                Ok(JudgedCall { checked, asks, own_words, change }) => {
                    if let (Some(change), Some(ahead)) = (change, &mut facts.ahead) {
                        ahead.workspace = ahead.workspace.with_change(&change);
                    }
                    let CheckedCall { tool, terms, approval, .. } = checked;
                    let is_asked_again = asks.is_some() && !given.is_empty();
                    let reads = asks.is_none() && terms.kind == ToolKind::Reads;
                    open.push(OpenCall {
                        index,
                        call,
                        tool: Ok(tool),
                        reads,
                        asks,
                        approval,
                        is_asked_again,
                        own_words,
                    });
                }
                // A call that began before a crash is examined first.
                Err(_) if call.outcome != CallOutcome::Planned => {
                    let tool = self.turns.tools.authorise(&call.tool, cx.user());
                    let tool = tool.map(|(tool, _)| tool);
                    open.push(OpenCall {
                        index,
                        call,
                        tool,
                        reads: false,
                        asks: None,
                        approval: None,
                        is_asked_again: false,
                        own_words: None,
                    });
                }
                Err(refused) => refusals.push(RefusedCall { index, call, refused }),
            }
        }
        self.refuse(refusals, facts.taint.is_some(), open.first().map(|open| open.index)).await?;
        Ok(open)
    }
}
