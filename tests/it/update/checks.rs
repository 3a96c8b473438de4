//! What is known before anything is changed: which version is newer, as people and scripts are told, and whether this program
//! can be replaced at all.

use std::fs;
use std::path::Path;

use peacrab::types::version::Version;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Server, another, installed, is_unchanged, update};
use crate::support::binary::{Ended, ProgramFixture};

/// The report of `update --check --json`.
fn found(newest: Option<&str>, can_be_installed: bool) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    json!({ "version": version, "newest": newest, "can_be_installed": can_be_installed, "error": null })
}

fn report(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[tokio::test]
async fn a_script_gets_the_newest_version() {
    let checked = async |fixture: &ProgramFixture| {
        let ended = fixture.run(&["update", "--check", "--json"]).await;
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        report(&ended)
    };
    let fixture = ProgramFixture::new("");
    assert_eq!(checked(&fixture).await, found(None, false));
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    server.publish("0.0.1", "#!/bin/sh\n");
    assert_eq!(checked(&fixture).await, found(Some("0.0.1"), false));
    server.publish("99.0.0", "#!/bin/sh\n");
    assert_eq!(checked(&fixture).await, found(Some("99.0.0"), true));
    // For another machine only.
    server.sign(
        r#"{"version": "99.0.0", "programs": {"abacus-linux": {"file": "x", "sha256": ""}}}"#,
    );
    assert_eq!(checked(&fixture).await, found(Some("99.0.0"), false));
    let ended = fixture.run(&["update", "--check"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("has no program for this machine"), "{ended:?}");
    // An update itself has no such report.
    let ended = fixture.run(&["update", "--json"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[tokio::test]
async fn a_script_gets_the_reason_why_the_newest_version_is_not_known() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let check = async |words: &str| {
        let ended = fixture.run(&["update", "--check", "--json"]).await;
        assert_eq!(ended.code, Some(1), "{words}: {ended:?}");
        let shown = report(&ended);
        assert_eq!((&shown["newest"], &shown["can_be_installed"]), (&json!(null), &json!(false)));
        assert!(shown["error"].as_str().unwrap().contains(words), "{words}: {shown}");
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    };
    check("the server answered 404").await;
    server.publish("99.0.0", "#!/bin/sh\n");
    server.put("release.json", b"{}");
    check("is not signed").await;
    server.publish("one", "#!/bin/sh\n");
    check("`one` is not a version").await;
    let wrong = ProgramFixture::new("[update]\nurl = \"https://example.com\"\n");
    let ended = wrong.run(&["update", "--check", "--json"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(report(&ended)["error"].as_str().unwrap().contains("needs both"), "{ended:?}");
}

#[test]
fn versions_are_in_the_order_of_semver() {
    let ascending = [
        "0.9.9",
        "0.10.0-1",
        "0.10.0-alpha",
        "0.10.0-alpha.1",
        "0.10.0-alpha.beta",
        "0.10.0-beta",
        "0.10.0-beta.2",
        "0.10.0-beta.11",
        "0.10.0-rc.1",
        "0.10.0-rc1",
        "0.10.0-rc2",
        // By the letter of semver this would be before rc2; nobody means that.
        "0.10.0-rc10",
        "0.10.0",
        "0.10.1-rc1",
        "1.0.0",
    ];
    let parsed: Vec<_> = ascending.iter().map(|it| Version::parse(it).expect(it)).collect();
    for (at, version) in parsed.iter().enumerate() {
        for (other_at, other) in parsed.iter().enumerate() {
            let (this, that) = (ascending[at], ascending[other_at]);
            assert_eq!(version.cmp(other), at.cmp(&other_at), "{this} and {that}");
        }
    }
    assert_eq!(Version::parse("1.2.3+linux.7"), Version::parse("1.2.3"));
    for wrong in ["", "1", "1.2", "1.2.3.4", "1.2.x", "v1.2.3", "1.2.3-", "1.2.3-a..b", "1.2.3-a b"]
    {
        assert_eq!(Version::parse(wrong), None, "{wrong}");
    }
}

#[tokio::test]
async fn a_folder_that_takes_no_program_is_found_out_before_one_is_fetched() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    server.publish("99.0.0", &another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1"));
    // It could not be fetched either.
    server.files.lock().unwrap().remove("program");
    // Root may write everywhere, but not a file over a folder.
    fs::create_dir(exe.with_extension("new")).unwrap();
    let ended = update(&fixture, &exe).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("nothing was changed: cannot write"), "{ended:?}");
}

#[tokio::test]
async fn an_old_program_that_cannot_be_kept_leaves_no_new_one() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    let exe = installed(&fixture);
    server.publish("99.0.0", &another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1"));
    let old = exe.with_extension("old");
    fs::create_dir(&old).unwrap();
    let ended = update(&fixture, &exe).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = format!("nothing was changed: cannot keep the old program as {}: ", old.display());
    assert!(ended.err.contains(&words), "{ended:?}");
    fs::remove_dir(&old).unwrap();
    assert!(is_unchanged(&exe));
}

#[tokio::test]
async fn a_program_that_was_replaced_has_the_name_of_its_file_and_replaces_nothing() {
    let server = Server::start();
    let fixture = ProgramFixture::new(&server.config());
    server.publish("99.0.0", &another("99.0.0", env!("CARGO_BIN_EXE_peacrab"), "exit 1"));
    let exe = installed(&fixture);
    let status = run_replaced(&fixture, &exe, "status").await;
    let start = format!("start it with `{} --home ", exe.display());
    assert!(status.code == Some(1) && status.err.contains(&start), "{status:?}");
    assert!(is_unchanged(&exe));
    let ended = run_replaced(&fixture, &exe, "update").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("another update has replaced this program"), "{ended:?}");
    assert!(is_unchanged(&exe));
}

/// Runs a program that gets another file under its name after its start, as an update does it.
#[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
async fn run_replaced(fixture: &ProgramFixture, exe: &Path, verb: &str) -> Ended {
    let script = format!(
        "ln {exe} {exe}.new && exec 3<{exe} && rm {exe} && mv {exe}.new {exe} && \
         exec /proc/self/fd/3 --home {home} --config {config} {verb}",
        exe = exe.display(),
        home = fixture.home().display(),
        config = fixture.folder().join("config.toml").display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env_clear().env("HOME", fixture.folder());
    command.env("PATH", "/usr/bin:/bin").kill_on_drop(true);
    fixture.run_with(command, "").await
}
