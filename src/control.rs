//! The Unix socket that the command line talks to: JSON, a line each. `status` and `pair` get one
//! line back; `chat` turns the connection into a terminal.

mod chat;
pub mod disk_usage;
pub mod health;
mod lines;
pub mod listing;
mod orders;
pub mod send;
mod sessions;
mod socket;
#[cfg(feature = "gateway")]
mod web;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use lines::LINE_BYTES_MAX;
pub use sessions::SessionsRequest;
use socket::is_ours;
pub use socket::{SOCKET, bind, connect};
#[cfg(feature = "gateway")]
pub use web::WebRequest;

use crate::agent;
use crate::bus::outbox::{self, FailingDeliveries};
use crate::bus::{Link, LinkState, journal};
use crate::channels::terminal::Terminal;
use crate::control::chat::ChatClient;
use crate::control::disk_usage::DiskUsage;
use crate::control::health::Health;
use crate::control::lines::BoundedLines;
use crate::control::listing::Listing;
use crate::control::send::{SendOutcome, SendRequest};
use crate::conversation::actions::Action;
use crate::conversation::ledger::breakdown::{usage_since, usage_words};
use crate::conversation::{model_waits, transcript};
use crate::doctor::Finding;
use crate::replies;
use crate::sandbox::SandboxState;
use crate::store::StoreError;
use crate::tasks::heartbeat::HeartbeatRequest;
use crate::tasks::schedule::{self, JobRequest};
use crate::tools::McpServerEntry;
use crate::turn::instructions::prompt_tokens;
use crate::turn::services::TurnServices;
use crate::types::event::Event;
use crate::types::message::{Address, ChannelName};
use crate::types::safe_mode::SafeMode;

/// Connections at once; more wait.
const CONNECTIONS_MAX: usize = 32;

/// Connections of them that chat, so that `status` and `pair` always get through.
const CHATS_MAX: usize = 16;

/// A client that takes nothing for so long is gone.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);

/// Actions listed at once.
pub const ACTIONS_MAX: usize = 1_000;

/// Of one message of a terminal; more is a file that the model reads in parts. About 25,000 tokens.
pub const MESSAGE_BYTES_MAX: usize = 100_000;

/// Time for the state of the daemon: that of its health, and as much again and more.
const STATUS_TIME_MAX: Duration = Duration::from_secs(14);

/// Maximum time until a client has sent its request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// The first line of a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    Status,
    Usage,
    /// `list`, `approve CODE`, `deny CODE` or `revoke CHANNEL ID`.
    Pair {
        words: Vec<String>,
    },
    /// The last actions, newest first.
    Actions {
        limit: usize,
    },
    Listing {
        what: Listing,
    },
    /// The owner's conversations.
    Sessions {
        request: SessionsRequest,
    },
    /// Reads the config again.
    Reload,
    /// Asks each model for a word, and describes the links.
    Doctor,
    /// Jobs; what comes of a new one goes to the owner if nothing else is said.
    Cron {
        wanted: Box<JobRequest>,
        #[serde(default)]
        to: Option<Address>,
    },
    Heartbeat {
        wish: HeartbeatRequest,
    },
    /// `list`, `p5`, or `admin p5` and the like.
    People {
        words: Vec<String>,
    },
    /// `show`, `set WHOSE AMOUNT PER` or `reset WHOSE`.
    Budget {
        words: Vec<String>,
    },
    /// About the page in the browser.
    #[cfg(feature = "gateway")]
    Web {
        request: WebRequest,
    },
    /// A message of a script's, say.
    Send(SendRequest),
    Chat {
        session: String,
        /// Also show what happens inside the turns.
        #[serde(default)]
        events: bool,
    },
}

/// A further line of a client that chats.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatLine {
    pub say: String,
}

/// A line of ours.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    Status(Box<Status>),
    Done(String),
    Failed(String),
    /// The outcome of a send request.
    Sent(SendOutcome),
    /// Text that continues the draft.
    Text(String),
    /// The draft begins anew.
    Again,
    /// A whole message.
    Message(String),
    /// The message before is a question: the turn waits for what is typed now.
    Asks,
    /// All that was said here has had its outcome, and it was shown: `well`, or in words that say
    /// why there is no answer.
    Settled {
        well: bool,
    },
    Event(Box<Event>),
    Actions(Vec<Action>),
    Listing(Value),
    Findings(Vec<Finding>),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    pub home: String,
    pub pid: u32,
    pub since: DateTime<Utc>,
    #[serde(default)]
    pub health: Health,
    #[serde(default)]
    pub safe_mode: Option<SafeMode>,
    #[serde(default)]
    pub disk: DiskUsage,
    pub provider: String,
    pub tools: usize,
    pub skills: usize,
    pub prompt_tokens: usize,
    pub turns_running: usize,
    pub waiting: usize,
    /// Turns that wait for a model.
    #[serde(default)]
    pub awaiting_model: Option<model_waits::WaitingTurns>,
    pub tokens_30_days: u64,
    pub channels: BTreeMap<String, ChannelStatus>,
    /// MCP servers.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpServerStatus>,
    #[serde(default)]
    pub shell: SandboxState,
    /// In words.
    #[serde(default)]
    pub heartbeat: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct McpServerStatus {
    pub up: bool,
    pub tools: usize,
    pub trouble: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ChannelStatus {
    pub up: bool,
    pub about: String,
    /// Seconds since the platform's server was last heard.
    pub last_byte_s: Option<i64>,
    pub last_event_s: Option<i64>,
    pub trouble: Option<String>,
    /// Messages on their way out.
    pub pending: i64,
    /// Those of them that fail.
    #[serde(default)]
    pub failing: FailingDeliveries,
}

/// The server of the control socket.
pub struct ControlServer {
    pub turns: Arc<TurnServices>,
    pub agent: Arc<agent::Config>,
    pub terminal: Arc<Terminal>,
    pub links: BTreeMap<ChannelName, Arc<Link>>,
    pub home: String,
    pub since: DateTime<Utc>,
    /// Takes the requests to read the config again. Empty where nobody does.
    pub reloads: OnceLock<mpsc::Sender<ReloadRequest>>,
    /// The page in the browser; none without the gateway.
    #[cfg(feature = "gateway")]
    pub web: Option<crate::channels::web::WebEntrance>,
}

/// A request to read the config again.
pub struct ReloadRequest {
    /// The result, or the reason why the former config stays.
    pub answer: oneshot::Sender<Result<String, String>>,
    /// Comes when the answer is on its way to the client: the daemon may end then.
    pub written: oneshot::Receiver<()>,
}

/// Serves clients until `stop`.
pub async fn run(server: Arc<ControlServer>, listener: Arc<UnixListener>, stop: CancellationToken) {
    let mut clients = JoinSet::new();
    let chats = Arc::new(Semaphore::new(CHATS_MAX));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(served) = clients.join_next() => if let Err(error) = served {
                tracing::error!(%error, "A control connection broke");
            },
            accepted = listener.accept(), if clients.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) if !is_ours(&stream) => {}
                Ok((stream, _)) => {
                    let (server, chats) = (Arc::clone(&server), Arc::clone(&chats));
                    clients.spawn(async move { serve_bounded(&server, stream, &chats).await.ok() });
                }
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a control connection");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            },
        }
    }
}

/// Serves the client that owns the daemon's terminal to its end.
pub async fn serve(
    server: &ControlServer,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
) -> std::io::Result<()> {
    serve_bounded(server, stream, &Semaphore::new(1)).await
}

/// Serves one client to its end, if it is not one too many that chats.
async fn serve_bounded(
    server: &ControlServer,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    chats: &Semaphore,
) -> std::io::Result<()> {
    let (read, write) = tokio::io::split(stream);
    let mut lines = BoundedLines::new(read);
    let mut out = BufWriter::new(write);
    let first = match timeout(REQUEST_TIME_MAX, lines.next()).await {
        Ok(Ok(Some(first))) => first,
        Ok(Err(error)) => return write_line(&mut out, &Response::Failed(error.to_string())).await,
        Ok(Ok(None)) | Err(_) => return Ok(()),
    };
    let response = match serde_json::from_str(&first) {
        Ok(ControlRequest::Chat { session, events }) => {
            let Ok(_chat) = chats.try_acquire() else {
                let words = replies::too_many_chats(CHATS_MAX);
                return write_line(&mut out, &Response::Failed(words)).await;
            };
            return ChatClient::begin(server, session.into(), events).run(lines, out).await;
        }
        Ok(ControlRequest::Reload) => return reload(server, &mut out).await,
        Ok(ControlRequest::Status) => match timeout(STATUS_TIME_MAX, status(server)).await {
            Ok(status) => status.map(|status| Response::Status(Box::new(status))),
            Err(_) => Ok(Response::Failed(replies::STORE_DOES_NOT_READ.to_owned())),
        },
        Ok(ControlRequest::Actions { limit }) => orders::actions(server, limit).await,
        Ok(ControlRequest::Listing { what }) => orders::listing(server, what).await,
        Ok(ControlRequest::Sessions { request }) => sessions::answer(server, request).await,
        Ok(ControlRequest::Doctor) => orders::examine(server).await,
        Ok(ControlRequest::Usage) => {
            let zone = server.turns.services.zone;
            let midnight = schedule::midnight(Utc::now(), zone);
            let words = move |store: &_| usage_words(store, midnight, zone);
            server.turns.services.bus.store.read(words).await.map(Response::Done)
        }
        Ok(ControlRequest::Pair { words }) => orders::pair(server, &words).await,
        Ok(ControlRequest::People { words }) => orders::people(server, &words).await,
        Ok(ControlRequest::Budget { words }) => orders::budget(server, &words).await,
        Ok(ControlRequest::Heartbeat { wish }) => orders::heartbeat(server, wish).await,
        #[cfg(feature = "gateway")]
        Ok(ControlRequest::Web { request }) => web::answer(server, request).await,
        Ok(ControlRequest::Send(request)) => orders::send(server, request).await,
        Ok(ControlRequest::Cron { wanted, to }) => orders::cron(server, *wanted, to).await,
        Err(error) => Ok(Response::Failed(format!("cannot read the request: {error}"))),
    };
    let response = response.unwrap_or_else(|error| Response::Failed(error.to_string()));
    write_line(&mut out, &response).await
}

/// The state of the daemon.
pub async fn status(server: &ControlServer) -> Result<Status, StoreError> {
    let turns = &server.turns;
    let services = &turns.services;
    let health = Health::examine(&services.bus).await;
    let counted = services.bus.store.read(move |store| {
        let month_ago = Utc::now() - chrono::Duration::days(30);
        let used = usage_since(store, month_ago)?.usage;
        let waiting = journal::places(store)?.len();
        let awaiting_model = model_waits::waiting(store)?;
        Ok((transcript::count_running(store)?, waiting, awaiting_model, used))
    });
    let (turns_running, waiting, awaiting_model, used) = counted.await?;
    let skills = services
        .workspace
        .off_thread(|workspace| crate::workspace::skills::catalogue(workspace).skills.len());
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
        tools: turns.tools.len(),
        skills: skills.await,
        prompt_tokens: prompt_tokens(turns).await,
        turns_running,
        waiting,
        awaiting_model,
        tokens_30_days: used.input + used.output,
        channels: channel_statuses(server).await?,
        mcp: mcp.collect(),
        shell: server.agent.shell.clone(),
        heartbeat: turns.heartbeat.words().await?,
    })
}

async fn reload(
    server: &ControlServer,
    out: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let (answer, answered) = oneshot::channel();
    let (tell_written, written) = oneshot::channel();
    let asked = match server.reloads.get() {
        Some(reloads) => reloads.send(ReloadRequest { answer, written }).await.is_ok(),
        None => false,
    };
    let result = if asked { answered.await.ok() } else { None };
    let result = result.unwrap_or_else(|| Err(replies::CANNOT_RELOAD.to_owned()));
    let written = write_line(out, &result.map_or_else(Response::Failed, Response::Done)).await;
    tell_written.send(()).ok();
    written
}

/// The state of each channel, by name.
pub(crate) async fn channel_statuses(
    server: &ControlServer,
) -> Result<BTreeMap<String, ChannelStatus>, StoreError> {
    let names: Vec<_> = server.links.keys().cloned().collect();
    let counted = server.turns.services.bus.store.read(move |store| {
        let pending =
            |name| Ok((outbox::count_pending(store, name)?, outbox::failing(store, name)?));
        names.iter().map(pending).collect::<rusqlite::Result<Vec<_>>>()
    });
    let statuses = server.links.iter().zip(counted.await?);
    let statuses = statuses.map(|((name, link), (pending, failing))| {
        (name.to_string(), channel_status(link.state(), pending, failing))
    });
    Ok(statuses.collect())
}

fn channel_status(link: LinkState, pending: i64, failing: FailingDeliveries) -> ChannelStatus {
    let age = |at: Option<DateTime<Utc>>| at.map(|at| (Utc::now() - at).num_seconds().max(0));
    ChannelStatus {
        up: link.up,
        about: link.about,
        last_byte_s: age(link.last_byte),
        last_event_s: age(link.last_event),
        trouble: link.trouble,
        pending,
        failing,
    }
}

async fn write_line(
    out: &mut (impl AsyncWrite + Unpin),
    line: &impl Serialize,
) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(line).expect("our own types have string keys");
    line.push(b'\n');
    let written = async {
        out.write_all(&line).await?;
        out.flush().await
    };
    timeout(WRITE_TIME_MAX, written).await.map_err(|_| std::io::ErrorKind::TimedOut)?
}
