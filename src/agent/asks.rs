//! Settles the asks for which turns wait: approvals and questions that have expired, and messages that
//! answer a question.

use rusqlite::Connection;

use crate::agent::failing_items::Item;
use crate::bus::journal;
use crate::bus::journal::{RowId, RowRange};
use crate::conversation::asks;
use crate::conversation::asks::{Ask, AskKind, AskOutcome};
use crate::conversation::transcript;
use crate::people::Role;
use crate::replies;
use crate::services::role_of;
use crate::store::{StoreError, Sync};
use crate::turn::prompt;
use crate::turn::prompt::InvokedSkills;
use crate::turn::prompt::{PromptTail, files};
use crate::turn::quoted;
use crate::types::message::SenderId;
use crate::types::origin::Origin;
use crate::types::session::CallOutcome;

use super::{Agent, STORE_PAUSE, steering::PendingParts};
use crate::turn::suspension::resume_call;

/// The result of examining the waiting asks. Of several results, the last variant counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AskProgress {
    /// Nothing has changed.
    Same,
    /// Something was settled, so the store must be read again.
    Settled,
    /// Something could not be settled and must be tried again. Other work goes on meanwhile.
    Failed,
}

impl Agent {
    /// Resumes turns whose asks have expired, and turns whose question is answered by a waiting message,
    /// where something has changed.
    pub(crate) async fn settle_asks(&mut self, overdue: Vec<Ask>) -> AskProgress {
        let mut progress = AskProgress::Same;
        for ask in overdue {
            if self.failing.remaining_pause(Item::Ask(ask.id)).is_some() {
                progress = AskProgress::Failed;
                continue;
            }
            let expired = self.expire(ask.clone()).await.map(|()| true);
            progress = progress.max(self.note_result(ask, expired).await);
        }
        for (ask, newest) in self.work_queue.questions_with_messages() {
            let at = Origin::from(&ask.at);
            if let Some(pause) = self.failing.remaining_pause(Item::Ask(ask.id)) {
                self.work_queue.look_again(&at, pause);
                continue;
            }
            let answered = self.take_answer(ask.clone(), newest).await;
            if answered.is_err() {
                self.work_queue.look_again(&at, STORE_PAUSE);
            }
            progress = progress.max(self.note_result(ask, answered).await);
        }
        if progress != AskProgress::Same {
            self.services.bus.outbox.notify();
        }
        progress
    }

    /// Notes the result of settling an ask: true if it was settled, false if nothing has changed.
    async fn note_result(&mut self, ask: Ask, result: Result<bool, StoreError>) -> AskProgress {
        match result {
            Ok(false) => AskProgress::Same,
            Ok(true) => {
                self.failing.forget(Item::Ask(ask.id));
                AskProgress::Settled
            }
            Err(error) => {
                self.handle_ask_failure(ask, &error).await;
                AskProgress::Failed
            }
        }
    }

    async fn expire(&mut self, ask: Ask) -> Result<(), StoreError> {
        let expire = move |store: &Connection| {
            if !asks::end(store, &ask, AskOutcome::Expired, replies::NOBODY_ANSWERED)? {
                return Ok(());
            }
            let outcome = match ask.kind {
                AskKind::Approval => CallOutcome::Denied(prompt::NOBODY_APPROVED.to_owned()),
                AskKind::Question => CallOutcome::Failed(prompt::NOBODY_ANSWERED.to_owned()),
            };
            transcript::end_call(store, ask.call, &outcome, &[])?;
            // The other asks of its step expire at the same time.
            match asks::has_open(store, ask.turn)? {
                true => Ok(()),
                false => transcript::resume_call(store, ask.turn),
            }
        };
        self.services.bus.store.write("ask expired", Sync::Now, expire).await
    }

    /// Returns the person whose message answers a question: the one who was asked, or the owner.
    async fn find_answerer(
        &self,
        ask: &Ask,
        rows: RowRange,
    ) -> Result<Option<SenderId>, StoreError> {
        if let Some(who) = &ask.who {
            return Ok(Some(who.clone()));
        }
        let (at, people) = (ask.at.clone(), self.services.bus.people.clone());
        let find = move |store: &Connection| {
            for row in journal::ready_messages(store, &at, rows, None)? {
                let who = &row.sender().id;
                if people.role_of(store, &at.channel, who)? == Some(Role::Owner) {
                    return Ok(Some(who.clone()));
                }
            }
            Ok(None)
        };
        self.read(find).await
    }

    /// Takes the next plain message of the asked person at that address as the answer. Returns false if
    /// there is none yet.
    async fn take_answer(&mut self, ask: Ask, newest: RowId) -> Result<bool, StoreError> {
        let (at, range) = (ask.at.clone(), RowRange { after: ask.after, until: newest });
        let Some(who) = self.find_answerer(&ask, range).await? else { return Ok(false) };
        let read_messages =
            move |store: &Connection| journal::ready_messages(store, &at, range, Some(&who));
        let rows = self.read(read_messages).await?;
        let Some(first) = rows.first() else { return Ok(false) };
        match self.find_pending_parts(&rows).await? {
            PendingParts::None => {}
            PendingParts::Within(pause) => {
                self.work_queue.look_again(&ask.at.into(), pause);
                return Ok(false);
            }
            PendingParts::Fetching => return Ok(false),
        }
        let (sender, chat_kind) = (first.sender().clone(), first.inbound.chat_kind);
        let role = role_of(&self.services, &ask.at, &sender).await?;
        let shown = quoted::with_sources(&self.services, &rows, role).await?;
        let answer = prompt::tail(&PromptTail {
            now: self.services.now(),
            is_time_due: false,
            role,
            chat_kind,
            rows: &shown,
            invoked: &InvokedSkills::default(),
            background: &[],
            changes: vec![],
        });
        let images = files::images(&rows);
        let settle = move |store: &Connection| {
            let is_settled = journal::still_wait(store, &rows)?
                && asks::end(
                    store,
                    &ask,
                    AskOutcome::Settled,
                    &replies::answered_by(&sender.name),
                )?;
            if is_settled {
                journal::move_into_turn(store, &rows, ask.turn)?;
                let outcome = CallOutcome::Done(answer.to_string());
                resume_call(store, &ask, &outcome, &answer.sources())?;
                if !images.is_empty() {
                    transcript::set_images(store, ask.call, &images)?;
                }
            }
            Ok(is_settled)
        };
        self.services.bus.store.write("answer heard", Sync::Now, settle).await
    }
}
