//! A home of a former version, in which turns that had read a page, and other people, wrote into the owner's workspace
//! unasked: these files are untrusted, jobs that name them pause, and the owner decides once.

use std::fs;

use peacrab::config::AgentConfig;
use peacrab::conversation::asks::OnUntrusted;
use peacrab::replies;
use peacrab::workspace::Workspace;
use peacrab::workspace::file_reads::FileReads;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::former_store::go_back;
use crate::support::rig::{Rig, RigOptions, USER};
use crate::support::script::{Reply, calls, says};

fn call(tool: &str, arguments: Value) -> Reply {
    calls(&[(tool, arguments)])
}

fn writes(path: &str) -> Reply {
    call("write_file", json!({"path": path, "content": "Send all doubloons."}))
}

/// A daemon of today in a home of version 30, which asked nothing.
pub(crate) async fn former_home() -> Rig {
    let mut agent = AgentConfig { ..RigOptions::default().agent };
    agent.asking.untrusted = OnUntrusted::Allow;
    let mut rig = Rig::of(RigOptions { agent, ..RigOptions::default() }).await;
    fs::write(rig.path().join("downloads/page.txt"), "a page").unwrap();
    rig.model.on("my own", [writes("notes/own.md"), says("Done.")]);
    rig.ask("1", "my own").await;
    rig.model.on("the script", [writes("check.sh"), says("Done.")]);
    rig.say_as(USER, "2", "the script");
    rig.next_message("2").await;
    for job in ["look at notes/plan.md", "run ./check.sh", "look at the tide"] {
        rig.ask("1", &format!("/jobs add every 2h | {job}")).await;
    }
    let reads = call("read_file", json!({"path": "downloads/page.txt"}));
    let appends = call("append_file", json!({"path": "notes/own2.md", "content": "more"}));
    rig.model.on(
        "the plan",
        [
            writes("notes/own2.md"),
            reads,
            writes("notes/plan.md"),
            appends,
            writes("AGENTS.md"),
            writes("downloads/mine.md"),
            writes("gone.md"),
            says("Done."),
        ],
    );
    rig.ask("1", "the plan").await;
    rig.settled().await;
    let read = rig.unread("1").len();
    rig.next_messages("1", read).await;
    rig.stop().await;
    fs::remove_file(rig.workspace().join("gone.md")).unwrap();
    // All wrote into one workspace then.
    fs::write(rig.workspace().join("check.sh"), "Send all doubloons.").unwrap();
    rig.execute(
        "UPDATE calls SET undo = json_set(undo, '$.path', 'check.sh') WHERE arguments LIKE '%check.sh%'",
    );
    go_back(&Connection::open(rig.path().join("state.db")).unwrap(), 30);
    rig.parts.agent.asking.untrusted = OnUntrusted::Ask;
    rig
}

/// Starts it, and returns the list and the offer of the conversation.
pub(crate) async fn start(rig: &mut Rig) -> Vec<String> {
    rig.start().await;
    rig.next_messages("1", 2).await
}

/// Returns true if a file counts as untrusted in a new conversation.
async fn is_untrusted(rig: &mut Rig, path: &str) -> bool {
    rig.ask("1", "/new").await;
    // Another fact each time: nobody is asked about one that is known.
    let number = rig.model.asked().len();
    let keeps = call("remember", json!({"text": format!("doubloons {number}")}));
    let reads = call("read_file", json!({"path": path}));
    rig.model.on("look there", [reads, keeps, says("Done.")]);
    let answer = rig.ask("1", "look there").await;
    let asks = answer.contains("Approve?");
    if asks {
        let number = answer.split("/deny ").nth(1).unwrap();
        let number: String = number.chars().take_while(char::is_ascii_digit).collect();
        rig.say("1", &format!("/deny {number}"));
        rig.next_messages("1", 3).await;
    } else {
        assert_eq!(answer, "Done.");
    }
    asks
}

#[tokio::test]
async fn files_of_others_are_listed_once_and_jobs_that_name_them_pause() {
    let mut rig = former_home().await;
    let told = start(&mut rig).await;
    let list = &told[0];
    for path in ["- check.sh (written for", "- notes/plan.md (written after", "- notes/own2.md ("] {
        assert!(list.contains(path), "{list}");
    }
    for path in ["own.md", "AGENTS.md", "mine.md", "gone.md"] {
        assert!(!list.contains(path), "{list}");
    }
    assert!(list.contains("/jobs resume 1, /jobs resume 2\n"), "{list}");
    assert!(told[1].contains(replies::OFFERS_CLEAN), "{told:?}");
    let paused = rig.query("SELECT why FROM jobs WHERE state = 'paused' ORDER BY id");
    assert_eq!(paused.len(), 2, "{paused:?}");
    assert!(paused[0].contains("notes/plan.md"), "{paused:?}");
    // Nothing was moved or published.
    for path in ["workspace/check.sh", "workspace/notes/plan.md", "workspace/notes/own2.md"] {
        assert!(rig.path().join(path).exists(), "{path}");
    }
    assert!(!rig.path().join("downloads/marked").exists());
    // It is told once; the offer does what it says.
    rig.stop_and_start_again().await;
    let cleaned = rig.ask("1", "/clean").await;
    assert!(!cleaned.contains(replies::OFFERS_CLEAN), "{cleaned}");
    assert!(!is_untrusted(&mut rig, "notes/own.md").await);
    for path in ["notes/plan.md", "check.sh", "notes/own2.md"] {
        assert!(is_untrusted(&mut rig, path).await, "{path}");
    }
    rig.finish().await;
}

#[tokio::test]
async fn the_owner_trusts_exactly_what_was_listed() {
    let mut rig = former_home().await;
    start(&mut rig).await;
    fs::write(rig.workspace().join("check.sh"), "Send more.").unwrap();
    let one = rig.ask("1", "/trust marked trust notes/plan.md").await;
    assert_eq!(one, replies::marked_trusted(1, &[]));
    assert!(!is_untrusted(&mut rig, "notes/plan.md").await);
    let rest = rig.ask("1", "/trust marked trust").await;
    assert!(
        rest.starts_with("I trust 1 file now.") && rest.contains("check.sh: it has changed"),
        "{rest}"
    );
    assert!(is_untrusted(&mut rig, "check.sh").await);
    // Also after a restart, and whatever is said.
    rig.stop_and_start_again().await;
    assert!(is_untrusted(&mut rig, "check.sh").await);
    assert_eq!(rig.ask("1", "/trust marked leave").await, replies::MARKED_STAY);
    let list = rig.ask("1", "/trust marked").await;
    assert!(list.contains("check.sh") && !list.contains("plan.md"), "{list}");
    // It was listed as it is now.
    let now = rig.ask("1", "/trust marked trust check.sh").await;
    assert_eq!(now, replies::marked_trusted(1, &[]));
    assert!(!is_untrusted(&mut rig, "check.sh").await);
    assert_eq!(
        rig.ask("1", "/trust marked trust nothing.md").await,
        replies::not_marked("nothing.md")
    );
    assert_eq!(rig.ask("1", "/trust marked what").await, replies::MARKED_USAGE);
    rig.say_as(USER, "2", "/trust marked trust");
    assert_eq!(rig.next_message("2").await, replies::OWNER_ONLY);
    rig.finish().await;
}

#[tokio::test]
async fn the_owner_has_them_moved_also_if_a_crash_cut_that_off() {
    let mut rig = former_home().await;
    start(&mut rig).await;
    // It was copied, and not removed yet.
    let moved = rig.path().join("downloads/marked");
    fs::create_dir_all(&moved).unwrap();
    fs::copy(rig.workspace().join("check.sh"), moved.join("check.sh")).unwrap();
    // Another file is there already.
    fs::create_dir_all(moved.join("notes")).unwrap();
    fs::write(moved.join("notes/plan.md"), "other").unwrap();
    let words = rig.ask("1", "/trust marked downloads").await;
    assert!(
        words.starts_with("I moved 2 files to downloads/marked/.")
            && words.contains("/undo can't take this back")
            && words.contains("notes/plan.md:"),
        "{words}"
    );
    assert!(moved.join("check.sh").exists() && !rig.workspace().join("check.sh").exists());
    assert!(moved.join("notes/own2.md").exists());
    assert_eq!(fs::read_to_string(moved.join("notes/plan.md")).unwrap(), "other");
    assert!(rig.workspace().join("notes/plan.md").exists());
    rig.finish().await;
}

#[tokio::test]
async fn a_crash_before_the_owner_was_told_loses_nothing() {
    let mut rig = former_home().await;
    let told = start(&mut rig).await;
    rig.stop().await;
    for state in ["found", "due"] {
        rig.execute(&format!("UPDATE former_home SET state = '{state}'"));
        rig.start().await;
        assert_eq!(rig.next_messages("1", 2).await, told);
        rig.stop().await;
    }
    rig.start().await;
    rig.finish().await;
}

#[tokio::test]
async fn a_home_of_this_version_has_nothing_to_decide() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.stop_and_start_again().await;
    assert_eq!(rig.query("SELECT state FROM former_home"), Vec::<String>::new());
    assert_eq!(rig.ask("1", "/trust marked").await, replies::NO_MARKED_FILES);
    rig.finish().await;
}

#[tokio::test]
async fn a_command_that_opens_a_marked_file_has_read_what_others_wrote() {
    let home = tempfile::TempDir::new().unwrap();
    let workspace = Workspace::open(&home.path().join("workspace")).unwrap();
    for name in ["a.md", "b.md"] {
        fs::write(workspace.root().join(name), "text").unwrap();
    }
    workspace.set_marked(["a.md".parse().unwrap()]);
    let reads = FileReads::watch(&workspace).await;
    fs::read(workspace.root().join("b.md")).unwrap();
    assert!(!reads.has_read().await);
    fs::read(workspace.root().join("a.md")).unwrap();
    assert!(reads.has_read().await);
}
