//! The trouble of a store: what it knows of it, and what the owner hears.

use std::future::ready;
use std::time::Duration;

use peacrab::channels::direct::{self, DirectOutcome};
use peacrab::daemon::store_trouble::follow;
use peacrab::replies;
use peacrab::store::ballast::Ballast;
use peacrab::store::{Store, StoreOptions, StoreTrouble, Sync};
use peacrab::types::message::Address;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{large, make_room};
use crate::support::damage::damage;
use crate::support::fake_channel::{FakeChannel, SendBehavior};
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

#[test]
fn a_ballast_that_cannot_be_written_is_missing() {
    let home = TempDir::new().unwrap();
    assert!(Ballast::create(home.path()).is_whole());
    // It is there.
    assert!(Ballast::create(home.path()).is_whole());
    // There is no place for a new file, as on a file system without space for its name.
    assert!(!Ballast::create(&home.path().join("gone")).is_whole());
    assert!(!Ballast::create(&home.path().join("ballast")).is_whole());
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

/// A trouble, or none, with the minute in which it begins.
type TroubleAt = (u64, Option<StoreTrouble>);

const DAY: u64 = 24 * 60;

/// The minutes in which the owner is told in the course of a day that begins in the first trouble. The first messages end
/// as in `failures`.
async fn minutes_told(
    noticed: Option<StoreTrouble>,
    course: &[TroubleAt],
    failures: &[DirectOutcome],
) -> Vec<(u64, StoreTrouble)> {
    let begun = Instant::now();
    let minute = |minute: u64| begun + Duration::from_secs(60 * minute);
    let troubles = watch::Sender::new(course[0].1);
    let mut told = Vec::new();
    let follow = follow(troubles.subscribe(), noticed, |trouble| {
        told.push((begun.elapsed().as_secs() / 60, trouble));
        ready(failures.get(told.len() - 1).copied().unwrap_or(DirectOutcome::Arrived))
    });
    let happen = async move {
        for (at, trouble) in &course[1..] {
            sleep_until(minute(*at)).await;
            troubles.send_replace(*trouble);
        }
        sleep_until(minute(DAY)).await;
    };
    tokio::join!(follow, happen);
    told
}

#[tokio::test(start_paused = true)]
async fn a_trouble_is_told_once_until_it_is_over_and_once_an_hour_if_it_comes_back() {
    use StoreTrouble::{Damaged, Failing, Full};
    let told = async |course: &[TroubleAt]| minutes_told(None, course, &[]).await;
    assert_eq!(told(&[(0, Some(Full))]).await, [(0, Full)]);
    // It is over, and comes back to stay.
    let course = [(0, Some(Full)), (10, None), (30, Some(Full))];
    assert_eq!(told(&course).await, [(0, Full), (60, Full)]);
    // One commit fails, and later all of them.
    let course = [(0, Some(Failing)), (1, None), (2, Some(Failing))];
    assert_eq!(told(&course).await, [(0, Failing), (60, Failing)]);
    // It is over before the hour, and never comes back.
    let course = [(0, Some(Full)), (10, None), (30, Some(Full)), (50, None)];
    assert_eq!(told(&course).await, [(0, Full)]);
    let course = [(0, Some(Full)), (10, None), (100, Some(Full)), (120, Some(Damaged))];
    assert_eq!(told(&course).await, [(0, Full), (100, Full), (120, Damaged)]);
}

#[tokio::test(start_paused = true)]
async fn the_notice_of_a_start_on_the_ballast_is_trusted_for_an_hour() {
    use StoreTrouble::Full;
    let told = async |course: &[TroubleAt]| minutes_told(Some(Full), course, &[]).await;
    // The notice is in the outbox, and a delivery needs commits: it may be there for days.
    assert_eq!(told(&[(0, Some(Full))]).await, [(60, Full)]);
    assert!(told(&[(0, Some(Full)), (5, None)]).await.is_empty());
    assert_eq!(told(&[(0, Some(Full)), (5, None), (20, Some(Full))]).await, [(60, Full)]);
    assert_eq!(told(&[(0, Some(Full)), (5, None), (90, Some(Full))]).await, [(90, Full)]);
    // One that could not be stored is none.
    assert_eq!(minutes_told(None, &[(0, Some(Full))], &[]).await, [(0, Full)]);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_trouble_is_repeated_soon_only_if_it_was_not_sent() {
    use DirectOutcome::{NotSent, Unclear};
    use StoreTrouble::Full;
    let told = minutes_told(None, &[(0, Some(Full))], &[NotSent, NotSent]).await;
    assert_eq!(told, [(0, Full), (1, Full), (2, Full)]);
    let told = minutes_told(None, &[(0, Some(Full))], &[Unclear, NotSent]).await;
    assert_eq!(told, [(0, Full), (60, Full), (61, Full)]);
    let course = [(0, Some(Full)), (5, None), (10, Some(Full))];
    assert_eq!(minutes_told(None, &course, &[Unclear]).await, [(0, Full), (60, Full)]);
}

#[tokio::test(start_paused = true)]
async fn a_message_past_the_outbox_is_not_sent_only_if_the_platform_is_away() {
    use DirectOutcome::{Arrived, NotSent, Unclear};
    for (behavior, expected) in [
        (SendBehavior::Takes, Arrived),
        (SendBehavior::Busy(Duration::from_secs(1)), NotSent),
        (SendBehavior::Swallows, Unclear),
        (SendBehavior::Stuck, Unclear),
        (SendBehavior::Panics, Unclear),
        // It never takes it.
        (SendBehavior::Refuses, Unclear),
    ] {
        let channel = FakeChannel::new();
        channel.always("1", behavior);
        let to = Address { channel: "home".into(), chat: "1".into(), thread: None };
        assert_eq!(direct::send(&channel, to, "full").await, expected);
    }
    let pauses = [Arrived, NotSent, Unclear].map(|outcome| outcome.pause().map(|it| it.as_secs()));
    assert_eq!(pauses, [None, Some(60), Some(3600)]);
}
