//! What can be refused by the arguments of a call alone is refused before anybody is asked, in the words of the tool, and
//! `peacrab explain` knows it.

use peacrab::config::AgentConfig;
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::people::Role;
use peacrab::sandbox::SandboxState;
use peacrab::tools::{ToolSet, shell, web};
use peacrab::types::message::ChatKind;
use serde_json::{Value, json};

use super::ToolFixture;
use crate::shell::config;
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{calls, says};

/// A fixture with all tools, as somebody.
fn fixture(role: Role, chat_kind: ChatKind) -> ToolFixture {
    let web = web::tools(&web::Config::default()).unwrap();
    let shell = shell::tools(&config(), &SandboxState::Unsandboxed);
    let tools = ToolSet::standard_with(web.into_iter().chain(shell).collect());
    ToolFixture { tools, ..ToolFixture::with(role, chat_kind) }
}

/// The check of a call alone, which has neither disk nor network.
fn checked(fixture: &ToolFixture, tool: &str, arguments: &Value) -> Result<(), String> {
    let (tool, _) = fixture.tools.authorise(tool, fixture.cx.role)?;
    tool.check(&arguments.to_string(), &fixture.cx.place())
}

/// A call is refused by its check and by itself, in the same words.
async fn check(fixture: ToolFixture, tool: &str, arguments: Value, words: &str) {
    let refused = checked(&fixture, tool, &arguments).unwrap_err();
    assert!(refused.contains(words), "{tool} {arguments}: {refused}");
    assert_eq!(fixture.call(tool, arguments).await, Err(refused));
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
        check(fixture(role, chat_kind), tool, arguments, words).await;
    }
}

#[tokio::test]
async fn questions_plans_searches_and_listings_are_refused_by_their_check_as_by_themselves() {
    let write = |text: String| json!({"action": "write", "id": "1", "text": text});
    let plan = |text: String, items: usize| {
        let item = json!({"text": text, "state": "todo"});
        json!({"items": vec![item; items]})
    };
    let owner = (Role::Owner, ChatKind::Private);
    for ((role, chat_kind), tool, arguments, words) in [
        (owner, "process", json!({"action": "poll"}), "without an `id`"),
        (owner, "process", write("x".repeat(100_001)), "At most 100000 bytes"),
        (owner, "ask_question", json!({"question": " "}), "The question has no text."),
        (owner, "ask_question", json!({"question": "x".repeat(2_001)}), "at most 2000 characters"),
        (
            owner,
            "ask_question",
            json!({"question": "a", "choices": ["/stop"]}),
            "a choice cannot be a command",
        ),
        (owner, "plan", plan(" ".to_owned(), 1), "An item of the plan has no text."),
        (owner, "plan", plan("x".repeat(201), 1), "An item has 201 characters"),
        (owner, "plan", plan("x".to_owned(), 21), "at most 20 items"),
        (owner, "propose", json!({"title": " ", "body": "a"}), "A title has 1 to 120"),
        (owner, "propose", json!({"title": "a", "body": " "}), "A body has 1 to 3000"),
        (owner, "update_proposal", json!({"id": 1, "title": " "}), "Nothing to change"),
        (owner, "update_proposal", json!({"id": 1, "body": "x".repeat(3_001)}), "A body has 1"),
        (owner, "web_search", json!({"query": " "}), "The query is empty."),
        (owner, "web_search", json!({"query": "x".repeat(401)}), "longer than 400 characters"),
        (owner, "list_files", json!({"path": "../a"}), "climbs with `..`"),
        (owner, "list_files", json!({"path": "people/p5"}), "is private"),
        ((Role::User, ChatKind::Group), "list_files", json!({"path": "groups/g1"}), "is private"),
        (owner, "list_markdown", json!({"path": "/a"}), "is absolute"),
        (owner, "list_markdown", json!({"path": "people/p5/workspace"}), "is private"),
        (owner, "spawn", json!({"task": " "}), "The task has no text."),
        (owner, "subagent", json!({"task": "x".repeat(8_001)}), "at most 8000 characters"),
        (owner, "task_completion", json!({"result": " "}), "`result` is empty."),
        (owner, "converse", json!({"text": ""}), "`text` is empty."),
        (owner, "memory_search", json!({"query": " \" * "}), "`query` has no words."),
        (owner, "memory_search", json!({"query": "a", "since": "then"}), "`since` is a date"),
    ] {
        check(fixture(role, chat_kind), tool, arguments, words).await;
    }
}

#[test]
fn a_call_that_can_begin_passes_its_check() {
    let fixture = fixture(Role::Owner, ChatKind::Private);
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
        ("process", json!({"action": "list"})),
        ("process", json!({"action": "poll", "id": "gone-1"})),
        ("ask_question", json!({"question": "a", "choices": ["b", "c"]})),
        ("plan", json!({"items": []})),
        ("propose", json!({"title": "a", "body": "b"})),
        ("update_proposal", json!({"id": 1, "state": "accepted"})),
        ("web_search", json!({"query": "a"})),
        ("list_files", json!({})),
        ("list_files", json!({"path": "downloads/not-there"})),
        ("list_markdown", json!({"path": "shared"})),
        ("memory_search", json!({"query": "", "scope": "summary"})),
        ("memory_search", json!({"query": "result 3", "scope": "untrusted", "since": "7d"})),
        ("spawn", json!({"task": "a"})),
        ("task_completion", json!({"result": "a"})),
    ] {
        assert_eq!(checked(&fixture, tool, &arguments), Ok(()), "{tool} {arguments}");
    }
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_that_cannot_begin() {
    let approvals = Approvals { tools: vec!["write_*".to_owned()], roles: Vec::new() };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut rig = Rig::of(RigOptions { agent, ..RigOptions::default() }).await;
    let write = json!({"path": "~/x", "content": "a"});
    rig.model.on("write", [calls(&[("write_file", write)]), says("I could not.")]);
    assert_eq!(rig.ask("1", "write it").await, "I could not.");
    assert!(rig.model.last().transcript().contains("begins in a home folder"));
    assert_eq!(rig.query("SELECT state FROM calls"), ["failed"]);
    rig.finish().await;
}
