//! Settles calls that cannot begin. Those that nobody could be asked about are deferred: people get a report, and can
//! approve them later. An approved call is made first in a turn of its own.

use std::time::Instant;

use crate::conversation::asks::Approvals;
use crate::conversation::deferred::{ApprovedCall, DeferredCall};
use crate::memory::audience;
use crate::people;
use crate::provider::{Completion, ToolCall};
use crate::replies;
use crate::tools::Effect;
use crate::turn::background;
use crate::turn::calls;
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::turn::run::permitting::RefusedCall;
use crate::types::session::Call;
use crate::workspace::Audience;

/// Maximum number of calls of a turn in reports. Platforms show this number of buttons.
const REPORTED_MAX: usize = 6;

/// The provider's id of an approved call.
const APPROVED_ID: &str = "approved";

impl ActiveTurn<'_> {
    /// Settles calls of a step that cannot begin, and reports those that nobody could be asked about.
    pub(super) async fn refuse(
        &mut self,
        refusals: Vec<RefusedCall>,
        tainted: bool,
    ) -> Result<(), TurnError> {
        let mut report = self.report(&refusals, tainted).await?;
        let turns = self.turns;
        let services = &turns.services;
        for RefusedCall { at, call, refused } in refusals {
            self.emit_start(&call);
            let reason = refused.words;
            let result = match report.take() {
                None => calls::refuse(services, self.turn, &call, reason).await?,
                Some(report) => {
                    calls::refuse_and_report(services, self.turn, &call, reason, report).await?
                }
            };
            self.emit_end(&call, &result, Instant::now());
            self.settled(at, result);
        }
        Ok(())
    }

    /// Returns the report of calls that nobody could be asked about. None if there are no new ones.
    async fn report(
        &mut self,
        refusals: &[RefusedCall],
        tainted: bool,
    ) -> Result<Option<Effect>, TurnError> {
        let is_quiet = self.part.keeps_quiet && self.turns.heartbeat.is_quiet();
        let mut reported_calls = Vec::new();
        for RefusedCall { call, refused, .. } in refusals {
            let shown = (call.tool.clone(), call.arguments.clone());
            let is_new = refused.is_unattended && !self.reported.contains(&shown);
            if is_new && !is_quiet && self.reported.len() < REPORTED_MAX {
                self.reported.push(shown);
                reported_calls.push(call);
            }
        }
        if reported_calls.is_empty() {
            return Ok(None);
        }
        let is_there = *self.session.origin.channel() == self.part.people_at.channel;
        let to_owner = match audience(self.asker.role, self.session.chat_kind) {
            Audience::Owner => true,
            // The author of a job that was made on this machine has no chat there, but the owner has.
            Audience::Others => !is_there,
        };
        let owner = match to_owner {
            true => self.turns.services.bus.store.read(people::owner_place).await?,
            false => None,
        };
        let task = self.session.origin.task();
        let task = task.map(|task| background::of(task.kind).reported_as(task));
        let shown: Vec<_> =
            reported_calls.iter().map(|call| (&*call.tool, &*call.arguments)).collect();
        let (text, file) = replies::not_done(task.as_deref(), &shown);
        let may_decide = is_there && (owner.is_some() || self.asker.role >= Approvals::BY);
        let (text, calls) = match may_decide {
            true => {
                (text, reported_calls.iter().map(|call| self.deferred(call, tainted)).collect())
            }
            false => (replies::ask_for_it(&text), Vec::new()),
        };
        let to = owner.unwrap_or_else(|| self.part.people_at.clone());
        Ok(Some(Effect::Report { to, text, file, calls, tainted }))
    }

    fn deferred(&self, call: &Call, tainted: bool) -> DeferredCall {
        let (tool, arguments) = (call.tool.clone(), call.arguments.clone());
        DeferredCall {
            call: call.id,
            approved: ApprovedCall { tool, arguments },
            sender: self.asker.sender.clone(),
            known_on: self.session.origin.channel().clone(),
            chat_kind: self.session.chat_kind,
            to: self.part.people_at.clone(),
            tainted,
        }
    }

    /// Plans the approved call in the first step of a turn that exists only for it.
    pub(super) async fn plan_approved(&mut self) -> Result<(), TurnError> {
        let Some(ApprovedCall { tool, arguments }) = self.part.approved.clone() else {
            return Ok(());
        };
        if self.steps_made() > 0 {
            return Ok(());
        }
        let call = ToolCall { id: APPROVED_ID.to_owned(), name: tool, arguments };
        self.plan(0, Completion { calls: vec![call], ..Completion::default() }).await
    }

    /// Returns true for exactly the approved call, once.
    pub(super) fn is_approved(&self, call: &Call) -> bool {
        let is_same_call = |approved: &ApprovedCall| {
            (&approved.tool, &approved.arguments) == (&call.tool, &call.arguments)
        };
        self.steps_made() == 1 && self.part.approved.as_ref().is_some_and(is_same_call)
    }
}
