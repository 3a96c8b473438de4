//! Rows that cannot be read or that fail each time: each is closed alone, with words to its person, and
//! everything else goes on.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use peacrab::bus::journal;
use peacrab::config::AgentConfig;
use peacrab::conversation::asks::ApprovalSettings;
use peacrab::conversation::sessions::Retention;
use peacrab::daemon::prune_rows;
use peacrab::replies;
use peacrab::store::{Store, StoreOptions};
use serde_json::json;

use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{Gate, Reply, calls, held, says};

/// What no version has written.
const UNREADABLE: &str = r#"{"written": "by another version"}"#;

/// Adds a copy of the first row of the journal that waits, with another message.
fn add_row(rig: &Rig, key: &str, message: &str, change: &str) {
    rig.execute(&format!(
        "INSERT INTO inbound (key, received, channel, chat, thread, sender, control, message, state)
         SELECT '{key}', received, channel, chat, thread, sender, control, {message}, 'waiting'
         FROM inbound ORDER BY id LIMIT 1;
         UPDATE inbound SET {change} WHERE key = '{key}'"
    ));
}

async fn spoken_to() -> Rig {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.stop().await;
    rig
}

#[tokio::test]
async fn answers_a_message_that_another_version_wrote_down_differently() {
    let mut rig = spoken_to().await;
    add_row(&rig, "again", r#"replace(message, '{"key"', '{ "key"')"#, "state = 'waiting'");
    rig.start().await;
    assert_eq!(rig.next_message("1").await, "re: hello");
    rig.finish().await;
}

#[tokio::test]
async fn closes_messages_that_cannot_be_read_alone_and_tells_their_person() {
    let mut rig = spoken_to().await;
    let message = format!("'{UNREADABLE}'");
    add_row(&rig, "broken", &message, "ready = 0");
    add_row(&rig, "a command", &message, "chat = '2', control = 1");
    rig.start().await;
    assert_eq!(rig.next_message("1").await, replies::MESSAGE_UNREADABLE);
    assert_eq!(rig.next_message("2").await, replies::MESSAGE_UNREADABLE);
    let kept = "SELECT key || ' ' || raw FROM unreadable WHERE why <> '' ORDER BY key";
    assert_eq!(
        rig.query(kept),
        [format!("a command {UNREADABLE}"), format!("broken {UNREADABLE}")]
    );
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

/// One byte of a row was changed, so that it is no JSON.
const NO_JSON: &str = r#"{"id": x"#;

#[tokio::test]
async fn a_message_that_is_no_json_stops_no_other_and_is_deleted_with_its_time() {
    let mut rig = spoken_to().await;
    add_row(&rig, "waits", &format!("'{NO_JSON}'"), "state = 'waiting'");
    add_row(&rig, "is done", &format!("'{NO_JSON}'"), "state = 'done'");
    rig.start().await;
    assert_eq!(rig.next_message("1").await, replies::MESSAGE_UNREADABLE);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.settled().await;
    rig.stop().await;
    let store = Store::open(&rig.path(), &StoreOptions::default()).unwrap();
    let read = |store: &rusqlite::Connection| {
        let heard = journal::last_heard(store, &"home".into(), Utc::now() - TimeDelta::days(1))?;
        Ok((journal::newest_of_platforms(store)?, heard.len()))
    };
    let (newest, heard) = store.read(read).await.unwrap();
    assert!(newest.is_some());
    assert_eq!(heard, 1);
    let later = Utc::now() + TimeDelta::days(100);
    prune_rows(&store, later, Retention::default()).await.unwrap();
    store.close().await;
    assert_eq!(rig.query("SELECT key FROM inbound"), Vec::<String>::new());
    rig.start().await;
    assert_eq!(rig.ask("1", "hello again").await, "re: hello again");
    rig.finish().await;
}

#[tokio::test]
async fn closes_a_turn_that_cannot_be_read_alone_and_tells_its_person() {
    let mut rig = spoken_to().await;
    rig.execute(&format!(
        "UPDATE turns SET ending = NULL, ended = NULL, sender = '{UNREADABLE}';
         UPDATE inbound SET state = 'in turn', outcome = NULL"
    ));
    rig.start().await;
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    assert_eq!(rig.next_message("1").await, replies::TURN_UNREADABLE);
    let kept =
        rig.query("SELECT json_extract(raw, '$.sender') FROM unreadable WHERE key = 'turn 1'");
    assert_eq!(kept, [UNREADABLE]);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_goes_on_without_what_of_it_cannot_be_read() {
    let mut rig = spoken_to().await;
    rig.execute(
        "UPDATE turns SET sender = 'no JSON';
         UPDATE steps SET thinking = 'no JSON', images = 'no JSON';
         UPDATE sessions SET chat_kind = 'no JSON', frozen = 'no JSON';
         INSERT INTO calls (turn, step, wire_id, tool, arguments, state, undo, images, started, ended)
         VALUES (1, 0, 'w', 'write_file', '{}', 'done', 'no JSON', 'no JSON', 1, 1),
                (1, 0, 'v', 'write_file', '{}', 'running', NULL, NULL, 1, 1)",
    );
    rig.start().await;
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    assert!(rig.model.last().transcript().contains("hello"));
    assert!(rig.ask("1", "/actions").await.contains("write_file"));
    assert_eq!(rig.ask("1", "/stop").await, replies::NOTHING_TO_STOP);
    rig.execute("DELETE FROM calls");
    rig.finish().await;
}

#[tokio::test]
async fn tells_the_owner_if_what_the_rules_were_cannot_be_read_and_answers_everybody() {
    let mut rig = spoken_to().await;
    rig.execute(&format!(
        "INSERT INTO rule_watch (one, rules, whole, since, actor) VALUES (1, '{{}}', 1, 1, '{UNREADABLE}')"
    ));
    rig.start().await;
    assert_eq!(rig.next_message("1").await, replies::INSTRUCTIONS_UNREADABLE);
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    let kept =
        rig.query("SELECT json_extract(raw, '$.actor') FROM unreadable WHERE key LIKE 'rules %'");
    assert_eq!(kept, [UNREADABLE]);
    rig.finish().await;
}

#[tokio::test]
async fn a_command_that_fails_each_time_holds_up_only_what_was_said_after_it() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.execute(
        "CREATE TRIGGER stays BEFORE UPDATE OF closed ON sessions BEGIN SELECT raise(ABORT, 'stays'); END",
    );
    rig.say("1", "/new");
    rig.say("1", "and now?");
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    assert!(rig.ask("2", "/whoami").await.contains("owner"));
    assert_eq!(rig.unread("1"), Vec::<String>::new());
    assert_eq!(rig.next_message("1").await, replies::COMMAND_FAILED);
    assert_eq!(rig.next_message("1").await, "re: and now?");
    assert_eq!(rig.query("SELECT why FROM unreadable"), ["the database failed (stays)"]);
    rig.finish().await;
}

#[tokio::test]
async fn a_message_that_no_turn_can_begin_with_is_closed_alone() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.execute(
        "CREATE TRIGGER none BEFORE INSERT ON turns WHEN NEW.session = 1
         BEGIN SELECT raise(ABORT, 'none'); END",
    );
    rig.say("1", "and now?");
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    assert_eq!(rig.next_message("1").await, replies::MESSAGE_FAILED);
    assert_eq!(rig.ask("1", "/new").await, replies::NEW_SESSION);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

/// No turn can take a message that says *bad*.
const BAD: &str = "CREATE TRIGGER bad BEFORE UPDATE OF state ON inbound
    WHEN NEW.state = 'in turn' AND NEW.message LIKE '%\"bad\"%'
    BEGIN SELECT raise(ABORT, 'bad'); END";

#[tokio::test]
async fn of_messages_that_begin_a_turn_together_only_the_one_that_fails_is_closed() {
    let mut rig = Rig::new().await;
    rig.ask("1", "/queue collect").await;
    let gate = Gate::shut();
    rig.model.on("wait", [held(&gate, says("done"))]);
    rig.say("1", "wait");
    rig.wait_at(&gate).await;
    rig.execute(BAD);
    for text in ["one", "bad", "three"] {
        rig.say("1", text);
    }
    rig.waiting(3).await;
    gate.open();
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    let heard = rig.next_messages("1", 4).await;
    assert_eq!(heard, ["done", "re: one", replies::MESSAGE_FAILED, "re: three"]);
    let kept = rig.query("SELECT why FROM unreadable WHERE raw LIKE '%\"bad\"%'");
    assert_eq!(kept, ["the database failed (bad)"]);
    // Later ones are collected again.
    rig.execute("DROP TRIGGER bad");
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn a_message_that_fails_while_a_turn_works_does_not_end_the_turn() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    let looks = calls(&[("list_files", json!({"path": "."}))]);
    rig.model.on("wait", [held(&gate, looks), says("done")]);
    rig.say("1", "wait");
    rig.wait_at(&gate).await;
    rig.execute(BAD);
    rig.say("1", "bad");
    rig.say("1", "good");
    rig.waiting(2).await;
    gate.open();
    let heard = rig.next_messages("1", 3).await;
    assert_eq!(heard, ["done", replies::MESSAGE_FAILED, "re: good"]);
    rig.finish().await;
}

fn asks() -> Reply {
    calls(&[("ask_question", json!({"question": "Which?", "choices": ["red", "blue"]}))])
}

/// What was kept of the question, and why.
fn kept_question(rig: &Rig) -> Vec<String> {
    rig.query(
        "SELECT json_extract(raw, '$.kind') || ': ' || why FROM unreadable WHERE key = 'ask 1'",
    )
}

#[tokio::test]
async fn a_question_whose_answer_cannot_be_kept_is_closed_alone() {
    let mut rig = Rig::new().await;
    rig.model.on("paint", [asks()]);
    assert_eq!(rig.ask("1", "paint it").await, "Which?");
    rig.execute(
        "CREATE TRIGGER broken BEFORE UPDATE ON calls BEGIN SELECT raise(ABORT, 'broken'); END",
    );
    rig.say("1", "blue");
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    let closed = replies::closed("Which?", replies::NO_LONGER_NEEDED);
    assert_eq!(rig.next_messages("1", 3).await, [&*closed, replies::ASK_FAILED, "re: blue"]);
    assert_eq!(kept_question(&rig), ["question: the database failed (broken)"]);
    rig.execute("DROP TRIGGER broken; UPDATE calls SET state = 'skipped'");
    rig.finish().await;
}

#[tokio::test]
async fn a_question_that_cannot_be_ended_in_time_is_closed_alone() {
    let asking = ApprovalSettings {
        question_time: Duration::from_millis(200),
        ..ApprovalSettings::default()
    };
    let agent = AgentConfig { asking, ..AgentConfig::default() };
    let mut rig = Rig::of(RigOptions { agent, ..RigOptions::default() }).await;
    rig.execute(
        "CREATE TRIGGER broken BEFORE UPDATE OF state ON asks WHEN NEW.state = 'expired'
         BEGIN SELECT raise(ABORT, 'broken'); END",
    );
    rig.model.on("paint", [asks()]);
    assert_eq!(rig.ask("1", "paint it").await, "Which?");
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    let closed = replies::closed("Which?", replies::NO_LONGER_NEEDED);
    assert_eq!(rig.next_messages("1", 2).await, [&*closed, replies::ASK_FAILED]);
    assert_eq!(kept_question(&rig), ["question: the database failed (broken)"]);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}
