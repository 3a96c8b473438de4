//! Files of text are found by path and line, as they are now.

use std::fs;

use serde_json::json;

use super::{NOTHING, found, found_with, is_marked};
use crate::support::rig::{OWNER, Rig, USER};

#[tokio::test]
async fn files_changed_by_hand_are_found_as_they_are_now() {
    let mut rig = Rig::new().await;
    let list = rig.workspace().join("lists/garden.md");
    fs::create_dir_all(list.parent().unwrap()).unwrap();
    fs::write(&list, "# Garden\n\nTulips by the gate\n").unwrap();
    fs::write(rig.workspace().join("memory/MEMORY.md"), "# Memory\n\n- The gate is green.\n")
        .unwrap();
    let shown = found(&mut rig, OWNER, "1", "tulips gate").await;
    assert!(shown.contains("lists/garden.md:3 ("), "{shown}");
    assert!(shown.contains("memory/MEMORY.md:") && !is_marked(&shown), "{shown}");
    fs::write(&list, "# Garden\n\nRoses by the pond\n").unwrap();
    assert!(found(&mut rig, OWNER, "1", "tulips").await.contains(NOTHING));
    assert!(found(&mut rig, OWNER, "1", "roses").await.contains("lists/garden.md:3"));
    // Of the same length: the time tells it.
    fs::write(&list, "# Garden\n\nLilac by the pond\n").unwrap();
    assert!(found(&mut rig, OWNER, "1", "lilac").await.contains("lists/garden.md:3"));
    let only = json!({ "query": "gate pond", "scope": "memory" });
    let shown = found_with(&mut rig, OWNER, "1", only).await;
    assert!(shown.contains("MEMORY.md") && !shown.contains("garden.md"), "{shown}");
    fs::remove_file(&list).unwrap();
    assert!(found(&mut rig, OWNER, "1", "lilac").await.contains(NOTHING));
    let left = "SELECT 'left' FROM recall_index WHERE recall_index MATCH 'text : lilac'";
    assert_eq!(rig.query(left), Vec::<String>::new());
    // Nobody else finds them.
    assert!(found(&mut rig, USER, "2", "gate green memory").await.contains(NOTHING));
    assert!(found(&mut rig, OWNER, "-3", "gate green memory").await.contains(NOTHING));
    rig.finish().await;
}

#[tokio::test]
async fn files_of_others_are_only_counted() {
    let mut rig = Rig::new().await;
    let home = rig.path();
    let at = |path: &str| home.join(path);
    fs::write(at("downloads/page.md"), "zebras are grey").unwrap();
    fs::write(at("shared/list.md"), "zebras are red").unwrap();
    // A file with a second name may have been written by anybody; a link leads nowhere.
    fs::hard_link(at("downloads/page.md"), at("workspace/copy.md")).unwrap();
    std::os::unix::fs::symlink("../downloads/page.md", at("workspace/link.md")).unwrap();
    fs::create_dir_all(at("people/p1/workspace")).unwrap();
    fs::write(at("people/p1/workspace/secret.md"), "zebras are a secret").unwrap();
    let shown = found(&mut rig, OWNER, "1", "zebras").await;
    assert!(shown.contains(NOTHING) && shown.contains("[3 more in untrusted content"), "{shown}");
    let asked = json!({ "query": "zebras", "scope": "untrusted" });
    let shown = found_with(&mut rig, OWNER, "1", asked).await;
    assert!(shown.contains("downloads/page.md:1") && shown.contains("shared/list.md:1"), "{shown}");
    assert!(is_marked(&shown) && !shown.contains("secret"), "{shown}");
    rig.finish().await;
}

#[tokio::test]
async fn what_is_no_text_or_too_long_is_left_out_and_looked_at_once() {
    let mut rig = Rig::new().await;
    let workspace = rig.workspace();
    let at = |path: &str| workspace.join(path);
    fs::write(at("picture.png"), b"\x89PNG zebra \xff\xfe").unwrap();
    fs::write(at("nul.txt"), b"zebra\0zebra").unwrap();
    fs::write(at("long.txt"), "zebra\n".repeat(50_000)).unwrap();
    fs::write(at(".hidden.md"), "zebra").unwrap();
    let deep = at("a/b/c/d/e/f/g");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("deep.md"), "zebra").unwrap();
    assert!(found(&mut rig, OWNER, "1", "zebra").await.contains(NOTHING));
    // The last of many passages is found, with its line.
    fs::write(at("lines.txt"), format!("{}unicorn\n", "horse and cart\n".repeat(900))).unwrap();
    let shown = found(&mut rig, OWNER, "1", "unicorn").await;
    assert!(shown.contains("lines.txt:901"), "{shown}");
    rig.finish().await;
}
