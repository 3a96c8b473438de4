//! What is old is forgotten, in slices, and nothing else: not what is open, nor what a model is shown.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use chrono::{DateTime, Duration, Utc};
use peacrab::bus::freshness::ReceivedPeriod;
use peacrab::bus::outbox;
use peacrab::channels::deliver::ClockReading;
use peacrab::conversation::sessions::{self, Note, Retention};
use peacrab::daemon::prune_rows;
use peacrab::replies;
use peacrab::store::{DatabasePages, Store, StoreOptions, Sync};
use peacrab::tasks::schedule::{Clock, believed, pruned_until};
use peacrab::turn::run::declined::{MessageTimes, is_late};
use peacrab::types::message::{Address, Sender};
use peacrab::types::session::SessionId;
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::support::binary::{ProgramFixture, until};
use crate::support::fake_channel::SendBehavior;
use crate::support::rig::{OWNER, Rig, RigOptions};
use crate::support::script::{calls, says};
use crate::support::tool_context::said;

fn store() -> (TempDir, Store) {
    let home = TempDir::new().unwrap();
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    (home, store)
}

async fn write<T: Send + 'static>(
    store: &Store,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> T {
    store.write("test", Sync::Later, work).await.unwrap()
}

async fn texts(store: &Store, sql: &'static str) -> Vec<String> {
    let read = move |store: &Connection| {
        let mut rows = store.prepare(sql)?;
        rows.query_map([], |row| row.get(0))?.collect()
    };
    store.read(read).await.unwrap()
}

/// The columns of each key that some row of a table may be found by, with what it is called.
fn leading_columns(store: &Connection, table: &str) -> BTreeMap<String, Vec<String>> {
    let mut indices =
        store.prepare("SELECT name FROM pragma_index_list(?) WHERE partial = 0").unwrap();
    let names = indices.query_map([table], |row| row.get::<_, String>(0)).unwrap();
    let mut columns =
        store.prepare("SELECT name FROM pragma_index_info(?) ORDER BY seqno").unwrap();
    names
        .map(|name| {
            let name = name.unwrap();
            let found = columns.query_map([&name], |row| row.get(0)).unwrap();
            let found = found.collect::<Result<Vec<String>, _>>().unwrap();
            (name, found)
        })
        .collect()
}

#[tokio::test]
async fn each_foreign_key_has_an_index() {
    let (_home, store) = store();
    let without = store.read(|store| {
        let mut keys = store.prepare(
            "SELECT t.name, k.id, group_concat(k.\"from\" ORDER BY k.seq)
             FROM sqlite_schema t, pragma_foreign_key_list(t.name) k
             WHERE t.type = 'table' GROUP BY t.name, k.id",
        )?;
        let keys = keys.query_map([], |row| Ok((row.get(0)?, row.get(2)?)))?;
        let keys = keys.collect::<rusqlite::Result<Vec<(String, String)>>>()?;
        assert!(keys.len() > 8, "{keys:?}");
        let has_index = |(table, key): &(String, String)| {
            let wanted: Vec<_> = key.split(',').collect();
            leading_columns(store, table).values().any(|found| found.starts_with_all(&wanted))
        };
        Ok(keys.into_iter().filter(|key| !has_index(key)).collect::<Vec<_>>())
    });
    assert_eq!(without.await.unwrap(), []);
}

trait StartsWith {
    fn starts_with_all(&self, wanted: &[&str]) -> bool;
}

impl StartsWith for Vec<String> {
    fn starts_with_all(&self, wanted: &[&str]) -> bool {
        self.len() >= wanted.len() && self.iter().zip(wanted).all(|(one, other)| one == other)
    }
}

/// What is old of each kind; `{old}` is long ago, and each of them has as much that is not.
const ROWS: &str = r#"
    INSERT INTO sessions (id, channel, chat, chat_kind, opened, closed, kind, begins) VALUES
        (1, 'home', '1', '"private"', {old}, {old}, 'chat', 0),
        (2, 'home', '1', '"private"', {old}, NULL, 'chat', 22),
        (3, '(subagent)', '1', '"private"', {old}, {old}, 'subagent', 0),
        (4, '(job)', '1', '"private"', {old}, {old}, 'job', 0),
        (5, 'home', '1', '"private"', {old}, {old}, 'command', 0),
        (6, 'home', '2', '"private"', {old}, {old}, 'chat', 0);
    INSERT INTO turns (id, session, sender, attempts, provider, started, ended, ending) VALUES
        (11, 1, '{}', 1, 'x', {old}, {old}, '"answered"'), (21, 2, '{}', 1, 'x', {old}, {old}, '"answered"'),
        (22, 2, '{}', 1, 'x', {old}, {old}, '"answered"'), (31, 3, '{}', 1, 'x', {old}, {old}, '"answered"'),
        (41, 4, '{}', 1, 'x', {old}, {old}, '"answered"'), (51, 5, '{}', 1, 'x', {old}, {old}, '"answered"'),
        (61, 6, '{}', 1, 'x', {old}, {old}, '"answered"'), (23, 2, '{}', 1, 'x', {old}, NULL, NULL);
    INSERT INTO steps (turn, seq, text, thinking) SELECT id, 0, 'x', '[]' FROM turns;
    INSERT INTO calls (turn, step, wire_id, tool, arguments, state, ended)
        SELECT id, 0, 'w', 'read_file', '{}', 'done', {old} FROM turns;
    INSERT INTO ledger (turn, at, provider, input, cached, output) SELECT id, {old}, 'x', 1, 0, 1 FROM turns;
    INSERT INTO asks (turn, call, kind, delivery, channel, chat, after, expires, state)
        SELECT id, 1, 'question', 1, 'home', '1', 0, {old}, iif(id = 23, 'open', 'settled') FROM turns;
    INSERT INTO inbound (key, received, channel, chat, sender, control, message, state, turn)
        SELECT 'k' || id, {old}, 'home', '1', '7', 0, '{}', iif(id = 23, 'in turn', 'done'), id FROM turns;
    INSERT INTO proposals (session, title, body, state, made, changed) VALUES
        (1, 'x', 'x', 'declined', {old}, {old}), (6, 'x', 'x', 'open', {old}, {old});
    INSERT INTO outbox (id, channel, chat, body, created, state, next) VALUES
        (1, 'home', '1', '{}', {old}, 'sent', 0), (2, 'home', '1', '{}', {old}, 'pending', 0);
    INSERT INTO chunks (delivery, seq, body, state) SELECT id, 0, '{}', 'pending' FROM outbox;
    INSERT INTO jobs (id, channel, chat, known_on, chat_kind, sender, timing, payload, missed, state, made, tainted)
        VALUES (1, 'home', '1', 'home', '', '', '', '', '', 'done', {old}, 0),
               (2, 'home', '1', 'home', '', '', '', '', '', 'active', {old}, 0);
    INSERT INTO tasks (kind, number, job, due, session, channel, chat, begun, state, details)
        SELECT 'job', id, id, {old}, NULL, 'home', '1', {old}, 'done', '{}' FROM jobs
        UNION ALL VALUES ('subagent', 1, NULL, NULL, 3, 'home', '1', {old}, 'done', '{}'),
            ('heartbeat', 1, NULL, NULL, 1, 'home', '1', {old}, 'silent', '{}'),
            ('heartbeat', 2, NULL, NULL, 1, 'home', '1', {old}, 'running', '{}');
    INSERT INTO task_messages (task, channel, chat, words, tainted)
        SELECT id, 'home', '1', 'x', 0 FROM tasks WHERE kind = 'heartbeat';
    INSERT INTO unreadable (key, received, channel, raw) VALUES ('k', {old}, 'home', 'x');
"#;

/// A closed conversation with a long text, of so many days ago.
fn add_conversation(store: &Connection, days: i64) -> rusqlite::Result<()> {
    let at = (Utc::now() - Duration::days(days)).timestamp_millis();
    store.execute_batch(&format!(
        "INSERT INTO sessions (id, channel, chat, chat_kind, opened, closed, kind, begins)
             VALUES ({days}, 'home', '{days}', '\"private\"', {at}, {at}, 'chat', 0);
         INSERT INTO turns (id, session, sender, attempts, provider, started, ended, ending)
             VALUES ({days}, {days}, '{{}}', 1, 'x', {at}, {at}, '\"answered\"');
         INSERT INTO steps (turn, seq, text, thinking) VALUES ({days}, 0, hex(zeroblob(100000)), '[]')"
    ))
}

#[tokio::test]
async fn a_database_that_is_too_large_forgets_the_oldest_conversations_earlier() {
    let (_home, store) = store();
    let now = Utc::now();
    let all = [5, 20, 40, 100, 200, 300];
    let empty = store.read(DatabasePages::bytes).await.unwrap();
    write(&store, move |store| all.iter().try_for_each(|days| add_conversation(store, *days)))
        .await;
    let each = (store.read(DatabasePages::bytes).await.unwrap() - empty) / 6;
    let left = async |most: u64| {
        let retention = Retention { database_bytes_max: most, ..Retention::default() };
        prune_rows(&store, now, retention).await.unwrap();
        texts(&store, "SELECT id || '' FROM sessions ORDER BY id").await
    };
    assert_eq!(left(empty + 7 * each).await, ["5", "20", "40", "100", "200", "300"]);
    assert_eq!(left(empty + 5 * each + each / 2).await, ["5", "20", "40", "100", "200"]);
    assert_eq!(left(empty + 3 * each + each / 2).await, ["5", "20", "40"]);
    // Those of the last month stay.
    assert_eq!(left(0).await, ["5", "20"]);
    assert!(store.read(DatabasePages::bytes).await.unwrap() > empty + each);
    // By age alone.
    let month = Retention { kept: Duration::days(30), ..Retention::default() };
    write(&store, |store| add_conversation(store, 31)).await;
    prune_rows(&store, now, month).await.unwrap();
    assert_eq!(texts(&store, "SELECT id || '' FROM sessions ORDER BY id").await, ["5", "20"]);
}

/// A record of what was done, as long as a conversation of [`add_conversation`].
fn add_record(store: &Connection, days: i64) -> rusqlite::Result<()> {
    let at = (Utc::now() - Duration::days(days)).timestamp_millis();
    let add = "INSERT INTO unreadable (key, received, channel, raw) VALUES (?, ?, 'home', hex(zeroblob(100000)))";
    store.execute(add, (days.to_string(), at)).map(drop)
}

#[tokio::test]
async fn records_give_way_once_conversations_have() {
    let (_home, store) = store();
    let now = Utc::now();
    let empty = store.read(DatabasePages::bytes).await.unwrap();
    write(&store, |store| {
        [5, 20, 40, 60, 80].iter().try_for_each(|days| add_record(store, *days))?;
        add_conversation(store, 40)
    })
    .await;
    let each = (store.read(DatabasePages::bytes).await.unwrap() - empty) / 6;
    let left = async |most: u64| {
        let retention = Retention { database_bytes_max: most, ..Retention::default() };
        prune_rows(&store, now, retention).await.unwrap();
        let left = "SELECT name FROM (SELECT 1 AS at, 'session ' || id AS name FROM sessions
                    UNION ALL SELECT -received, key FROM unreadable) ORDER BY at DESC";
        texts(&store, left).await
    };
    assert_eq!(left(empty + 7 * each).await, ["session 40", "80", "60", "40", "20", "5"]);
    assert_eq!(left(empty + 5 * each + each / 2).await, ["80", "60", "40", "20", "5"]);
    assert_eq!(left(empty + 3 * each + each / 2).await, ["40", "20", "5"]);
    // A budget of a month needs what stays.
    assert_eq!(left(0).await, ["20", "5"]);
}

#[tokio::test]
async fn both_keys_of_the_section_retention_are_followed() {
    let fixture =
        ProgramFixture::new("[retention]\nconversation_days = 60\ndatabase_max_mb = 50\n");
    // Without anything of today, nobody would believe the clock.
    assert_eq!(fixture.run(&["chat", "-m", "hello"]).await.code, Some(0));
    let path = fixture.home().join("state.db");
    let store = Connection::open(&path).unwrap();
    [70, 50, 35].iter().try_for_each(|days| add_conversation(&store, *days)).unwrap();
    // Together these are larger than the database may be.
    let lengthen = "UPDATE steps SET text = hex(zeroblob(15000000)) WHERE turn IN (35, 50)";
    assert_eq!(store.execute(lengthen, []).unwrap(), 2);
    drop(store);
    let daemon = fixture.daemon().await;
    // The space of the deleted ones is given back last.
    until("the clean-up", async || (fs::metadata(&path).unwrap().len() < 45_000_000).then_some(()))
        .await;
    daemon.terminate().await;
    let store = Connection::open(&path).unwrap();
    let mut left = store.prepare("SELECT id FROM sessions WHERE id IN (35, 50, 70)").unwrap();
    let left = left.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(left.map(Result::unwrap).collect::<Vec<_>>(), [35]);
}

#[tokio::test]
async fn forgets_all_that_is_old_and_neither_open_nor_shown() {
    let (_home, store) = store();
    let now = Utc::now();
    let old = (now - Duration::days(500)).timestamp_millis();
    write(&store, move |store| store.execute_batch(&ROWS.replace("{old}", &old.to_string()))).await;
    prune_rows(&store, now, Retention::default()).await.unwrap();
    let left = texts(
        &store,
        "SELECT 'session ' || id FROM sessions UNION ALL SELECT 'turn ' || id FROM turns
         UNION ALL SELECT 'step of ' || turn FROM steps UNION ALL SELECT 'call of ' || turn FROM calls
         UNION ALL SELECT 'ledger of ' || turn FROM ledger UNION ALL SELECT 'ask of ' || turn FROM asks
         UNION ALL SELECT 'message ' || key FROM inbound UNION ALL SELECT kind || ' ' || number || ' ' || state FROM tasks
         UNION ALL SELECT 'proposal of ' || session FROM proposals UNION ALL SELECT 'delivery ' || id FROM outbox
         UNION ALL SELECT 'chunk of ' || delivery FROM chunks UNION ALL SELECT 'job ' || id FROM jobs
         UNION ALL SELECT 'message of ' || task FROM task_messages
         UNION ALL SELECT 'unreadable ' || key FROM unreadable",
    );
    let mut left = left.await;
    left.sort();
    assert_eq!(
        left,
        [
            "ask of 23",
            "call of 22",
            "call of 23",
            "chunk of 2",
            "delivery 2",
            "heartbeat 2 running",
            "job 2",
            "job 2 done",
            "message k23",
            "message of 5",
            "proposal of 6",
            "session 2",
            "session 6",
            "step of 22",
            "step of 23",
            "step of 61",
            "turn 22",
            "turn 23",
            "turn 61",
        ]
    );
    assert_eq!(texts(&store, "SELECT \"table\" FROM pragma_foreign_key_check").await, [""; 0]);
}

#[tokio::test]
async fn other_changes_come_in_between_while_much_is_forgotten() {
    let (_home, store) = store();
    write(&store, |store| {
        store.execute_batch(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000)
             INSERT INTO inbound (key, received, channel, chat, sender, control, message, state)
             SELECT n, 1, 'home', '1', '7', 0, '{}', 'done' FROM n",
        )
    })
    .await;
    let count = |store: &Connection| {
        store.query_row("SELECT count(*) FROM inbound", [], |row| row.get::<_, i64>(0))
    };
    let (mut seen, other) = (Vec::new(), store.clone());
    let looks = async {
        while seen.last() != Some(&0) {
            seen.push(write(&other, count).await);
        }
    };
    let (forgotten, ()) = tokio::join!(prune_rows(&store, Utc::now(), Retention::default()), looks);
    forgotten.unwrap();
    assert!(seen.iter().any(|left| (1..5000).contains(left)), "{seen:?}");
}

#[tokio::test]
async fn a_database_gives_free_pages_back() {
    let (_home, store) = store();
    let fill = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
                INSERT INTO unreadable SELECT n, 1, 'home', hex(zeroblob(2000)), NULL FROM n";
    write(&store, |store| store.execute_batch(fill)).await;
    write(&store, |store| store.execute_batch("DELETE FROM unreadable")).await;
    let pages = store.read(DatabasePages::count).await.unwrap();
    assert!(pages.can_shrink && pages.free > 1_000, "{pages:?}");
    assert_eq!(
        write(&store, |store| DatabasePages::release_free(store, 100)).await,
        pages.free - 100
    );

    // As older versions made it.
    let home = TempDir::new().unwrap();
    let older = Connection::open(home.path().join("state.db")).unwrap();
    older.execute_batch("CREATE TABLE older (n INTEGER)").unwrap();
    drop(older);
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    write(&store, |store| store.execute_batch(fill)).await;
    write(&store, |store| store.execute_batch("DELETE FROM unreadable")).await;
    assert!(!store.read(DatabasePages::count).await.unwrap().can_shrink);
    store.rewrite().await.unwrap();
    let pages = store.read(DatabasePages::count).await.unwrap();
    assert!(pages.can_shrink && pages.free == 0, "{pages:?}");
}

/// What becomes of a conversation.
#[derive(Clone, Debug)]
enum Deed {
    /// Somebody is answered, at a cost.
    Answers,
    /// The program says something by itself.
    Notes,
    /// What was said is summed up, at a cost that is booked on the turn so far from the end.
    Compacts(usize),
    /// All that is older is forgotten after so many days.
    Forgets(i64),
    Closes,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        2 => Just(Deed::Answers),
        12 => Just(Deed::Notes),
        2 => (0_usize..30).prop_map(Deed::Compacts),
        1 => (0_i64..800).prop_map(Deed::Forgets),
        1 => Just(Deed::Closes),
    ];
    proptest::collection::vec(deed, 1..120)
}

fn address() -> Address {
    Address { channel: "home".into(), chat: "1".into(), thread: None }
}

async fn does(store: &Store, deed: Deed) {
    let deed = match deed {
        Deed::Forgets(days) => {
            return prune_rows(store, Utc::now() + Duration::days(days), Retention::default())
                .await
                .unwrap();
        }
        deed => deed,
    };
    let change = move |store: &Connection| {
        let session =
            sessions::open_or_begin(store, address(), peacrab::types::message::ChatKind::Private)?;
        match deed {
            Deed::Answers => store.execute_batch(&format!(
                "INSERT INTO turns (session, sender, attempts, provider, started, ended, ending)
                 VALUES ({0}, '{{}}', 1, 'x', 1, 1, '\"answered\"');
                 INSERT INTO steps (turn, seq, text, thinking) VALUES (last_insert_rowid(), 0, 'x', '[]');
                 INSERT INTO calls (turn, step, wire_id, tool, arguments, state, ended)
                 SELECT max(id), 0, 'w', 'read_file', '{{}}', 'done', 1 FROM turns;
                 INSERT INTO inbound (key, received, channel, chat, sender, control, message, state, turn)
                 SELECT 'k' || max(id), 1, 'home', '1', '7', 0, '{{}}', 'done', max(id) FROM turns;
                 INSERT INTO ledger (turn, at, provider, input, cached, output)
                 SELECT max(id), {1}, 'x', 1, 0, 1 FROM turns",
                session.0,
                Utc::now().timestamp_millis(),
            )),
            Deed::Notes => note(store, session),
            Deed::Compacts(from_the_end) => store.execute_batch(&format!(
                "INSERT INTO ledger (turn, at, provider, input, cached, output)
                 SELECT id, 1, 'x', 1, 0, 1 FROM turns WHERE session = {0}
                 ORDER BY id DESC LIMIT 1 OFFSET {from_the_end};
                 UPDATE sessions SET begins = ifnull((SELECT id FROM turns WHERE session = {0}
                 ORDER BY id DESC LIMIT 1 OFFSET {from_the_end}), begins) WHERE id = {0}",
                session.0,
            )),
            Deed::Closes => store.execute_batch("UPDATE sessions SET closed = 1 WHERE closed IS NULL"),
            Deed::Forgets(_) => Ok(()),
        }
    };
    write(store, change).await;
}

fn note(store: &Connection, session: SessionId) -> rusqlite::Result<()> {
    let sender = Sender::person(OWNER.to_owned(), "Ada".to_owned());
    let (input, said) = (said("[due]"), "tea".to_owned());
    sessions::note(store, session, &Note { sender: &sender, provider: "x", input, said })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_forgotten_nothing_points_at_it(deeds in deeds()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_home, store) = store();
            for deed in deeds {
                does(&store, deed).await;
            }
            let broken = texts(&store, "SELECT \"table\" FROM pragma_foreign_key_check").await;
            assert_eq!(broken, [""; 0]);
        });
    }
}

#[test]
fn a_clock_that_is_far_ahead_is_believed_day_by_day() {
    let day = |day: i64| DateTime::from_timestamp(1_790_000_000 + day * 86_400, 0).unwrap();
    let check = |now, newest: Option<i64>, up, until| {
        assert_eq!(pruned_until(day(now), newest.map(day), Duration::days(up)), until);
    };
    check(10, None, 0, Some(day(10)));
    check(10, Some(10), 0, Some(day(10)));
    check(40, Some(39), 0, Some(day(40)));
    check(27_000, Some(10), 0, Some(day(11)));
    check(27_000, Some(10), 5, Some(day(16)));
    check(9, Some(10), 0, None);
}

#[tokio::test]
async fn a_start_in_another_century_forgets_nothing_that_is_new() {
    let (hands, clock) = watch::channel(Utc::now());
    let mut rig =
        Rig::of(RigOptions { clock: Clock::with_hands(clock), ..RigOptions::default() }).await;
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.stop().await;
    rig.execute(
        "INSERT INTO unreadable (key, received, channel, raw) VALUES ('old', 1, 'home', 'x')",
    );
    hands.send_replace(Utc::now() + Duration::days(27_000));
    rig.start().await;
    // It was tidied up.
    rig.wait_for_count("SELECT count(*) FROM unreadable", 0).await;
    assert_eq!(rig.query("SELECT outcome FROM inbound"), ["answered"]);
    rig.finish().await;
}

#[test]
fn a_gap_of_more_than_400_days_is_not_believed_before_it_is_confirmed() {
    let day = |day: i64| DateTime::from_timestamp(1_790_000_000 + day * 86_400, 0).unwrap();
    let check = |newest: Option<i64>, known: Option<i64>, expected: Option<i64>| {
        assert_eq!(believed(newest.map(day), known.map(day)), expected.map(day));
    };
    check(None, Some(10), None);
    check(Some(10), None, Some(10));
    check(Some(40), Some(10), Some(40));
    check(Some(10), Some(40), Some(10));
    check(Some(410), Some(10), Some(410));
    check(Some(411), Some(10), Some(10));
}

/// Has the newest message and its turn be of another century, as if the clock had been wrong before.
const WRONG_BEFORE: &str = "
    UPDATE inbound SET received = received + 27000 * 86400000 WHERE id = (SELECT max(id) FROM inbound);
    UPDATE turns SET started = started + 27000 * 86400000 WHERE id = (SELECT max(id) FROM turns);
    INSERT INTO unreadable (key, received, channel, raw) VALUES ('old', 1, 'home', 'x')";

#[tokio::test]
async fn a_second_start_in_another_century_forgets_nothing_that_is_new() {
    let (hands, clock) = watch::channel(Utc::now());
    let mut rig =
        Rig::of(RigOptions { clock: Clock::with_hands(clock), ..RigOptions::default() }).await;
    for text in ["hello", "and now?"] {
        assert_eq!(rig.ask("1", text).await, format!("re: {text}"));
    }
    rig.stop().await;
    rig.execute(WRONG_BEFORE);
    hands.send_replace(Utc::now() + Duration::days(27_001));
    rig.start().await;
    rig.wait_for_count("SELECT count(*) FROM unreadable", 0).await;
    assert_eq!(rig.query("SELECT outcome FROM inbound"), ["answered", "answered"]);
    // Nor where no platform tells the time: what was believed before counts.
    rig.stop().await;
    rig.execute("UPDATE inbound SET message = json_remove(message, '$.id')");
    rig.execute(
        "INSERT INTO unreadable (key, received, channel, raw) VALUES ('old', 1, 'home', 'x')",
    );
    rig.start().await;
    rig.wait_for_count("SELECT count(*) FROM unreadable", 0).await;
    assert_eq!(rig.query("SELECT outcome FROM inbound"), ["answered", "answered"]);
    rig.finish().await;
}

#[test]
fn a_message_is_not_late_if_the_one_before_it_was_as_late() {
    let at = |seconds: i64| DateTime::from_timestamp(1_790_000_000 + seconds, 0).unwrap();
    let times = |said: i64, found: i64| MessageTimes { at: at(said), received: at(found) };
    let check = |message, earlier, late| assert_eq!(is_late(message, earlier), late);
    let two_days = 2 * 86_400;
    check(times(0, 60), None, false);
    check(times(0, two_days), None, true);
    // All at once, as a platform has kept them.
    check(times(5, two_days + 1), Some(times(0, two_days)), true);
    check(times(3_600, two_days + 60), Some(times(0, two_days)), true);
    // One after the other, as they are said.
    check(times(60, two_days + 61), Some(times(0, two_days)), false);
}

/// What was found late just now was found an hour ago.
fn an_hour_passes(rig: &Rig) {
    rig.execute(
        "UPDATE inbound SET received = received - 3600000,
         message = json_set(message, '$.at', strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-31 hours'))",
    );
}

#[tokio::test]
async fn answers_messages_that_all_look_late_because_the_clock_is_ahead() {
    let mut rig = Rig::new().await;
    let said = Utc::now() - Duration::hours(30);
    rig.say_changed(OWNER, "1", "hello", |message| message.at = said);
    assert_eq!(rig.next_message("1").await, replies::TOO_LATE);
    an_hour_passes(&rig);
    rig.say_changed(OWNER, "1", "and now?", |message| message.at = said);
    assert_eq!(rig.next_message("1").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn answers_the_first_message_of_a_conversation_though_the_clock_is_ahead() {
    let mut rig = Rig::new().await;
    let said = Utc::now() - Duration::hours(30);
    // What was heard elsewhere, a while ago, looked as late.
    rig.say_changed(OWNER, "1", "hello", |message| message.at = said);
    assert_eq!(rig.next_message("1").await, replies::TOO_LATE);
    rig.say_changed(OWNER, "2", "hello", |message| message.at = said);
    assert_eq!(
        rig.next_message("2").await,
        replies::TOO_LATE,
        "both may have been kept by the platform"
    );
    an_hour_passes(&rig);
    rig.say_changed(OWNER, "3", "hello", |message| message.at = said);
    assert_eq!(rig.next_message("3").await, "re: hello");
    rig.finish().await;
}

#[tokio::test]
async fn answers_what_has_just_been_said_whatever_the_clocks_show() {
    let mut rig = Rig::new().await;
    let said = Utc::now() - Duration::hours(30);
    rig.clock_lag.as_ref().unwrap().note(Duration::hours(30));
    rig.say_changed(OWNER, "1", "hello", |message| message.at = said);
    assert_eq!(rig.next_message("1").await, "re: hello");
    let older = said - Duration::hours(5);
    rig.say_changed(OWNER, "2", "hello", |message| message.at = older);
    assert_eq!(rig.next_message("2").await, replies::TOO_LATE);
    rig.finish().await;
}

#[test]
fn what_a_channel_tells_has_just_been_said_once_it_was_heard_without_a_gap() {
    let input = |minutes: &[u64]| {
        let at = minutes.iter().map(|minute| std::time::Duration::from_secs(60 * minute));
        at.fold(None, |before, at| Some(ReceivedPeriod::extend(before, at)))
            .is_some_and(ReceivedPeriod::is_steady)
    };
    assert!(!input(&[5]));
    assert!(!input(&[5, 7, 9, 11, 13]));
    assert!(input(&[5, 7, 9, 11, 13, 15]));
    // The machine slept.
    assert!(!input(&[5, 7, 9, 11, 13, 2000]));
    assert!(!input(&[5, 7, 9, 11, 13, 2000, 2003]));
}

#[tokio::test]
async fn what_waits_to_be_delivered_waits_for_its_pause_if_the_clock_was_set_back_between_two_runs()
{
    let mut rig = Rig::new().await;
    rig.home.next("1", [SendBehavior::Busy(std::time::Duration::from_secs(20))]);
    rig.say("1", "hello");
    rig.wait_for_count("SELECT count(*) FROM outbox WHERE failing_since IS NOT NULL", 1).await;
    rig.stop().await;
    // By the clock of then, an hour later.
    rig.execute(
        "UPDATE outbox SET created = created + 3600000, next = created + 3600000 + 1500,
         failing_since = NULL, failed_at = NULL",
    );
    rig.start().await;
    assert_eq!(rig.next_message("1").await, "re: hello");
    rig.finish().await;
}

#[tokio::test]
async fn what_waits_to_be_delivered_waits_no_longer_if_the_clock_is_set_back() {
    let (began, at) = (Utc::now(), std::time::Instant::now());
    let clock = ClockReading::begin(began, at);
    let minute = std::time::Duration::from_secs(60);
    assert_eq!(clock.set_back_by(began + Duration::minutes(1), at + minute), None);
    assert_eq!(clock.set_back_by(began + Duration::hours(2), at + minute), None);
    let back = clock.set_back_by(began - Duration::minutes(59), at + minute);
    assert_eq!(back, Some(Duration::hours(1)));

    let (_home, store) = store();
    let next = write(&store, move |store| {
        let id = outbox::put(store, &address(), None, "tea")?;
        let later = (began + Duration::minutes(70)).timestamp_millis();
        store.execute("UPDATE outbox SET next = ? WHERE id = ?", [later, id.0])?;
        outbox::move_earlier(store, &address().channel, Duration::hours(1))?;
        Ok(outbox::next_of_each_chat(store, &address().channel, false, 1, &HashSet::new())?
            .remove(0)
            .next)
    });
    let next = next.await;
    assert_eq!(next.timestamp_millis(), (began + Duration::minutes(10)).timestamp_millis());
}

/// An hourly message, a compaction whose cost is booked on one that was sent before, and a day of silence.
#[tokio::test]
async fn reminders_arrive_however_long_nobody_speaks_after_a_compaction() {
    let (hands, clock) = watch::channel(Utc::now());
    let begun = Utc::now();
    let mut rig =
        Rig::of(RigOptions { clock: Clock::with_hands(clock), ..RigOptions::default() }).await;
    let hourly =
        json!({"action": "add", "when": "every 1h", "text": "Stretch.", "kind": "message"});
    let replies = [calls(&[("schedule", hourly)]), says("I will.")];
    rig.model.on("remind me", replies);
    assert_eq!(rig.ask("1", "remind me").await, "I will.");
    for run in 1..=23 {
        hands.send_replace(begun + Duration::minutes(60 * run + 1));
        assert!(rig.next_message("1").await.contains("Stretch."));
        if run == 4 {
            // The session that is kept in memory knows nothing of what was sent since.
            rig.stop_and_start_again().await;
            let words = rig.ask("1", "/compact").await;
            assert!(words.starts_with("I compacted 3 exchanges"), "{words}");
        }
    }
    rig.finish().await;
}
