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
    let listed = timeout(LIST_TIME_MAX, request_models(base_url, key)).await;
    listed.unwrap_or_else(|_| Err(ListingError::Unreachable("no answer in time".to_owned())))
}

async fn request_models(base_url: &str, key: Option<&Secret>) -> Result<Vec<String>, ListingError> {
    let unreachable = |error: &dyn std::error::Error| {
        ListingError::Unreachable(http::root_cause(error).unwrap_or_else(|| error.to_string()))
    };
    let url = format!("{}/models", base_url.trim_end_matches('/'));
    let url: Url = url.parse().map_err(|error: url::ParseError| unreachable(&error))?;
    let client = http::client(&url, LIST_TIME_MAX).build().map_err(|error| unreachable(&error))?;
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

/// Looks for Ollama and llama.cpp on this machine. `ollama_host` is Ollama's own variable, which names another address.
pub async fn find_local_servers(ollama_host: Option<&str>) -> Vec<LocalServer> {
    let ollama = ollama_host.map_or_else(|| OLLAMA_ADDRESS.to_owned(), ollama_url);
    let find_server = async |name, base_url: String| {
        let models = list_models(&base_url, None).await.ok()?;
        Some(LocalServer { name, base_url, models })
    };
    let llama = LLAMA_ADDRESS.to_owned();
    let (ollama, llama) =
        tokio::join!(find_server("Ollama", ollama), find_server("llama.cpp", llama));
    ollama.into_iter().chain(llama).collect()
}

/// The default addresses of Ollama and of llama.cpp's server.
const OLLAMA_ADDRESS: &str = "http://127.0.0.1:11434/v1";
const LLAMA_ADDRESS: &str = "http://127.0.0.1:8080/v1";

/// Returns the endpoint of Ollama's variable: `HOST`, `HOST:PORT` or a URL. A server that listens on all addresses is
/// reached on this machine.
pub fn ollama_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    let Ok(mut url) = Url::parse(&url) else { return OLLAMA_ADDRESS.to_owned() };
    if url.port().is_none() && url.scheme() == "http" {
        url.set_port(Some(11434)).ok();
    }
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        url.set_host(Some("127.0.0.1")).ok();
    }
    format!("{}/v1", url.as_str().trim_end_matches('/'))
}
