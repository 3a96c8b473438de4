//! What can be refused by the arguments of a call alone is refused before anybody is asked, in the words of the tool, and
//! `peacrab explain` knows it.

use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::people::Role;
use peacrab::sandbox::SandboxState;
use peacrab::tools::{ToolSet, shell, web};
use peacrab::types::message::ChatKind;
use serde_json::{Value, json};

use super::Desk;
use crate::shell::config;
use crate::support::rig::{Parts, Rig};
use crate::support::script::{calls, says};

/// A desk with all tools, as somebody.
fn desk(role: Role, chat_kind: ChatKind) -> Desk {
    let web = web::tools(&web::Config::default()).unwrap();
    let shell = shell::tools(&config(), &SandboxState::Unsandboxed);
    let tools = ToolSet::standard_with(web.into_iter().chain(shell).collect());
    Desk { tools, ..Desk::with(role, chat_kind) }
}

/// The check of a call alone, which has neither disk nor network.
fn checked(desk: &Desk, tool: &str, arguments: &Value) -> Result<(), String> {
    let (tool, _) = desk.tools.authorise(tool, desk.cx.role)?;
    tool.check(&arguments.to_string(), &desk.cx.place())
}

#[tokio::test]
async fn a_call_is_refused_by_its_check_as_by_itself() {
    let far = json!({"to": "home:9", "text": "hello"});
    let facts = json!({"path": "memory/FACTS.md", "content": "a"});
    let exec = |more: Value| {
        let mut arguments = json!({"command": "true"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let owner = (Role::Owner, ChatKind::Private);
    for ((role, chat_kind), tool, arguments, words) in [
        (owner, "message", json!({}), "text is empty."),
        (owner, "message", json!({"to": "moon:1", "text": "a"}), "there is no channel `moon`."),
        ((Role::User, ChatKind::Private), "message", far, "only an admin or the owner"),
        (owner, "write_file", json!({"path": "~/x", "content": "a"}), "begins in a home folder"),
        (owner, "write_file", facts.clone(), "is made by the program"),
        (owner, "append_file", facts, "is made by the program"),
        (owner, "append_file", json!({"path": "file:a", "content": "a"}), "is an address"),
        (owner, "edit_file", json!({"path": "a.md", "old": "", "new": "b"}), "`old` is empty"),
        (owner, "read_file", json!({"path": "people/p5/workspace/a.md"}), "is private"),
        (
            (Role::User, ChatKind::Private),
            "edit_file",
            json!({"path": "people/p5/workspace/a.md", "old": "a", "new": "b"}),
            "is private",
        ),
        (owner, "create_markdown_file", json!({"path": "a.txt", "content": "a"}), "no Markdown"),
        (owner, "remember", json!({"text": " "}), "The text is empty."),
        ((Role::User, ChatKind::Group), "note", json!({"text": "a"}), "Groups have no memory"),
        (owner, "schedule", json!({"action": "add", "when": "soon", "text": "a"}), "the time"),
        (owner, "web_fetch", json!({"url": "ftp://a.example/"}), "is not spoken here"),
        (owner, "web_fetch", json!({"url": "a.example"}), "The URL is wrong"),
        (owner, "exec", exec(json!({"command": " "})), "The command is empty."),
        (owner, "exec", exec(json!({"timeout": 100_000})), "may take at most 60 seconds"),
        (owner, "exec", exec(json!({"paths": ["memory"]})), "never see `memory`"),
        (owner, "exec", exec(json!({"paths": ["../a"]})), "paths: "),
        (owner, "exec", exec(json!({"cwd": "../a"})), "cwd: "),
    ] {
        let desk = desk(role, chat_kind);
        let refused = checked(&desk, tool, &arguments).unwrap_err();
        assert!(refused.contains(words), "{tool} {arguments}: {refused}");
        assert_eq!(desk.call(tool, arguments).await, Err(refused));
    }
}

#[test]
fn a_call_that_can_begin_passes_its_check() {
    let desk = desk(Role::Owner, ChatKind::Private);
    for (tool, arguments) in [
        ("message", json!({"text": "hello"})),
        ("message", json!({"to": "home:9", "text": "hello"})),
        ("write_file", json!({"path": "a.md", "content": "a"})),
        ("read_file", json!({"path": "not-there.md"})),
        ("remember", json!({"text": "a"})),
        ("schedule", json!({"action": "list"})),
        ("schedule", json!({"action": "add", "when": "in 20 minutes", "text": "a"})),
        ("web_fetch", json!({"url": "https://a.example/"})),
        ("exec", json!({"command": "true", "paths": ["notes.git"], "cwd": "notes.git"})),
    ] {
        assert_eq!(checked(&desk, tool, &arguments), Ok(()), "{tool} {arguments}");
    }
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_that_cannot_begin() {
    let approvals = Approvals { tools: vec!["write_*".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut rig = Rig::of(Parts { agent, ..Parts::default() }).await;
    let write = json!({"path": "~/x", "content": "a"});
    rig.model.on("write", [calls(&[("write_file", write)]), says("I could not.")]);
    assert_eq!(rig.ask("1", "write it").await, "I could not.");
    assert!(rig.model.last().transcript().contains("begins in a home folder"));
    assert_eq!(rig.look("SELECT state FROM calls"), ["failed"]);
    rig.finish().await;
}
