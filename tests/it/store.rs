//! The store when it fails, and the clear words when it cannot be used at all.

mod emptied;
mod linked;
mod lost_log;
mod trouble;
mod upgrades;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};

use futures_util::future::join_all;
use peacrab::daemon::Daemon;
use peacrab::replies;
use peacrab::store::{Json, LenientJson, Phase, Store, StoreError, StoreOptions, Sync, Time};
use rusqlite::{Connection, StatementStatus};
use tempfile::TempDir;

use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{calls, says};
use serde_json::json;

/// A disk on which little can grow: short messages fit, what is [`large`] does not.
fn full() -> RigOptions {
    let store = StoreOptions { pages_max: Some(pages() + 24), ..StoreOptions::default() };
    RigOptions { store, ..RigOptions::default() }
}

/// The pages of an empty database.
fn pages() -> u32 {
    let home = TempDir::new().unwrap();
    drop(Store::open(home.path(), &StoreOptions::default()).unwrap());
    let store = Connection::open(home.path().join("state.db")).unwrap();
    store.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap()
}

/// Does not fit into the pages of an empty database.
fn large() -> String {
    "lorem ipsum ".repeat(4000)
}

async fn make_room(rig: &mut Rig) {
    rig.stop().await;
    rig.parts.store.pages_max = None;
    rig.start().await;
}

#[tokio::test]
async fn takes_nothing_that_it_cannot_keep_and_says_so_once() {
    let mut rig = Rig::of(full()).await;
    assert!(rig.path().join("ballast").exists());
    rig.model.on("lorem", [says("read")]);
    rig.say("1", &large());
    assert_eq!(rig.next_message("1").await, replies::STORE_FAILED);
    rig.wait_until(|rig| rig.home.rejected() >= 5).await;
    assert_eq!(rig.home.unaccepted(), 1, "it was acknowledged");
    assert!(!rig.path().join("ballast").exists(), "the ballast is still there");
    assert!(rig.model.asked().is_empty());
    make_room(&mut rig).await;
    assert_eq!(rig.next_message("1").await, "read");
    assert!(rig.path().join("ballast").exists());
    rig.finish().await;
}

#[tokio::test]
async fn finishes_a_turn_that_could_not_be_kept_once_there_is_room() {
    let mut rig = Rig::of(full()).await;
    rig.model.on("tell me", [says(&large())]);
    rig.model.on("tell me", [says("in short")]);
    rig.say("1", "tell me");
    assert_eq!(rig.next_message("1").await, replies::DISK_HAS_NO_SPACE);
    make_room(&mut rig).await;
    assert_eq!(rig.next_message("1").await, "in short");
    rig.finish().await;
}

#[tokio::test]
async fn a_chat_that_the_store_fails_does_not_slow_commands_down() {
    let mut rig = Rig::of(full()).await;
    rig.model.on("tell me", (0..9).map(|_| calls(&[("read_file", json!({"path": large()}))])));
    rig.say("1", "tell me");
    rig.wait_until(|rig| !rig.model.asked().is_empty()).await;
    let before = rig.model.asked().len();
    for _ in 0..3 {
        // Short enough to be kept in the last page that there is.
        rig.ask("2", "/whoami").await;
    }
    // If each had waited for a pause after a failure, two more attempts would lie between the three.
    let attempts = rig.model.asked().len() - before;
    assert!(attempts < 2, "{attempts} attempts");
    rig.wait_until(|rig| rig.model.asked().len() > before).await;
    rig.stop().await;
}

async fn refusal(home: &Path) -> String {
    let mut plan = Rig::at_rest(FakeChannel::new(), RigOptions::default()).plan();
    plan.home = home.to_owned();
    let refused = Daemon::open(plan).await.err().expect("it opens what it must not");
    refused.to_string().replace(&home.display().to_string(), "HOME")
}

#[tokio::test]
async fn says_what_to_do_about_a_damaged_database() {
    let home = TempDir::new().unwrap();
    let garbage = "this is no database. ".repeat(1000);
    fs::write(home.path().join("state.db"), &garbage).unwrap();
    insta::assert_snapshot!(refusal(home.path()).await, @"cannot open HOME/state.db: the database is damaged (file is not a database). Restore it from a backup (`peacrab restore FILE --replace`), or move state.db, state.db-wal, ballast and undo away to start with a new store");
    assert_eq!(fs::read_to_string(home.path().join("state.db")).unwrap(), garbage);
}

#[tokio::test]
async fn frees_the_ballast_on_a_full_disk_and_says_to_make_room() {
    let home = TempDir::new().unwrap();
    let store = Connection::open(home.path().join("state.db")).unwrap();
    store.execute_batch(include_str!("../../src/store/schema.sql")).unwrap();
    store.pragma_update(None, "user_version", 7).unwrap();
    drop(store);
    fs::write(home.path().join("ballast"), "heavy").unwrap();
    // There is no room for the tables of newer versions.
    let store = StoreOptions { pages_max: Some(1), ..StoreOptions::default() };
    let mut plan =
        Rig::at_rest(FakeChannel::new(), RigOptions { store, ..RigOptions::default() }).plan();
    plan.home = home.path().to_owned();
    let refused = Daemon::open(plan).await.err().expect("it opens what it cannot migrate");
    let words = refused.to_string().replace(&home.path().display().to_string(), "HOME");
    insta::assert_snapshot!(words, @"cannot open HOME/state.db: the disk is full. Free some space. Nothing is lost, and work continues then");
    assert!(!home.path().join("ballast").exists(), "the ballast is still there");
}

#[tokio::test]
async fn says_what_to_do_about_the_database_of_a_newer_version() {
    let home = TempDir::new().unwrap();
    let store = Connection::open(home.path().join("state.db")).unwrap();
    store.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    insta::assert_snapshot!(refusal(home.path()).await, @"HOME/state.db was written by a newer peacrab (schema 99, this one knows 43); install that version again");
}

#[tokio::test]
async fn says_what_to_do_about_the_database_of_a_preview() {
    let home = TempDir::new().unwrap();
    let store = Connection::open(home.path().join("state.db")).unwrap();
    store.pragma_update(None, "user_version", 6).unwrap();
    drop(store);
    insta::assert_snapshot!(refusal(home.path()).await, @"HOME/state.db was written by a preview of peacrab (schema 6) that this one cannot read: move state.db, state.db-wal, ballast and undo away to start with a new store. Your workspace is not affected");
}

#[tokio::test]
async fn goes_on_with_the_database_of_an_older_version() {
    let mut rig = Rig::at_rest(FakeChannel::with(false, 4_000), RigOptions::default());
    let home = rig.path();
    fs::create_dir_all(&home).unwrap();
    let store = Connection::open(home.join("state.db")).unwrap();
    store.execute_batch(include_str!("../../src/store/schema.sql")).unwrap();
    store.pragma_update(None, "user_version", 7).unwrap();
    store
        .execute_batch(
            r#"INSERT INTO sessions (id, channel, chat, place, opened)
               VALUES (1, 'home', '1', '"private"', 1);
               INSERT INTO turns (id, session, sender, attempts, provider, started, ended, ending)
               VALUES (1, 1, '{"id": "7", "name": "Person 7"}', 1, 'script', 1, strftime('%s', 'now') * 1000,
                   '"answered"');
               INSERT INTO steps (turn, seq, heard, text, thinking)
               VALUES (1, 0, 'what is in it?', '', '[]'), (1, 1, NULL, 'A crab.', '[]');
               INSERT INTO calls (turn, step, wire_id, tool, arguments, state, output)
               VALUES (1, 0, 'w', 'read_file', '{"path": "a.md"}', 'done', 'a crab')"#,
        )
        .unwrap();
    drop(store);
    rig.start().await;
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    let transcript = rig.model.last().transcript();
    assert!(transcript.contains("what is in it?") && transcript.contains("a crab"), "{transcript}");
    assert!(rig.ask("1", "/actions").await.contains("read_file"));
    rig.finish().await;
}

/// Three background tasks of version 7 for a group, each with a call.
const TASKS_OF_7: &str = r#"
    INSERT INTO sessions (id, channel, chat, thread, place, opened, closed, kind) VALUES
        (1, 'home', '5', 't', '"group"', 1, NULL, 'chat'),
        (2, '(subagent)', '1', 'home', '"group"', 2, 3, 'subagent'),
        (3, '(job)', '1', 'home', '"group"', 2, 3, 'job'),
        (4, '(heartbeat)', '1', 'home', '"group"', 2, 3, 'heartbeat'),
        (5, 'home', '6', NULL, '"group"', 2, 3, 'aside');
    INSERT INTO subagents (session, parent, task, state, begun) VALUES (2, 1, 'look', 'done', 2);
    INSERT INTO jobs (id, channel, chat, thread, known_on, place, sender, timing, payload, missed, state, made, tainted)
    VALUES (1, 'home', '5', 't', 'home', '', '', '', '', '', 'done', 2, 0);
    INSERT INTO beats (channel, chat, thread, known_on, place, session, begun, asked, state)
    VALUES ('home', '5', 't', 'home', '"group"', 4, 2, 0, 'silent')"#;

#[tokio::test]
async fn the_tasks_of_an_older_version_know_where_their_people_are() {
    let home = TempDir::new().unwrap();
    let older = Connection::open(home.path().join("state.db")).unwrap();
    older.execute_batch(include_str!("../../src/store/schema.sql")).unwrap();
    older.execute_batch(TASKS_OF_7).unwrap();
    older.pragma_update(None, "user_version", 7).unwrap();
    drop(older);
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    let people = store.read(|store| {
        let mut rows = store.prepare(
            "SELECT id || ': ' || ifnull(people_channel || ' ' || people_chat || ' ' || people_thread, '')
             FROM sessions ORDER BY id",
        )?;
        rows.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
    });
    let there = "home 5 t";
    let expected = [
        "1: ".to_owned(),
        format!("2: {there}"),
        format!("3: {there}"),
        format!("4: {there}"),
        "5: ".to_owned(),
    ];
    assert_eq!(people.await.unwrap(), expected);
}

/// Background tasks of version 9: subagent 3 runs; heartbeat run 7 waits for the end of quiet hours, and 8 has failed
/// since the switch; runs 40 and 42 have sessions of their own, 41 works in a conversation, 43 is done.
const TASKS_OF_9: &str = r#"
    INSERT INTO sessions (id, channel, chat, thread, place, opened, closed, kind) VALUES
        (1, 'home', '5', 't', '"group"', 1, NULL, 'chat'),
        (2, '(subagent)', '3', 'home', '"group"', 2, NULL, 'subagent'),
        (3, '(job)', '1', 'home', '"group"', 2, NULL, 'job'),
        (4, '(heartbeat)', '7', 'home', '"group"', 2, 3, 'heartbeat'),
        (5, '(job)', '3', 'home', '"group"', 2, NULL, 'job');
    INSERT INTO turns (id, session, sender, attempts, provider, started) VALUES
        (11, 1, '{}', 1, 'x', 1), (31, 3, '{}', 1, 'x', 1);
    INSERT INTO inbound (id, key, received, channel, chat, thread, sender, control, message, state, turn) VALUES
        (1, 'a', 1, '(job)', '1', 'home', '7', 0, '{}', 'in turn', 31),
        (2, 'b', 1, 'home', '5', 't', '7', 0, '{}', 'in turn', 11),
        (3, 'c', 1, '(job)', '3', 'home', '7', 0, '{}', 'waiting', NULL);
    INSERT INTO subagents (id, session, parent, call, task, state, begun) VALUES (3, 2, 1, 6, 'look', 'running', 2);
    INSERT INTO jobs (id, channel, chat, thread, known_on, place, sender, timing, payload, missed, state, made, tainted)
        SELECT value, 'home', '5', 't', 'home', '', '', '', '', '', 'active', 2, 0 FROM json_each('[1, 2, 3]');
    INSERT INTO runs (id, job, due, claimed, late, row, turn, state, ended, words, began) VALUES
        (40, 1, 4, 4, 0, 1, 31, 'running', NULL, NULL, NULL), (41, 2, 5, 5, 1, 2, 11, 'running', NULL, NULL, NULL),
        (42, 3, 6, 6, 0, 3, NULL, 'running', NULL, NULL, NULL), (43, 1, 3, 3, 0, NULL, NULL, 'done', 4, 'tea', 3);
    INSERT INTO beats (id, channel, chat, thread, known_on, place, session, begun, asked, state, words, held) VALUES
        (7, 'home', '5', 't', 'home', '"group"', 4, 2, 1, 'told', 'high tide', 1),
        (8, 'home', '5', 't', 'home', 'no JSON', 99, 3, 0, 'failed', 'why', 0);
    INSERT INTO beat_messages (beat, channel, chat, words, tainted) VALUES (7, 'home', '6', 'a wave', 1);
    INSERT INTO heart (one, off, after) VALUES (1, NULL, 7)"#;

#[tokio::test]
async fn the_tasks_of_an_older_version_go_on_in_one_table() {
    let home = TempDir::new().unwrap();
    let older = Connection::open(home.path().join("state.db")).unwrap();
    for script in [
        include_str!("../../src/store/schema.sql"),
        include_str!("../../src/store/schema-8.sql"),
        include_str!("../../src/store/schema-9.sql"),
        TASKS_OF_9,
    ] {
        older.execute_batch(script).unwrap();
    }
    older.pragma_update(None, "user_version", 9).unwrap();
    drop(older);
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    let rows = store.read(|store| {
        let mut rows = store.prepare(
            "SELECT format('%s %d: session %s, row %s, turn %s, %s%s, %s', kind, number, ifnull(session, '-'),
                 ifnull(row, '-'), ifnull(turn, '-'), state, iif(held, ' held', ''), details)
             FROM tasks WHERE channel = 'home' AND chat = '5' AND thread = 't' ORDER BY id",
        )?;
        rows.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
    });
    insta::assert_snapshot!(rows.await.unwrap().join("\n"), @r#"
    subagent 3: session 2, row -, turn -, running, {"parent":1,"call":6,"task":"look"}
    heartbeat 7: session 4, row -, turn -, done held, {"known_on":"home","place":"group","asked":true}
    heartbeat 8: session -, row -, turn -, failed, {"known_on":"home","place":"group","asked":false}
    job 1: session 3, row 1, turn 31, running, {"late":false,"began":null}
    job 2: session -, row 2, turn 11, running, {"late":true,"began":null}
    job 3: session 5, row 3, turn -, running, {"late":false,"began":null}
    job 1: session -, row -, turn -, done, {"late":false,"began":3}
    "#);
    let rest = store.read(|store| {
        let rest = "SELECT group_concat(task || ' ' || chat || ' ' || words) || ', switched after ' || after
                    || ', last id ' || (SELECT seq FROM sqlite_sequence WHERE name = 'tasks')
                    || ', last numbers ' || (SELECT group_concat(kind || ' ' || last) FROM task_numbers)
                    FROM task_messages, heartbeat_state";
        store.query_row(rest, [], |row| row.get::<_, String>(0))
    });
    assert_eq!(
        rest.await.unwrap(),
        "2 6 a wave, switched after 2, last id 43, last numbers heartbeat 8,subagent 3"
    );
}

#[test]
fn what_cannot_be_read_in_a_column_fails_its_row_or_counts_as_none() {
    let store = Connection::open_in_memory().unwrap();
    let read = |json: &str| {
        let row = store.query_row("SELECT ?1, ?1, nullif(?1, '')", [json], |row| {
            let strict = row.get::<_, Json<Vec<u32>>>(0).ok().map(|it| it.0);
            Ok((
                strict,
                row.get::<_, LenientJson<Vec<u32>>>(1)?.0,
                row.get::<_, Option<Json<Vec<u32>>>>(2).is_ok(),
            ))
        });
        row.unwrap()
    };
    assert_eq!(read("[1, 2]"), (Some(vec![1, 2]), Some(vec![1, 2]), true));
    assert_eq!(read("no JSON"), (None, None, false));
    assert_eq!(read(""), (None, None, true));
}

#[test]
fn times_are_kept_in_milliseconds() {
    let store = Connection::open_in_memory().unwrap();
    let read =
        |millis: i64| store.query_row("SELECT ?", [millis], |row| row.get::<_, Time>(0)).unwrap();
    let at = read(1_790_000_000_123);
    assert_eq!(at.0.to_rfc3339(), "2026-09-21T14:13:20.123+00:00");
    let written = store.query_row("SELECT ?", [at], |row| row.get::<_, i64>(0));
    assert_eq!(written.unwrap(), 1_790_000_000_123);
    // No calendar has it.
    assert_eq!(read(i64::MAX).0.timestamp(), 0);
}

#[tokio::test]
async fn refuses_a_home_that_another_daemon_uses() {
    let rig = Rig::new().await;
    let words = refusal(&rig.path()).await.replace(&std::process::id().to_string(), "PID");
    insta::assert_snapshot!(words, @"another peacrab is running on HOME (process PID): stop it first, or give this one its own --home");
    rig.finish().await;
}

#[tokio::test]
async fn opens_again_after_the_daemon_has_gone() {
    let mut rig = Rig::new().await;
    for n in 0..3 {
        assert_eq!(rig.ask("1", &format!("n{n}")).await, format!("re: n{n}"));
        rig.stop_and_start_again().await;
    }
    rig.finish().await;
}

/// A store whose writer is busy until the barrier, and the names of the changes of each commit.
struct Busy {
    _home: TempDir,
    store: Store,
    commits: Arc<Mutex<Vec<Vec<&'static str>>>>,
    barrier: Arc<Barrier>,
}

impl Busy {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let commits: Arc<Mutex<Vec<_>>> = Arc::default();
        let seen = Arc::clone(&commits);
        let observer = Arc::new(move |moment: peacrab::store::CommitEvent<'_>| {
            if moment.phase == Phase::After {
                seen.lock().unwrap().push(moment.labels.to_vec());
            }
        });
        let options = StoreOptions { observer: Some(observer), ..StoreOptions::default() };
        let store = Store::open(home.path(), &options).unwrap();
        store_table(home.path());
        Self { _home: home, store, commits, barrier: Arc::new(Barrier::new(2)) }
    }

    async fn blocked(&self) {
        let barrier = Arc::clone(&self.barrier);
        let block = move |_: &Connection| {
            barrier.wait();
            Ok(())
        };
        self.store.write("block", Sync::Later, block).await.unwrap();
    }

    async fn let_go(&self) {
        let barrier = Arc::clone(&self.barrier);
        tokio::task::spawn_blocking(move || barrier.wait()).await.unwrap();
    }
}

fn store_table(home: &Path) {
    let store = Connection::open(home.join("state.db")).unwrap();
    store.execute_batch("CREATE TABLE t (n INTEGER UNIQUE)").unwrap();
}

fn insert(n: i64) -> impl FnOnce(&Connection) -> rusqlite::Result<usize> + Send + 'static {
    move |store| store.execute("INSERT INTO t (n) VALUES (?)", [n])
}

#[tokio::test]
async fn changes_that_come_together_share_a_commit() {
    let busy = Busy::new();
    let writes = join_all((0..10).map(|n| busy.store.write("insert", Sync::Now, insert(n))));
    let ((), written, ()) = tokio::join!(busy.blocked(), writes, busy.let_go());
    assert!(written.into_iter().all(|written| matches!(written, Ok(1))));
    let commits = busy.commits.lock().unwrap();
    assert!(commits.len() <= 2, "{commits:?}");
    assert_eq!(commits.concat().len(), 11);
}

#[tokio::test]
async fn changes_of_many_share_their_syncs() {
    let busy = Busy::new();
    let many: Vec<_> = (0..16).map(|_| busy.store.announce_writer()).collect();
    let written =
        join_all((0..100).map(|n| busy.store.write("insert", Sync::Now, insert(n)))).await;
    assert!(written.into_iter().all(|written| matches!(written, Ok(1))));
    let commits = busy.commits.lock().unwrap().clone();
    assert!(commits.len() <= 10, "{commits:?}");
    drop(many);
}

#[tokio::test]
async fn a_change_that_fails_or_panics_fails_alone() {
    let busy = Busy::new();
    let (good, twice, panics, after, _, _) = tokio::join!(
        busy.store.write("good", Sync::Now, insert(1)),
        busy.store.write("twice", Sync::Now, insert(1)),
        busy.store.write("panics", Sync::Now, |store| -> rusqlite::Result<()> {
            insert(2)(store)?;
            panic!("a change that panics")
        }),
        busy.store.write("after", Sync::Now, insert(3)),
        busy.blocked(),
        busy.let_go(),
    );
    assert!(good.is_ok() && after.is_ok() && twice.is_err());
    assert_eq!(
        panics.unwrap_err().to_string(),
        "the database failed (the change `panics` panicked)"
    );
    let rows = busy.store.read(|store| {
        let mut rows = store.prepare("SELECT n FROM t ORDER BY n")?;
        rows.query_map([], |row| row.get::<_, i64>(0))?.collect::<rusqlite::Result<Vec<_>>>()
    });
    assert_eq!(rows.await.unwrap(), [1, 3]);
}

#[tokio::test]
async fn a_search_neither_delays_reads_nor_goes_on_for_ever() {
    let busy = Busy::new();
    let barrier = Arc::clone(&busy.barrier);
    let waits = busy.store.search(move |_| {
        barrier.wait();
        Ok(())
    });
    let reads = async {
        assert_eq!(busy.store.read(|_| Ok(7)).await.unwrap(), 7);
        busy.let_go().await;
    };
    let (waited, ()) = tokio::join!(waits, reads);
    waited.unwrap();
    let endless = busy.store.search(|store| {
        let counting = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                        SELECT max(i) FROM n";
        store.query_row(counting, [], |row| row.get::<_, i64>(0))
    });
    assert!(matches!(endless.await, Err(StoreError::TooSlow)));
}

/// A search must need neither the writer's lock nor the disk: one that did made each turn sync twice more.
#[tokio::test]
async fn a_search_writes_nothing_and_keeps_its_connection() {
    let home = TempDir::new().unwrap();
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    let log = || fs::metadata(home.path().join("state.db-wal")).map(|log| log.len()).unwrap_or(0);
    let before = log();
    let prepared = |store: &Connection| {
        let mut names = store.prepare_cached("SELECT name FROM sqlite_schema")?;
        names.exists([])?;
        Ok(names.get_status(StatementStatus::Run))
    };
    assert_eq!(store.search(prepared).await.unwrap(), 1);
    assert_eq!(store.search(prepared).await.unwrap(), 2);
    assert_eq!(log(), before);
    let writes = store.search(|store| store.execute("DELETE FROM inbound", [])).await;
    assert!(matches!(writes, Err(StoreError::Broken(_))), "{writes:?}");
    // One that has failed is not used again, nor one that was closed.
    assert_eq!(store.search(prepared).await.unwrap(), 1);
    store.close_idle();
    assert_eq!(store.search(prepared).await.unwrap(), 1);
    assert_eq!(log(), before);
}

#[tokio::test]
async fn what_is_bound_has_no_statement_prepared_anew() {
    let home = TempDir::new().unwrap();
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    let prepared_anew = |store: &Connection| {
        // There is an index of those that are pending, so a plan could depend on what is bound.
        let mut rows =
            store.prepare_cached("SELECT id FROM outbox WHERE state = ? AND channel = ?")?;
        rows.exists(["pending", "first"])?;
        rows.reset_status(StatementStatus::RePrepare);
        for channel in ["a", "b", "c"] {
            rows.exists(["pending", channel])?;
        }
        Ok(rows.get_status(StatementStatus::RePrepare))
    };
    assert_eq!(store.read(prepared_anew).await.unwrap(), 0);
    assert_eq!(store.write("look", Sync::Later, prepared_anew).await.unwrap(), 0);
    assert_eq!(store.search(prepared_anew).await.unwrap(), 0);
}
