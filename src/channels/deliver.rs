//! Delivers the outbox to one platform. A message is cut into chunks once. Each chunk is stored as
//! `sending` before it is sent, in order within a chat, and several chats in parallel. Shared by all
//! adapters.

mod arrivals;
mod ending;
pub mod retry;
mod progress;
mod question;
mod reachable;
mod clock_reading;

use std::borrow::Cow;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use self::clock_reading::ClockReading;
use super::supervise::AFTER_MAX;
use super::{Channel, ChannelError, SendLookup, Sent};
use crate::bus::outbox::{self, Chunk, Delivery, DeliveryLoss, Lane, LaneHead};
use crate::bus::{Bus, Link};
use crate::channels::chunking::{self, ContentError};
use crate::replies;
use crate::secret::Redactor;
use crate::store::{Store, StoreError, Sync};
use crate::types::event::{Event, EventKind, Events};
use crate::types::message::{Attachment, Body, ChannelName, DeliveryId, Outbound};
use crate::workspace::Workspace;
pub use arrivals::Arrivals;
pub use progress::DeliveryProgress;
use retry::{FailedAttempt, FailureVerdict};

/// Maximum number of parallel deliveries. A chat that hangs delays no other, until so many hang that the
/// platform itself must be stuck.
const AT_ONCE_MAX: usize = 16;

/// Additional deliveries that are reserved for answers to commands.
const URGENT_AT_ONCE_MAX: usize = 4;

/// Time limit of a send. One that takes longer may or may not have arrived.
const SEND_TIME_MAX: Duration = Duration::from_secs(30);

/// Time limit of an upload, which takes longer over a slow line.
const UPLOAD_TIME_MAX: Duration = Duration::from_secs(300);

/// Age from which an attempt is stuck: a search for an earlier send, an upload, and as much again for our part.
pub const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(660);

/// Pause between attempts while the platform does not accept our token.
const CLOSED_PAUSE: Duration = Duration::from_secs(60);

/// Pause of all deliveries after the store failed.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// The deliveries of one channel.
#[derive(Clone)]
pub struct DeliveryQueue {
    pub name: ChannelName,
    pub channel: Arc<dyn Channel>,
    pub bus: Bus,
    pub workspace: Workspace,
    pub events: Events,
    /// Removes secrets from everything that is sent.
    pub redactor: Redactor,
    pub arrivals: Arrivals,
    /// The channel's link, which shows that the platform is reachable even if nothing is delivered.
    pub link: Arc<Link>,
    pub progress: DeliveryProgress,
}

/// Delivers for one channel until `stop`, and then everything that is due at once.
pub async fn run(queue: DeliveryQueue, stop: CancellationToken) {
    let mut woken = queue.bus.outbox.watch();
    let mut sends: JoinSet<Lane> = JoinSet::new();
    let mut busy: HashSet<Lane> = HashSet::new();
    let mut clock_reading = ClockReading::at_start(&queue).await;
    let mut link = queue.link.watch();
    let mut connects = 0;
    loop {
        woken.mark_unchanged();
        clock_reading.follow(&queue).await;
        let connects_now = link.borrow_and_update().connects;
        connects = queue.retry_after_outage(connects_now, connects).await;
        let wait = match queue.begin_due(&mut sends, &mut busy).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::error!(channel = %queue.name, %error, "Deliveries of this channel pause");
                Some(STORE_PAUSE)
            }
        };
        queue.progress.rounds.notify();
        if stop.is_cancelled() && sends.is_empty() {
            return;
        }
        tokio::select! {
            Some(ended) = sends.join_next() => {
                busy.remove(&ended.expect("a send catches its panics, and is not aborted"));
            }
            changed = woken.changed() => if changed.is_err() { return },
            changed = link.changed() => changed.expect("the queue has the link"),
            () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            () = stop.cancelled(), if !stop.is_cancelled() => {}
        }
    }
}

impl DeliveryQueue {
    /// Starts due deliveries in chats that are not busy. Returns the time until the next one is due.
    async fn begin_due(
        &self,
        sends: &mut JoinSet<Lane>,
        busy: &mut HashSet<Lane>,
    ) -> Result<Option<Duration>, StoreError> {
        let (name, in_use) = (self.name.clone(), busy.clone());
        // One more than can start, because the next one determines the wait.
        let heads = self.bus.store.read(move |store| {
            let mut heads =
                outbox::next_of_each_chat(store, &name, true, URGENT_AT_ONCE_MAX + 1, &in_use)?;
            let others = outbox::next_of_each_chat(store, &name, false, AT_ONCE_MAX + 1, &in_use)?;
            let is_full = heads.len() > URGENT_AT_ONCE_MAX || others.len() > AT_ONCE_MAX;
            heads.extend(others);
            Ok((heads, is_full))
        });
        let (heads, is_full) = heads.await?;
        let (now, before) = (Utc::now(), busy.len());
        // No wait is longer than that, unless the clock was set back since.
        let is_due = |next: DateTime<Utc>| next <= now || next > now + 2 * AFTER_MAX;
        let (due, later): (Vec<_>, Vec<_>) = heads.into_iter().partition(|head| is_due(head.next));
        for LaneHead { id, lane, .. } in due {
            // A delivery that lets others pass may be due together with the one behind it.
            if busy.contains(&lane) {
                continue;
            }
            let same_kind = busy.iter().filter(|other| other.urgent == lane.urgent).count();
            if same_kind >= if lane.urgent { URGENT_AT_ONCE_MAX } else { AT_ONCE_MAX } {
                continue;
            }
            busy.insert(lane.clone());
            let queue = self.clone();
            sends.spawn(async move {
                // Caught here, where the chat is known: other chats go on.
                match AssertUnwindSafe(queue.deliver(id)).catch_unwind().await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        tracing::error!(%error, "Cannot save the outcome of a delivery");
                        sleep(STORE_PAUSE).await;
                    }
                    Err(_) => {
                        tracing::error!(chat = %lane.chat, "A delivery panicked, will retry it");
                        sleep(STORE_PAUSE).await;
                    }
                }
                lane
            });
        }
        if is_full && busy.len() > before {
            // Many deliveries of one kind may have hidden those of the other.
            return Ok(Some(Duration::ZERO));
        }
        let next = later.iter().map(|head| head.next).min();
        Ok(next.map(|next| (next - now).to_std().unwrap_or_default()))
    }

    /// Delivers one message as far as possible.
    async fn deliver(&self, id: DeliveryId) -> Result<(), StoreError> {
        let store = &self.bus.store;
        let Some(mut delivery) = store.read(move |store| outbox::load(store, id)).await? else {
            return Ok(());
        };
        let is_cut = !delivery.chunks.is_empty();
        if !is_cut {
            self.quote_question(&mut delivery.message).await?;
            let text = delivery.message.body.text_mut();
            if let Cow::Owned(redacted) = self.redactor.redact(text) {
                *text = redacted;
            }
            delivery.chunks = cut(self.channel.as_ref(), &delivery.message);
        }
        let (channel, running) = (self.channel.as_ref(), self.progress.begin(id));
        for chunk in &delivery.chunks.clone() {
            running.next_part();
            let deliverer = Deliverer { channel, store, queue: self, delivery: &delivery, is_cut };
            match deliverer.deliver_chunk(chunk).await? {
                // As in the store: the next chunk starts without this one's failures.
                AfterChunk::GoOn => (delivery.attempts, delivery.failures) = (0, None),
                AfterChunk::Leave => break,
            }
        }
        // A failed delivery may have queued a message to the owner on another channel.
        self.bus.outbox.notify();
        Ok(())
    }
}

/// Outcome of a failed attempt to send a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChunkFailure {
    /// It may have arrived.
    Unknown,
    /// This attempt has certainly not arrived. Earlier ones may have.
    NotSent,
}

/// Facts about the attempts before this one.
#[derive(Clone, Copy)]
struct PriorSends {
    /// An earlier one may have arrived, and its outcome stays unknown.
    is_ambiguous: bool,
    /// The platform was reachable since the last attempt. If this one fails too, the platform is not
    /// away.
    is_reachable: bool,
}

/// The next action after a chunk.
enum AfterChunk {
    GoOn,
    Leave,
}

fn cut(channel: &dyn Channel, message: &Outbound) -> Vec<Chunk> {
    (0..)
        .zip(chunking::split_message(message, &channel.limits()))
        .map(|(seq, body)| Chunk { seq, body, sending_since: None, ambiguous_sends: 0 })
        .collect()
}

struct Deliverer<'a> {
    channel: &'a dyn Channel,
    store: &'a Store,
    queue: &'a DeliveryQueue,
    delivery: &'a Delivery,
    /// True if the chunks are stored. Otherwise they are stored when the first of them is about to be
    /// sent.
    is_cut: bool,
}

impl Deliverer<'_> {
    async fn deliver_chunk(&self, chunk: &Chunk) -> Result<AfterChunk, StoreError> {
        if retry::is_too_old(self.delivery, Utc::now()) {
            return self.dead(DeliveryLoss::GivenUp, replies::UNDELIVERED_FOR_A_WEEK).await;
        }
        let message = self.message(chunk, chunk.ambiguous_sends > 0);
        let (mut is_ambiguous, mut is_reachable) = (false, self.has_link_received());
        if let Some(since) = chunk.sending_since {
            match self.find(&message, since).await {
                Ok(SendLookup::Sent(sent)) => return self.record_sent(chunk, sent.id).await,
                // The platform answers.
                Ok(SendLookup::Absent) => is_reachable = true,
                // Editing a draft twice has the same result as editing it once.
                Ok(SendLookup::Unknowable) if message.replaces.is_some() => {}
                Ok(SendLookup::Unknowable)
                    if retry::is_ambiguous_for_ever(chunk, self.delivery.failures) =>
                {
                    return self.give_up(chunk, replies::ARRIVAL_UNKNOWN).await;
                }
                Ok(SendLookup::Unknowable) if self.waits_for_arrivals(chunk) => {
                    let reason = replies::ARRIVAL_UNKNOWN.to_owned();
                    if self.note_failure(is_reachable) >= retry::REACHABLE_FAILURES_MIN {
                        return self.give_up(chunk, &reason).await;
                    }
                    return self.retry_later(chunk, ChunkFailure::Unknown, AFTER_MAX, reason).await;
                }
                Ok(SendLookup::Unknowable) => is_ambiguous = true,
                Err(reason) => {
                    let pause = retry::pause_after_failure(self.delivery.attempts, None);
                    return self.retry_later(chunk, ChunkFailure::Unknown, pause, reason).await;
                }
            }
        }
        self.send(chunk, PriorSends { is_ambiguous, is_reachable }).await
    }

    /// Returns true if so many copies of a chunk may exist that the next one waits until any delivery
    /// of the channel arrives.
    fn waits_for_arrivals(&self, chunk: &Chunk) -> bool {
        let failed = self.delivery.failures.map(|failures| failures.last);
        chunk.ambiguous_sends + 1 >= retry::COPIES_MAX && self.queue.arrivals.last() <= failed
    }

    async fn send(&self, chunk: &Chunk, prior: PriorSends) -> Result<AfterChunk, StoreError> {
        let (is_ambiguous, connects) = (prior.is_ambiguous, self.queue.link.state().connects);
        let (id, seq) = (self.delivery.message.id, chunk.seq);
        let overtakes = self.delivery.message.overtakes;
        let new_chunks = (!self.is_cut && seq == 0).then(|| self.delivery.chunks.clone());
        let begin_sending = move |store: &_| {
            new_chunks
                .map_or(Ok(()), |chunks| outbox::store_chunks(store, id, &chunks, overtakes))?;
            outbox::mark_sending(store, id, seq, is_ambiguous)
        };
        self.store.write("sending", Sync::Now, begin_sending).await?;
        let message = self.message(chunk, is_ambiguous || chunk.ambiguous_sends > 0);
        let sent = match &message.body {
            Body::File(file) => timeout(UPLOAD_TIME_MAX, self.upload(&message, file)).await,
            Body::Text(_) | Body::Choice(_) | Body::Printed(_) => {
                timeout(SEND_TIME_MAX, self.channel.send(&message)).await
            }
        };
        match sent {
            Ok(Ok(sent)) => self.record_sent(chunk, sent.id).await,
            Ok(Err(ChannelError::Unavailable { after, reason })) => {
                let attempts = self.delivery.attempts;
                // The link came up after this attempt began, so its failure has an outdated reason.
                let is_outdated = self.queue.link.state().connects != connects;
                let attempts = if is_outdated { 0 } else { attempts };
                let pause = retry::pause_after_failure(attempts, after.map(retry::bounded));
                self.retry_later(chunk, ChunkFailure::NotSent, pause, reason).await
            }
            Ok(Err(ChannelError::Closed(reason))) => {
                self.retry_later(chunk, ChunkFailure::NotSent, CLOSED_PAUSE, reason).await
            }
            Ok(Err(ChannelError::DraftGone)) => self.forget_draft(chunk).await,
            Ok(Err(ChannelError::Refused(reason))) => match &chunk.body {
                Body::File(file) => self.replace_file(chunk, file, &reason).await,
                Body::Text(_) | Body::Choice(_) | Body::Printed(_) => {
                    self.dead(DeliveryLoss::Refused, &reason).await
                }
            },
            Ok(Err(ChannelError::Ambiguous(reason))) => self.find_later(chunk, prior, reason).await,
            Err(_) => {
                let reason = replies::PLATFORM_TOO_SLOW.to_owned();
                self.find_later(chunk, prior, reason).await
            }
        }
    }

    async fn upload(&self, message: &Outbound, file: &Attachment) -> Result<Sent, ChannelError> {
        let (attachment, limits) = (file.clone(), self.channel.limits());
        let open = move |workspace: &Workspace| chunking::open(&attachment, workspace, &limits);
        match self.queue.workspace.run_blocking(open).await {
            Ok(content) => self.channel.upload(message, content).await,
            Err(ContentError::Temporary(reason)) => Err(ChannelError::unavailable(reason)),
            Err(ContentError::Permanent(reason)) => Err(ChannelError::Refused(reason)),
        }
    }

    /// Schedules another search for a chunk that may have arrived, when the platform's trouble may be
    /// over. Each pause is longer.
    async fn find_later(
        &self,
        chunk: &Chunk,
        prior: PriorSends,
        reason: String,
    ) -> Result<AfterChunk, StoreError> {
        let failures = self.note_failure(prior.is_reachable);
        if failures >= retry::UPLOADS_MAX && matches!(chunk.body, Body::File(_)) {
            return self.give_up(chunk, &reason).await;
        }
        let least = self.channel.limits().ambiguity_pause;
        let ambiguous_sends = chunk.ambiguous_sends + u32::from(prior.is_ambiguous);
        let pause = retry::ambiguity_pause(least, self.delivery.attempts, ambiguous_sends);
        self.retry_later(chunk, ChunkFailure::Unknown, pause, reason).await
    }

    /// Schedules another attempt after a failure, or gives up after the time limit.
    async fn retry_later(
        &self,
        chunk: &Chunk,
        failed_as: ChunkFailure,
        pause: Duration,
        reason: String,
    ) -> Result<AfterChunk, StoreError> {
        let (delivery, at) = (self.delivery, Utc::now());
        let last_arrival = self.queue.arrivals.last();
        self.queue.arrivals.note_failure(at);
        let attempt = FailedAttempt { delivery, chunk, at, pause, last_arrival };
        let failure = match attempt.judge(self.channel.limits().give_up_after, reason.clone()) {
            FailureVerdict::TryLater(failure) => failure,
            FailureVerdict::GiveUp => return self.give_up(chunk, &reason).await,
        };
        self.late(&reason);
        let (id, chunk) = (delivery.message.id, chunk.clone());
        let record_failure = move |store: &_| {
            if failed_as == ChunkFailure::NotSent {
                outbox::mark_not_sent(store, id, &chunk)?;
            }
            outbox::record_failure(store, id, &failure)
        };
        self.store.write("not sent", Sync::Later, record_failure).await?;
        Ok(AfterChunk::Leave)
    }

    /// Returns the chunk as a message of its own. The first chunk replies, and replaces a draft.
    fn message(&self, chunk: &Chunk, marked: bool) -> Outbound {
        let mut message = self.delivery.message.clone();
        (message.body, message.chunk_index) = (chunk.body.clone(), chunk.seq);
        if marked {
            let text = message.body.text_mut();
            *text = replies::perhaps_repeated(text);
        }
        if chunk.seq > 0 {
            (message.reply_to, message.replaces) = (None, None);
        }
        message
    }

    /// Searches the platform for the message. Returns an error if that is impossible now.
    async fn find(&self, message: &Outbound, since: DateTime<Utc>) -> Result<SendLookup, String> {
        match timeout(SEND_TIME_MAX, self.channel.find(message, since)).await {
            // We may not read there any more, so the outcome stays unknown.
            Ok(Err(ChannelError::Refused(_))) => Ok(SendLookup::Unknowable),
            Ok(found) => found.map_err(|error| error.to_string()),
            Err(_) => Err(replies::PLATFORM_TOO_SLOW.to_owned()),
        }
    }

    async fn record_sent(
        &self,
        chunk: &Chunk,
        platform_id: Option<crate::types::message::MessageId>,
    ) -> Result<AfterChunk, StoreError> {
        let (id, seq) = (self.delivery.message.id, chunk.seq);
        let was_away = self.queue.arrivals.note_arrival(Utc::now());
        self.queue.arrivals.forget(id);
        let channel = self.queue.name.clone();
        let sent = move |store: &_| {
            outbox::mark_sent(store, id, seq, platform_id.as_ref())?;
            if was_away { outbox::retry_failing_now(store, &channel) } else { Ok(()) }
        };
        self.store.write("sent", Sync::Later, sent).await?;
        self.emit(|| EventKind::Delivered { delivery: id, part: seq });
        Ok(AfterChunk::GoOn)
    }

    fn emit(&self, what: impl FnOnce() -> EventKind) {
        let address = || Some(self.delivery.message.to.clone());
        self.queue.events.emit(|| Event {
            session: None,
            turn: None,
            origin: address().map(Into::into),
            is_others_private: false,
            what: what(),
        });
    }

    fn late(&self, reason: &str) {
        let delivery = self.delivery.message.id;
        self.emit(|| EventKind::DeliveryLate { delivery, reason: reason.to_owned() });
        let attempts = self.delivery.attempts;
        tracing::info!(to = %self.delivery.message.to, attempts, reason, "Will deliver later");
    }
}
