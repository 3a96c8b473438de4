//! Tools that other programs lend: the good path, and programs that misbehave in every way.

mod catalogue;
mod fake;
mod http;
mod pins;
mod program;
mod real;
mod sandboxed;

use std::time::Duration;

use peacrab::people::Role;
use peacrab::tools::McpServerEntry;
use peacrab::tools::mcp::{Config, Via};

use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{calls, says};

/// A server that everybody may use.
fn server(via: Via) -> Config {
    let timeout = Duration::from_secs(10);
    Config { via, allow: None, reads: Vec::new(), timeout, role: Role::Guest, trusted: true }
}

/// The same, which is not trusted.
pub(crate) fn untrusted_server() -> Config {
    Config { trusted: false, ..server(fake::program("good", &[])) }
}

/// Starts the daemon of a rig again with a server, which then changes the description of its tool `echo`.
pub(crate) async fn change_description(rig: &mut Rig, text: &str) {
    rig.stop().await;
    rig.parts.mcp.insert("fake".to_owned(), server(fake::program("good", &[])));
    rig.start().await;
    rig.wait_until(|rig| mcp_server(rig, "fake").up).await;
    pins::change(rig, serde_json::json!({"text": text})).await;
}

/// A daemon that has these servers.
async fn rig(servers: impl IntoIterator<Item = (&'static str, Config)>) -> Rig {
    let mcp = servers.into_iter().map(|(name, config)| (name.to_owned(), config)).collect();
    Rig::with(FakeChannel::new(), RigOptions { mcp, ..RigOptions::default() }).await
}

/// Has the model call a tool, and gives what it is shown of the result.
async fn call(rig: &mut Rig, tool: &str, arguments: serde_json::Value) -> String {
    call_in(rig, "1", tool, arguments).await
}

async fn call_in(rig: &mut Rig, chat: &str, tool: &str, arguments: serde_json::Value) -> String {
    rig.model.on(&format!("use {tool}"), [calls(&[(tool, arguments)]), says("done")]);
    assert_eq!(rig.ask(chat, &format!("use {tool}")).await, "done");
    let shown = rig.model.last().messages.pop().unwrap();
    shown.strip_prefix("result: ").unwrap_or(&shown).to_owned()
}

/// The tools of the kind that the model is told of.
async fn offered(rig: &mut Rig) -> Vec<String> {
    assert_eq!(rig.ask("1", "what is there?").await, "re: what is there?");
    let tools = rig.model.last().tools.into_iter().map(|tool| tool.name);
    tools.filter(|name| name.starts_with("mcp_")).collect()
}

fn mcp_server(rig: &Rig, name: &str) -> McpServerEntry {
    let mcp_tools = rig.parts.tools.mcp_tools();
    let found = mcp_tools.mcp_servers.iter().find(|mcp_server| mcp_server.name == name);
    // The daemon may not have come that far.
    let none = McpServerEntry { name: name.to_owned(), up: false, tools: 0, trouble: None };
    found.cloned().unwrap_or(none)
}

fn trouble(rig: &Rig, name: &str) -> String {
    mcp_server(rig, name).trouble.unwrap_or_default()
}
