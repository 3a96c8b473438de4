//! What a turn works for, as it stands in the store and in events: rows that an older version wrote stay readable.

use peacrab::bus::journal::{author_param, origin_params, read_origin};
use peacrab::store::{Store, StoreOptions};
use peacrab::tasks::heartbeat;
use peacrab::types::message::{Address, ChatKind, Inbound, MessageAuthor};
use peacrab::types::origin::{Origin, TaskId, TaskKind};
use rusqlite::{Connection, params};
use serde_json::json;
use tempfile::tempdir;

fn address(channel: &str, chat: &str, thread: Option<&str>) -> Origin {
    let thread = thread.map(Into::into);
    Origin::Chat(Address { channel: channel.into(), chat: chat.into(), thread })
}

/// Reads what stands in the three columns of a row.
fn read(columns: (&str, &str, Option<&str>)) -> Origin {
    let store = Connection::open_in_memory().unwrap();
    let (channel, chat, thread) = columns;
    store.query_row("SELECT ?, ?, ?", params![channel, chat, thread], read_origin).unwrap()
}

#[test]
fn an_origin_is_read_back_as_it_was_stored() {
    let mut origins = vec![address("home", "1", None), address("home", "-5", Some("7"))];
    for kind in TaskKind::ALL {
        origins.push(TaskId::new(*kind, 12).origin(&"home".into()));
    }
    for origin in origins {
        let (channel, chat, thread) = origin_params(&origin);
        assert_eq!(read((&channel, &chat, thread)), origin);
    }
}

#[test]
fn rows_of_an_older_version_are_of_the_tasks_that_they_name() {
    for (columns, kind) in [
        (("(subagent)", "3", Some("home")), TaskKind::Subagent),
        (("(job)", "3", Some("home")), TaskKind::Job),
        (("(heartbeat)", "3", Some("home")), TaskKind::Heartbeat),
    ] {
        let origin = read(columns);
        assert_eq!(origin, TaskId::new(kind, 3).origin(&"home".into()));
        assert_eq!(origin.channel().as_str(), "home");
        assert_eq!(origin.chat(), None);
    }
}

#[test]
fn a_speaker_is_stored_as_in_an_older_version() {
    for (voice, stored) in [
        (MessageAuthor::Person("7".into()), "7"),
        (MessageAuthor::Task { kind: TaskKind::Job, number: Some(7) }, "(job):7"),
        (MessageAuthor::Task { kind: TaskKind::Heartbeat, number: None }, "(heartbeat)"),
    ] {
        assert_eq!(author_param(&voice), stored);
    }
}

#[test]
fn what_names_no_task_is_an_address() {
    for columns in [("job", "3", Some("home")), ("(other)", "3", None), ("(job)", "x", None)] {
        let (channel, chat, thread) = columns;
        assert_eq!(read(columns), address(channel, chat, thread));
    }
}

#[test]
fn an_address_is_told_as_before_in_json() {
    let chat = address("home", "1", Some("7"));
    let told = json!({ "channel": "home", "chat": "1", "thread": "7" });
    assert_eq!(serde_json::to_value(&chat).unwrap(), told);
    assert_eq!(serde_json::from_value::<Origin>(told).unwrap(), chat);
    let task = TaskId::new(TaskKind::Job, 3).origin(&"home".into());
    let told = serde_json::to_value(&task).unwrap();
    assert_eq!(serde_json::from_value::<Origin>(told).unwrap(), task);
}

#[test]
fn the_kind_of_a_chat_is_read_under_its_former_name() {
    let former = json!({
        "key": "k", "at": "2026-07-17T09:05:00Z", "place": "private",
        "from": { "channel": "home", "chat": "1", "thread": null },
        "cause": { "person": { "id": "7", "name": "Ada" } }, "id": null, "body": { "text": "hello" },
    });
    let inbound: Inbound = serde_json::from_value(former).unwrap();
    assert_eq!(inbound.chat_kind, ChatKind::Private);
    assert_eq!(serde_json::to_value(inbound).unwrap()["chat_kind"], "private");
}

#[tokio::test]
async fn a_heartbeat_run_of_an_older_version_stays_in_private() {
    let home = tempdir().unwrap();
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    drop(store);
    let former = Connection::open(home.path().join("state.db")).unwrap();
    let details = json!({ "known_on": "home", "place": "private", "asked": true });
    former
        .execute(
            "INSERT INTO tasks (kind, number, channel, chat, begun, state, details)
             VALUES ('heartbeat', 1, 'home', '1', 5, 'running', ?)",
            [details.to_string()],
        )
        .unwrap();
    let at = Address { channel: "home".into(), chat: "1".into(), thread: None };
    let run = heartbeat::running_for(&former, &at).unwrap().unwrap();
    assert_eq!((run.chat_kind, run.asked), (ChatKind::Private, true));
}
