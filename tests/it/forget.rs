//! What somebody wants forgotten is nowhere afterwards: in no table, no file and no free page; and nothing else goes.

use std::fs;
use std::path::Path;

use chrono::Utc;
use peacrab::backup::archive;
use peacrab::backup::restore::{Existing, restore};
use peacrab::config::AgentConfig;
use peacrab::replies;
use peacrab::store::{FORGOTTEN, ForgottenWords, TextForm};
use peacrab::types::session::Finish;
use proptest::prelude::*;
use serde_json::json;

use crate::former_home::{former_home, start};
use crate::support::rig::{OWNER, Rig, RigOptions, USER};
use crate::support::script::{Gate, calls, held, says};

const WORD: &str = "Quetzalcoatl";

/// The places in a home where a word stands: columns of the store, and files with their bytes.
pub(crate) fn places(home: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    let store = rusqlite::Connection::open(home.join("state.db")).unwrap();
    store.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let mut tables = store.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    for table in tables.iter().filter(|table| *table != "recall_index") {
        let mut rows = store.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                let value = row.get_ref(column).unwrap();
                if value.as_bytes().is_ok_and(|bytes| has(bytes, word)) {
                    found.push(table.clone());
                }
            }
        }
    }
    let stem = word.to_lowercase();
    let matched = "SELECT count(*) FROM recall_index WHERE recall_index MATCH ?";
    let matched: i64 =
        store.query_row(matched, [format!("text : \"{stem}\" *")], |row| row.get(0)).unwrap();
    found.extend((matched > 0).then(|| "index".to_owned()));
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match fs::symlink_metadata(&path).unwrap().file_type() {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_file() && has(&fs::read(&path).unwrap(), word) => {
                    found.push(path.strip_prefix(home).unwrap().display().to_string());
                }
                _ => {}
            }
        }
    }
    found
}

/// Also of the stem that the index has of it.
fn has(bytes: &[u8], word: &str) -> bool {
    let word = word.to_lowercase();
    let stem = &word.as_bytes()[..word.len() - 1];
    bytes.windows(stem.len()).any(|bytes| bytes.eq_ignore_ascii_case(stem))
}

/// A person's conversations, files, jobs and facts with the word in them.
async fn talk(rig: &mut Rig) {
    let write = json!({ "path": "notes/plan.md", "content": "first" });
    let again = json!({ "path": "memory/MEMORY.md", "content": format!("- {WORD} is short\n") });
    let later = json!({ "action": "add", "when": "30d", "text": format!("buy {WORD} seeds") });
    rig.model.on(
        "tell me",
        [
            calls(&[("write_file", write), ("append_file", again)]),
            calls(&[("remember", json!({ "text": format!("The owner likes {WORD}.") }))]),
            calls(&[("note", json!({ "text": format!("Spoke of {WORD}.") })), ("schedule", later)]),
            calls(&[(
                "plan",
                json!({ "items": [{ "text": format!("ask {WORD}"), "state": "todo" }] }),
            )]),
            calls(&[("propose", json!({ "title": WORD, "body": format!("a trip to\n{WORD}") }))]),
            says(&format!("First line.\nAbout {WORD}, \"the snake\".\nLast line.")),
        ],
    );
    rig.say("1", &format!("tell me of {WORD}\nand of the weather"));
    rig.next_messages("1", 2).await;
    rig.ask("1", &format!("/remember wish: a statue of {WORD}")).await;
    rig.ask("1", &format!("hello {}", WORD.to_uppercase())).await;
    rig.ask("1", "/new").await;
    rig.ask("5", &format!("elsewhere: {WORD}")).await;
    rig.ask("5", "and again?").await;
}

#[tokio::test]
async fn forgotten_words_are_nowhere_and_all_else_stays() {
    let mut rig = Rig::new().await;
    talk(&mut rig).await;
    fs::write(rig.workspace().join("snakes.md"), format!("{WORD} is a file of mine\n")).unwrap();
    let question = rig.ask("1", "/forget quetzalcoatl").await;
    for shown in ["fact #1: a statue", "memory/MEMORY.md", "snakes.md", "can't be undone"] {
        assert!(question.contains(shown), "{shown}: {question}");
    }
    let calls = rig.query("SELECT count(*) || '' FROM calls");
    let turns = rig.query("SELECT count(*) || '' FROM turns");
    assert!(places(&rig.path(), WORD).len() > 15, "{:?}", places(&rig.path(), WORD));
    // Files are the person's own to change.
    fs::remove_file(rig.workspace().join("snakes.md")).unwrap();
    assert_eq!(rig.ask("1", "/forget yes: quetzalcoatl").await, replies::FORGOTTEN_NOW);
    rig.settled().await;
    assert_eq!(places(&rig.path(), WORD), Vec::<String>::new());
    // What was done stays on record.
    assert_eq!(rig.query("SELECT count(*) || '' FROM calls"), calls);
    assert_eq!(rig.query("SELECT count(*) || '' FROM turns"), turns);
    let said = rig.query("SELECT text FROM steps WHERE text LIKE 'First line%'").remove(0);
    assert_eq!(said, format!("First line.\n{FORGOTTEN}\nLast line."));
    let heard = rig.query("SELECT input FROM steps WHERE input LIKE '%weather%'").remove(0);
    assert!(heard.contains(FORGOTTEN) && heard.contains("and of the weather"), "{heard}");
    assert_eq!(rig.query("SELECT state FROM jobs"), ["paused"]);
    // The conversations go on without it.
    rig.ask("5", "hello").await;
    assert!(!rig.model.last().whole().contains(WORD));
    rig.stop_and_start_again().await;
    rig.ask("5", "hello again").await;
    let told = rig.model.last().whole();
    assert!(told.contains("and again?") && !told.contains(WORD), "{told}");
    rig.finish().await;
}

/// The words that end a turn by a call stand in the index with the turn, but in none of its steps.
#[tokio::test]
async fn words_that_only_a_call_has_leave_the_index() {
    let agent = AgentConfig { finish: Finish::Explicit, ..AgentConfig::default() };
    let mut rig = Rig::of(RigOptions { agent, ..RigOptions::default() }).await;
    let told = |text: String| calls(&[("converse", json!({ "text": text }))]);
    rig.model.on("Which snake?", [told(format!("It is\n{WORD}"))]);
    rig.ask("1", "Which snake?").await;
    assert!(places(&rig.path(), WORD).contains(&"index".to_owned()));
    rig.ask("1", &format!("/forget yes: {WORD}")).await;
    rig.settled().await;
    assert_eq!(places(&rig.path(), WORD), Vec::<String>::new());
    assert!(places(&rig.path(), "snake").contains(&"index".to_owned()), "the turn stays in it");
    rig.finish().await;
}

#[tokio::test]
async fn others_are_answered_while_words_are_forgotten() {
    let mut rig = Rig::new().await;
    talk(&mut rig).await;
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("Done."))]);
    rig.say_as(USER, "7", "slow");
    rig.wait_at(&gate).await;
    // Free space is overwritten once that turn has ended.
    rig.say("1", "/forget yes: quetzalcoatl");
    rig.say("5", "and now?");
    assert!(rig.next_message("5").await.starts_with("re: and now?"));
    assert!(!rig.model.last().whole().contains(WORD));
    rig.say_as(USER, "8", "hello");
    assert_eq!(rig.next_message("8").await, "re: hello");
    assert!(rig.ask("1", "/whoami").await.contains("owner"));
    gate.open();
    assert_eq!(rig.next_message("7").await, "Done.");
    assert_eq!(rig.next_message("1").await, replies::FORGOTTEN_NOW);
    rig.settled().await;
    assert_eq!(places(&rig.path(), WORD), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_summary_that_is_being_made_does_not_bring_words_back() {
    let mut rig = Rig::new().await;
    talk(&mut rig).await;
    for said in ["one", "two", "three"] {
        rig.ask("5", said).await;
    }
    let gate = Gate::shut();
    let summary = says(&format!("They spoke of {WORD}."));
    rig.model.on("[The record of what came after it:]", [held(&gate, summary)]);
    rig.say("5", "/compact");
    rig.wait_at(&gate).await;
    rig.say("1", "/forget yes: quetzalcoatl");
    assert!(rig.ask("1", "/whoami").await.contains("owner"));
    gate.open();
    assert!(rig.next_message("5").await.contains("summary"));
    assert_eq!(rig.next_message("1").await, replies::FORGOTTEN_NOW);
    rig.settled().await;
    assert_eq!(places(&rig.path(), WORD), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_restored_backup_has_nothing_of_what_was_forgotten_since() {
    let mut rig = Rig::new().await;
    talk(&mut rig).await;
    rig.settled().await;
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("kept.tar.gz");
    archive::write(&rig.path(), &file, Utc::now()).unwrap();
    rig.ask("1", "/forget yes: quetzalcoatl").await;
    rig.ask("5", "and a crab").await;
    rig.stop().await;
    let restored = restore(&rig.path(), &file, Existing::Replace, Utc::now()).unwrap();
    assert!(restored.pending.contains("deleted everything that you had me forget"), "{restored:?}");
    assert_eq!(places(&rig.path(), WORD), Vec::<String>::new());
    // All else is as it was in the backup.
    let heard = rig.query("SELECT input FROM steps WHERE input LIKE '%weather%'").remove(0);
    assert!(heard.contains(FORGOTTEN) && heard.contains("and of the weather"), "{heard}");
    assert_eq!(
        rig.query("SELECT input FROM steps WHERE input LIKE '%crab%'"),
        Vec::<String>::new()
    );
    rig.start().await;
    let told = rig.next_message("5").await;
    assert!(told.contains("I was restored") && !told.contains(WORD), "{told}");
    rig.ask("5", "hello again").await;
    let told = rig.model.last().whole();
    assert!(told.contains("and again?") && !told.contains(WORD), "{told}");
    rig.stop().await;
    // The record is in the restored home, too.
    restore(&rig.path(), &file, Existing::Replace, Utc::now()).unwrap();
    assert_eq!(places(&rig.path(), WORD), Vec::<String>::new());
    // A new home knows nothing of it.
    let elsewhere = kept.path().join("elsewhere");
    restore(&elsewhere, &file, Existing::Refuse, Utc::now()).unwrap();
    assert!(places(&elsewhere, WORD).len() > 15);
}

/// The clock was ahead at the backup, or behind when the words were forgotten; at the restore it is right again, or not.
#[tokio::test]
async fn a_restored_backup_has_nothing_of_what_was_forgotten_since_whatever_the_clock_said() {
    let mut rig = Rig::new().await;
    talk(&mut rig).await;
    rig.settled().await;
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("kept.tar.gz");
    let in_hours = |hours| Utc::now() + chrono::TimeDelta::hours(hours);
    archive::write(&rig.path(), &file, in_hours(48)).unwrap();
    rig.ask("1", "/forget yes: quetzalcoatl").await;
    rig.stop().await;
    for now in [in_hours(0), in_hours(72)] {
        restore(&rig.path(), &file, Existing::Replace, now).unwrap();
        assert_eq!(places(&rig.path(), WORD), Vec::<String>::new());
    }
}

#[tokio::test]
async fn words_that_came_back_before_the_backup_stay_in_it() {
    let mut rig = Rig::new().await;
    rig.ask("1", &format!("hello {WORD}")).await;
    rig.ask("1", "/forget yes: quetzalcoatl").await;
    rig.ask("1", &format!("again {WORD}")).await;
    rig.settled().await;
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("kept.tar.gz");
    archive::write(&rig.path(), &file, Utc::now() - chrono::TimeDelta::hours(1)).unwrap();
    rig.stop().await;
    let restored = restore(&rig.path(), &file, Existing::Replace, Utc::now()).unwrap();
    assert!(!restored.pending.contains("had me forget"), "{restored:?}");
    let heard = rig.query("SELECT input FROM steps WHERE input LIKE '%again%'").remove(0);
    assert!(heard.contains(WORD), "{heard}");
}

#[tokio::test]
async fn nobody_elses_words_are_forgotten() {
    let mut rig = Rig::new().await;
    rig.say_as(USER, "2", &format!("my {WORD}"));
    rig.next_message("2").await;
    rig.say_as(USER, "2", &format!("/remember my {WORD}"));
    rig.next_message("2").await;
    rig.say_as(USER, "-3", &format!("our {WORD}"));
    rig.next_message("-3").await;
    rig.ask("1", &format!("hello {WORD}")).await;
    let question = rig.ask("1", &format!("/forget {WORD}")).await;
    assert!(!question.contains("fact #"), "{question}");
    rig.ask("1", &format!("/forget yes: {WORD}")).await;
    rig.settled().await;
    let heard = rig.query("SELECT input FROM steps ORDER BY turn");
    assert!(heard[0].contains(WORD) && heard[1].contains(WORD), "{heard:?}");
    assert!(!heard[2].contains(WORD), "{heard:?}");
    assert_eq!(rig.query("SELECT text FROM facts"), [format!("my {WORD}")]);
    // A group's own are forgotten in the group, by an admin.
    rig.say_as(USER, "-3", &format!("/forget yes: {WORD}"));
    assert_eq!(rig.next_message("-3").await, replies::FORGET_IN_GROUPS);
    rig.ask("-3", &format!("/forget yes: {WORD}")).await;
    let heard = rig.query("SELECT input FROM steps ORDER BY turn");
    assert!(heard[0].contains(WORD) && !heard[1].contains(WORD), "{heard:?}");
    rig.finish().await;
}

#[tokio::test]
async fn a_fact_is_forgotten_by_its_number() {
    let mut rig = Rig::new().await;
    rig.ask("1", &format!("/remember the statue of {WORD}")).await;
    let question = rig.ask("1", "/forget #1").await;
    assert!(question.contains(&format!("Forget “the statue of {WORD}”?")), "{question}");
    rig.ask("1", &format!("/forget yes: the statue of {WORD}")).await;
    rig.settled().await;
    assert_eq!(places(&rig.path(), WORD), Vec::<String>::new());
    // Another person's fact is none.
    rig.say_as(USER, "2", "/remember a crab");
    rig.next_message("2").await;
    assert_eq!(rig.ask("1", "/forget #2").await, replies::no_such_fact(2));
    rig.finish().await;
}

#[tokio::test]
async fn bad_orders_and_running_turns_are_refused_in_words() {
    let mut rig = Rig::new().await;
    for (said, answer) in [
        ("/forget", replies::FORGET_USAGE.to_owned()),
        ("/forget yes: ", replies::FORGET_USAGE.to_owned()),
        ("/forget ab", replies::FORGET_LENGTH.to_owned()),
        ("/forget ?!?!", replies::FORGET_LENGTH.to_owned()),
        ("/forget #99", replies::no_such_fact(99)),
    ] {
        assert_eq!(rig.ask("1", said).await, answer, "{said}");
    }
    let long = format!("/forget {}", "a".repeat(501));
    assert_eq!(rig.ask("1", &long).await, replies::FORGET_LENGTH);
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("Done."))]);
    rig.say("5", &format!("slow {WORD}"));
    rig.wait_at(&gate).await;
    assert_eq!(rig.ask("1", &format!("/forget yes: {WORD}")).await, replies::FORGET_BUSY);
    gate.open();
    assert_eq!(rig.next_message("5").await, "Done.");
    rig.finish().await;
}

#[tokio::test]
async fn words_of_the_programs_own_rows_are_left_alone() {
    let mut rig = Rig::new().await;
    let later = json!({ "action": "add", "when": "30d", "text": "tea" });
    rig.model.on(
        "private",
        [calls(&[("schedule", later)]), says("It is private, by the owner at home.")],
    );
    rig.ask("1", "is it private for the owner at home? answered, active, message").await;
    for word in
        ["private", "owner", "home", "answered", "active", "message", "prompt", "program", "text"]
    {
        rig.ask("1", &format!("/forget yes: {word}")).await;
    }
    rig.stop_and_start_again().await;
    rig.ask("1", "hello").await;
    assert_eq!(rig.query("SELECT state FROM jobs"), ["active"]);
    assert_eq!(rig.query("SELECT raw FROM unreadable"), Vec::<String>::new());
    rig.say_as(OWNER, "5", "hello");
    rig.next_message("5").await;
    rig.finish().await;
}

proptest! {
    #[test]
    fn no_text_keeps_the_words(
        before in "\\PC{0,30}", words in "[a-zé]{3,8}( [a-z]{1,5})?", space in "[ \n\t]{1,3}", after in "\\PC{0,30}"
    ) {
        let text = format!("{before}\n{}\n{after}", words.replace(' ', &space).to_uppercase());
        let sought = ForgottenWords::new(&words).unwrap();
        prop_assert!(sought.are_in(&text));
        let blanked = sought.blanked(&text).unwrap();
        prop_assert!(!sought.are_in(&blanked), "{}", blanked);
        // A digest finds the same, and does not tell it.
        let digest = sought.digest();
        prop_assert!(!serde_json::to_string(&digest).unwrap().contains(&words));
        let by_digest = ForgottenWords::of_digest(digest);
        prop_assert_eq!(by_digest.blanked(&text), Some(blanked));
        prop_assert_eq!(by_digest.are_in(&before), sought.are_in(&before));
    }
}

#[tokio::test]
async fn the_change_and_the_files_of_a_call_lose_the_words() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    // Of calls that nobody was told of yet, with other words in the arguments.
    for (change, path) in [
        (" milk\n+seeds of\n+Quetzalcoatl", "a.md"),
        ("+milk", "seeds of Quetzalcoatl.md"),
        ("+milk", "b.md"),
    ] {
        let untold = json!({"task": null, "change": change});
        let files = json!({"changes": {"path": path, "before": "0f"}});
        rig.execute(&format!(
            "INSERT INTO deferred_calls (call, tool, arguments, sender, known_on, chat_kind, channel, chat,
                 tainted, expires, state, untold, files)
             VALUES (0, 'write_file', '{{}}', '{{}}', 'home', '\"private\"', 'home', '1', 0, 9000000000000,
                 'open', '{untold}', '{files}')"
        ));
    }
    let files = json!({"sends": [{"path": "seeds of Quetzalcoatl.md", "size": 1, "hash": "0f"}]});
    rig.execute(&format!(
        "INSERT INTO asks (turn, call, kind, delivery, channel, chat, after, expires, state, files)
         SELECT id, 0, 'approval', 0, 'home', '1', 0, 0, 'settled', '{files}' FROM turns LIMIT 1"
    ));
    let forgets = "/forget yes: seeds of quetzalcoatl";
    assert_eq!(rig.ask("1", forgets).await, replies::FORGOTTEN_NOW);
    assert_eq!(
        rig.query(
            "SELECT state || ' ' || ifnull(json_extract(untold, '$.change'), 'none') || ' '
                 || json_extract(files, '$.changes.path') FROM deferred_calls ORDER BY id"
        ),
        ["denied none a.md", &format!("denied none {FORGOTTEN}"), "open +milk b.md"]
    );
    assert_eq!(rig.query("SELECT json_extract(files, '$.sends[0].path') FROM asks"), [FORGOTTEN]);
    rig.finish().await;
}

#[tokio::test]
async fn a_call_that_was_approved_later_loses_the_words_and_cannot_be_made_any_more() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    for (number, text, path) in [
        (1, "seeds of Quetzalcoatl", "a.md"),
        (2, "milk", "seeds of Quetzalcoatl.md"),
        (3, "milk", "b.md"),
    ] {
        let arguments = json!({"path": path, "content": text}).to_string();
        let files = json!({"changes": {"path": path, "before": "0f"}});
        let approved = json!({"tool": "write_file", "arguments": arguments, "files": files});
        let details = json!({"parent": 0, "call": 1, "task": "a call", "approved": approved});
        rig.execute(&format!(
            "INSERT INTO tasks (kind, number, channel, chat, begun, ended, state, details)
             VALUES ('subagent', {number}, 'home', '1', unixepoch() * 1000, unixepoch() * 1000, 'done',
                 '{details}')"
        ));
    }
    let forgets = "/forget yes: seeds of quetzalcoatl";
    assert_eq!(rig.ask("1", forgets).await, replies::FORGOTTEN_NOW);
    rig.settled().await;
    assert_eq!(places(&rig.path(), WORD), Vec::<String>::new());
    let left = rig.query(
        "SELECT json_extract(details, '$.approved.arguments') || ' '
             || json_extract(details, '$.approved.files.changes.path') FROM tasks ORDER BY number",
    );
    let forgotten = format!("\"{FORGOTTEN}\"");
    let others = json!({"path": "b.md", "content": "milk"});
    assert_eq!(
        left,
        [format!("{forgotten} a.md"), format!("{forgotten} {FORGOTTEN}"), format!("{others} b.md")]
    );
    rig.finish().await;
}

#[tokio::test]
async fn the_name_of_a_changed_file_leaves_what_would_undo_the_change() {
    let mut rig = Rig::new().await;
    let path = format!("notes/{WORD}.md");
    let write = json!({"path": path, "content": "tea"});
    rig.model.on("write", [calls(&[("write_file", write)]), says("Ready.")]);
    assert_eq!(rig.ask("1", "write it").await, "Ready.");
    let undo = "SELECT ifnull(undo, '') || ifnull(intent, '') FROM calls";
    assert!(rig.query(undo)[0].contains(WORD), "{:?}", rig.query(undo));
    fs::remove_file(rig.workspace().join(&path)).unwrap();
    assert_eq!(rig.ask("1", &format!("/forget yes: {WORD}")).await, replies::FORGOTTEN_NOW);
    let left = rig.query(undo).remove(0);
    assert!(!left.contains(WORD) && left.contains(FORGOTTEN), "{left}");
    // Nothing can be undone, and it is said.
    let heard = rig.ask("1", "/undo").await;
    assert!(!heard.contains(WORD), "{heard}");
    rig.finish().await;
}

#[test]
fn short_words_are_not_found_in_a_hash() {
    let words = ForgottenWords::new("bad").unwrap();
    let files = json!({"changes": {"path": "list.md", "before": "bad0"}}).to_string();
    assert_eq!(words.blanked_json(&files, TextForm::Paths), None);
    assert!(words.blanked_json(&files.replace("list", "bad"), TextForm::Paths).is_some());
}

#[test]
fn the_target_of_a_link_that_a_command_sees_is_a_path() {
    let words = ForgottenWords::new(WORD).unwrap();
    let files = |target: &str| json!({"sees": [{"path": "link", "leads_to": target}]}).to_string();
    let blanked = words.blanked_json(&files(&format!("notes/{WORD}")), TextForm::Paths);
    assert_eq!(blanked, Some(files(FORGOTTEN)));
}

/// The marked files, with their writers.
fn marked(rig: &Rig) -> Vec<String> {
    rig.query("SELECT path || ' ' || ifnull(author, 'nobody') FROM marked_files ORDER BY path")
}

#[tokio::test]
async fn a_marked_file_goes_with_its_mark_if_its_name_has_the_words() {
    let mut rig = former_home().await;
    start(&mut rig).await;
    let before = marked(&rig);
    assert_eq!(before.len(), 3, "{before:?}");
    // Only the owner has such files.
    rig.say_as(USER, "2", "/forget check.sh");
    let of_user = rig.next_message("2").await;
    assert!(!of_user.contains("untrusted files"), "{of_user}");
    let question = rig.ask("1", "/forget check.sh").await;
    assert!(question.contains("because their names have the words: check.sh\n"), "{question}");
    assert_eq!(marked(&rig), before);
    assert_eq!(rig.ask("1", "/forget yes: check.sh").await, replies::FORGOTTEN_NOW);
    assert!(!rig.workspace().join("check.sh").exists());
    assert_eq!(marked(&rig), before[1..]);
    let list = rig.ask("1", "/trust marked").await;
    assert!(!list.contains("check") && list.contains("notes/plan.md"), "{list}");
    rig.finish().await;
}

#[tokio::test]
async fn a_marked_file_that_cannot_be_deleted_stays_marked() {
    let mut rig = former_home().await;
    start(&mut rig).await;
    fs::remove_file(rig.workspace().join("notes/plan.md")).unwrap();
    fs::create_dir(rig.workspace().join("notes/plan.md")).unwrap();
    let reply = rig.ask("1", "/forget yes: plan.md").await;
    assert_eq!(reply, replies::not_all_forgotten("notes/plan.md"));
    assert_eq!(marked(&rig).len(), 3);
    // Somebody's name goes, and the file stays untrusted.
    assert_eq!(rig.ask("1", "/forget yes: Person 8").await, replies::FORGOTTEN_NOW);
    assert_eq!(marked(&rig)[0], format!("check.sh {FORGOTTEN}"));
    // What is gone needs no mark; a crash after the deletion leaves the same.
    fs::remove_dir(rig.workspace().join("notes/plan.md")).unwrap();
    assert_eq!(rig.ask("1", "/forget yes: plan.md").await, replies::FORGOTTEN_NOW);
    assert_eq!(marked(&rig).len(), 2);
    rig.finish().await;
}
