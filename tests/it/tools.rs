//! The tools as a model calls them: with JSON, in words.

mod checks;

use std::fs;

use peacrab::people::Role;
use peacrab::provider::ToolSchema;
use peacrab::tools::{Caller, TaskTools, ToolContext, ToolError, ToolOutput, ToolSet};
use peacrab::types::message::ChatKind;
use peacrab::types::session::Finish;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::tool_context::{text_of, tool_context};

/// A workspace and somebody who calls tools in it.
pub(crate) struct ToolFixture {
    pub(crate) tools: ToolSet,
    pub(crate) cx: ToolContext,
    _folder: TempDir,
}

impl ToolFixture {
    pub(crate) fn new() -> Self {
        let (cx, folder) = tool_context(Role::Owner, ChatKind::Private);
        Self { tools: ToolSet::standard(), cx, _folder: folder }
    }

    pub(crate) fn with(role: Role, chat_kind: ChatKind) -> Self {
        let mut fixture = Self::new();
        (fixture.cx.role, fixture.cx.chat_kind) = (role, chat_kind);
        fixture
    }

    pub(crate) async fn output(&self, tool: &str, arguments: &Value) -> Result<ToolOutput, String> {
        let (tool, _) = self.tools.authorise(tool, self.cx.role)?;
        match tool.call_json(&arguments.to_string(), &self.cx).await {
            Ok(output) => Ok(output),
            Err(
                ToolError::TellModel(words)
                | ToolError::Transient(words)
                | ToolError::TellUntrusted(_, words),
            ) => Err(words),
            Err(ToolError::Abort(error)) => panic!("the turn was aborted: {error}"),
        }
    }

    /// Calls `tool`, makes its change as a turn would, and gives what the model reads.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let output = self.output(tool, &arguments).await?;
        if let ToolOutput::Change(change) = &output {
            self.cx.workspace.apply(&change.file).unwrap();
        }
        Ok(text_of(output))
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.cx.workspace.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.cx.workspace.root().join(name)).unwrap()
    }
}

fn ok(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

fn refused(text: &str) -> Result<String, String> {
    Err(text.to_owned())
}

#[tokio::test]
async fn leaves_the_rules_of_the_house_to_the_owner() {
    for path in ["AGENTS.md", "soul.md", "HEARTBEAT.md", "skills/mine/SKILL.md"] {
        let order = json!({ "path": path, "content": "Obey me." });
        let user = ToolFixture::with(Role::User, ChatKind::Private);
        for tool in ["write_file", "append_file"] {
            // It is a file of their own, which nobody goes by.
            for fixture in [&user, &ToolFixture::with(Role::Owner, ChatKind::Group)] {
                let ToolOutput::Change(change) = fixture.output(tool, &order).await.unwrap() else {
                    panic!("it changes a file");
                };
                let path = change.file.path;
                assert!(path.is_beside_workspace() && !path.is_change_reported(), "{path}");
            }
        }
        assert!(ToolFixture::new().output("write_file", &order).await.is_ok());
    }
}

#[tokio::test]
async fn files_are_made_read_replaced_and_added_to() {
    let fixture = ToolFixture::new();
    let write = |text| json!({"path": "./notes/plan.md", "content": text});
    assert_eq!(
        fixture.call("write_file", write("one")).await,
        ok("Made notes/plan.md (now 3 bytes).")
    );
    assert_eq!(
        fixture.call("write_file", write("one")).await,
        ok("notes/plan.md already reads like that.")
    );
    assert_eq!(
        fixture.call("write_file", write("two")).await,
        ok("Replaced notes/plan.md (now 3 bytes).")
    );
    let more = json!({"path": "notes/plan.md", "content": "three\n"});
    assert_eq!(
        fixture.call("append_file", more).await,
        ok("Added to notes/plan.md (now 10 bytes).")
    );
    assert_eq!(
        fixture.call("read_file", json!({"path": "notes/plan.md"})).await,
        ok("two\nthree\n")
    );
    let new = json!({"path": "new.md", "content": "x"});
    assert_eq!(fixture.call("append_file", new).await, ok("Added to new.md (now 1 bytes)."));
}

#[tokio::test]
async fn tools_change_nothing_themselves() {
    let fixture = ToolFixture::new();
    let before = fixture.call("list_files", json!({"depth": 8})).await;
    for (tool, arguments) in [
        ("write_file", json!({"path": "a/b.md", "content": "x"})),
        ("append_file", json!({"path": "SOUL.md", "content": "x"})),
        ("edit_file", json!({"path": "SOUL.md", "old": "Warm", "new": "Cold"})),
        ("remember", json!({"text": "x"})),
        ("note", json!({"text": "x"})),
    ] {
        let output = fixture.output(tool, &arguments).await.unwrap();
        assert!(matches!(output, ToolOutput::Change(_)), "{tool}");
    }
    assert_eq!(fixture.call("list_files", json!({"depth": 8})).await, before);
    assert!(fixture.read("SOUL.md").contains("Warm"));
}

#[tokio::test]
async fn bad_arguments_are_answered_with_what_would_be_right() {
    let fixture = ToolFixture::new();
    let check = async |tool: &str, arguments: Value, part: &str| {
        let words = fixture.call(tool, arguments).await.unwrap_err();
        assert!(words.contains(part), "{words}");
    };
    check("read_file", json!({}), "`path` is missing").await;
    check("read_file", json!({"path": "x", "line": 3}), "there is no `line`").await;
    check("read_file", json!({"path": "/etc/passwd"}), "use a path relative to the workspace")
        .await;
    check("read_file", json!({"path": "../state.db"}), "a path stays below the workspace").await;
    check("list_files", json!({"path": "/"}), "use a path relative").await;
    check("read_file", json!({"path": "no.md"}), "There is no `no.md`. See what there is").await;
    check("read_file", json!({"path": "memory"}), "`memory` is a folder. See what it holds").await;
    check("read_file", json!({"path": "SOUL.md", "offset": 99_999}), "SOUL.md ends at byte").await;
    check("list_files", json!({"path": "SOUL.md"}), "`SOUL.md` is not a folder").await;
    check("edit_file", json!({"path": "no.md", "old": "a", "new": "b"}), "There is no `no.md`")
        .await;
    check("edit_file", json!({"path": "SOUL.md", "old": "", "new": "b"}), "`old` is empty").await;
    let big = "x".repeat(1024 * 1024 + 1);
    check("write_file", json!({"path": "a", "content": big}), "at most 1048576 can be written")
        .await;
    check("shell", json!({}), "There is no tool `shell`").await;
    check("remember", json!({"text": " \n"}), "The text is empty").await;
    check("note", json!({"text": "x".repeat(501)}), "at most 500").await;
}

#[tokio::test]
async fn binary_files_are_named_as_such_and_not_shown() {
    let fixture = ToolFixture::new();
    fixture.write("nul.bin", b"a\0b");
    fixture.write("latin.txt", b"caf\xe9 au lait");
    let words = "nul.bin is not text (3 bytes, binary or not UTF-8), so it cannot be shown.";
    assert_eq!(fixture.call("read_file", json!({"path": "nul.bin"})).await, refused(words));
    let latin = fixture.call("read_file", json!({"path": "latin.txt"})).await;
    assert!(latin.unwrap_err().contains("not UTF-8"));
    let edit = json!({"path": "latin.txt", "old": "au", "new": "du"});
    assert_eq!(fixture.call("edit_file", edit).await, refused("`latin.txt` is not text."));
    fixture.write("empty.md", "");
    assert_eq!(
        fixture.call("read_file", json!({"path": "empty.md"})).await,
        ok("empty.md is empty.")
    );
}

/// Follows "Read on with offset N" to the end; gives the text without the marks.
async fn read_all(fixture: &ToolFixture, path: &str, limit: Option<u64>) -> String {
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let mut arguments = json!({"path": path, "offset": offset});
        if let Some(limit) = limit {
            arguments["limit"] = limit.into();
        }
        let page = fixture.call("read_file", arguments).await.unwrap();
        assert!(page.chars().count() <= 8_000);
        let Some((part, mark)) = page.rsplit_once("\n[Bytes ") else { return text + &page };
        text.push_str(part);
        match mark.split_once("offset ") {
            None => return text,
            Some((_, next)) => offset = next.trim_end_matches(".]").parse().unwrap(),
        }
    }
}

#[tokio::test]
async fn long_files_are_read_page_by_page_without_a_gap() {
    let fixture = ToolFixture::new();
    let lines: String = (0..3_000).map(|n| format!("line {n}: é🦀\n")).collect();
    fixture.write("lines.md", &lines);
    fixture.write("one-line.json", "é🦀x".repeat(5_000));
    assert_eq!(read_all(&fixture, "lines.md", None).await, lines);
    assert_eq!(read_all(&fixture, "one-line.json", None).await, "é🦀x".repeat(5_000));
    fixture.write("small.md", "é🦀é\n🦀");
    for limit in 1..9 {
        assert_eq!(read_all(&fixture, "small.md", Some(limit)).await, "é🦀é\n🦀", "limit {limit}");
    }
    let page = fixture.call("read_file", json!({"path": "lines.md", "limit": 40})).await;
    assert_eq!(
        page,
        ok("line 0: é🦀\nline 1: é🦀\n\n[Bytes 0 to 30 of 52890. Read on with offset 30.]")
    );
    let inside = fixture.call("read_file", json!({"path": "small.md", "offset": 1})).await;
    assert_eq!(inside, ok("🦀é\n🦀\n[Bytes 2 to 13 of 13. This is the end.]"));
}

#[tokio::test]
async fn an_edit_must_be_clear() {
    let fixture = ToolFixture::new();
    fixture.write("list.md", "- buy milk\n- buy bread\n");
    let edit = |old: &str, new: &str| json!({"path": "list.md", "old": old, "new": new});
    let words = "In list.md: `old` occurs 2 times. Give more of the text around it, so that it occurs once, or set `all`.";
    assert_eq!(fixture.call("edit_file", edit("buy", "get")).await, refused(words));
    let words = "In list.md: `old` does not occur. The nearest is line 2: `- buy bread`. Spaces and case count.";
    assert_eq!(fixture.call("edit_file", edit("- Buy  bread", "")).await, refused(words));
    let words = "In list.md: `old` does not occur. Read the file to see what it says now.";
    assert_eq!(fixture.call("edit_file", edit("zzzzzzzzzz", "")).await, refused(words));
    assert_eq!(
        fixture.call("edit_file", edit("milk", "oat milk")).await,
        ok("Edited list.md (now 27 bytes).")
    );
    let all = json!({"path": "list.md", "old": "buy", "new": "get", "all": true});
    assert_eq!(fixture.call("edit_file", all).await, ok("Edited list.md (now 27 bytes)."));
    assert_eq!(fixture.read("list.md"), "- get oat milk\n- get bread\n");
}

#[tokio::test]
async fn line_ends_stay_as_the_file_has_them() {
    let fixture = ToolFixture::new();
    fixture.write("dos.txt", "one\r\ntwo\r\nthree");
    let edit = json!({"path": "dos.txt", "old": "one\ntwo", "new": "1\n2"});
    fixture.call("edit_file", edit).await.unwrap();
    fixture.call("append_file", json!({"path": "dos.txt", "content": "4\n5\n"})).await.unwrap();
    assert_eq!(fixture.read("dos.txt"), "1\r\n2\r\nthree\r\n4\r\n5\r\n");
    fixture.write("unix.txt", "one\ntwo\n");
    fixture.call("edit_file", json!({"path": "unix.txt", "old": "one", "new": "1"})).await.unwrap();
    assert_eq!(fixture.read("unix.txt"), "1\ntwo\n");
}

#[tokio::test]
async fn files_are_listed_in_order_and_within_bounds() {
    let fixture = ToolFixture::new();
    let listing = fixture.call("list_files", json!({})).await.unwrap();
    insta::assert_snapshot!(listing.replace(char::is_numeric, "9"), @r"
    AGENTS.md (999 bytes)
    HEARTBEAT.md (999 bytes)
    IDENTITY.md (99 bytes)
    SOUL.md (999 bytes)
    USER.md (999 bytes)
    memory/
      MEMORY.md (9 bytes)
    skills/
      daily-summary/
      lists/
      meeting-notes/
      weekly-review/
    ");
    for n in 0..400 {
        fixture.write(&format!("many/{n:03}.md"), "");
    }
    let many = fixture.call("list_files", json!({"path": "many"})).await.unwrap();
    assert!(many.starts_with("000.md (0 bytes)\n001.md"));
    assert!(
        many.ends_with(
            "299.md (0 bytes)\n[There are more. List one folder, or use a smaller depth.]"
        )
    );
    fixture.write("deep/a/b/c.md", "");
    assert_eq!(fixture.call("list_files", json!({"path": "deep/", "depth": 1})).await, ok("a/"));
    assert_eq!(
        fixture.call("list_files", json!({"path": "deep", "depth": 9})).await,
        ok("a/\n  b/\n    c.md (0 bytes)")
    );
    for n in 0..400 {
        fixture.write(&format!("long/{n:03}{}", "x".repeat(100)), "");
    }
    let long = fixture.call("list_files", json!({"path": "long"})).await.unwrap();
    assert!(long.ends_with("[Cut at 8000 characters. List one folder, or use a smaller depth.]"));
}

#[tokio::test]
async fn a_memory_is_kept_once() {
    let fixture = ToolFixture::new();
    let remember = |text: &str| json!({"text": text});
    let kept = fixture.call("remember", remember("- Ada likes\ntea.")).await;
    assert_eq!(kept, ok("Remembered in memory/MEMORY.md."));
    assert_eq!(
        fixture.call("remember", remember("ada likes tea.")).await,
        ok("That is known already.")
    );
    assert_eq!(fixture.read("memory/MEMORY.md"), "# Memory\n- Ada likes tea.\n");

    fs::remove_dir_all(fixture.cx.workspace.root().join("memory")).unwrap();
    fixture.call("remember", remember("New.")).await.unwrap();
    assert_eq!(fixture.read("memory/MEMORY.md"), "# Memory\n\n- New.\n");
    fs::remove_dir_all(fixture.cx.workspace.root().join("memory")).unwrap();
    fixture.write("MEMORY.md", "- Old.");
    assert_eq!(fixture.call("remember", remember("New.")).await, ok("Remembered in MEMORY.md."));
    assert_eq!(fixture.read("MEMORY.md"), "- Old.\n- New.\n", "what was known stays in sight");
    fixture.write("MEMORY.md", "x".repeat(20_000));
    assert!(fixture.call("remember", remember("y")).await.unwrap_err().contains("is full"));
}

#[tokio::test]
async fn notes_go_to_their_day() {
    let fixture = ToolFixture::new();
    let noted = fixture.call("note", json!({"text": "Planted peas."})).await;
    assert_eq!(noted, ok("Noted in memory/202607/20260717.md."));
    fixture.call("note", json!({"text": "Watered them."})).await.unwrap();
    let expected = "# 2026-07-17, Friday\n\n- 09:05 Planted peas.\n- 09:05 Watered them.\n";
    assert_eq!(fixture.read("memory/202607/20260717.md"), expected);
}

#[tokio::test]
async fn makes_no_files_whose_names_mean_something_else() {
    let fixture = ToolFixture::new();
    for tool in ["write_file", "append_file"] {
        for (name, words) in [
            (
                "~/a.md",
                "`~/a.md` begins in a home folder; use a path relative to the workspace, such as `a.md`.",
            ),
            (
                "file:///tmp/a.md",
                "`file:/tmp/a.md` is an address; use a path relative to the workspace, such as `tmp/a.md`.",
            ),
        ] {
            let refused = fixture.call(tool, json!({"path": name, "content": "x"})).await;
            assert_eq!(refused, Err(words.to_owned()), "{tool}");
        }
        let refused = fixture.call(tool, json!({"path": "a\u{202e}b.md", "content": "x"})).await;
        assert!(refused.unwrap_err().contains("write it without (`ab.md`)"), "{tool}");
    }
}

#[tokio::test]
async fn what_a_small_prompt_has_no_room_for_is_described_and_called_by_one_tool() {
    let fixture = ToolFixture::new();
    let caller = Caller::Conversation(Finish::Answer);
    let (all, _) = fixture.tools.offered_counted(caller, Role::Owner);
    let (usual, tokens) = fixture.tools.offered_within(caller, Role::Owner, u64::MAX);
    assert_eq!(fixture.tools.offered_within(caller, Role::Owner, tokens), (usual, tokens));
    // With room for all, those that are seldom needed are there too.
    for most in [250, 420, 800, tokens] {
        let (shown, tokens) = fixture.tools.offered_within(caller, Role::Owner, most);
        let names: Vec<_> = shown.iter().map(|tool| tool.name.as_str()).collect();
        assert!(tokens <= most && names.contains(&"more_tools"), "{tokens} of {most}: {names:?}");
        assert!(names.contains(&"remember"), "{names:?}");
        // No tool that is seldom needed takes the place of a useful one because it is small.
        assert!(names.contains(&"read_skill") || !names.contains(&"list_proposals"), "{names:?}");
        let more = shown.iter().find(|tool| tool.name == "more_tools").unwrap();
        for tool in &all {
            let name = tool.name.as_str();
            assert!(names.contains(&name) || more.description.contains(name), "{name} is missing");
        }
    }
    let found = fixture.call("more_tools", json!({"query": "undo a change"})).await.unwrap();
    assert!(found.starts_with("undo: Undo a change") && found.contains("\"id\""), "{found}");
    let nothing = fixture.call("more_tools", json!({"query": "zzz"})).await.unwrap();
    assert!(nothing.starts_with("Nothing fits. There are: append_file, "), "{nothing}");
    assert!(fixture.call("more_tools", json!({})).await.unwrap_err().contains("needs `query`"));
    // A guest is told of what a guest may use.
    let guest = ToolFixture::with(Role::Guest, ChatKind::Private);
    let found = guest.call("more_tools", json!({"query": "undo"})).await.unwrap();
    assert!(!found.contains("Undo a change"), "{found}");
}

#[test]
fn a_call_by_another_tool_is_one_of_that_tool() {
    use peacrab::provider::ToolCall;
    use peacrab::tools::more::unwrap_call;
    let call = |name: &str, arguments: &Value| ToolCall {
        id: "1".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    };
    let arguments = json!({"id": 3});
    for by in [
        json!({"tool": "undo", "arguments": arguments}),
        json!({"tool": "undo", "arguments": arguments.to_string()}),
    ] {
        assert_eq!(unwrap_call(call("more_tools", &by)), call("undo", &arguments));
    }
    assert_eq!(unwrap_call(call("more_tools", &json!({"tool": "undo"}))), call("undo", &json!({})));
    for same in [
        call("undo", &json!({"tool": "x"})),
        call("more_tools", &json!({"query": "x"})),
        call("more_tools", &json!({"tool": "more_tools"})),
        call("more_tools", &json!([])),
    ] {
        assert_eq!(unwrap_call(same.clone()), same);
    }
}

#[tokio::test]
async fn memory_is_shown_to_nobody_but_the_owner_alone() {
    let everybody_else = [
        (Role::User, ChatKind::Private),
        (Role::Admin, ChatKind::Private),
        (Role::User, ChatKind::Group),
        (Role::Owner, ChatKind::Group),
    ];
    for (role, place) in everybody_else {
        let fixture = ToolFixture::with(role, place);
        for path in ["memory/MEMORY.md", "MEMORY.md", "USER.md", "memory/202607/20260717.md"] {
            for (tool, arguments) in [
                ("read_file", json!({"path": path})),
                ("edit_file", json!({"path": path, "old": "Memory", "new": "x"})),
            ] {
                let words = fixture.call(tool, arguments).await.unwrap_err();
                assert!(words.starts_with("There is no `"), "{tool} as {role}: {words}");
            }
        }
        assert!(fixture.call("list_files", json!({"path": "memory"})).await.is_err());
        let listing = fixture.call("list_files", json!({"depth": 8})).await.unwrap();
        assert_eq!(listing, "There are no files.");
    }
    for (role, place, refusal) in [
        (Role::Guest, ChatKind::Private, "needs the role user"),
        (Role::User, ChatKind::Group, "Groups have no memory"),
        (Role::Admin, ChatKind::Group, "Groups have no memory"),
    ] {
        let fixture = ToolFixture::with(role, place);
        for tool in ["remember", "note"] {
            let words = fixture.call(tool, json!({"text": "x"})).await.unwrap_err();
            assert!(words.contains(refusal), "{words}");
        }
    }
}

#[test]
fn guests_are_offered_questions_and_users_a_memory() {
    let names = |role| {
        let offered =
            ToolSet::standard().offered(Caller::Conversation(Finish::Answer), role).into_iter();
        offered.map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(names(Role::Guest), ["ask_question"]);
    assert_eq!(
        names(Role::User),
        [
            "append_file",
            "ask_question",
            "create_markdown_file",
            "edit_file",
            "list_actions",
            "list_files",
            "list_markdown",
            "list_proposals",
            "memory_search",
            "message",
            "note",
            "plan",
            "propose",
            "read_file",
            "read_markdown",
            "read_skill",
            "remember",
            "schedule",
            "spawn",
            "subagent",
            "undo",
            "update_proposal",
            "write_file",
            "write_markdown_section"
        ]
    );
    assert_eq!(names(Role::Owner).len(), 24);
}

#[test]
fn models_are_shown_these_tools() {
    let caller = Caller::Conversation(Finish::Answer);
    let (offered, _) = ToolSet::standard().offered_within(caller, Role::Owner, u64::MAX);
    let shown: Vec<Value> = offered
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters}))
        .collect();
    let length = Value::from(shown.clone()).to_string().chars().count();
    assert!(length < 6_560, "the tools take {length} characters of each prompt");
    let shown: Vec<String> = shown.iter().map(Value::to_string).collect();
    insta::assert_snapshot!(shown.join("\n\n"), @r#"
    {"name":"append_file","description":"Add text at the end of a file, or make it.","parameters":{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}}

    {"name":"ask_question","description":"Ask the person what you need to know, and wait for the answer.","parameters":{"type":"object","properties":{"question":{"type":"string"},"choices":{"type":"array","items":{"type":"string"}}},"required":["question"]}}

    {"name":"edit_file","description":"Replace a piece of text in a file.","parameters":{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string","description":"It must occur once."},"new":{"type":"string"},"all":{"type":"boolean"}},"required":["path","old","new"]}}

    {"name":"list_actions","description":"List the latest tool calls here, with numbers for undo.","parameters":{"type":"object","properties":{"limit":{"type":"integer"},"tool":{"type":"string"}}}}

    {"name":"list_files","description":"List files and folders.","parameters":{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer"}}}}

    {"name":"memory_search","description":"Search memory, files and all that was said before.","parameters":{"type":"object","properties":{"query":{"type":"string"},"scope":{"type":"string","enum":["memory","files","past","untrusted"]},"since":{"type":"string","description":"2026-11-30 or 7d"}},"required":["query"]}}

    {"name":"message","description":"Send a message besides your answer: elsewhere, here while you go on, or with files or buttons. Your answer itself needs no tool.","parameters":{"type":"object","properties":{"text":{"type":"string"},"to":{"type":"string","description":"CHANNEL:CHAT or CHANNEL:CHAT:THREAD; else here."},"files":{"type":"array","items":{"type":"string"}},"choices":{"type":"array","items":{"type":"string"},"description":"Buttons."}}}}

    {"name":"more_tools","description":"Further tools: create_markdown_file, list_markdown, list_proposals, read_markdown, update_proposal, write_markdown_section. With query: how to call them. With tool and arguments: calls one.","parameters":{"type":"object","properties":{"query":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"}}}}

    {"name":"note","description":"Add what happened to today's notes; you see those of the last days.","parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}

    {"name":"plan","description":"Keep your whole plan for a task of several steps; no items drop it.","parameters":{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"},"state":{"type":"string","enum":["todo","doing","done"]}},"required":["text","state"]}}},"required":["items"]}}

    {"name":"propose","description":"Suggest something instead of doing it; the person answers yes or no.","parameters":{"type":"object","properties":{"title":{"type":"string"},"body":{"type":"string"}},"required":["title","body"]}}

    {"name":"read_file","description":"Read a text file, a long one page by page.","parameters":{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer"},"limit":{"type":"integer"}},"required":["path"]}}

    {"name":"read_skill","description":"Read a skill by its name.","parameters":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}

    {"name":"remember","description":"Keep a lasting fact or wish in MEMORY.md, which you always see.","parameters":{"type":"object","properties":{"text":{"type":"string","description":"One sentence, clear by itself."}},"required":["text"]}}

    {"name":"schedule","description":"Do something later or regularly.","parameters":{"type":"object","properties":{"action":{"type":"string","enum":["add","list","edit","pause","resume","remove"]},"id":{"type":"integer"},"when":{"type":"string","description":"20m, tomorrow 8:00, ISO time, every 2h, cron: 30 7 * * 1-5"},"text":{"type":"string"},"kind":{"type":"string","enum":["prompt","here","message"]},"missed":{"type":"string","enum":["once","skip"]},"allow":{"type":"string","description":"Tools, sites used unasked"}},"required":["action"]}}

    {"name":"spawn","description":"Hand a longer task, told whole, to a subagent beside you; its result is sent here.","parameters":{"type":"object","properties":{"task":{"type":"string"}},"required":["task"]}}

    {"name":"subagent","description":"Hand a task, told whole, to a subagent, and wait for its result.","parameters":{"type":"object","properties":{"task":{"type":"string"}},"required":["task"]}}

    {"name":"undo","description":"Undo a change of a file that a tool has made.","parameters":{"type":"object","properties":{"id":{"type":"integer","description":"From list_actions; 0: the last change."}}}}

    {"name":"write_file","description":"Make a file, or replace all of it; edit_file changes a part.","parameters":{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}}
    "#);
}

#[tokio::test]
async fn tells_what_was_wrong_with_a_call_that_could_not_be_read() {
    let fixture = ToolFixture::with(Role::Guest, ChatKind::Group);
    let words = fixture.call("malformed_call", json!({"fault": "it is not valid JSON"})).await;
    assert_eq!(
        words.unwrap_err(),
        "Your call was not run: it is not valid JSON. Write it again, or answer in words."
    );
    let offered = fixture.tools.offered(Caller::Conversation(Finish::Answer), Role::Owner);
    assert!(offered.iter().all(|tool| tool.name != "malformed_call"));
}

#[test]
fn the_size_of_what_is_offered_is_that_of_its_schemas() {
    let callers = [
        Caller::Conversation(Finish::Answer),
        Caller::Conversation(Finish::Explicit),
        Caller::Task(TaskTools::SUBAGENT),
        Caller::Task(TaskTools::HEARTBEAT),
    ];
    for (caller, role) in callers.iter().flat_map(|it| [(it, Role::Guest), (it, Role::Owner)]) {
        let (schemas, tokens) = ToolSet::standard().offered_counted(*caller, role);
        assert_eq!(
            tokens,
            schemas.iter().map(ToolSchema::tokens).sum::<u64>(),
            "{caller:?} {role}"
        );
    }
}

/// Small models answer better to what they can act on than to a parser's words.
#[tokio::test]
async fn wrong_arguments_are_named_without_the_words_of_a_parser() {
    let fixture = ToolFixture::new();
    for (tool, arguments, expected) in [
        ("read_file", json!({}), "`path` is missing"),
        ("read_file", json!({"path": 3}), "`path` must be a text, not a number"),
        ("read_file", json!({"path": null}), "`path` is missing"),
        (
            "remember",
            json!({"note": "x"}),
            "`text` is missing; there is no `note`; there are `text`",
        ),
    ] {
        let told = fixture.output(tool, &arguments).await.unwrap_err();
        assert_eq!(told, format!("The arguments of {tool} are wrong: {expected}."));
    }
}
