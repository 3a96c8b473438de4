//! Keeps MCP servers running: each is started beside the daemon, asked for its tools, asked again when it
//! reports a change, and restarted with back-off when it is lost. A server's failure affects neither the
//! others nor the daemon.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, CustomResult, Implementation,
    ListToolsRequest, PaginatedRequestParams, ServerResult, Tool,
};
use rmcp::service::{NotificationContext, Peer, RoleClient, ServiceError, ServiceExt};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::http::{Http, first_fault};
use super::process::ServerProcess;
use super::stdio::Stdio;
use super::tools::{CallFoundTool, ManyTools, McpTool, SearchTools};
use super::{Config, RESULT_BYTES_MAX, Via};
use crate::bus::Bus;
use crate::replies;
use crate::short_text::shortened;
use crate::tools::mcp::catalogue::{self, OfferedTool, TOOLS_MAX};
use crate::tools::{AnyTool, McpServerEntry, McpTools, ToolSet};
use crate::trust::mcp_pins;
use crate::workspace::Workspace;

/// A first start may download the program from a registry.
const INITIALIZE_TIME_MAX: Duration = Duration::from_secs(60);
const LIST_TIME_MAX: Duration = Duration::from_secs(15);

/// Maximum number of pages of a list. A longer one is endless.
const PAGES_MAX: usize = 20;

/// Pause between two lists, for servers that report changes all the time.
const LIST_PAUSE: Duration = Duration::from_millis(250);

/// Maximum wait of turns, after the daemon's start, for servers that are being connected.
const ARRIVAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// Back-off between starts, doubled each time, with jitter. Reset after a steady run.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(300);
const STEADY: Duration = Duration::from_secs(60);

/// Maximum duration of closing the connection.
const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);

/// Time for which the remaining output of an ended program is read.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(200);

/// Maximum length of the reason why a server is down, in characters: that of a sandbox which cannot be made ends with what
/// to do.
const TROUBLE_CHARS_MAX: usize = 1_000;

/// All servers of a daemon, and the set that gets their tools.
pub struct Servers {
    all: Vec<Arc<Server>>,
    tools: ToolSet,
    bus: Bus,
    /// The owner's workspace, beside which the state folders of programs lie.
    workspace: Workspace,
    /// Locked while a catalogue is made, so that an older one never replaces a newer one.
    publishing: Mutex<()>,
    wait_over: watch::Sender<bool>,
}

/// One server, connected or not.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) config: Config,
    state: watch::Sender<ServerState>,
    /// Requests a new list of its tools: it reported a change, or a call failed.
    relist: Notify,
}

#[derive(Clone, Default)]
struct ServerState {
    /// None while it is down.
    peer: Option<Peer<RoleClient>>,
    /// Its last offers. Kept while it is down, so that prompts stay as they are.
    offers: Arc<Vec<OfferedTool>>,
    trouble: Option<String>,
    tried: bool,
}

impl Server {
    /// Returns the connection. Waits for it if the server is down.
    pub(super) async fn peer(&self, wait: Duration) -> Option<Peer<RoleClient>> {
        let mut state = self.state.subscribe();
        let up = timeout(wait, state.wait_for(|state| state.peer.is_some())).await.ok()?;
        up.ok()?.peer.clone()
    }

    /// Requests a check that the server still answers, after a failed call.
    pub(super) fn request_check(&self) {
        self.relist.notify_one();
    }
}

impl Servers {
    /// Creates the servers of the config. [`run`](Self::run) connects them.
    pub fn new(
        configs: &BTreeMap<String, Config>,
        tools: ToolSet,
        bus: Bus,
        workspace: Workspace,
    ) -> Arc<Self> {
        let server = |(name, config): (&String, &Config)| {
            Arc::new(Server {
                name: name.clone(),
                config: config.clone(),
                state: watch::Sender::default(),
                relist: Notify::new(),
            })
        };
        let servers = Arc::new(Self {
            all: configs.iter().map(server).collect(),
            tools,
            bus,
            workspace,
            publishing: Mutex::new(()),
            wait_over: watch::Sender::new(false),
        });
        servers.publish();
        servers
    }

    /// Keeps all servers running until `stop`, and ends the programs among them.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut links = JoinSet::new();
        for server in &self.all {
            links.spawn(Arc::clone(&self).keep_running(Arc::clone(server), stop.clone()));
        }
        if timeout(ARRIVAL_WAIT_MAX, stop.cancelled()).await.is_err() {
            self.wait_over.send_replace(true);
            self.publish();
        }
        while links.join_next().await.is_some() {}
    }

    async fn keep_running(self: Arc<Self>, server: Arc<Server>, stop: CancellationToken) {
        let mut pause = PAUSE_MIN;
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let served =
                Box::pin(AssertUnwindSafe(self.serve(&server, &stop)).catch_unwind()).await;
            let why = served.unwrap_or_else(|_| "the fault is mine, and in the log".to_owned());
            if stop.is_cancelled() {
                break;
            }
            let why = shortened(&why, TROUBLE_CHARS_MAX);
            // A server that stays away is logged once.
            if server.state.borrow().trouble.as_ref() == Some(&why) {
                tracing::debug!(server = server.name, why, "An MCP server is still down");
            } else {
                tracing::warn!(server = server.name, why, "Lost an MCP server, will restart it");
            }
            server.state.send_modify(|state| {
                (state.peer, state.tried, state.trouble) = (None, true, Some(why));
            });
            self.publish();
            pause = if begun.elapsed() >= STEADY { PAUSE_MIN } else { pause };
            timeout(pause.mul_f32(0.75 + 0.5 * fastrand::f32()), stop.cancelled()).await.ok();
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Starts or connects a server and serves it until it is lost, or `stop`. Returns the reason.
    async fn serve(&self, server: &Arc<Server>, stop: &CancellationToken) -> String {
        match &server.config.via {
            Via::Program(program) => {
                let started = ServerProcess::start(&server.name, program, &self.workspace).await;
                let (mut process, pipes) = match started {
                    Ok(started) => started,
                    Err(why) => return why,
                };
                let stdio = Stdio::new(&server.name, pipes);
                let connection = self.serve_connection(server, stdio, stop);
                tokio::pin!(connection);
                let fault = tokio::select! {
                    fault = &mut connection => Some(fault),
                    // Its last output may still be in the pipe.
                    _ = process.watch() => timeout(LAST_WORDS_WAIT, connection).await.ok(),
                };
                let ended = process.end().await;
                let why = match fault {
                    Some(fault) if !fault.is_empty() => format!("{fault}; {ended}"),
                    _ => ended,
                };
                // It has never been up: its sandbox may hide something that it needs.
                let is_new = server.state.borrow().peer.is_none();
                match is_new && program.is_sandboxed() {
                    true => {
                        format!("{why}. {}", replies::mcp_sandbox_hint(program.sandbox.network))
                    }
                    false => why,
                }
            }
            Via::Http { url, headers } => {
                let client = match Http::new(url, headers, server.config.timeout) {
                    Ok(client) => client,
                    Err(error) => return format!("{error:#}"),
                };
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(RESULT_BYTES_MAX);
                config.retry_config = Arc::new(ExponentialBackoff::default());
                let transport = StreamableHttpClientTransport::with_client(client, config);
                let fault = self.serve_connection(server, transport, stop).await;
                if fault.is_empty() { "it closed the connection".to_owned() } else { fault }
            }
        }
    }

    /// Serves a connection until the server closes it (returns an empty text), violates the protocol
    /// (returns the reason), or `stop`.
    async fn serve_connection<T, E, A>(
        &self,
        server: &Arc<Server>,
        transport: T,
        stop: &CancellationToken,
    ) -> String
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let handler = NotificationHandler(Arc::clone(server));
        let initialized = tokio::select! {
            () = stop.cancelled() => return String::new(),
            initialized = timeout(INITIALIZE_TIME_MAX, handler.serve(transport)) => initialized,
        };
        let running = match initialized {
            Ok(Ok(running)) => running,
            Ok(Err(error)) => return first_fault(&error),
            Err(_) => return "it does not answer the first word (initialize)".to_owned(),
        };
        let (peer, cancel) = (running.peer().clone(), running.cancellation_token());
        let ended = running.waiting();
        tokio::pin!(ended);
        let mut accepted_texts = self.bus.mcp_texts.watch();
        let fault = loop {
            tokio::select! {
                () = stop.cancelled() => break String::new(),
                _ = &mut ended => return String::new(),
                listed = list_offers(server, &peer) => match listed {
                    Ok(offers) => self.update_offers(server, &peer, offers).await,
                    Err(fault) => break fault,
                },
            }
            let relist_requested = async {
                server.relist.notified().await;
                sleep(LIST_PAUSE).await;
            };
            tokio::select! {
                () = stop.cancelled() => break String::new(),
                _ = &mut ended => return String::new(),
                () = relist_requested => {}
                _ = accepted_texts.changed() => {}
            }
        };
        cancel.cancel();
        timeout(CLOSE_TIME_MAX, ended).await.ok();
        fault
    }

    async fn update_offers(
        &self,
        server: &Server,
        peer: &Peer<RoleClient>,
        offers: Vec<OfferedTool>,
    ) {
        let offers = self.pin_texts(server, offers).await;
        let (was_up, before) = {
            let state = server.state.borrow();
            (state.peer.is_some(), Arc::clone(&state.offers))
        };
        if !was_up {
            tracing::info!(server = server.name, tools = offers.len(), "An MCP server is up");
        } else if *before == offers {
            return;
        }
        server.state.send_replace(ServerState {
            peer: Some(peer.clone()),
            offers: Arc::new(offers),
            trouble: None,
            tried: true,
        });
        self.publish();
    }

    /// Returns the offers with the texts that the owner has accepted. If the store fails, the former offers stay.
    async fn pin_texts(&self, server: &Server, offers: Vec<OfferedTool>) -> Vec<OfferedTool> {
        let texts = offers.into_iter().map(OfferedTool::into_texts).collect();
        let configured = server.config.identity();
        match mcp_pins::accepted_tools(&self.bus, &server.name, &configured, texts).await {
            Ok(texts) => {
                texts.into_iter().map(|texts| OfferedTool::pinned(&server.name, texts)).collect()
            }
            Err(error) => {
                tracing::error!(server = server.name, %error, "Cannot check the texts of an MCP server");
                server.state.borrow().offers.to_vec()
            }
        }
    }

    /// Makes the catalogue of all current offers, and adds it to the tools.
    fn publish(&self) {
        let _alone = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let states: Vec<_> = self.all.iter().map(|server| server.state.borrow().clone()).collect();
        let pairs = self.all.iter().zip(&states);
        let offers: Vec<(&Arc<Server>, &OfferedTool)> = pairs
            .clone()
            .flat_map(|(server, state)| state.offers.iter().map(move |offer| (server, offer)))
            .collect();
        let plain: Vec<_> = offers.iter().map(|(_, offer)| *offer).collect();
        let tools = offers.iter().zip(catalogue::names(&plain)).map(|((server, offer), name)| {
            Arc::new(McpTool { name, offer: (*offer).clone(), server: Arc::clone(server) })
        });
        let tools: Vec<_> = tools.collect();
        let each = tools.iter().map(|tool| Arc::clone(tool) as Arc<dyn AnyTool>).collect();
        let mut mcp_tools = if catalogue::is_large(&plain) {
            let many = Arc::new(ManyTools { tools });
            McpTools::new(
                vec![Arc::new(SearchTools(Arc::clone(&many))), Arc::new(CallFoundTool(many))],
                each,
            )
        } else {
            McpTools::new(each, Vec::new())
        };
        let mcp_server = |(server, state): (&Arc<Server>, &ServerState)| McpServerEntry {
            name: server.name.clone(),
            up: state.peer.is_some(),
            tools: state.offers.len(),
            trouble: state.trouble.clone(),
        };
        mcp_tools.mcp_servers = pairs.map(mcp_server).collect();
        mcp_tools.coming = !*self.wait_over.borrow() && states.iter().any(|state| !state.tried);
        self.tools.set_mcp_tools(mcp_tools);
    }
}

/// Returns one page of a server's tools, and the cursor of the next page. A tool whose description cannot be parsed
/// is skipped: the library refuses the whole page for it.
async fn read_page(
    server: &Server,
    peer: &Peer<RoleClient>,
    params: PaginatedRequestParams,
) -> Result<(Vec<Tool>, Option<String>), ServiceError> {
    match peer.list_tools(Some(params.clone())).await {
        Err(ServiceError::UnexpectedResponse) => {}
        page => return page.map(|page| (page.tools, page.next_cursor)),
    }
    let (method, extensions) = Default::default();
    let request = ListToolsRequest { method, params: Some(params), extensions };
    let answer = peer.send_request(ClientRequest::ListToolsRequest(request)).await?;
    let ServerResult::CustomResult(CustomResult(mut page)) = answer else {
        return Err(ServiceError::UnexpectedResponse);
    };
    let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else {
        return Err(ServiceError::UnexpectedResponse);
    };
    let tools = tools.into_iter().filter_map(|tool| {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let name: String = name.chars().take(64).collect();
        let parsed = serde_json::from_value(tool);
        let skip = |error: &serde_json::Error| {
            tracing::warn!(server = server.name, tool = name, %error, "Skipped a tool of an MCP server");
        };
        parsed.inspect_err(skip).ok()
    });
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    Ok((tools.collect(), next))
}

/// Returns the server's current offers that may be used.
async fn list_offers(server: &Server, peer: &Peer<RoleClient>) -> Result<Vec<OfferedTool>, String> {
    let listing = async {
        let mut tools: Vec<Tool> = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = PaginatedRequestParams::default().with_cursor(cursor.take());
            let (page, next) = read_page(server, peer, page).await?;
            tools.extend(page);
            cursor = next;
            if cursor.is_none() || tools.len() > TOOLS_MAX {
                break;
            }
        }
        Ok(tools)
    };
    let tools = match timeout(LIST_TIME_MAX, listing).await {
        Ok(Ok(tools)) => tools,
        Ok(Err::<_, ServiceError>(error)) => {
            return Err(format!("it does not say what it offers: {error}"));
        }
        Err(_) => return Err("it does not say what it offers".to_owned()),
    };
    if tools.len() > TOOLS_MAX {
        let (server, offered) = (&server.name, tools.len());
        tracing::warn!(server, offered, "An MCP server offers more than {TOOLS_MAX} tools");
    }
    let mut offers: Vec<OfferedTool> = Vec::new();
    for tool in tools.into_iter().take(TOOLS_MAX) {
        let allowed = |allow: &Vec<String>| allow.iter().any(|name| *name == tool.name);
        if !server.config.allow.as_ref().is_none_or(allowed)
            || offers.iter().any(|before| before.tool == tool.name)
        {
            continue;
        }
        let read_only = tool.annotations.and_then(|hints| hints.read_only_hint) == Some(true);
        let schema = Arc::unwrap_or_clone(tool.input_schema);
        let description = tool.description.unwrap_or_default();
        match OfferedTool::new(&server.name, &tool.name, &description, schema, read_only) {
            Ok(offer) => offers.push(offer),
            Err(why) => {
                let tool: String = tool.name.chars().take(64).collect();
                tracing::warn!(server = server.name, tool, why, "Skipped a tool of an MCP server");
            }
        }
    }
    Ok(offers)
}

/// Receives a server's notifications. Its own requests are all denied.
struct NotificationHandler(Arc<Server>);

impl ClientHandler for NotificationHandler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.relist.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("peacrab", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }
}
