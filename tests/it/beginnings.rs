//! What a conversation begins with: what is due soon, undecided, or has ended lately. Once, for its person alone, and
//! of trusted content alone.

use rusqlite::Connection;
use serde_json::json;

use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, USER};
use crate::support::script::{calls, says};

const BEGINS: &str = "As this conversation begins:";

/// The newest message to the model.
fn newest(rig: &Rig) -> String {
    rig.model.last().messages.pop().unwrap()
}

/// Says something there, and returns the message to the model.
async fn shown(rig: &mut Rig, (who, chat): (&str, &str), text: &str) -> String {
    rig.say_as(who, chat, text);
    rig.next_message(chat).await;
    newest(rig)
}

/// Somebody plans, proposes, and has a fact that ended.
async fn prepared() -> Rig {
    let mut rig = Rig::new().await;
    rig.ask("1", "/jobs message 3h | water the figs").await;
    rig.ask("1", "/jobs message 9d | prune the figs").await;
    let proposal = json!({"title": "Tidy the notes", "body": "Into one file."});
    rig.model.on("ideas", [calls(&[("propose", proposal)]), says("Have a look.")]);
    rig.say("1", "any ideas?");
    rig.next_messages("1", 2).await;
    rig.ask("1", "/remember lives in Paris").await;
    rig.ask("1", "/remember likes tea").await;
    rig.execute("UPDATE facts SET ended = (SELECT max(used) FROM facts) WHERE text LIKE '%Paris'");
    rig
}

#[tokio::test]
async fn a_conversation_begins_with_what_is_due_undecided_or_over() {
    let mut rig = prepared().await;
    rig.ask("1", "/new").await;
    let begins = shown(&mut rig, (OWNER, "1"), "hello").await;
    for line in
        [BEGINS, ": job 1, water the figs", "not decided: 1 Tidy the notes", ": lives in Paris"]
    {
        assert!(begins.contains(line), "{line}: {begins}");
    }
    assert!(!begins.contains("prune") && !begins.contains("tea"), "{begins}");
    let first = rig.model.last();
    assert!(!first.system.join("\n").contains("water the figs"));
    // It stays as it was, and is not told again.
    rig.ask("1", "/jobs message 4h | feed the crab").await;
    let next = shown(&mut rig, (OWNER, "1"), "hello again").await;
    assert!(!next.contains(BEGINS), "{next}");
    let second = rig.model.last();
    assert_eq!(second.system, first.system);
    assert_eq!(second.messages[..first.messages.len()], first.messages[..]);
    rig.ask("1", "/new").await;
    let begins = shown(&mut rig, (OWNER, "1"), "hello").await;
    assert!(begins.contains("water the figs") && begins.contains("feed the crab"), "{begins}");
    // The system prompt is the same for both conversations.
    assert_eq!(rig.model.last().system, first.system);
    rig.finish().await;
}

#[tokio::test]
async fn what_others_may_have_written_is_only_counted() {
    let mut rig = prepared().await;
    rig.execute("UPDATE jobs SET tainted = 1; UPDATE facts SET sources = '[\"unknown\"]';");
    rig.execute("UPDATE proposals SET sources = json('[\"unknown\"]')");
    rig.ask("1", "/new").await;
    let begins = shown(&mut rig, (OWNER, "1"), "hello").await;
    assert!(!begins.contains(BEGINS) && !begins.contains("figs"), "{begins}");
    rig.ask("1", "/jobs message 4h | feed the crab").await;
    rig.ask("1", "/new").await;
    let begins = shown(&mut rig, (OWNER, "1"), "hello").await;
    assert!(
        begins.contains("feed the crab") && begins.contains("2 more with untrusted content"),
        "{begins}"
    );
    assert!(!begins.contains("figs") && !begins.contains("Tidy"), "{begins}");
    rig.finish().await;
}

#[tokio::test]
async fn nobody_else_and_no_group_is_shown_it() {
    let mut rig = prepared().await;
    for at in [(USER, "2"), (OTHER_USER, "9"), (OWNER, "-3"), (USER, "-3")] {
        let begins = shown(&mut rig, at, "hello").await;
        assert!(!begins.contains(BEGINS), "{at:?}: {begins}");
    }
    rig.say_as(USER, "2", "/jobs message 3h | call Zoe");
    rig.next_message("2").await;
    rig.say_as(USER, "2", "/new");
    rig.next_message("2").await;
    let theirs = shown(&mut rig, (USER, "2"), "hello").await;
    assert!(theirs.contains("call Zoe") && !theirs.contains("figs"), "{theirs}");
    // The owner is not shown what others plan.
    rig.ask("1", "/new").await;
    let begins = shown(&mut rig, (OWNER, "1"), "hello").await;
    assert!(!begins.contains("Zoe"), "{begins}");
    rig.finish().await;
}

#[tokio::test]
async fn it_is_short_and_compact_prompts_have_none() {
    let mut rig = Rig::new().await;
    for n in 0..30 {
        rig.ask("1", &format!("/jobs message 3h | {n} {}", "water the figs ".repeat(40))).await;
    }
    let begins = shown(&mut rig, (OWNER, "1"), "hello").await;
    let lines: Vec<_> = begins.lines().filter(|line| line.starts_with("- due ")).collect();
    assert!((1..=4).contains(&lines.len()), "{begins}");
    assert!(lines.iter().all(|line| line.chars().count() < 140), "{begins}");
    rig.finish().await;
    let model = crate::support::script::ScriptedModel::with_room(6_000);
    let mut rig =
        Rig::at_rest(crate::support::fake_channel::FakeChannel::new(), RigOptions::default());
    rig.model = model;
    rig.start().await;
    rig.ask("1", "/jobs message 3h | water the figs").await;
    let begins = shown(&mut rig, (OWNER, "1"), "hello").await;
    assert!(!begins.contains(BEGINS), "{begins}");
    rig.finish().await;
}

#[tokio::test]
async fn a_compacted_conversation_and_one_of_an_older_version_begin_anew() {
    let mut rig = prepared().await;
    rig.stop().await;
    rig.execute("UPDATE sessions SET frozen = json_remove(frozen, '$.has_snapshot')");
    rig.start().await;
    let begins = shown(&mut rig, (OWNER, "1"), "hello").await;
    assert!(begins.contains("water the figs"), "{begins}");
    for said in ["one", "two", "three"] {
        rig.ask("1", said).await;
    }
    rig.model.on("[The record of what came after it:]", [says("They spoke.")]);
    assert!(rig.ask("1", "/compact").await.contains("summary"));
    let begins = shown(&mut rig, (OWNER, "1"), "hello again").await;
    assert!(begins.contains(BEGINS) && begins.contains("water the figs"), "{begins}");
    rig.finish().await;
}

/// Replaces a fact and a turn of the open conversation in one transaction: both say this number.
fn set_state(store: &Connection, number: usize) {
    let noted = "(SELECT id FROM turns WHERE noted = 1)";
    store
        .execute_batch(&format!(
            "BEGIN IMMEDIATE;
             UPDATE facts SET text = 'state {number}';
             DELETE FROM steps WHERE turn IN {noted};
             DELETE FROM turns WHERE noted = 1;
             INSERT INTO turns (session, sender, attempts, provider, started, ended, ending, noted)
                 SELECT session, sender, 1, provider, started, started, '\"answered\"', 1 FROM turns
                 WHERE id = (SELECT min(id) FROM turns);
             INSERT INTO steps (turn, seq, input, sources, text, thinking)
                 SELECT last_insert_rowid(), 0, input, sources, 'state {number}', '[]' FROM steps
                 WHERE turn = (SELECT min(id) FROM turns) AND seq = 0;
             COMMIT;"
        ))
        .unwrap();
}

/// The number that stands after some words for the last time.
fn last_state<'a>(messages: impl Iterator<Item = &'a String>, before: &str) -> Option<usize> {
    let texts = messages.filter_map(|text| text.rsplit_once(before)).map(|(_, rest)| rest);
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    texts.last().map(|text| digits(text).parse().unwrap())
}

#[tokio::test]
async fn history_and_facts_of_a_prompt_are_of_one_state_of_the_store() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.ask("1", "/remember state 0").await;
    let store = Connection::open(rig.path().join("state.db")).unwrap();
    store.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    store.pragma_update(None, "synchronous", "off").unwrap();
    set_state(&store, 0);
    let mut numbers = Vec::new();
    for turn in 0..40 {
        rig.say("1", &format!("message {turn}"));
        // The state changes while the turn begins.
        for change in 0..8 {
            set_state(&store, 1 + turn * 8 + change);
            tokio::task::yield_now().await;
        }
        rig.next_message("1").await;
        let messages = rig.model.last().messages;
        let in_history = last_state(messages.iter(), "assistant: state ");
        let in_facts = last_state(messages.iter(), "added: state ");
        assert_eq!(in_history, in_facts, "{messages:?}");
        numbers.extend(in_history);
    }
    numbers.dedup();
    assert!(numbers.len() > 10, "{numbers:?}");
    rig.finish().await;
}
