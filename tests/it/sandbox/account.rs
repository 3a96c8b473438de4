//! A daemon that is root: its commands run as nobody, and all that they were given is theirs all the same.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::time::Duration;

use peacrab::sandbox::account::UNUSED;
use peacrab::sandbox::{self, AccountKind, CommandEnding, SandboxLevel, SandboxState};
use rustix::process::geteuid;

use super::degrade::{NO_NAMESPACES, without};
use super::{SECRET, Scene};

/// The users of the machine that run a program with this in its arguments.
fn users_of(mark: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let arguments = fs::read(entry.path().join("cmdline")).ok()?;
        let is_it = String::from_utf8_lossy(&arguments).starts_with(&format!("sleep\0{mark}"));
        is_it.then(|| fs::metadata(entry.path()).ok().map(|it| it.uid()))?
    });
    all.collect()
}

#[tokio::test]
async fn the_commands_of_root_run_as_nobody_of_the_machine() {
    let scene = Scene::new();
    let SandboxState::Sandboxed { enforced, .. } = sandbox::test_sandbox(&scene.sandbox) else {
        panic!()
    };
    let expected = match geteuid().is_root() {
        true => (AccountKind::Unused, UNUSED),
        false => (AccountKind::Daemon, geteuid().as_raw()),
    };
    assert_eq!(enforced.account, expected.0);
    let mark = format!("88{:05}", fastrand::u32(..100_000));
    let command = format!("sleep {mark}.5");
    let users = async {
        loop {
            let users = users_of(&mark);
            if !users.is_empty() {
                return users;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        done = scene.run(&command) => panic!("{done:?}"),
        users = users => assert_eq!(users, [expected.1]),
    }
}

#[tokio::test]
async fn what_is_lent_can_be_used_and_stays_the_owners() {
    let mut scene = Scene::new();
    let root = scene.root();
    // Nobody else could look into these.
    for (folder, mode) in [("home/workspace", 0o700), ("home", 0o700), ("person", 0o700)] {
        fs::set_permissions(root.join(folder), Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(root.join("person/books")).unwrap();
    fs::write(root.join("person/books/one"), "a book\n").unwrap();
    fs::set_permissions(root.join("person/books/one"), Permissions::from_mode(0o600)).unwrap();
    let books = root.join("person/books");
    scene.sandbox.read.push(books.clone());
    let command = format!(
        "cat {0}/one && echo more >> notes/plan.md && mkdir -p new/deep && echo x > new/deep/f && \
         chmod 640 new/deep/f && (echo y > {0}/two || echo held) 2>/dev/null && stat -c '%u %a' new/deep/f && id -u",
        books.display()
    );
    let owner = fs::metadata(scene.workspace()).unwrap().uid();
    let said = scene.run(&command).await.well();
    assert_eq!(said, format!("a book\nheld\n{owner} 640\n{owner}\n"));
    for made in ["new", "new/deep", "new/deep/f", "notes/plan.md"] {
        let found = fs::symlink_metadata(scene.workspace().join(made)).unwrap();
        assert_eq!(found.uid(), owner, "{made}");
    }
    assert_eq!(scene.read("notes/plan.md"), "a planmore\n");
}

#[tokio::test]
async fn what_only_root_may_read_of_the_system_is_not_lent() {
    let mut scene = Scene::new();
    let hidden = tempfile::tempdir().unwrap();
    let path = hidden.path().canonicalize().unwrap();
    fs::write(path.join("key"), SECRET).unwrap();
    // It is seen, and belongs to somebody else who keeps it.
    let file = path.join("key");
    if geteuid().is_root() {
        chown(&file, Some(12345), Some(12345)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        scene.sandbox.read.push(path.clone());
    }
    let done = scene.run(&format!("cat {}; cat /etc/shadow", file.display())).await;
    assert!(!done.out.contains(SECRET) && !done.out.contains("root:"), "{done:?}");
    scene.check();
}

#[tokio::test]
async fn streams_can_be_opened_by_their_names() {
    let scene = Scene::new();
    let said = scene.run("echo one > /dev/stdout; echo two > /dev/stderr; cat < /dev/stdin").await;
    assert_eq!(said.well(), "one\ntwo\n");
    // Nothing of the machine was given away for that.
    assert_eq!(fs::metadata("/dev/null").unwrap().uid(), 0);
}

#[tokio::test]
async fn a_workspace_of_another_account_is_lent_as_well() {
    if !geteuid().is_root() {
        return;
    }
    let scene = Scene::new();
    for path in ["", "notes", "notes/plan.md"] {
        chown(scene.workspace().join(path), Some(4321), Some(4321)).unwrap();
    }
    let said = scene.run("echo more >> notes/plan.md && echo x > new && id -u").await.well();
    assert_eq!(said, "4321\n");
    assert_eq!(fs::metadata(scene.workspace().join("new")).unwrap().uid(), 4321);
}

#[test]
fn where_root_has_no_other_account_to_give_it_offers_no_shell_and_says_what_to_do() {
    without(NO_NAMESPACES, async || {
        let mut scene = Scene::new();
        if !geteuid().is_root() {
            assert!(sandbox::test_sandbox(&scene.sandbox).is_offered());
            return;
        }
        let state = sandbox::test_sandbox(&scene.sandbox);
        assert!(!state.is_offered(), "{state:?}");
        let words = state.describe();
        assert!(words.contains("I run as root") && words.contains("another account"), "{words}");
        let done = scene.run("echo begun").await;
        assert!(matches!(done.ending, CommandEnding::Refused(_)) && done.out.is_empty());
        // The owner of the config may want it all the same, and is told.
        scene.sandbox.level = SandboxLevel::BestEffort;
        let words = sandbox::test_sandbox(&scene.sandbox).describe();
        assert!(
            words.contains("NOT enforced") && words.contains("because I run as root"),
            "{words}"
        );
        assert_eq!(scene.run("id -u").await.well(), "0\n");
    });
}
