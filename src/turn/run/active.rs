//! A running turn: its state, and the methods that all parts of its work need.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, watch};
use tokio::time::{Instant, timeout};

use crate::bus::journal::{InboundOutcome, WaitingMessage};
use crate::conversation::ledger::Payer;
use crate::conversation::model_waits::ModelWait;
use crate::people::Role;
use crate::provider::in_use::ProviderUse;
use crate::provider::{Attempts, Provider, ToolSchema, Usage};
use crate::trust::taint;
use crate::turn::commits::{self, ModelStep};
use crate::turn::draft::Draft;
use crate::turn::end::TurnEnd;
use crate::turn::error::TurnError;
use crate::turn::instructions::Speaker;
use crate::turn::progress;
use crate::turn::prompt::InvokedSkills;
use crate::turn::run::part::TurnPart;
use crate::turn::services::TurnServices;
use crate::turn::spending::Granted;
use crate::types::event::{Event, EventKind};
use crate::types::message::{ChatKind, Hint, MessageId, Sender};
use crate::types::session::{Session, Step, Turn, TurnId, TurnOutcome};

/// Maximum time that an answer waits for a draft that is being sent, so that it can replace it: even a slow link
/// answers by then. A draft that takes longer is deleted when it has arrived.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(5);

/// A running turn's ends of the channels to the loop and to its progress.
pub(crate) struct TurnHandles {
    /// Messages of the same person, in order. Unread ones stay in the journal.
    pub(crate) steer: mpsc::Receiver<Vec<WaitingMessage>>,
    pub(crate) draft: watch::Sender<Draft>,
    /// Reactions to be shown at messages. Those that do not fit are dropped.
    pub(crate) signs: mpsc::Sender<Hint>,
    /// Held while a draft is being sent, and while the turn ends: a draft that is being sent when
    /// the answer is committed would stay beside it. A mutex because both wait for each other.
    pub(crate) quiet: Arc<Mutex<()>>,
}

/// A running turn.
pub(super) struct ActiveTurn<'a> {
    pub(super) turns: &'a TurnServices,
    pub(super) session: Session,
    pub(super) turn: TurnId,
    pub(super) part: TurnPart,
    pub(super) asker: Requester,
    /// The provider of the running step.
    pub(super) provider: Arc<dyn Provider>,
    /// Marks the provider as in use, so that background work yields.
    pub(super) in_use: ProviderUse,
    /// Set if the turn has waited for the model, which has not answered yet.
    pub(super) wait: Option<ModelWait>,
    /// The number of attempts at a provider that cannot be reached.
    pub(super) attempts: Attempts,
    /// The model's thinking in this turn, for people to read.
    pub(super) thought: String,
    pub(super) handles: TurnHandles,
    /// Steered messages that the model has not been shown yet.
    pub(super) pending: Vec<WaitingMessage>,
    /// The skills that these messages invoke.
    pub(super) invoked: InvokedSkills,
    pub(super) system: Vec<String>,
    /// The numbers of the facts in the system prompt.
    pub(super) facts: Vec<i64>,
    pub(super) tools: Vec<ToolSchema>,
    /// The estimated tokens of the tools.
    pub(super) tools_tokens: u64,
    /// The estimated tokens of the system prompt and the summary.
    pub(super) fixed_tokens: u64,
    pub(super) begun: Instant,
    pub(super) payer: Payer,
    /// The reservation of the running call.
    pub(super) granted: Granted,
    /// The usage of the completions since the turn began or was resumed.
    pub(super) spent: Usage,
    /// The context window for which prompt and tools were made, in tokens.
    pub(super) fitted: u64,
}

/// The person who asked, and the message to reply to.
pub(super) struct Requester {
    pub(super) sender: Sender,
    pub(super) role: Role,
    pub(super) reply_to: Option<MessageId>,
}

impl Requester {
    pub(super) fn speaker(&self) -> Speaker<'_> {
        Speaker { name: &self.sender.name, role: self.role }
    }
}

impl ActiveTurn<'_> {
    /// Returns the running turn of the session.
    pub(super) fn current(&mut self) -> &mut Turn {
        self.session.turns.last_mut().expect("the turn that runs is the last one")
    }

    /// Returns the steps of the running turn.
    pub(super) fn steps(&self) -> &[Step] {
        self.session.turns.last().map(|turn| turn.steps.as_slice()).unwrap_or_default()
    }

    /// Returns the number of steps that have a completion.
    pub(super) fn steps_made(&self) -> usize {
        let made = |step: &&Step| !step.text.is_empty() || !step.calls.is_empty();
        self.steps().iter().filter(made).count()
    }

    /// Deletes the draft, because a message was sent below it. The next draft begins below that message.
    pub(super) async fn begin_draft_anew(&self) -> Result<(), TurnError> {
        let _quiet = self.quiet().await;
        let draft = commits::forget_draft(&self.turns.services.bus.store, self.turn).await?;
        self.handles.draft.send_modify(|draft| {
            draft.made = None;
            draft.anew += 1;
        });
        self.erase(draft);
        Ok(())
    }

    /// Deletes a draft that no answer replaces.
    pub(super) fn erase(&self, draft: Option<MessageId>) {
        if let (Some(at), Some(draft)) = (self.session.origin.chat(), draft) {
            progress::erase(self.turns, at, draft);
        }
    }

    /// Commits the end of a turn, and returns its session. `last` is the last step, if it is not in the store yet.
    pub(super) async fn end(
        mut self,
        mut end: TurnEnd,
        last: Option<ModelStep>,
    ) -> Result<Option<Session>, TurnError> {
        let (ending, silent) = (end.ending, end.words.is_none());
        let quiet = self.quiet_at_end().await;
        end.over_draft = quiet.is_some();
        let is_held = end.is_quiet;
        let stale_draft =
            commits::answer(&self.turns.services.bus.store, self.turn, last, end).await?;
        if is_held {
            // The heartbeat then wakes at the end of the quiet hours.
            self.turns.heartbeat.switched.up();
        }
        self.erase(stale_draft);
        self.emit(|| EventKind::TurnEnd { silent });
        self.log_end(ending);
        self.current().ending = Some(ending);
        self.session.estimate.used = self.used();
        self.session.estimate.fixed = self.fixed_tokens + self.tools_tokens;
        Ok(Some(self.session))
    }

    /// Logs the end of the turn for the operator. A resumed turn has the figures since it was resumed.
    pub(super) fn log_end(&self, ending: TurnOutcome) {
        tracing::info!(
            turn = self.turn.0,
            of = %self.session.origin,
            ?ending,
            ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            steps = self.steps_made(),
            tokens_in = self.spent.input,
            tokens_cached = self.spent.cached,
            tokens_out = self.spent.output,
            "A turn has ended"
        );
    }

    /// Waits until no draft is being sent, and blocks further ones. None if a draft takes too long.
    pub(super) async fn quiet(&self) -> Option<OwnedMutexGuard<()>> {
        timeout(QUIET_WAIT_MAX, Arc::clone(&self.handles.quiet).lock_owned()).await.ok()
    }

    /// As [`Self::quiet`], at the end of the turn. A draft that takes too long is deleted when it arrives.
    pub(super) async fn quiet_at_end(&self) -> Option<OwnedMutexGuard<()>> {
        if let Some(quiet) = self.quiet().await {
            return Some(quiet);
        }
        self.handles.draft.send_modify(|draft| draft.left = true);
        // The draft may have arrived just before the flag was set.
        Arc::clone(&self.handles.quiet).try_lock_owned().ok()
    }

    /// Returns the end of a failed turn with a message.
    pub(super) fn end_with(&self, message: String) -> TurnEnd {
        TurnEnd {
            ending: TurnOutcome::Failed,
            outcome: InboundOutcome::Refused,
            words: Some(message),
            files: Vec::new(),
            origin: self.session.origin.clone(),
            reply_to: self.asker.reply_to.clone(),
            over_draft: false,
            // Only the results of background tasks are passed on.
            tainted: self.part.background.is_some()
                && taint::of_one(&self.session, self.asker.role).is_some(),
            zone: self.turns.services.zone,
            is_quiet: self.part.keeps_quiet && self.turns.heartbeat.is_quiet(),
        }
    }

    pub(super) fn emit(&self, what: impl FnOnce() -> EventKind) {
        self.turns.services.events.emit(|| Event {
            session: Some(self.session.id),
            turn: Some(self.turn),
            origin: Some(self.session.origin.clone()),
            is_others_private: self.session.chat_kind == ChatKind::Private
                && self.asker.role != Role::Owner,
            what: what(),
        });
    }
}
