//! Compaction beside the conversation: the loop compacts a session that has become long, or whose person
//! requests it, while messages are answered as usual. The loop applies the result while no turn has the
//! session.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::claim::Claim;
use crate::agent::Agent;
use crate::agent::command::{self, Command};
use crate::agent::running::{CompactionRequest, CompactionResult, Running};
use crate::agent::start_turn::STEER_MAX;
use crate::bus::journal::{RowId, WaitingMessage};
use crate::conversation::ledger::{CallCause, Payer};
use crate::conversation::{shares, tokens};
use crate::people::Role;
use crate::provider::{ProviderError, Usage};
use crate::replies;
use crate::services::{load, role_on};
use crate::store::StoreError;
use crate::turn::commits::{self, CompactionCommit};
use crate::turn::compaction::separation;
use crate::turn::compaction::{self, CompactionJob, KeptWhole, WHOLE_TURNS_MIN};
use crate::turn::draft::Draft;
use crate::turn::notes;
use crate::turn::services::TurnServices;
use crate::turn::spending::{Granted, Planned, payer_on};
use crate::types::commands::CommandId;
use crate::types::event::{Event, EventKind};
use crate::types::message::{MessageAuthor, Sender};
use crate::types::origin::Origin;
use crate::types::session::Session;

/// Maximum number of parallel compactions. Others begin when their next turn ends.
const COMPACTIONS_MAX: usize = 2;

/// Growth of a conversation after a failed compaction until the next attempt, in percent of its context
/// window.
const AGAIN_PERCENT: u64 = 5;

impl Agent {
    /// Keeps an idle session. If it has become long, it is compacted in the background.
    pub(super) fn keep_idle(&mut self, mut session: Session, running: Running) {
        // The session of a background task is closed, and its next one begins empty.
        if session.origin.task().is_some() {
            return;
        }
        if let Some(request) = running.compactions {
            self.begin_compaction(&session, running.sender, request);
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
    fn take_notes(&mut self, session: Session, sender: Sender, request: CompactionRequest) {
        let (steer, steered) = mpsc::channel(STEER_MAX);
        let (stop, origin) = (CancellationToken::new(), session.origin.clone());
        let turns = Arc::clone(&self.turns);
        let task = notes::take(turns, session, sender.clone(), steered, stop.clone());
        let id = self.turn_tasks.spawn(task).id();
        let (rows, given) = (Vec::new(), RowId(0));
        // It takes no person's slot, because it is cancelled as soon as somebody sends a message.
        let claim = Claim { person: (origin.channel().clone(), sender.id.clone()), entitled: true };
        let compactions = Some(request);
        // Saving notes has no visible draft.
        let shown = watch::channel(Draft::default()).1;
        let author = MessageAuthor::Person(sender.id.clone());
        let running =
            Running { steer, stop, sender, author, claim, rows, given, shown, compactions };
        self.occupy(id, origin, running);
    }

    fn begin_compaction(&mut self, session: &Session, sender: Sender, request: CompactionRequest) {
        let whole = match request.control {
            Some(_) => KeptWhole::least(WHOLE_TURNS_MIN),
            None => {
                KeptWhole::usual(session, self.turns.models.for_session(session).context_window())
            }
        };
        let Some(usual_job) = CompactionJob::of(session, whole, request.focus.clone()) else {
            return;
        };
        let summariser = Arc::clone(&self.turns.models.summariser);
        let context_window = self.turns.models.for_session(session).context_window();
        let summary_max = compaction::summary_tokens_max(session, context_window);
        let origin = session.origin.clone();
        let (turns, used) = (usual_job.turns.len(), session.estimate.used);
        tracing::info!(%origin, turns, used, context_window, "Compacting a conversation");
        self.compacting.insert(origin.clone(), None);
        let (turns, session) = (Arc::clone(&self.turns), session.clone());
        self.compactions.spawn(async move {
            let mut usage = Usage::default();
            let name = summariser.name();
            let chosen = separation::choose(&turns, &sender, &session, usual_job.clone()).await;
            let (job, apart) = chosen.unwrap_or_else(|error| {
                tracing::warn!(%origin, %error, "Cannot tell trusted parts from untrusted ones");
                (usual_job, None)
            });
            let output_max = if apart.is_some() { 2 * summary_max } else { summary_max };
            let reserving = reserve(&turns, &origin, &sender, &job, output_max);
            let (payer, granted) = match Box::pin(reserving).await {
                Ok(reserved) => reserved,
                Err((payer, error)) => {
                    let spent = turns.spending.charge_for(payer, &Granted::default(), name, usage);
                    let summaries = Err(error);
                    return CompactionResult { origin, job, request, summaries, spent };
                }
            };
            let summarize = async {
                match apart {
                    Some(apart) => {
                        separation::summarize_separately(
                            &*summariser,
                            &job,
                            apart,
                            summary_max,
                            &mut usage,
                        )
                        .await
                    }
                    None => compaction::run(&*summariser, &job, summary_max, &mut usage)
                        .await
                        .map(|summary| job.one_summary(Some(summary))),
                }
            };
            let on_panic = |_| Err(ProviderError::Refused("the model broke".to_owned()));
            let summarize = Box::pin(AssertUnwindSafe(summarize).catch_unwind());
            let summaries = summarize.await.unwrap_or_else(on_panic);
            let spent = turns.spending.charge_for(payer, &granted, name, usage);
            CompactionResult { origin, job, request, summaries, spent }
        });
    }

    /// Handles the end of a compaction. While a turn has the session, the result waits for the end of the
    /// turn.
    pub(super) async fn finish_compaction(&mut self, result: Result<CompactionResult, JoinError>) {
        match result {
            Ok(result) if self.running.contains_key(&result.origin) => {
                self.compacting.insert(result.origin.clone(), Some(result));
            }
            Ok(result) => self.take_over(result).await,
            Err(error) => tracing::error!(%error, "A compaction was interrupted"),
        }
    }

    /// Applies a compaction that ended while a turn had the session.
    pub(super) async fn apply_finished_compaction(&mut self, origin: &Origin) {
        let is_done = self.compacting.get(origin).is_some_and(Option::is_some);
        if is_done && let Some(Some(result)) = self.compacting.remove(origin) {
            self.take_over(result).await;
        }
    }

    async fn take_over(&mut self, result: CompactionResult) {
        self.compacting.remove(&result.origin);
        let CompactionResult { origin, job, request, summaries, spent } = result;
        let store = &self.services.bus.store;
        let Some(last) = job.last() else { return };
        let committed = match &summaries {
            Ok(summaries) => {
                let commit = CompactionCommit::new(&job, summaries.clone(), None, (last, spent));
                let shown = summaries.shown.as_deref().unwrap_or_default();
                let reply = replies::compacted(job.turns.len(), shown.split_whitespace().count());
                commits::commit_compaction(store, commit, request.control, reply).await
            }
            Err(error) => {
                tracing::warn!(%origin, %error, "The model gave no summary");
                let reply = replies::not_compacted(error);
                commits::commit_failed_compaction(store, (last, spent), request.control, reply)
                    .await
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
                    // The stored session includes the messages that came while the summaries were made.
                    if summaries.whole.is_none() {
                        job.apply(&mut session, summaries);
                        self.idle.keep(session);
                    }
                }
            }
            (Ok(_), _) => {}
            (Err(error), _) => tracing::error!(%origin, %error, "A compaction failed"),
        }
        self.services.bus.outbox.notify();
    }

    /// Returns true if a command must wait until a turn or a compaction there has ended.
    pub(super) fn must_wait(&self, control: &WaitingMessage) -> bool {
        let at = &control.origin;
        let is_busy = self.running.contains_key(at) || self.compacting.contains_key(at);
        (is_busy || self.work_queue.cut_off(at).is_some())
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
            return commits::reply(store, &control, replies::NOT_YOURS_TO_COMPACT.to_owned()).await;
        }
        // The stored session may be newer. Only the estimate of its size is in memory alone.
        let estimate = self.idle.take(&origin).map(|session| session.estimate);
        let mut session = load(&self.services, &origin).await?;
        if let (Some(session), Some(estimate)) = (&mut session, estimate) {
            session.estimate = estimate;
            session.estimate.recount();
        }
        let is_in_turn = |it: &Session| it.turns.last().is_some_and(|turn| turn.ending.is_none());
        if session.as_ref().is_some_and(is_in_turn) {
            return commits::reply(store, &control, replies::COMPACT_LATER.to_owned()).await;
        }
        let kept = KeptWhole::least(WHOLE_TURNS_MIN);
        let Some(session) = session.filter(|it| CompactionJob::of(it, kept, None).is_some()) else {
            let reply = replies::nothing_to_compact(WHOLE_TURNS_MIN);
            return commits::reply(store, &control, reply).await;
        };
        self.take_notes(session, sender, CompactionRequest { control: Some(control), focus });
        Ok(())
    }
}

/// Reserves tokens for a summary in the background, on the account of the person who spoke last. The error explains a
/// refusal.
async fn reserve(
    turns: &TurnServices,
    origin: &Origin,
    sender: &Sender,
    job: &CompactionJob,
    output_max: u64,
) -> Result<(Payer, Granted), (Payer, ProviderError)> {
    let unknown_payer = Payer {
        person: None,
        role: Role::Guest,
        cause: CallCause::Compaction,
        job: None,
        persona: None,
    };
    let store_refusal = |error: StoreError| ProviderError::Refused(error.to_string());
    let payer = payer_on(&turns.services, origin.channel(), sender, CallCause::Compaction);
    let payer = payer.await.map_err(|error| (unknown_payer, store_refusal(error)))?;
    let planned = Planned {
        payer,
        provider: turns.models.summariser.name(),
        turn: job.last(),
        input: job.frees(),
        output: Some(output_max),
    };
    match turns.spending.reserve(&turns.services.bus, planned).await {
        Ok(Ok(granted)) => Ok((payer, granted)),
        Ok(Err(refused)) => Err((payer, refused)),
        Err(error) => Err((payer, store_refusal(error))),
    }
}
