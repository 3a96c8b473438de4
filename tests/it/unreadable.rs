//! Rows that cannot be read or that fail each time: each is closed alone, with words to its person, and
//! everything else goes on.

use peacrab::replies;

use crate::support::rig::Rig;

/// What no version has written.
const UNREADABLE: &str = r#"{"written": "by another version"}"#;

/// Adds a copy of the first row of the journal that waits, with another message.
fn add_row(rig: &Rig, key: &str, message: &str, change: &str) {
    rig.change(&format!(
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
    assert_eq!(rig.hear("1").await, "re: hello");
    rig.finish().await;
}

#[tokio::test]
async fn closes_messages_that_cannot_be_read_alone_and_tells_their_person() {
    let mut rig = spoken_to().await;
    let message = format!("'{UNREADABLE}'");
    add_row(&rig, "broken", &message, "ready = 0");
    add_row(&rig, "a command", &message, "chat = '2', control = 1");
    rig.start().await;
    assert_eq!(rig.hear("1").await, replies::MESSAGE_UNREADABLE);
    assert_eq!(rig.hear("2").await, replies::MESSAGE_UNREADABLE);
    let kept = "SELECT key || ' ' || raw FROM unreadable WHERE why <> '' ORDER BY key";
    assert_eq!(rig.look(kept), [format!("a command {UNREADABLE}"), format!("broken {UNREADABLE}")]);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn closes_a_turn_that_cannot_be_read_alone_and_tells_its_person() {
    let mut rig = spoken_to().await;
    rig.change(&format!(
        "UPDATE turns SET ending = NULL, ended = NULL, sender = '{UNREADABLE}';
         UPDATE inbound SET state = 'in turn', outcome = NULL"
    ));
    rig.start().await;
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    assert_eq!(rig.hear("1").await, replies::TURN_UNREADABLE);
    let kept =
        rig.look("SELECT json_extract(raw, '$.sender') FROM unreadable WHERE key = 'turn 1'");
    assert_eq!(kept, [UNREADABLE]);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn a_conversation_goes_on_without_what_of_it_cannot_be_read() {
    let mut rig = spoken_to().await;
    rig.change(
        "UPDATE turns SET sender = 'no JSON';
         UPDATE steps SET thinking = 'no JSON', images = 'no JSON';
         UPDATE sessions SET place = 'no JSON', frozen = 'no JSON';
         INSERT INTO calls (turn, step, wire_id, tool, arguments, state, undo, images, started, ended)
         VALUES (1, 0, 'w', 'write_file', '{}', 'done', 'no JSON', 'no JSON', 1, 1),
                (1, 0, 'v', 'write_file', '{}', 'running', NULL, NULL, 1, 1)",
    );
    rig.start().await;
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    assert!(rig.model.last().transcript().contains("hello"));
    assert!(rig.ask("1", "/actions").await.contains("write_file"));
    assert_eq!(rig.ask("1", "/stop").await, replies::NOTHING_TO_STOP);
    rig.change("DELETE FROM calls");
    rig.finish().await;
}

#[tokio::test]
async fn tells_the_owner_if_what_the_rules_were_cannot_be_read_and_answers_everybody() {
    let mut rig = spoken_to().await;
    rig.change(&format!(
        "INSERT INTO rule_watch (one, rules, whole, since, actor) VALUES (1, '{{}}', 1, 1, '{UNREADABLE}')"
    ));
    rig.start().await;
    assert_eq!(rig.hear("1").await, replies::RULES_UNREADABLE);
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    let kept =
        rig.look("SELECT json_extract(raw, '$.actor') FROM unreadable WHERE key LIKE 'rules %'");
    assert_eq!(kept, [UNREADABLE]);
    rig.finish().await;
}

#[tokio::test]
async fn a_command_that_fails_each_time_holds_up_only_what_was_said_after_it() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.change(
        "CREATE TRIGGER stays BEFORE UPDATE OF closed ON sessions BEGIN SELECT raise(ABORT, 'stays'); END",
    );
    rig.say("1", "/new");
    rig.say("1", "and now?");
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    assert!(rig.ask("2", "/whoami").await.contains("owner"));
    assert_eq!(rig.unread("1"), Vec::<String>::new());
    assert_eq!(rig.hear("1").await, replies::COMMAND_FAILED);
    assert_eq!(rig.hear("1").await, "re: and now?");
    assert_eq!(rig.look("SELECT why FROM unreadable"), ["the database failed (stays)"]);
    rig.finish().await;
}

#[tokio::test]
async fn a_message_that_no_turn_can_begin_with_is_closed_alone() {
    let mut rig = Rig::new().await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.change(
        "CREATE TRIGGER none BEFORE INSERT ON turns WHEN NEW.session = 1
         BEGIN SELECT raise(ABORT, 'none'); END",
    );
    rig.say("1", "and now?");
    assert_eq!(rig.ask("2", "are you there?").await, "re: are you there?");
    assert_eq!(rig.hear("1").await, replies::MESSAGE_FAILED);
    assert_eq!(rig.ask("1", "/new").await, replies::NEW_SESSION);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}
