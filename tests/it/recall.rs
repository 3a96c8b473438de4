//! What was said, noted or filed before is found again by its person, by nobody else, and in bounded time; and comes
//! back by itself where a message speaks of it.

mod by_itself;
mod files;
mod index;

use peacrab::types::untrusted;
use serde_json::{Value, json};

use crate::support::rig::{OTHER_USER, OWNER, Rig, USER};
use crate::support::script::{Reply, calls, says};

const NOTHING: &str = "Nothing was found";

fn searches(query: &str) -> Reply {
    calls(&[("memory_search", json!({ "query": query }))])
}

/// What the model is shown that searches.
async fn found(rig: &mut Rig, who: &str, chat: &str, query: &str) -> String {
    found_with(rig, who, chat, json!({ "query": query })).await
}

async fn found_with(rig: &mut Rig, who: &str, chat: &str, arguments: Value) -> String {
    rig.model.on("look for it", [calls(&[("memory_search", arguments)]), says("Found.")]);
    rig.say_as(who, chat, "look for it");
    assert_eq!(rig.next_message(chat).await, "Found.");
    rig.model.last().messages.pop().unwrap()
}

fn is_marked(shown: &str) -> bool {
    shown.contains(untrusted::FIRST_LINE)
}

#[tokio::test]
async fn words_of_former_conversations_are_found_by_their_person() {
    let mut rig = Rig::new().await;
    rig.model.on("bicycle", [says("Its code is 48-15, under 100%_sure.")]);
    rig.ask("1", "where is the code of my bicycle lock?").await;
    rig.ask("1", "/new").await;
    // In each of one's private chats, in another form of the word, and with words that were not said.
    for (chat, query) in
        [("1", "BICYCLE code"), ("5", "bicycles"), ("1", "bicycle rain"), ("1", "100%_sure")]
    {
        let shown = found(&mut rig, OWNER, chat, query).await;
        assert!(shown.contains("> where is the code of my bicycle lock?"), "{query}: {shown}");
        assert!(shown.contains("You: Its code is 48-15"), "{query}: {shown}");
        assert!(!is_marked(&shown), "{shown}");
    }
    // Signs of the index's language are no words.
    for query in ["' OR 1=1 --", "text : rain NEAR(", "who : \"a1\"", "zebra*", "NOT"] {
        let shown = found(&mut rig, OWNER, "1", query).await;
        assert!(shown.contains(NOTHING), "{query}: {shown}");
    }
    assert!(found(&mut rig, OWNER, "1", " \" * ").await.contains("`query` has no words"));
    let long = found(&mut rig, OWNER, "1", &"a".repeat(101)).await;
    assert!(long.contains("longer than 100 characters"), "{long}");
    rig.finish().await;
}

#[tokio::test]
async fn nobody_finds_the_words_of_others() {
    let mut rig = Rig::new().await;
    rig.ask("1", "my bicycle is blue").await;
    rig.say_as(USER, "2", "my tricycle is red");
    rig.next_message("2").await;
    rig.say_as(USER, "-3", "our tandem is green");
    rig.next_message("-3").await;
    let all = "bicycle tricycle tandem";
    let owners = found(&mut rig, OWNER, "1", all).await;
    assert!(owners.contains("blue") && !owners.contains("red"), "{owners}");
    assert!(!owners.contains("green"), "{owners}");
    let users = found(&mut rig, USER, "2", all).await;
    assert!(users.contains("red") && !users.contains("blue"), "{users}");
    // A group finds its own words, whoever asks, and they are others' words there.
    let of_group = found(&mut rig, OWNER, "-3", all).await;
    assert!(of_group.contains("green") && is_marked(&of_group), "{of_group}");
    assert!(!of_group.contains("blue") && !of_group.contains("red"), "{of_group}");
    let elsewhere = found(&mut rig, OTHER_USER, "-4", all).await;
    assert!(elsewhere.contains(NOTHING), "{elsewhere}");
    // Even if the index is wrong about whose an entry is.
    let key = rig.query("SELECT who FROM recall_entries WHERE text LIKE '%blue%'").remove(0);
    rig.execute(&format!(
        "INSERT INTO recall_index (rowid, who, text)
         SELECT id, '{key}', 'unicycle' FROM recall_entries WHERE text LIKE '%red%'"
    ));
    assert!(found(&mut rig, OWNER, "1", "unicycle").await.contains(NOTHING));
    rig.finish().await;
}

#[tokio::test]
async fn linked_accounts_find_each_others_words_until_they_are_parted() {
    let mut rig = Rig::new().await;
    rig.say_as(USER, "2", "my tricycle is red");
    rig.next_message("2").await;
    rig.say_as(OTHER_USER, "3", "hello");
    rig.next_message("3").await;
    assert!(found(&mut rig, OTHER_USER, "3", "tricycle").await.contains(NOTHING));
    let person = format!("(SELECT person FROM accounts WHERE sender = '{USER}')");
    rig.execute(&format!("UPDATE accounts SET person = {person} WHERE sender = '{OTHER_USER}'"));
    assert!(found(&mut rig, OTHER_USER, "3", "tricycle").await.contains("red"));
    rig.execute(&format!(
        "UPDATE accounts SET person = (SELECT max(id) FROM persons) WHERE sender = '{OTHER_USER}'"
    ));
    assert!(found(&mut rig, OTHER_USER, "3", "tricycle").await.contains(NOTHING));
    rig.finish().await;
}

#[tokio::test]
async fn what_is_found_is_bounded() {
    let mut rig = Rig::new().await;
    for n in 10..26 {
        rig.model.on(&format!("crab {n}"), [says(&format!("{} crab {n}", "x ".repeat(300)))]);
        rig.ask("1", &format!("crab {n}")).await;
    }
    let shown = found(&mut rig, OWNER, "1", "crab").await;
    assert!(shown.chars().count() < 8_500, "{}", shown.len());
    assert_eq!(shown.matches("Conversation of").count(), 10, "{shown}");
    rig.finish().await;
}

#[tokio::test]
async fn a_long_search_is_stopped_and_delays_no_other_chat() {
    let mut rig = Rig::new().await;
    rig.ask("1", "the code of my bicycle").await;
    // A search that delays others does so each time. A busy machine may be slower than a search once.
    let mut is_in_between = false;
    for _ in 0..5 {
        is_in_between = answers_during_a_long_search(&mut rig).await;
        if is_in_between {
            break;
        }
    }
    assert!(is_in_between, "each answer came after the search");
    rig.finish().await;
}

/// Lets the model search for long, and returns true if another chat is answered before the search is stopped.
async fn answers_during_a_long_search(rig: &mut Rig) -> bool {
    // Each passage takes a minute to read.
    rig.execute(
        "ALTER TABLE recall_entries RENAME TO slow_entries;
         CREATE VIEW recall_entries AS SELECT id, who, kind, source, line, at,
         text || (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)
                  SELECT max(i) FROM n) AS text FROM slow_entries",
    );
    let before = rig.model.asked().len();
    rig.model.on("look for it", [searches("bicycle"), says("Not found.")]);
    rig.say("1", "look for it");
    rig.wait_until(|rig| rig.model.asked().len() == before + 1).await;
    rig.say_as(USER, "2", "/stop");
    rig.next_message("2").await;
    // Its result is shown to the model.
    let is_in_between = rig.model.asked().len() == before + 1;
    rig.wait_until(|rig| rig.model.asked().len() == before + 2).await;
    let shown = rig.model.last().messages.pop().unwrap();
    assert!(shown.contains("took too long") && shown.contains("narrower"), "{shown}");
    rig.execute("DROP VIEW recall_entries; ALTER TABLE slow_entries RENAME TO recall_entries");
    rig.next_message("1").await;
    is_in_between
}

#[tokio::test]
async fn untrusted_words_are_counted_and_marked_where_they_are_asked_for() {
    let mut rig = Rig::new().await;
    rig.ask("1", "an early crab").await;
    rig.ask("1", "a page").await;
    rig.ask("1", "a late lobster").await;
    rig.ask("1", "/new").await;
    rig.execute("UPDATE turns SET read_others = 1 WHERE id = 2");
    let early = found(&mut rig, OWNER, "1", "early crab").await;
    assert!(early.contains("an early crab") && !is_marked(&early), "{early}");
    let late = found(&mut rig, OWNER, "1", "late lobster").await;
    assert!(late.contains(NOTHING) && late.contains("[1 more in untrusted content"), "{late}");
    assert!(!late.contains("a late lobster") && !is_marked(&late), "{late}");
    let asked = json!({ "query": "lobster crab", "scope": "untrusted" });
    let late = found_with(&mut rig, OWNER, "1", asked).await;
    assert!(late.contains("a late lobster") && is_marked(&late), "{late}");
    assert!(!late.contains("an early crab"), "{late}");
    rig.finish().await;
}

#[tokio::test]
async fn a_search_can_be_limited_to_later_days() {
    let mut rig = Rig::new().await;
    rig.ask("1", "an early crab").await;
    rig.execute("UPDATE recall_entries SET at = at - 10 * 86400000");
    rig.ask("1", "a late crab").await;
    for (since, early) in
        [("3d", false), ("30d", true), ("2020-01-01", true), ("2900-01-01", false)]
    {
        let shown =
            found_with(&mut rig, OWNER, "1", json!({ "query": "crab", "since": since })).await;
        assert_eq!(shown.contains("an early crab"), early, "{since}: {shown}");
    }
    for since in ["yesterday", "-3d", "99999999999999999999d"] {
        let shown =
            found_with(&mut rig, OWNER, "1", json!({ "query": "crab", "since": since })).await;
        assert!(shown.contains("`since` is a date"), "{since}: {shown}");
    }
    rig.finish().await;
}
