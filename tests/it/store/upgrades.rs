//! A store of each former version becomes one of this version: the same tables as a new one, with everything that was in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use peacrab::store::{
    MigrationObserver, MigrationProgress, MigrationStep, Store, StoreOptions, read_offline,
};
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::support::binary::ProgramFixture;
use crate::support::fake_channel::FakeChannel;
use crate::support::former_store::{
    BASE, FACTS, OLDEST_BACK, go_back, make_store, make_store_of_household, newest, script,
    script_name,
};
use crate::support::rig::{Rig, RigOptions};

/// The tables, indices and triggers of a store, without the spaces of their definitions.
fn definitions(home: &Path) -> BTreeMap<String, String> {
    let store = Connection::open(home.join("state.db")).unwrap();
    let mut rows = store.prepare("SELECT name, ifnull(sql, '') FROM sqlite_schema").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).unwrap();
    let squeezed = rows.map(Result::unwrap).map(|(name, sql): (String, String)| {
        (name, sql.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    squeezed.collect()
}

#[tokio::test]
async fn a_store_of_each_former_version_becomes_like_a_new_one_and_keeps_what_was_said() {
    let fresh = TempDir::new().unwrap();
    drop(Store::open(fresh.path(), &StoreOptions::default()).unwrap());
    let store = Connection::open(fresh.path().join("state.db")).unwrap();
    let present: u32 = store.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(present, newest());
    let expected = definitions(fresh.path());
    for version in BASE..=newest() {
        let home = TempDir::new().unwrap();
        make_store_of_household(home.path(), version);
        drop(Store::open(home.path(), &StoreOptions::default()).unwrap());
        assert_eq!(definitions(home.path()), expected, "version {version}");
        let store = Connection::open(home.path().join("state.db")).unwrap();
        let one = |sql: &str| store.query_row(sql, [], |row| row.get::<_, String>(0));
        assert_eq!(one("PRAGMA integrity_check").unwrap(), "ok", "version {version}");
        assert!(
            one("PRAGMA foreign_key_check").is_err(),
            "version {version}: a row points nowhere"
        );

        // A daemon goes on with it.
        drop(store);
        let mut rig = Rig::at_rest(FakeChannel::with(false, 4_000), RigOptions::default());
        make_store_of_household(&rig.path(), version);
        rig.start().await;
        let owed = rig.next_message("1").await;
        assert_eq!(owed, "I still owe you this.", "version {version}");
        assert_eq!(rig.ask("1", "and now?").await, "re: and now?", "version {version}");
        let transcript = rig.model.last().transcript();
        assert!(
            transcript.contains("what is in it?") && transcript.contains("a crab"),
            "version {version}: {transcript}"
        );
        let jobs = rig.ask("1", "/jobs").await;
        assert!(jobs.contains("Order the tea."), "version {version}: {jobs}");
        if version >= FACTS {
            let facts = rig.ask("1", "/memory").await;
            assert!(facts.contains("tea with lemon"), "version {version}: {facts}");
        }
        rig.say_as("55", "5", "who am I?");
        assert_eq!(rig.next_message("5").await, "re: who am I?", "version {version}");
        rig.finish().await;
    }
}

#[test]
fn a_store_that_is_taken_back_to_a_former_version_becomes_like_a_new_one_again() {
    let fresh = TempDir::new().unwrap();
    drop(Store::open(fresh.path(), &StoreOptions::default()).unwrap());
    let expected = definitions(fresh.path());
    for version in OLDEST_BACK..newest() {
        let home = TempDir::new().unwrap();
        make_store_of_household(home.path(), newest());
        let store = Connection::open(home.path().join("state.db")).unwrap();
        go_back(&store, version);
        drop(store);
        drop(Store::open(home.path(), &StoreOptions::default()).unwrap());
        assert_eq!(definitions(home.path()), expected, "version {version}");
    }
}

/// A task of each kind with what hangs on one, as version 33 has them.
const TASKS: &str = r#"
    INSERT INTO tasks (id, kind, number, channel, chat, begun, state, details)
        VALUES (1, 'subagent', 4, 'home', '1', 1, 'done', '{}'),
               (2, 'heartbeat', 5, 'home', '1', 2, 'running', '{}');
    INSERT INTO task_messages (task, channel, chat, words, tainted) VALUES (2, 'home', '1', 'hello', 0);
    INSERT INTO sessions (channel, chat, thread, chat_kind, opened, kind)
        VALUES ('(heartbeat)', '5', 'home', '"private"', 2, 'heartbeat')"#;

#[test]
fn tasks_stay_when_the_store_no_longer_checks_their_kinds() {
    let home = TempDir::new().unwrap();
    make_store(home.path(), 33);
    let store = Connection::open(home.path().join("state.db")).unwrap();
    store.execute_batch(TASKS).unwrap();
    drop(store);
    drop(Store::open(home.path(), &StoreOptions::default()).unwrap());

    let store = Connection::open(home.path().join("state.db")).unwrap();
    let mut rows = store.prepare("SELECT kind || ' ' || number FROM tasks ORDER BY id").unwrap();
    let rows: Vec<String> = rows.query_map([], |row| row.get(0)).unwrap().flatten().collect();
    assert_eq!(rows, ["subagent 4", "heartbeat 5"]);
    let kept = "SELECT words FROM task_messages WHERE task = 2";
    assert_eq!(store.query_row(kept, [], |row| row.get::<_, String>(0)).unwrap(), "hello");
    let again = "INSERT INTO sessions (channel, chat, thread, chat_kind, opened, kind)
        VALUES ('(heartbeat)', '5', 'home', '\"private\"', 3, 'heartbeat')";
    assert!(store.execute(again, []).is_err(), "a task has one open session");
}

/// A row for each column that version 37 renames, as version 36 has them. The second message waits behind the first.
const FORMER_NAMES: &str = r#"
    INSERT INTO turns (id, session, sender, attempts, provider, started, parked, wait_told)
        VALUES (2, 1, '{"id": "7", "name": "Person 7"}', 0, 'script', 2, 1, 'at home');
    INSERT INTO outbox (id, channel, chat, body, created, state, next) VALUES
        (1, 'home', '1', '{"text": "one"}', 1, 'pending', 0), (2, 'home', '1', '{"text": "two"}', 1, 'pending', 0),
        (3, 'home', '1', '{"text": "three"}', 1, 'pending', 0);
    UPDATE outbox SET aside = 1 WHERE id = 1;
    INSERT INTO chunks (delivery, seq, body, state, doubts) VALUES (1, 0, '{"text": "one"}', 'sending', 2);
    INSERT INTO strangers (channel, sender, name, chat, asked, told) VALUES ('home', '9', 'Eve', '9', 3, 4);
    INSERT INTO heart (one, off, after) VALUES (1, 'by hand', 5)"#;

#[test]
fn renamed_columns_keep_their_values_and_triggers_follow_them() {
    let home = TempDir::new().unwrap();
    make_store(home.path(), 36);
    let store = Connection::open(home.path().join("state.db")).unwrap();
    store.execute_batch(FORMER_NAMES).unwrap();
    drop(store);
    drop(Store::open(home.path(), &StoreOptions::default()).unwrap());

    let store = Connection::open(home.path().join("state.db")).unwrap();
    let one = |sql: &str| store.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    for (sql, expected) in [
        ("SELECT input FROM steps WHERE turn = 1 AND seq = 0", "what is in it?"),
        ("SELECT suspended || ' ' || wait_notified FROM turns WHERE id = 2", "1 at home"),
        ("SELECT ambiguous_sends || '' FROM chunks", "2"),
        ("SELECT group_concat(lets_others_pass || head) FROM outbox", "11,01,00"),
        ("SELECT answered_at || '' FROM strangers", "4"),
        ("SELECT off || ' ' || after FROM heartbeat_state", "by hand 5"),
    ] {
        assert_eq!(one(sql), expected, "{sql}");
    }
    // The next one of the chat may be sent, too, when this one lets others pass.
    store.execute("UPDATE outbox SET lets_others_pass = 1 WHERE id = 2", []).unwrap();
    assert_eq!(one("SELECT group_concat(head) FROM outbox"), "1,1,1");
    let newer = "INSERT INTO outbox (channel, chat, body, created, state, next)
        VALUES ('home', '1', '{}', 1, 'pending', 0)";
    store.execute(newer, []).unwrap();
    assert_eq!(one("SELECT group_concat(head) FROM outbox"), "1,1,1,0");
}

#[test]
fn a_read_of_a_store_that_no_daemon_has_migrated_yet_says_what_to_do() {
    let home = TempDir::new().unwrap();
    make_store(home.path(), 36);
    let read = |sql: &'static str| {
        read_offline(home.path(), |store| store.query_row(sql, [], |row| row.get::<_, i64>(0)))
    };
    // What the former version has as well can be read.
    assert_eq!(read("SELECT count(*) FROM turns").unwrap(), Some(1));
    let newer = "SELECT count(*) FROM turns WHERE suspended = 0";
    let words = read(newer).unwrap_err().to_string();
    let words = words.replace(&home.path().display().to_string(), "HOME");
    assert!(
        words.starts_with("HOME/state.db was written by an older peacrab (schema 36"),
        "{words}"
    );
    assert!(words.ends_with("start the daemon once, which brings it up to date"), "{words}");
    drop(Store::open(home.path(), &StoreOptions::default()).unwrap());
    assert_eq!(read(newer).unwrap(), Some(1));
    let broken = read("SELECT nothing FROM turns").unwrap_err().to_string();
    assert!(!broken.contains("an older peacrab"), "{broken}");
}

#[tokio::test]
async fn commands_that_only_show_something_leave_an_older_store_as_it_is() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let path = fixture.home().join("state.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 36).unwrap();
    for command in [
        &["sessions"] as &[&str],
        &["sessions", "search", "tea"],
        &["people"],
        &["people", "p1"],
        &["people", "--json"],
        &["memory"],
        &["heartbeat"],
        &["why", "1"],
        &["budget"],
        &["budget", "--json"],
    ] {
        let ended = fixture.run(command).await;
        assert_eq!(ended.code, Some(1), "{command:?}: {ended:?}");
        let words = "was written by an older peacrab (schema 36";
        assert!(ended.err.contains(words), "{command:?}: {ended:?}");
        let store = Connection::open(&path).unwrap();
        let version = store.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0));
        assert_eq!(version.unwrap(), 36, "{command:?}");
    }
}

/// The scripts' sums, in the format of `sha256sum`.
const SUMS: &str = include_str!("scripts.sha256");

#[test]
fn a_script_that_stores_were_made_by_does_not_change() {
    let mut known = BTreeMap::new();
    for line in SUMS.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        known.insert(name, sum);
    }
    for version in BASE.. {
        let Some(text) = script(version) else { break };
        let name = script_name(version);
        let sum: String = Sha256::digest(text).iter().map(|it| format!("{it:02x}")).collect();
        let was = known.remove(&*name);
        assert_eq!(
            was,
            Some(&*sum),
            "{name}: make a new script, and add its sum to scripts.sha256"
        );
    }
    assert!(known.is_empty(), "these are gone: {known:?}");
}

#[test]
fn a_migration_reports_its_progress_and_a_new_store_reports_nothing() {
    let seen = Arc::<Mutex<Vec<MigrationProgress>>>::default();
    let into = Arc::clone(&seen);
    let report: MigrationObserver = Arc::new(move |progress| into.lock().unwrap().push(progress));
    let options = StoreOptions { migration: Some(report), ..StoreOptions::default() };
    let home = TempDir::new().unwrap();
    drop(Store::open(home.path(), &options).unwrap());
    assert!(seen.lock().unwrap().is_empty());
    let home = TempDir::new().unwrap();
    make_store(home.path(), BASE);
    drop(Store::open(home.path(), &options).unwrap());
    let seen = seen.lock().unwrap();
    let reached: Vec<_> = seen.iter().map(|progress| progress.reached).collect();
    assert_eq!(reached, (BASE..=newest()).collect::<Vec<_>>());
    let steps: Vec<_> = seen.iter().map(|progress| progress.step()).collect();
    let of = newest() - BASE;
    let expected = (1..=of).chain([of]).map(|number| MigrationStep { number, of });
    assert_eq!(steps, expected.collect::<Vec<_>>());
}
