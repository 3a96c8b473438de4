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
use crate::agent::command::{self, Command};
use crate::agent::{Agent, Running, STEER_MAX};
use crate::bus::journal::{RowId, Waiting};
use crate::conversation::{shares, tokens};
use crate::provider::{ProviderError, Usage};
use crate::replies;
use crate::services::{load, role_on};
use crate::store::StoreError;
use crate::turn::commits::{self, Folded};
use crate::turn::compaction::{self, Job, WHOLE_TURNS_MIN, Whole};
use crate::turn::draft::Draft;
use crate::turn::notes;
use crate::types::commands::CommandId;
use crate::types::event::{Event, Happening};
use crate::types::message::Sender;
use crate::types::origin::Origin;
use crate::types::session::Session;

/// Maximum number of parallel compactions. Others begin when their next turn ends.
const FOLDS_MAX: usize = 2;

/// Growth of a conversation after a failed compaction until the next attempt, in percent of its context
/// window.
const AGAIN_PERCENT: u64 = 5;

/// A request for a compaction: automatic, because the conversation has become long, or by a command.
#[derive(Clone, Default)]
pub(super) struct Wish {
    control: Option<Waiting>,
    focus: Option<String>,
}

/// The result of a compaction.
pub(super) struct Done {
    origin: Origin,
    job: Job,
    wish: Wish,
    summary: Result<String, ProviderError>,
    spent: Usage,
}

impl Agent {
    /// Keeps an idle session. If it has become long, it is compacted in the background.
    pub(super) fn rest(&mut self, mut session: Session, running: Running) {
        // The session of a background task is closed, and its next one begins empty.
        if session.origin.task().is_some() {
            return;
        }
        if let Some(wish) = running.folds {
            self.fold(&session, wish);
        } else if self.is_long(&session) {
            session.gauge.tried = session.gauge.used;
            return self.take_notes(session, running.sender, Wish::default());
        }
        self.idle.keep(session);
    }

    fn is_long(&self, session: &Session) -> bool {
        let gauge = &session.gauge;
        let room = self.turns.models.for_settings(&session.settings).room();
        let room = gauge.room(room);
        gauge.used > tokens::percent(room, tokens::FOLD_AT)
            && gauge.used > gauge.tried + tokens::percent(room, AGAIN_PERCENT)
            && self.folds.len() + self.count_noting() < FOLDS_MAX
            && !self.folding.contains_key(&session.origin)
            && Job::of(session, Whole::usual(session, room), None).is_some_and(|job| {
                gauge.counted(job.frees()) >= tokens::percent(room, shares::FREES_PERCENT)
            })
    }

    fn count_noting(&self) -> usize {
        self.running.values().filter(|running| running.folds.is_some()).count()
    }

    /// Saves lasting notes first. The session is compacted after that.
    fn take_notes(&mut self, session: Session, sender: Sender, wish: Wish) {
        let (steer, steered) = mpsc::channel(STEER_MAX);
        let (stop, origin) = (CancellationToken::new(), session.origin.clone());
        let turns = Arc::clone(&self.turns);
        let task = notes::take(turns, session, sender.clone(), steered, stop.clone());
        let id = self.turn_tasks.spawn(task).id();
        let (rows, given) = (Vec::new(), RowId(0));
        // It uses nobody's slot: it is cancelled as soon as somebody sends a message.
        let claim = Claim { person: (origin.channel().clone(), sender.id.clone()), entitled: true };
        let folds = Some(wish);
        // Nothing of it is shown.
        let shown = watch::channel(Draft::default()).1;
        let running = Running { steer, stop, sender, claim, rows, given, shown, folds };
        self.occupy(id, origin, running);
    }

    fn fold(&mut self, session: &Session, wish: Wish) {
        let whole = match wish.control {
            Some(_) => Whole::least(WHOLE_TURNS_MIN),
            None => Whole::usual(session, self.turns.models.for_settings(&session.settings).room()),
        };
        let Some(job) = Job::of(session, whole, wish.focus.clone()) else { return };
        let summariser = Arc::clone(&self.turns.models.summariser);
        let room = self.turns.models.for_settings(&session.settings).room();
        let summary_max = compaction::summary_tokens_max(session, room);
        let origin = session.origin.clone();
        let (turns, used) = (job.turns.len(), session.gauge.used);
        tracing::info!(%origin, turns, used, room, "Compacting a conversation");
        self.folding.insert(origin.clone(), None);
        self.folds.spawn(async move {
            let mut spent = Usage::default();
            let run =
                AssertUnwindSafe(compaction::run(&*summariser, &job, summary_max, &mut spent))
                    .catch_unwind();
            let broke = |_| Err(ProviderError::Refused("the model broke".to_owned()));
            let summary = Box::pin(run).await.unwrap_or_else(broke);
            Done { origin, job, wish, summary, spent }
        });
    }

    /// Handles the end of a compaction. While a turn has the session, the result waits for the turn's
    /// end.
    pub(super) async fn folded(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok(done) if self.running.contains_key(&done.origin) => {
                self.folding.insert(done.origin.clone(), Some(done));
            }
            Ok(done) => self.take_over(done).await,
            Err(error) => tracing::error!(%error, "A compaction was interrupted"),
        }
    }

    /// Applies a compaction that ended while a turn had the session.
    pub(super) async fn take_over_folded(&mut self, origin: &Origin) {
        let is_done = self.folding.get(origin).is_some_and(Option::is_some);
        if is_done && let Some(Some(done)) = self.folding.remove(origin) {
            self.take_over(done).await;
        }
    }

    async fn take_over(&mut self, done: Done) {
        self.folding.remove(&done.origin);
        let Done { origin, job, wish, summary, spent } = done;
        let store = &self.services.bus.store;
        let provider = self.turns.models.summariser.name().to_owned();
        let Some(last) = job.last() else { return };
        let committed = match &summary {
            Ok(summary) => {
                let spent = (last, provider, spent);
                let folded = Folded::new(&job, Some(summary.clone()), None, spent);
                let words = replies::compacted(job.turns.len(), summary.split_whitespace().count());
                commits::folded(store, folded, wish.control, words).await
            }
            Err(error) => {
                tracing::warn!(%origin, %error, "The model gave no summary");
                let words = replies::not_compacted(error);
                commits::not_folded(store, (last, provider, spent), wish.control, words).await
            }
        };
        match (committed, summary) {
            (Ok(true), Ok(summary)) => {
                self.services.events.emit(|| Event {
                    session: Some(job.session),
                    turn: None,
                    origin: Some(origin.clone()),
                    what: Happening::Compacted { turns: job.turns.len() },
                });
                if let Some(mut session) = self.idle.take(&origin)
                    && session.id == job.session
                {
                    job.apply(&mut session, Some(summary));
                    self.idle.keep(session);
                }
            }
            (Ok(_), _) => {}
            (Err(error), _) => tracing::error!(%origin, %error, "A compaction failed"),
        }
        self.services.bus.outbox.up();
    }

    /// Returns true if a command must wait until a turn or a compaction there has ended.
    pub(super) fn must_wait(&self, control: &Waiting) -> bool {
        let at = &control.origin;
        let is_busy = self.running.contains_key(at) || self.folding.contains_key(at);
        (is_busy || self.backlog.cut_off(at).is_some())
            && matches!(command::parse(&control.inbound.body.text), Command::Compact(_))
    }

    /// Carries out `/compact`. Its row is done once it is answered, so that a restart repeats it.
    pub(super) async fn compact(
        &mut self,
        control: Waiting,
        focus: Option<String>,
    ) -> Result<(), StoreError> {
        let (origin, sender) = (control.origin.clone(), control.sender().clone());
        let role = role_on(&self.services, origin.channel(), &sender).await?;
        let store = &self.services.bus.store;
        if !CommandId::Compact.spec().allows(role, control.inbound.place) {
            return commits::obeyed(store, &control, replies::NOT_YOURS_TO_COMPACT.to_owned())
                .await;
        }
        // The store knows what was noted in it since; only what was learned of its size is not there.
        let gauge = self.idle.take(&origin).map(|session| session.gauge);
        let mut session = load(&self.services, &origin).await?;
        if let (Some(session), Some(gauge)) = (&mut session, gauge) {
            session.gauge = gauge;
            session.gauge.recount();
        }
        let is_amid = |it: &Session| it.turns.last().is_some_and(|turn| turn.ending.is_none());
        if session.as_ref().is_some_and(is_amid) {
            return commits::obeyed(store, &control, replies::COMPACT_LATER.to_owned()).await;
        }
        let least = Whole::least(WHOLE_TURNS_MIN);
        let Some(session) = session.filter(|it| Job::of(it, least, None).is_some()) else {
            let words = replies::nothing_to_compact(WHOLE_TURNS_MIN);
            return commits::obeyed(store, &control, words).await;
        };
        self.take_notes(session, sender, Wish { control: Some(control), focus });
        Ok(())
    }
}
