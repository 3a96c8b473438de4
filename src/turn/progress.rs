//! Shows that a turn works: typing, reactions, and drafts within the platform's rate limit. Best effort: a
//! call that hangs or fails does no harm. Once the turn ends, only queued reactions are still shown. A draft
//! that is still being sent then is awaited elsewhere, and deleted.

use std::convert::Infallible;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::bus::outbox;
use crate::channels::supervise::backoff;
use crate::channels::{Channel, ChannelError, Drafts, Sent, markup, text};
use crate::conversation::transcript;
use crate::replies;
use crate::store::Store;
use crate::turn::commits;
use crate::turn::draft::Draft;
use crate::turn::end::NO_REPLY;
use crate::turn::services::TurnServices;
use crate::types::message::{Address, Body, DeliveryId, Hint, MessageId, Outbound};
use crate::types::session::TurnId;

/// Maximum time of a hint.
const HINT_TIME_MAX: Duration = Duration::from_secs(5);

/// Maximum time of a draft. It is longer than the adapters' own deadlines, because a draft without a known outcome
/// cannot be deleted.
const DRAFT_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum number of attempts to remove a draft, over about an hour.
const ERASE_ATTEMPTS_MAX: u32 = 60;

/// Maximum wait for queued reactions when the turn has ended. The next turn of the chat waits meanwhile.
const REACTIONS_WAIT_MAX: Duration = Duration::from_secs(1);

/// The inputs of the display of a running turn.
pub(crate) struct TurnProgress {
    pub(crate) draft: watch::Receiver<Draft>,
    pub(crate) reactions: mpsc::Receiver<Hint>,
}

/// Runs the work of a turn, and shows its progress. Reactions are shown even if the answer is faster. `draft_lock` is
/// held while a draft is being sent. A background task has no address and no display.
pub(crate) async fn show<T>(
    turns: &TurnServices,
    to: Option<&Address>,
    TurnProgress { draft, reactions }: TurnProgress,
    draft_lock: &Arc<Mutex<()>>,
    work: impl Future<Output = T>,
) -> T {
    let place_and_channel = to.and_then(|to| Some((to, turns.services.channels.get(&to.channel)?)));
    let Some((to, adapter)) = place_and_channel else { return work.await };
    let channel = adapter.as_ref();
    let mut reactions = pin!(show_reactions(channel, to, reactions).fuse());
    let drafts = async {
        match channel.limits().drafts {
            Drafts::Hinted { every } => hint_drafts(channel, to, draft, every).await,
            Drafts::Edited { every, every_in_groups } => {
                let mut drafter =
                    Drafter { turns, channel: adapter, to, draft_lock, made: None, anew: 0 };
                drafter.edit_drafts(draft, [every, every_in_groups]).await;
            }
        }
    };
    let progress = async {
        tokio::join!(show_typing(channel, to), reactions.as_mut(), drafts);
        pending::<Infallible>().await
    };
    let result = tokio::select! {
        biased;
        result = work => result,
        never = progress => match never {},
    };
    if !reactions.is_terminated() {
        timeout(REACTIONS_WAIT_MAX, reactions).await.ok();
    }
    result
}

async fn show_reactions(channel: &dyn Channel, to: &Address, mut reactions: mpsc::Receiver<Hint>) {
    while let Some(reaction) = reactions.recv().await {
        hint(channel, to, reaction).await;
    }
}

async fn show_typing(channel: &dyn Channel, to: &Address) {
    let Some(every) = channel.limits().typing_every else { return };
    let mut tick = interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        hint(channel, to, Hint::Typing).await;
    }
}

async fn hint_drafts(
    channel: &dyn Channel,
    to: &Address,
    mut draft: watch::Receiver<Draft>,
    every: Duration,
) {
    while draft.changed().await.is_ok() {
        let text = draft.borrow_and_update().text.clone();
        hint(channel, to, Hint::Draft(text)).await;
        sleep(every).await;
    }
}

/// Deletes a draft that no answer replaces, in the background.
pub(crate) fn erase(turns: &TurnServices, at: &Address, draft: MessageId) {
    if let Some(channel) = turns.services.channels.get(&at.channel) {
        turns.drafts.under_way.spawn(erase_until_gone(Arc::clone(channel), at.clone(), draft));
    }
}

/// Deletes the draft of a stopped turn, which would look as if the work went on.
pub(crate) async fn erase_of(turns: &TurnServices, at: &Address, turn: TurnId) {
    let draft = turns.services.bus.store.read(move |store| transcript::draft(store, turn)).await;
    if let Ok(Some(draft)) = draft {
        erase(turns, at, draft);
    }
}

async fn erase_until_gone(channel: Arc<dyn Channel>, at: Address, draft: MessageId) {
    for attempt in 0..ERASE_ATTEMPTS_MAX {
        let erased = AssertUnwindSafe(channel.hint(&at, Hint::Erase(draft.clone()))).catch_unwind();
        let wait = match timeout(DRAFT_TIME_MAX, erased).await {
            Ok(Ok(Err(ChannelError::Unavailable { after, .. }))) => after.unwrap_or_default(),
            Ok(Ok(Err(ChannelError::Ambiguous(_)))) | Err(_) => Duration::ZERO,
            // The draft is deleted, or cannot be deleted.
            Ok(Ok(_) | Err(_)) => return,
        };
        sleep(wait.max(backoff(attempt))).await;
    }
    tracing::debug!(to = %at, "Cannot remove a draft");
}

async fn hint(channel: &dyn Channel, to: &Address, hint: Hint) {
    let hinted = AssertUnwindSafe(channel.hint(to, hint)).catch_unwind();
    if let Ok(Ok(Err(error))) = timeout(HINT_TIME_MAX, hinted).await {
        tracing::debug!(%to, %error, "Cannot show that the bot is working");
    }
}

/// Keeps one message up to date that shows the text so far.
struct Drafter<'a> {
    turns: &'a TurnServices,
    channel: &'a Arc<dyn Channel>,
    to: &'a Address,
    draft_lock: &'a Arc<Mutex<()>>,
    made: Option<MessageId>,
    /// The value of [`Draft::anew`] for the draft `made`.
    anew: u32,
}

impl Drafter<'_> {
    /// Shows drafts until the outcome of one is unknown: another could stay beside it. The intervals are
    /// those of private chats and of groups.
    async fn edit_drafts(
        &mut self,
        mut draft: watch::Receiver<Draft>,
        [in_private, in_groups]: [Duration; 2],
    ) {
        // A faster answer needs no draft.
        sleep(in_private).await;
        let mut shown = String::new();
        while draft.changed().await.is_ok() {
            // In private, an answer is no reply to a message.
            let every = match draft.borrow().reply_to {
                Some(_) => in_groups,
                None => in_private,
            };
            sleep(self.turns.drafts.rate_limit.place(self.to, every)).await;
            let current = draft.borrow_and_update().clone();
            let (Some(turn), Some(text)) = (current.turn, self.presentable(&current)) else {
                continue;
            };
            // A text longer than one message is shown by its beginning. Pending deliveries go first.
            if text == shown || self.has_pending_deliveries().await {
                continue;
            }
            shown.clone_from(&text);
            match self.edit(turn, &draft, text).await {
                Ok(()) => {}
                Err(ChannelError::Unavailable { after, .. }) => {
                    self.turns.drafts.rate_limit.rest(self.to, after.unwrap_or(every).max(every));
                }
                Err(error) => {
                    tracing::debug!(to = %self.to, %error, "Cannot show more drafts of this answer");
                    return;
                }
            }
        }
    }

    fn presentable(&self, so_far: &Draft) -> Option<String> {
        let text = presentable(so_far, self.channel.as_ref())?;
        Some(self.turns.services.redactor.redact(&text).into_owned())
    }

    async fn has_pending_deliveries(&self) -> bool {
        let to = self.to.clone();
        let pending =
            self.turns.services.bus.store.read(move |store| outbox::is_pending(store, &to)).await;
        pending.unwrap_or(true)
    }

    async fn edit(
        &mut self,
        turn: TurnId,
        draft: &watch::Receiver<Draft>,
        text: String,
    ) -> Result<(), ChannelError> {
        let draft_lock = Arc::clone(self.draft_lock).lock_owned().await;
        let current = draft.borrow().clone();
        if self.anew != current.anew {
            (self.made, self.anew) = (None, current.anew);
        }
        let message = Outbound {
            id: DeliveryId(0),
            chunk_index: 0,
            to: self.to.clone(),
            reply_to: current.reply_to,
            overtakes: false,
            replaces: self.made.clone().or(current.made),
            body: Body::Text(text),
        };
        let (channel, store) = (Arc::clone(self.channel), self.turns.services.bus.store.clone());
        let (draft, anew) = (draft.clone(), current.anew);
        let underway = DraftUnderway { channel, store, turn, draft, anew, message };
        // The task outlives the turn: a dropped draft could still arrive, and stay beside the answer.
        let shown = self.turns.drafts.under_way.spawn(underway.show(draft_lock)).await;
        self.made = shown.unwrap_or_else(|_| Err(unknown_outcome()))?;
        Ok(())
    }
}

/// Returns the error of a draft whose outcome is unknown.
fn unknown_outcome() -> ChannelError {
    ChannelError::Ambiguous("no answer in time, or a panic".to_owned())
}

/// A draft that is being sent to the platform.
struct DraftUnderway {
    channel: Arc<dyn Channel>,
    store: Store,
    turn: TurnId,
    draft: watch::Receiver<Draft>,
    /// The value of [`Draft::anew`] when it began.
    anew: u32,
    message: Outbound,
}

impl DraftUnderway {
    /// Sends the draft, and deletes it if the answer did not wait for it. Returns its id. `draft_lock` is released once
    /// the store says if the answer replaces the draft.
    async fn show(
        self,
        draft_lock: OwnedMutexGuard<()>,
    ) -> Result<Option<MessageId>, ChannelError> {
        let sent = AssertUnwindSafe(self.channel.send(&self.message)).catch_unwind();
        let sent = timeout(DRAFT_TIME_MAX, sent).await;
        let mut shown = match sent {
            Ok(Ok(Ok(Sent { id: Some(id) }))) => Ok(id),
            Ok(Ok(Err(error))) => Err(error),
            _ => Err(unknown_outcome()),
        };
        let before = self.message.replaces.clone();
        let mut on_platform = before.clone();
        if let Ok(id) = &shown
            && before.as_ref() != Some(id)
        {
            on_platform = Some(id.clone());
            let drafted = commits::store_draft(&self.store, self.turn, Some(id.clone()));
            if let Err(error) = drafted.await {
                shown = Err(ChannelError::Ambiguous(error.to_string()));
            }
        }
        // An edit with an unknown outcome may still be made, over the answer, so the answer must be a message of its
        // own.
        let is_unknown = !matches!(shown, Ok(_) | Err(ChannelError::Unavailable { .. }));
        let must_erase = is_unknown || self.is_left();
        if must_erase {
            commits::store_draft(&self.store, self.turn, None).await.ok();
        }
        drop(draft_lock);
        if must_erase && let Some(on_platform) = on_platform {
            erase_until_gone(self.channel, self.message.to, on_platform).await;
        }
        shown.map(Some)
    }

    /// Returns true if the answer does not replace the draft: the turn has ended, or continues below it.
    fn is_left(&self) -> bool {
        let current = self.draft.borrow();
        current.left || current.anew != self.anew || self.draft.has_changed().is_err()
    }
}

/// Returns the text of a draft: the beginning of the text so far, as much as fits into one message, and below it the
/// running tool. None if the answer may still become silence.
fn presentable(so_far: &Draft, channel: &dyn Channel) -> Option<String> {
    let text = so_far.text.trim();
    let doing = so_far.doing.as_deref();
    let may_be_silence = NO_REPLY.starts_with(text) || text.starts_with(NO_REPLY);
    if doing.is_none() && may_be_silence {
        return None;
    }
    let below =
        doing.map_or_else(|| replies::CONTINUATION_MARK.to_owned(), |doing| format!("\n\n{doing}"));
    let limits = channel.limits();
    let text_max = limits.text_max.saturating_sub(below.len()).max(1);
    let first = text::split(text, text_max, limits.unit).into_iter().next().unwrap_or_default();
    let message = format!("{first}{below}");
    markup::render(&message, limits.markup, limits.text_max, limits.unit).into_iter().next()
}
