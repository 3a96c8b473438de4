//! The trouble of a store: what it knows of it, and what the owner hears.

use peacrab::replies;
use peacrab::store::{Store, StoreOptions, StoreTrouble, Sync};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{large, make_room};
use crate::support::damage::damage;
use crate::support::rig::{Rig, USER};
use crate::support::script::says;

fn count_strangers(store: &Connection) -> rusqlite::Result<i64> {
    store.query_row("SELECT count(*) FROM strangers", [], |row| row.get(0))
}

fn write_little(store: &Connection) -> rusqlite::Result<usize> {
    store.execute("INSERT OR IGNORE INTO notices (key, at) VALUES ('a test', 1)", [])
}

#[tokio::test]
async fn damage_is_known_as_long_as_the_store_is_open() {
    let home = TempDir::new().unwrap();
    let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
    assert_eq!(store.read(count_strangers).await.unwrap(), 0);
    assert_eq!(store.trouble(), None);
    store.close().await;
    damage(&home.path().join("state.db"), "strangers");
    let open = || Store::open(home.path(), &StoreOptions::default()).unwrap();
    for is_read in [true, false] {
        let store = open();
        assert_eq!(store.trouble(), None);
        let count = match is_read {
            true => store.read(count_strangers).await,
            false => store.write("a test", Sync::Now, count_strangers).await,
        };
        assert!(count.is_err());
        assert_eq!(store.trouble(), Some(StoreTrouble::Damaged));
        // Other parts of it still work.
        store.write("a test", Sync::Now, write_little).await.unwrap();
        assert_eq!(store.trouble(), Some(StoreTrouble::Damaged));
        store.close().await;
    }
}

#[tokio::test]
async fn a_full_disk_is_known_until_there_is_space_for_the_ballast() {
    let home = TempDir::new().unwrap();
    drop(Store::open(home.path(), &StoreOptions::default()).unwrap());
    let options = StoreOptions { pages_max: Some(1), ..StoreOptions::default() };
    let store = Store::open(home.path(), &options).unwrap();
    let write_much = |store: &Connection| {
        store.execute_batch("CREATE TABLE much AS SELECT zeroblob(1000000) AS bytes")
    };
    assert!(store.write("a test", Sync::Now, write_much).await.is_err());
    assert_eq!(store.trouble(), Some(StoreTrouble::Full));
    // What little fits does not end it.
    store.write("a test", Sync::Now, write_little).await.unwrap();
    assert_eq!(store.trouble(), Some(StoreTrouble::Full));
}

#[tokio::test]
async fn the_owner_hears_once_of_a_full_disk_although_somebody_else_writes() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.stop().await;
    let store = Connection::open(rig.path().join("state.db")).unwrap();
    let pages: u32 = store.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    drop(store);
    rig.parts.store.pages_max = Some(pages + 24);
    rig.start().await;
    rig.model.on("lorem", [says("read")]);
    rig.say_as(USER, "2", &large());
    assert_eq!(rig.next_message("2").await, replies::STORE_FAILED);
    assert_eq!(rig.next_message("1").await, replies::DISK_HAS_NO_SPACE);
    rig.wait_until(|rig| rig.home.rejected() >= 5).await;
    make_room(&mut rig).await;
    assert_eq!(rig.next_message("2").await, "read");
    assert_eq!(rig.unread("1"), [""; 0]);
    rig.finish().await;
}
