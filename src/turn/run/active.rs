//! A turn that runs: its state, and what all parts of its work need.

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

/// Maximum time that an answer waits for a draft that is on its way, so that it can replace it: calls over a slow link
/// are answered by then. A draft that takes longer is removed when it has arrived.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(5);

/// A running turn's ends of the channels to the loop and to its progress.
pub(crate) struct TurnHandles {
    /// Messages of the same person, in order; what is not read here stays in the journal.
    pub(crate) steer: mpsc::Receiver<Vec<WaitingMessage>>,
    pub(crate) draft: watch::Sender<Draft>,
    /// Signs to be shown at messages; what does not fit is not shown.
    pub(crate) signs: mpsc::Sender<Hint>,
    /// Held while a draft is being shown, and while the turn ends: a draft that is under way when
    /// the answer is committed would stay beside it. A mutex because both wait for each other.
    pub(crate) quiet: Arc<Mutex<()>>,
}

/// A turn that runs.
pub(super) struct ActiveTurn<'a> {
    pub(super) turns: &'a TurnServices,
    pub(super) session: Session,
    pub(super) turn: TurnId,
    pub(super) part: TurnPart,
    pub(super) asker: Requester,
    /// The provider that the conversation has chosen at the running step.
    pub(super) provider: Arc<dyn Provider>,
    /// Work in the background makes way at that provider.
    pub(super) in_use: ProviderUse,
    /// The turn has waited for the model, which has not answered yet.
    pub(super) wait: Option<ModelWait>,
    /// The number of attempts at a provider that cannot be reached.
    pub(super) attempts: Attempts,
    /// The model's thinking in this turn, for people to read.
    pub(super) thought: String,
    pub(super) handles: TurnHandles,
    /// The calls, with their arguments, that people were told of because nobody could be asked about them.
    pub(super) reported: Vec<(String, String)>,
    /// Steered messages that the model has not been shown yet.
    pub(super) pending: Vec<WaitingMessage>,
    /// The shown texts of those that begin with a skill.
    pub(super) invoked: InvokedSkills,
    pub(super) system: Vec<String>,
    /// The numbers of the facts in it.
    pub(super) facts: Vec<i64>,
    pub(super) tools: Vec<ToolSchema>,
    /// About how many tokens the tools have.
    pub(super) tools_tokens: u64,
    /// The same of the system prompt and the summary.
    pub(super) fixed_tokens: u64,
    pub(super) begun: Instant,
    pub(super) payer: Payer,
    /// The reservation of the running call.
    pub(super) granted: Granted,
    /// By the completions since then.
    pub(super) spent: Usage,
    /// Room of the model for which these were made, in tokens.
    pub(super) fitted: u64,
}

/// The person who asked, and the address of the answer.
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
    pub(super) fn current(&mut self) -> &mut Turn {
        self.session.turns.last_mut().expect("the turn that runs is the last one")
    }

    /// The steps of the turn that runs.
    pub(super) fn steps(&self) -> &[Step] {
        self.session.turns.last().map(|turn| turn.steps.as_slice()).unwrap_or_default()
    }

    pub(super) fn steps_made(&self) -> usize {
        let made = |step: &&Step| !step.text.is_empty() || !step.calls.is_empty();
        self.steps().iter().filter(made).count()
    }

    /// Something stands below the draft now, and the answer belongs below that.
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

    /// Takes a draft away that no answer takes the place of.
    pub(super) fn erase(&self, draft: Option<MessageId>) {
        if let (Some(at), Some(draft)) = (self.session.origin.chat(), draft) {
            progress::erase(self.turns, at, draft);
        }
    }

    /// Ends well; `last` is the last step, if it is not in the store yet.
    pub(super) async fn end(
        mut self,
        mut end: TurnEnd,
        last: Option<ModelStep>,
    ) -> Result<Option<Session>, TurnError> {
        let (ending, silent) = (end.ending, end.words.is_none());
        let quiet = self.quiet_at_end().await;
        end.over_draft = quiet.is_some();
        let holds = end.is_quiet;
        let left = commits::answer(&self.turns.services.bus.store, self.turn, last, end).await?;
        if holds {
            // It wakes at the end of the quiet hours, then.
            self.turns.heartbeat.switched.up();
        }
        self.erase(left);
        self.emit(|| EventKind::TurnEnd { silent });
        self.log_end(ending);
        self.current().ending = Some(ending);
        self.session.estimate.used = self.used();
        self.session.estimate.fixed = self.fixed_tokens + self.tools_tokens;
        Ok(Some(self.session))
    }

    /// Logs the end of the turn for the operator. For a resumed turn, the figures since then.
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

    /// No draft is begun any more, and none is under way; none if one has been for too long to wait for it.
    pub(super) async fn quiet(&self) -> Option<OwnedMutexGuard<()>> {
        timeout(QUIET_WAIT_MAX, Arc::clone(&self.handles.quiet).lock_owned()).await.ok()
    }

    /// As [`Self::quiet`], at the turn's end: a draft that was not waited for is taken away when it arrives.
    pub(super) async fn quiet_at_end(&self) -> Option<OwnedMutexGuard<()>> {
        if let Some(quiet) = self.quiet().await {
            return Some(quiet);
        }
        self.handles.draft.send_modify(|draft| draft.left = true);
        // It may have arrived just before it was left.
        Arc::clone(&self.handles.quiet).try_lock_owned().ok()
    }

    pub(super) fn end_with(&self, words: String) -> TurnEnd {
        TurnEnd {
            ending: TurnOutcome::Failed,
            outcome: InboundOutcome::Refused,
            words: Some(words),
            files: Vec::new(),
            origin: self.session.origin.clone(),
            reply_to: self.asker.reply_to.clone(),
            over_draft: false,
            // Nobody else hands on what it says.
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
