//! A database that a link in the home leads to, as on a disk of its own.

use std::os::unix::fs::symlink;

use peacrab::store::{Store, StoreOptions, Sync, check_integrity, snapshot, try_read};
use rusqlite::Connection;
use tempfile::TempDir;

fn write_little(store: &Connection) -> rusqlite::Result<usize> {
    store.execute("INSERT INTO notices (key, at) VALUES ('a test', 1)", [])
}

fn count_written(store: &Connection) -> rusqlite::Result<i64> {
    let count = "SELECT count(*) FROM notices WHERE key = 'a test'";
    store.query_row(count, [], |row| row.get(0))
}

#[tokio::test]
async fn a_linked_database_is_read_and_copied_with_its_newest_commits() {
    let (home, disk) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    symlink(disk.path().join("kept.db"), home.path().join("state.db")).unwrap();
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    store.checkpoint().await;
    store.write("a test", Sync::Now, write_little).await.unwrap();
    // They are in the log only, which is not in the home.
    assert!(disk.path().join("kept.db-wal").metadata().unwrap().len() > 0);
    assert!(!home.path().join("state.db-wal").exists());
    assert_eq!(try_read(home.path(), count_written), Some(1));
    check_integrity(home.path()).unwrap();
    let copy = home.path().join("copy.db");
    snapshot(home.path(), &copy).unwrap();
    assert_eq!(count_written(&Connection::open(copy).unwrap()).unwrap(), 1);
    store.close().await;
    assert_eq!(try_read(home.path(), count_written), Some(1));
}
