//! A write-ahead log that is lost while nobody runs: what it had is gone, and somebody is told.

use std::fs::{self, File};
use std::path::Path;

use peacrab::store::{LostLog, Store, StoreOptions, Sync, find_lost_log, read_offline};
use rusqlite::Connection;
use tempfile::TempDir;

fn write_little(store: &Connection) -> rusqlite::Result<usize> {
    store.execute("INSERT INTO notices (key, at) VALUES ('a test', 1)", [])
}

fn count_notices(store: &Connection) -> rusqlite::Result<i64> {
    store.query_row("SELECT count(*) FROM notices", [], |row| row.get(0))
}

/// Copies the files of a database, as a kill leaves them.
fn copy_database(from: &Path, to: &Path) {
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_log_that_is_gone_or_unreadable_is_told_from_one_that_is_whole_or_empty() {
    let (home, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    assert_eq!(find_lost_log(home.path()), None);
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    store.write("a test", Sync::Now, write_little).await.unwrap();
    copy_database(home.path(), copy.path());
    store.close().await;
    assert_eq!(find_lost_log(home.path()), None);
    let (log, index) = (copy.path().join("state.db-wal"), copy.path().join("state.db-shm"));
    let whole = fs::read(&log).unwrap();
    assert!(whole.len() > 32);
    let found = || find_lost_log(copy.path());
    assert_eq!(found(), None);
    for at in [0, 9, 20, 30] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&log, flipped).unwrap();
        assert_eq!(found(), Some(LostLog::Unreadable), "{at}");
    }
    fs::write(&log, "").unwrap();
    assert_eq!(found(), None);
    fs::remove_file(&log).unwrap();
    assert_eq!(found(), Some(LostLog::Missing));
    // The stub of a start that had no space.
    File::create(&index).unwrap().set_len(4096).unwrap();
    assert_eq!(found(), None);
    fs::remove_file(&index).unwrap();
    assert_eq!(found(), None);
}

#[tokio::test]
async fn a_command_that_reads_a_store_without_its_log_does_not_hide_the_loss() {
    let (home, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let open = || Store::open(home.path(), &StoreOptions::default()).unwrap();
    open().close().await;
    let store = open();
    store.write("a test", Sync::Now, write_little).await.unwrap();
    copy_database(home.path(), copy.path());
    store.close().await;
    assert_eq!(read_offline(home.path(), count_notices).unwrap(), Some(1));
    fs::remove_file(copy.path().join("state.db-wal")).unwrap();
    assert_eq!(find_lost_log(copy.path()), Some(LostLog::Missing));
    assert_eq!(read_offline(copy.path(), count_notices).unwrap(), Some(0));
    // So that the next start tells the owner.
    assert_eq!(find_lost_log(copy.path()), Some(LostLog::Missing));
}
