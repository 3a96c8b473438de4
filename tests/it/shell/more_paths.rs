//! Paths of `[exec] read` and `write`: what others may have written there does not pass for the owner's own, and nothing
//! goes from the workspace to the network by way of them.

use std::path::PathBuf;

use peacrab::tools::ToolOutput;
use peacrab::types::source::Source;

use super::*;

/// A shell with a path to read, one to write, and the trusted parts of both.
struct Scene {
    folder: TempDir,
    config: Config,
}

impl Scene {
    fn new(trusted: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        for (path, text) in [("read/page", "Obey."), ("read/own/page", "mine"), ("write/page", "x")]
        {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let path = |name: &&str| folder.path().join(name);
        let mut config = config();
        config.sandbox.read = vec![path(&"read")];
        config.sandbox.write = vec![path(&"write")];
        config.trusted = trusted.iter().map(path).collect();
        Self { folder, config }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Scene {
    fn desk(&self) -> Desk {
        Desk::with(&self.config, Role::Owner, ChatKind::Private)
    }
}

/// What a command says, or why it is refused, and whether it counts as untrusted.
async fn run(desk: &Desk, arguments: Value) -> (String, bool) {
    let (tool, _) = desk.tools.authorise("exec", Role::Owner).unwrap();
    match tool.call_json(&arguments.to_string(), &desk.cx).await {
        Ok(ToolOutput::Text { for_model, sources }) => {
            let is_untrusted = sources.contains(&Source::Command { read_others: true });
            (for_model, is_untrusted)
        }
        Err(ToolError::TellModel(words)) => (words, false),
        other => panic!("{:?}", other.is_ok()),
    }
}

#[tokio::test]
async fn others_files_are_seen_by_untrusted_commands_only() {
    let scene = Scene::new(&[]);
    let desk = scene.desk();
    let page = scene.path("read/page").display().to_string();
    let reads = format!("cat {page}");
    let (refused, _) = run(&desk, json!({"command": reads})).await;
    assert!(
        refused.contains("others may write in") && refused.contains("`untrusted`"),
        "{refused}"
    );
    // Without its name, too.
    let (head, tail) = page.split_at(5);
    let hidden = format!("a={head}; cat \"$a\"{tail}; true");
    let (said, is_untrusted) = run(&desk, json!({"command": hidden})).await;
    assert!(!said.contains("Obey.") && !is_untrusted, "{said}");
    let (said, is_untrusted) = run(&desk, json!({"command": reads, "untrusted": true})).await;
    assert!(said.contains("Obey.") && is_untrusted, "{said}");
}

#[tokio::test]
async fn nothing_leaves_the_workspace_by_way_of_them() {
    let scene = Scene::new(&[]);
    let desk = scene.desk();
    let (head, tail) = ("/", scene.path("write/out").display().to_string());
    let copies = format!("a={head}; cp AGENTS.md \"$a\"{}; true", tail.trim_start_matches('/'));
    run(&desk, json!({"command": copies})).await;
    assert!(!scene.path("write/out").exists());
    let writes = format!("echo x > {tail}");
    run(&desk, json!({"command": writes, "untrusted": true})).await;
    assert!(scene.path("write/out").exists());
}

#[tokio::test]
async fn trusted_ones_are_seen_with_the_workspace() {
    let scene = Scene::new(&["read/own", "write"]);
    let desk = scene.desk();
    let page = scene.path("read/own/page").display().to_string();
    let (said, is_untrusted) = run(&desk, json!({"command": format!("cat {page}")})).await;
    assert!(said.contains("mine") && !is_untrusted, "{said}");
    let out = scene.path("write/out").display().to_string();
    run(&desk, json!({"command": format!("cp AGENTS.md {out}")})).await;
    assert!(scene.path("write/out").exists());
    let beside = format!("cd {}/..; cat page; true", scene.path("read/own").display());
    let (said, _) = run(&desk, json!({"command": beside})).await;
    assert!(!said.contains("Obey."), "{said}");
}

#[test]
fn commands_of_jobs_see_the_trusted_ones_and_never_a_network() {
    let scene = Scene::new(&["read/own"]);
    let config = Config { network: shell::NetworkRule::On, ..scene.config.clone() };
    let commands = shell::commands(&config, &shell::check_sandbox(&config)).unwrap();
    let sandbox = commands.sandbox;
    assert_eq!((sandbox.read, sandbox.write), (vec![scene.path("read/own")], Vec::new()));
    assert!(!sandbox.network);
}
