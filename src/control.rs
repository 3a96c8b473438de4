//! The Unix socket for the command line. Requests and responses are lines of JSON. `status` and `pair` get one
//! line back; `chat` turns the connection into a terminal. Not here: the text in which the command line shows
//! the responses (`cli`).

mod chat;
pub mod disk_usage;
pub mod health;
mod lines;
pub mod listing;
mod requests;
mod protocol;
pub mod send;
mod server;
mod sessions;
mod socket;
#[cfg(feature = "gateway")]
mod web;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadHalf, WriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use lines::LINE_BYTES_MAX;
#[cfg(feature = "gateway")]
pub use protocol::WebRequest;
pub use protocol::{
    ACTIONS_MAX, ChannelStatus, ChatLine, ControlRequest, MESSAGE_BYTES_MAX, McpServerStatus,
    Response, SessionsRequest, Status,
};
pub use server::{ControlServer, ReloadReport, ReloadRequest};
pub(crate) use server::{channel_statuses, removed_channels};
use socket::is_ours;
pub use socket::{SOCKET, bind, connect};

use crate::bus::journal;
use crate::control::chat::ChatClient;
use crate::control::disk_usage::DiskUsage;
use crate::control::health::Health;
use crate::control::lines::{BoundedLines, write_line};
use crate::conversation::ledger::breakdown::{describe_usage, usage_since};
use crate::conversation::{model_waits, transcript};
use crate::replies;
use crate::store::StoreError;
use crate::tasks::schedule;
use crate::tools::McpServerEntry;
use crate::turn::instructions::prompt_tokens;

/// Maximum number of connections. For one more, the oldest is closed that has not sent a request. More wait only
/// while all have sent theirs.
const CONNECTIONS_MAX: usize = 32;

/// Maximum number of chats among the connections, so that `status` and `pair` always get through.
const CHATS_MAX: usize = 16;

/// Maximum time to collect the status: more than twice the time for the health.
const STATUS_TIME_MAX: Duration = Duration::from_secs(14);

/// Maximum time until a client has sent its request. The command line sends it as soon as it has connected; five
/// seconds are enough for a board that swaps.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);

/// Maximum time, after the stop, for requests whose outcome the client could not find out otherwise. It is within that of
/// the daemon's stage.
const LAST_REQUESTS_TIME_MAX: Duration = Duration::from_secs(3);

/// Maximum time, after the stop, until no connection waits to be accepted any more. Nobody finds the socket then.
const BACKLOG_TIME_MAX: Duration = Duration::from_millis(10);

/// Serves clients of the socket in `home` until `stop`. Then it refuses those whose request it has not read, so that they
/// can ask again, and finishes the others.
pub async fn run(
    server: Arc<ControlServer>,
    listener: Arc<UnixListener>,
    home: PathBuf,
    stop: CancellationToken,
) {
    let mut silent = SilentConnections::new(stop.clone());
    let mut clients = JoinSet::new();
    let chats = Arc::new(Semaphore::new(CHATS_MAX));
    let serve =
        |client| serve_client(client, Arc::clone(&server), Arc::clone(&chats), stop.clone());
    loop {
        tokio::select! {
            // A request that was read has its place before a newcomer.
            biased;
            () = stop.cancelled() => break,
            Some(read) = silent.reading.join_next() => if let Some(client) = client_of(read) {
                clients.spawn(serve(client));
            },
            Some(served) = clients.join_next() => if let Err(error) = served {
                tracing::error!(%error, "A control connection broke");
            },
            accepted = listener.accept(), if clients.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) if !is_ours(&stream) => {}
                Ok((stream, _)) => silent.add(stream, CONNECTIONS_MAX - clients.len()),
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a control connection");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            },
        }
    }
    std::fs::remove_file(home.join(SOCKET)).ok();
    while let Ok(Ok((stream, _))) = timeout(BACKLOG_TIME_MAX, listener.accept()).await {
        if is_ours(&stream) {
            // The kernel bounds them.
            silent.add(stream, usize::MAX);
        }
    }
    let last_requests = async {
        loop {
            tokio::select! {
                Some(read) = silent.reading.join_next() => if let Some(client) = client_of(read) {
                    clients.spawn(serve(client));
                },
                Some(served) = clients.join_next() => if let Err(error) = served {
                    tracing::error!(%error, "A control connection broke");
                },
                else => return,
            }
        }
    };
    if timeout(LAST_REQUESTS_TIME_MAX, last_requests).await.is_err() {
        tracing::warn!("Closed control connections before their requests were finished");
    }
}

/// Returns the client whose request was read. None for a connection without one.
fn client_of(
    read: Result<std::io::Result<Option<ControlClient<UnixStream>>>, JoinError>,
) -> Option<ControlClient<UnixStream>> {
    match read {
        Ok(read) => read.ok().flatten(),
        Err(error) => {
            if error.is_panic() {
                tracing::error!(%error, "A control connection broke");
            }
            None
        }
    }
}

async fn serve_client(
    client: ControlClient<UnixStream>,
    server: Arc<ControlServer>,
    chats: Arc<Semaphore>,
    stop: CancellationToken,
) {
    // A client that has gone needs nothing.
    client.serve(&server, &chats, &stop).await.ok();
}

/// Serves the client of the daemon's own terminal until it ends.
pub async fn serve(
    server: &ControlServer,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
) -> std::io::Result<()> {
    let stop = CancellationToken::new();
    match ControlClient::read(stream, &stop).await? {
        Some(client) => client.serve(server, &Semaphore::new(1), &stop).await,
        None => Ok(()),
    }
}

/// Connections that have not sent their request yet.
struct SilentConnections {
    stop: CancellationToken,
    reading: JoinSet<std::io::Result<Option<ControlClient<UnixStream>>>>,
    /// The same, the oldest first.
    oldest: VecDeque<AbortHandle>,
}

impl SilentConnections {
    fn new(stop: CancellationToken) -> Self {
        Self { stop, reading: JoinSet::new(), oldest: VecDeque::new() }
    }

    /// Reads the request of a connection. Closes the oldest ones if all `places` are taken.
    fn add(&mut self, stream: UnixStream, places: usize) {
        self.oldest.retain(|reading| !reading.is_finished());
        while self.oldest.len() >= places
            && let Some(oldest) = self.oldest.pop_front()
        {
            tracing::debug!("Closed a control connection that sent no request, for a newer one");
            oldest.abort();
        }
        let stop = self.stop.clone();
        let reading = self.reading.spawn(async move { ControlClient::read(stream, &stop).await });
        self.oldest.push_back(reading);
    }
}

/// A client that has sent its request.
struct ControlClient<S> {
    request: String,
    lines: BoundedLines<ReadHalf<S>>,
    out: BufWriter<WriteHalf<S>>,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ControlClient<S> {
    /// Reads the request of a client. None if it sends none in time, or before `stop`, which the client is told.
    async fn read(stream: S, stop: &CancellationToken) -> std::io::Result<Option<Self>> {
        let (read, write) = tokio::io::split(stream);
        let mut lines = BoundedLines::new(read);
        let mut out = BufWriter::new(write);
        let read = tokio::select! {
            biased;
            read = timeout(REQUEST_TIME_MAX, lines.next()) => read,
            () = stop.cancelled() => {
                write_line(&mut out, &Response::NotTaken).await?;
                return Ok(None);
            }
        };
        match read {
            Ok(Ok(Some(request))) => Ok(Some(Self { request, lines, out })),
            Ok(Err(error)) => {
                write_line(&mut out, &Response::Failed(error.to_string())).await?;
                Ok(None)
            }
            Ok(Ok(None)) | Err(_) => Ok(None),
        }
    }

    /// Answers the request, or talks until the client ends. A request that can be repeated ends at `stop`.
    async fn serve(
        self,
        server: &ControlServer,
        chats: &Semaphore,
        stop: &CancellationToken,
    ) -> std::io::Result<()> {
        let request = serde_json::from_str::<ControlRequest>(&self.request);
        let is_repeatable = request.as_ref().is_ok_and(ControlRequest::is_repeatable);
        tokio::select! {
            biased;
            answered = Box::pin(self.answer(request, server, chats, stop)) => answered,
            () = stop.cancelled(), if is_repeatable => Ok(()),
        }
    }

    /// Answers the request, or talks until the client ends. Refuses a chat if there are too many.
    async fn answer(
        self,
        request: serde_json::Result<ControlRequest>,
        server: &ControlServer,
        chats: &Semaphore,
        stop: &CancellationToken,
    ) -> std::io::Result<()> {
        let Self { request: _, lines, mut out } = self;
        let response = match request {
            Ok(ControlRequest::Chat { session, events }) => {
                let Ok(_chat) = chats.try_acquire() else {
                    let message = replies::too_many_chats(CHATS_MAX);
                    return write_line(&mut out, &Response::Failed(message)).await;
                };
                return ChatClient::begin(server, session.into(), events).run(lines, out).await;
            }
            Ok(ControlRequest::Reload { json }) => return reload(server, json, &mut out).await,
            Ok(ControlRequest::Status) => match timeout(STATUS_TIME_MAX, status(server)).await {
                Ok(status) => status.map(|status| Response::Status(Box::new(status))),
                Err(_) => Ok(Response::Failed(replies::STORE_DOES_NOT_READ.to_owned())),
            },
            Ok(ControlRequest::Actions { limit }) => requests::actions(server, limit).await,
            Ok(ControlRequest::Listing { what }) => requests::listing(server, what).await,
            Ok(ControlRequest::Why { what }) => requests::why(server, &what).await,
            Ok(ControlRequest::Sessions { request }) => sessions::answer(server, request).await,
            Ok(ControlRequest::Doctor) => requests::examine(server).await,
            Ok(ControlRequest::Usage) => {
                let zone = server.turns.services.zone;
                let midnight = schedule::midnight(Utc::now(), zone);
                let read_usage = move |store: &_| describe_usage(store, midnight, zone);
                server.turns.services.bus.store.read(read_usage).await.map(Response::Done)
            }
            Ok(ControlRequest::Pair { words, json }) => requests::pair(server, &words, json).await,
            Ok(ControlRequest::People { words }) => requests::people(server, &words).await,
            Ok(ControlRequest::Budget { json: true, .. }) => requests::budget_listing(server).await,
            Ok(ControlRequest::Budget { words, .. }) => requests::budget(server, &words).await,
            Ok(ControlRequest::Heartbeat { json: true, .. }) => {
                requests::heartbeat_listing(server).await
            }
            Ok(ControlRequest::Heartbeat { wish, .. }) => requests::heartbeat(server, wish).await,
            #[cfg(feature = "gateway")]
            Ok(ControlRequest::Web { request }) => web::answer(server, request).await,
            Ok(ControlRequest::Send(request)) => requests::send(server, request, stop).await,
            Ok(ControlRequest::Cron { wanted, to }) => requests::cron(server, *wanted, to).await,
            Err(error) => Ok(Response::Failed(format!("cannot read the request: {error}"))),
        };
        let response = response.unwrap_or_else(|error| Response::Failed(error.to_string()));
        write_line(&mut out, &response).await
    }
}

/// Collects the status of the daemon.
pub async fn status(server: &ControlServer) -> Result<Status, StoreError> {
    let turns = &server.turns;
    let services = &turns.services;
    let health = Health::examine(&services.bus).await;
    let counted = services.bus.store.read(move |store| {
        let month_ago = Utc::now() - chrono::Duration::days(30);
        let used = usage_since(store, month_ago)?.usage;
        let waiting = journal::waiting_origins(store)?.len();
        let awaiting_model = model_waits::waiting(store)?;
        Ok((transcript::count_running(store)?, waiting, awaiting_model, used))
    });
    let (turns_running, waiting, awaiting_model, used) = counted.await?;
    let skills = services
        .workspace
        .run_blocking(|workspace| crate::workspace::skills::catalogue(workspace).skills.len());
    let mcp_tools = turns.tools.mcp_tools();
    let mcp = mcp_tools.mcp_servers.iter().map(|mcp_server| {
        let McpServerEntry { name, up, tools, trouble } = mcp_server.clone();
        (name, McpServerStatus { up, tools, trouble })
    });
    Ok(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        home: server.home.clone(),
        pid: std::process::id(),
        since: server.since,
        health,
        safe_mode: server.agent.safe_mode,
        disk: DiskUsage::measure(&services.bus.store).await?,
        provider: turns.models.default.name().to_owned(),
        model_troubles: turns.models.all.troubles.all(),
        tools: turns.tools.len(),
        skills: skills.await,
        prompt_tokens: prompt_tokens(turns).await,
        turns_running,
        waiting,
        awaiting_model,
        tokens_30_days: used.input + used.output,
        indexing: server.indexing.count(),
        channels: channel_statuses(server).await?,
        removed_channels: removed_channels(server).await?,
        mcp: mcp.collect(),
        shell: server.agent.shell.clone(),
        heartbeat: turns.heartbeat.describe().await?,
        config_warnings: None,
    })
}

async fn reload(
    server: &ControlServer,
    json: bool,
    out: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let (answer, answer_receiver) = oneshot::channel();
    let (written_sender, written) = oneshot::channel();
    let asked = match server.reloads.get() {
        Some(reloads) => reloads.send(ReloadRequest { answer, written }).await.is_ok(),
        None => false,
    };
    let result = if asked { answer_receiver.await.ok() } else { None };
    let result = result.unwrap_or_else(|| Err(replies::CANNOT_RELOAD.to_owned()));
    let response = match result {
        Err(reason) => Response::Failed(reason),
        Ok(report) if json => Response::listing(&report),
        Ok(report) => Response::Done(replies::reloaded(&report.warnings)),
    };
    let write_result = write_line(out, &response).await;
    if write_result.is_ok() {
        written_sender.send(()).ok();
    }
    write_result
}
