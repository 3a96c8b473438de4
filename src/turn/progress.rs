//! Signs of life while a turn works: typing, and drafts at the platform's pace. Best effort: one
//! that hangs or fails harms nothing. Once the turn ends, only signs at messages that it asked for are
//! still shown. A draft that is on its way then is waited for elsewhere, and taken away.

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

const HINT_TIME_MAX: Duration = Duration::from_secs(5);

/// Longer than the adapters' own deadlines: a draft of which nobody knows whether it is there cannot be taken away.
const DRAFT_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum number of attempts to remove a draft, over about an hour.
const ERASE_ATTEMPTS_MAX: u32 = 60;

/// Maximum wait for reactions that are not shown yet when the turn has ended. The next turn there waits meanwhile.
const SIGNS_WAIT_MAX: Duration = Duration::from_secs(1);

/// The display of a running turn.
pub(crate) struct TurnProgress {
    pub(crate) draft: watch::Receiver<Draft>,
    pub(crate) signs: mpsc::Receiver<Hint>,
}

/// Does the work of a turn, and shows that it goes on. Signs at messages are shown also if the answer is quicker.
/// `quiet` is held while a draft is being shown. Of a background task, which has no address, nothing is shown.
pub(crate) async fn show<T>(
    turns: &TurnServices,
    to: Option<&Address>,
    TurnProgress { draft, signs }: TurnProgress,
    quiet: &Arc<Mutex<()>>,
    work: impl Future<Output = T>,
) -> T {
    let shown_at = to.and_then(|to| Some((to, turns.services.channels.get(&to.channel)?)));
    let Some((to, adapter)) = shown_at else { return work.await };
    let channel = adapter.as_ref();
    let mut signs = pin!(show_signs(channel, to, signs).fuse());
    let drafts = async {
        match channel.limits().drafts {
            Drafts::Hinted { every } => hint_drafts(channel, to, draft, every).await,
            Drafts::Edited { every, every_in_groups } => {
                let mut drafter =
                    Drafter { turns, channel: adapter, to, quiet, made: None, anew: 0 };
                drafter.edit_drafts(draft, [every, every_in_groups]).await;
            }
        }
    };
    let progress = async {
        tokio::join!(show_typing(channel, to), signs.as_mut(), drafts);
        pending::<Infallible>().await
    };
    let done = tokio::select! {
        biased;
        done = work => done,
        never = progress => match never {},
    };
    if !signs.is_terminated() {
        timeout(SIGNS_WAIT_MAX, signs).await.ok();
    }
    done
}

async fn show_signs(channel: &dyn Channel, to: &Address, mut signs: mpsc::Receiver<Hint>) {
    while let Some(sign) = signs.recv().await {
        hint(channel, to, sign).await;
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

/// Takes a draft away that no answer takes the place of. Nobody waits for it.
pub(crate) fn erase(turns: &TurnServices, at: &Address, draft: MessageId) {
    if let Some(channel) = turns.services.channels.get(&at.channel) {
        turns.drafts.under_way.spawn(erase_until_gone(Arc::clone(channel), at.clone(), draft));
    }
}

/// Takes the draft of a turn away that was stopped: it would look as if work went on.
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
            // It is gone, or cannot be taken away.
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

/// Keeps one message that shows the text so far.
struct Drafter<'a> {
    turns: &'a TurnServices,
    channel: &'a Arc<dyn Channel>,
    to: &'a Address,
    quiet: &'a Arc<Mutex<()>>,
    made: Option<MessageId>,
    /// As the draft that `made` shows.
    anew: u32,
}

impl Drafter<'_> {
    /// Ends when nobody can say any more whether there is a draft: another would only be in the way.
    /// The paces are those of private chats and of groups.
    async fn edit_drafts(
        &mut self,
        mut draft: watch::Receiver<Draft>,
        [in_private, in_groups]: [Duration; 2],
    ) {
        // An answer that is there sooner needs no draft.
        sleep(in_private).await;
        let mut shown = String::new();
        while draft.changed().await.is_ok() {
            // In private, nothing is replied to: it is plain what is answered.
            let every = match draft.borrow().reply_to {
                Some(_) => in_groups,
                None => in_private,
            };
            sleep(self.turns.drafts.rate_limit.place(self.to, every)).await;
            let now = draft.borrow_and_update().clone();
            let (Some(turn), Some(text)) = (now.turn, self.presentable(&now)) else {
                continue;
            };
            // Beyond one message, the beginning stays the same. Answers on their way there go first.
            if text == shown || self.others_go_first().await {
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

    async fn others_go_first(&self) -> bool {
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
        let quiet = Arc::clone(self.quiet).lock_owned().await;
        let now = draft.borrow().clone();
        if self.anew != now.anew {
            (self.made, self.anew) = (None, now.anew);
        }
        let message = Outbound {
            id: DeliveryId(0),
            part: 0,
            to: self.to.clone(),
            reply_to: now.reply_to,
            overtakes: false,
            replaces: self.made.clone().or(now.made),
            body: Body::Text(text),
        };
        let (channel, store) = (Arc::clone(self.channel), self.turns.services.bus.store.clone());
        let (draft, anew) = (draft.clone(), now.anew);
        let underway = DraftUnderway { channel, store, turn, draft, anew, message };
        // Not dropped with the turn: what is on its way would arrive beside the answer, and stay.
        let shown = self.turns.drafts.under_way.spawn(underway.show(quiet)).await;
        self.made = shown.unwrap_or_else(|_| Err(lost()))?;
        Ok(())
    }
}

fn lost() -> ChannelError {
    ChannelError::Ambiguous("no answer in time, or a panic".to_owned())
}

/// A draft on its way to the platform.
struct DraftUnderway {
    channel: Arc<dyn Channel>,
    store: Store,
    turn: TurnId,
    draft: watch::Receiver<Draft>,
    /// As the draft was when it began.
    anew: u32,
    message: Outbound,
}

impl DraftUnderway {
    /// Shows it, and takes it away if the answer did not wait for it; gives its id. `quiet` is let go of once
    /// it is written down whether the answer takes its place.
    async fn show(self, quiet: OwnedMutexGuard<()>) -> Result<Option<MessageId>, ChannelError> {
        let sent = AssertUnwindSafe(self.channel.send(&self.message)).catch_unwind();
        let sent = timeout(DRAFT_TIME_MAX, sent).await;
        let mut shown = match sent {
            Ok(Ok(Ok(Sent { id: Some(id) }))) => Ok(id),
            Ok(Ok(Err(error))) => Err(error),
            _ => Err(lost()),
        };
        let before = self.message.replaces.clone();
        let mut stands = before.clone();
        if let Ok(id) = &shown
            && before.as_ref() != Some(id)
        {
            stands = Some(id.clone());
            let drafted = commits::drafted(&self.store, self.turn, Some(id.clone()));
            if let Err(error) = drafted.await {
                shown = Err(ChannelError::Ambiguous(error.to_string()));
            }
        }
        // An edit that is lost may still be made later, over the answer: the answer must be a message of its own.
        let is_lost = !matches!(shown, Ok(_) | Err(ChannelError::Unavailable { .. }));
        let is_over = is_lost || self.is_left();
        if is_over {
            commits::drafted(&self.store, self.turn, None).await.ok();
        }
        drop(quiet);
        if is_over && let Some(stands) = stands {
            erase_until_gone(self.channel, self.message.to, stands).await;
        }
        shown.map(Some)
    }

    /// Returns true if the answer does not take its place: the turn is over, or goes on below it.
    fn is_left(&self) -> bool {
        let now = self.draft.borrow();
        now.left || now.anew != self.anew || self.draft.has_changed().is_err()
    }
}

/// Returns the part of an unfinished text that may be shown: as much as fits into one message, nothing of an answer
/// that may turn out to be silence, and below it the running tool.
fn presentable(so_far: &Draft, channel: &dyn Channel) -> Option<String> {
    let text = so_far.text.trim();
    let doing = so_far.doing.as_deref();
    let silence = NO_REPLY.starts_with(text) || text.starts_with(NO_REPLY);
    if doing.is_none() && silence {
        return None;
    }
    let below = doing.map_or_else(|| replies::GOES_ON.to_owned(), |doing| format!("\n\n{doing}"));
    let limits = channel.limits();
    let context_window = limits.text_max.saturating_sub(below.len()).max(1);
    let first =
        text::split(text, context_window, limits.unit).into_iter().next().unwrap_or_default();
    let whole = format!("{first}{below}");
    markup::render(&whole, limits.markup, limits.text_max, limits.unit).into_iter().next()
}
