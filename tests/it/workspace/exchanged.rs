//! Somebody exchanges a file for a link to the owner's memory while tools work on it: what was checked is what
//! is read, listed, changed and sent.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use peacrab::people::Role;
use peacrab::tools::{Effect, ToolChange, ToolContext, ToolError, ToolOutput, ToolSet};
use peacrab::types::message::{Body, ChatKind, Content};
use peacrab::workspace::Hash;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::support::effort::times;
use crate::support::tool_context::{is_untrusted, tool_context};

const SECRET: &str = "- The owner's secret is 4711.\n";
const PUBLIC: &str = "- Anybody may read this.\n";

/// An admin, and `shared` with a file and a folder and what they are exchanged for.
fn admin() -> (ToolContext, tempfile::TempDir) {
    let (cx, folder) = tool_context(Role::Admin, ChatKind::Private);
    let at = |name: &str| cx.workspace.root().join(name);
    fs::create_dir_all(at("../shared/folder")).unwrap();
    fs::create_dir_all(at("memory")).unwrap();
    fs::write(at("memory/MEMORY.md"), SECRET).unwrap();
    fs::write(at("../shared/list.md"), PUBLIC).unwrap();
    fs::write(at("../shared/folder/MEMORY.md"), PUBLIC).unwrap();
    symlink("../workspace/memory/MEMORY.md", at("../shared/list.link")).unwrap();
    symlink("../workspace/memory", at("../shared/folder.link")).unwrap();
    (cx, folder)
}

async fn call(cx: &ToolContext, tool: &str, arguments: &Value) -> Result<ToolOutput, String> {
    let tools = ToolSet::standard();
    let (tool, _) = tools.authorise(tool, cx.role)?;
    tool.call_json(&arguments.to_string(), cx).await.map_err(|error| match error {
        ToolError::TellModel(words)
        | ToolError::Transient(words)
        | ToolError::TellUntrusted(_, words) => words,
        ToolError::Abort(error) => panic!("the turn was aborted: {error}"),
    })
}

/// Exchanges a name for another one, over and over, until `end`.
fn exchange(root: &Path, name: &str, end: &AtomicBool) {
    let (one, other) = (root.join(name), root.join(name.replace(".md", "") + ".link"));
    while !end.load(Ordering::Relaxed) {
        renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
    }
}

/// What a call says, plans to change, or has copied to be sent.
fn all_of(cx: &ToolContext, output: &ToolOutput) -> String {
    let (mut all, effects) = match output {
        ToolOutput::Text { for_model, .. } => (for_model.clone(), [].as_slice()),
        ToolOutput::Effects { for_model, effects } => (for_model.clone(), effects.as_slice()),
        ToolOutput::Change(ToolChange { for_model, file, .. }) => {
            assert!(file.path.as_str().starts_with("shared/"), "{}", file.path);
            assert_ne!(file.before, Some(Hash::of(SECRET.as_bytes())), "{}", file.path);
            let contents = String::from_utf8_lossy(&file.contents);
            (format!("{for_model}\n{contents}"), [].as_slice())
        }
        other => panic!("{other:?}"),
    };
    for effect in effects {
        if let Effect::Send { body: Body::File(file), .. } = effect {
            let Content::Copy { copy, .. } = &file.content else { panic!("no copy was made") };
            all.push_str(&fs::read_to_string(cx.workspace.root().join("..").join(copy)).unwrap());
        }
    }
    all
}

/// Two names that are exchanged for as long as it lives.
struct Exchange {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Exchange {
    fn begin(root: &Path) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let thread = |name: &'static str| {
            let (root, end) = (root.to_owned(), Arc::clone(&end));
            std::thread::spawn(move || exchange(&root, name, &end))
        };
        let threads = vec![thread("../shared/list.md"), thread("../shared/folder")];
        Self { end, threads }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

#[tokio::test]
async fn no_tool_shows_or_changes_what_was_put_in_a_files_place() {
    let (cx, _folder) = admin();
    let calls = [
        ("read_file", json!({"path": "shared/list.md"})),
        ("read_file", json!({"path": "shared/folder/MEMORY.md"})),
        ("write_file", json!({"path": "shared/list.md", "content": PUBLIC})),
        ("edit_file", json!({"path": "shared/list.md", "old": "a", "new": "b", "all": true})),
        ("append_file", json!({"path": "shared/folder/MEMORY.md", "content": "x"})),
        ("list_files", json!({"path": "shared", "depth": 3})),
        ("list_files", json!({"path": "shared/folder"})),
        ("message", json!({"files": ["shared/list.md"]})),
        ("message", json!({"files": ["shared/folder/MEMORY.md"]})),
    ];
    let root = cx.workspace.root().to_owned();
    fs::write(root.join("memory/a-secret-name.md"), "").unwrap();
    let mut done = vec![0; calls.len()];
    let racing = Exchange::begin(&root);
    for _ in 0..times(60, 2_000) {
        for (at, (tool, arguments)) in calls.iter().enumerate() {
            match call(&cx, tool, arguments).await {
                Ok(output) => {
                    let all = all_of(&cx, &output);
                    assert!(!all.contains("4711"), "{tool} {arguments}: {all}");
                    assert!(!all.contains("a-secret-name"), "{tool} {arguments}: {all}");
                    // Exchanged on, while the change is made.
                    done[at] += usize::from(match output {
                        ToolOutput::Change(change) => cx.workspace.apply(&change.file).is_ok(),
                        _ => true,
                    });
                }
                Err(words) => assert!(!words.contains("4711"), "{words}"),
            }
            fs::remove_dir_all(root.join("../shared/outputs")).ok();
        }
    }
    drop(racing);
    assert_eq!(fs::read_to_string(root.join("memory/MEMORY.md")).unwrap(), SECRET);
    let reads: usize = [0, 1, 7, 8].iter().map(|at| done[*at]).sum();
    assert!(reads > 0, "the race was run: {done:?}");
}

#[tokio::test]
async fn a_second_name_of_a_private_file_is_refused_to_others_and_untrusted_for_the_owner() {
    let (mut cx, _folder) = admin();
    let root = cx.workspace.root().to_owned();
    fs::hard_link(root.join("memory/MEMORY.md"), root.join("../shared/second.md")).unwrap();
    let path = "shared/second.md";
    for (tool, arguments) in [
        ("read_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "x"})),
        ("edit_file", json!({"path": path, "old": "4711", "new": "0"})),
        ("append_file", json!({"path": path, "content": "x"})),
        ("message", json!({"files": [path]})),
    ] {
        let words = call(&cx, tool, &arguments).await.unwrap_err();
        assert!(words.contains("second name"), "{tool}: {words}");
        assert!(!words.contains("4711"), "{tool}: {words}");
    }
    cx.role = Role::Owner;
    for path in [path, "memory/MEMORY.md"] {
        let output = call(&cx, "read_file", &json!({"path": path})).await.unwrap();
        assert!(all_of(&cx, &output).contains("4711"));
        assert!(is_untrusted(&output, &cx), "{path}");
    }
    // A change gives the path a file of its own.
    let change = call(&cx, "append_file", &json!({"path": path, "content": "x"})).await.unwrap();
    let ToolOutput::Change(change) = change else { panic!("{change:?}") };
    cx.workspace.apply(&change.file).unwrap();
    assert_eq!(fs::read_to_string(root.join("memory/MEMORY.md")).unwrap(), SECRET);
    let output = call(&cx, "read_file", &json!({"path": "memory/MEMORY.md"})).await.unwrap();
    assert!(!is_untrusted(&output, &cx));
}
