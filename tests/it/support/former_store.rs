//! Stores as former versions left them: made by their own scripts, or from a store of today, whose later tables and columns
//! are taken away.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use peacrab::memory::recall::RecallKey;
use rusqlite::Connection;

/// The oldest version that is migrated.
pub(crate) const BASE: u32 = 7;

/// The oldest version to which a store of today can be taken back.
pub(crate) const OLDEST_BACK: u32 = 30;

/// A conversation with a tool call, as version 7 has it. Nobody has paused in it.
const CONVERSATION: &str = r#"
    INSERT INTO sessions (id, channel, chat, place, opened) VALUES (1, 'home', '1', '"private"', 1);
    INSERT INTO turns (id, session, sender, attempts, provider, started, ended, ending)
        VALUES (1, 1, '{"id": "7", "name": "Person 7"}', 1, 'script', 1, strftime('%s', 'now') * 1000, '"answered"');
    INSERT INTO steps (turn, seq, heard, text, thinking)
        VALUES (1, 0, 'what is in it?', '', '[]'), (1, 1, NULL, 'A crab.', '[]');
    INSERT INTO calls (turn, step, wire_id, tool, arguments, state, output)
        VALUES (1, 0, 'w', 'read_file', '{"path": "a.md"}', 'done', 'a crab')"#;

/// The owner's job, a paired person, and a message that is not delivered yet, as version 7 has them.
const HOUSEHOLD: &str = r#"
    INSERT INTO jobs (channel, chat, known_on, place, sender, timing, payload, missed, state, next, made, tainted)
        VALUES ('home', '1', 'home', '"private"', '{"id": "7", "name": "Person 7"}',
                '{"every": {"seconds": 31622400, "from": "2026-01-01T00:00:00Z"}}', '{"message": "Order the tea."}',
                '"once"', 'active', 4070908800000, 1, 0);
    INSERT INTO people (channel, sender, name, role, since) VALUES ('home', '55', 'Carol', '"user"', 1);
    INSERT INTO outbox (channel, chat, body, created, state, next)
        VALUES ('home', '1', '{"text": "I still owe you this."}', strftime('%s', 'now') * 1000, 'pending', 0)"#;

/// The first version with facts.
pub(crate) const FACTS: u32 = 20;

/// A fact about the owner. The parameter is the key of those who may find it.
const FACT: &str = "INSERT INTO facts (who, kind, text, status, sources, made, used)
    VALUES (?, 'other', 'I like tea with lemon.', 'active', '[]', strftime('%s', 'now') * 1000, strftime('%s', 'now') * 1000)";

pub(crate) fn script_name(version: u32) -> String {
    match version {
        BASE => "schema.sql".to_owned(),
        later => format!("schema-{later}.sql"),
    }
}

/// The script of a version, as it was released.
pub(crate) fn script(version: u32) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    fs::read_to_string(folder.join(script_name(version))).ok()
}

/// The version of today.
pub(crate) fn newest() -> u32 {
    (BASE..).take_while(|version| script(*version).is_some()).last().unwrap()
}

/// Makes the store of a version, in which somebody has talked since the base version.
pub(crate) fn make_store(home: &Path, version: u32) {
    make(home, version, |store, step| {
        if step == BASE {
            store.execute_batch(CONVERSATION).unwrap();
        }
    });
}

/// The same, in which much more has happened.
pub(crate) fn make_store_of_household(home: &Path, version: u32) {
    make(home, version, |store, step| match step {
        BASE => {
            store.execute_batch(CONVERSATION).unwrap();
            store.execute_batch(HOUSEHOLD).unwrap();
        }
        FACTS => {
            let account = RecallKey::of_account(&"home".into(), &"7".into(), 0);
            store.execute(FACT, [account]).unwrap();
        }
        _ => {}
    });
}

/// Runs the scripts up to a version. `fill` adds the rows of each.
fn make(home: &Path, version: u32, fill: impl Fn(&Connection, u32)) {
    fs::create_dir_all(home).unwrap();
    let path = home.join("state.db");
    let store = Connection::open(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    store.pragma_update(None, "page_size", 1024).unwrap();
    for step in BASE..=version {
        store.execute_batch(&script(step).unwrap()).unwrap();
        fill(&store, step);
    }
    store.pragma_update(None, "user_version", version).unwrap();
}

/// Takes a store of today back to a former version. What is in later tables and columns is gone.
pub(crate) fn go_back(store: &Connection, version: u32) {
    let present: u32 = store.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    for step in (version + 1..=present).rev() {
        store.execute_batch(reverse(step)).unwrap();
    }
    store.pragma_update(None, "user_version", version).unwrap();
}

/// The reverse of a version's script.
fn reverse(version: u32) -> &'static str {
    match version {
        43 => {
            "DROP INDEX inbound_media;
             CREATE INDEX inbound_media ON inbound (channel, chat, thread)
                 WHERE json_array_length(message, '$.body.media') > 0"
        }
        42 => {
            "ALTER TABLE web_logins DROP COLUMN asked_on; ALTER TABLE web_logins DROP COLUMN asked_by"
        }
        41 => "ALTER TABLE asks DROP COLUMN batch",
        40 => {
            "DROP INDEX deferred_calls_queued; ALTER TABLE deferred_calls DROP COLUMN queued"
        }
        39 => "ALTER TABLE asks DROP COLUMN files; ALTER TABLE deferred_calls DROP COLUMN files",
        38 => "DROP TABLE watched_commands",
        37 => {
            "ALTER TABLE steps RENAME COLUMN input TO heard;
             ALTER TABLE turns RENAME COLUMN suspended TO parked;
             ALTER TABLE turns RENAME COLUMN wait_notified TO wait_told;
             ALTER TABLE chunks RENAME COLUMN ambiguous_sends TO doubts;
             ALTER TABLE outbox RENAME COLUMN lets_others_pass TO aside;
             ALTER TABLE strangers RENAME COLUMN answered_at TO told;
             ALTER TABLE heartbeat_state RENAME TO heart"
        }
        36 => {
            "DROP INDEX deferred_calls_turn; DROP INDEX deferred_calls_held;
             ALTER TABLE deferred_calls DROP COLUMN untold; ALTER TABLE deferred_calls DROP COLUMN turn;
             ALTER TABLE deferred_calls DROP COLUMN held; ALTER TABLE deferred_calls DROP COLUMN decider"
        }
        35 => {
            "ALTER TABLE sessions DROP COLUMN trusted_summary; ALTER TABLE sessions DROP COLUMN trusted_sources;
             ALTER TABLE sessions DROP COLUMN left_out"
        }
        // The check of the kinds of tasks stays away: it would refuse none of them.
        34 => {
            "DROP INDEX sessions_task;
             CREATE UNIQUE INDEX sessions_subagent ON sessions (channel, chat, ifnull(thread, ''))
                 WHERE closed IS NULL AND kind = 'subagent';
             CREATE UNIQUE INDEX sessions_job ON sessions (channel, chat, ifnull(thread, ''))
                 WHERE closed IS NULL AND kind = 'job';
             CREATE UNIQUE INDEX sessions_heartbeat ON sessions (channel, chat, ifnull(thread, ''))
                 WHERE closed IS NULL AND kind = 'heartbeat'"
        }
        33 => "ALTER TABLE jobs DROP COLUMN needs",
        32 => {
            "ALTER TABLE sessions RENAME COLUMN chat_kind TO place;
             ALTER TABLE jobs RENAME COLUMN chat_kind TO place;
             ALTER TABLE deferred_calls RENAME COLUMN chat_kind TO place"
        }
        31 => "DROP TABLE marked_files; DROP TABLE former_home",
        later => panic!("add the way back from version {later} here"),
    }
}
