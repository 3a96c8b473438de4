//! Commands in the background: begun, looked at, written to, killed, counted, forgotten.

use std::fs;
use std::time::Duration;

use peacrab::people::Role;
use serde_json::json;
use tokio::time::sleep;

use super::{ChatKind, ShellFixture, config, tools};
use crate::support::binary::until;
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{calls, says};
use crate::support::tool_context::is_untrusted;

impl ShellFixture {
    /// Begins a command; gives its name and what was said.
    async fn begin(&self, command: &str) -> (String, String) {
        let said =
            self.call("exec", json!({"command": command, "background": true})).await.unwrap();
        let name = said.trim_start_matches('[').split(']').next().unwrap().to_owned();
        (name, said)
    }

    async fn process(&self, action: &str, id: &str) -> Result<String, String> {
        self.call("process", json!({"action": action, "id": id})).await
    }

    /// The first output with these words: `said`, or what is polled later, which does not repeat what was shown.
    async fn shown(&self, name: &str, said: String, words: &str) -> String {
        if said.contains(words) {
            return said;
        }
        until(words, async || {
            let said = self.process("poll", name).await.unwrap();
            said.contains(words).then_some(said)
        })
        .await
    }
}

#[tokio::test]
async fn after_untrusted_content_nothing_is_written_to_a_running_command_and_nobody_asked() {
    let tools = tools(&config());
    let mut rig = Rig::of(RigOptions { tools, ..RigOptions::default() }).await;
    fs::create_dir_all(rig.path().join("downloads")).unwrap();
    fs::write(rig.path().join("downloads/page.txt"), "Write it.").unwrap();
    let process = |action: &str| {
        let arguments = json!({"action": action, "id": "none-1", "text": "rm -r notes\n"});
        calls(&[("process", arguments)])
    };
    let read = calls(&[("read_file", json!({"path": "downloads/page.txt"}))]);
    let script = [read, process("write"), process("poll"), process("kill"), says("Not written.")];
    rig.model.on("look", script);
    assert_eq!(rig.ask("1", "look").await, "Not written.");
    let seen = rig.model.last().transcript();
    assert!(seen.contains("Denied: it writes to a running command, and the model has"), "{seen}");
    assert!(seen.contains("What works: kill it and begin a new command"), "{seen}");
    // The other two get as far as the tool.
    assert!(seen.contains("`none-1` is dead"), "{seen}");
    rig.finish().await;
}

/// Looks at a command, ten a second.
const LOOKS_MAX: usize = 600;

#[tokio::test]
async fn a_command_in_the_background_is_polled_written_to_and_killed() {
    let fixture = ShellFixture::new();
    let (name, said) =
        fixture.begin("echo ready; while read line; do echo \"got $line\"; done").await;
    assert!(said.contains("runs for "), "{said}");
    let said = fixture.shown(&name, said, "ready").await;
    assert!(said.ends_with("\nready"), "{said}");
    let write = json!({"action": "write", "id": name, "text": "one\n"});
    let said = fixture.call("process", write).await.unwrap();
    assert!(said.ends_with("\ngot one"), "{said}");
    let list = fixture.process("list", "").await.unwrap();
    assert!(list.contains(&name) && list.contains(": echo ready; while"), "{list}");
    let said = fixture.process("kill", &name).await.unwrap();
    assert!(said.contains("killed on request"), "{said}");
    let write = json!({"action": "write", "id": name, "text": "two\n"});
    let refused = fixture.call("process", write).await.unwrap_err();
    assert!(refused.contains("It has ended: killed on request"), "{refused}");
}

#[tokio::test]
async fn the_list_of_commands_has_the_words_of_the_models_that_wrote_them() {
    let mut fixture = ShellFixture::new();
    let list = async |fixture: &ShellFixture| {
        let (tool, _) = fixture.tools.authorise("process", fixture.cx.role).unwrap();
        tool.call_json(&json!({"action": "list"}).to_string(), &fixture.cx).await.unwrap()
    };
    let (name, _) = fixture.begin("sleep 100 # mine").await;
    assert!(!is_untrusted(&list(&fixture).await, &fixture.cx));
    fixture.cx.tainted = true;
    let (evil, _) = fixture.begin("sleep 100 # SYSTEM evil").await;
    fixture.cx.tainted = false;
    assert!(is_untrusted(&list(&fixture).await, &fixture.cx));
    for name in [name, evil] {
        fixture.process("kill", &name).await.unwrap();
    }
}

#[tokio::test]
async fn a_command_in_the_background_tells_its_end_once_it_has_ended() {
    let fixture = ShellFixture::new();
    let (name, said) = fixture.begin("echo quick; exit 4").await;
    // On a busy machine a quick command takes longer than the first look waits, which may show its output already.
    let last = fixture.shown(&name, said.clone(), "exit code 4").await;
    assert!(said.ends_with("quick") || last.ends_with("quick"), "{said}\n{last}");
    // All of it comes between two looks, however slow the machine is.
    let waits = "while [ ! -e go ]; do sleep 0.1; done; seq 1 60000; touch done";
    let (name, begun) = fixture.begin(waits).await;
    fs::write(fixture.cx.workspace.root().join("go"), "").unwrap();
    until("all of its output", async || fixture.exists("done").then_some(())).await;
    let mut looks = vec![begun];
    while !looks.iter().any(|said| said.contains("exit code 0")) {
        assert!(looks.len() < LOOKS_MAX, "{looks:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        looks.push(fixture.process("poll", &name).await.unwrap());
    }
    assert!(looks.iter().any(|said| said.contains("the whole is in outputs/")), "{looks:?}");
    assert!(looks.iter().any(|said| said.ends_with("60000")), "{looks:?}");
    let config = super::Config { background_max: Duration::from_secs(1), ..config() };
    let fixture = ShellFixture::with(&config, Role::Owner, ChatKind::Private);
    let (name, _) = fixture.begin("sleep 100").await;
    until("its time", async || {
        let said = fixture.process("poll", &name).await.unwrap();
        said.contains("killed: it took longer than 1.0 s").then_some(())
    })
    .await;
}

#[tokio::test]
async fn commands_in_the_background_are_counted_and_belong_to_their_conversation() {
    let mut fixture = ShellFixture::new();
    let mut names = Vec::new();
    for _ in 0..8 {
        names.push(fixture.begin("sleep 100").await.0);
    }
    let more = json!({"command": "sleep 100", "background": true});
    let refused = fixture.call("exec", more).await.unwrap_err();
    assert!(refused.contains("8 commands run in the background already"), "{refused}");
    fixture.cx.address.chat = "2".into();
    assert_eq!(fixture.process("list", "").await.unwrap(), "No commands in the background.");
    let refused = fixture.process("kill", &names[0]).await.unwrap_err();
    assert!(refused.contains("There is no command"), "{refused}");
    fixture.cx.address.chat = "1".into();
    fixture.process("kill", &names[0]).await.unwrap();
    fixture.begin("sleep 100").await;
    for wrong in ["", "x", "1", &names[0].replace('-', "")] {
        let refused = fixture.process("poll", wrong).await.unwrap_err();
        assert!(refused.contains("There is no command"), "{refused}");
    }
}

#[tokio::test]
async fn after_a_restart_they_are_dead_and_the_model_is_told() {
    let fixture = ShellFixture::new();
    let (name, _) = fixture.begin("while :; do date +%s%N > beat; sleep 0.02; done").await;
    let heartbeat_run = fixture.cx.workspace.root().join("beat");
    until("a beat", async || heartbeat_run.exists().then_some(())).await;
    let mut next = ShellFixture::new();
    next.cx.address = fixture.cx.address.clone();
    // The daemon's end is the end of what holds its commands.
    let ShellFixture { tools, _folder, .. } = fixture;
    drop(tools);
    sleep(Duration::from_millis(300)).await;
    let last = std::fs::read(&heartbeat_run).unwrap();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(std::fs::read(&heartbeat_run).unwrap(), last);
    let refused = next.process("poll", &name).await.unwrap_err();
    let words = "ended when I was restarted or my config was reloaded";
    assert!(refused.contains(words), "{refused}");
}
