//! Requests and answers of the search engines. Their formats are private to this file.

use reqwest::{Client, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Engine, EngineKind, Failed};
use crate::http::{self, BodyEnd, ReadBody};
use crate::tools::web::helper::PageHelper;
use crate::tools::web::page::UnreadPage;
use crate::tools::web::result_page::{COUNT_MAX, SearchHit};

/// Maximum size of an answer: far more than ten results need.
const BYTES_MAX: usize = 1_000_000;

/// A query, and about how many results are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchQuery<'a> {
    pub(super) text: &'a str,
    pub(super) count: usize,
}

/// Requests the results of a query, best first. JSON is parsed here; HTML, also
/// within JSON, in a process of its own.
pub(super) async fn ask(
    client: &Client,
    engine: &Engine,
    reader: &PageHelper,
    SearchQuery { text: query, count }: SearchQuery<'_>,
) -> Result<Vec<SearchHit>, Failed> {
    let key = engine.api_key.as_ref().map_or("", |key| key.reveal());
    let at = |path: &str| format!("{}{path}", engine.base_url);
    match engine.api {
        // https://api-dashboard.search.brave.com/app/documentation/web-search
        EngineKind::Brave => {
            let count = count.to_string();
            let terms = [("q", query), ("count", &count), ("text_decorations", "false")];
            let request = client.get(at("/res/v1/web/search")).query(&terms);
            let request = request.header("accept", "application/json");
            let answer: Brave = json(request.header("x-subscription-token", key)).await?;
            let results = answer.web.map(|web| web.results).unwrap_or_default();
            convert_brave(reader, results).await
        }
        // https://docs.tavily.com/documentation/api-reference/endpoint/search
        EngineKind::Tavily => {
            let body = json!({ "query": query, "max_results": count, "search_depth": "basic" });
            let request = client.post(at("/search")).bearer_auth(key).json(&body);
            json::<Results>(request).await.map(Results::hits)
        }
        // https://docs.searxng.org/dev/search_api.html
        EngineKind::Searxng => {
            let request = client.get(at("/search")).query(&[("q", query), ("format", "json")]);
            let request = match &engine.api_key {
                Some(key) => request.bearer_auth(key.reveal()),
                None => request,
            };
            json::<Results>(request).await.map(Results::hits).map_err(|failed| {
                match failed.status {
                    Some(StatusCode::FORBIDDEN) => Failed::lasting(
                        "HTTP 403: `json` must be among search.formats in its settings.yml",
                    ),
                    _ => failed,
                }
            })
        }
        // The page without scripts, because there is no API.
        EngineKind::DuckDuckGo => {
            let (status, page) = send(client.get(at("/html/")).query(&[("q", query)])).await?;
            let found = reader.results(&page).await.map_err(unread)?;
            // Clients that ask too often get a challenge, with status 202.
            match status == StatusCode::ACCEPTED || !found.is_results {
                true => Err(Failed::passing(
                    "it wants proof that a person asks; try another engine or later",
                )),
                false => Ok(found.hits),
            }
        }
    }
}

fn unread(why: UnreadPage) -> Failed {
    Failed::passing(format!("its answer cannot be read: {why}"))
}

#[derive(Deserialize)]
struct Brave {
    /// Absent if there are no results.
    web: Option<BraveWeb>,
}

#[derive(Deserialize)]
struct BraveWeb {
    #[serde(default)]
    results: Vec<BraveHit>,
}

#[derive(Deserialize)]
struct BraveHit {
    #[serde(default)]
    title: String,
    url: String,
    #[serde(default)]
    description: String,
}

/// Converts results whose texts are sometimes HTML.
async fn convert_brave(
    reader: &PageHelper,
    results: Vec<BraveHit>,
) -> Result<Vec<SearchHit>, Failed> {
    let results = results.into_iter().take(COUNT_MAX);
    let (mut urls, mut texts) = (Vec::new(), Vec::new());
    for BraveHit { title, url, description } in results {
        urls.push(url);
        texts.extend([title, description]);
    }
    let texts = reader.plain(&texts).await.map_err(unread)?;
    // A process that a text has taken over may return fewer.
    let pairs = texts.chunks_exact(2).zip(urls);
    let hit = |(pair, url): (&[String], String)| SearchHit {
        title: pair[0].clone(),
        snippet: pair[1].clone(),
        url,
    };
    Ok(pairs.map(hit).collect())
}

/// The format of Tavily and SearXNG.
#[derive(Deserialize)]
struct Results {
    results: Vec<ResultHit>,
}

#[derive(Deserialize)]
struct ResultHit {
    title: Option<String>,
    url: String,
    content: Option<String>,
}

impl Results {
    fn hits(self) -> Vec<SearchHit> {
        let hit = |ResultHit { title, url, content }| SearchHit {
            title: title.unwrap_or_default(),
            url,
            snippet: content.unwrap_or_default(),
        };
        self.results.into_iter().map(hit).collect()
    }
}

async fn json<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Failed> {
    let (_, body) = send(request).await?;
    serde_json::from_str(&body).map_err(|_| Failed::passing("its answer is not what was asked for"))
}

/// Returns the status and text of a successful answer.
async fn send(request: RequestBuilder) -> Result<(StatusCode, String), Failed> {
    let unreachable = |error: reqwest::Error| {
        let error = error.without_url();
        let cause = http::root_cause(&error).unwrap_or_else(|| error.to_string());
        Failed::passing(format!("cannot be reached: {cause}"))
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    if !status.is_success() {
        return Err(Failed::of(status));
    }
    let ReadBody { bytes, end } = http::read_body(&mut response, BYTES_MAX, || None).await;
    match end {
        BodyEnd::Whole => Ok((status, String::from_utf8_lossy(&bytes).into_owned())),
        BodyEnd::TooLong => Err(Failed::lasting("its answer is too large")),
        BodyEnd::Late => Err(Failed::passing("its answer did not come in time")),
        BodyEnd::Lost(error) => Err(unreachable(error)),
    }
}
