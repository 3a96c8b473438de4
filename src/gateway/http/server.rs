//! The listener: accepts connections within their bounds, and ends them in order.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::connection::ReadConnection;
use super::state::HttpGateway;
use super::{
    chat, events, folders, guard, health, lists, logins, metrics, openai, page, proposed,
    questions, sign_ins, stream, webhooks,
};
use crate::channels::web::GatewayPort;
use crate::gateway::config::RequestTimes;
use crate::replies;

/// Maximum size of a header, in bytes, and number of its lines.
const HEADER_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// Pause after a connection could not be accepted, because the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Pause before the gateway tries a port again that another program uses.
const BIND_PAUSE: Duration = Duration::from_secs(10);

/// Serves until `stop`. Requests that are being answered then are finished.
pub async fn run(gateway: Arc<HttpGateway>, stop: CancellationToken) {
    let Some(listener) = bind(&gateway, &stop).await else { return };
    let counting = gateway.counters.follow(gateway.services());
    let noting = gateway.events.follow(gateway.services(), gateway.web.name());
    let router = router(&gateway);
    let mut connections = JoinSet::new();
    let serving = async {
        loop {
            while connections.try_join_next().is_some() {}
            if connections.len() >= gateway.config.connections_max {
                connections.join_next().await;
                continue;
            }
            match listener.accept().await {
                Ok((stream, _)) => {
                    let times = gateway.config.times;
                    connections.spawn(serve(stream, router.clone(), times, stop.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection of the gateway");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = serving => {}
        () = counting => {}
        () = noting => {}
    }
    gateway.url.send_replace(None);
    while connections.join_next().await.is_some() {}
}

/// Listens as soon as the address is free. None if `stop` comes first.
async fn bind(gateway: &HttpGateway, stop: &CancellationToken) -> Option<TcpListener> {
    let listen = gateway.config.listen;
    let mut is_logged = false;
    loop {
        match TcpListener::bind(listen).await {
            Ok(listener) => {
                let bound = listener.local_addr().unwrap_or(listen);
                gateway.web.note_port(GatewayPort::Open);
                gateway.url.send_replace(Some(gateway.url_of(bound)));
                tracing::info!(address = %bound, "The gateway listens");
                return Some(listener);
            }
            Err(error) => {
                let reason = replies::gateway_cannot_listen(listen, &error);
                gateway.web.note_port(GatewayPort::Refused(reason));
                if !is_logged {
                    tracing::error!(address = %listen, %error, "The gateway cannot listen, will keep trying");
                    is_logged = true;
                }
                stop.run_until_cancelled(sleep(BIND_PAUSE)).await?;
            }
        }
    }
}

fn router(gateway: &Arc<HttpGateway>) -> Router {
    let pages = Router::new()
        .route("/", get(page::index))
        .route("/app.css", get(page::style))
        .route("/app.js", get(page::script))
        .route("/lists.js", get(page::lists))
        .route("/sw.js", get(page::service_worker))
        .route("/icon.svg", get(page::icon));
    let chats = Router::new()
        .route("/sessions", get(chat::sessions))
        .route("/sessions/{session}", get(chat::messages))
        .route("/sessions/{session}/stream", get(stream::open))
        .route("/sessions/{session}/files/{id}", get(chat::file))
        .route("/messages", post(chat::say))
        .route("/press", post(chat::press))
        .route("/files", post(chat::upload));
    let lists = Router::new()
        .route("/jobs", get(lists::jobs))
        .route("/jobs/{id}", post(lists::change_job))
        .route("/waiting", get(lists::waiting))
        .route("/approvals/{id}", post(lists::decide))
        .route("/questions/{id}", post(questions::answer))
        .route("/proposals/{id}", post(proposed::decide))
        .route("/usage", get(lists::usage))
        .route("/channels", get(lists::channels))
        .route("/workspace", get(folders::list))
        .route("/workspace/file", get(folders::file));
    let logins = Router::new()
        .route("/login", post(logins::begin))
        .route("/logout", post(logins::end))
        .route("/me", get(logins::me))
        .route("/sign-ins", get(sign_ins::list))
        .route("/sign-ins/{id}", post(sign_ins::change));
    let api = Router::new()
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{id}", get(openai::model))
        .route("/v1/chat/completions", post(openai::complete))
        .route("/hooks/{name}", post(webhooks::call))
        .route("/events", get(events::open))
        .route("/openapi.json", get(page::openapi));
    Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .merge(pages)
        .merge(chats)
        .merge(lists)
        .merge(logins)
        .merge(api)
        .fallback(guard::not_found)
        .method_not_allowed_fallback(guard::not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(gateway), guard::check))
        .with_state(Arc::clone(gateway))
}

/// Serves one connection until it ends.
async fn serve(stream: TcpStream, router: Router, times: RequestTimes, stop: CancellationToken) {
    stream.set_nodelay(true).ok();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(times.header)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let service = TowerToHyperService::new(router);
    let stream = ReadConnection::new(stream, times.unread);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // A client that breaks a connection is no fault of ours.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await.ok();
        }
    }
}
