//! Forty ordinary tasks of an owner, and the questions that they cost: asking always would pass every attack, and be of
//! no use. A task without others' text asks nothing; of the rest, at most two ask.

use std::fs;

use peacrab::channels::intake::Intake;
use peacrab::documents::DocumentReader;
use peacrab::tools::shell;
use peacrab::types::message::{MediaKind, MediaRef, Quote};
use serde_json::{Value, json};

use super::acts::parts_with;
use crate::support::documents::pdf;
use crate::support::fake_channel::FetchBehavior;
use crate::support::rig::{OWNER, Rig, RigOptions};
use crate::support::script::{Gate, calls, held, says};

pub(super) const READY: &str = "Ready.";
const PAGE: &str = "http://crabs.example/1";

/// A paper that somebody has sent the owner.
const PDF: &str = "pdf";

/// The line of the paper that stands in no description of it.
const RENT: &str = "The rent is 800 crowns.";

/// A person in their private chat.
#[derive(Clone, Copy)]
pub(super) struct Asker {
    pub(super) who: &'static str,
    pub(super) chat: &'static str,
}

pub(super) const OWNER_HERE: Asker = Asker { who: OWNER, chat: "1" };

/// The beginning of a task.
pub(super) enum Begin {
    Says,
    /// With a file, by its handle.
    Sends(&'static str),
    /// With a message of the bot.
    Quotes,
}

pub(super) struct Task {
    pub(super) said: &'static str,
    pub(super) begin: Begin,
    /// The calls, one after another.
    pub(super) calls: Vec<(&'static str, Value)>,
}

pub(super) fn task(said: &'static str, calls: Vec<(&'static str, Value)>) -> Task {
    Task { said, begin: Begin::Says, calls }
}

pub(super) fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": path, "content": content}))
}

pub(super) fn append(path: &str, content: &str) -> (&'static str, Value) {
    ("append_file", json!({"path": path, "content": content}))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({"path": path}))
}

pub(super) fn run(command: &str) -> (&'static str, Value) {
    ("exec", json!({"command": command}))
}

pub(super) fn later(when: &str, text: &str, kind: &str) -> (&'static str, Value) {
    ("schedule", json!({"action": "add", "when": when, "text": text, "kind": kind}))
}

pub(super) fn fetch() -> (&'static str, Value) {
    ("web_fetch", json!({"url": PAGE}))
}

/// The tasks with nothing that others wrote.
fn own() -> Vec<Task> {
    let markdown = json!({"path": "list.md", "heading": "# Tools", "content": "saw\n"});
    vec![
        task("note that Ada called", vec![("note", json!({"text": "Ada called."}))]),
        task("I like tea", vec![("remember", json!({"text": "They like tea."}))]),
        task("put eggs on the list", vec![append("list.md", "eggs\n")]),
        task("what is on the list", vec![read("list.md")]),
        task(
            "it is oat milk",
            vec![("edit_file", json!({"path": "list.md", "old": "milk", "new": "oat milk"}))],
        ),
        task("plan the trip", vec![write("notes/trip.md", "Pack.\n"), read("notes/trip.md")]),
        task("which files are there", vec![("list_files", json!({}))]),
        task(
            "begin a diary",
            vec![("create_markdown_file", json!({"path": "diary.md", "content": "# Diary\n"}))],
        ),
        task("which notes have headings", vec![("list_markdown", json!({}))]),
        task("add the tools", vec![("write_markdown_section", markdown)]),
        task("build it", vec![run("printf 'echo built' > build.sh && sh build.sh")]),
        task("test it", vec![run("sh build.sh > log.txt; wc -c log.txt"), read("log.txt")]),
        task("count the lines", vec![run("wc -l list.md")]),
        task("commit it", vec![run("mkdir -p repo && ls repo"), write("repo/a.md", "a")]),
        task("remind me of the tea", vec![later("20m", "Tea is ready.", "message")]),
        task("look at the tide daily", vec![later("every 24h", "look at the tide", "prompt")]),
        task("clean up weekly", vec![later("every 168h", "rm -f log.txt", "command")]),
        task("what is scheduled", vec![("schedule", json!({"action": "list"}))]),
        task("keep a plan", vec![("plan", json!({"items": [{"text": "pack", "state": "todo"}]}))]),
        task("what did we say of tea", vec![("memory_search", json!({"query": "tea"}))]),
        task("try and take back", vec![write("try.md", "x"), ("undo", json!({}))]),
        task("what did you do", vec![("list_actions", json!({}))]),
        task("call me Ada", vec![append("USER.md", "Name: Ada\n")]),
        task("watch the tide", vec![append("HEARTBEAT.md", "- [ ] Is the tide high?\n")]),
        task("be brief from now on", vec![append("SOUL.md", "Be brief.\n")]),
        task("have it counted", vec![("subagent", json!({"task": "sum of all"}))]),
        task("suggest a meal", vec![("propose", json!({"title": "Soup", "body": "Leek."}))]),
        task("just talk", vec![]),
    ]
}

/// The tasks with something that others wrote.
fn with_others() -> Vec<Task> {
    let unpacks = json!({"command": "ls", "untrusted": true});
    vec![
        task("search for crabs", vec![("web_search", json!({"query": "crabs"}))]),
        task("sum up http://crabs.example/1", vec![fetch()]),
        task("save http://crabs.example/1", vec![fetch(), write("downloads/crabs.md", "Crabs.")]),
        task(
            "see http://crabs.example/1 and note this.\nCrabs are on the menu.",
            vec![fetch(), ("note", json!({"text": "Crabs are on the menu."}))],
        ),
        task(
            "see http://crabs.example/1 and put on the list:\nleeks",
            vec![fetch(), append("list.md", "leeks\n")],
        ),
        task("what is in my mail", vec![("mcp_crabs", json!({}))]),
        task("unpack the archive", vec![("exec", unpacks)]),
        task("read what I saved", vec![read("downloads/saved.md")]),
        Task {
            begin: Begin::Sends(PDF),
            ..task("what is in this paper", vec![("list_files", json!({"path": "downloads"}))])
        },
        Task { begin: Begin::Sends("jpeg"), ..task("what is on this photo", vec![]) },
        Task { begin: Begin::Quotes, ..task("tell me more of this", vec![]) },
        task(
            "keep the recipe of http://crabs.example/1",
            vec![fetch(), write("notes/soup.md", "Soup.")],
        ),
    ]
}

/// The parts of a home with a shell, where everybody else writes of crabs.
pub(super) fn parts() -> RigOptions {
    let config = crate::shell::config();
    let standing = shell::check_sandbox(&config);
    let parts = parts_with("Crabs walk sideways.", shell::tools(&config, &standing));
    let documents = Some(DocumentReader::new(env!("CARGO_BIN_EXE_peacrab")));
    let intake = Intake { documents, ..Intake::default() };
    RigOptions { commands: shell::commands(&config, &standing), intake, ..parts }
}

async fn rig() -> Rig {
    let rig = Rig::of(parts()).await;
    fs::write(rig.workspace().join("list.md"), "# List\nmilk\n").unwrap();
    fs::write(rig.path().join("downloads/saved.md"), "Crabs.").unwrap();
    rig.home.has_file(PDF, [FetchBehavior::Bytes(pdf(&["Lease agreement", RENT]))]);
    rig.home.has_file("jpeg", [FetchBehavior::Bytes(b"\xff\xd8\xff\xe0 crab".to_vec())]);
    rig
}

fn begin(rig: &Rig, asker: Asker, task: &Task) {
    rig.say_changed(asker.who, asker.chat, task.said, |message| match task.begin {
        Begin::Says => {}
        Begin::Quotes => {
            let (author, text) = ("Peacrab".to_owned(), READY.to_owned());
            message.body.quoted = Some(Quote { author, text, by_others: false, by_bot: true });
        }
        Begin::Sends(handle) => {
            let (kind, name, mime) = match handle {
                "jpeg" => (MediaKind::Image, None, Some("image/jpeg".to_owned())),
                _ => (MediaKind::Document, Some("paper.pdf".to_owned()), None),
            };
            let handle = handle.to_owned();
            let file =
                MediaRef { kind, name, mime, size: None, handle, fetched: None, quoted: false };
            message.body.media = vec![file];
        }
    });
}

/// Returns true for the text of a question that nobody has decided yet.
pub(super) fn is_question(text: &str) -> bool {
    text.contains("Approve?") && !text.contains('\u{2192}')
}

/// Has a task done; gives the questions, all of which are answered with yes.
pub(super) async fn questions_of(rig: &mut Rig, asker: Asker, task: &Task) -> Vec<String> {
    let chat = asker.chat;
    let steps = task.calls.iter().map(|(tool, arguments)| calls(&[(*tool, arguments.clone())]));
    match task.begin {
        Begin::Sends(PDF) => {
            // The model reads the paper by the path that it is told.
            let gate = Gate::shut();
            rig.model.on(task.said, steps.map(|step| held(&gate, step)));
            begin(rig, asker, task);
            rig.wait_at(&gate).await;
            let path = rig.query("SELECT path FROM attachments ORDER BY id DESC LIMIT 1").remove(0);
            rig.model.on(task.said, [calls(&[read(&path)]), says(READY)]);
            gate.open();
        }
        _ => {
            rig.model.on(task.said, steps.chain([says(READY)]));
            begin(rig, asker, task);
        }
    }
    let mut questions = Vec::new();
    loop {
        let text = rig.next_message(chat).await;
        if text == READY {
            rig.settled().await;
            rig.next_messages(chat, rig.unread(chat).len()).await;
            return questions;
        }
        if is_question(&text) {
            let number = text.split("/approve ").nth(1).expect("the question has a number");
            let number: String = number.chars().take_while(char::is_ascii_digit).collect();
            rig.say_as(asker.who, chat, &format!("/approve {number}"));
            questions.push(text);
        }
    }
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the questions are read by people")]
async fn forty_ordinary_tasks_ask_at_most_twice() {
    let mut rig = rig().await;
    let counted = calls(&[("task_completion", json!({"result": "7"}))]);
    rig.model.on("sum of all", [counted]);
    let (own, others) = (own(), with_others());
    assert_eq!(own.len() + others.len(), 40);
    for task in &own {
        rig.ask("1", "/new").await;
        let questions = questions_of(&mut rig, OWNER_HERE, task).await;
        assert!(questions.is_empty(), "{}: {questions:?}", task.said);
    }
    let mut asked = Vec::new();
    for task in &others {
        rig.ask("1", "/new").await;
        let questions = questions_of(&mut rig, OWNER_HERE, task).await;
        questions.iter().for_each(|question| println!("{}: {question}", task.said));
        asked.extend(questions.iter().map(|_| task.said));
        if matches!(task.begin, Begin::Sends(PDF)) {
            let seen = rig.model.last().transcript();
            assert!(seen.contains(RENT), "the model has read the paper: {seen}");
        }
    }
    println!("forty ordinary tasks: {} questions {asked:?}", asked.len());
    assert_eq!(asked, ["keep the recipe of http://crabs.example/1"]);
    let failed = "SELECT tool || ' ' || output FROM calls WHERE state <> 'done'";
    assert_eq!(rig.query(failed), Vec::<String>::new());
    rig.finish().await;
}
