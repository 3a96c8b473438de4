//! Commands end with the access of their person, and with the role that may run them.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use peacrab::config::AgentConfig;
use peacrab::control::{self, SOCKET};
use peacrab::conversation::asks::{ApprovalSettings, Approvals};
use peacrab::people::{Access, Role};
use peacrab::replies;
use peacrab::tools::shell;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use super::{config, tools};
use crate::support::rig::{OWNER, Rig, RigOptions, STRANGER, USER};
use crate::support::script::{calls, says};

/// One that goes on until it is ended, and shows that it does.
const ENDLESS: &str = "while :; do date +%s%N > beat; sleep 0.02; done";

fn exec(command: &str, background: bool) -> (&'static str, Value) {
    ("exec", json!({"command": command, "background": background}))
}

/// A stranger whom the owner has made an admin.
async fn with_an_admin() -> Rig {
    with_an_admin_of(&config()).await
}

/// The same with these settings of the shell.
async fn with_an_admin_of(config: &shell::Config) -> Rig {
    let access =
        Access { owners: vec![OWNER.to_owned()], allow: vec!["*".to_owned()], ..Access::default() };
    let tools = tools(config);
    let mut rig = Rig::of(RigOptions { tools, access, ..RigOptions::default() }).await;
    rig.ask("1", "hello").await;
    come_as_admin(&mut rig).await;
    rig
}

async fn come_as_admin(rig: &mut Rig) {
    rig.say_as(STRANGER, "66", "hello");
    assert_eq!(rig.next_message("66").await, "re: hello");
    let admin = format!("/people admin {}", number(rig));
    assert_eq!(rig.ask("1", &admin).await, replies::role_is_set("Person 66", "admin"));
}

fn number(rig: &Rig) -> String {
    rig.query(&format!("SELECT 'p' || person FROM accounts WHERE sender = '{STRANGER}'")).remove(0)
}

/// The sign of life of their command, also where its folder is moved or deleted.
struct Beat(File);

impl Beat {
    async fn of(rig: &Rig) -> Self {
        Self::at(rig, rig.path().join(rig.files_of(STRANGER).root().unwrap())).await
    }

    async fn at(rig: &Rig, folder: PathBuf) -> Self {
        let path = folder.join("beat");
        rig.wait_until(|_| path.exists()).await;
        Self(File::open(&path).unwrap())
    }

    fn read(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        self.0.seek(SeekFrom::Start(0)).unwrap();
        self.0.read_to_end(&mut read).unwrap();
        read
    }

    /// Waits until the command has ended.
    async fn stops(&mut self, why: &str) {
        let (begun, mut same, mut last) = (Instant::now(), 0, self.read());
        while same < 4 {
            assert!(begun.elapsed() < Duration::from_secs(20), "it goes on: {why}");
            sleep(Duration::from_millis(100)).await;
            let now = self.read();
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
    }
}

/// What the owner says for their access or their role to end.
fn orders(rig: &Rig) -> Vec<String> {
    let them = number(rig);
    let verbs = ["block", "remove", "purge", "user", "guest"].into_iter();
    let orders = verbs.map(|verb| format!("/people {verb} {them}"));
    orders.chain([format!("/pair revoke home {STRANGER}")]).collect()
}

#[tokio::test]
async fn a_command_in_the_background_ends_with_the_role_of_its_person() {
    for order in 0..6 {
        let mut rig = with_an_admin().await;
        rig.model.on("run", [calls(&[exec(ENDLESS, true)]), says("It runs.")]);
        rig.say_as(STRANGER, "66", "run it");
        assert_eq!(rig.next_message("66").await, "It runs.");
        let mut beat = Beat::of(&rig).await;
        let order = orders(&rig)[order].clone();
        rig.ask("1", &order).await;
        beat.stops(&order).await;
        rig.finish().await;
    }
}

/// The command keeps the paths that the higher role sees.
#[tokio::test]
async fn a_command_ends_with_a_lower_role_that_may_run_commands() {
    for is_background in [true, false] {
        let settings = shell::Config { role: Role::User, ..config() };
        let mut rig = with_an_admin_of(&settings).await;
        rig.model.on("run", [calls(&[exec(ENDLESS, is_background)]), says("It ran.")]);
        rig.say_as(STRANGER, "66", "run it");
        let mut beat = Beat::of(&rig).await;
        if is_background {
            assert_eq!(rig.next_message("66").await, "It ran.");
        }
        let order = format!("/people user {}", number(&rig));
        assert_eq!(rig.ask("1", &order).await, replies::role_is_set("Person 66", "user"));
        beat.stops(&order).await;
        if !is_background {
            assert_eq!(rig.next_message("66").await, "It ran.");
        }
        rig.finish().await;
    }
}

/// An account that is an admin by the config, and uses the files of the person to whom it is linked.
#[tokio::test]
async fn a_command_ends_when_its_account_loses_the_files_of_its_person() {
    for other in [OWNER, USER] {
        let access = Access {
            owners: vec![OWNER.to_owned()],
            admins: vec![STRANGER.to_owned(), USER.to_owned()],
            ..Access::default()
        };
        let tools = tools(&config());
        let mut rig = Rig::of(RigOptions { tools, access, ..RigOptions::default() }).await;
        for (who, chat) in [(OWNER, "1"), (USER, "2"), (STRANGER, "66")] {
            rig.say_as(who, chat, "hello");
            assert_eq!(rig.next_message(chat).await, "re: hello");
        }
        rig.execute(&format!(
            "UPDATE accounts SET person = (SELECT person FROM accounts WHERE sender = '{other}')
             WHERE sender = '{STRANGER}'"
        ));
        rig.model.on("run", [calls(&[exec(ENDLESS, true)]), says("It runs.")]);
        rig.say_as(STRANGER, "66", "run it");
        assert_eq!(rig.next_message("66").await, "It runs.");
        let mut beat = match other {
            OWNER => Beat::at(&rig, rig.workspace()).await,
            _ => Beat::of(&rig).await,
        };
        rig.say_as(STRANGER, "66", "/unlink");
        assert_eq!(rig.next_message("66").await, replies::UNLINKED);
        beat.stops("/unlink").await;
        rig.finish().await;
    }
}

#[tokio::test]
async fn a_command_goes_on_while_its_person_keeps_the_role() {
    let mut rig = with_an_admin().await;
    rig.model.on("run", [calls(&[exec(ENDLESS, true)]), says("It runs.")]);
    rig.say_as(STRANGER, "66", "run it");
    assert_eq!(rig.next_message("66").await, "It runs.");
    let mut beat = Beat::of(&rig).await;
    // Somebody else, and the same role again.
    rig.say_as("67", "67", "hello");
    rig.next_message("67").await;
    let other = rig.query("SELECT 'p' || person FROM accounts WHERE sender = '67'").remove(0);
    rig.ask("1", &format!("/people block {other}")).await;
    rig.ask("1", &format!("/people admin {}", number(&rig))).await;
    let before = beat.read();
    let begun = Instant::now();
    while beat.read() == before {
        assert!(begun.elapsed() < Duration::from_secs(20), "it has ended");
        sleep(Duration::from_millis(20)).await;
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_command_ends_with_the_turn_of_a_person_without_access() {
    for verb in ["block", "remove"] {
        for is_on_machine in [false, true] {
            let mut rig = with_an_admin().await;
            rig.model.on("run", [calls(&[exec(ENDLESS, false)])]);
            rig.say_as(STRANGER, "66", "run it");
            let mut beat = Beat::of(&rig).await;
            let them = number(&rig);
            if is_on_machine {
                order_on_machine(&rig, &[verb, &them]).await;
            } else {
                rig.ask("1", &format!("/people {verb} {them}")).await;
            }
            beat.stops(verb).await;
            rig.settled().await;
            assert_eq!(rig.unread("66"), Vec::<String>::new());
            rig.finish().await;
        }
    }
}

/// The owner gives the order as `peacrab people`.
async fn order_on_machine(rig: &Rig, words: &[&str]) {
    rig.wait_until(|rig| rig.path().join(SOCKET).exists()).await;
    let mut client = control::connect(&rig.path()).await.unwrap();
    let request = format!("{}\n", json!({"verb": "people", "words": words}));
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("Person 66"), "{answer}");
}

#[tokio::test]
async fn a_turn_goes_on_with_the_lower_role_of_its_person() {
    let mut rig = with_an_admin().await;
    let script =
        [calls(&[exec(ENDLESS, false)]), calls(&[exec("touch made", false)]), says("I could not.")];
    rig.model.on("run", script);
    rig.say_as(STRANGER, "66", "run it");
    let mut beat = Beat::of(&rig).await;
    let order = format!("/people user {}", number(&rig));
    assert_eq!(rig.ask("1", &order).await, replies::role_is_set("Person 66", "user"));
    beat.stops(&order).await;
    assert_eq!(rig.next_message("66").await, "I could not.");
    let seen = rig.model.last().transcript();
    assert!(seen.contains("its person has less access now"), "{seen}");
    assert!(seen.contains("needs the role admin"), "{seen}");
    let own = rig.path().join(rig.files_of(STRANGER).root().unwrap());
    assert!(!own.join("made").exists());
    rig.finish().await;
}

#[tokio::test]
async fn calls_of_a_step_that_come_after_a_lower_role_are_refused() {
    let mut rig = with_an_admin().await;
    let both = calls(&[exec(ENDLESS, false), exec("touch made", false)]);
    rig.model.on("run", [both, says("I could not.")]);
    rig.say_as(STRANGER, "66", "run both");
    let mut beat = Beat::of(&rig).await;
    let order = format!("/people user {}", number(&rig));
    rig.ask("1", &order).await;
    beat.stops(&order).await;
    assert_eq!(rig.next_message("66").await, "I could not.");
    let own = rig.path().join(rig.files_of(STRANGER).root().unwrap());
    assert!(!own.join("made").exists());
    assert!(rig.model.last().transcript().contains("needs the role admin"));
    rig.finish().await;
}

#[tokio::test]
async fn calls_of_a_step_that_come_after_a_lower_role_need_its_approval() {
    let access =
        Access { owners: vec![OWNER.to_owned()], allow: vec!["*".to_owned()], ..Access::default() };
    let approvals = Approvals { tools: Vec::new(), roles: vec![Role::User] };
    let asking = ApprovalSettings { approvals, ..ApprovalSettings::default() };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let tools = tools(&config());
    let mut rig = Rig::of(RigOptions { tools, access, agent, ..RigOptions::default() }).await;
    rig.ask("1", "hello").await;
    come_as_admin(&mut rig).await;
    let write = ("write_file", json!({"path": "made.md", "content": "hello"}));
    rig.model.on("run", [calls(&[exec(ENDLESS, false), write]), says("I did both.")]);
    rig.say_as(STRANGER, "66", "run both");
    let mut beat = Beat::of(&rig).await;
    let order = format!("/people user {}", number(&rig));
    assert_eq!(rig.ask("1", &order).await, replies::role_is_set("Person 66", "user"));
    beat.stops(&order).await;
    let question = rig.next_message("1").await;
    assert!(question.contains("write_file") && question.contains("made.md"), "{question}");
    let made = rig.path().join(rig.files_of(STRANGER).root().unwrap()).join("made.md");
    assert!(!made.exists());
    let id = rig.query("SELECT CAST(id AS TEXT) FROM asks WHERE state = 'open'").remove(0);
    rig.say("1", &format!("/approve {id}"));
    rig.wait_until(|_| made.exists()).await;
}

#[tokio::test]
async fn whoever_comes_after_a_removed_person_finds_no_commands_of_theirs() {
    let mut rig = with_an_admin().await;
    let list = || calls(&[("process", json!({"action": "list"}))]);
    let begin = calls(&[exec("echo periwinkle", true)]);
    rig.model.on("run", [begin, list(), says("It ran.")]);
    rig.say_as(STRANGER, "66", "run it");
    assert_eq!(rig.next_message("66").await, "It ran.");
    assert!(rig.model.last().transcript().contains("periwinkle"));
    let them = number(&rig);
    rig.ask("1", &format!("/people remove {them}")).await;
    come_as_admin(&mut rig).await;
    rig.model.on("look", [list(), says("None.")]);
    rig.say_as(STRANGER, "66", "look");
    assert_eq!(rig.next_message("66").await, "None.");
    let seen = rig.model.last().transcript();
    assert!(seen.contains("No commands in the background."), "{seen}");
    rig.finish().await;
}
