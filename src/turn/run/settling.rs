//! Runs the calls of a step: all are checked before any of them begins; those that only read run side by side, the
//! others one after another.

use std::time::Instant;

use futures_util::future::join_all;
use rusqlite::Connection;

use crate::bus::journal;
use crate::conversation::asks;
use crate::memory;
use crate::people::Role;
use crate::people::folders::folder_owner;
use crate::replies;
use crate::tools::{Reach, ToolContext, ToolKind, message};
use crate::trust::acts::tool_role;
use crate::trust::links;
use crate::trust::permission::{self, Decider, Decision, PermissionReason, PermissionRequest};
use crate::trust::table::Act;
use crate::trust::taint::{self, Taint};
use crate::turn::calling::CallContext;
use crate::turn::calls::{self, CallResult, CheckedCall};
use crate::turn::error::TurnError;
use crate::turn::run::active::{ActiveTurn, Requester};
use crate::turn::services::TurnServices;
use crate::turn::suspension::{self, CallToAllow};
use crate::turn::{prompt, proposed};
use crate::types::event::EventKind;
use crate::types::message::{Address, Sender};
use crate::types::session::{Call, CallOutcome, Session};

/// Calls that look at things at once; a small board has few cores, and what was said meanwhile is
/// looked at between.
const SIDE_BY_SIDE_MAX: usize = 4;

/// Calls that one question is about.
const ASKED_MAX: usize = 6;

/// A call that is to be run.
struct OpenCall {
    /// Its place in the step.
    at: usize,
    call: Call,
    reads: bool,
    /// Why somebody must allow it first, and who.
    asks: Option<(PermissionReason, Decider)>,
}

/// A call that cannot begin.
pub(super) struct RefusedCall {
    /// Its place in the step.
    pub(super) at: usize,
    pub(super) call: Call,
    pub(super) refused: Refused,
}

/// Why a call cannot begin.
pub(super) struct Refused {
    /// For the model.
    pub(super) words: String,
    /// Somebody would have been asked, had anybody been there.
    pub(super) is_unattended: bool,
}

impl Refused {
    fn of(why: &PermissionReason) -> Self {
        let is_unattended = matches!(why, PermissionReason::Unattended(..));
        Self { words: prompt::denied(why), is_unattended }
    }
}

/// The progress of a step's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettledCalls {
    All,
    /// One of them waits for somebody, and the turn is suspended.
    Suspended,
}

impl ActiveTurn<'_> {
    /// Runs what is planned in the last step until the person says something more.
    pub(super) async fn settle_calls(&mut self) -> Result<SettledCalls, TurnError> {
        let calls = self.current().steps.last().map(|step| step.calls.clone()).unwrap_or_default();
        let unsettled =
            calls.into_iter().enumerate().filter(|(_, call)| !call.outcome.is_settled());
        let unsettled: Vec<_> = unsettled.collect();
        if unsettled.is_empty() {
            return Ok(SettledCalls::All);
        }
        let open = self.check(unsettled).await?;
        let mut batches = batches(open).into_iter();
        while let Some(batch) = batches.next() {
            self.take_steering().await?;
            let input = !self.pending.is_empty();
            let begins = |open: &OpenCall| !input || open.call.outcome != CallOutcome::Planned;
            let batch: Vec<_> = batch.into_iter().filter(begins).collect();
            let suspended = match batch.as_slice() {
                [] => false,
                [first @ OpenCall { asks: Some(_), .. }] => {
                    self.ask_together(first, batches.as_slice()).await?;
                    true
                }
                _ => self.run_together(batch).await?,
            };
            if suspended {
                return Ok(SettledCalls::Suspended);
            }
        }
        Ok(SettledCalls::All)
    }

    /// Asks about a call, and in the same question about the later ones of its step that the same people decide. One that
    /// would change the same file as another is asked about once that is decided, as it is shown with what it changes. A
    /// message that tells what was said in private is asked about alone.
    async fn ask_together(
        &self,
        first: &OpenCall,
        later: &[Vec<OpenCall>],
    ) -> Result<(), TurnError> {
        let cx = self.tool_context().await?;
        let Some((_, asked_first)) = &first.asks else { return Ok(()) };
        let mut asked: Vec<CallToAllow<'_>> = Vec::new();
        for open in [first].into_iter().chain(later.iter().flatten()) {
            let Some((why, decider)) = &open.asks else { continue };
            let tells = other_chat_of(self.turns, &open.call, &cx);
            // After untrusted content, that is the reason which counts.
            let tells = tells.filter(|_| *why == PermissionReason::EachTime(Act::Tell));
            let is_alone = tells.is_some() || asked.iter().any(|it| it.tells.is_some());
            let is_other = decider != asked_first || (is_alone && !asked.is_empty());
            if is_other || asked.len() == ASKED_MAX {
                break;
            }
            let change = proposed::diff(self.turns, &open.call, &cx).await;
            let file = |change: &Option<String>| {
                change.as_ref().map(|it| it.lines().take(2).collect::<Vec<_>>().join("\n"))
            };
            let is_same =
                |it: &CallToAllow<'_>| change.is_some() && file(&it.change) == file(&change);
            if asked.iter().any(is_same) {
                break;
            }
            asked.push(CallToAllow { call: &open.call, why, change, tells });
        }
        suspension::ask_leave(self.turns, &self.calling(&first.call), *asked_first, &asked).await
    }

    fn calling<'a>(&'a self, call: &'a Call) -> CallContext<'a> {
        CallContext {
            turn: self.turn,
            call,
            person: &self.asker.sender,
            role: self.asker.role,
            at: &self.part.people_at,
            place: self.session.place,
            is_there: *self.session.origin.channel() == self.part.people_at.channel,
            keeps_quiet: self.part.keeps_quiet,
        }
    }

    /// Decides if a call may be made now: as itself, and as the call that it stands for. Returns who is asked, too.
    async fn permit(
        &self,
        call: &Call,
        checked: &CheckedCall,
        cx: &ToolContext,
        taint: Option<&Taint>,
    ) -> Result<(Decision, Decider), TurnError> {
        if call.outcome != CallOutcome::Planned || self.is_approved(call) {
            return Ok((Decision::Allow, Decider::Admins));
        }
        let asking = &self.turns.config.asking;
        let knows_url =
            matches!(&checked.reach, Reach::Url(url) if links::may_be_fetched(&self.session, url));
        let asked = PermissionRequest {
            tool: &call.tool,
            terms: checked.terms,
            reach: self.reach_here(&checked.reach, cx).await?,
            role: cx.role,
            own_role: self.asker.role,
            taint,
            knows_url,
            is_attended: self.part.is_attended,
        };
        let mut decision = self.decide(call, &asked).await?;
        let mut decider = asked.decider(&decision, cx.place, asking);
        let Some((tool, terms)) = checked.stands_for else { return Ok((decision, decider)) };
        // Whoever allows the one allows the other.
        let other = PermissionRequest { tool, terms, ..asked };
        decider = decider.max(other.decider(&decision, cx.place, asking));
        if decision == Decision::Allow {
            let of = |why| PermissionReason::StandsFor(tool, Box::new(why));
            decision = self.decide(call, &other).await?;
            decider = other.decider(&decision, cx.place, asking);
            decision = match decision {
                Decision::Allow => Decision::Allow,
                Decision::Ask(why) => Decision::Ask(of(why)),
                Decision::Deny(why) => Decision::Deny(of(why)),
            };
        }
        Ok((decision, decider))
    }

    /// Returns the decision, and whether somebody has allowed it.
    async fn decide(
        &self,
        call: &Call,
        asked: &PermissionRequest<'_>,
    ) -> Result<Decision, TurnError> {
        let decision = permission::decide(asked, &self.turns.config.asking);
        let why = match &decision {
            Decision::Ask(why) => why,
            // Where nobody can be asked, what was allowed for good is still allowed.
            Decision::Deny(PermissionReason::Unattended(why, _)) => &**why,
            Decision::Allow | Decision::Deny(_) => return Ok(decision),
        };
        let (id, tool, can_be_granted) = (call.id, asked.tool.to_owned(), why.can_be_granted());
        let (channel, sender) = (self.part.people_at.channel.clone(), self.asker.sender.id.clone());
        let is_allowed = move |store: &Connection| {
            Ok(asks::is_approved(store, id)?
                || (can_be_granted && asks::is_granted(store, &channel, &sender, &tool)?))
        };
        let is_allowed = self.turns.services.bus.store.read(is_allowed).await?;
        Ok(if is_allowed { Decision::Allow } else { decision })
    }

    /// Settles the calls that cannot begin; gives the others.
    async fn check(&mut self, calls: Vec<(usize, Call)>) -> Result<Vec<OpenCall>, TurnError> {
        self.turns.tools.arrived().await;
        let cx = self.tool_context().await?;
        let taint = taint::of(&self.turns.services.bus, &self.session, self.asker.role).await?;
        let (mut open, mut refusals) = (Vec::new(), Vec::new());
        for (at, call) in calls {
            let checked = match self.part.caller.has(&call.tool) || self.is_approved(&call) {
                true => calls::check(self.turns, &call, &cx),
                false => Err(format!("There is no tool `{}`.", call.tool)),
            };
            let checked = match checked {
                Ok(checked) => match self.permit(&call, &checked, &cx, taint.as_ref()).await? {
                    (Decision::Allow, _) => Ok((checked.terms.kind == ToolKind::Reads, None)),
                    (Decision::Ask(why), decider) => Ok((false, Some((why, decider)))),
                    (Decision::Deny(why), _) => Err(Refused::of(&why)),
                },
                Err(words) => Err(Refused { words, is_unattended: false }),
            };
            match checked {
                Ok((reads, asks)) => open.push(OpenCall { at, call, reads, asks }),
                // What was begun before a crash is looked at first.
                Err(_) if call.outcome != CallOutcome::Planned => {
                    open.push(OpenCall { at, call, reads: false, asks: None });
                }
                Err(refused) => refusals.push(RefusedCall { at, call, refused }),
            }
        }
        self.refuse(refusals, taint.is_some()).await?;
        Ok(open)
    }

    /// Runs calls side by side; there is more than one only of those that look.
    /// True if one of them suspends the turn.
    async fn run_together(&mut self, batch: Vec<OpenCall>) -> Result<bool, TurnError> {
        let doing: Vec<_> =
            batch.iter().map(|it| replies::doing(&it.call.tool, &it.call.arguments)).collect();
        self.handles.draft.send_modify(|draft| draft.doing = Some(doing.join("\n")));
        let cx = self.tool_context().await?;
        let (this, cx) = (&*self, &cx);
        let runs = batch.iter().map(|open| async move {
            let begun = Instant::now();
            this.emit_start(&open.call);
            let ran = calls::run(this.turns, &this.calling(&open.call), cx).await?;
            this.emit_end(&open.call, &ran, begun);
            Ok::<_, TurnError>((open.at, ran))
        });
        for ran in Box::pin(join_all(runs)).await {
            let (at, ran) = ran?;
            self.settled(at, ran);
        }
        let step = self.current().steps.last().expect("the step whose calls these are");
        let calls: Vec<_> = batch.iter().map(|open| step.calls[open.at].clone()).collect();
        let here = &self.part.people_at;
        if calls.iter().any(|call| message::said_here(call, here).is_some()) {
            self.begin_draft_anew().await?;
        }
        Ok(calls.iter().any(|call| call.outcome == CallOutcome::Waiting))
    }

    pub(super) fn settled(&mut self, at: usize, ran: CallResult) {
        let step = self.current().steps.last_mut().expect("the step whose calls these are");
        let call = &mut step.calls[at];
        (call.outcome, call.sources) = (ran.outcome, ran.sources);
    }

    pub(super) fn emit_start(&self, call: &Call) {
        self.emit(|| EventKind::ToolStart {
            action: call.id,
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        });
    }

    pub(super) fn emit_end(&self, call: &Call, ran: &CallResult, begun: Instant) {
        self.emit(|| EventKind::ToolEnd {
            action: call.id,
            tool: call.tool.clone(),
            result: ran.outcome.for_model().to_owned(),
            failed: ran.outcome.is_error(),
            ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        if !ran.sources.is_empty() {
            self.emit(|| EventKind::Sources { action: call.id, sources: ran.sources.clone() });
        }
        if let Some(path) = ran.changed.as_ref().filter(|path| memory::is_memory(path)) {
            self.emit(|| EventKind::MemoryUpdated { path: path.to_string() });
        }
    }

    pub(super) async fn tool_context(&self) -> Result<ToolContext, TurnError> {
        let Requester { sender, role, .. } = &self.asker;
        let files_at = &self.part.people_at;
        tool_context(self.turns, &self.session, files_at, sender, *role).await
    }
}

/// Returns the context for tools: the person who asks, and the place.
pub(crate) async fn tool_context(
    turns: &TurnServices,
    session: &Session,
    files_at: &Address,
    who: &Sender,
    role: Role,
) -> Result<ToolContext, TurnError> {
    let (at, channel, sender) =
        (files_at.clone(), session.origin.channel().clone(), who.id.clone());
    let look = move |store: &_| {
        Ok((journal::files_at(store, &at)?, folder_owner(store, &channel, &sender)?))
    };
    let (came_here, owner) = turns.services.bus.store.read(look).await?;
    Ok(ToolContext {
        came_here: came_here.into(),
        owner,
        instruction_watcher: turns.instruction_watcher.clone(),
        workspace: turns.services.workspace.clone(),
        actions: turns.actions.clone(),
        session: session.id,
        who: who.clone(),
        people: turns.services.bus.people.clone(),
        role: tool_role(role, session.place),
        allowed: session.persona.tools.clone(),
        // What a background task sends goes to the people for whom it is done.
        address: files_at.clone(),
        place: session.place,
        channels: turns.services.channels.keys().cloned().collect(),
        now: turns.services.now(),
        tainted: taint::of(&turns.services.bus, session, role).await?.is_some(),
    })
}

/// Returns the other chat to which a call sends a message.
fn other_chat_of(turns: &TurnServices, call: &Call, cx: &ToolContext) -> Option<Address> {
    match calls::check(turns, call, cx).ok()?.reach {
        Reach::Tell(message) => Some(message.to),
        _ => None,
    }
}

/// Returns the batches of calls that run at once, in order.
fn batches(open: Vec<OpenCall>) -> Vec<Vec<OpenCall>> {
    let mut batches: Vec<Vec<OpenCall>> = Vec::new();
    for open in open {
        match batches.last_mut() {
            Some(batch)
                if open.reads
                    && batch.len() < SIDE_BY_SIDE_MAX
                    && batch.iter().all(|it| it.reads) =>
            {
                batch.push(open);
            }
            _ => batches.push(vec![open]),
        }
    }
    batches
}
