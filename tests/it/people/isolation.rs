//! What one person said, wrote or stored in private is nobody else's: a table of every store of text, for each pair
//! of roles, in private and in a group.

use std::collections::BTreeMap;
use std::fs;

use peacrab::people::Access;
use serde_json::json;

use super::number;
use crate::support::rig::{OTHER_USER, OWNER, Parts, Rig, STRANGER, USER};
use crate::support::script::{calls, says};

/// A person, with the private chat in which they say and store things.
struct Teller {
    role: &'static str,
    id: &'static str,
    chat: &'static str,
}

const TELLERS: [Teller; 4] = [
    Teller { role: "owner", id: OWNER, chat: "1" },
    Teller { role: "admin", id: OTHER_USER, chat: "9" },
    Teller { role: "user", id: USER, chat: "2" },
    Teller { role: "guest", id: STRANGER, chat: "66" },
];

/// The stores of text, each with what is put there.
const STORES: [&str; 6] = ["said", "memory", "note", "file", "about", "job"];

/// A word that stands in one store of one person.
fn secret(teller: &Teller, store: &str) -> String {
    format!("{}-{store}-marmalade", teller.role)
}

/// Commands that show stored texts.
const COMMANDS: [&str; 9] = [
    "/jobs",
    "/actions",
    "/plan",
    "/proposals",
    "/usage",
    "/status",
    "/whoami",
    "/budget",
    "/subagents",
];

async fn tell_everything(rig: &mut Rig, teller: &Teller) {
    let (id, chat) = (teller.id, teller.chat);
    rig.say_as(id, chat, &secret(teller, "said"));
    rig.hear(chat).await;
    if teller.role == "guest" {
        return;
    }
    let kept = [
        ("remember", json!({"text": secret(teller, "memory")})),
        ("note", json!({"text": secret(teller, "note")})),
        ("write_file", json!({"path": "list.md", "content": secret(teller, "file")})),
    ];
    rig.model.on("keep it", [calls(&kept), says("Kept.")]);
    rig.say_as(id, chat, "keep it");
    assert_eq!(rig.hear(chat).await, "Kept.", "{}", teller.role);
    let own = match teller.role {
        "owner" => rig.workspace(),
        _ => rig.path().join(rig.files_of(id).root().unwrap()),
    };
    fs::write(own.join("USER.md"), secret(teller, "about")).unwrap();
    rig.say_as(id, chat, &format!("/jobs add every 2h | {}", secret(teller, "job")));
    let created = rig.hear(chat).await;
    assert!(created.starts_with("Created"), "{created}");
}

/// All that somebody comes to see somewhere: the whole prompt, the results of tools, the answers to commands.
async fn see_everything(rig: &mut Rig, id: &str, chat: &str, folders: &[String]) -> String {
    let mut looks = vec![
        ("list_files", json!({"depth": 8})),
        ("memory_search", json!({"query": "marmalade"})),
        ("list_actions", json!({})),
        ("list_proposals", json!({})),
        ("schedule", json!({"action": "list"})),
    ];
    let paths = ["list.md", "memory/MEMORY.md", "USER.md"].map(str::to_owned);
    let below = folders.iter().flat_map(|folder| {
        ["workspace/list.md", "workspace/memory/MEMORY.md", "workspace/USER.md"]
            .map(|file| format!("people/{folder}/{file}"))
    });
    let climbs = ["../workspace/list.md", "downloads/../../list.md", "workspace/list.md"];
    let paths = paths.into_iter().chain(below).chain(climbs.map(str::to_owned));
    looks.extend(paths.map(|path| ("read_file", json!({"path": path}))));
    looks.push(("list_files", json!({"path": "people"})));
    rig.model.on("look around", [calls(&looks), says("Seen.")]);
    rig.say_as(id, chat, "look around");
    rig.hear(chat).await;
    let mut seen = rig.model.last().whole();
    for command in COMMANDS {
        rig.say_as(id, chat, command);
        seen.push_str(&rig.hear(chat).await);
        seen.push('\n');
    }
    seen
}

#[tokio::test]
async fn what_a_person_keeps_in_private_is_theirs_alone() {
    let access = Access {
        owners: vec![OWNER.to_owned()],
        admins: vec![OTHER_USER.to_owned()],
        allow: vec![USER.to_owned(), "*".to_owned()],
        ..Access::default()
    };
    let mut parts = Parts { access, ..Parts::default() };
    // Prompts are whole then, also those of guests.
    parts.agent.budgets.guest = Default::default();
    let mut rig = Rig::of(parts).await;
    for teller in &TELLERS {
        tell_everything(&mut rig, teller).await;
    }
    let folders: Vec<String> = TELLERS.iter().map(|it| number(&rig, it.id)).collect();
    let mut seen = BTreeMap::new();
    for reader in &TELLERS {
        for chat in [reader.chat, "-1"] {
            let all = see_everything(&mut rig, reader.id, chat, &folders).await;
            seen.insert((reader.role, chat), all);
        }
    }
    let mut leaks = Vec::new();
    for ((reader, chat), all) in &seen {
        for teller in &TELLERS {
            let is_own = *reader == teller.role && *chat == teller.chat;
            // The owner pays for all jobs, and sees and ends them.
            let is_shown = |store: &str| is_own || (*reader, *chat, store) == ("owner", "1", "job");
            for store in STORES.iter().filter(|store| !is_shown(store)) {
                if all.contains(&secret(teller, store)) {
                    leaks.push(format!("{reader} in {chat} sees {store} of {}", teller.role));
                }
            }
        }
    }
    assert_eq!(leaks, Vec::<String>::new());
    // The same looks show each person their own: nothing is hidden from everybody.
    for teller in &TELLERS {
        let own = &seen[&(teller.role, teller.chat)];
        for store in STORES.iter().filter(|store| teller.role != "guest" || **store == "said") {
            assert!(own.contains(&secret(teller, store)), "{} misses {store}: {own}", teller.role);
        }
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_role_or_an_account_that_changes_takes_no_memory_along() {
    let mut rig = Rig::of(super::open_to_all()).await;
    rig.ask("1", "hello").await;
    let kept = |text: &str| calls(&[("remember", json!({"text": text}))]);
    rig.model.on("keep it", [kept("the user's apricots"), says("Kept.")]);
    rig.say_as(USER, "2", "keep it");
    rig.hear("2").await;
    rig.say_as(USER, "2", "/new");
    rig.hear("2").await;
    rig.say_as(USER, "2", "what do you know?");
    rig.hear("2").await;
    assert!(rig.model.last().whole().contains("the user's apricots"));
    // Changes are told beside the next message, as to the owner.
    let file = rig.path().join(rig.files_of(USER).root().unwrap()).join("memory/MEMORY.md");
    fs::write(&file, "- the user's cherries\n").unwrap();
    rig.say_as(USER, "2", "and now?");
    rig.hear("2").await;
    let told = rig.model.last().transcript();
    assert!(told.contains("- added: the user's cherries"), "{told}");
    // Whoever is removed and comes back finds nothing of it, in the prompt of the same chat.
    let them = number(&rig, USER);
    rig.change(&format!("DELETE FROM accounts WHERE person = {}", &them[1..]));
    rig.say_as(USER, "2", "/new");
    rig.hear("2").await;
    rig.say_as(USER, "2", "what do you know?");
    rig.hear("2").await;
    let whole = rig.model.last().whole();
    assert!(!whole.contains("apricots") && !whole.contains("cherries"), "{whole}");
    rig.finish().await;
}
