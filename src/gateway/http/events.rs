//! `GET /events`: the events of turns and deliveries as server-sent events. The last ones are kept in memory for
//! readers that come back, as long as there are any. Nothing depends on an event being seen.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use chrono::{DateTime, SecondsFormat, Utc};
use futures_util::stream::unfold;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::access::WebPerson;
use super::limits::HeldConnection;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use super::stream::{Beginning, frame, sent_events};
use crate::people::Role;
use crate::secret::Redactor;
use crate::services::Services;
use crate::types::event::Event;
use crate::types::message::{Address, SenderId};

/// The version of the events' form. A change that old readers cannot take makes a new one.
const VERSION: u32 = 1;

/// Events that are kept, and their bytes in all.
const EVENTS_MAX: usize = 2_000;
const BYTES_MAX: usize = 512 * 1024;

/// Time for which a reader may be away and miss nothing.
const AWAY_MAX: Duration = Duration::from_secs(10 * 60);

/// Events that are handed out at a time.
const READ_MAX: usize = 50;

/// Readers at a time.
const READERS_MAX: usize = 64;

/// The last events.
pub(super) struct EventLog {
    // Locked only briefly: by the task that notes events, and by readers.
    log: Mutex<KeptEvents>,
    news: watch::Sender<()>,
    /// Begins the ids of this start, so that those of an earlier one are recognized.
    start: String,
}

#[derive(Default)]
struct KeptEvents {
    events: VecDeque<KeptEvent>,
    bytes: usize,
    /// The number of the last event.
    last: u64,
    readers: usize,
    /// Events are kept until then, though nobody reads them.
    until: Option<Instant>,
}

impl KeptEvents {
    /// The number of the first event that is kept, or of the next one.
    fn first(&self) -> u64 {
        self.events.front().map_or(self.last + 1, |event| event.number)
    }
}

struct KeptEvent {
    number: u64,
    chat: Option<Address>,
    /// It is about the stream itself.
    is_for_all: bool,
    name: &'static str,
    data: String,
    /// The same without words, for the owner, if it is of somebody else's private turn.
    wordless: Option<String>,
}

impl KeptEvent {
    fn bytes(&self) -> usize {
        self.data.len() + self.wordless.as_ref().map_or(0, String::len)
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
    /// Notes events until there are no more.
    pub(super) fn follow(
        self: &Arc<Self>,
        services: &Services,
    ) -> impl Future<Output = ()> + use<> {
        let (log, mut events) = (Arc::clone(self), services.events.subscribe());
        let redactor = services.redactor.clone();
        async move {
            while let Some(event) = events.next().await {
                log.note(&event, &redactor);
            }
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut KeptEvents) -> T) -> T {
        work(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, event: &Event, redactor: &Redactor) {
        self.with(|log| {
            log.last += 1;
            if log.readers == 0 && log.until.is_none_or(|until| until < Instant::now()) {
                (log.events, log.bytes) = (VecDeque::new(), 0);
                return;
            }
            let shown = |event: &Event| {
                let sent = SentEvent { version: VERSION, at: Utc::now(), event };
                let data = serde_json::to_string(&sent).expect("our own types have string keys");
                redactor.redact(&data).into_owned()
            };
            let data = shown(event);
            let wordless = event.is_others_private.then(|| {
                shown(&Event { what: event.what.clone().without_words(), ..event.clone() })
            });
            let chat = event.origin.as_ref().and_then(|origin| origin.chat()).cloned();
            let (number, name) = (log.last, event.what.name());
            let is_for_all = event.origin.is_none() && event.turn.is_none() && name == "missed";
            let kept = KeptEvent { number, chat, is_for_all, name, data, wordless };
            log.bytes += kept.bytes();
            log.events.push_back(kept);
            while log.events.len() > EVENTS_MAX || log.bytes > BYTES_MAX {
                let Some(oldest) = log.events.pop_front() else { break };
                log.bytes -= oldest.bytes();
            }
        });
        self.news.send_replace(());
    }

    /// Returns the number in an id. None if it is of another start.
    fn number_of(&self, id: &str) -> Option<u64> {
        let (start, number) = id.split_once('.')?;
        (start == self.start).then(|| number.parse().ok()).flatten()
    }
}

/// Keeps the events while it lives, and some time after.
struct ReadingGuard(Arc<EventLog>);

impl ReadingGuard {
    fn begin(log: &Arc<EventLog>) -> Option<Self> {
        let begun = log.with(|kept| {
            let has_room = kept.readers < READERS_MAX;
            kept.readers += usize::from(has_room);
            has_room
        });
        begun.then(|| Self(Arc::clone(log)))
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

/// `GET /events`
pub(super) async fn open(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    Query(Beginning { after }): Query<Beginning>,
    headers: HeaderMap,
) -> Result<Response, HttpRefusal> {
    let held = gateway.held.hold(&person.id)?;
    let guard = ReadingGuard::begin(&gateway.events).ok_or_else(HttpRefusal::too_many)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let newest = gateway.events.with(|log| log.last);
    let mut ready = VecDeque::new();
    let after = match last.or(after) {
        None => newest,
        Some(id) => match gateway.events.number_of(&id) {
            Some(number) => number.min(newest),
            None => {
                // All of this start that are left follow.
                ready.push_back(missed());
                gateway.events.with(|log| log.first()) - 1
            }
        },
    };
    let sees_all = person.role == Role::Owner;
    let news = gateway.events.news.subscribe();
    let next_comment = gateway.next_comment();
    let reader = EventReader {
        gateway,
        guard,
        person: person.id,
        sees_all,
        after,
        news,
        ready,
        next_comment,
        _held: held,
    };
    let mut response = sent_events(unfold(reader, next));
    response.headers_mut().insert("x-peacrab-events", HeaderValue::from(VERSION));
    Ok(response)
}

/// A reader of the events.
struct EventReader {
    gateway: Arc<HttpGateway>,
    guard: ReadingGuard,
    person: SenderId,
    sees_all: bool,
    /// The number of the last event that it has read.
    after: u64,
    news: watch::Receiver<()>,
    ready: VecDeque<Bytes>,
    next_comment: Instant,
    _held: HeldConnection,
}

async fn next(mut reader: EventReader) -> Option<(Result<Bytes, Infallible>, EventReader)> {
    loop {
        if let Some(ready) = reader.ready.pop_front() {
            reader.next_comment = reader.gateway.next_comment();
            return Some((Ok(ready), reader));
        }
        reader.news.mark_unchanged();
        if reader.read() {
            continue;
        }
        let closing = reader.gateway.closing.clone();
        tokio::select! {
            () = closing.cancelled() => return None,
            changed = reader.news.changed() => changed.ok()?,
            () = sleep_until(reader.next_comment) => reader.ready.push_back(Bytes::from_static(b":\n\n")),
        }
    }
}

impl EventReader {
    /// Reads what is new. Returns true if there was something.
    fn read(&mut self) -> bool {
        let Self { gateway, guard, person, sees_all, after, ready, .. } = self;
        let log = &guard.0;
        let (prefix, channel) = (format!("{person}/"), gateway.web.name());
        let is_own = |event: &KeptEvent| {
            let mut chat = event.chat.iter().filter(|chat| chat.channel == *channel);
            event.is_for_all || chat.any(|it| it.chat.as_str().starts_with(&prefix))
        };
        let data = |event: &KeptEvent| match (is_own(event), *sees_all) {
            (true, _) => Some(event.data.clone()),
            (false, true) => Some(event.wordless.as_ref().unwrap_or(&event.data).clone()),
            (false, false) => None,
        };
        let before = *after;
        log.with(|kept| {
            let first = kept.first();
            if *after + 1 < first {
                ready.push_back(missed());
                *after = first - 1;
            }
            let from = usize::try_from(*after + 1 - first).unwrap_or(usize::MAX);
            for event in kept.events.iter().skip(from).take(READ_MAX) {
                *after = event.number;
                if let Some(data) = data(event) {
                    let id = format!("{}.{}", log.start, event.number);
                    ready.push_back(frame(event.name, Some(&id), &data));
                }
            }
        });
        *after != before || !ready.is_empty()
    }
}

/// Stands for events that are not kept any more.
fn missed() -> Bytes {
    let at = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
    let data = json!({ "version": VERSION, "at": at, "event": "missed", "events": null });
    frame("missed", None, &data.to_string())
}
