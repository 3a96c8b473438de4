//! What a turn works for, as it stands in the store and in events: rows that an older version wrote stay readable.

use peacrab::bus::journal::{origin_params, read_origin};
use peacrab::types::message::Address;
use peacrab::types::origin::{Origin, TaskId, TaskKind};
use rusqlite::{Connection, params};
use serde_json::json;

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
