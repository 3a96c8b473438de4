//! Requests and answers of the search engines. Their formats are private to this file.

use reqwest::{Client, RequestBuilder, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use url::Url;

use super::{Engine, EngineKind, Failed, Hit};
use crate::http::{self, BodyEnd, ReadBody};
use crate::tools::web::tree;

/// Maximum size of an answer: far more than ten results need.
const BYTES_MAX: usize = 1_000_000;

/// Requests about `count` results, best first.
pub(super) async fn ask(
    client: &Client,
    engine: &Engine,
    query: &str,
    count: usize,
) -> Result<Vec<Hit>, Failed> {
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
            Ok(results.into_iter().map(BraveHit::plain).collect())
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
            duckduckgo(status, &page)
        }
    }
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

impl BraveHit {
    /// Converts a result. Its texts are sometimes HTML.
    fn plain(self) -> Hit {
        let plain = |text: &str| tree::words(&tree::parse(text).document);
        Hit { title: plain(&self.title), snippet: plain(&self.description), url: self.url }
    }
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
    fn hits(self) -> Vec<Hit> {
        let hit = |ResultHit { title, url, content }| Hit {
            title: title.unwrap_or_default(),
            url,
            snippet: content.unwrap_or_default(),
        };
        self.results.into_iter().map(hit).collect()
    }
}

/// Parses the results on its page, without advertisements.
fn duckduckgo(status: StatusCode, page: &str) -> Result<Vec<Hit>, Failed> {
    let document = tree::parse(page).document;
    let (mut hits, mut is_ad, mut is_results) = (Vec::<Hit>::new(), false, false);
    for (name, node) in tree::elements(&document) {
        let class = tree::attribute(&node, "class").unwrap_or_default();
        let has = |wanted: &str| class.split_whitespace().any(|class| class == wanted);
        is_results |= has("no-results") || has("results");
        if name == "div" && has("result") {
            is_ad = has("result--ad");
        } else if name == "a" && has("result__a") && !is_ad {
            let url = tree::attribute(&node, "href").and_then(|href| target(&href));
            let (title, url) = (tree::words(&node), url.unwrap_or_default());
            hits.push(Hit { title, url, snippet: String::new() });
        } else if let Some(hit) = hits.last_mut().filter(|_| has("result__snippet") && !is_ad) {
            hit.snippet = tree::words(&node);
        }
    }
    // It answers clients that ask too often with a challenge, and 202.
    if status == StatusCode::ACCEPTED || hits.is_empty() && !is_results {
        return Err(Failed::passing(
            "it wants proof that a person asks; try another engine or later",
        ));
    }
    Ok(hits)
}

/// Returns the target of one of its links, which go through `/l/?uddg=…`.
fn target(href: &str) -> Option<String> {
    let url = Url::parse("https://duckduckgo.com").and_then(|base| base.join(href)).ok()?;
    let is_own = url.domain().is_some_and(|name| name == "duckduckgo.com");
    if !is_own {
        return Some(url.into());
    }
    url.query_pairs().find(|(name, _)| name == "uddg").map(|(_, target)| target.into_owned())
}

async fn json<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, Failed> {
    let (_, body) = send(request).await?;
    serde_json::from_str(&body).map_err(|_| Failed::passing("its answer is not what was asked for"))
}

/// Returns the status and text of a successful answer.
async fn send(request: RequestBuilder) -> Result<(StatusCode, String), Failed> {
    let broke = |error: reqwest::Error| {
        let error = error.without_url();
        let cause = http::root_cause(&error).unwrap_or_else(|| error.to_string());
        Failed::passing(format!("cannot be reached: {cause}"))
    };
    let mut response = request.send().await.map_err(broke)?;
    let status = response.status();
    if !status.is_success() {
        return Err(Failed::of(status));
    }
    let ReadBody { bytes, end } = http::read_body(&mut response, BYTES_MAX, || None).await;
    match end {
        BodyEnd::Whole => Ok((status, String::from_utf8_lossy(&bytes).into_owned())),
        BodyEnd::TooLong => Err(Failed::lasting("its answer is too large")),
        BodyEnd::Late => Err(Failed::passing("its answer did not come in time")),
        BodyEnd::Lost(error) => Err(broke(error)),
    }
}
