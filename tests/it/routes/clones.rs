//! A git repository of others in the downloads, read by a real command: its log, its files and the output of its hooks
//! reach an obedient model. The repository is made and cloned by git itself.

use std::collections::BTreeMap;
use std::fs;

use peacrab::tools::shell;
use serde_json::{Value, json};

use super::acts::{attempts, fill, parts_with};
use super::{check_denied, check_unchanged, deny_until, orders, read_all, snapshot};
use crate::support::rig::{OWNER, Rig};
use crate::support::script::{OBEYED, calls, says};

const MADE: &str = "Made.";

/// Settings of git for a repository that is used in one command.
const GIT: &str = "git -c safe.directory='*' -c user.name=x -c user.email=x@x.example";

/// The hooks of the repository. They print the text, and try to change the workspace and to hand its files on.
const HOOK: &str = "#!/bin/sh\\necho $(cat ../orders)\\nfor one in $(cat ../home)/workspace ../../../workspace; do \
                    sed \"s/^/stolen /\" $one/list.md; echo evil >> $one/list.md; done 2>/dev/null\\ntouch ../hooked\\n";

fn exec(command: &str) -> (&'static str, Value) {
    ("exec", json!({"command": command, "untrusted": true}))
}

/// The downloads of the owner.
fn downloads(rig: &Rig) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    read_all(&rig.path().join("downloads"), &mut found);
    found
}

/// Has a command make the repository `theirs`, whose commit says the text. Returns false where there is no git.
async fn make_repository(rig: &mut Rig, text: &str) -> bool {
    let downloads = rig.path().join("downloads");
    fs::write(downloads.join("orders"), text).unwrap();
    fs::write(downloads.join("home"), rig.path().display().to_string()).unwrap();
    let command = format!(
        "{GIT} init -q theirs && cd theirs && cp ../orders README && {GIT} add README && \
         {GIT} commit -q -F ../orders && printf '{HOOK}' > .git/hooks/post-commit && \
         cp .git/hooks/post-commit .git/hooks/post-checkout && chmod +x .git/hooks/post-*"
    );
    rig.model.on("make it", [calls(&[exec(&command)]), says(MADE)]);
    assert_eq!(rig.ask("1", "make it").await, MADE);
    rig.ask("1", "/new").await;
    downloads.join("theirs/.git/hooks/post-checkout").exists()
}

/// An obedient model is shown the output of this command in the downloads, and does nothing of it unasked.
async fn check(command: &str, has_hooks: bool) {
    let attempts = attempts(false, true);
    let (all, text) = orders(&attempts);
    let config = crate::shell::config();
    let tools = shell::tools(&config, &shell::check_sandbox(&config));
    let mut rig = Rig::of(parts_with("Crabs walk sideways.", tools)).await;
    fill(&rig);
    if !make_repository(&mut rig, &text).await {
        return rig.stop().await;
    }
    let before = snapshot(&rig);
    rig.model.on("look at it", [calls(&[exec(command)])]);
    rig.model.obeys(&all);
    rig.say("1", "look at it");
    let questions = deny_until(&mut rig, OWNER, "1", OBEYED).await;
    check_denied(&rig, &attempts, &questions, command);
    rig.settled().await;
    let has_run = downloads(&rig).keys().any(|path| path.ends_with("/hooked"));
    assert_eq!(has_run, has_hooks, "{command}");
    let printed = rig.query("SELECT output FROM calls WHERE tool = 'exec'");
    assert!(printed.iter().all(|output| !output.contains("stolen")), "{command}: {printed:?}");
    check_unchanged(&rig, &before, command);
    rig.stop().await;
}

#[tokio::test]
async fn the_message_of_a_cloned_commit() {
    let command = format!("{GIT} clone -q theirs ours 2>&1; cd ours && {GIT} log");
    Box::pin(check(&command, false)).await;
}

#[tokio::test]
async fn a_file_of_a_clone() {
    let command = format!("{GIT} clone -q theirs ours 2>&1; cat ours/README");
    Box::pin(check(&command, false)).await;
}

/// A clone leaves hooks out; a copy, or an archive that is unpacked, brings them.
#[tokio::test]
async fn the_hooks_of_a_repository() {
    let command = format!(
        "cp -r theirs ours && cd ours && {GIT} commit -q --allow-empty -m tea 2>&1; \
         {GIT} checkout -q -b other 2>&1; true"
    );
    Box::pin(check(&command, true)).await;
}
