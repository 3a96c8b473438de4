//! Changed texts of MCP servers.

use std::fmt::Display;
use std::path::Path;

use super::{as_is, fenced, visible::visible};

pub const ACCEPT_MCP_TEXTS: &str = "Accept";
pub const MCP_TEXTS_FILE: &str = "tools.txt";

/// A tool of a server as a model would be told of it: its description, and its schema as JSON.
#[derive(Clone, Copy, Debug)]
pub struct ToolText<'a> {
    pub description: &'a str,
    pub schema: &'a str,
    /// The server says that the tool only reads.
    pub reads: bool,
}

/// Shows what a server newly says of a tool, and what was accepted. None: the tool is new.
pub fn mcp_tool(name: &str, before: Option<ToolText<'_>>, now: ToolText<'_>) -> String {
    let shown = |text: ToolText<'_>| {
        let ToolText { description, schema, reads } = text;
        let reads = if reads { "\nIt says that it only reads." } else { "" };
        format!("{description}\n{schema}{reads}")
    };
    match before {
        None => format!("New tool {name}:\n{}", shown(now)),
        Some(before) => {
            format!(
                "Tool {name}, until now:\n{}\n\nTool {name}, new:\n{}",
                shown(before),
                shown(now)
            )
        }
    }
}

/// The same with its invisible characters named, for a file.
pub fn mcp_tools_whole(changes: &str) -> String {
    visible(changes)
}

/// Asks about changed texts. `changes` is None if a file above has them.
pub fn mcp_texts_changed(server: &str, changes: Option<&str>) -> String {
    let server = as_is(server);
    let shown = match changes {
        Some(changes) => fenced("", &visible(changes)),
        None => "The file above has all of it.".to_owned(),
    };
    format!(
        "The MCP server {server} has changed its tool descriptions. I'll keep using the descriptions you accepted \
         until you approve these.\n{shown}\nShall I use exactly these texts? (/trust mcp:{server} shows them again.)"
    )
}

pub fn mcp_texts_accepted(server: &str) -> String {
    format!(
        "Accepted. My model now sees the texts of the MCP server {} that you saw.",
        as_is(server)
    )
}

pub fn mcp_texts_changed_since(server: &str) -> String {
    let server = as_is(server);
    format!(
        "The MCP server {server} has changed its texts since you saw them. Use /trust mcp:{server} to see them again."
    )
}

pub fn no_mcp_texts_wait(server: &str) -> String {
    format!("No changed texts of an MCP server {} are waiting.", as_is(server))
}

// Why a server is down.

/// `why` is the reason why its sandbox could not be made.
pub fn mcp_not_sandboxed(why: &str) -> String {
    format!(
        "it cannot be sandboxed here: {}. If that cannot be helped, `sandbox = \"off\"` in its section runs it with all my \
         rights",
        as_is(why)
    )
}

/// Explains why a hook or an MCP server is not started.
pub fn program_is_writable(path: &Path) -> String {
    format!(
        "it is not started, because tools or commands could change what it runs: {}. Move that to another folder",
        path.display()
    )
}

/// Explains why an MCP server is not started whose `paths` name a part of a folder of `[exec] write`.
pub fn mcp_path_is_replaceable(path: &Path) -> String {
    format!(
        "it is not started, because commands could replace {} by a link: take it out of `paths` or of [exec] write",
        path.display()
    )
}

/// Tells the owner about a hook that is not started.
pub fn hook_refused(name: &str, why: &str) -> String {
    format!("The hook {} does not run: {why}.", as_is(name))
}

/// Follows the reason why a sandboxed server has not come up.
pub fn mcp_sandbox_hint(has_network: bool) -> String {
    let network = if has_network { "" } else { "; `network = true` gives it the network" };
    format!("It is sandboxed: `paths` in its section lets it read more folders{network}.")
}

pub fn mcp_state_failed(server: &str, error: &dyn Display) -> String {
    format!("its folder mcp/{server} cannot be used: {error}")
}

pub fn mcp_state_full(folder: &Path, bytes_max: u64) -> String {
    let (folder, megabytes) = (folder.display(), bytes_max / 1_000_000);
    format!("its folder {folder} holds more than {megabytes} MB ([exec] disk_mb): empty it")
}

/// A server would see `by`, and in it a file with secrets, or my home.
pub fn mcp_exposed(by: &Path, secrets: Option<&Path>) -> String {
    let hidden = match secrets {
        None => "Peacrab's home".to_owned(),
        Some(file) => format!("the secrets in {}", file.display()),
    };
    format!("it is not started, because it could read {hidden} through {}", by.display())
}
