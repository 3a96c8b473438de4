//! The tool that searches the web. It asks several engines until one answers. `search/engines.rs` has their
//! requests and answers.

mod engines;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use reqwest::{Client, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use url::Url;

use super::helper::PageHelper;
use super::redirects::USER_AGENT;
use super::result_page::{COUNT_MAX, SearchHit};
use crate::http;
use crate::secret::Secret;
use crate::short_text::one_line;
use crate::tools::{CallPlace, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::types::source::Source;
use crate::types::words::words;

/// Maximum length of a query that all engines accept (Brave and Tavily: 400 characters).
const QUERY_CHARS_MAX: usize = 400;

const COUNT: usize = 5;

/// Time limit of one engine. Then the next is asked.
const TIME_MAX: Duration = Duration::from_secs(15);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// The API of a search engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    Brave,
    Tavily,
    Searxng,
    DuckDuckGo,
}

/// A search engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// The owner's name for the engine.
    pub name: String,
    pub api: EngineKind,
    pub api_key: Option<Secret>,
    /// Without a slash at the end.
    pub base_url: String,
}

impl EngineKind {
    /// The vendor's address. SearXNG has none.
    pub fn home(self) -> Option<&'static str> {
        match self {
            Self::Brave => Some("https://api.search.brave.com"),
            Self::Tavily => Some("https://api.tavily.com"),
            Self::Searxng => None,
            Self::DuckDuckGo => Some("https://html.duckduckgo.com"),
        }
    }
}

words!(EngineKind {
    Brave = "brave",
    Tavily = "tavily",
    Searxng = "searxng",
    DuckDuckGo = "duckduckgo",
});

impl Default for Engine {
    /// The engine that needs no key.
    fn default() -> Self {
        let api = EngineKind::DuckDuckGo;
        let base_url = api.home().unwrap_or_default().to_owned();
        Self { name: api.as_str().to_owned(), api, api_key: None, base_url }
    }
}

/// An explanation why an engine returned nothing, without its key.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
struct Failed {
    words: String,
    /// True for a temporary error.
    passes: bool,
    status: Option<StatusCode>,
}

impl Failed {
    fn passing(words: impl Into<String>) -> Self {
        Self { words: words.into(), passes: true, status: None }
    }

    fn lasting(words: impl Into<String>) -> Self {
        Self { words: words.into(), passes: false, status: None }
    }

    fn of(status: StatusCode) -> Self {
        let words = match status {
            StatusCode::UNAUTHORIZED => "HTTP 401: it wants another api_key".to_owned(),
            _ => format!("HTTP {status}"),
        };
        let passes = matches!(status.as_u16(), 408 | 429 | 500..);
        Self { words, passes, status: Some(status) }
    }
}

pub struct WebSearch {
    engines: Vec<EngineLink>,
    reader: PageHelper,
}

/// An engine and its HTTP client.
struct EngineLink {
    engine: Engine,
    client: Client,
}

impl WebSearch {
    /// Creates the tool. `engines` is in the order in which they are asked.
    pub fn new(engines: &[Engine]) -> anyhow::Result<Self> {
        let link = |engine: &Engine| {
            let url = Url::parse(&engine.base_url).context("base_url is not a URL")?;
            let client = http::client(&url, CONNECT_TIME_MAX).user_agent(USER_AGENT);
            let client = client.build().context("cannot make an HTTP client")?;
            Ok(EngineLink { engine: engine.clone(), client })
        };
        let engines = engines.iter().map(link).collect::<anyhow::Result<_>>()?;
        Ok(Self { engines, reader: PageHelper::default() })
    }

    /// Sets the program that parses HTML in results, which is ours.
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        Self { reader: PageHelper { program: program.into() }, ..self }
    }

    /// Returns the engine that answered, and its results.
    async fn search(&self, query: &str, count: usize) -> Result<(&str, Vec<SearchHit>), ToolError> {
        let wanted = engines::SearchQuery { text: query, count };
        let (mut failures, mut passes) = (Vec::new(), false);
        for EngineLink { engine, client } in &self.engines {
            let answer = engines::ask(client, engine, &self.reader, wanted);
            let failed = match timeout(TIME_MAX, answer).await {
                Ok(Ok(hits)) => return Ok((&engine.name, hits)),
                Ok(Err(failed)) => failed,
                Err(_) => Failed::passing(format!("no answer within {} s", TIME_MAX.as_secs())),
            };
            tracing::warn!(engine = %engine.name, error = %failed, "A search engine failed");
            passes |= failed.passes;
            failures.push(format!("{}: {failed}", engine.name));
        }
        let message = format!("The search failed. {}.", failures.join("; "));
        Err(if passes { ToolError::Transient(message) } else { ToolError::TellModel(message) })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    query: String,
    #[serde(default = "count")]
    #[schemars(range(min = 1, max = COUNT_MAX))]
    count: usize,
}

fn count() -> usize {
    COUNT
}

#[async_trait]
impl Tool for WebSearch {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec::reads(
        "web_search",
        "Search the web for addresses and snippets; web_fetch reads a page.",
    );

    fn check_args(&self, args: &Args, _: &CallPlace<'_>) -> Result<(), String> {
        parse_query(&args.query).map(drop)
    }

    async fn call(&self, args: Args, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let query = parse_query(&args.query).map_err(ToolError::TellModel)?;
        let count = args.count.clamp(1, COUNT_MAX);
        let (engine, hits) = self.search(&query, count).await?;
        let hits: Vec<SearchHit> =
            hits.into_iter().filter_map(SearchHit::tidied).take(count).collect();
        if hits.is_empty() {
            return Ok(ToolOutput::text(format!("{engine} found nothing for: {query}")));
        }
        let urls = hits.iter().map(|hit| hit.url.clone()).collect();
        let source = Source::Search { engine: engine.to_owned(), urls };
        Ok(ToolOutput::of(source, format_hits(&hits)))
    }
}

/// Returns a query on one line.
fn parse_query(text: &str) -> Result<String, String> {
    let query = one_line(text);
    match query.chars().count() {
        0 => Err("The query is empty.".to_owned()),
        1..=QUERY_CHARS_MAX => Ok(query),
        _ => Err(format!("The query is longer than {QUERY_CHARS_MAX} characters; use key words.")),
    }
}

fn format_hits(hits: &[SearchHit]) -> String {
    let mut text = String::new();
    for (at, SearchHit { title, url, snippet }) in hits.iter().enumerate() {
        write!(text, "{}. {title}\n   {url}\n", at + 1).expect("a String takes all");
        if !snippet.is_empty() {
            writeln!(text, "   {snippet}").expect("a String takes all");
        }
    }
    text.truncate(text.trim_end().len());
    text
}
