//! Search results from HTML, which anybody may have written. Fetches nothing. Runs in the process of `helper.rs`.

use serde::{Deserialize, Serialize};
use url::Url;

use super::tree;
use crate::short_text::shortened;

/// Maximum number of results of a page: as many as fit into a result of the tool.
pub(super) const COUNT_MAX: usize = 10;

const TITLE_CHARS_MAX: usize = 150;
const SNIPPET_CHARS_MAX: usize = 400;

/// Maximum length of a URL. A longer one is no use to a model.
const URL_CHARS_MAX: usize = 400;

/// A search result.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SearchHit {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

impl SearchHit {
    /// Returns the result with one line for each field, bounded. None if web_fetch could not read it.
    pub(super) fn tidied(self) -> Option<Self> {
        let url = Url::parse(self.url.trim()).ok()?;
        let is_page =
            matches!(url.scheme(), "http" | "https") && url.as_str().len() <= URL_CHARS_MAX;
        let title = line(&self.title, TITLE_CHARS_MAX);
        let title = if title.is_empty() { "(no title)".to_owned() } else { title };
        let snippet = line(&self.snippet, SNIPPET_CHARS_MAX);
        is_page.then(|| Self { title, url: url.into(), snippet })
    }
}

fn line(text: &str, chars_max: usize) -> String {
    let text = text.split(|c: char| c.is_whitespace() || c.is_control());
    let text = text.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    shortened(&text, chars_max)
}

/// The results on a page.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ResultPage {
    /// The first ones, bounded.
    pub(super) hits: Vec<SearchHit>,
    /// False for a page of another kind, such as a challenge.
    pub(super) is_results: bool,
}

/// Parses a page of DuckDuckGo, without advertisements.
pub(super) fn duckduckgo(page: &str) -> ResultPage {
    let document = tree::parse(page).document;
    let (mut hits, mut is_ad, mut is_results) = (Vec::<SearchHit>::new(), false, false);
    for (name, node) in tree::elements(&document) {
        let class = tree::attribute(&node, "class").unwrap_or_default();
        let has = |wanted: &str| class.split_whitespace().any(|class| class == wanted);
        is_results |= has("no-results") || has("results");
        if name == "div" && has("result") {
            is_ad = has("result--ad");
        } else if name == "a" && has("result__a") && !is_ad {
            let url = tree::attribute(&node, "href").and_then(|href| target(&href));
            let (title, url) = (tree::text_of(&node), url.unwrap_or_default());
            hits.push(SearchHit { title, url, snippet: String::new() });
        } else if let Some(hit) = hits.last_mut().filter(|_| has("result__snippet") && !is_ad) {
            hit.snippet = tree::text_of(&node);
        }
    }
    is_results |= !hits.is_empty();
    let hits = hits.into_iter().filter_map(SearchHit::tidied).take(COUNT_MAX).collect();
    ResultPage { hits, is_results }
}

/// Returns the target of a link of DuckDuckGo, which leads through `/l/?uddg=…`.
fn target(href: &str) -> Option<String> {
    let url = Url::parse("https://duckduckgo.com").and_then(|base| base.join(href)).ok()?;
    let is_own = url.domain().is_some_and(|name| name == "duckduckgo.com");
    if !is_own {
        return Some(url.into());
    }
    url.query_pairs().find(|(name, _)| name == "uddg").map(|(_, target)| target.into_owned())
}

/// Converts texts that are sometimes HTML, as Brave's are, to plain ones.
pub(super) fn plain(texts: &[String]) -> Vec<String> {
    texts
        .iter()
        .map(|text| {
            let plain = tree::text_of(&tree::parse(text).document);
            line(&plain, SNIPPET_CHARS_MAX)
        })
        .collect()
}
