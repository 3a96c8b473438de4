//! Messages to and from the page and other programs, and their sessions.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use futures_util::StreamExt as _;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout_at};

use super::access::WebPerson;
use super::guard::{Fields, PathParts, QueryFields};
use super::html;
use super::publish::MESSAGES_PER_MINUTE;
use super::refusal::HttpRefusal;
use super::state::HttpGateway;
use crate::bus::feed::{self, Cursor, Post, PostContent};
use crate::channels::chunking::kind_of;
use crate::channels::web::FILE_BYTES_MAX;
use crate::control::MESSAGE_BYTES_MAX;
use crate::replies;
use crate::secret::Redactor;
use crate::types::message::{
    Address, Body, DeliveryId, Fetched, InboundContent, MediaKind, MediaRef, Press,
};

/// Maximum number of messages that are returned at a time.
const PAGE_MAX: usize = 50;

/// Maximum number of listed sessions.
const SESSIONS_MAX: usize = 200;

/// Maximum number of files of one message.
const FILES_MAX: usize = 10;

const SESSION_CHARS_MAX: usize = 40;
const NAME_CHARS_MAX: usize = 200;

/// A message, as pages and programs get it.
#[derive(Debug, Serialize)]
pub(super) struct Message {
    /// The position after the message, from which a stream continues.
    pub(super) cursor: String,
    /// The bot's messages have ids, and can be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    from: &'static str,
    at: DateTime<Utc>,
    text: String,
    /// The text as HTML that is safe to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<String>,
    /// The labels of the buttons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    choices: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileShown>,
}

#[derive(Debug, Serialize)]
struct FileShown {
    name: String,
    /// Relative to the session. None for a file that the person has sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    is_image: bool,
}

impl Message {
    pub(super) fn of(post: Post, redactor: &Redactor) -> Self {
        let (cursor, at) = (post.cursor.to_string(), post.at);
        let empty = Self {
            cursor,
            id: None,
            from: "you",
            at,
            text: String::new(),
            html: None,
            replaces: None,
            choices: Vec::new(),
            files: Vec::new(),
        };
        match post.content {
            PostContent::Heard { inbound, .. } => {
                let InboundContent { text, media, .. } = inbound.body;
                Self { text, files: media.iter().map(FileShown::received).collect(), ..empty }
            }
            PostContent::Sent { id, body, replaces, decided } => {
                let text = redactor.redact(body.text()).into_owned();
                let html = match &body {
                    Body::Printed(_) => html::render_printed(&text),
                    Body::File(file) if file.printed => html::render_printed(&text),
                    Body::Text(_) | Body::Choice(_) | Body::File(_) => html::render(&text),
                };
                let (choices, files) = match body {
                    Body::Choice(question) if !decided => {
                        (question.choices.into_iter().map(|it| it.label).collect(), Vec::new())
                    }
                    Body::File(file) => (Vec::new(), vec![FileShown::sent(id, file.name)]),
                    _ => (Vec::new(), Vec::new()),
                };
                let (id, replaces) = (Some(id.0.to_string()), replaces.map(|it| it.to_string()));
                Self { id, from: "bot", text, html: Some(html), replaces, choices, files, ..empty }
            }
        }
    }
}

impl FileShown {
    fn received(file: &MediaRef) -> Self {
        let failed = match &file.fetched {
            Some(Fetched::Failed(reason)) => format!(" ({reason})"),
            _ => String::new(),
        };
        let name = format!("{}{failed}", file.name.as_deref().unwrap_or("file"));
        Self { name, id: None, is_image: false }
    }

    fn sent(id: DeliveryId, name: String) -> Self {
        let is_image = picture_type(&name).is_some();
        Self { name, id: Some(id.0.to_string()), is_image }
    }
}

/// Returns the trimmed name of a session, or an error if it does not fit into URLs and lists.
pub(super) fn session_name(name: &str) -> Result<&str, HttpRefusal> {
    let name = name.trim();
    // Invisible characters could make two names look alike.
    let is_allowed = |c: char| !c.is_control() && !replies::is_invisible(c) && c != '/';
    match !name.is_empty()
        && name.chars().count() <= SESSION_CHARS_MAX
        && name.chars().all(is_allowed)
    {
        true => Ok(name),
        false => Err(HttpRefusal::bad(
            "a session's name has 1 to 40 characters that can be seen, and no slash",
        )),
    }
}

impl HttpGateway {
    pub(super) fn address(
        &self,
        person: &WebPerson,
        session: &str,
    ) -> Result<Address, HttpRefusal> {
        Ok(self.web.address(&person.id, session_name(session)?))
    }
}

/// `GET /sessions`
pub(super) async fn sessions(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
) -> Result<Json<Value>, HttpRefusal> {
    let prefix = format!("{}/", person.id);
    let own_prefix = prefix.clone();
    let chats = move |store: &Connection| feed::chats(store, &own_prefix, SESSIONS_MAX);
    let chats = gateway.services().bus.store.read(chats).await?;
    let named = chats.iter().map(|(chat, at)| {
        let name = chat.as_str().strip_prefix(&prefix).unwrap_or_default();
        json!({ "name": name, "at": at })
    });
    Ok(Json(json!({ "sessions": named.collect::<Vec<_>>() })))
}

#[derive(Deserialize)]
pub(super) struct Paging {
    before: Option<String>,
}

/// `GET /sessions/NAME`: the last messages, or those before a position.
pub(super) async fn messages(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    PathParts(session): PathParts<String>,
    QueryFields(Paging { before }): QueryFields<Paging>,
) -> Result<Json<Value>, HttpRefusal> {
    let address = gateway.address(&person, &session)?;
    let before: Option<Cursor> = match before {
        Some(text) => {
            Some(text.parse().map_err(|()| HttpRefusal::bad("`before` is not a valid position"))?)
        }
        None => None,
    };
    let read = move |store: &Connection| {
        let posts = feed::before(store, &address.chat, before, PAGE_MAX)?;
        Ok((posts, feed::end(store, &address.chat)?))
    };
    let (posts, end) = gateway.services().bus.store.read(read).await?;
    let first = posts.first().filter(|_| posts.len() == PAGE_MAX).map(|it| it.before().to_string());
    let cursor = posts.last().map_or(end, |post| post.cursor).to_string();
    let redactor = &gateway.services().redactor;
    let messages: Vec<_> = posts.into_iter().map(|post| Message::of(post, redactor)).collect();
    Ok(Json(json!({ "messages": messages, "before": first, "cursor": cursor })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMessage {
    session: String,
    /// Chosen by the client: a repeated request has no second effect.
    id: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    files: Vec<UploadedFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UploadedFile {
    id: String,
    name: String,
}

impl UploadedFile {
    fn media(self) -> MediaRef {
        let name: String =
            self.name.chars().filter(|it| !it.is_control()).take(NAME_CHARS_MAX).collect();
        let mime = picture_type(&name).map(ToOwned::to_owned);
        MediaRef {
            kind: kind_of(&name),
            name: Some(name),
            mime,
            size: None,
            handle: self.id,
            fetched: None,
            quoted: false,
        }
    }
}

/// `POST /messages`
pub(super) async fn say(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    Fields(message): Fields<NewMessage>,
) -> Result<Response, HttpRefusal> {
    let NewMessage { session, id, text, files } = message;
    if text.trim().is_empty() && files.is_empty() {
        return Err(HttpRefusal::bad("the message is empty"));
    }
    if text.len() > MESSAGE_BYTES_MAX {
        let explanation =
            format!("the text is longer than {MESSAGE_BYTES_MAX} bytes; send it as a file");
        return Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, explanation));
    }
    if files.len() > FILES_MAX {
        return Err(HttpRefusal::bad(format!("a message has at most {FILES_MAX} files")));
    }
    let media = files.into_iter().map(UploadedFile::media).collect();
    let body = InboundContent { text, media, ..InboundContent::default() };
    let from = gateway.address(&person, &session)?;
    Ok(gateway.publish(&person, from, &id, body).await?.status().into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PressedButton {
    session: String,
    id: String,
    /// The id of the question's message.
    message: String,
    /// The index of the button.
    choice: usize,
}

/// `POST /press`
pub(super) async fn press(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    Fields(pressed): Fields<PressedButton>,
) -> Result<Response, HttpRefusal> {
    let PressedButton { session, id, message, choice } = pressed;
    let delivery = message.parse().map_err(|_| HttpRefusal::bad("`message` is not an id"))?;
    let press = Press { delivery: DeliveryId(delivery), choice };
    let from = gateway.address(&person, &session)?;
    let body = InboundContent { press: Some(press), ..InboundContent::default() };
    Ok(gateway.publish(&person, from, &id, body).await?.status().into_response())
}

/// `POST /files`: the body is the content. Its id goes with the next message.
pub(super) async fn upload(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    request: Request,
) -> Result<Json<Value>, HttpRefusal> {
    if !gateway.limits.allows(&format!("files {}", person.id), MESSAGES_PER_MINUTE) {
        return Err(HttpRefusal::too_many());
    }
    let failed = |error| HttpRefusal::not_kept(&error);
    let begun = gateway.web.files.begin_upload(&person.id).await;
    let (handle, mut file) = begun.map_err(failed)?;
    let mut pieces = request.into_body().into_data_stream();
    let until = Instant::now() + gateway.config.times.upload;
    let copied = timeout_at(until, async {
        let mut length = 0_u64;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| HttpRefusal::bad("the upload ended early"))?;
            length += u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if length > FILE_BYTES_MAX {
                let explanation = format!("a file has at most {} MB", FILE_BYTES_MAX / 1_000_000);
                return Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, explanation));
            }
            file.write_all(&piece).await.map_err(failed)?;
        }
        file.sync_all().await.map_err(failed)
    });
    let late = || HttpRefusal::new(StatusCode::REQUEST_TIMEOUT, "the upload took too long");
    match copied.await.map_err(|_| late()).and_then(|copied| copied) {
        Ok(()) => Ok(Json(json!({ "id": handle }))),
        Err(refusal) => {
            gateway.web.files.forget_upload(&handle).await;
            Err(refusal)
        }
    }
}

/// `GET /sessions/NAME/files/ID`: a file that the bot has sent. Only pictures are shown in the page.
pub(super) async fn file(
    State(gateway): State<Arc<HttpGateway>>,
    person: WebPerson,
    PathParts((session, id)): PathParts<(String, i64)>,
) -> Result<Response, HttpRefusal> {
    let address = gateway.address(&person, &session)?;
    let id = DeliveryId(id);
    let sent = move |store: &Connection| feed::sent(store, &address.chat, id);
    let sent = gateway.services().bus.store.read(sent).await?;
    let gone = || HttpRefusal::not_found("this file is gone");
    let Some(PostContent::Sent { body: Body::File(file), .. }) = sent else { return Err(gone()) };
    let content = gateway.web.files.open_sent(id).await.map_err(|_| gone())?;
    let length = content.metadata().await.map_err(|_| gone())?.len();
    let mut response = HttpBody::from_stream(super::stream::pieces(content)).into_response();
    let headers = response.headers_mut();
    let (media_type, disposition) = match (picture_type(&file.name), file.kind) {
        (Some(media_type), MediaKind::Image) => (media_type, "inline"),
        _ => ("application/octet-stream", "attachment"),
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(disposition));
    Ok(response)
}

/// Returns the media type of a picture that browsers show, by its name. Not SVG, which can contain scripts.
pub(super) fn picture_type(name: &str) -> Option<&'static str> {
    let ending = name.rsplit_once('.')?.1.to_ascii_lowercase();
    match ending.as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}
