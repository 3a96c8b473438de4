//! Server-sent events: the messages of a session from any position on, and between them the draft of the answer
//! and the activity of its turn, which are not stored.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::unfold;
use rusqlite::Connection;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::access::WebPerson;
use super::chat::Message;
use super::guard::{PathParts, QueryFields};
use super::html;
use super::limits::HeldConnection;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use super::stream_access::StreamAccess;
use crate::bus::feed::{self, Cursor};
use crate::channels::markup::unescaped;
use crate::channels::web::PageNotice;
use crate::conversation::transcript;
use crate::memory;
use crate::replies;
use crate::trust::taint;
use crate::types::event::{Event, EventKind, EventSubscriber};
use crate::types::message::{Address, ChatKind};
use crate::types::origin::Origin;

/// Maximum number of messages that are read at a time.
const READ_MAX: usize = 50;

/// Maximum length of a call's arguments in the view of a turn, in characters. `/events` has them whole.
const ARGUMENTS_CHARS_MAX: usize = 300;

/// Number of bytes of a file that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// The position to start from, if the client does not repeat the id of its last event.
#[derive(Deserialize)]
pub(super) struct Beginning {
    pub(super) after: Option<String>,
}

/// `GET /sessions/NAME/stream`
pub(super) async fn open(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    PathParts(session): PathParts<String>,
    QueryFields(Beginning { after }): QueryFields<Beginning>,
    headers: HeaderMap,
) -> Result<Response, HttpRefusal> {
    let address = gateway.address(&person, &session)?;
    let held = gateway.held.hold(&person.id)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let asked: Option<Cursor> = last
        .or(after)
        .map(|text| text.parse())
        .transpose()
        .map_err(|()| HttpRefusal::bad("the position to start from is unknown"))?;
    let chat = address.chat.clone();
    let end = move |store: &Connection| feed::end(store, &chat);
    let end = gateway.services().bus.store.read(end).await?;
    // A position after all messages is from a database that a backup has replaced since.
    let cursor = asked.map_or(end, |asked| asked.up_to(end));
    let notices = gateway.web.attach(&address.chat);
    let events = gateway.services().events.subscribe();
    let next_comment = gateway.next_comment();
    let (ready, is_behind) = (VecDeque::new(), true);
    let access = StreamAccess::of(&gateway, &person);
    let reader = StreamReader {
        gateway,
        address,
        access,
        cursor,
        notices,
        events,
        ready,
        is_behind,
        shows_turn: true,
        next_comment,
        _held: held,
    };
    Ok(sent_events(unfold(reader, next)))
}

/// A response of server-sent events.
pub(super) fn sent_events(
    events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let mut response = Body::from_stream(events).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Otherwise nginx would buffer events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A reader of a session.
struct StreamReader {
    gateway: Arc<HttpGateway>,
    address: Address,
    access: StreamAccess,
    cursor: Cursor,
    notices: mpsc::Receiver<PageNotice>,
    events: EventSubscriber,
    ready: VecDeque<Bytes>,
    /// True if there may be messages in the store after the cursor.
    is_behind: bool,
    /// True if the steps of a running turn are still to be shown.
    shows_turn: bool,
    next_comment: Instant,
    _held: HeldConnection,
}

async fn next(mut reader: StreamReader) -> Option<(Result<Bytes, Infallible>, StreamReader)> {
    loop {
        if let Some(ready) = reader.ready.pop_front() {
            reader.next_comment = reader.gateway.next_comment();
            return Some((Ok(ready), reader));
        }
        if reader.shows_turn {
            reader.access.check(&reader.gateway).await?;
            reader.show_turn().await;
            continue;
        }
        if reader.is_behind {
            reader.access.expire();
            reader.access.check(&reader.gateway).await?;
            reader.catch_up().await?;
            continue;
        }
        let closing = reader.gateway.closing.clone();
        tokio::select! {
            () = closing.cancelled() => return None,
            notice = reader.notices.recv() => reader.handle_notice(notice?),
            event = reader.events.next() => reader.handle_event(&event?),
            () = sleep_until(reader.next_comment) => reader.ready.push_back(Bytes::from_static(b":\n\n")),
            () = reader.access.login_ended() => reader.access.check(&reader.gateway).await?,
        }
        if !reader.ready.is_empty() {
            reader.access.check(&reader.gateway).await?;
        }
    }
}

impl StreamReader {
    /// Reads messages after the cursor. None if the store fails. The client then reconnects.
    async fn catch_up(&mut self) -> Option<()> {
        let (chat, cursor) = (self.address.chat.clone(), self.cursor);
        let read = move |store: &Connection| feed::after(store, &chat, cursor, READ_MAX);
        let services = self.gateway.services();
        let posts = services.bus.store.read(read).await.ok()?;
        self.is_behind = posts.len() >= READ_MAX;
        for post in posts {
            self.cursor = post.cursor;
            let message = Message::of(post, &services.redactor);
            let data = serde_json::to_string(&message).ok()?;
            self.ready.push_back(frame("message", Some(&message.cursor), &data));
        }
        Some(())
    }

    fn handle_notice(&mut self, notice: PageNotice) {
        match notice {
            PageNotice::NewMessages => self.is_behind = true,
            PageNotice::NewElsewhere => self.push("elsewhere", &json!({})),
            PageNotice::Typing => self.push("typing", &json!({})),
            PageNotice::Draft(text) => {
                let text = self.gateway.services().redactor.redact(&text).into_owned();
                let html = html::render(&text);
                self.push("draft", &json!({ "text": text, "html": html }));
            }
        }
    }

    /// Shows the steps so far of a running turn, because a page may open in the middle of it.
    async fn show_turn(&mut self) {
        self.shows_turn = false;
        let origin = Origin::from(&self.address);
        let read = move |store: &Connection| transcript::running_turn(store, &origin);
        // If it fails, only the view of the turn is missing.
        let Ok(Some(turn)) = self.gateway.services().bus.store.read(read).await else { return };
        self.push("activity", &json!({ "turn": "start", "id": turn.id.0 }));
        turn.events.iter().for_each(|what| self.push_activity(what));
    }

    /// Shows an event of a turn of this session.
    fn handle_event(&mut self, event: &Event) {
        if event.origin.as_ref().and_then(|origin| origin.chat()) == Some(&self.address) {
            match &event.what {
                EventKind::TurnStart { .. } => {
                    let id = event.turn.map(|turn| turn.0);
                    self.push("activity", &json!({ "turn": "start", "id": id }));
                }
                what => self.push_activity(what),
            }
        }
    }

    fn push_activity(&mut self, what: &EventKind) {
        match what {
            EventKind::TurnEnd { .. } => self.push("activity", &json!({ "turn": "end" })),
            EventKind::StepStart { step } => self.push("activity", &json!({ "step": step })),
            EventKind::StepEnd { step, input, cached, output, cost } => {
                let usage =
                    json!({ "input": input, "cached": cached, "output": output, "cost": cost });
                self.push("activity", &json!({ "step": step, "usage": usage }));
            }
            EventKind::ToolStart { action, tool, arguments } => {
                let args = self.gateway.services().redactor.redact(arguments);
                let args: String = args.chars().take(ARGUMENTS_CHARS_MAX).collect();
                let call = json!({
                    "tool": tool, "state": "start", "action": action, "args": args,
                });
                self.push("activity", &call);
            }
            EventKind::ToolEnd { action, tool, failed, ms, .. } => {
                let state = if *failed { "failed" } else { "done" };
                let call = json!({ "tool": tool, "state": state, "action": action, "ms": ms });
                self.push("activity", &call);
            }
            EventKind::Sources { action, sources } => {
                // The trust in sources depends on who reads.
                let audience = memory::audience(self.access.role(), ChatKind::Private);
                let lines = sources.iter().filter_map(|source| {
                    replies::source_line(source, true, taint::is_untrusted(source, audience))
                });
                // The page shows them as plain text, not as markup.
                let lines: Vec<_> = lines.map(|line| unescaped(&line)).collect();
                self.push("activity", &json!({ "action": action, "sources": lines }));
            }
            _ => {}
        }
    }

    fn push(&mut self, event: &str, data: &Value) {
        self.ready.push_back(frame(event, None, &data.to_string()));
    }
}

/// Returns one event. JSON has no line ends of its own.
pub(super) fn frame(event: &str, id: Option<&str>, data: &str) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {event}\ndata: {data}\n\n").into()
}

/// Returns the content of a file, in pieces.
pub(super) fn pieces(file: File) -> impl Stream<Item = std::io::Result<Bytes>> {
    unfold(file, |mut file| async move {
        let mut piece = vec![0; PIECE_BYTES];
        match file.read(&mut piece).await {
            Ok(0) => None,
            Ok(length) => {
                piece.truncate(length);
                Some((Ok(piece.into()), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    })
}
