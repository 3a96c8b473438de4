//! Strict fakes of search engines, each on a socket of its own: they refuse what the real ones refuse,
//! and answer as those do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use peacrab::secret::Secret;
use peacrab::tools::web::search::{Engine, EngineKind};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The key that they want.
pub(crate) const KEY: &str = "tvly-geheim-0123456789";

/// What was searched: the words, and how many were wanted, where that can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Searched {
    pub(crate) query: String,
    pub(crate) count: Option<u64>,
}

#[derive(Default)]
struct Seen {
    replies: VecDeque<(u16, String)>,
    searched: Vec<Searched>,
    faults: Vec<String>,
}

pub(crate) struct SearchApi {
    pub(crate) api: EngineKind,
    pub(crate) base_url: String,
    seen: Arc<Mutex<Seen>>,
    _server: JoinSet<()>,
}

impl SearchApi {
    pub(crate) async fn start(api: EngineKind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let app = Router::new().fallback(answer).with_state((api, Arc::clone(&seen)));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { api, base_url, seen, _server: server }
    }

    pub(crate) fn engine(&self) -> Engine {
        let api_key =
            matches!(self.api, EngineKind::Brave | EngineKind::Tavily).then(|| Secret::new(KEY));
        let name = self.api.as_str().to_owned();
        Engine { name, api: self.api, api_key, base_url: self.base_url.clone() }
    }

    /// Answers the next search with these: title, address, snippet.
    pub(crate) fn finds(&self, hits: &[(&str, &str, &str)]) {
        self.replies(200, &body(self.api, hits));
    }

    pub(crate) fn replies(&self, status: u16, body: &str) {
        self.seen.lock().unwrap().replies.push_back((status, body.to_owned()));
    }

    /// Every request was right, every reply was fetched, and this is what was searched.
    pub(crate) fn finish(&self, searched: &[(&str, Option<u64>)]) {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.faults, Vec::<String>::new());
        assert!(seen.replies.is_empty(), "nobody asked for: {:?}", seen.replies);
        let expected = searched
            .iter()
            .map(|(query, count)| Searched { query: (*query).to_owned(), count: *count });
        assert_eq!(seen.searched, expected.collect::<Vec<_>>());
    }
}

async fn answer(
    State((api, seen)): State<(EngineKind, Arc<Mutex<Seen>>)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let terms: BTreeMap<String, String> =
        url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut faults = Vec::new();
    let mut check = |fine: bool, what: &str| {
        if !fine {
            faults.push(format!("{}: {what}: {method} {uri} {body}", api.as_str()));
        }
    };
    let keys: Vec<&str> = terms.keys().map(String::as_str).collect();
    check(header("user-agent").starts_with("peacrab/"), "who is it");
    check(!headers.contains_key("cookie") && !headers.contains_key("referer"), "headers");
    let (query, count) = match api {
        EngineKind::Brave => {
            check(method == Method::GET && uri.path() == "/res/v1/web/search", "the place");
            check(header("x-subscription-token") == KEY, "the key");
            check(header("accept") == "application/json", "accept");
            check(keys == ["count", "q", "text_decorations"], "the terms");
            check(terms["text_decorations"] == "false", "text_decorations");
            let count = terms["count"].parse().unwrap();
            check((1..=20).contains(&count), "count");
            (terms["q"].clone(), Some(count))
        }
        EngineKind::Tavily => {
            check(
                method == Method::POST && uri.path() == "/search" && keys.is_empty(),
                "the place",
            );
            check(header("authorization") == format!("Bearer {KEY}"), "the key");
            check(header("content-type") == "application/json", "content-type");
            let keys: Vec<_> = body.as_object().unwrap().keys().collect();
            check(keys == ["query", "max_results", "search_depth"], "the fields");
            check(body["search_depth"] == "basic", "search_depth");
            let count = body["max_results"].as_u64().unwrap();
            check(count <= 20, "max_results");
            (body["query"].as_str().unwrap().to_owned(), Some(count))
        }
        EngineKind::Searxng => {
            check(method == Method::GET && uri.path() == "/search", "the place");
            check(keys == ["format", "q"] && terms["format"] == "json", "the terms");
            (terms["q"].clone(), None)
        }
        EngineKind::DuckDuckGo => {
            check(method == Method::GET && uri.path() == "/html/", "the place");
            check(keys == ["q"], "the terms");
            (terms["q"].clone(), None)
        }
    };
    check((1..=400).contains(&query.chars().count()), "the query's length");
    let mut seen = seen.lock().unwrap();
    seen.searched.push(Searched { query, count });
    let reply = seen.replies.pop_front();
    if reply.is_none() {
        faults.push("nobody expected this request".to_owned());
    }
    seen.faults.extend(faults.iter().cloned());
    let (status, body) = match reply {
        Some(reply) if faults.is_empty() => reply,
        _ => (422, faults.join("; ")),
    };
    let kind =
        if api == EngineKind::DuckDuckGo { "text/html; charset=UTF-8" } else { "application/json" };
    (StatusCode::from_u16(status).unwrap(), [("content-type", kind)], body).into_response()
}

/// As each of them writes what it has found.
fn body(api: EngineKind, hits: &[(&str, &str, &str)]) -> String {
    let each = |make: fn(&(&str, &str, &str)) -> Value| hits.iter().map(make).collect::<Vec<_>>();
    match api {
        EngineKind::Brave => json!({
            "type": "search",
            "query": { "original": "…", "more_results_available": true },
            "mixed": { "type": "mixed", "main": [] },
            "web": { "type": "search", "family_friendly": true, "results": each(|(title, url, text)| json!({
                "type": "search_result", "title": title, "url": url, "description": text,
                "language": "en", "meta_url": { "scheme": "https" }, "extra_snippets": [],
            })) },
        })
        .to_string(),
        EngineKind::Tavily => json!({
            "query": "…", "answer": null, "images": [], "response_time": 1.67, "request_id": "1",
            "results": each(|(title, url, text)| json!({
                "title": title, "url": url, "content": text, "score": 0.81, "raw_content": null,
            })),
        })
        .to_string(),
        EngineKind::Searxng => json!({
            "query": "…", "number_of_results": 0, "answers": [], "corrections": [], "infoboxes": [],
            "suggestions": [], "unresponsive_engines": [["google", "timeout"]],
            "results": each(|(title, url, text)| json!({
                "title": title, "url": url, "content": text, "engine": "bing", "score": 1.0,
                "parsed_url": ["https", "x", "/", "", "", ""], "category": "general",
            })),
        })
        .to_string(),
        EngineKind::DuckDuckGo => {
            let hits = hits.iter().map(|(title, url, text)| {
                let url: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
                let link = format!("//duckduckgo.com/l/?uddg={url}&amp;rut=0123abc");
                format!(
                    r#"<div class="result results_links results_links_deep web-result ">
<div class="links_main links_deep result__body"><h2 class="result__title">
<a rel="nofollow" class="result__a" href="{link}">{title}</a></h2>
<div class="result__extras"><div class="result__extras__url"><span class="result__icon">
<a rel="nofollow" href="{link}"><img class="result__icon__img" src="//x/i.ico" /></a></span>
<a class="result__url" href="{link}">site/path</a></div></div>
<a class="result__snippet" href="{link}">{text}</a><div class="clear"></div></div></div>"#
                )
            });
            let ad = r#"<div class="result results_links results_links_deep result--ad ">
<h2 class="result__title"><a rel="nofollow" class="result__a"
href="https://duckduckgo.com/y.js?ad_domain=ad.example">Buy</a></h2>
<a class="result__snippet" href="https://duckduckgo.com/y.js?x">An ad</a></div>"#;
            let none = r#"<div class="no-results">No results found for <b>x</b>.</div>"#;
            let hits: String = hits.collect();
            let inside = if hits.is_empty() { none.to_owned() } else { format!("{ad}{hits}") };
            format!(
                "<!DOCTYPE html><html><head><title>x at DuckDuckGo</title></head><body>\
                 <div class=\"serp__results\"><div id=\"links\" class=\"results\">{inside}</div></div></body></html>"
            )
        }
    }
}
