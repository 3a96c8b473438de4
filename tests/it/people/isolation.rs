//! What one person said, wrote or stored in private is nobody else's: a table of every store of text, for each pair
//! of roles, in private, in a group, on the machine, in the log and on the page.

#[cfg(feature = "gateway")]
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use peacrab::channels::intake::Intake;
use peacrab::config::Environment;
use peacrab::daemon::logging;
use peacrab::documents::DocumentReader;
use peacrab::gateway::Config;
use peacrab::people::Access;
use peacrab::secret::Redactor;
use peacrab::types::message::{MediaKind, MediaRef};
use serde_json::json;

use super::number;
use crate::support::documents::{docx, pdf};
use crate::support::fake_channel::{FakeChannel, FetchBehavior};
use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, STRANGER, USER};
use crate::support::script::{Reply, calls, says};

/// A person, with the private chat in which they say and store things, and another one in which a call of theirs waits.
struct Teller {
    role: &'static str,
    id: &'static str,
    chat: &'static str,
    waits_in: &'static str,
}

const TELLERS: [Teller; 4] = [
    Teller { role: "owner", id: OWNER, chat: "1", waits_in: "10" },
    Teller { role: "admin", id: OTHER_USER, chat: "9", waits_in: "90" },
    Teller { role: "user", id: USER, chat: "2", waits_in: "20" },
    Teller { role: "guest", id: STRANGER, chat: "66", waits_in: "" },
];

/// The stores of text, each with what is put there. `job` and `reminder` are shown to the owner, who pays for them.
const STORES: [&str; 21] = [
    "former", "said", "answer", "memory", "note", "file", "filename", "about", "fact", "download",
    "plan", "proposal", "job", "reminder", "aside", "waiting", "sent", "sentname", "pdf",
    "pdfname", "office",
];

/// The ends of the names of files that people send, which tell nothing.
const SENT_ENDINGS: [&str; 3] = ["letter.txt", "lease.pdf", "offer.docx"];

/// The stores of text that a guest has.
const OF_GUESTS: [&str; 2] = ["said", "answer"];

/// A word that stands in one store of one person.
fn secret(teller: &Teller, store: &str) -> String {
    format!("{}-{store}-marmalade", teller.role)
}

/// Commands that show stored texts.
const COMMANDS: [&str; 20] = [
    "/jobs",
    "/actions",
    "/actions 50",
    "/plan",
    "/proposals",
    "/usage",
    "/status",
    "/whoami",
    "/budget",
    "/subagents",
    "/memory",
    "/memory marmalade",
    "/approve",
    "/people",
    "/persona",
    "/skills",
    "/heartbeat",
    "/pair list",
    "/model",
    "/why",
];

/// The same on the machine.
const ON_THE_MACHINE: [&str; 20] = [
    "actions --limit 200",
    "actions --limit 200 --json",
    "people",
    "people --json",
    "usage",
    "usage --by person",
    "usage --by persona --csv",
    "usage --by model --json",
    "usage --by day",
    "usage --by job",
    "usage --by cause --csv",
    "budget",
    "cron list",
    "cron list --json",
    "memory",
    "memory --json",
    "status",
    "status --json",
    "pair list",
    "pair list --json",
];

/// The folder of a person's files.
fn folder_of(rig: &Rig, teller: &Teller) -> PathBuf {
    match teller.role {
        "owner" => rig.workspace(),
        _ => rig.path().join(rig.files_of(teller.id).root().unwrap()),
    }
}

/// The model writes a file after it has read a page, and waits for a yes.
fn waits(text: &str) -> [Reply; 2] {
    let page = ("read_file", json!({"path": "downloads/page.txt"}));
    [calls(&[page]), calls(&[("write_file", json!({"path": "waits.md", "content": text}))])]
}

/// A document that a person sends.
fn document(rig: &Rig, teller: &Teller, name: &str, bytes: Vec<u8>) -> MediaRef {
    let handle = format!("{}-{name}", teller.role);
    rig.home.has_file(&handle, [FetchBehavior::Bytes(bytes)]);
    let (kind, name) = (MediaKind::Document, Some(name.to_owned()));
    MediaRef { kind, name, mime: None, size: None, handle, fetched: None, quoted: false }
}

/// The paths of the files that people have sent, as each of them would name their own.
fn sent_files(rig: &Rig) -> Vec<String> {
    let mut found = Vec::new();
    for teller in TELLERS.iter().filter(|teller| teller.role != "guest") {
        let downloads = folder_of(rig, teller).parent().unwrap().join("downloads");
        for month in fs::read_dir(&downloads).unwrap().map(|entry| entry.unwrap().path()) {
            let files = fs::read_dir(&month).into_iter().flatten();
            let paths = files.map(|entry| entry.unwrap().path());
            let is_sent = |path: &str| SENT_ENDINGS.iter().any(|ending| path.ends_with(ending));
            let sent = paths.filter(|path| is_sent(path.to_str().unwrap()));
            let named = sent.map(|path| path.strip_prefix(&downloads).unwrap().to_owned());
            found.extend(named.map(|path| format!("downloads/{}", path.display())));
        }
    }
    assert_eq!(found.len(), 9, "one file of each form and person: {found:?}");
    found
}

async fn tell_everything(rig: &mut Rig, teller: &Teller) {
    let (id, chat) = (teller.id, teller.chat);
    let is_guest = teller.role == "guest";
    if !is_guest {
        rig.say_as(id, chat, &secret(teller, "former"));
        rig.next_message(chat).await;
        rig.say_as(id, chat, "/new");
        rig.next_message(chat).await;
    }
    rig.model.on(&secret(teller, "said"), [says(&secret(teller, "answer"))]);
    rig.say_as(id, chat, &secret(teller, "said"));
    rig.next_message(chat).await;
    if is_guest {
        return;
    }
    let kept = [
        ("remember", json!({"text": secret(teller, "memory")})),
        ("note", json!({"text": secret(teller, "note")})),
        ("write_file", json!({"path": "list.md", "content": secret(teller, "file")})),
        (
            "write_file",
            json!({"path": format!("{}.md", secret(teller, "filename")), "content": "x"}),
        ),
        ("plan", json!({"items": [{"text": secret(teller, "plan"), "state": "todo"}]})),
        ("propose", json!({"title": secret(teller, "proposal"), "body": "Shall I?"})),
    ];
    rig.model.on("keep it", [calls(&kept), says("Kept.")]);
    rig.say_as(id, chat, "keep it");
    assert!(rig.next_messages(chat, 2).await.contains(&"Kept.".to_owned()), "{}", teller.role);
    let own = folder_of(rig, teller);
    fs::write(own.join("USER.md"), secret(teller, "about")).unwrap();
    let downloads = own.parent().unwrap().join("downloads");
    fs::create_dir_all(&downloads).unwrap();
    fs::write(downloads.join("page.txt"), secret(teller, "download")).unwrap();
    let sent_name = format!("{}.txt", secret(teller, "sentname"));
    let pdf_name = format!("{}.pdf", secret(teller, "pdfname"));
    let media = vec![
        document(rig, teller, "letter.txt", secret(teller, "sent").into_bytes()),
        document(rig, teller, &sent_name, b"x".to_vec()),
        document(rig, teller, &pdf_name, pdf(&["x"])),
        document(rig, teller, "lease.pdf", pdf(&["A lease", &secret(teller, "pdf")])),
        document(rig, teller, "offer.docx", docx(&["An offer", &secret(teller, "office")])),
    ];
    rig.model.on("some files", [says("Thanks.")]);
    // Names of files are untrusted: the conversation in which all else is told stays clean.
    rig.say_changed(id, teller.waits_in, "some files", |message| message.body.media = media);
    assert_eq!(rig.next_message(teller.waits_in).await, "Thanks.", "{}", teller.role);
    for (command, begins) in [
        (format!("/jobs add every 2h | {}", secret(teller, "job")), "Created"),
        (format!("/jobs message 3h | {}", secret(teller, "reminder")), "Created"),
        (format!("/remember {}", secret(teller, "fact")), "I'll remember"),
        (format!("/btw {}", secret(teller, "aside")), "re: "),
    ] {
        rig.say_as(id, chat, &command);
        let answer = rig.next_message(chat).await;
        assert!(answer.starts_with(begins), "{command}: {answer}");
    }
    rig.model.on("the page", waits(&secret(teller, "waiting")));
    rig.say_as(id, teller.waits_in, "read the page");
    let question = rig.next_message(teller.waits_in).await;
    assert!(question.contains(&secret(teller, "waiting")), "{}: {question}", teller.role);
}

/// The numbers of all calls of others.
pub(super) fn calls_of_others(rig: &Rig, id: &str) -> Vec<String> {
    rig.query(&format!(
        "SELECT CAST(c.id AS TEXT) FROM calls c JOIN turns t ON t.id = c.turn
         WHERE json_extract(t.sender, '$.id') <> '{id}'"
    ))
}

/// The numbers of all that others are asked.
fn asked_of_others(rig: &Rig, id: &str) -> Vec<String> {
    rig.query(&format!(
        "SELECT CAST(a.id AS TEXT) FROM asks a JOIN turns t ON t.id = a.turn
         WHERE json_extract(t.sender, '$.id') <> '{id}'"
    ))
}

/// All that somebody comes to see somewhere: the whole prompt, the results of tools, the answers to commands.
async fn see_everything(rig: &mut Rig, id: &str, chat: &str, folders: &[String]) -> String {
    let others = calls_of_others(rig, id);
    let undo = |call: &String| ("undo", json!({"id": call.parse::<i64>().unwrap()}));
    let undoes: Vec<_> = others.iter().map(undo).collect();
    rig.model.on("undo it all", [calls(&undoes), says("Undone?")]);
    rig.say_as(id, chat, "undo it all");
    let mut seen = rig.next_message(chat).await;
    seen.push_str(&rig.model.last().whole());
    let mut looks = vec![
        ("list_files", json!({"depth": 8})),
        ("list_files", json!({"path": "downloads", "depth": 8})),
        ("list_files", json!({"path": "shared"})),
        ("memory_search", json!({"query": "marmalade"})),
        ("memory_search", json!({"query": "marmalade sent", "scope": "untrusted"})),
        ("memory_search", json!({"query": "marmalade pdf", "scope": "untrusted"})),
        ("memory_search", json!({"query": "marmalade office", "scope": "untrusted"})),
        ("list_actions", json!({"limit": 50})),
        ("list_proposals", json!({})),
        ("schedule", json!({"action": "list"})),
    ];
    let paths = ["list.md", "memory/MEMORY.md", "USER.md", "downloads/page.txt"].map(str::to_owned);
    let below = folders.iter().flat_map(|folder| {
        [
            "workspace/list.md",
            "workspace/memory/MEMORY.md",
            "workspace/USER.md",
            "downloads/page.txt",
        ]
        .map(|file| format!("people/{folder}/{file}"))
    });
    let climbs = ["../workspace/list.md", "downloads/../../list.md", "workspace/list.md"];
    let paths = paths.into_iter().chain(below).chain(climbs.map(str::to_owned));
    let sent = sent_files(rig);
    let of_others = sent
        .iter()
        .flat_map(|file| folders.iter().map(move |folder| format!("people/{folder}/{file}")));
    let paths: Vec<_> = paths.chain(sent.iter().cloned()).chain(of_others).collect();
    looks.extend(paths.into_iter().map(|path| ("read_file", json!({"path": path}))));
    looks.push(("list_files", json!({"path": "people"})));
    let search = |store: &&str| ("memory_search", json!({"query": format!("marmalade {store}")}));
    looks.extend(STORES.iter().map(search));
    rig.model.on("look around", [calls(&looks), says("Seen.")]);
    rig.say_as(id, chat, "look around");
    rig.next_message(chat).await;
    seen.push_str(&rig.model.last().whole());
    let of_calls = others.iter().flat_map(|it| [format!("/why {it}"), format!("/undo {it}")]);
    let asked = asked_of_others(rig, id);
    let of_asks = asked.iter().flat_map(|it| [format!("/approve {it}"), format!("/deny {it}")]);
    let numbered: Vec<_> = of_calls.chain(of_asks).collect();
    for command in COMMANDS.iter().copied().chain(numbered.iter().map(String::as_str)) {
        rig.say_as(id, chat, command);
        seen.push_str(&rig.next_message(chat).await);
        seen.push('\n');
    }
    seen
}

/// The output of a command on the machine.
#[expect(clippy::disallowed_methods, reason = "the program is this test's own child")]
async fn on_the_machine(rig: &Rig, words: &str) -> String {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_peacrab"));
    command.arg("--home").arg(rig.path()).args(words.split(' '));
    command.env_clear().env("HOME", rig.path()).kill_on_drop(true);
    let ended = command.output().await.unwrap();
    let printed = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(ended.status.success(), "{words}: {printed:?}");
    printed.concat()
}

/// Set in the process that logs.
const LOGS: &str = "PEACRAB_TEST_LOGS";

/// A household of all roles, whose members have said nothing yet.
async fn household(gateway: Option<Config>) -> Rig {
    let access = Access {
        owners: vec![OWNER.to_owned()],
        admins: vec![OTHER_USER.to_owned()],
        allow: vec![USER.to_owned(), "*".to_owned()],
        ..Access::default()
    };
    let documents = Some(DocumentReader::new(env!("CARGO_BIN_EXE_peacrab")));
    let intake = Intake { documents, ..Intake::default() };
    let mut parts = RigOptions { access, gateway, intake, ..RigOptions::default() };
    // Prompts are whole then, also those of guests.
    parts.agent.budgets.guest = Default::default();
    Rig::with(FakeChannel::with(true, 1_000_000), parts).await
}

/// One which has told everything.
async fn told() -> Rig {
    let mut rig = household(None).await;
    for teller in &TELLERS {
        tell_everything(&mut rig, teller).await;
    }
    rig
}

/// Ends the turns that wait for somebody.
async fn stop_waiting(rig: &mut Rig) {
    for teller in TELLERS.iter().filter(|teller| teller.role != "guest") {
        rig.say_as(teller.id, teller.waits_in, "/stop");
        rig.next_messages(teller.waits_in, 2).await;
    }
}

/// The body of the process that logs, which has a log of its own; does nothing where it was not asked for.
#[tokio::test]
async fn logs() {
    #[expect(clippy::disallowed_methods, reason = "how a child of this very binary is told")]
    let is_asked = std::env::var_os(LOGS).is_some();
    if is_asked {
        let format = logging::Format::Plain;
        let environment = Environment::of_process();
        logging::init(format, logging::FILTER, Redactor::default(), &environment).unwrap();
        told().await.stop().await;
    }
}

#[test]
fn nothing_of_it_stands_in_the_log() {
    #[expect(clippy::disallowed_methods, reason = "the process that logs is this test's own child")]
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "people::isolation::logs", "--nocapture"])
        .env(LOGS, "1")
        .output();
    let child = child.unwrap();
    let logged = String::from_utf8(child.stderr).unwrap();
    assert!(child.status.success() && logged.contains("A turn has ended"), "{logged}");
    assert_eq!(leaks(&[(("nobody", "log"), logged)].into()), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_person_keeps_in_private_is_theirs_alone() {
    let mut rig = told().await;
    let folders: Vec<String> = TELLERS.iter().map(|it| number(&rig, it.id)).collect();
    let mut seen = BTreeMap::new();
    for words in ON_THE_MACHINE {
        let shown: &mut String = seen.entry(("owner", "machine")).or_default();
        shown.push_str(&on_the_machine(&rig, words).await);
    }
    for call in calls_of_others(&rig, OWNER).iter().rev().take(4) {
        let shown = on_the_machine(&rig, &format!("why {call}")).await;
        seen.entry(("owner", "machine")).or_default().push_str(&shown);
    }
    for reader in &TELLERS {
        for chat in [reader.chat, "-1"] {
            let all = see_everything(&mut rig, reader.id, chat, &folders).await;
            seen.insert((reader.role, chat), all);
        }
    }
    assert_eq!(leaks(&seen), Vec::<String>::new());
    // The same looks show each person their own: nothing is hidden from everybody.
    for teller in &TELLERS {
        let own = &seen[&(teller.role, teller.chat)];
        let has = |store: &&&str| teller.role != "guest" || OF_GUESTS.contains(*store);
        for store in STORES.iter().filter(has) {
            assert!(own.contains(&secret(teller, store)), "{} misses {store}: {own}", teller.role);
        }
    }
    stop_waiting(&mut rig).await;
    rig.finish().await;
}

/// Words that somebody sees though they are others' private ones.
fn leaks(seen: &BTreeMap<(&str, &str), String>) -> Vec<String> {
    let mut leaks = Vec::new();
    for ((reader, place), all) in seen {
        for teller in &TELLERS {
            let is_own = *reader == teller.role && [teller.chat, "machine", "page"].contains(place);
            // The owner pays for all jobs, and sees and ends them.
            let pays = *reader == "owner" && ["1", "machine", "page"].contains(place);
            let is_shown = |store: &str| is_own || (pays && ["job", "reminder"].contains(&store));
            for store in STORES.iter().filter(|store| !is_shown(store)) {
                if all.contains(&secret(teller, store)) {
                    leaks.push(format!("{reader} in {place} sees {store} of {}", teller.role));
                }
            }
        }
    }
    leaks
}

#[tokio::test]
async fn a_role_or_an_account_that_changes_takes_no_memory_along() {
    let mut rig = Rig::of(super::open_to_all()).await;
    rig.ask("1", "hello").await;
    let kept = |text: &str| calls(&[("remember", json!({"text": text}))]);
    rig.model.on("keep it", [kept("the user's apricots"), says("Kept.")]);
    rig.say_as(USER, "2", "keep it");
    rig.next_message("2").await;
    rig.say_as(USER, "2", "/new");
    rig.next_message("2").await;
    rig.say_as(USER, "2", "what do you know?");
    rig.next_message("2").await;
    assert!(rig.model.last().whole().contains("the user's apricots"));
    // Changes are told beside the next message, as to the owner.
    let file = rig.path().join(rig.files_of(USER).root().unwrap()).join("memory/MEMORY.md");
    fs::write(&file, "- the user's cherries\n").unwrap();
    rig.say_as(USER, "2", "and now?");
    rig.next_message("2").await;
    let told = rig.model.last().transcript();
    assert!(told.contains("- added: the user's cherries"), "{told}");
    // Whoever is removed and comes back finds nothing of it, in the prompt of the same chat.
    let them = number(&rig, USER);
    rig.execute(&format!("DELETE FROM accounts WHERE person = {}", &them[1..]));
    rig.say_as(USER, "2", "/new");
    rig.next_message("2").await;
    rig.say_as(USER, "2", "what do you know?");
    rig.next_message("2").await;
    let whole = rig.model.last().whole();
    assert!(!whole.contains("apricots") && !whole.contains("cherries"), "{whole}");
    rig.finish().await;
}
