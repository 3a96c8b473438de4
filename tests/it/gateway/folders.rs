//! Files of people, looked at and saved from the page: their own, and nobody else's.

use std::fs;
use std::os::unix::fs::symlink;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::browser::{Browser, rig};
use crate::support::rig::Rig;
use crate::support::script::{calls, says};

async fn status(browser: &Browser, path: &str) -> (StatusCode, String) {
    let response = browser.request(Method::GET, path).send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

/// The names in a folder, each with its kind.
async fn listed(browser: &Browser, path: &str) -> Vec<String> {
    let listed = browser.get(&format!("/workspace?path={path}")).await;
    let entries = listed["entries"].as_array().unwrap().iter();
    let shown = entries
        .map(|it| format!("{} {}", it["kind"].as_str().unwrap(), it["name"].as_str().unwrap()));
    shown.collect()
}

/// One in which the owner and Ben have files.
async fn with_files() -> (Rig, Browser, Browser) {
    let mut rig = rig().await;
    fs::create_dir(rig.workspace().join("notes")).ok();
    fs::write(rig.workspace().join("notes/ünder <b>.md"), "my secret").unwrap();
    fs::write(rig.path().join("downloads/page.html"), "<script>alert(1)</script>").unwrap();
    let writes = calls(&[("write_file", json!({"path": "plans.md", "content": "Ben's plans"}))]);
    rig.model.on("plans", [writes, says("Kept.")]);
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    ben.say("main", "message-1", "keep my plans").await;
    rig.settled().await;
    (rig, owner, ben)
}

#[tokio::test]
async fn the_owner_browses_the_workspace_and_saves_a_file() {
    let (rig, owner, _) = with_files().await;
    let root = listed(&owner, "").await;
    for name in ["folder downloads", "folder shared", "folder notes", "file AGENTS.md"] {
        assert!(root.contains(&name.to_owned()), "{root:?}");
    }
    assert!(listed(&owner, "notes").await.contains(&"file ünder <b>.md".to_owned()));
    let path = "/workspace/file?path=notes%2F%C3%BCnder%20%3Cb%3E.md";
    let file = owner.request(Method::GET, path).send().await.unwrap();
    assert_eq!(file.headers()["content-type"], "application/octet-stream");
    assert_eq!(file.headers()["x-content-type-options"], "nosniff");
    let named = file.headers()["content-disposition"].to_str().unwrap().to_owned();
    assert_eq!(named, "attachment; filename*=UTF-8''%C3%BCnder%20%3Cb%3E.md");
    assert_eq!(file.text().await.unwrap(), "my secret");
    // What others may have written is marked.
    let downloads: Value = owner.get("/workspace?path=downloads").await;
    assert_eq!(downloads["untrusted"], true);
    assert_eq!(owner.get("/workspace").await["untrusted"], false);
    let page = owner.request(Method::GET, "/workspace/file?path=downloads/page.html");
    let page = page.send().await.unwrap();
    assert_eq!(page.headers()["content-type"], "application/octet-stream");
    rig.finish().await;
}

#[tokio::test]
async fn others_browse_their_own_folder() {
    let (rig, owner, ben) = with_files().await;
    let root = listed(&ben, "").await;
    assert_eq!(root, ["folder downloads", "folder shared", "file plans.md"]);
    assert_eq!(listed(&ben, "downloads").await, Vec::<String>::new());
    let (status, text) = status(&ben, "/workspace/file?path=plans.md").await;
    assert_eq!((status, text.as_str()), (StatusCode::OK, "Ben's plans"));
    assert!(!listed(&owner, "").await.contains(&"file plans.md".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn no_path_leads_to_files_of_others_or_out_of_the_home() {
    let (rig, owner, ben) = with_files().await;
    let bens = rig.query("SELECT 'p' || person FROM accounts WHERE sender = 'ben'").remove(0);
    let own = rig.path().join("people").join(&bens).join("workspace");
    let others = rig.path().join("people/p77/workspace");
    fs::create_dir_all(&others).unwrap();
    fs::write(others.join("plans.md"), "my secret").unwrap();
    symlink(rig.path().join("config.toml"), own.join("config")).unwrap();
    symlink("../../../workspace", own.join("owners")).unwrap();
    symlink("/etc/passwd", rig.workspace().join("passwd")).unwrap();
    symlink("../state.db", rig.workspace().join("state")).unwrap();
    fs::hard_link(rig.workspace().join("notes/ünder <b>.md"), own.join("twin.md")).unwrap();
    let tricks = [
        "..",
        "../state.db",
        "..%2Fstate.db",
        "%2Fetc%2Fpasswd",
        "/etc/passwd",
        "config",
        "owners",
        "owners/notes",
        "twin.md",
        "notes/%C3%BCnder%20%3Cb%3E.md",
        "people",
        "a%00b",
        "a%5Cb",
        "....//state.db",
        ".",
        "passwd",
        "state",
        "PEOPLE/p77/workspace/plans.md",
        "./people/p77/workspace/plans.md",
        "groups",
        "%252e%252e%2fstate.db",
    ];
    for trick in tricks {
        for path in [format!("/workspace?path={trick}"), format!("/workspace/file?path={trick}")] {
            let (code, text) = status(&ben, &path).await;
            assert!(!text.contains("my secret") && !text.contains("root:"), "{path}: {text}");
            assert!(code.is_client_error(), "{path}: {code} {text}");
        }
    }
    // The owner does not reach the files of others either, nor what lies outside.
    let theirs = format!("people/{bens}/workspace/plans.md");
    for trick in [theirs.as_str(), "people", "passwd", "state", "../config.toml", "%2e%2e/state.db"]
    {
        let (code, text) = status(&owner, &format!("/workspace/file?path={trick}")).await;
        assert!(code.is_client_error(), "{trick}: {code} {text}");
        assert!(!text.contains("Ben's plans") && !text.contains("root:"), "{trick}: {text}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_large_file_is_saved_whole() {
    let (rig, owner, _) = with_files().await;
    let large = vec![b'x'; 20_000_000];
    fs::write(rig.workspace().join("large.bin"), &large).unwrap();
    let file = owner.request(Method::GET, "/workspace/file?path=large.bin").send().await.unwrap();
    assert_eq!(file.bytes().await.unwrap(), large);
    rig.finish().await;
}
