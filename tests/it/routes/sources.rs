//! The sources of results, from the real tools: each is stored as what it is, and makes the turn ask. The ways to the
//! model use tools that only say what they are told. `web::turns`, `mcp::program`, `shell::others` and `folders` try the
//! same tools in more ways.

use std::fs;
use std::sync::Arc;

use peacrab::tools::shell::{self, NetworkRule};
use peacrab::tools::web::FetchLimits;
use peacrab::tools::web::fetch::WebFetch;
use peacrab::tools::web::search::{EngineKind, WebSearch};
use peacrab::tools::{AnyTool, ToolSet};
use peacrab::types::source::Source;
use serde_json::{Value, json};

use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{calls, says};
use crate::support::search_api::SearchApi;
use crate::support::site::{Answer, Names, Site};

/// Our own program, which reads pages.
const PROGRAM: &str = env!("CARGO_BIN_EXE_peacrab");

/// The address of a result of the search.
const FOUND: &str = "https://crabs.example/1";

/// Has the model call a tool, whose result has this source alone and has what follows asked about.
async fn check(rig: &mut Rig, tool: &str, arguments: Value, source: Source) {
    let remembers = calls(&[("remember", json!({"text": "crabs"}))]);
    rig.model.on("look", [calls(&[(tool, arguments.clone())]), remembers, says("No.")]);
    let question = rig.ask("1", "look").await;
    assert!(question.contains("Approve?"), "{tool} {arguments}: {question}");
    let from = format!("read untrusted content (from {tool})");
    assert!(question.contains(&from), "{tool} {arguments}: {question}");
    let stored =
        format!("SELECT sources FROM calls WHERE tool = '{tool}' ORDER BY id DESC LIMIT 1");
    let stored: Vec<Source> = serde_json::from_str(&rig.query(&stored)[0]).unwrap();
    assert_eq!(stored, [source], "{tool} {arguments}");
    let number = question.split("/deny ").nth(1).expect("the question has a number");
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    rig.say("1", &format!("/deny {number}"));
    while rig.next_message("1").await != "No." {}
    rig.settled().await;
    rig.next_messages("1", rig.unread("1").len()).await;
    rig.ask("1", "/new").await;
}

#[tokio::test]
async fn pages_and_search_results() {
    let site = Site::start().await;
    site.has("/", Answer::html("<p>Crabs walk sideways.</p>"));
    let engine = SearchApi::start(EngineKind::Searxng).await;
    engine.finds(&[("Crabs", FOUND, "They walk sideways.")]);
    let listed = [site.at.to_string().parse().unwrap()];
    let fetch = WebFetch::new(&listed, Arc::new(Names::default()), FetchLimits::default());
    let search = WebSearch::new(&[engine.engine()]).unwrap();
    let tools = vec![
        Arc::new(fetch.with_program(PROGRAM)) as Arc<dyn AnyTool>,
        Arc::new(search.with_program(PROGRAM)),
    ];
    let tools = ToolSet::standard_with(tools);
    let mut rig = Rig::of(RigOptions { tools, ..RigOptions::default() }).await;
    let url = site.url("/");
    check(&mut rig, "web_fetch", json!({"url": url}), Source::Page { url }).await;
    let engine = EngineKind::Searxng.as_str().to_owned();
    let found = Source::Search { engine, urls: vec![FOUND.to_owned()] };
    check(&mut rig, "web_search", json!({"query": "crabs"}), found).await;
    rig.finish().await;
}

#[tokio::test]
async fn commands_in_the_downloads_and_with_the_network() {
    let config = shell::Config { network: NetworkRule::On, ..crate::shell::config() };
    let tools = ToolSet::standard_with(shell::tools(&config, &shell::check_sandbox(&config)));
    let mut rig = Rig::of(RigOptions { tools, ..RigOptions::default() }).await;
    fs::write(rig.path().join("downloads/page.txt"), "Crabs walk sideways.").unwrap();
    for arguments in [
        json!({"command": "cat page.txt", "untrusted": true}),
        json!({"command": "echo crabs", "network": true}),
    ] {
        check(&mut rig, "exec", arguments, Source::Command { read_others: true }).await;
    }
    rig.finish().await;
}

#[tokio::test]
async fn files_outside_of_the_workspace() {
    let mut rig = Rig::new().await;
    for path in ["downloads/page.txt", "shared/page.txt", "groups/g0123456789ab/page.txt"] {
        let file = rig.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "Crabs walk sideways.").unwrap();
        let source = Source::File { path: path.to_owned() };
        check(&mut rig, "read_file", json!({"path": path}), source).await;
    }
    rig.finish().await;
}

#[cfg(feature = "mcp")]
#[tokio::test]
async fn tools_of_a_server_that_is_not_trusted() {
    let mcp = [("fake".to_owned(), crate::mcp::untrusted_server())].into();
    let mut rig = Rig::of(RigOptions { mcp, ..RigOptions::default() }).await;
    let source = Source::McpServer { name: "fake".to_owned(), is_trusted: false };
    check(&mut rig, "mcp_fake_echo", json!({"text": "Crabs walk sideways."}), source).await;
    rig.finish().await;
}
