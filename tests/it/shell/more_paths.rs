//! Paths of `[exec] read` and `write`: what others may have written there does not pass for the owner's own, and nothing
//! goes from the workspace to the network by way of them.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use peacrab::people::folder_roles::{FolderRoles, RoleFolder};
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
    fn fixture(&self) -> ShellFixture {
        ShellFixture::with(&self.config, Role::Owner, ChatKind::Private)
    }
}

/// What a command says, or why it is refused, and whether it counts as untrusted.
async fn run(fixture: &ShellFixture, arguments: Value) -> (String, bool) {
    let (tool, _) = fixture.tools.authorise("exec", fixture.cx.role).unwrap();
    match tool.call_json(&arguments.to_string(), &fixture.cx).await {
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
    let fixture = scene.fixture();
    let page = scene.path("read/page").display().to_string();
    let reads = format!("cat {page}");
    let (refused, _) = run(&fixture, json!({"command": reads})).await;
    assert!(
        refused.contains("others may write in") && refused.contains("`untrusted`"),
        "{refused}"
    );
    // Without its name, too.
    let (head, tail) = page.split_at(5);
    let hidden = format!("a={head}; cat \"$a\"{tail}; true");
    let (said, is_untrusted) = run(&fixture, json!({"command": hidden})).await;
    assert!(!said.contains("Obey.") && !is_untrusted, "{said}");
    let (said, is_untrusted) = run(&fixture, json!({"command": reads, "untrusted": true})).await;
    assert!(said.contains("Obey.") && is_untrusted, "{said}");
}

#[tokio::test]
async fn nothing_leaves_the_workspace_by_way_of_them() {
    let scene = Scene::new(&[]);
    let fixture = scene.fixture();
    let (head, tail) = ("/", scene.path("write/out").display().to_string());
    let copies = format!("a={head}; cp AGENTS.md \"$a\"{}; true", tail.trim_start_matches('/'));
    run(&fixture, json!({"command": copies})).await;
    assert!(!scene.path("write/out").exists());
    // Nor by way of a command that names private files, as others read there.
    let (tool, _) = fixture.tools.authorise("exec", fixture.cx.role).unwrap();
    let writes = format!("echo x > {tail}");
    for (paths, access) in [
        (json!([]), CommandAccess::Downloads),
        (json!([scene.path("write")]), CommandAccess::Shared),
        (json!([scene.path("write"), "AGENTS.md"]), CommandAccess::NamedAndShared),
    ] {
        let call = json!({"command": writes, "untrusted": true, "paths": paths}).to_string();
        assert_eq!(tool.call_terms(&call, &fixture.cx.address).reach, Reach::Command(access));
    }
}

#[tokio::test]
async fn a_command_changes_only_the_folders_that_it_names_and_reads_the_others() {
    let scene = Scene::new(&[]);
    let fixture = scene.fixture();
    let (folder, page) = (scene.path("write"), scene.path("write/page"));
    let command =
        format!("cat {0}; rm {0}; echo y > {1}/out; true", page.display(), folder.display());
    let (said, _) = run(&fixture, json!({"command": command, "untrusted": true})).await;
    assert!(said.contains("\nx") && page.exists() && !scene.path("write/out").exists(), "{said}");
    let hint = format!("[{} can only be read without its name in `paths`.]", folder.display());
    assert!(said.ends_with(&hint), "{said}");
    let call = |paths: Value| json!({"command": command, "untrusted": true, "paths": paths});
    for (wrong, words) in [
        (scene.path("read"), "is no folder of [exec] write here"),
        (page.clone(), "takes `"),
        (scene.path("write/../read"), "takes `"),
    ] {
        let (said, _) = run(&fixture, call(json!([wrong]))).await;
        assert!(said.contains(words) && page.exists(), "{wrong:?}: {said}");
    }
    let (said, is_untrusted) = run(&fixture, call(json!([folder]))).await;
    assert!(!page.exists() && scene.path("write/out").exists(), "{said}");
    assert!(is_untrusted && !said.contains("can only be read"), "{said}");
}

#[tokio::test]
async fn a_command_with_the_network_and_such_a_folder_tells_nothing_of_the_workspace() {
    let scene = Scene::new(&[]);
    let config = Config { network: shell::NetworkRule::On, ..scene.config.clone() };
    let fixture = ShellFixture::with(&config, Role::Owner, ChatKind::Private);
    let folder = scene.path("write");
    for paths in [json!([folder]), json!(["shared"]), json!([folder, "shared"])] {
        let call = json!({"command": "echo done", "network": true, "paths": paths});
        // Each is asked about, as before.
        let (tool, _) = fixture.tools.authorise("exec", fixture.cx.role).unwrap();
        let reach = tool.call_terms(&call.to_string(), &fixture.cx.address).reach;
        assert_eq!(reach, Reach::Command(CommandAccess::Both), "{paths}");
        // The folder was not compared, so nothing is said about it.
        let (said, _) = run(&fixture, call).await;
        assert!(said.contains("done") && !said.contains("different now"), "{paths}: {said}");
        // And nothing has to be listed at its end.
        let behind = json!({
            "command": "true", "network": true, "paths": paths, "background": true
        });
        tool.check(&behind.to_string(), &fixture.cx.place()).expect("it may run behind");
    }
    let own = json!({
        "command": "true", "network": true, "paths": [folder, "AGENTS.md"], "background": true
    });
    let (refused, _) = run(&fixture, own).await;
    assert!(refused.contains("runs in the foreground"), "{refused}");
}

#[tokio::test]
async fn after_untrusted_content_a_change_of_such_a_folder_is_asked_about() {
    let scene = Scene::new(&[]);
    let mut rig =
        Rig::of(RigOptions { tools: tools(&scene.config), ..RigOptions::default() }).await;
    fs::create_dir_all(rig.path().join("downloads")).unwrap();
    fs::write(rig.path().join("downloads/tax.txt"), "private").unwrap();
    let (folder, out) = (scene.path("write"), scene.path("write/tax.txt"));
    let copy = |paths: Value| {
        let command = format!("cp tax.txt {}/; true", folder.display());
        calls(&[("exec", json!({"command": command, "untrusted": true, "paths": paths}))])
    };
    let read = || calls(&[("read_file", json!({"path": "downloads/tax.txt"}))]);
    rig.model.on("quietly", [read(), copy(json!([])), says("Not copied.")]);
    assert_eq!(rig.ask("1", "quietly").await, "Not copied.");
    assert!(!out.exists());
    rig.model.on("openly", [copy(json!([folder])), says("Copied.")]);
    let question = rig.ask("1", "openly").await;
    assert!(question.contains("Approve?") && question.contains("that changes"), "{question}");
    assert!(!out.exists());
    rig.say("1", "/approve 1");
    let heard = rig.next_messages("1", 3).await;
    assert!(heard.contains(&"Copied.".to_owned()) && out.exists(), "{heard:?}");
    rig.finish().await;
}

#[tokio::test]
async fn trusted_ones_are_seen_with_the_workspace() {
    let scene = Scene::new(&["read/own", "write"]);
    let fixture = scene.fixture();
    let page = scene.path("read/own/page").display().to_string();
    let (said, is_untrusted) = run(&fixture, json!({"command": format!("cat {page}")})).await;
    assert!(said.contains("mine") && !is_untrusted, "{said}");
    let out = scene.path("write/out").display().to_string();
    run(&fixture, json!({"command": format!("cp AGENTS.md {out}")})).await;
    assert!(scene.path("write/out").exists());
    let beside = format!("cd {}/..; cat page; true", scene.path("read/own").display());
    let (said, _) = run(&fixture, json!({"command": beside})).await;
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

impl Scene {
    /// Both folders are for the owner, and all roles from users on may run commands.
    fn for_the_owner(trusted: &[&str]) -> Self {
        let mut scene = Self::new(trusted);
        let owners = |name: &str| vec![RoleFolder { path: scene.path(name), role: Role::Owner }];
        let folder_roles = FolderRoles { read: owners("read"), write: owners("write") };
        scene.config = Config { role: Role::User, folder_roles, ..scene.config };
        scene
    }
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_than_at_the_start_is_not_opened() {
    let scene = Scene::new(&["read/own"]);
    let fixture = scene.fixture();
    fs::create_dir(scene.path("home")).unwrap();
    fs::write(scene.path("home/page"), "private").unwrap();
    let exchange = |name: &str| {
        fs::rename(scene.path(name), scene.path("aside")).unwrap();
        symlink(scene.path("home"), scene.path(name)).unwrap();
    };
    let put_back = |name: &str| {
        fs::remove_file(scene.path(name)).unwrap();
        fs::rename(scene.path("aside"), scene.path(name)).unwrap();
    };
    let reads = |name: &str| format!("cat {}/page", scene.path(name).display());
    let writes = scene.path("write").display().to_string();
    let untrusted = [
        json!({"command": reads("write"), "untrusted": true}),
        json!({"command": format!("echo x > {writes}/page"), "untrusted": true, "paths": [writes]}),
    ];
    exchange("write");
    for arguments in &untrusted {
        let (said, _) = run(&fixture, arguments.clone()).await;
        let why = format!("{writes} leads elsewhere than when I started.");
        assert!(said.starts_with("The command was not started: ") && said.contains(&why), "{said}");
    }
    assert_eq!(fs::read_to_string(scene.path("home/page")).unwrap(), "private");
    // It does not see that path.
    let trusted = json!({"command": reads("read/own")});
    let (said, _) = run(&fixture, trusted.clone()).await;
    assert!(said.contains("mine"), "{said}");
    put_back("write");
    for arguments in &untrusted {
        let (said, _) = run(&fixture, arguments.clone()).await;
        assert!(said.starts_with("[exit code 0"), "{said}");
    }
    exchange("read/own");
    let (said, _) = run(&fixture, trusted).await;
    assert!(said.starts_with("The command was not started: "), "{said}");
    put_back("read/own");
}

#[tokio::test]
async fn a_link_to_a_disk_that_is_mounted_later_is_followed_once_it_is_there() {
    let mut scene = Scene::new(&[]);
    let late = scene.path("late");
    symlink("disk/data", &late).unwrap();
    scene.config.sandbox.read.push(late.clone());
    let fixture = scene.fixture();
    let reads = json!({"command": format!("cat {}/page; true", late.display()), "untrusted": true});
    let (said, _) = run(&fixture, reads.clone()).await;
    assert!(said.starts_with("[exit code 0"), "{said}");
    fs::create_dir_all(scene.path("disk/data")).unwrap();
    fs::write(scene.path("disk/data/page"), "from the disk").unwrap();
    let (said, _) = run(&fixture, reads.clone()).await;
    assert!(said.starts_with("[exit code 0") && said.contains("from the disk"), "{said}");
    // Nobody has checked what is elsewhere.
    fs::remove_file(&late).unwrap();
    symlink("read", &late).unwrap();
    let (said, _) = run(&fixture, reads).await;
    assert!(said.contains("leads elsewhere than when I started"), "{said}");
}

#[tokio::test]
async fn a_folder_with_a_role_is_seen_by_commands_of_that_role_only_in_private() {
    let scene = Scene::for_the_owner(&[]);
    let (page, out) = (scene.path("read/page"), scene.path("write/out"));
    let command = format!("cat {}; echo x > {}; true", page.display(), out.display());
    for (role, place) in [
        (Role::User, ChatKind::Private),
        (Role::Admin, ChatKind::Private),
        (Role::Owner, ChatKind::Group),
        (Role::Owner, ChatKind::Private),
    ] {
        let fixture = ShellFixture::with(&scene.config, role, place);
        let sees = role == Role::Owner && place == ChatKind::Private;
        let (said, _) = run(&fixture, json!({"command": command, "untrusted": true})).await;
        assert_eq!(said.contains("Obey."), sees, "{role} {place:?}: {said}");
        assert!(!out.exists(), "{role} {place:?}: {said}");
        let names = json!({"command": command, "paths": [scene.path("write")]});
        let (said, _) = run(&fixture, names).await;
        assert_eq!(
            said.contains("is no folder of [exec] write"),
            !sees,
            "{role} {place:?}: {said}"
        );
        assert_eq!(out.exists(), sees, "{role} {place:?}: {said}");
    }
}

#[tokio::test]
async fn a_trusted_part_of_a_folder_has_its_role() {
    let scene = Scene::for_the_owner(&["read/own", "write"]);
    let page = scene.path("read/own/page").display().to_string();
    let out = scene.path("write/out");
    let command = format!("cat {page}; echo x > {}; true", out.display());
    for (role, sees) in [(Role::Admin, false), (Role::Owner, true)] {
        let fixture = ShellFixture::with(&scene.config, role, ChatKind::Private);
        let (said, _) = run(&fixture, json!({"command": command})).await;
        assert_eq!((said.contains("mine"), out.exists()), (sees, sees), "{role}: {said}");
    }
}

#[tokio::test]
async fn nobody_is_told_to_open_a_folder_that_their_role_does_not_see() {
    let scene = Scene::for_the_owner(&[]);
    let reads = format!("cat {}; true", scene.path("read/page").display());
    let fixture = ShellFixture::with(&scene.config, Role::User, ChatKind::Private);
    let (said, _) = run(&fixture, json!({"command": reads})).await;
    assert!(!said.contains("untrusted") && said.contains("exit code 0"), "{said}");
}

#[tokio::test]
async fn paths_that_are_meant_otherwise_are_refused_before_anybody_is_asked() {
    let scene = Scene::new(&[]);
    let fixture = scene.fixture();
    for (path, why) in [
        ("~/notes", "begins in a home folder"),
        ("~", "begins in a home folder"),
        ("file:///tmp/x", "is an address"),
        (" /tmp/x", "begins or ends with a space"),
        ("project ", "begins or ends with a space"),
    ] {
        for arguments in
            [json!({"command": "ls", "paths": [path]}), json!({"command": "ls", "cwd": path})]
        {
            let (refused, _) = run(&fixture, arguments).await;
            assert!(refused.contains(why), "{path}: {refused}");
        }
    }
}

#[tokio::test]
async fn a_working_folder_of_the_config_is_refused_with_the_way_that_works() {
    let scene = Scene::new(&["read/own"]);
    let fixture = scene.fixture();
    let shown = |name: &str| scene.path(name).display().to_string();
    let named = format!("begin the command with `cd` there, and name `{}` in", shown("write"));
    for (cwd, way) in [
        (shown("write"), named),
        (shown("read"), "`cd` there, and give `untrusted`.".to_owned()),
        (shown("read/own"), "`cd` there.".to_owned()),
        ("/srv".to_owned(), "is absolute".to_owned()),
    ] {
        let (refused, _) = run(&fixture, json!({"command": "cat page", "cwd": cwd})).await;
        assert!(refused.contains(&way), "{cwd}: {refused}");
    }
    // And so it works.
    let write = shown("write");
    let command = format!("cd {write} && cat page");
    let (said, _) = run(&fixture, json!({"command": command, "paths": [write]})).await;
    assert!(said.contains("\nx"), "{said}");
}
