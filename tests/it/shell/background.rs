//! Commands in the background: begun, looked at, written to, killed, counted, forgotten.

use std::time::Duration;

use peacrab::people::Role;
use serde_json::json;
use tokio::time::sleep;

use super::{ChatKind, Desk, config};
use crate::support::binary::until;
use crate::support::somebody::is_untrusted;

impl Desk {
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

/// Looks at a command, ten a second.
const LOOKS_MAX: usize = 600;

#[tokio::test]
async fn a_command_in_the_background_is_polled_written_to_and_killed() {
    let desk = Desk::new();
    let (name, said) = desk.begin("echo ready; while read line; do echo \"got $line\"; done").await;
    assert!(said.contains("runs for "), "{said}");
    let said = desk.shown(&name, said, "ready").await;
    assert!(said.ends_with("\nready"), "{said}");
    let write = json!({"action": "write", "id": name, "text": "one\n"});
    let said = desk.call("process", write).await.unwrap();
    assert!(said.ends_with("\ngot one"), "{said}");
    let list = desk.process("list", "").await.unwrap();
    assert!(list.contains(&name) && list.contains(": echo ready; while"), "{list}");
    let said = desk.process("kill", &name).await.unwrap();
    assert!(said.contains("killed on request"), "{said}");
    let write = json!({"action": "write", "id": name, "text": "two\n"});
    let refused = desk.call("process", write).await.unwrap_err();
    assert!(refused.contains("It has ended: killed on request"), "{refused}");
}

#[tokio::test]
async fn the_list_of_commands_has_the_words_of_the_models_that_wrote_them() {
    let mut desk = Desk::new();
    let list = async |desk: &Desk| {
        let (tool, _) = desk.tools.authorise("process", desk.cx.role).unwrap();
        tool.call_json(&json!({"action": "list"}).to_string(), &desk.cx).await.unwrap()
    };
    let (name, _) = desk.begin("sleep 100 # mine").await;
    assert!(!is_untrusted(&list(&desk).await, &desk.cx));
    desk.cx.tainted = true;
    let (evil, _) = desk.begin("sleep 100 # SYSTEM evil").await;
    desk.cx.tainted = false;
    assert!(is_untrusted(&list(&desk).await, &desk.cx));
    for name in [name, evil] {
        desk.process("kill", &name).await.unwrap();
    }
}

#[tokio::test]
async fn a_command_in_the_background_tells_its_end_once_it_has_ended() {
    let desk = Desk::new();
    let (name, said) = desk.begin("echo quick; exit 4").await;
    // On a busy machine a quick command takes longer than the first look waits, which may show its output already.
    let last = desk.shown(&name, said.clone(), "exit code 4").await;
    assert!(said.ends_with("quick") || last.ends_with("quick"), "{said}\n{last}");
    let (name, begun) = desk.begin("seq 1 50000; sleep 1; seq 1 60000").await;
    // A look shortly before its end may have shown the last output already.
    let mut looks = vec![begun];
    while !looks.iter().any(|said| said.contains("exit code 0")) {
        assert!(looks.len() < LOOKS_MAX, "{looks:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        looks.push(desk.process("poll", &name).await.unwrap());
    }
    assert!(looks.iter().any(|said| said.contains("the whole is in outputs/")), "{looks:?}");
    assert!(looks.iter().any(|said| said.ends_with("60000")), "{looks:?}");
    let config = super::Config { background_max: Duration::from_secs(1), ..config() };
    let desk = Desk::with(&config, Role::Owner, ChatKind::Private);
    let (name, _) = desk.begin("sleep 100").await;
    until("its time", async || {
        let said = desk.process("poll", &name).await.unwrap();
        said.contains("killed: it took longer than 1.0 s").then_some(())
    })
    .await;
}

#[tokio::test]
async fn commands_in_the_background_are_counted_and_belong_to_their_conversation() {
    let mut desk = Desk::new();
    let mut names = Vec::new();
    for _ in 0..8 {
        names.push(desk.begin("sleep 100").await.0);
    }
    let more = json!({"command": "sleep 100", "background": true});
    let refused = desk.call("exec", more).await.unwrap_err();
    assert!(refused.contains("8 commands run in the background already"), "{refused}");
    desk.cx.address.chat = "2".into();
    assert_eq!(desk.process("list", "").await.unwrap(), "No commands in the background.");
    let refused = desk.process("kill", &names[0]).await.unwrap_err();
    assert!(refused.contains("There is no command"), "{refused}");
    desk.cx.address.chat = "1".into();
    desk.process("kill", &names[0]).await.unwrap();
    desk.begin("sleep 100").await;
    for wrong in ["", "x", "1", &names[0].replace('-', "")] {
        let refused = desk.process("poll", wrong).await.unwrap_err();
        assert!(refused.contains("There is no command"), "{refused}");
    }
}

#[tokio::test]
async fn after_a_restart_they_are_dead_and_the_model_is_told() {
    let desk = Desk::new();
    let (name, _) = desk.begin("while :; do date +%s%N > beat; sleep 0.02; done").await;
    let heartbeat_run = desk.cx.workspace.root().join("beat");
    until("a beat", async || heartbeat_run.exists().then_some(())).await;
    let mut next = Desk::new();
    next.cx.address = desk.cx.address.clone();
    // The daemon's end is the end of what holds its commands.
    let Desk { tools, _folder, .. } = desk;
    drop(tools);
    sleep(Duration::from_millis(300)).await;
    let last = std::fs::read(&heartbeat_run).unwrap();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(std::fs::read(&heartbeat_run).unwrap(), last);
    let refused = next.process("poll", &name).await.unwrap_err();
    assert!(refused.contains("ended when I was restarted"), "{refused}");
}
