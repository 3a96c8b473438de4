//! Conversations have names, and go on where their person wants them to; nobody else's do.

use std::sync::Arc;

use peacrab::replies;
use rusqlite::Connection;
use serde_json::json;

use crate::forget::places;
use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{OWNER, Rig, RigOptions, USER};
use crate::support::script::{Gate, calls, held, says};

/// A rig with a second channel, on which the owner is known as `70`.
async fn with_laptop() -> (Rig, Arc<FakeChannel>) {
    let laptop = Arc::new(FakeChannel::new());
    let mut parts =
        RigOptions { channels: vec![("laptop", Arc::clone(&laptop))], ..RigOptions::default() };
    parts.access.owners = vec![OWNER.to_owned(), "70".to_owned()];
    let mut rig = Rig::of(parts).await;
    // Both accounts are one person's.
    rig.ask("1", "/whoami").await;
    on_laptop(&mut rig, &laptop, "/whoami").await;
    rig.execute(
        "UPDATE accounts SET person = (SELECT person FROM accounts WHERE sender = '7')
         WHERE sender = '70'",
    );
    (rig, laptop)
}

/// The owner says something on the laptop, and gets an answer.
async fn on_laptop(rig: &mut Rig, laptop: &Arc<FakeChannel>, text: &str) -> String {
    laptop.hears(laptop.message("70", "70", text));
    rig.next_messages_on(Arc::clone(laptop), "70", 1).await.remove(0).text
}

/// The number of the conversation whose name begins so.
fn number(list: &str, name: &str) -> String {
    let line = list.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{list}"));
    line.split(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn conversations_are_named_by_their_first_words() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "/sessions").await, replies::NO_SESSIONS);
    rig.ask("1", "plan  the\ntrip to Lisbon in May with Ada").await;
    rig.ask("1", "/new").await;
    rig.ask("1", "which bulbs go into the hallway").await;
    let list = rig.ask("1", "/sessions").await;
    let lines: Vec<_> = list.lines().collect();
    assert!(
        lines[0].contains("which bulbs go into the hallway") && lines[0].contains("open here"),
        "{list}"
    );
    assert!(lines[1].contains("plan the trip to Lisbon in (home, today"), "{list}");
    let some = rig.ask("1", "/sessions lisbon").await;
    assert!(some.contains("Lisbon") && !some.contains("bulbs"), "{some}");
    // Nobody else sees them.
    rig.say_as(USER, "2", "/sessions");
    assert_eq!(rig.next_message("2").await, replies::NO_SESSIONS);
    assert_eq!(rig.ask("-3", "/sessions").await, replies::NO_SESSIONS);
    rig.finish().await;
}

#[tokio::test]
async fn a_model_names_them_while_it_reads_them_for_facts() {
    let mut rig = Rig::of(RigOptions { extracts: true, ..RigOptions::default() }).await;
    rig.model.on("Which lasting facts", [
        says(r#"{"new":[],"name":"  Lisbon \u202e trip, and a title that is far too long for a list"}"#),
        says(r#"{"new":[],"name":"another"}"#),
    ]);
    for text in ["hello", "one", "two", "three", "four", "five"] {
        rig.ask("1", text).await;
    }
    rig.wait_for_count("SELECT count(*) FROM sessions WHERE name IS NOT NULL", 1).await;
    let list = rig.ask("1", "/sessions").await;
    assert!(list.contains("Lisbon trip, and a title that is far too ("), "{list}");
    for text in ["six", "seven", "eight", "nine", "ten", "eleven"] {
        rig.ask("1", text).await;
    }
    rig.wait_for_count("SELECT count(*) FROM extractions WHERE taken >= 12", 1).await;
    assert!(!rig.ask("1", "/sessions").await.contains("another"));
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_is_found_by_the_name_that_a_model_gave_it() {
    let mut rig = Rig::of(RigOptions { extracts: true, ..RigOptions::default() }).await;
    rig.model.on("Which lasting facts", [says(r#"{"new":[],"name":"Quetzalcoatl of Lisbon"}"#)]);
    for text in ["hello", "one", "two", "three", "four", "five"] {
        rig.ask("1", text).await;
    }
    rig.wait_for_count("SELECT count(*) FROM sessions WHERE name IS NOT NULL", 1).await;
    rig.ask("1", "/new").await;
    let search = |query: &str| calls(&[("memory_search", json!({ "query": query }))]);
    rig.model.on("look it up", [search("quetzalcoatl"), says("Found.")]);
    rig.ask("1", "look it up").await;
    let found = rig.model.last().whole();
    assert!(found.contains("Conversation: Quetzalcoatl of Lisbon > hello"), "{found}");
    // Nobody else finds it, and once its name is forgotten, nobody does.
    rig.model.on("look too", [search("lisbon"), says("Nothing.")]);
    rig.say_as(USER, "2", "look too");
    rig.next_message("2").await;
    let found = rig.model.last().whole();
    assert!(found.contains("Nothing was found"), "{found}");
    assert_eq!(rig.ask("1", "/forget yes: Quetzalcoatl").await, replies::FORGOTTEN_NOW);
    rig.settled().await;
    assert_eq!(places(&rig.path(), "Quetzalcoatl"), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_goes_on_where_its_person_wants_and_its_former_place_is_told() {
    let (mut rig, laptop) = with_laptop().await;
    rig.ask("1", "the word is crab").await;
    on_laptop(&mut rig, &laptop, "something else").await;
    let answer = on_laptop(&mut rig, &laptop, "/resume the word").await;
    assert!(answer.starts_with("We're back in “the word is crab”"), "{answer}");
    assert_eq!(rig.next_message("1").await, replies::session_moved("the word is crab", "laptop"));
    on_laptop(&mut rig, &laptop, "what is the word?").await;
    let seen = rig.model.last().transcript();
    assert!(seen.contains("the word is crab") && !seen.contains("something else"), "{seen}");
    // The former place begins anew, and writes nothing to it.
    rig.ask("1", "hello").await;
    assert!(!rig.model.last().transcript().contains("crab"));
    // Also after a restart, and back again.
    rig.stop_and_start_again().await;
    let list = on_laptop(&mut rig, &laptop, "/sessions").await;
    let crab = number(&list, "the word is crab");
    rig.ask("1", &format!("/resume {crab}")).await;
    let told = rig.next_messages_on(Arc::clone(&laptop), "70", 1).await.remove(0).text;
    assert_eq!(told, replies::session_moved("the word is crab", "home"));
    rig.ask("1", "again: what is the word?").await;
    assert!(rig.model.last().transcript().contains("what is the word?"));
    assert_eq!(rig.ask("1", "/resume the word").await, replies::already_here("the word is crab"));
    rig.finish().await;
}

#[tokio::test]
async fn a_closed_conversation_is_opened_again() {
    let mut rig = Rig::new().await;
    rig.ask("1", "the word is crab").await;
    rig.ask("1", "/new").await;
    rig.ask("1", "hello").await;
    rig.ask("1", "/resume CRAB").await;
    rig.ask("1", "what is the word?").await;
    let seen = rig.model.last().transcript();
    assert!(seen.contains("the word is crab") && !seen.contains("hello"), "{seen}");
    assert_eq!(rig.query("SELECT count(*) || '' FROM sessions WHERE closed IS NULL"), ["1"]);
    rig.finish().await;
}

#[tokio::test]
async fn nobody_resumes_what_is_anothers() {
    let mut rig = Rig::new().await;
    rig.ask("1", "the owner's secret crab").await;
    rig.ask("-3", "the group's crab").await;
    rig.say_as(USER, "2", "my own figs");
    rig.next_message("2").await;
    for asked in ["crab", "#1", "1", "2", "figs"] {
        let chats: &[(&str, &str)] = match asked {
            "figs" => &[(OWNER, "1"), (OWNER, "-3"), (OWNER, "-4")],
            _ => &[(USER, "2"), (OWNER, "-4")],
        };
        for (who, chat) in chats {
            rig.say_as(who, chat, &format!("/resume {asked}"));
            assert_eq!(
                rig.next_message(chat).await,
                replies::no_such_session(asked),
                "{who} {chat}"
            );
        }
    }
    // The owner does not take a private conversation into a group, nor a group's out of it.
    assert_eq!(rig.ask("-3", "/resume secret").await, replies::no_such_session("secret"));
    assert_eq!(rig.ask("1", "/resume group").await, replies::no_such_session("group"));
    rig.say_as(USER, "-3", "/resume crab");
    assert_eq!(rig.next_message("-3").await, replies::RESUME_IN_GROUPS);
    rig.finish().await;
}

#[tokio::test]
async fn what_a_conversation_has_read_comes_along() {
    let (mut rig, laptop) = with_laptop().await;
    std::fs::write(rig.path().join("downloads/page.md"), "a page").unwrap();
    let read = calls(&[("read_file", json!({ "path": "downloads/page.md" }))]);
    rig.model.on("read it", [read, says("Read.")]);
    rig.ask("1", "read it").await;
    on_laptop(&mut rig, &laptop, "/resume read it").await;
    rig.next_message("1").await;
    // A change of the memory is asked about, as it would have been there.
    let note = calls(&[("remember", json!({ "text": "pages are true" }))]);
    rig.model.on("keep it", [note]);
    laptop.hears(laptop.message("70", "70", "keep it"));
    let asked = rig.next_messages_on(Arc::clone(&laptop), "70", 1).await.remove(0).text;
    assert!(asked.contains("pages are true") && asked.contains("remember"), "{asked}");
    laptop.hears(laptop.message("70", "70", "/stop"));
    // The question is closed, too.
    rig.next_messages_on(Arc::clone(&laptop), "70", 2).await;
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_that_works_stays_and_bad_names_are_refused_in_words() {
    let (mut rig, laptop) = with_laptop().await;
    let gate = Gate::shut();
    rig.model.on("slow", [held(&gate, says("Done."))]);
    rig.say("1", "slow crab");
    rig.wait_at(&gate).await;
    assert_eq!(on_laptop(&mut rig, &laptop, "/resume slow").await, replies::RESUME_BUSY);
    gate.open();
    assert_eq!(rig.next_message("1").await, "Done.");
    assert_eq!(rig.ask("1", "/resume").await, replies::RESUME_USAGE);
    assert_eq!(rig.ask("1", "/resume zebra").await, replies::no_such_session("zebra"));
    rig.ask("1", "/new").await;
    rig.ask("1", "slow crab").await;
    let which = rig.ask("1", "/resume crab").await;
    assert!(
        which.starts_with("Several conversations") && which.matches('#').count() >= 3,
        "{which}"
    );
    rig.finish().await;
}

#[tokio::test]
async fn a_forgotten_name_is_gone() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.execute("UPDATE sessions SET name = 'Quetzalcoatl'");
    rig.ask("1", "/forget yes: quetzalcoatl").await;
    let store = Connection::open(rig.path().join("state.db")).unwrap();
    let name: String = store.query_row("SELECT name FROM sessions", [], |row| row.get(0)).unwrap();
    assert!(!name.to_lowercase().contains("quetz"), "{name}");
    rig.finish().await;
}
