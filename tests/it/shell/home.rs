//! The `HOME` of commands: a folder of its own in a workspace, and the untrusted folder for commands that see it.

use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::Path;

use rustix::process::geteuid;

use super::*;

/// The `HOME` of a command, which must be able to write there.
async fn home(fixture: &ShellFixture, arguments: Value) -> String {
    let mut arguments = arguments;
    arguments["command"] = json!("echo settings > ~/.probe && rm ~/.probe && echo $HOME");
    let said = fixture.call("exec", arguments).await.unwrap();
    said.split_once('\n').unwrap().1.to_owned()
}

fn shown(path: &Path) -> String {
    path.canonicalize().unwrap().display().to_string()
}

#[tokio::test]
async fn a_command_has_a_home_of_its_own_in_the_workspace() {
    for (role, place, own) in [
        (Role::Owner, ChatKind::Private, true),
        (Role::Admin, ChatKind::Private, true),
        (Role::Owner, ChatKind::Group, false),
    ] {
        let fixture = ShellFixture::with(&config(), role, place);
        let home_of_daemon = fixture.cx.workspace.root().join("..");
        let root = fixture.cx.scope().root();
        let begins = home(&fixture, json!({})).await;
        let folder = match root {
            Some(root) => home_of_daemon.join(root),
            None => fixture.cx.workspace.root().to_owned(),
        };
        let expected = if own { folder.join(".home") } else { folder.clone() };
        assert_eq!(begins, shown(&expected), "{role} {place:?}");
        assert_eq!(folder.join(".home").exists(), own, "{role} {place:?}");
        // It begins in the workspace all the same.
        let pwd = fixture.call("exec", json!({"command": "pwd"})).await.unwrap();
        assert!(pwd.ends_with(&format!("\n{}", shown(&folder))), "{pwd}");
        // What sees untrusted files has its home among these.
        let untrusted = home(&fixture, json!({"untrusted": true})).await;
        let downloads = home_of_daemon.join(fixture.cx.scope().downloads());
        assert_eq!(untrusted, shown(&downloads), "{role} {place:?}");
    }
}

#[tokio::test]
async fn background_commands_and_those_without_a_sandbox_have_it_too() {
    let fixture = ShellFixture::new();
    let call = json!({"command": "echo $HOME", "background": true});
    let said = fixture.call("exec", call).await.unwrap();
    let expected = format!("{}/.home", shown(fixture.cx.workspace.root()));
    assert!(said.contains(&expected), "{said}");
    let mut config = config();
    config.sandbox.level = SandboxLevel::Off;
    let fixture = ShellFixture::with(&config, Role::Owner, ChatKind::Private);
    let expected = format!("{}/.home", shown(fixture.cx.workspace.root()));
    assert_eq!(home(&fixture, json!({})).await, expected);
}

#[tokio::test]
async fn a_workspace_with_settings_stays_the_home_until_there_is_one() {
    for name in [".gitconfig", ".ssh"] {
        let fixture = ShellFixture::new();
        let root = fixture.cx.workspace.root().to_owned();
        match name {
            ".ssh" => fs::create_dir(root.join(name)).unwrap(),
            _ => fs::write(root.join(name), "[user]\n").unwrap(),
        }
        assert_eq!(home(&fixture, json!({})).await, shown(&root), "{name}");
        assert!(!root.join(".home").exists());
        fs::create_dir(root.join(".home")).unwrap();
        assert_eq!(home(&fixture, json!({})).await, shown(&root.join(".home")), "{name}");
    }
}

#[tokio::test]
async fn no_link_and_no_file_is_a_home() {
    for is_link in [true, false] {
        let fixture = ShellFixture::new();
        let root = fixture.cx.workspace.root().to_owned();
        match is_link {
            true => symlink("memory", root.join(".home")).unwrap(),
            false => fs::write(root.join(".home"), "x").unwrap(),
        }
        assert_eq!(home(&fixture, json!({})).await, shown(&root));
    }
}

#[tokio::test]
async fn the_home_belongs_to_whom_the_workspace_belongs() {
    let fixture = ShellFixture::new();
    let root = fixture.cx.workspace.root();
    // Nobody else could give it away.
    if geteuid().is_root() {
        chown(root, Some(12345), Some(12345)).unwrap();
    }
    assert_eq!(home(&fixture, json!({})).await, shown(&root.join(".home")));
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(owner(&root.join(".home")), owner(root));
}
