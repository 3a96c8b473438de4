//! Fetching as a model sees it: pages read on, kept for a while, and troubles in words.

use std::time::Duration;

use peacrab::people::Role;
use peacrab::tools::web::{self, Config};
use peacrab::tools::{Caller, ToolSet};
use peacrab::types::session::Finish;
use serde_json::json;

use super::{Reader, hasty};
use crate::support::site::{Answer, Site};

const TALK: Caller = Caller::Conversation(Finish::Answer);

#[tokio::test]
async fn reads_a_page() {
    let site = Site::start().await;
    site.has(
        "/page?q=1",
        Answer::html("<title>Peas</title><h1>Peas</h1><p>They are <b>green</b>.</p>"),
    );
    let reader = Reader::of(&site);
    let text = reader.fetch(&site.url("/page?q=1#top")).await.text();
    assert_eq!(
        text,
        format!("{}\nTitle: Peas\n\n# Peas\n\nThey are green.", site.url("/page?q=1"))
    );
    site.finish(&["/page?q=1"]);
}

#[tokio::test]
async fn reads_on_without_fetching_again_and_without_a_gap() {
    let site = Site::start().await;
    let long: String = (0..3_000).map(|n| format!("line {n}: é🦀\n")).collect();
    site.has("/long.txt", Answer::page("text/plain", &long));
    let reader = Reader::of(&site);
    let (mut whole, mut offset, mut pages) = (String::new(), 0, 0);
    loop {
        let asked = json!({ "url": site.url("/long.txt"), "offset": offset, "max_chars": 6_000 });
        let text = reader.call(asked).await.text();
        assert!(text.chars().count() <= 8_000);
        let (_, text) = text.split_once("\n\n").unwrap();
        let (part, mark) = text.rsplit_once("\n[Characters ").unwrap();
        whole += part;
        pages += 1;
        match mark.split_once("with offset ") {
            Some((_, next)) => offset = next.trim_end_matches(".]").parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(whole, long);
    assert_eq!(pages, 7);
    site.finish(&["/long.txt"]);
    let asked = json!({ "url": site.url("/long.txt"), "offset": 99_999 });
    let words = reader.call(asked).await.refused();
    assert!(words.starts_with("The text ends at character "), "{words}");
}

#[tokio::test]
async fn bad_arguments_are_answered_with_what_would_be_right() {
    let site = Site::start().await;
    let reader = Reader::of(&site);
    for (arguments, part) in [
        (json!({}), "`url` is missing"),
        (json!({ "url": 7 }), "`url` must be a text, not a number"),
        (json!({ "url": site.url("/"), "offset": -1 }), "invalid value"),
        (json!({ "url": site.url("/"), "method": "POST" }), "there is no `method`"),
        (json!({ "url": " " }), "The URL is wrong"),
    ] {
        let words = reader.call(arguments).await.refused();
        assert!(words.contains(part), "{words}");
    }
    site.has("/", Answer::html("<p>fine</p>"));
    let all = json!({ "url": site.url("/"), "offset": null, "max_chars": 999_999 });
    assert!(reader.call(all).await.text().ends_with("fine"));
    let little = json!({ "url": site.url("/"), "max_chars": 0 });
    assert!(reader.call(little).await.text().contains("\nf\n[Characters 0 to 1 of 4."));
}

/// Lets time pass, but not while a process works, whose time would be over at once.
async fn later(minutes: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(minutes * 60)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_page_is_kept_for_a_quarter_of_an_hour() {
    let site = Site::start().await;
    site.has("/", Answer::html("<p>first</p>"));
    let reader = Reader::of(&site);
    assert!(reader.fetch(&site.url("/")).await.text().contains("first"));
    site.has("/", Answer::html("<p>second</p>"));
    later(14).await;
    assert!(reader.fetch(&site.url("/#elsewhere")).await.text().contains("first"));
    later(2).await;
    assert!(reader.fetch(&site.url("/")).await.text().contains("second"));
    site.finish(&["/", "/"]);
}

#[tokio::test]
async fn no_more_is_kept_than_there_is_room_for_and_no_failures() {
    let site = Site::start().await;
    let reader = Reader::of(&site);
    let large = "x".repeat(500_000);
    for n in 0..5 {
        site.has(&format!("/{n}"), Answer::page("text/plain", &large));
        reader.fetch(&site.url(&format!("/{n}"))).await.text();
    }
    // The first had to go; the last are there.
    reader.fetch(&site.url("/4")).await.text();
    reader.fetch(&site.url("/0")).await.text();
    site.finish(&["/0", "/1", "/2", "/3", "/4", "/0"]);
    reader.fetch(&site.url("/missing")).await.refused();
    site.has("/missing", Answer::html("<p>there now</p>"));
    assert!(reader.fetch(&site.url("/missing")).await.text().contains("there now"));
}

#[tokio::test]
async fn answers_of_servers_are_told() {
    let site = Site::start().await;
    let reader = Reader::of(&site);
    for (status, words) in [
        (404, "cannot be fetched: its server answers 404 Not Found."),
        (410, "cannot be fetched: its server answers 410 Gone."),
        (401, "401 Unauthorized; it may be for those who are signed in."),
        (403, "403 Forbidden; it may be for those who are signed in."),
        (300, "300 Multiple Choices."),
        (304, "304 Not Modified."),
    ] {
        site.has("/", Answer::status(status));
        let refused = reader.fetch(&site.url("/")).await.refused();
        assert!(refused.ends_with(words), "{refused}");
    }
    for status in [429, 500, 502, 503] {
        site.has("/", Answer::status(status));
        let passing = reader.fetch(&site.url("/")).await.passing();
        assert!(passing.contains(&format!("its server answers {status} ")), "{passing}");
    }
    let gone = Reader::hasty(&Site::start().await, hasty());
    let names = crate::support::site::Names::of(&[("silent.example", &[])]);
    let nameless = Reader::new(&[], &names, hasty());
    let words = nameless.fetch("https://nowhere.example/").await.passing();
    assert!(words.contains("could not be fetched: no such name"), "{words}");
    nameless.fetch("https://silent.example/").await.passing();
    drop(gone);
}

#[tokio::test]
async fn a_redirect_is_followed_and_told() {
    let site = Site::start().await;
    site.has("/old", Answer::redirect(301, "new#part"));
    site.has("/new", Answer::html("<p>moved</p>"));
    let reader = Reader::of(&site);
    let text = reader.fetch(&site.url("/old")).await.text();
    assert_eq!(text, format!("(it has led here) {}\n\nmoved", site.url("/new")));
    reader.fetch(&site.url("/old")).await.text();
    site.finish(&["/old", "/new"]);
}

#[test]
fn tools_are_offered_to_the_role_that_the_config_names() {
    let names = |config: &Config, role| {
        let tools = ToolSet::standard_with(web::tools(config).unwrap());
        let names = tools.offered(TALK, role).into_iter().map(|tool| tool.name);
        names.filter(|name| name.starts_with("web_")).collect::<Vec<_>>()
    };
    let default = Config::default();
    assert_eq!(names(&default, Role::User), ["web_fetch", "web_search"]);
    assert!(names(&default, Role::Guest).is_empty());
    let admins = Config { role: Role::Admin, ..Config::default() };
    assert!(names(&admins, Role::User).is_empty());
    assert_eq!(names(&admins, Role::Admin).len(), 2);
    let off = Config { enabled: false, ..Config::default() };
    assert!(names(&off, Role::Owner).is_empty());
}

#[test]
fn models_are_shown_these_tools() {
    let tools = ToolSet::new(web::tools(&Config::default()).unwrap());
    let shown: Vec<String> = tools
        .offered(TALK, Role::User)
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        })
        .map(|tool| tool.to_string())
        .collect();
    assert!(shown.iter().all(|tool| tool.chars().count() <= 400));
    insta::assert_snapshot!(shown.join("\n\n"), @r#"
    {"name":"web_fetch","description":"Read a web page as text, a long one page by page.","parameters":{"type":"object","properties":{"url":{"type":"string"},"offset":{"type":"integer"},"max_chars":{"type":"integer"}},"required":["url"]}}

    {"name":"web_search","description":"Search the web for addresses and snippets; web_fetch reads a page.","parameters":{"type":"object","properties":{"query":{"type":"string"},"count":{"type":"integer"}},"required":["query"]}}
    "#);
}
