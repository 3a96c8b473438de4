//! The gateway's side of one WebSocket: HELLO, IDENTIFY or RESUME, heartbeats, events in order.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{
    ErrorResponse, Request as Upgrade, Response,
};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::Inner;
use super::line::GUILD;
use super::sessions::{ConnectionFault, Event};

/// Discord's intents that exist (gateway, list of intents).
const INTENTS_KNOWN: u64 = 0x331_FFFF;
const GUILDS: u64 = 1;
const GUILD_MESSAGES: u64 = 1 << 9;
const DIRECT_MESSAGES: u64 = 1 << 12;
const MESSAGE_CONTENT: u64 = 1 << 15;

/// The longest that the bot may take to say who it is.
const IDENTIFY_TIME_MAX: Duration = Duration::from_secs(20);

pub(super) async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let inner = Arc::clone(&inner);
        connections.spawn(async move {
            let muted = inner.change(|state| {
                let muted = state.sessions.mute > 0;
                state.sessions.mute = state.sessions.mute.saturating_sub(1);
                muted
            });
            if muted {
                std::future::pending::<()>().await;
            }
            if let Some(socket) = shake_hands(stream, &inner).await {
                let mut wire =
                    Wire { socket, inner, session: None, told: 0, intents: 0, is_frozen: false };
                // An end is an end, however it came.
                wire.speak().await.ok();
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

#[expect(clippy::result_large_err, reason = "the signature is tungstenite's")]
async fn shake_hands(stream: TcpStream, inner: &Inner) -> Option<WebSocketStream<TcpStream>> {
    let check = |upgrade: &Upgrade, response: Response| {
        let query = upgrade.uri().query().unwrap_or_default();
        let has = |part: &str| query.split('&').any(|other| other == part);
        if has("v=10") && has("encoding=json") {
            return Ok(response);
        }
        inner.change(|state| state.sessions.faults.push(format!("gateway asked with {query}")));
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = axum::http::StatusCode::BAD_REQUEST;
        Err(refusal)
    };
    tokio_tungstenite::accept_hdr_async(stream, check).await.ok()
}

struct Wire {
    socket: WebSocketStream<TcpStream>,
    inner: Arc<Inner>,
    session: Option<String>,
    /// The sequence number of the last event that went out here.
    told: usize,
    intents: u64,
    is_frozen: bool,
}

/// The connection is over.
struct Over;

impl Wire {
    async fn speak(&mut self) -> Result<(), Over> {
        let heartbeat = self.inner.change(|state| state.sessions.heartbeat_ms);
        let hello = json!({
            "op": 10, "d": { "heartbeat_interval": heartbeat, "_trace": [] }, "s": null, "t": null
        });
        self.tell(&hello).await?;
        let mut changed = self.inner.subscribe();
        loop {
            changed.borrow_and_update();
            self.disturb().await?;
            self.tell_events().await?;
            let heard = async {
                if self.session.is_some() {
                    return self.socket.next().await;
                }
                timeout(IDENTIFY_TIME_MAX, self.socket.next()).await.ok().flatten()
            };
            tokio::select! {
                heard = heard => match heard {
                    Some(Ok(Message::Text(text))) => self.hear(&text).await?,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    _ => return Err(Over),
                },
                _ = changed.changed() => {}
            }
        }
    }

    async fn hear(&mut self, text: &str) -> Result<(), Over> {
        let Ok(said) = serde_json::from_str::<Value>(text) else {
            return self.close(Some(4002)).await;
        };
        if self.is_frozen {
            return Ok(());
        }
        match said["op"].as_u64() {
            Some(1) => {
                if !(said["d"].is_null() || said["d"].is_u64()) {
                    return self.close(Some(4002)).await;
                }
                self.inner.change(|state| state.sessions.heartbeats += 1);
                self.tell(&json!({ "op": 11, "d": null })).await
            }
            Some(2 | 6) if self.ignores() => Ok(()),
            Some(2) => self.identify(&said["d"]).await,
            Some(6) => self.resume(&said["d"]).await,
            _ => {
                self.fault(format!("unknown op in {text}"));
                self.close(Some(4001)).await
            }
        }
    }

    /// Whether what is said now is one of those that are never answered.
    fn ignores(&self) -> bool {
        self.inner.change(|state| {
            let ignores = state.sessions.ignore > 0;
            state.sessions.ignore = state.sessions.ignore.saturating_sub(1);
            ignores
        })
    }

    async fn identify(&mut self, said: &Value) -> Result<(), Over> {
        if self.session.is_some() {
            return self.close(Some(4005)).await;
        }
        let token = said["token"].as_str().unwrap_or_default();
        if token.trim_start_matches("Bot ") != self.inner.look().token {
            return self.close(Some(4004)).await;
        }
        let properties = &said["properties"];
        if ["os", "browser", "device"].iter().any(|key| !properties[*key].is_string()) {
            return self.close(Some(4002)).await;
        }
        let Some(intents) = said["intents"].as_u64().filter(|asked| asked & !INTENTS_KNOWN == 0)
        else {
            return self.close(Some(4013)).await;
        };
        let (refused, allowed) = self
            .inner
            .change(|state| (state.sessions.refuse.pop_front(), state.sessions.content_allowed));
        if let Some(code) = refused {
            return self.close(Some(code)).await;
        }
        if intents & MESSAGE_CONTENT != 0 && !allowed {
            return self.close(Some(4014)).await;
        }
        self.intents = intents;
        let id = self.inner.change(|state| {
            state.sessions.identified += 1;
            let id = state.sessions.begin();
            let resume_url = state.sessions.resume_url.as_ref().unwrap_or(&state.gateway_url);
            let ready = json!({
                "v": 10, "user": state.bot.json(), "session_id": id, "shard": [0, 1],
                "resume_gateway_url": resume_url, "session_type": "normal",
                "guilds": [{ "id": GUILD.to_string(), "unavailable": true }],
                "private_channels": [], "relationships": [],
                "application": { "id": state.bot.id.to_string(), "flags": 0 },
            });
            let session = state.sessions.by_id.get_mut(&id).unwrap();
            session.log.push(("READY".to_owned(), ready));
            id
        });
        (self.session, self.told) = (Some(id), 0);
        Ok(())
    }

    async fn resume(&mut self, said: &Value) -> Result<(), Over> {
        let token = said["token"].as_str().unwrap_or_default();
        if token.trim_start_matches("Bot ") != self.inner.look().token {
            return self.close(Some(4004)).await;
        }
        if let Some(code) = self.inner.change(|state| state.sessions.refuse.pop_front()) {
            return self.close(Some(code)).await;
        }
        let id = said["session_id"].as_str().unwrap_or_default().to_owned();
        let seq = said["seq"].as_u64().and_then(|seq| usize::try_from(seq).ok());
        let told = self
            .inner
            .change(|state| state.sessions.by_id.get(&id).map(|session| session.log.len()));
        match (told, seq) {
            (None, _) => self.tell(&json!({ "op": 9, "d": false, "s": null, "t": null })).await,
            (Some(told), Some(seq)) if (1..=told).contains(&seq) => {
                self.intents = u64::MAX;
                (self.session, self.told) = (Some(id.clone()), seq);
                self.tell_events().await?;
                self.inner.change(|state| {
                    state.sessions.resumed += 1;
                    let session = state.sessions.by_id.get_mut(&id).unwrap();
                    session.log.push(("RESUMED".to_owned(), json!({ "_trace": [] })));
                });
                Ok(())
            }
            _ => self.close(Some(4007)).await,
        }
    }

    async fn tell_events(&mut self) -> Result<(), Over> {
        let Some(id) = &self.session else { return Ok(()) };
        let events: Vec<Event> = {
            let state = self.inner.look();
            let session = state.sessions.by_id.get(id);
            session.map(|session| session.log[self.told..].to_vec()).unwrap_or_default()
        };
        for (name, event) in events {
            if self.is_frozen {
                return Ok(());
            }
            self.told += 1;
            if let Some(event) = self.seen_with(&name, event) {
                let told = json!({ "op": 0, "t": name, "s": self.told, "d": event });
                self.tell(&told).await?;
            }
        }
        Ok(())
    }

    /// The event as these intents show it.
    fn seen_with(&self, name: &str, mut event: Value) -> Option<Value> {
        let in_server = event.get("guild_id").is_some();
        let needed = match name {
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" if in_server => GUILD_MESSAGES,
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" => DIRECT_MESSAGES,
            "GUILD_CREATE" | "THREAD_CREATE" | "CHANNEL_UPDATE" => GUILDS,
            _ => 0,
        };
        if self.intents & needed != needed {
            return None;
        }
        let to_us = event["mentions"].as_array().into_iter().flatten();
        let ours = self.inner.look().bot.id.to_string();
        let to_us = to_us.into_iter().any(|person| person["id"].as_str() == Some(&ours));
        if in_server
            && self.intents & MESSAGE_CONTENT == 0
            && !to_us
            && event["content"].is_string()
        {
            event["content"] = "".into();
        }
        Some(event)
    }

    fn take_disturbance(&self) -> Option<ConnectionFault> {
        self.inner.look().sessions.disturb.pop_front()
    }

    async fn disturb(&mut self) -> Result<(), Over> {
        if self.session.is_none() {
            return Ok(());
        }
        while let Some(disturb) = self.take_disturbance() {
            match disturb {
                ConnectionFault::Close(code) => return self.close(code).await,
                ConnectionFault::Cut => return Err(Over),
                ConnectionFault::Reconnect => {
                    self.tell(&json!({ "op": 7, "d": null, "s": null, "t": null })).await?;
                }
                ConnectionFault::InvalidSession { resumable } => {
                    if !resumable {
                        self.inner.change(|state| state.sessions.forget());
                    }
                    self.session = None;
                    self.tell(&json!({ "op": 9, "d": resumable, "s": null, "t": null })).await?;
                }
                ConnectionFault::Freeze => self.is_frozen = true,
                ConnectionFault::Garbage => {
                    let garbage = Message::Text("{\"op\":0,\"d\":".into());
                    self.socket.send(garbage).await.map_err(|_| Over)?;
                }
            }
        }
        Ok(())
    }

    async fn close(&mut self, code: Option<u16>) -> Result<(), Over> {
        let frame = code.map(|code| CloseFrame { code: code.into(), reason: "".into() });
        self.socket.close(frame).await.ok();
        Err(Over)
    }

    async fn tell(&mut self, said: &Value) -> Result<(), Over> {
        let text = Message::Text(said.to_string().into());
        self.socket.send(text).await.map_err(|_| Over)
    }

    fn fault(&self, what: String) {
        self.inner.change(|state| state.sessions.faults.push(what));
    }
}
