//! Runs the checked calls of a step: those that only read run in parallel, the others one after another.

use std::time::Instant;

use futures_util::future::join_all;

use crate::bus::access::AccessWatch;
use crate::bus::journal;
use crate::memory;
use crate::people::Role;
use crate::people::folders::folder_owner;
use crate::people::persons::PersonAccount;
use crate::replies;
use crate::tools::{Reach, ToolContext, message};
use crate::trust::acts::tool_role;
use crate::trust::path_watch::PathWatcher;
use crate::trust::permission::PermissionReason;
use crate::trust::table::Act;
use crate::trust::taint;
use crate::turn::call_context::CallContext;
use crate::turn::calls::{self, CallResult};
use crate::turn::error::TurnError;
use crate::turn::prompt;
use crate::turn::proposed::{self, KnownResult};
use crate::turn::run::active::{ActiveTurn, Requester};
use crate::turn::run::permitting::{OpenCall, check_call};
use crate::turn::services::TurnServices;
use crate::turn::suspension::{self, CallToAllow};
use crate::types::event::EventKind;
use crate::types::message::{Address, Sender};
use crate::types::session::{Call, CallOutcome, Session};
use crate::workspace::{FileChange, Workspace};

/// Maximum number of reading calls in parallel: a small board has few cores, and steered messages are read
/// between batches.
const SIDE_BY_SIDE_MAX: usize = 4;

/// Maximum number of calls in one question.
const ASKED_MAX: usize = 6;

/// Number of checks of a step's calls from which on an approved call fails whose files have changed by the time it begins:
/// something may change them each time.
const CHECKS_MAX: usize = 8;

/// The progress of a step's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettledCalls {
    All,
    /// One of them waits for somebody, and the turn is suspended.
    Suspended,
    /// The approval of the one with this index does not cover its files any more, so that they must be checked again.
    Uncovered(usize),
    /// The role of the person has become lower since they were checked, so that they must be checked again. None of the last
    /// batch has begun.
    RoleLowered,
}

impl ActiveTurn<'_> {
    /// Runs the planned calls of the last step, until the person sends another message.
    pub(super) async fn settle_calls(&mut self) -> Result<SettledCalls, TurnError> {
        let mut checks = 0;
        loop {
            let index = match Box::pin(self.check_and_run()).await? {
                SettledCalls::Uncovered(index) => index,
                // There are few roles below each.
                SettledCalls::RoleLowered => continue,
                settled @ (SettledCalls::All | SettledCalls::Suspended) => return Ok(settled),
            };
            checks += 1;
            if checks >= CHECKS_MAX {
                self.fail_uncovered(index).await?;
            }
        }
    }

    /// Settles a planned call whose files are not those that were approved. Otherwise it would count as one that was left
    /// out for a new message.
    async fn fail_uncovered(&mut self, index: usize) -> Result<(), TurnError> {
        let step = self.current().steps.last().expect("the step whose calls these are");
        let (call, begun) = (step.calls[index].clone(), Instant::now());
        self.emit_start(&call);
        let reason = prompt::CHANGED_SINCE_APPROVAL.to_owned();
        let result = calls::refuse(&self.turns.services, self.turn, &call, reason).await?;
        self.emit_end(&call, &result, begun);
        self.settled(index, result);
        Ok(())
    }

    /// Checks the planned calls of the last step, and runs them.
    async fn check_and_run(&mut self) -> Result<SettledCalls, TurnError> {
        let calls = self.current().steps.last().map(|step| step.calls.clone()).unwrap_or_default();
        let unsettled =
            calls.into_iter().enumerate().filter(|(_, call)| !call.outcome.is_settled());
        let unsettled: Vec<_> = unsettled.collect();
        if unsettled.is_empty() {
            return Ok(SettledCalls::All);
        }
        self.lower_role().await?;
        let open = {
            let cx = self.tool_context().await?;
            self.check(unsettled, &cx).await?
        };
        let mut batches = batches(open).into_iter();
        while let Some(batch) = batches.next() {
            self.take_steering().await?;
            let has_new_messages = !self.pending.is_empty();
            let may_begin =
                |open: &OpenCall| !has_new_messages || open.call.outcome != CallOutcome::Planned;
            let batch: Vec<_> = batch.into_iter().filter(may_begin).collect();
            let settled = match batch.as_slice() {
                [] => SettledCalls::All,
                [first @ OpenCall { asks: Some(_), .. }] => {
                    self.ask_together(first, batches.as_slice()).await?
                }
                _ => self.run_together(batch).await?,
            };
            if settled != SettledCalls::All {
                return Ok(settled);
            }
        }
        Ok(SettledCalls::All)
    }

    /// Asks about a call, and in the same question about later ones of its step that the same people decide. Changes of
    /// files are shown in order, each as one of the files that the calls before it leave. A message that sends private
    /// content is asked about alone. If the first call would do nothing, nobody is asked, and it is settled.
    async fn ask_together(
        &mut self,
        first: &OpenCall,
        later: &[Vec<OpenCall>],
    ) -> Result<SettledCalls, TurnError> {
        let Some((_, asked_first)) = &first.asks else { return Ok(SettledCalls::All) };
        let cx = self.tool_context().await?;
        // The same with the files as the calls before leave them.
        let mut ahead = cx.clone();
        let tells_results = self.may_read_files(&cx);
        let mut asked: Vec<CallToAllow<'_>> = Vec::new();
        for open in [first].into_iter().chain(later.iter().flatten()) {
            let files_cx = if open.will_write() { &ahead } else { &cx };
            let Some((why, decider)) = &open.asks else {
                // It is made before those after it.
                if open.will_write() {
                    let found = proposed::find_files(self.turns, &open.call, files_cx);
                    let change = Box::pin(found).await.change;
                    ahead.workspace = after(&ahead.workspace, change.as_ref());
                }
                continue;
            };
            let tells = other_chat_of(self.turns, &open.call, &cx);
            // After untrusted content, the reason is the taint instead.
            let tells = tells.filter(|_| *why == PermissionReason::EachTime(Act::Tell));
            let is_alone = tells.is_some() || asked.iter().any(|it| it.tells.is_some());
            let must_wait = decider != asked_first || (is_alone && !asked.is_empty());
            if must_wait || asked.len() == ASKED_MAX {
                break;
            }
            let found = proposed::find_files(self.turns, &open.call, files_cx);
            let mut proposed = Box::pin(found).await;
            match proposed.known.take().filter(|_| tells_results) {
                Some(known) if asked.is_empty() => {
                    self.settle_known(open, known, &cx).await?;
                    return Ok(SettledCalls::All);
                }
                // It is looked at again once those before it have ended, which may change its files.
                Some(_) => continue,
                None => {}
            }
            ahead.workspace = after(&ahead.workspace, proposed.change.as_ref());
            asked.push(CallToAllow {
                call: &open.call,
                why,
                proposed,
                tells,
                needs: open.tool.as_ref().ok().map(|tool| tool.terms().role),
                is_tainted: cx.tainted,
                is_asked_again: open.is_asked_again,
            });
        }
        suspension::ask_permission(self.turns, &self.calling(&first.call), *asked_first, &asked)
            .await?;
        Ok(SettledCalls::Suspended)
    }

    /// Settles a call that would do nothing.
    async fn settle_known(
        &mut self,
        open: &OpenCall,
        known: KnownResult,
        cx: &ToolContext,
    ) -> Result<(), TurnError> {
        let begun = Instant::now();
        self.emit_start(&open.call);
        let result = calls::settle_known(self.turns, self.turn, &open.call, cx, known).await?;
        self.emit_end(&open.call, &result, begun);
        self.settled(open.index, result);
        Ok(())
    }

    /// Returns the context of a call.
    fn calling<'a>(&'a self, call: &'a Call) -> CallContext<'a> {
        CallContext {
            turn: self.turn,
            call,
            person: &self.requester.sender,
            role: self.requester.role,
            at: &self.limits.people_at,
            chat_kind: self.session.chat_kind,
            is_there: *self.session.origin.channel() == self.limits.people_at.channel,
            own_words: None,
            approval: None,
            keeps_quiet: self.limits.keeps_quiet,
        }
    }

    /// Runs the calls of a batch in parallel. Only a batch of reading calls has more than one.
    async fn run_together(&mut self, batch: Vec<OpenCall>) -> Result<SettledCalls, TurnError> {
        // A lower role may lack a tool, or need approval for its calls.
        if self.lower_role().await? {
            return Ok(SettledCalls::RoleLowered);
        }
        let doing: Vec<_> = batch
            .iter()
            .map(|it| replies::running_tool(&it.call.tool, &it.call.arguments))
            .collect();
        self.handles.draft.send_modify(|draft| draft.doing = Some(doing.join("\n")));
        let cx = self.tool_context().await?;
        let (this, cx) = (&*self, &cx);
        let runs = batch.iter().map(|open| async move {
            let begun = Instant::now();
            this.emit_start(&open.call);
            let (own_words, approval) = (open.own_words.clone(), open.approval.clone());
            let calling = CallContext { own_words, approval, ..this.calling(&open.call) };
            let result = calls::run(this.turns, &calling, cx, open.tool.clone()).await?;
            this.emit_end(&open.call, &result, begun);
            Ok::<_, TurnError>((open.index, result))
        });
        for result in Box::pin(join_all(runs)).await {
            let (index, result) = result?;
            self.settled(index, result);
        }
        let step = self.current().steps.last().expect("the step whose calls these are");
        let calls: Vec<_> = batch.iter().map(|open| step.calls[open.index].clone()).collect();
        let here = &self.limits.people_at;
        if calls.iter().any(|call| message::sent_here(call, here).is_some()) {
            self.begin_draft_anew().await?;
        }
        if calls.iter().any(|call| call.outcome == CallOutcome::Waiting) {
            return Ok(SettledCalls::Suspended);
        }
        let mut ran = batch.iter().zip(&calls);
        let uncovered = ran.find(|(_, call)| call.outcome == CallOutcome::Planned);
        Ok(uncovered.map_or(SettledCalls::All, |(open, _)| SettledCalls::Uncovered(open.index)))
    }

    pub(super) fn settled(&mut self, index: usize, result: CallResult) {
        let step = self.current().steps.last_mut().expect("the step whose calls these are");
        let call = &mut step.calls[index];
        (call.outcome, call.sources) = (result.outcome, result.sources);
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
        let Requester { sender, role, access, .. } = &self.requester;
        let files_at = &self.limits.people_at;
        let cx = tool_context(self.turns, &self.session, files_at, sender, *role).await?;
        // The tools watch for changes that come later than the last look at the role.
        Ok(ToolContext { access: access.clone(), ..cx })
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
    let account = PersonAccount { channel: channel.clone(), sender: sender.clone() };
    let access = AccessWatch::of(&turns.services.bus, account);
    let query = move |store: &_| {
        Ok((journal::files_at(store, &at)?, folder_owner(store, &channel, &sender)?))
    };
    let (arrived_here, owner) = turns.services.bus.store.read(query).await?;
    Ok(ToolContext {
        arrived_here: arrived_here.into(),
        owner,
        instruction_watcher: turns.instruction_watcher.clone(),
        path_watcher: PathWatcher::new(
            turns.services.bus.store.clone(),
            turns.services.bus.outbox.clone(),
        ),
        workspace: turns.services.workspace.clone(),
        actions: turns.actions.clone(),
        session: session.id,
        who: who.clone(),
        known_on: session.origin.channel().clone(),
        people: turns.services.bus.people.clone(),
        access,
        role: tool_role(role, session.chat_kind),
        own_role: role,
        allowed: session.persona.tools.clone(),
        // A background task sends to the people for whom it works.
        address: files_at.clone(),
        chat_kind: session.chat_kind,
        channels: turns.services.channels.keys().cloned().collect(),
        now: turns.services.now(),
        tainted: taint::find_taint(&turns.services.bus, session, role).await?.is_some(),
        approved_files: None,
    })
}

/// Returns the workspace as it would be after a change, if there is one.
fn after(workspace: &Workspace, change: Option<&FileChange>) -> Workspace {
    change.map_or_else(|| workspace.clone(), |change| workspace.with_change(change))
}

/// Returns the other chat to which a call sends private content, if it does.
fn other_chat_of(turns: &TurnServices, call: &Call, cx: &ToolContext) -> Option<Address> {
    match check_call(turns, call, cx).ok()?.reach {
        Reach::Tell(message) => Some(message.to),
        _ => None,
    }
}

/// Returns the calls in batches that run at once, in order.
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
