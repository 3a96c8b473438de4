//! Settles calls that cannot begin. Those that nobody could be asked about are deferred: people get a report when the turn
//! ends, and can approve them later. An approved call is made first in a turn of its own.

use std::time::Instant;

use crate::conversation::asks::{Approvals, CallApproval};
use crate::conversation::deferred::{ApprovedCall, DeferredCall, LaterDecider, ReportTerms};
use crate::memory::audience;
use crate::people;
use crate::provider::{Completion, ToolCall};
use crate::tools::{Effect, ToolContext, ToolKind};
use crate::trust::permission::Decider;
use crate::turn::background;
use crate::turn::calls::{self, CallResult};
use crate::turn::error::TurnError;
use crate::turn::proposed::{self, ProposedFiles};
use crate::turn::run::active::ActiveTurn;
use crate::turn::run::permitting::{Refused, RefusedCall};
use crate::types::call_files::CallFiles;
use crate::types::session::Call;
use crate::workspace::Audience;

/// The provider's id of an approved call.
const APPROVED_ID: &str = "approved";

/// The people who are told of refused calls.
struct ToldPeople {
    terms: ReportTerms,
    /// The owner is told.
    is_owner: bool,
    /// They know the task's person: it was not made at this machine.
    is_there: bool,
    /// They may see the files that the turn may see.
    see_files: bool,
}

/// The circumstances in which a call is deferred.
#[derive(Clone, Copy)]
struct DeferralPlace<'a> {
    told: &'a ToldPeople,
    cx: &'a ToolContext,
    /// True if the model has read untrusted content.
    tainted: bool,
}

impl ActiveTurn<'_> {
    /// Settles calls of a step that cannot begin, and defers those that nobody could be asked about. `first_open`: the
    /// index of the first call of the step that can begin.
    pub(super) async fn refuse(
        &mut self,
        refusals: Vec<RefusedCall>,
        tainted: bool,
        first_open: Option<usize>,
    ) -> Result<(), TurnError> {
        let told = match refusals.iter().any(|it| it.refused.is_unattended) {
            true => Some(self.told_people().await?),
            false => None,
        };
        let turns = self.turns;
        let services = &turns.services;
        let cx = match &told {
            Some(_) => Some(self.tool_context().await?),
            None => None,
        };
        let tells_results = cx.as_ref().is_some_and(|cx| self.may_read_files(cx));
        let mut has_deferred = false;
        for RefusedCall { index, call, refused } in refusals {
            self.emit_start(&call);
            let told = told.as_ref().filter(|_| refused.is_unattended);
            let result = match told.zip(cx.as_ref()) {
                None => calls::refuse(services, self.turn, &call, refused.words).await?,
                Some((told, cx)) => {
                    // A call before it may change its files.
                    let is_first = !has_deferred && first_open.is_none_or(|open| index < open);
                    let known = match is_first && tells_results {
                        true => Box::pin(proposed::find_files(turns, &call, cx)).await.known,
                        false => None,
                    };
                    match known {
                        Some(known) => {
                            calls::settle_known(turns, self.turn, &call, cx, known).await?
                        }
                        None => {
                            has_deferred = true;
                            let place = DeferralPlace { told, cx, tainted };
                            Box::pin(self.defer(&call, refused, place)).await?
                        }
                    }
                }
            };
            self.emit_end(&call, &result, Instant::now());
            self.settled(index, result);
        }
        Ok(())
    }

    /// Settles a call that nobody could be asked about, and defers it until people are told of it. Changes of files are
    /// worked out in order, each as one of the files that the deferred calls before it leave.
    async fn defer(
        &mut self,
        call: &Call,
        refused: Refused,
        DeferralPlace { told, cx, tainted }: DeferralPlace<'_>,
    ) -> Result<CallResult, TurnError> {
        let turns = self.turns;
        let mut cx = cx.clone();
        let tool = turns.tools.authorise(&call.tool, cx.user());
        if tool.is_ok_and(|(_, terms)| terms.kind == ToolKind::Writes) {
            cx.workspace = self.ahead.clone();
        }
        let ProposedFiles { files, diff, change, .. } =
            Box::pin(proposed::find_files(turns, call, &cx)).await;
        let decider = self.later_decider(told, refused.decider);
        let follows = change.as_ref().is_some_and(|change| self.ahead.would_change(&change.path));
        let is_new = self.deferred_calls.insert((call.tool.clone(), call.arguments.clone()));
        if let Some(change) = change.filter(|_| is_new && decider != LaterDecider::Nobody) {
            self.ahead = self.ahead.with_change(&change);
        }
        let change = diff.filter(|_| told.see_files);
        let terms = ReportTerms { change, follows, ..told.terms.clone() };
        let deferred = Box::new(self.deferred(call, files, tainted, decider));
        let deferral = Effect::Defer { call: deferred, terms };
        calls::refuse_and_defer(&turns.services, self.turn, call, refused.words, deferral).await
    }

    /// Returns who is told of calls of this turn.
    async fn told_people(&self) -> Result<ToldPeople, TurnError> {
        let is_there = *self.session.origin.channel() == self.limits.people_at.channel;
        let audience = audience(self.requester.role, self.session.chat_kind);
        let to_owner = match audience {
            Audience::Owner => true,
            // The author of a job that was made on this machine has no chat there, but the owner has.
            Audience::Others => !is_there,
        };
        let owner = match to_owner {
            true => self.turns.services.bus.store.read(people::owner_address).await?,
            false => None,
        };
        let task = self.session.origin.task();
        let task = task.map(|task| background::behaviour_of(task.kind).reported_as(task));
        let is_owner = owner.is_some();
        let to = owner.unwrap_or_else(|| self.limits.people_at.clone());
        let see_files = audience == Audience::Owner || !is_owner;
        let terms = ReportTerms { to, task, change: None, follows: false };
        Ok(ToldPeople { terms, is_owner, is_there, see_files })
    }

    /// Returns who may have a call made later. Each person decides about what their role allows in their own private
    /// conversation, also if they are an admin.
    fn later_decider(&self, told: &ToldPeople, decider: Decider) -> LaterDecider {
        match decider {
            _ if !told.is_there => LaterDecider::Nobody,
            _ if told.is_owner => LaterDecider::Admins,
            Decider::Person => LaterDecider::Person,
            Decider::Admins if self.requester.role >= Approvals::BY => LaterDecider::Admins,
            Decider::Admins => LaterDecider::Nobody,
        }
    }

    fn deferred(
        &self,
        call: &Call,
        files: Option<CallFiles>,
        tainted: bool,
        decider: LaterDecider,
    ) -> DeferredCall {
        let (tool, arguments) = (call.tool.clone(), call.arguments.clone());
        DeferredCall {
            call: call.id,
            approved: ApprovedCall { tool, arguments, files },
            sender: self.requester.sender.clone(),
            known_on: self.session.origin.channel().clone(),
            chat_kind: self.session.chat_kind,
            to: self.limits.people_at.clone(),
            tainted,
            decider,
        }
    }

    /// Plans the approved call in the first step of a turn that exists only for it.
    pub(super) async fn plan_approved(&mut self) -> Result<(), TurnError> {
        let Some(ApprovedCall { tool, arguments, .. }) = self.limits.approved.clone() else {
            return Ok(());
        };
        if self.steps_made() > 0 {
            return Ok(());
        }
        let call = ToolCall { id: APPROVED_ID.to_owned(), name: tool, arguments };
        self.commit_planned_step(0, Completion { calls: vec![call], ..Completion::default() }).await
    }

    /// Returns the approval of a call that was approved later.
    pub(super) fn approved_later(&self, call: &Call) -> Option<CallApproval> {
        let approved = self.limits.approved.as_ref().filter(|_| self.is_approved(call));
        approved.map(|approved| CallApproval { files: approved.files.clone() })
    }

    /// Returns true for exactly the approved call, once.
    pub(super) fn is_approved(&self, call: &Call) -> bool {
        let is_same_call = |approved: &ApprovedCall| {
            (&approved.tool, &approved.arguments) == (&call.tool, &call.arguments)
        };
        self.steps_made() == 1 && self.limits.approved.as_ref().is_some_and(is_same_call)
    }
}
