//! `GET /events`: the events of turns and deliveries as server-sent events. A reader that comes back gets those that
//! `event_log` has kept meanwhile.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use chrono::{SecondsFormat, Utc};
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::access::WebPerson;
use super::event_log::{KeptEvent, ReadingGuard, VERSION};
use super::guard::QueryFields;
use super::limits::HeldConnection;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use super::stream::{Beginning, frame, sent_events};
use super::stream_access::StreamAccess;
use crate::people::Role;
use crate::types::message::SenderId;

/// Maximum number of events that are read at a time.
const READ_MAX: usize = 50;

/// `GET /events`
pub(super) async fn open(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    QueryFields(Beginning { after }): QueryFields<Beginning>,
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
                // All kept events of this start follow.
                ready.push_back(missed());
                gateway.events.with(|log| log.first()) - 1
            }
        },
    };
    let access = StreamAccess::of(&gateway, &person);
    let news = gateway.events.news.subscribe();
    let next_comment = gateway.next_comment();
    let reader = EventReader {
        gateway,
        guard,
        person: person.id,
        access,
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
    access: StreamAccess,
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
        reader.access.check(&reader.gateway).await?;
        if reader.read() {
            continue;
        }
        let closing = reader.gateway.closing.clone();
        tokio::select! {
            () = closing.cancelled() => return None,
            changed = reader.news.changed() => changed.ok()?,
            () = sleep_until(reader.next_comment) => reader.ready.push_back(Bytes::from_static(b":\n\n")),
            () = reader.access.login_ended() => {}
        }
    }
}

impl EventReader {
    /// Queues new events for the reader. Returns true if there were any.
    fn read(&mut self) -> bool {
        let Self { gateway, guard, person, access, after, ready, .. } = self;
        // The owner sees all turns.
        let sees_all = access.role() == Role::Owner;
        let log = &guard.0;
        let (prefix, channel) = (format!("{person}/"), gateway.web.name());
        let is_own = |event: &KeptEvent| {
            let mut chat = event.chat.iter().filter(|chat| chat.channel == *channel);
            event.is_for_all || chat.any(|it| it.chat.as_str().starts_with(&prefix))
        };
        let data = |event: &KeptEvent| match (is_own(event), sees_all) {
            (true, _) => Some(event.data.clone()),
            (false, true) => Some(event.textless.as_ref().unwrap_or(&event.data).clone()),
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

/// Returns the event that stands for events which are not kept any more.
fn missed() -> Bytes {
    let at = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
    let data = json!({ "version": VERSION, "at": at, "event": "missed", "events": null });
    frame("missed", None, &data.to_string())
}
