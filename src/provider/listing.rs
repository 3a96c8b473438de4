//! The models that a server offers, and the model servers of this machine.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use crate::http::{self, BodyEnd, ReadBody};
use crate::secret::Secret;

/// Time limit of a list. A server on this machine answers at once.
const LIST_TIME_MAX: Duration = Duration::from_secs(10);

/// Time limit of a list of a server that is only looked for. A person waits for it, but a server may be swapped out.
const FIND_TIME_MAX: Duration = Duration::from_secs(5);

/// Time limit of the connection to such a server. The kernel accepts it at once, however busy the server is.
const FIND_CONNECT_TIME_MAX: Duration = Duration::from_secs(2);

/// Maximum size of a list. OpenRouter's has half a megabyte.
const LIST_BYTES_MAX: usize = 4 << 20;

/// The reason why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The server requires a key, or another one.
    #[error("it does not accept the key")]
    Unauthorized,
    #[error("it answers with {0}, which is not a list of models. Does the address end in /v1?")]
    NotAList(String),
}

/// Returns the ids of the models at an OpenAI-compatible endpoint, in the server's order.
pub async fn list_models(
    base_url: &str,
    key: Option<&Secret>,
) -> Result<Vec<String>, ListingError> {
    let listed = timeout(LIST_TIME_MAX, request_models(base_url, key, LIST_TIME_MAX)).await;
    listed.unwrap_or_else(|_| Err(ListingError::Unreachable("no answer in time".to_owned())))
}

/// The address and the models of a server that a person has named.
pub struct FoundServer {
    pub base_url: String,
    pub models: Result<Vec<String>, ListingError>,
}

/// The end of the address of most APIs, which people leave out.
const API_PATH: &str = "/v1";

/// Looks for the models of a server at the address that a person has typed, and behind it at `/v1`.
pub async fn find_models(typed: &str) -> FoundServer {
    let typed = typed.trim_end_matches('/');
    let models = list_models(typed, None).await;
    if matches!(models, Err(ListingError::NotAList(_))) && !typed.ends_with(API_PATH) {
        let base_url = format!("{typed}{API_PATH}");
        let models = list_models(&base_url, None).await;
        if matches!(models, Ok(_) | Err(ListingError::Unauthorized)) {
            return FoundServer { base_url, models };
        }
    }
    FoundServer { base_url: typed.to_owned(), models }
}

async fn request_models(
    base_url: &str,
    key: Option<&Secret>,
    connect: Duration,
) -> Result<Vec<String>, ListingError> {
    let unreachable = |error: &dyn std::error::Error| {
        ListingError::Unreachable(http::root_cause(error).unwrap_or_else(|| error.to_string()))
    };
    let url = format!("{}/models", base_url.trim_end_matches('/'));
    let url: Url = url.parse().map_err(|error: url::ParseError| unreachable(&error))?;
    let client = http::client(&url, connect).build().map_err(|error| unreachable(&error))?;
    let mut request = client.get(url);
    if let Some(key) = key {
        request = request.bearer_auth(key.reveal().trim());
    }
    let mut response = request.send().await.map_err(|error| unreachable(&error))?;
    let status = response.status();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(ListingError::Unauthorized);
    }
    if !status.is_success() {
        return Err(ListingError::NotAList(status.to_string()));
    }
    let ReadBody { bytes, end } = http::read_body(&mut response, LIST_BYTES_MAX, || None).await;
    let list: Option<Value> = match end {
        BodyEnd::Whole => serde_json::from_slice(&bytes).ok(),
        BodyEnd::TooLong | BodyEnd::Late | BodyEnd::Lost(_) => None,
    };
    let list = list.as_ref().and_then(|list| list.get("data")?.as_array());
    let list = list.ok_or_else(|| ListingError::NotAList("something else".to_owned()))?;
    Ok(list.iter().filter_map(|model| Some(model.get("id")?.as_str()?.to_owned())).collect())
}

/// A model server that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// The program, as people call it.
    pub name: &'static str,
    pub base_url: String,
    pub models: Vec<String>,
}

/// Looks for Ollama and llama.cpp, at the same time.
pub async fn find_local_servers(addresses: LocalAddresses) -> Vec<LocalServer> {
    let find_server = async |name, base_url: String| {
        let listing = request_models(&base_url, None, FIND_CONNECT_TIME_MAX);
        let models = timeout(FIND_TIME_MAX, listing).await.ok()?.ok()?;
        Some(LocalServer { name, base_url, models })
    };
    let LocalAddresses { ollama, llama } = addresses;
    let (ollama, llama) =
        tokio::join!(find_server("Ollama", ollama), find_server("llama.cpp", llama));
    ollama.into_iter().chain(llama).collect()
}

/// The endpoints at which the two servers are looked for.
pub struct LocalAddresses {
    pub ollama: String,
    pub llama: String,
}

/// The port of Ollama, and that of llama.cpp's server.
const OLLAMA_PORT: u16 = 11434;
const LLAMA_PORT: u16 = 8080;

/// The address at which both listen.
const LOCAL_HOST: &str = "127.0.0.1";

impl LocalAddresses {
    /// Returns the addresses in the servers' own variables, `OLLAMA_HOST`, `LLAMA_ARG_HOST` and `LLAMA_ARG_PORT`, or else
    /// their defaults on this machine. `variable` returns one of them, if it is set.
    pub fn of_variables<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self {
            ollama: ollama_url(variable("OLLAMA_HOST").unwrap_or(LOCAL_HOST)),
            llama: llama_url(variable("LLAMA_ARG_HOST"), variable("LLAMA_ARG_PORT")),
        }
    }
}

/// Returns the endpoint of Ollama's variable: `HOST`, `HOST:PORT` or a URL. A server that listens on all addresses is
/// reached on this machine.
fn ollama_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    let Ok(mut url) = Url::parse(&url) else {
        return format!("http://{LOCAL_HOST}:{OLLAMA_PORT}/v1");
    };
    if url.port().is_none() && url.scheme() == "http" {
        url.set_port(Some(OLLAMA_PORT)).ok();
    }
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        url.set_host(Some(LOCAL_HOST)).ok();
    }
    format!("{}/v1", url.as_str().trim_end_matches('/'))
}

/// Returns the endpoint of the variables of llama.cpp's server. One that listens on all addresses, or on a socket file, is
/// looked for on this machine.
fn llama_url(host: Option<&str>, port: Option<&str>) -> String {
    let host = host.map_or(LOCAL_HOST, str::trim);
    let host = match host {
        "0.0.0.0" | "::" => LOCAL_HOST.to_owned(),
        socket if socket.ends_with(".sock") => LOCAL_HOST.to_owned(),
        v6 if v6.contains(':') => format!("[{v6}]"),
        host => host.to_owned(),
    };
    let port = port.and_then(|port| port.trim().parse().ok()).unwrap_or(LLAMA_PORT);
    format!("http://{host}:{port}/v1")
}
