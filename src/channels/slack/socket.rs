//! One Socket Mode link. The loop is ours, not the SDK's: the SDK hides pings and `hello`, so that a silent
//! link would go unnoticed, has no deadlines, and reconnects forever when only the operator can help.

use std::time::Duration;

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use super::SlackDeadlines;
use crate::channels::{ChannelError, json};
use crate::http::is_loopback;

/// Maximum size of a message: far more than an event with its blocks and files needs.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Size of the read buffer, which lives as long as the link. Events are a few kilobytes.
const BUFFER_BYTES: usize = 16 << 10;

pub(super) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    deadlines: SlackDeadlines,
    opened: Instant,
    /// Number of the app's connections in Slack's greeting, with this one.
    connections: u64,
    /// The link counts as dead if no byte arrives before this.
    silent_at: Instant,
    ping_at: Instant,
}

/// A message of the link.
#[derive(Debug)]
pub(super) enum SocketFrame {
    Envelope(Envelope),
    /// Slack wants a new connection, or gives a reason why it rejects us.
    Disconnect(String),
}

/// A message to acknowledge.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) id: String,
    /// `events_api`, `interactive` or `slash_commands`.
    pub(super) kind: String,
    pub(super) payload: Value,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type")]
    kind: String,
    envelope_id: Option<String>,
    #[serde(default)]
    payload: Value,
    reason: Option<String>,
    /// A number, in the greeting only.
    #[serde(default)]
    num_connections: Value,
}

impl Drop for Socket {
    /// Sends a close frame if that needs no waiting. Slack counts a connection that just breaks for hours, and sends
    /// events there.
    fn drop(&mut self) {
        self.stream.send(Message::Close(None)).now_or_never();
    }
}

impl Socket {
    /// Connects, and waits for Slack's greeting. `url` contains a ticket, and is never shown.
    pub(super) async fn open(
        url: &str,
        may_be_plain: bool,
        deadlines: SlackDeadlines,
    ) -> Result<Self, ChannelError> {
        let is_safe = url.parse::<reqwest::Url>().is_ok_and(|url| match url.scheme() {
            "wss" => true,
            "ws" => may_be_plain && is_loopback(&url),
            _ => false,
        });
        if !is_safe {
            return Err(ChannelError::unavailable("slack's connection is not encrypted"));
        }
        let limits = WebSocketConfig::default()
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let connecting = connect_async_with_config(url, Some(limits), false);
        let (stream, _) = timeout(deadlines.connect, connecting)
            .await
            .map_err(|_| ChannelError::unavailable("slack's connection did not open in time"))?
            .map_err(|error| lost(&error))?;
        let now = Instant::now();
        let (silent_at, ping_at) = (now + deadlines.silence, now + deadlines.ping_every);
        let mut socket =
            Self { stream, deadlines, opened: now, connections: 1, silent_at, ping_at };
        match timeout(deadlines.connect, socket.frame(&|| {})).await {
            Ok(Ok(Some(raw))) if raw.kind == "hello" => {
                socket.connections = raw.num_connections.as_u64().unwrap_or(1);
                Ok(socket)
            }
            Ok(Ok(Some(raw))) => Err(refused(&raw.reason.unwrap_or(raw.kind))),
            Ok(Ok(None)) => Err(ChannelError::unavailable("slack's greeting cannot be read")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ChannelError::unavailable("slack sent no greeting on its connection")),
        }
    }

    /// Returns how long the link has been open.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Returns how many connections of the app Slack counted when this one was greeted, this one included.
    pub(super) fn connections(&self) -> u64 {
        self.connections
    }

    /// Waits for the next message. Calls `note_bytes` for everything received. Returns an error if the link is lost, or
    /// silent in spite of our pings. Cancel-safe.
    pub(super) async fn next(
        &mut self,
        note_bytes: &(dyn Fn() + Sync),
    ) -> Result<SocketFrame, ChannelError> {
        loop {
            let Some(raw) = self.frame(note_bytes).await? else { continue };
            match (raw.kind.as_str(), raw.envelope_id) {
                ("disconnect", _) => {
                    return Ok(SocketFrame::Disconnect(raw.reason.unwrap_or_default()));
                }
                (_, Some(id)) => {
                    let (kind, payload) = (raw.kind, raw.payload);
                    return Ok(SocketFrame::Envelope(Envelope { id, kind, payload }));
                }
                (_, None) => {}
            }
        }
    }

    /// Confirms that the envelope's event is stored. `answer` is shown only to the person who gave a
    /// command.
    pub(super) async fn acknowledge(
        &mut self,
        envelope: &str,
        answer: Option<&str>,
    ) -> Result<(), ChannelError> {
        let mut body = serde_json::json!({ "envelope_id": envelope });
        if let Some(text) = answer {
            body["payload"] = serde_json::json!({ "response_type": "ephemeral", "text": text });
        }
        self.send(Message::text(body.to_string())).await
    }

    /// Reads the next text. None if it is not one of Slack's.
    async fn frame(&mut self, note_bytes: &(dyn Fn() + Sync)) -> Result<Option<Raw>, ChannelError> {
        let now = Instant::now();
        if now >= self.silent_at {
            // The program was busy for so long that it neither pinged nor read.
            self.silent_at = now + self.deadlines.silence;
        }
        loop {
            let received = timeout_at(self.ping_at.min(self.silent_at), self.stream.next()).await;
            let message = match received {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => return Err(lost(&error)),
                Ok(None) => return Err(ChannelError::unavailable("slack has closed the link")),
                Err(_) if Instant::now() >= self.silent_at => {
                    return Err(ChannelError::unavailable("slack's link has fallen silent"));
                }
                Err(_) => {
                    self.ping_at = Instant::now() + self.deadlines.ping_every;
                    self.send(Message::Ping(Bytes::from_static(b"peacrab"))).await?;
                    continue;
                }
            };
            self.silent_at = Instant::now() + self.deadlines.silence;
            note_bytes();
            match message {
                Message::Text(text) => {
                    let raw = json::read(text.as_bytes()).and_then(Raw::deserialize);
                    if let Err(error) = &raw {
                        // It is no envelope, so there is nothing to acknowledge.
                        tracing::warn!(%error, "Slack sent an event that cannot be read");
                    }
                    return Ok(raw.ok());
                }
                Message::Close(_) => {
                    return Err(ChannelError::unavailable("slack has closed the link"));
                }
                Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_) => {}
            }
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), ChannelError> {
        match timeout(self.deadlines.call, self.stream.send(message)).await {
            Ok(sent) => sent.map_err(|error| lost(&error)),
            Err(_) => Err(ChannelError::unavailable("slack's connection accepts no more data")),
        }
    }
}

/// Returns the error for the reason that Slack gave for ending a link. A routine end is handled
/// elsewhere.
pub(super) fn refused(reason: &str) -> ChannelError {
    match reason {
        "link_disabled" => ChannelError::Closed(
            "Socket Mode is off for this app: switch it on at https://api.slack.com/apps under \
             Socket Mode"
                .to_owned(),
        ),
        "too_many_websockets" => ChannelError::unavailable(
            "too many programs are connected to this Slack app (ten at most): stop the others",
        ),
        other => ChannelError::unavailable(format!("slack ends the link: {other}")),
    }
}

fn lost(error: &Error) -> ChannelError {
    let reason = match error {
        // Its text may contain the URL, and so the ticket.
        Error::Url(_) | Error::Http(_) | Error::HttpFormat(_) => "slack's link was refused".into(),
        other => format!("slack's link was lost: {other}"),
    };
    ChannelError::unavailable(reason)
}
