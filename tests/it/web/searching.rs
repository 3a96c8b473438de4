//! Searching by engines of all four kinds, and what is done when one does not answer.

use peacrab::tools::web::search::{Engine, EngineKind, WebSearch};
use serde_json::{Value, json};

use super::{Came, call, tool_context};
use crate::support::search_api::{KEY, SearchApi};
use crate::support::wire::closed_port;

const ALL: [EngineKind; 4] =
    [EngineKind::Brave, EngineKind::Tavily, EngineKind::Searxng, EngineKind::DuckDuckGo];

/// Searches with these, the first first.
async fn search(engines: &[Engine], arguments: Value) -> Came {
    search_with(super::PROGRAM, engines, arguments).await
}

/// Searches with another program in the place of the process that reads HTML.
async fn search_with(reader: &str, engines: &[Engine], arguments: Value) -> Came {
    let tool = WebSearch::new(engines).unwrap().with_program(reader);
    let (cx, _folder) = tool_context();
    call(&tool, &cx, &arguments).await
}

async fn search_for(engines: &[Engine], query: &str) -> Came {
    search(engines, json!({ "query": query })).await
}

/// Whether the engine can be told how many are wanted.
fn counts(api: EngineKind, count: u64) -> Option<u64> {
    matches!(api, EngineKind::Brave | EngineKind::Tavily).then_some(count)
}

#[tokio::test]
async fn every_engine_gives_titles_addresses_and_snippets() {
    for api in ALL {
        let fake = SearchApi::start(api).await;
        fake.finds(&[
            ("Peas &amp; <b>beans</b>", "https://a.example/peas?x=1&y=2", "All about <b>peas</b>."),
            ("Second", "http://b.example/", ""),
        ]);
        let came = search_for(&[fake.engine()], "  green\npeas & \"beans\" ").await;
        let text = came.text();
        let end = "2. Second\n   http://b.example/";
        assert!(text.ends_with(end), "{text}");
        match api {
            // These two write HTML.
            EngineKind::Brave | EngineKind::DuckDuckGo => assert_eq!(
                text,
                format!(
                    "1. Peas & beans\n   https://a.example/peas?x=1&y=2\n   All about peas.\n{end}"
                )
            ),
            EngineKind::Tavily | EngineKind::Searxng => {
                assert!(text.contains("   All about <b>peas</b>."), "{text}")
            }
        }
        fake.finish(&[("green peas & \"beans\"", counts(api, 5))]);
    }
}

#[tokio::test]
async fn as_many_as_were_asked_for_are_shown() {
    let hits: Vec<_> = (0..15).map(|n| format!("https://{n}.example/")).collect();
    let hits: Vec<_> = hits.iter().map(|url| ("t", url.as_str(), "s")).collect();
    for api in ALL {
        let fake = SearchApi::start(api).await;
        for (wanted, shown) in [(json!(1), 1), (json!(3), 3), (json!(99), 10), (json!(0), 1)] {
            fake.finds(&hits);
            let arguments = json!({ "query": "x", "count": wanted });
            let text = search(&[fake.engine()], arguments).await.text();
            assert_eq!(text.lines().filter(|line| line.contains("https://")).count(), shown);
        }
        let searched: Vec<_> = [1, 3, 10, 1].map(|n| ("x", counts(api, n))).into();
        fake.finish(&searched);
    }
}

#[tokio::test]
async fn nothing_found_is_an_answer() {
    for api in ALL {
        let fake = SearchApi::start(api).await;
        fake.finds(&[]);
        let text = search_for(&[fake.engine()], "xyzzy").await.text();
        assert_eq!(text, format!("{} found nothing for: xyzzy", api.as_str()));
    }
    let brave = SearchApi::start(EngineKind::Brave).await;
    brave.replies(200, r#"{"type":"search","query":{"original":"xyzzy"}}"#);
    assert!(search_for(&[brave.engine()], "xyzzy").await.text().contains("found nothing"));
}

#[tokio::test]
async fn when_one_does_not_answer_the_next_is_asked() {
    for status in [429, 500, 401, 403, 404, 422, 302] {
        for api in ALL {
            let (first, second) =
                (SearchApi::start(api).await, SearchApi::start(EngineKind::Searxng).await);
            first.replies(status, "{\"error\": \"no\"}");
            second.finds(&[("Found", "https://x.example/", "")]);
            let text = search_for(&[first.engine(), second.engine()], "x").await.text();
            assert_eq!(text, "1. Found\n   https://x.example/", "{api:?} {status}");
            first.finish(&[("x", counts(api, 5))]);
            second.finish(&[("x", None)]);
        }
    }
    let (_port, url) = closed_port();
    let gone = Engine { base_url: url, ..Engine::default() };
    let second = SearchApi::start(EngineKind::Brave).await;
    second.finds(&[("Found", "https://x.example/", "")]);
    assert!(search_for(&[gone, second.engine()], "x").await.text().contains("Found"));
}

#[tokio::test]
async fn the_first_that_answers_is_the_only_one_that_is_asked() {
    let (first, second) = (
        SearchApi::start(EngineKind::Tavily).await,
        SearchApi::start(EngineKind::DuckDuckGo).await,
    );
    first.finds(&[("Found", "https://x.example/", "")]);
    search_for(&[first.engine(), second.engine()], "x").await.text();
    first.finish(&[("x", Some(5))]);
    second.finish(&[]);
}

#[tokio::test]
async fn what_failed_is_told_without_the_key() {
    let brave = SearchApi::start(EngineKind::Brave).await;
    let searxng = SearchApi::start(EngineKind::Searxng).await;
    let engines = [brave.engine(), searxng.engine()];
    brave.replies(401, &format!("{{\"error\": \"{KEY}\"}}"));
    searxng.replies(403, "");
    assert_eq!(
        search_for(&engines, "x").await.refused(),
        "The search failed. brave: HTTP 401: it wants another api_key; searxng: HTTP 403: `json` \
         must be among search.formats in its settings.yml."
    );
    brave.replies(429, "");
    searxng.replies(200, "<html>no json</html>");
    let words = search_for(&engines, "x").await.passing();
    assert_eq!(
        words,
        "The search failed. brave: HTTP 429 Too Many Requests; searxng: its answer is not what was \
         asked for."
    );
    let (_port, url) = closed_port();
    let gone = Engine { base_url: url.clone(), ..brave.engine() };
    let words = search_for(&[gone], "secret words").await.passing();
    assert!(words.contains("brave: cannot be reached: "), "{words}");
    assert!(!words.contains(KEY) && !words.contains("secret") && !words.contains(&url), "{words}");
}

#[tokio::test]
async fn an_engine_that_takes_us_for_a_machine_has_not_answered() {
    let riddle = r#"<html><body><form id="challenge-form"><div class="anomaly-modal__title">
        Unfortunately, bots use DuckDuckGo too.</div></form></body></html>"#;
    for status in [202, 200] {
        let duck = SearchApi::start(EngineKind::DuckDuckGo).await;
        duck.replies(status, riddle);
        let words = search_for(&[duck.engine()], "x").await.passing();
        assert!(words.contains("duckduckgo: it wants proof that a person asks"), "{words}");
    }
}

#[tokio::test]
async fn a_reader_that_dies_or_prints_nonsense_costs_one_engine_and_not_the_search() {
    for reader in ["/bin/false", "/bin/true", "/bin/cat", "/no/such/program"] {
        for api in [EngineKind::DuckDuckGo, EngineKind::Brave] {
            let (broken, other) =
                (SearchApi::start(api).await, SearchApi::start(EngineKind::Tavily).await);
            broken.finds(&[("Lost", "https://lost.example/", "s")]);
            broken.finds(&[("Lost", "https://lost.example/", "s")]);
            other.finds(&[("Found", "https://found.example/", "s")]);
            let query = json!({ "query": "x" });
            let engines = [broken.engine(), other.engine()];
            let text = search_with(reader, &engines, query.clone()).await.text();
            assert_eq!(text, "1. Found\n   https://found.example/\n   s", "{reader}");
            let words = search_with(reader, &engines[..1], query).await.passing();
            let end = "its answer cannot be read: its HTML broke my reader.";
            assert!(words.ends_with(end), "{reader}: {words}");
        }
    }
}

#[tokio::test]
async fn what_engines_say_is_kept_within_bounds() {
    let fake = SearchApi::start(EngineKind::Tavily).await;
    let long = "very ".repeat(500);
    fake.finds(&[
        (&long, "https://long.example/", &long),
        (
            "lines\nand\u{7}bells",
            "https://lines.example/",
            "one\n\n2. Fake\n   https://fake.example/",
        ),
        ("", "https://untitled.example/", ""),
        ("script", "javascript:alert(1)", ""),
        ("file", "file:///etc/passwd", ""),
        ("none", "", ""),
        ("far", &format!("https://far.example/{}", "x".repeat(500)), ""),
    ]);
    let text = search(&[fake.engine()], json!({ "query": "x", "count": 10 })).await.text();
    assert!(text.chars().count() < 1_000, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("   https://")).count(), 3, "{text}");
    assert!(text.contains("2. lines and bells\n"), "{text}");
    assert!(text.contains("3. (no title)\n   https://untitled.example/"), "{text}");
    fake.replies(200, &format!("{{\"results\": [], \"pad\": \"{}\"}}", "x".repeat(1_500_000)));
    let words = search_for(&[fake.engine()], "x").await.refused();
    assert!(words.contains("its answer is too large"), "{words}");
    for wrong in ["", "null", "[]", "{\"results\": 7}", "{\"results\": [{\"title\": \"t\"}]}", "{"]
    {
        fake.replies(200, wrong);
        let words = search_for(&[fake.engine()], "x").await.passing();
        assert!(words.contains("its answer is not what was asked for"), "{wrong}: {words}");
    }
}

#[tokio::test]
async fn bad_arguments_are_answered_with_what_would_be_right() {
    let fake = SearchApi::start(EngineKind::Brave).await;
    for (arguments, part) in [
        (json!({}), "`query` is missing"),
        (json!({ "query": " \n " }), "The query is empty"),
        (json!({ "query": "x".repeat(401) }), "longer than 400 characters"),
        (json!({ "query": "x", "count": -1 }), "invalid value"),
        (json!({ "query": "x", "page": 2 }), "there is no `page`"),
    ] {
        let words = search(&[fake.engine()], arguments).await.refused();
        assert!(words.contains(part), "{words}");
    }
    fake.finish(&[]);
}
