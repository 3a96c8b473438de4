//! Socket Mode: links with tickets, envelopes until they are acknowledged, and links that misbehave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::interval;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::{APP, Inner};

/// How often a link looks whether something is due.
const TICK: Duration = Duration::from_millis(20);

/// What becomes of the link that is there now, or of the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LinkFault {
    /// Not a byte any more, though the connection stands.
    Silent,
    /// The connection is gone, without a word.
    Drop,
    /// Slack says why.
    Disconnect(&'static str),
    /// Nonsense, between the envelopes.
    Nonsense,
}

pub(super) async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    let mut links = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        links.spawn(link(stream, Arc::clone(&inner)));
    }
}

#[expect(clippy::result_large_err, reason = "the shape that the handshake wants")]
async fn link(stream: TcpStream, inner: Arc<Inner>) {
    let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let known = inner.change(|state| {
            let at = state.tickets.iter().position(|ticket| query.contains(ticket.as_str()));
            at.map(|at| state.tickets.remove(at))
        });
        match known {
            Some(_) => Ok(response),
            None => {
                let mut refusal = ErrorResponse::new(Some("invalid ticket".to_owned()));
                *refusal.status_mut() = axum::http::StatusCode::FORBIDDEN;
                Err(refusal)
            }
        }
    };
    let Ok(mut stream) = accept_hdr_async(stream, check).await else { return };
    let is_greeted = inner.change(|state| {
        let is_greeted = state.greetings_withheld == 0;
        state.greetings_withheld = state.greetings_withheld.saturating_sub(1);
        is_greeted
    });
    if !is_greeted {
        // It answers pings.
        while let Some(Ok(_)) = stream.next().await {}
        return;
    }
    let (own, open) = inner.change(|state| {
        state.link += 1;
        state.open_links += 1;
        (state.link, state.open_links)
    });
    greet_and_keep(stream, own, open, &inner).await;
    inner.change(|state| state.open_links -= 1);
}

async fn greet_and_keep(
    mut stream: WebSocketStream<TcpStream>,
    own: u64,
    open: u32,
    inner: &Inner,
) {
    let hello = json!({
        "type": "hello", "num_connections": open, "connection_info": { "app_id": APP },
        "debug_info": {
            "host": "applink-1", "build_number": 10, "approximate_connection_time": 18060
        }
    });
    let fault = inner.look().take_link_fault(true);
    if let Some(LinkFault::Disconnect(reason)) = fault {
        say(&mut stream, &disconnect(reason)).await.ok();
        return;
    }
    if say(&mut stream, &hello).await.is_err() {
        return;
    }
    keep(stream, own, inner).await;
}

async fn keep(mut stream: WebSocketStream<TcpStream>, own: u64, inner: &Inner) {
    let mut changed = inner.subscribe();
    let every = inner.look().ping_every;
    let (mut tick, mut ping) = (interval(TICK), interval(every));
    loop {
        tokio::select! {
            came = stream.next() => match came {
                Some(Ok(Message::Text(text))) => heard(text.as_str(), inner),
                Some(Ok(Message::Close(_))) => return inner.change(|state| state.goodbyes += 1),
                Some(Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            _ = changed.changed() => {}
            _ = tick.tick() => {}
            _ = ping.tick() => {
                if stream.send(Message::Ping(Vec::new().into())).await.is_err() {
                    return;
                }
            }
        }
        if inner.look().link != own {
            // Only the newest link gets what comes.
            continue;
        }
        let fault = inner.look().take_link_fault(false);
        match fault {
            None => {}
            Some(LinkFault::Silent) => std::future::pending().await,
            Some(LinkFault::Drop) => return,
            Some(LinkFault::Nonsense) => {
                for nonsense in ["{\"type\":", "[]", "{\"type\":\"of_next_year\"}"] {
                    stream.send(Message::text(nonsense)).await.ok();
                }
            }
            Some(LinkFault::Disconnect(reason)) => {
                say(&mut stream, &disconnect(reason)).await.ok();
                // Slack closes it a little later; until then, nothing comes on it any more.
                while let Some(Ok(message)) = stream.next().await {
                    inner.change(|state| state.goodbyes += u64::from(message.is_close()));
                }
                return;
            }
        }
        for envelope in due(own, inner) {
            if say(&mut stream, &envelope).await.is_err() {
                return;
            }
        }
    }
}

/// What was not sent on this link yet, or not acknowledged in time.
fn due(own: u64, inner: &Inner) -> Vec<Value> {
    let mut state = inner.look();
    let again_after = state.again_after;
    let due: Vec<Value> = state
        .pending
        .iter_mut()
        .filter(|envelope| {
            envelope.sent.is_none_or(|(link, at)| link != own || at.elapsed() > again_after)
        })
        .map(|envelope| {
            envelope.sent = Some((own, Instant::now()));
            envelope.json()
        })
        .collect();
    state.delivered += due.len();
    due
}

fn heard(text: &str, inner: &Inner) {
    inner.change(|state| {
        let words: Value = serde_json::from_str(text).unwrap_or_default();
        let id = words["envelope_id"].as_str().unwrap_or_default();
        let fields = words.as_object().map_or(0, serde_json::Map::len);
        match state.pending.iter().position(|envelope| envelope.id == id) {
            Some(at)
                if fields == 1 || fields == 2 && state.pending[at].takes(&words["payload"]) =>
            {
                let envelope = state.pending.remove(at).unwrap();
                if let Some(text) = words["payload"]["text"].as_str() {
                    state.answers.push(text.to_owned());
                }
                state.acknowledged.push(envelope.id);
            }
            // Acknowledged on an older link, or twice.
            None if state.acknowledged.iter().any(|known| known == id) => {}
            _ => state.offences.push(format!("not an acknowledgement: {text}")),
        }
    });
}

fn disconnect(reason: &str) -> Value {
    json!({ "type": "disconnect", "reason": reason, "debug_info": { "host": "applink-1" } })
}

async fn say(
    stream: &mut WebSocketStream<TcpStream>,
    words: &Value,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    stream.send(Message::text(words.to_string())).await
}
