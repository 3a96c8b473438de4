//! What must be true after any crash, read from the store, the workspace and the platform.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::database;
use crate::support::platform::{PHOTO, Platform, PlatformBehavior, ReceivedMessage, document};

/// The mark of what may have been sent before (docs/faq.md tells people of it).
const MARK: &str = "(perhaps sent twice)\n";

/// What people said, and no task that was handed on or was due.
const SAID: &str = "key NOT LIKE '(%'";

fn open(home: &Path) -> Option<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(database(home), flags).ok()
}

fn count(store: &Connection, sql: &str) -> Option<usize> {
    store.query_row(sql, [], |row| row.get(0)).ok()
}

/// Whether all that was said is done, and all answers are out.
pub(super) fn is_settled(home: &Path, said: usize) -> bool {
    let Some(store) = open(home) else { return false };
    let done = format!("SELECT count(*) FROM inbound WHERE state = 'done' AND {SAID}");
    // A run that ends puts what came of it into the outbox, so it is asked for first.
    count(&store, "SELECT count(*) FROM tasks WHERE kind = 'job' AND state = 'running'") == Some(0)
        && count(&store, &done) == Some(said)
        && count(&store, "SELECT count(*) FROM inbound WHERE state <> 'done'") == Some(0)
        && count(&store, "SELECT count(*) FROM outbox WHERE state = 'pending'") == Some(0)
        && count(&store, "SELECT count(*) FROM turns WHERE ending IS NULL") == Some(0)
        && count(&store, "SELECT count(*) FROM jobs WHERE state = 'active'") == Some(0)
}

/// For the message of a test that waited in vain.
pub(super) fn what_is_left(home: &Path) -> String {
    let Some(store) = open(home) else { return "there is no store".to_owned() };
    let mut text = String::new();
    for table in ["inbound", "turns", "calls", "outbox", "chunks"] {
        let mut rows = store.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let cells = (0..columns).map(|at| format!("{:?}", row.get_ref(at).unwrap()));
            text += &format!("{table}: {}\n", cells.collect::<Vec<_>>().join(" "));
        }
    }
    text
}

/// What became of the calls of a tool.
pub(super) fn states(home: &Path, tool: &str) -> Vec<String> {
    look(home, &format!("SELECT state FROM calls WHERE tool = '{tool}' ORDER BY id"))
}

/// One text that the store gives.
pub(super) fn look(home: &Path, sql: &str) -> Vec<String> {
    let store = open(home).unwrap();
    let mut rows = store.prepare(sql).unwrap();
    let rows = rows.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// What became of the runs of jobs.
pub(super) fn runs(home: &Path) -> Vec<String> {
    let store = open(home).unwrap();
    let mut rows = store.prepare("SELECT state FROM tasks WHERE kind = 'job' ORDER BY id").unwrap();
    let rows = rows.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

pub(super) fn judge(home: &Path, platform: &Platform, manners: PlatformBehavior) {
    let store = open(home).unwrap();
    each_message_has_its_one_outcome(&store, platform);
    no_call_is_open(&store);
    all_deliveries_arrived_once(&store, platform, manners);
    no_side_effect_happened_twice(&store, home, platform);
    all_files_came_whole(&store, home);
}

/// The model calls in the ledger that are in this state.
pub(super) fn calls_in_ledger(home: &Path, state: &str) -> i64 {
    let sql = "SELECT count(*) FROM ledger WHERE state = ?";
    open(home).unwrap().query_row(sql, [state], |row| row.get(0)).unwrap()
}

fn all_files_came_whole(store: &Connection, home: &Path) {
    let sql = "SELECT ifnull(json_extract(message, '$.body.media[0].fetched.workspace'),
               json_extract(message, '$.body.media[0].fetched.read.path')), message
               FROM inbound WHERE message LIKE '%crab.png%' OR message LIKE '%lease.pdf%'";
    let mut rows = store.prepare(sql).unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(Option<String>, String)> = rows.collect::<Result<_, _>>().unwrap();
    let people = fs::read_dir(home.join("people")).into_iter().flatten();
    let mut downloads: Vec<_> =
        people.map(|person| person.unwrap().path().join("downloads")).collect();
    downloads.push(home.join("downloads"));
    let months = downloads.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let lie = months.flat_map(|month| fs::read_dir(month.unwrap().path()).unwrap()).count();
    let mut came = 0;
    for (path, message) in rows {
        // A platform that is busy three times in a row is given up, in words.
        let Some(path) = path else {
            assert!(message.contains("busy"), "{message}");
            continue;
        };
        let content = fs::read(home.join(path)).unwrap();
        assert!(content == PHOTO || content == document());
        came += 1;
    }
    assert_eq!(lie, came, "files lie about that nobody knows of");
}

fn each_message_has_its_one_outcome(store: &Connection, platform: &Platform) {
    let sql = format!("SELECT key, outcome, turn FROM inbound WHERE {SAID} ORDER BY id");
    let mut rows = store.prepare(&sql).unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let rows: Vec<(String, String, Option<i64>)> = rows.collect::<Result<_, _>>().unwrap();
    let keys: HashSet<_> = rows.iter().map(|(key, ..)| key.as_str()).collect();
    assert_eq!(keys.len(), rows.len(), "a message was accepted twice");
    assert_eq!(rows.len(), platform.said().len(), "a message was lost");
    for (key, outcome, turn) in &rows {
        match outcome.as_str() {
            "answered" | "refused" => assert!(turn.is_some(), "{key} was {outcome} without a turn"),
            "stopped" => assert!(rows.iter().any(|(_, outcome, _)| outcome == "obeyed"), "{key}"),
            outcome => assert_eq!(outcome, "obeyed", "{key}"),
        }
    }
    // One answer a turn, one line a command.
    let answers = "SELECT count(*) FROM turns t JOIN sessions s ON s.id = t.session
                   WHERE t.ending <> '\"stopped\"' AND s.kind NOT IN ('command', 'subagent', 'job', 'heartbeat')
                   AND NOT (s.kind = 'aside' AND t.noted)";
    let answers = count(store, answers).unwrap();
    let commands = rows.iter().filter(|(_, outcome, _)| outcome == "obeyed").count();
    let told = count(store, "SELECT count(*) FROM calls WHERE tool = 'message' AND state = 'done'")
        .unwrap();
    let deliveries = count(store, "SELECT count(*) FROM outbox").unwrap();
    // What only sends a text, or what a command printed, is noted in a turn. Of a command that was cut off,
    // whoever asked for it is told.
    let due =
        "SELECT count(*) FROM tasks WHERE kind = 'job' AND row IS NULL AND state = 'interrupted'";
    let due = count(store, due).unwrap();
    // The owner is told of what had to be given up.
    let notices = r#"SELECT count(*) FROM outbox WHERE body LIKE '{"text":"I couldn''t deliver%'"#;
    let notices = count(store, notices).unwrap();
    // Questions, and what takes the place of their buttons.
    let asked = count(store, "SELECT count(*) FROM asks").unwrap();
    let closed = "SELECT count(*) FROM outbox WHERE replaces IS NOT NULL AND body LIKE '%→%'";
    let closed = count(store, closed).unwrap();
    assert!(closed <= asked, "{}", dump(platform));
    // People are told once that their turn waits for the model.
    let waits = r#"SELECT count(*) FROM outbox WHERE body LIKE '%I can''t reach the model%'"#;
    let waits = count(store, waits).unwrap();
    let meant = answers + commands + told + due + notices + asked + closed + waits;
    assert_eq!(deliveries, meant, "{}", dump(platform));
}

fn no_call_is_open(store: &Connection) {
    let sql = "SELECT count(*) FROM calls c JOIN turns t ON t.id = c.turn
               WHERE c.state NOT IN ('done', 'failed', 'skipped', 'denied') AND t.ending = '\"answered\"'";
    // Files tell what happened, so nothing is ever in doubt here.
    assert_eq!(count(store, sql), Some(0));
    let failed = "SELECT group_concat(tool || arguments || output) FROM calls
                  WHERE state = 'failed' AND tool <> 'ask_question'";
    let failed: Option<String> = store.query_row(failed, [], |row| row.get(0)).unwrap();
    assert_eq!(failed, None);
}

fn all_deliveries_arrived_once(store: &Connection, platform: &Platform, manners: PlatformBehavior) {
    let dead = "SELECT count(*) FROM chunks WHERE state = 'dead'";
    if manners.knows {
        assert_eq!(count(store, dead), Some(0), "given up: {}", dump(platform));
    }
    let mut rows = store
        .prepare(
            "SELECT o.id, o.chat, ifnull(json_extract(c.body, '$.text'), json_extract(c.body, '$.choice.text')),
             c.state, c.seq, o.urgent
             FROM chunks c JOIN outbox o ON o.id = c.delivery ORDER BY o.id, c.seq",
        )
        .unwrap();
    let rows = rows
        .query_map([], |row| {
            Ok(Chunk {
                delivery: row.get(0)?,
                chat: row.get(1)?,
                text: row.get(2)?,
                dead: row.get::<_, String>(3)? == "dead",
                part: row.get(4)?,
                urgent: row.get(5)?,
            })
        })
        .unwrap();
    let chunks: Vec<Chunk> = rows.collect::<Result<_, _>>().unwrap();
    let got = platform.got();
    for chunk in &chunks {
        let copies =
            |text: &str| got.iter().filter(|got| chunk.is_part_of(got) && got.text == text).count();
        let text = &chunk.text;
        let (plain, marked) = (copies(text), copies(&format!("{MARK}{text}")));
        assert!(plain <= 1, "sent twice without a mark: {text}\n{}", dump(platform));
        assert!(plain + marked >= 1 || chunk.dead, "never sent: {text}\n{}", dump(platform));
        if manners.knows {
            assert_eq!(marked, 0, "marked though the platform knows: {text}");
        }
    }
    for stray in got.iter().filter(|got| got.delivery != 0) {
        assert!(chunks.iter().any(|chunk| chunk.is_part_of(stray)), "from nowhere: {stray:?}");
    }
    // What answers a command passes by the rest; each of the two lines keeps its order.
    let arrived = |chunk: &Chunk| got.iter().position(|got| chunk.is_part_of(got));
    let mut lanes: BTreeMap<(&str, bool), Vec<(&str, usize)>> = BTreeMap::new();
    for chunk in &chunks {
        let lane = lanes.entry((&chunk.chat, chunk.urgent)).or_default();
        lane.extend(arrived(chunk).map(|place| (&*chunk.text, place)));
    }
    for (lane, arrived) in lanes {
        let places = arrived.iter().map(|(_, place)| place);
        assert!(places.is_sorted(), "out of order in {lane:?}: {arrived:#?}");
    }
}

/// A chunk of a delivery, as it stands in the store.
struct Chunk {
    delivery: i64,
    part: u32,
    chat: String,
    text: String,
    dead: bool,
    urgent: bool,
}

impl Chunk {
    fn is_part_of(&self, got: &ReceivedMessage) -> bool {
        (got.delivery, got.part) == (self.delivery, self.part)
    }
}

/// Each line that was appended, remembered or noted stands there at most once, and does if the
/// turn was answered.
fn no_side_effect_happened_twice(store: &Connection, home: &Path, platform: &Platform) {
    let log = fs::read_to_string(home.join("workspace/log.md")).unwrap_or_default();
    let mut expected = Vec::new();
    for line in platform.said() {
        for command in line.text.split(" then ").filter(|command| command.contains(" to log.md")) {
            expected.push(command.replace("append ", "").replace(" to log.md", ""));
        }
    }
    let undone = "SELECT (SELECT count(*) FROM inbound WHERE outcome NOT IN ('answered', 'obeyed'))
                  + (SELECT count(*) FROM calls WHERE state = 'denied')";
    let undone = count(store, undone).unwrap();
    let mut lines: Vec<_> = log.lines().map(str::to_owned).collect();
    let unique: HashSet<_> = lines.iter().cloned().collect();
    assert_eq!(unique.len(), lines.len(), "appended twice: {log}");
    lines.sort();
    expected.sort();
    expected.dedup();
    if undone == 0 {
        assert_eq!(lines, expected);
    } else {
        assert!(lines.iter().all(|line| expected.contains(line)));
    }
    let memory = fs::read_to_string(home.join("workspace/memory/MEMORY.md")).unwrap_or_default();
    assert!(memory.matches("the crab is small").count() <= 1, "remembered twice: {memory}");
}

fn dump(platform: &Platform) -> String {
    platform.got().iter().map(|got| format!("{got:?}\n")).collect()
}
