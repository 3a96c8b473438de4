//! Compaction beside the conversation: the loop compacts a session that has become long, or whose person
//! requests it, while messages are answered as usual. The loop applies the result while no turn has the
//! session.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::fairness::Claim;
use crate::agent::Agent;
use crate::agent::command::{self, Command};
use crate::agent::running::{CompactionRequest, CompactionResult, Running};
use crate::agent::turn_task::STEER_MAX;
use crate::bus::journal::{RowId, WaitingMessage};
use crate::conversation::ledger::{CallCause, Payer};
use crate::conversation::{shares, tokens};
use crate::people::Role;
use crate::provider::{ProviderError, Usage};
use crate::replies;
use crate::services::{load, role_on};
use crate::store::StoreError;
use crate::turn::commits::{self, CompactionCommit};
use crate::turn::compaction::apart;
use crate::turn::compaction::{self, CompactionJob, KeptWhole, WHOLE_TURNS_MIN};
use crate::turn::draft::Draft;
use crate::turn::notes;
use crate::turn::services::TurnServices;
use crate::turn::spending::{Granted, Planned, payer_on};
use crate::types::commands::CommandId;
use crate::types::event::{Event, EventKind};
use crate::types::message::{Sender, Voice};
use crate::types::origin::Origin;
use crate::types::session::Session;

/// Maximum number of parallel compactions. Others begin when their next turn ends.
const COMPACTIONS_MAX: usize = 2;

/// Growth of a conversation after a failed compaction until the next attempt, in percent of its context
/// window.
const AGAIN_PERCENT: u64 = 5;

impl Agent {
    /// Keeps an idle session. If it has become long, it is compacted in the background.
    pub(super) fn rest(&mut self, mut session: Session, running: Running) {
        // The session of a background task is closed, and its next one begins empty.
        if session.origin.task().is_some() {
            return;
        }
        if let Some(wish) = running.compactions {
            self.begin_compaction(&session, running.sender, wish);
        } else if self.is_long(&session) {
            session.estimate.tried = session.estimate.used;
            return self.take_notes(session, running.sender, CompactionRequest::default());
        }
        self.idle.keep(session);
    }

    fn is_long(&self, session: &Session) -> bool {
        let estimate = &session.estimate;
        let context_window = self.turns.models.for_session(session).context_window();
        let context_window = estimate.context_window(context_window);
        estimate.used > tokens::percent(context_window, tokens::COMPACT_AT)
            && estimate.used > estimate.tried + tokens::percent(context_window, AGAIN_PERCENT)
            && self.compactions.len() + self.count_noting() < COMPACTIONS_MAX
            && !self.compacting.contains_key(&session.origin)
            && CompactionJob::of(session, KeptWhole::usual(session, context_window), None)
                .is_some_and(|job| {
                    estimate.counted(job.frees())
                        >= tokens::percent(context_window, shares::FREES_PERCENT)
                })
    }

    fn count_noting(&self) -> usize {
        self.running.values().filter(|running| running.compactions.is_some()).count()
    }

    /// Saves lasting notes first. The session is compacted after that.
    fn take_notes(&mut self, session: Session, sender: Sender, wish: CompactionRequest) {
        let (steer, steered) = mpsc::channel(STEER_MAX);
        let (stop, origin) = (CancellationToken::new(), session.origin.clone());
        let turns = Arc::clone(&self.turns);
        let task = notes::take(turns, session, sender.clone(), steered, stop.clone());
        let id = self.turn_tasks.spawn(task).id();
        let (rows, given) = (Vec::new(), RowId(0));
        // It uses nobody's slot: it is cancelled as soon as somebody sends a message.
        let claim = Claim { person: (origin.channel().clone(), sender.id.clone()), entitled: true };
        let compactions = Some(wish);
        // Nothing of it is shown.
        let shown = watch::channel(Draft::default()).1;
        let voice = Voice::Person(sender.id.clone());
        let running =
            Running { steer, stop, sender, voice, claim, rows, given, shown, compactions };
        self.occupy(id, origin, running);
    }

    fn begin_compaction(&mut self, session: &Session, sender: Sender, wish: CompactionRequest) {
        let whole = match wish.control {
            Some(_) => KeptWhole::least(WHOLE_TURNS_MIN),
            None => {
                KeptWhole::usual(session, self.turns.models.for_session(session).context_window())
            }
        };
        let Some(kept) = CompactionJob::of(session, whole, wish.focus.clone()) else { return };
        let summariser = Arc::clone(&self.turns.models.summariser);
        let context_window = self.turns.models.for_session(session).context_window();
        let summary_max = compaction::summary_tokens_max(session, context_window);
        let origin = session.origin.clone();
        let (turns, used) = (kept.turns.len(), session.estimate.used);
        tracing::info!(%origin, turns, used, context_window, "Compacting a conversation");
        self.compacting.insert(origin.clone(), None);
        let (turns, session) = (Arc::clone(&self.turns), session.clone());
        self.compactions.spawn(async move {
            let mut usage = Usage::default();
            let name = summariser.name();
            let chosen = apart::choose(&turns, &sender, &session, kept.clone()).await;
            let (job, apart) = chosen.unwrap_or_else(|error| {
                tracing::warn!(%origin, %error, "Cannot tell trusted parts from untrusted ones");
                (kept, None)
            });
            let output = if apart.is_some() { 2 * summary_max } else { summary_max };
            let reserving = reserve(&turns, &origin, &sender, &job, output);
            let (payer, granted) = match Box::pin(reserving).await {
                Ok(reserved) => reserved,
                Err((payer, error)) => {
                    let spent = turns.spending.charge_for(payer, &Granted::default(), name, usage);
                    let summaries = Err(error);
                    return CompactionResult { origin, job, wish, summaries, spent };
                }
            };
            let run = async {
                match apart {
                    Some(apart) => {
                        apart::run_apart(&*summariser, &job, apart, summary_max, &mut usage).await
                    }
                    None => compaction::run(&*summariser, &job, summary_max, &mut usage)
                        .await
                        .map(|summary| job.one_summary(Some(summary))),
                }
            };
            let broke = |_| Err(ProviderError::Refused("the model broke".to_owned()));
            let run = Box::pin(AssertUnwindSafe(run).catch_unwind());
            let summaries = run.await.unwrap_or_else(broke);
            let spent = turns.spending.charge_for(payer, &granted, name, usage);
            CompactionResult { origin, job, wish, summaries, spent }
        });
    }

    /// Handles the end of a compaction. While a turn has the session, the result waits for the turn's
    /// end.
    pub(super) async fn compacted(&mut self, done: Result<CompactionResult, JoinError>) {
        match done {
            Ok(done) if self.running.contains_key(&done.origin) => {
                self.compacting.insert(done.origin.clone(), Some(done));
            }
            Ok(done) => self.take_over(done).await,
            Err(error) => tracing::error!(%error, "A compaction was interrupted"),
        }
    }

    /// Applies a compaction that ended while a turn had the session.
    pub(super) async fn take_over_compacted(&mut self, origin: &Origin) {
        let is_done = self.compacting.get(origin).is_some_and(Option::is_some);
        if is_done && let Some(Some(done)) = self.compacting.remove(origin) {
            self.take_over(done).await;
        }
    }

    async fn take_over(&mut self, done: CompactionResult) {
        self.compacting.remove(&done.origin);
        let CompactionResult { origin, job, wish, summaries, spent } = done;
        let store = &self.services.bus.store;
        let Some(last) = job.last() else { return };
        let committed = match &summaries {
            Ok(summaries) => {
                let compacted = CompactionCommit::new(&job, summaries.clone(), None, (last, spent));
                let shown = summaries.shown.as_deref().unwrap_or_default();
                let words = replies::compacted(job.turns.len(), shown.split_whitespace().count());
                commits::compacted(store, compacted, wish.control, words).await
            }
            Err(error) => {
                tracing::warn!(%origin, %error, "The model gave no summary");
                let words = replies::not_compacted(error);
                commits::not_compacted(store, (last, spent), wish.control, words).await
            }
        };
        match (committed, summaries) {
            (Ok(true), Ok(summaries)) => {
                self.services.events.emit(|| Event {
                    session: Some(job.session),
                    turn: None,
                    origin: Some(origin.clone()),
                    is_others_private: false,
                    what: EventKind::Compacted { turns: job.turns.len() },
                });
                if let Some(mut session) = self.idle.take(&origin)
                    && session.id == job.session
                {
                    // The store knows what was said while the summaries were made.
                    if summaries.whole.is_none() {
                        job.apply(&mut session, summaries);
                        self.idle.keep(session);
                    }
                }
            }
            (Ok(_), _) => {}
            (Err(error), _) => tracing::error!(%origin, %error, "A compaction failed"),
        }
        self.services.bus.outbox.up();
    }

    /// Returns true if a command must wait until a turn or a compaction there has ended.
    pub(super) fn must_wait(&self, control: &WaitingMessage) -> bool {
        let at = &control.origin;
        let is_busy = self.running.contains_key(at) || self.compacting.contains_key(at);
        (is_busy || self.backlog.cut_off(at).is_some())
            && matches!(command::parse(&control.inbound.body.text), Command::Compact(_))
    }

    /// Carries out `/compact`. Its row is done once it is answered, so that a restart repeats it.
    pub(super) async fn compact(
        &mut self,
        control: WaitingMessage,
        focus: Option<String>,
    ) -> Result<(), StoreError> {
        let (origin, sender) = (control.origin.clone(), control.sender().clone());
        let role = role_on(&self.services, origin.channel(), &sender).await?;
        let store = &self.services.bus.store;
        if !CommandId::Compact.spec().allows(role, control.inbound.chat_kind) {
            return commits::handled(store, &control, replies::NOT_YOURS_TO_COMPACT.to_owned())
                .await;
        }
        // The store knows what was noted in it since; only what was learned of its size is not there.
        let estimate = self.idle.take(&origin).map(|session| session.estimate);
        let mut session = load(&self.services, &origin).await?;
        if let (Some(session), Some(estimate)) = (&mut session, estimate) {
            session.estimate = estimate;
            session.estimate.recount();
        }
        let is_amid = |it: &Session| it.turns.last().is_some_and(|turn| turn.ending.is_none());
        if session.as_ref().is_some_and(is_amid) {
            return commits::handled(store, &control, replies::COMPACT_LATER.to_owned()).await;
        }
        let least = KeptWhole::least(WHOLE_TURNS_MIN);
        let Some(session) = session.filter(|it| CompactionJob::of(it, least, None).is_some())
        else {
            let words = replies::nothing_to_compact(WHOLE_TURNS_MIN);
            return commits::handled(store, &control, words).await;
        };
        self.take_notes(session, sender, CompactionRequest { control: Some(control), focus });
        Ok(())
    }
}

/// Reserves a summary that is made beside the conversation, on account of who spoke last. The error has the words of a
/// refusal.
async fn reserve(
    turns: &TurnServices,
    origin: &Origin,
    sender: &Sender,
    job: &CompactionJob,
    output: u64,
) -> Result<(Payer, Granted), (Payer, ProviderError)> {
    let nobody = Payer {
        person: None,
        role: Role::Guest,
        cause: CallCause::Compaction,
        job: None,
        persona: None,
    };
    let broke = |error: StoreError| ProviderError::Refused(error.to_string());
    let payer = payer_on(&turns.services, origin.channel(), sender, CallCause::Compaction);
    let payer = payer.await.map_err(|error| (nobody, broke(error)))?;
    let planned = Planned {
        payer,
        provider: turns.models.summariser.name(),
        turn: job.last(),
        input: job.frees(),
        output: Some(output),
    };
    match turns.spending.reserve(&turns.services.bus, planned).await {
        Ok(Ok(granted)) => Ok((payer, granted)),
        Ok(Err(refused)) => Err((payer, refused)),
        Err(error) => Err((payer, broke(error))),
    }
}
