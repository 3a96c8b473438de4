//! How often a message is written down: each commit costs pages, each sync waits for the disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use chrono::{TimeDelta, Utc};
use peacrab::control::disk_usage::DiskUsage;
use peacrab::conversation::sessions::Retention;
use peacrab::daemon::prune_rows;
use peacrab::store::{CommitEvent, DatabasePages, Phase, Store, StoreOptions, Sync};

use crate::support::rig::{Rig, RigOptions};

type Commits = Arc<Mutex<Vec<(Sync, Vec<&'static str>)>>>;

/// A daemon whose commits are written down.
async fn watched() -> (Rig, Commits) {
    let commits = Commits::default();
    let seen = Arc::clone(&commits);
    let observer = Arc::new(move |moment: CommitEvent<'_>| {
        if moment.phase == Phase::After {
            seen.lock().unwrap().push((moment.sync, moment.labels.to_vec()));
        }
    });
    let store = StoreOptions { observer: Some(observer), ..StoreOptions::default() };
    (Rig::of(RigOptions { store, ..RigOptions::default() }).await, commits)
}

#[test]
fn a_days_bytes_are_of_at_least_an_hour() {
    let written = DiskUsage {
        database: 7,
        written_by_store: 1_000_000,
        written_as_files: 500,
        written_by_programs: 0,
    };
    assert_eq!(written.daily(0), None);
    let expected = DiskUsage { written_by_store: 2_000_000, written_as_files: 1000, ..written };
    assert_eq!(written.daily(12), Some(expected));
    let most = DiskUsage { written_by_store: u64::MAX, ..written };
    assert_eq!(most.daily(48).map(|day| day.written_by_store), Some(u64::MAX / 48));
}

#[tokio::test]
async fn a_plain_message_costs_few_commits_and_two_syncs() {
    let (mut rig, commits) = watched().await;
    rig.ask("1", "hello").await;
    rig.settled().await;
    commits.lock().unwrap().clear();
    rig.ask("1", "and again").await;
    rig.settled().await;
    let commits = std::mem::take(&mut *commits.lock().unwrap());
    let labels = commits.iter().flat_map(|(_, labels)| labels).copied();
    // On a slow machine, the daemon may tidy as late as this after its start.
    let labels: Vec<_> = labels.filter(|label| *label != "attachments expire").collect();
    assert_eq!(labels, ["publish", "turn start", "answer", "sending", "sent"]);
    // It is on the disk before it is acknowledged, its answer before that is sent.
    let synced = commits.iter().filter(|(sync, _)| *sync == Sync::Now);
    let synced: Vec<_> = synced.flat_map(|(_, labels)| labels).copied().collect();
    assert_eq!(synced, ["publish", "sending"]);
    rig.finish().await;
}

/// The years that a card is to last, in days, with so many messages a day.
const DAYS: u64 = 5 * 365;
const MESSAGES_A_DAY: u64 = 50;

/// A small card, in bytes.
const CARD_BYTES: u64 = 8_000_000_000;

/// Messages of a measurement. Their log is not moved into the database meanwhile.
const MEASURED: u64 = 40;

fn log_bytes(home: &Path) -> u64 {
    fs::metadata(home.join("state.db-wal")).unwrap().len()
}

/// Returns the bytes that were written since the log was so long: the log itself, and each of its pages once more, when it
/// is moved into the database.
fn written_since(home: &Path, from: u64) -> u64 {
    // The lengths of the log's header and of a frame's (section 4 of SQLite's "WAL-mode File Format").
    let (header, frame_header) = (32, 24);
    let log = fs::read(home.join("state.db-wal")).unwrap();
    let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let page = usize::try_from(word(8)).unwrap();
    let from = usize::try_from(from).unwrap().max(header);
    assert!(log.len() > from, "the log was begun anew");
    let frames = (from..log.len()).step_by(frame_header + page);
    let pages: BTreeSet<u32> = frames.map(word).collect();
    (log.len() - from + pages.len() * page) as u64
}

fn database_bytes(rig: &Rig) -> u64 {
    let bytes = "SELECT CAST((page_count - freelist_count) * page_size AS TEXT)
                 FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    rig.query(bytes)[0].parse().unwrap()
}

#[tokio::test]
async fn five_years_of_messages_fit_on_a_small_card() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.settled().await;
    let (log, empty) = (log_bytes(&rig.path()), database_bytes(&rig));
    for n in 0..MEASURED {
        rig.ask("1", &format!("{n} {}", "What else do we need today? ".repeat(10))).await;
    }
    rig.settled().await;
    let by_messages = written_since(&rig.path(), log).div_ceil(MEASURED);
    let full = database_bytes(&rig);
    let stored = (full - empty).div_ceil(MEASURED);
    rig.ask("1", "/new").await;
    rig.stop().await;
    // A day in which nobody says a word has a clean-up; a start has one, and writes more.
    rig.execute(
        "INSERT INTO unreadable (key, received, channel, raw) VALUES ('old', 1, 'home', 'x')",
    );
    rig.start().await;
    rig.wait_for_count("SELECT count(*) FROM unreadable", 0).await;
    let by_day = written_since(&rig.path(), 0);
    rig.settled().await;
    rig.stop().await;
    let written = DAYS * (MESSAGES_A_DAY * by_messages + by_day);
    assert!(written < CARD_BYTES, "{by_messages} bytes a message, {by_day} a day: {written}");
    // A year of them is kept, and no more.
    let year = 365 * MESSAGES_A_DAY * stored;
    assert!(year < Retention::default().database_bytes_max, "{stored} bytes a message: {year}");
    let store = Store::open(&rig.path(), &StoreOptions::default()).unwrap();
    let later = Utc::now() + TimeDelta::days(400);
    prune_rows(&store, later, Retention::default()).await.unwrap();
    let left = store.read(DatabasePages::bytes).await.unwrap();
    store.close().await;
    assert!(left < empty + (full - empty) / 2, "{empty}, {full}, and {left} after a year");
}
