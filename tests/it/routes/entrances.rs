//! The ways into a home that are no conversation: the restore of a backup, another bot's home, a script that sends a
//! message, and what is noticed in a conversation: facts and its name.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use chrono::Utc;
use peacrab::backup::archive;
use peacrab::backup::restore::{Existing, restore};
use peacrab::control::SOCKET;
use serde_json::json;
use tokio::process::Command;

use super::ways::read_page;
use crate::support::rig::Rig;
use crate::support::script::says;

/// Sentences of the requests for facts.
const ASKED: &str = "Which lasting facts";
const ASKED_OF_OTHERS: &str = "strangers may have written";

/// Makes a backup of all, and restores it in the same home.
pub(super) async fn restore_backup(rig: &mut Rig) {
    rig.settled().await;
    rig.stop().await;
    let file = rig.path().with_file_name("kept.tar.gz");
    archive::write(&rig.path(), &file, Utc::now()).unwrap();
    restore(&rig.path(), &file, Existing::Replace, Utc::now()).unwrap();
    rig.start().await;
}

/// The place of a file in a restored backup that had a second name outside of the workspace.
pub(super) const RESTORED_LINK: &str = "downloads/linked-files/page.md";

/// Imports the home of another bot, whose memory and conversations say the text.
pub(super) async fn import_bot(rig: &Rig, text: &str) {
    let other = rig.path().with_file_name("other");
    let put = |name: &str, text: &str| {
        let file = other.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    put("workspace/memory/MEMORY.md", text);
    put("workspace/AGENTS.md", text);
    put(
        "workspace/skills/knots/SKILL.md",
        &format!("---\nname: knots\ndescription: {text}\n---\n"),
    );
    let said =
        json!({"key": "1", "summary": text, "messages": [{"role": "user", "content": text}]});
    put("workspace/sessions/telegram_1.json", &said.to_string());
    import(&rig.path(), &other).await;
}

async fn import(home: &Path, other: &Path) {
    let mut command = program(home);
    command.args(["import", "picoclaw"]).arg(other);
    let ended = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

/// The program, for the home of a rig.
#[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
pub(super) fn program(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peacrab"));
    command.arg("--home").arg(home).kill_on_drop(true);
    command
}

/// A script on this machine sends a text.
pub(super) async fn send(rig: &Rig, to: &str, text: &str) {
    rig.wait_until(|rig| rig.path().join(SOCKET).exists()).await;
    let mut command = program(&rig.path());
    command.args(["send", "--to", to, text]);
    let ended = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

/// A conversation that has read the text is read for facts by a model that makes a fact of it, and a name.
pub(super) async fn notice_facts(rig: &mut Rig, text: &str) {
    rig.settled().await;
    rig.parts.extracts = true;
    rig.stop_and_start_again().await;
    rig.model.on(ASKED, [says(r#"{"new": []}"#)]);
    let fact = json!({"kind": "wish", "text": format!("Bauer wants {text}")});
    rig.model.on(ASKED_OF_OTHERS, [says(&json!({"new": [fact], "name": text}).to_string())]);
    read_page(rig, None, "It is about crabs.");
    rig.next_message("1").await;
    for more in ["one", "two", "three", "four", "five"] {
        rig.ask("1", more).await;
    }
    rig.wait_for_count("SELECT count(*) FROM facts", 1).await;
    rig.settled().await;
    rig.parts.extracts = false;
    rig.stop_and_start_again().await;
    rig.ask("1", "/new").await;
}
