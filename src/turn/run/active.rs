//! A running turn: its state, and the methods that all parts of its work need.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::Instant;

use crate::bus::access::AccessWatch;
use crate::bus::journal::WaitingMessage;
use crate::conversation::ledger::Payer;
use crate::conversation::model_waits::ModelWait;
use crate::people::Role;
use crate::people::persons::PersonAccount;
use crate::provider::in_use::ProviderUse;
use crate::provider::{Attempts, Provider, Usage};
use crate::turn::commits;
use crate::turn::draft::Draft;
use crate::turn::error::TurnError;
use crate::turn::instructions::{PromptBase, Speaker};
use crate::turn::progress;
use crate::turn::prompt::InvokedSkills;
use crate::turn::run::limits::TurnLimits;
use crate::turn::services::TurnServices;
use crate::turn::spending::Granted;
use crate::types::event::{Event, EventKind};
use crate::types::message::{ChatKind, Hint, MessageId, Sender};
use crate::types::origin::Origin;
use crate::types::session::{Session, Step, Turn, TurnId};
use crate::workspace::Workspace;

/// A running turn's ends of the channels to the loop and to its progress.
pub(crate) struct TurnHandles {
    /// Messages of the same person, in order. Unread ones stay in the journal.
    pub(crate) steer: mpsc::Receiver<Vec<WaitingMessage>>,
    pub(crate) draft: watch::Sender<Draft>,
    /// Reactions to be shown at messages. Those that do not fit are dropped.
    pub(crate) reactions: mpsc::Sender<Hint>,
    /// Held while a draft is being sent, and while the turn ends: a draft that is being sent when
    /// the answer is committed would stay beside it. A mutex because both wait for each other.
    pub(crate) draft_lock: Arc<Mutex<()>>,
}

/// A running turn.
pub(super) struct ActiveTurn<'a> {
    pub(super) turns: &'a TurnServices,
    pub(super) session: Session,
    pub(super) turn: TurnId,
    pub(super) limits: TurnLimits,
    pub(super) requester: Requester,
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
    /// The system prompt and the tools of its requests.
    pub(super) base: PromptBase,
    /// The estimated tokens of the system prompt and the summary.
    pub(super) fixed_tokens: u64,
    pub(super) begun: Instant,
    pub(super) payer: Payer,
    /// The reservation of the running call.
    pub(super) granted: Granted,
    /// The usage of the completions since the turn began or was resumed.
    pub(super) spent: Usage,
    /// True if a step was planned since then. Nobody has been asked about its calls yet.
    pub(super) has_planned: bool,
    /// The workspace as the deferred calls of the turn would leave it, since the turn began or was resumed.
    pub(super) ahead: Workspace,
    /// The tools and arguments of these calls.
    pub(super) deferred_calls: HashSet<(String, String)>,
}

/// The person who asked, and the message to reply to.
pub(super) struct Requester {
    pub(super) sender: Sender,
    pub(super) role: Role,
    pub(super) reply_to: Option<MessageId>,
    /// Tells if the role is to be read again. Made before it was read.
    pub(super) access: AccessWatch,
}

/// Returns a watch of the access of a turn's person. It notices changes from now on.
pub(super) fn watch_access(turns: &TurnServices, origin: &Origin, sender: &Sender) -> AccessWatch {
    let account = PersonAccount { channel: origin.channel().clone(), sender: sender.id.clone() };
    AccessWatch::of(&turns.services.bus, account)
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
        let _draft_lock = self.lock_draft().await;
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

    pub(super) fn emit(&self, what: impl FnOnce() -> EventKind) {
        self.turns.services.events.emit(|| Event {
            session: Some(self.session.id),
            turn: Some(self.turn),
            origin: Some(self.session.origin.clone()),
            is_others_private: self.session.chat_kind == ChatKind::Private
                && self.requester.role != Role::Owner,
            what: what(),
        });
    }
}
