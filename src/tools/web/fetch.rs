//! The tool that reads a page of the web.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::Resolve;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;
use url::Url;

use super::address::{AllowedHost, Forbidden, Gate};
use super::cache::Cache;
use super::helper::PageHelper;
use super::redirects::{self, FetchLimits, RedirectFetcher};
use crate::tools::web::page::WebPage;
use crate::tools::{
    CallPlace, RESULT_CHARS_MAX, Reach, Tool, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use crate::types::message::Address;
use crate::types::source::Source;

/// Maximum characters that a model gets at once, beside the address and how to read on.
const CHARS_MAX: usize = RESULT_CHARS_MAX - 1_000;

/// Maximum length of a URL. Longer ones are mostly data rather than addresses.
const URL_CHARS_MAX: usize = 2_000;

/// Maximum number of parallel fetches. A large page takes some 50 MB of its process while it is parsed.
const AT_ONCE_MAX: usize = 2;

/// Reads pages, and keeps recent ones.
pub struct WebFetch {
    fetcher: RedirectFetcher,
    reader: PageHelper,
    cache: Cache,
    permits: Semaphore,
}

impl WebFetch {
    /// Creates the tool. `names` looks names up; its results are checked, not trusted.
    pub fn new(listed: &[AllowedHost], names: Arc<dyn Resolve>, limits: FetchLimits) -> Self {
        let fetcher = RedirectFetcher { gate: Gate::new(listed), names, limits };
        let (reader, cache) = (PageHelper::default(), Cache::default());
        Self { fetcher, reader, cache, permits: Semaphore::new(AT_ONCE_MAX) }
    }

    /// Sets the program that parses pages, which is ours.
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        Self { reader: PageHelper { program: program.into() }, ..self }
    }

    async fn page(&self, url: Url) -> Result<Arc<WebPage>, ToolError> {
        let requested_url = url.to_string();
        if let Some(page) = self.cache.get(&requested_url) {
            return Ok(page);
        }
        // Never closed, so it always succeeds.
        let _permit = self.permits.acquire().await;
        let fetched = self.fetcher.fetch(url).await?;
        let page = self.reader.read(fetched).await;
        let page = Arc::new(page.map_err(|why| unreadable(&requested_url, &why.to_string()))?);
        self.cache.put(&requested_url, &page);
        Ok(page)
    }
}

fn unreadable(requested_url: &str, why: &str) -> ToolError {
    ToolError::TellModel(format!("{requested_url} cannot be read: {why}."))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    url: String,
    #[serde(default)]
    offset: usize,
    #[serde(default = "chars_max")]
    #[schemars(range(min = 1, max = CHARS_MAX))]
    max_chars: usize,
}

fn chars_max() -> usize {
    CHARS_MAX
}

#[async_trait]
impl Tool for WebFetch {
    type Args = Args;
    const SPEC: ToolSpec =
        ToolSpec::reads("web_fetch", "Read a web page as text, a long one page by page.");

    fn reach(args: &Args, _: &Address) -> Reach {
        Reach::Url(args.url.trim().to_owned())
    }

    fn check_args(&self, args: &Args, _: &CallPlace<'_>) -> Result<(), String> {
        let url = parse_url(&args.url)?;
        let checked = self.fetcher.gate.check_form(&url).map(drop);
        checked.map_err(|Forbidden(why)| redirects::refusal(&url, &why))
    }

    async fn call(&self, args: Args, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let url = parse_url(&args.url).map_err(ToolError::TellModel)?;
        let page = self.page(url.clone()).await?;
        let part = part(&page, args.offset, args.max_chars.clamp(1, CHARS_MAX));
        let part = part.map_err(ToolError::TellModel)?;
        let moved = if page.url == url { "" } else { "(it has led here) " };
        let title = page.title.as_deref().map(|title| format!("Title: {title}\n"));
        let title = title.unwrap_or_default();
        let source = Source::Page { url: page.url.to_string() };
        Ok(ToolOutput::of(source, format!("{moved}{}\n{title}\n{part}", page.url)))
    }
}

fn parse_url(text: &str) -> Result<Url, String> {
    let text = text.trim();
    if text.chars().nth(URL_CHARS_MAX).is_some() {
        return Err(format!("The URL is longer than {URL_CHARS_MAX} characters."));
    }
    let mut url = Url::parse(text).map_err(|error| {
        format!("The URL is wrong ({error}). Write it whole, as in https://example.com/page.")
    })?;
    url.set_fragment(None);
    Ok(url)
}

/// Returns `chars` characters from `offset` on, and how to read on.
fn part(page: &WebPage, offset: usize, chars: usize) -> Result<String, String> {
    let cut = page.cut.as_ref().map(|why| format!("\n[There is more that I cannot show: {why}.]"));
    let cut = cut.unwrap_or_default();
    if page.text.trim().is_empty() {
        return Ok(format!("[The page has no text; it may be made by scripts alone.]{cut}"));
    }
    let length = page.text.chars().count();
    if offset >= length {
        return Err(format!("The text ends at character {length}; use a smaller offset."));
    }
    let text: String = page.text.chars().skip(offset).take(chars).collect();
    let end = offset + text.chars().count();
    Ok(match (offset, end) {
        (0, end) if end == length => format!("{text}{cut}"),
        (_, end) if end == length => {
            format!("{text}\n[Characters {offset} to {end}. This is the end.]{cut}")
        }
        _ => format!(
            "{text}\n[Characters {offset} to {end} of {length}. Read on with offset {end}.]"
        ),
    })
}
