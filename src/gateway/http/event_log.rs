//! The last events of turns and deliveries, kept in memory while somebody reads them. Events may be missed:
//! nothing depends on them.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::people::LOCAL;
use crate::secret::Redactor;
use crate::services::Services;
use crate::types::event::Event;
use crate::types::message::{Address, ChannelName};
use crate::types::origin::Origin;

/// The version of the event format. A change that old readers cannot handle increases it.
pub(super) const VERSION: u32 = 1;

/// Maximum number of kept events, and of their bytes.
const EVENTS_MAX: usize = 2_000;
const BYTES_MAX: usize = 512 * 1024;

/// Time for which a reader may be away without missing events.
const AWAY_MAX: Duration = Duration::from_secs(10 * 60);

/// Maximum number of readers.
const READERS_MAX: usize = 64;

/// The last events.
pub(super) struct EventLog {
    // Locked only briefly: by the task that notes events, and by readers.
    log: Mutex<KeptEvents>,
    pub(super) news: watch::Sender<()>,
    /// Prefix of the event ids of this start, by which those of an earlier start are recognized.
    pub(super) start: String,
}

#[derive(Default)]
pub(super) struct KeptEvents {
    pub(super) events: VecDeque<KeptEvent>,
    bytes: usize,
    /// The number of the last event.
    pub(super) last: u64,
    readers: usize,
    /// Events are kept until this time without readers.
    until: Option<Instant>,
}

impl KeptEvents {
    /// Returns the number of the first kept event, or of the next one if none is kept.
    pub(super) fn first(&self) -> u64 {
        self.events.front().map_or(self.last + 1, |event| event.number)
    }
}

pub(super) struct KeptEvent {
    pub(super) number: u64,
    pub(super) chat: Option<Address>,
    /// True if it is about the stream itself.
    pub(super) is_for_all: bool,
    pub(super) name: &'static str,
    pub(super) data: String,
    /// The data for the owner, if it differs.
    pub(super) textless: Option<String>,
}

impl KeptEvent {
    fn bytes(&self) -> usize {
        self.data.len() + self.textless.as_ref().map_or(0, String::len)
    }
}

/// An event as readers get it.
#[derive(Serialize)]
struct SentEvent<'e> {
    version: u32,
    at: DateTime<Utc>,
    #[serde(flatten)]
    event: &'e Event,
}

impl Default for EventLog {
    fn default() -> Self {
        let start = format!("{:x}", Utc::now().timestamp_millis());
        Self { log: Mutex::default(), news: watch::Sender::new(()), start }
    }
}

impl EventLog {
    /// Records events until there are no more.
    pub(super) fn follow(
        self: &Arc<Self>,
        services: &Services,
        page: &ChannelName,
    ) -> impl Future<Output = ()> + use<> {
        let (log, mut events) = (Arc::clone(self), services.events.subscribe());
        let (redactor, page) = (services.redactor.clone(), page.clone());
        async move {
            while let Some(event) = events.next().await {
                log.note(&event, &redactor, &page);
            }
        }
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut KeptEvents) -> T) -> T {
        work(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, event: &Event, redactor: &Redactor, page: &ChannelName) {
        self.with(|log| {
            log.last += 1;
            if log.readers == 0 && log.until.is_none_or(|until| until < Instant::now()) {
                (log.events, log.bytes) = (VecDeque::new(), 0);
                return;
            }
            let to_data = |event: &Event| {
                let sent = SentEvent { version: VERSION, at: Utc::now(), event };
                let data = serde_json::to_string(&sent).expect("our own types have string keys");
                redactor.redact(&data).into_owned()
            };
            let data = to_data(event);
            let textless = for_owner(event, page).map(|event| to_data(&event));
            let chat = event.origin.as_ref().and_then(|origin| origin.chat()).cloned();
            let (number, name) = (log.last, event.what.name());
            let is_for_all = event.origin.is_none() && event.turn.is_none() && name == "missed";
            let kept = KeptEvent { number, chat, is_for_all, name, data, textless };
            log.bytes += kept.bytes();
            log.events.push_back(kept);
            while log.events.len() > EVENTS_MAX || log.bytes > BYTES_MAX {
                let Some(oldest) = log.events.pop_front() else { break };
                log.bytes -= oldest.bytes();
            }
        });
        self.news.send_replace(());
    }

    /// Returns the number in an event id. None if it is of another start.
    pub(super) fn number_of(&self, id: &str) -> Option<u64> {
        let (start, number) = id.split_once('.')?;
        (start == self.start).then(|| number.parse().ok()).flatten()
    }
}

/// Returns an event as the owner gets it, if it differs: without the texts of others' private turns, and
/// without the names of others' sessions on the page.
fn for_owner(event: &Event, page: &ChannelName) -> Option<Event> {
    let mut shown = event.clone();
    if event.is_others_private {
        shown.what = shown.what.without_texts();
    }
    if let Some(Origin::Chat(at)) = &mut shown.origin
        && at.channel == *page
        && let Some((person, _)) = at.chat.as_str().split_once('/')
        && person != LOCAL
    {
        at.chat = format!("{person}/").into();
    }
    (shown != *event).then_some(shown)
}

/// Registers a reader. Events are kept while it lives, and some time after.
pub(super) struct ReadingGuard(pub(super) Arc<EventLog>);

impl ReadingGuard {
    pub(super) fn begin(log: &Arc<EventLog>) -> Option<Self> {
        let is_admitted = log.with(|kept| {
            let is_admitted = kept.readers < READERS_MAX;
            kept.readers += usize::from(is_admitted);
            is_admitted
        });
        is_admitted.then(|| Self(Arc::clone(log)))
    }
}

impl Drop for ReadingGuard {
    fn drop(&mut self) {
        self.0.with(|log| {
            log.readers -= 1;
            log.until = Some(Instant::now() + AWAY_MAX);
        });
    }
}
