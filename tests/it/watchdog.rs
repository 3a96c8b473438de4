//! The watchdog: a daemon that idles makes progress, and one with a part that is stuck makes none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use peacrab::channels::deliver::DeliveryProgress;
use peacrab::control::health::Health;
use peacrab::daemon::watchdog::{self, Watchdog, WatchedParts};
use peacrab::store::{CommitEvent, Observer, Phase, Store, StoreOptions, Sync};
use peacrab::types::message::ChannelName;
use tokio::net::UnixDatagram;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::support::adapter_fixture::AdapterFixture;
use crate::support::binary::{PATIENCE, ProgramFixture, until};
use crate::support::fake_channel::SendBehavior;
use crate::support::rig::{Rig, RigOptions};
use crate::support::script::{Gate, held, says};

/// Long enough for parts that answer, also on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// For parts that never answer.
const SHORT: Duration = Duration::from_millis(50);

/// Where a thread waits until a test lets it go on.
#[derive(Default)]
struct Barrier {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Barrier {
    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let shut = self.is_shut.lock().unwrap();
        drop(self.changed.wait_while(shut, |is_shut| *is_shut).unwrap());
    }
}

fn no_deliveries() -> BTreeMap<ChannelName, DeliveryProgress> {
    BTreeMap::new()
}

/// An agent loop that does nothing but come round.
fn come_round(fixture: &AdapterFixture) -> JoinSet<()> {
    let bus = fixture.bus.clone();
    let mut woken = bus.inbox.watch();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while woken.changed().await.is_ok() {
            bus.rounds.notify();
        }
    });
    tasks
}

/// On a busy machine others may be slow, too.
async fn is_stuck(parts: &WatchedParts, part: &str) -> bool {
    parts.stuck(SHORT).await.contains(&part.to_owned())
}

async fn next(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = timeout(PATIENCE, socket.recv(&mut buffer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
}

#[tokio::test]
async fn an_idle_daemon_tells_systemd_again_and_again_that_it_makes_progress() {
    let fixture = ProgramFixture::new("");
    let path = fixture.folder().join("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = fixture.command(&[], &["run"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000");
    let daemon = fixture.begin(command);
    let mut told = Vec::new();
    while told.iter().filter(|it| *it == "WATCHDOG=1").count() < 4 {
        told.push(next(&socket).await);
    }
    assert!(told.contains(&"READY=1".to_owned()), "{told:?}");
    assert!(daemon.terminate().await.success());
    // A unit without WatchdogSec= hears nothing of it.
    let mut command = fixture.command(&[], &["run"]);
    command.env("NOTIFY_SOCKET", &path);
    while socket.try_recv(&mut [0; 256]).is_ok() {}
    let daemon = fixture.begin(command);
    assert_eq!(next(&socket).await, "READY=1");
    fixture.status().await;
    assert!(daemon.terminate().await.success());
    assert_eq!(next(&socket).await, "STOPPING=1");
}

#[tokio::test]
async fn a_writer_that_is_stuck_is_noticed_until_it_goes_on() {
    let barrier = Arc::new(Barrier::default());
    let at = Arc::clone(&barrier);
    let observer: Observer = Arc::new(move |moment: CommitEvent<'_>| {
        if moment.phase == Phase::Before {
            at.pass();
        }
    });
    let store = StoreOptions { observer: Some(observer), ..StoreOptions::default() };
    let rig = Rig::of(RigOptions { store, ..RigOptions::default() }).await;
    let parts = rig.watched.clone().unwrap();
    assert_eq!(parts.stuck(LONG).await, Vec::<String>::new());
    barrier.set(true);
    let store = parts.bus.store.clone();
    let mut writing = JoinSet::new();
    writing.spawn(async move { store.write("a test", Sync::Later, |_| Ok(())).await });
    until("the writer to hang", async || {
        is_stuck(&parts, "the store's writer").await.then_some(())
    })
    .await;
    barrier.set(false);
    writing.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(parts.stuck(LONG).await, Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_reader_that_is_stuck_is_noticed_until_it_goes_on() {
    let rig = Rig::new().await;
    let parts = rig.watched.clone().unwrap();
    let barrier = Arc::new(Barrier::default());
    barrier.set(true);
    let (store, at) = (parts.bus.store.clone(), Arc::clone(&barrier));
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        let read = move |_: &_| {
            at.pass();
            Ok(())
        };
        store.read(read).await
    });
    until("the reader to hang", async || {
        let stuck = parts.stuck(SHORT).await;
        // The loop reads, too.
        let parts = ["the store's reader", "the agent loop"].map(str::to_owned);
        parts.iter().all(|part| stuck.contains(part)).then_some(())
    })
    .await;
    barrier.set(false);
    reading.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(parts.stuck(LONG).await, Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_loop_that_does_not_come_round_is_noticed() {
    let fixture = AdapterFixture::new();
    let parts = WatchedParts::new(fixture.bus.clone(), no_deliveries());
    assert!(is_stuck(&parts, "the agent loop").await);
    let _running = come_round(&fixture);
    assert_eq!(parts.stuck(LONG).await, Vec::<String>::new());
}

#[tokio::test]
async fn work_on_the_whole_database_is_progress_although_others_wait_for_it() {
    let fixture = AdapterFixture::new();
    let parts = WatchedParts::new(fixture.bus.clone(), no_deliveries());
    let (one, another) = (fixture.bus.store.long_work(), fixture.bus.store.long_work());
    assert_eq!(parts.stuck(SHORT).await, Vec::<String>::new());
    drop(one);
    assert_eq!(parts.stuck(SHORT).await, Vec::<String>::new());
    drop(another);
    assert!(is_stuck(&parts, "the agent loop").await);
    fixture.bus.store.rewrite().await.unwrap();
    assert_eq!(fixture.bus.store.long_work_duration(), None);
}

#[tokio::test]
async fn a_full_database_is_no_stuck_writer() {
    let home = tempfile::tempdir().unwrap();
    drop(Store::open(home.path(), &StoreOptions::default()).unwrap());
    let options = StoreOptions { pages_max: Some(1), ..StoreOptions::default() };
    let store = Store::open(home.path(), &options).unwrap();
    let full = store.write("a test", Sync::Now, |store| {
        store.execute_batch("CREATE TABLE much AS SELECT zeroblob(1000000) AS bytes")
    });
    assert!(full.await.is_err());
    assert!(store.writer_answers().await && store.reader_answers().await);
}

#[tokio::test]
async fn deliveries_that_do_not_come_round_or_hang_are_noticed() {
    let fixture = AdapterFixture::new();
    let _running = come_round(&fixture);
    let nobody = BTreeMap::from([("home".into(), DeliveryProgress::default())]);
    let parts = WatchedParts::new(fixture.bus.clone(), nobody);
    assert!(is_stuck(&parts, "the deliveries of home").await);

    // A send that takes longer than it may.
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.home.next("1", [SendBehavior::Held(gate.clone())]);
    rig.say("1", "hello");
    rig.wait_at(&gate).await;
    let mut parts = rig.watched.clone().unwrap();
    assert_eq!(parts.stuck(LONG).await, Vec::<String>::new());
    parts.attempt_time_max = Duration::ZERO;
    assert_eq!(parts.stuck(LONG).await, ["the deliveries of home"]);
    gate.open();
    rig.next_message("1").await;
    rig.settled().await;
    until("the delivery to end", async || parts.stuck(LONG).await.is_empty().then_some(())).await;
    rig.finish().await;
}

#[tokio::test]
async fn nothing_is_reported_until_all_parts_make_progress() {
    let fixture = AdapterFixture::new();
    let parts = WatchedParts::new(fixture.bus.clone(), no_deliveries());
    let runs = Arc::new(AtomicBool::new(false));
    let (tell, mut told) = mpsc::channel(16);
    let is_running = Arc::clone(&runs);
    let report = move || {
        tell.try_send(is_running.load(Ordering::SeqCst)).ok();
    };
    let watchdog = Watchdog { within: 3 * SHORT, report: Arc::new(report) };
    let stop = CancellationToken::new();
    let mut watching = JoinSet::new();
    watching.spawn(watchdog::run(watchdog, parts.clone(), stop.clone()));
    // Checks that find it stuck.
    for _ in 0..3 {
        assert!(is_stuck(&parts, "the agent loop").await);
    }
    runs.store(true, Ordering::SeqCst);
    let _running = come_round(&fixture);
    for _ in 0..3 {
        assert!(
            timeout(PATIENCE, told.recv()).await.unwrap().unwrap(),
            "it was reported while stuck"
        );
    }
    stop.cancel();
    watching.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_daemon_that_idles_or_whose_model_is_slow_is_healthy() {
    let mut rig = Rig::new().await;
    let bus = rig.watched.clone().unwrap().bus;
    assert_eq!(Health::examine(&bus).await, Health::default());
    let gate = Gate::shut();
    rig.model.on("think", [held(&gate, says("I have thought."))]);
    rig.say("1", "think");
    rig.wait_at(&gate).await;
    assert_eq!(Health::examine(&bus).await, Health::default());
    gate.open();
    assert_eq!(rig.next_message("1").await, "I have thought.");
    rig.finish().await;
}

#[tokio::test]
async fn a_loop_that_hangs_or_whose_passes_fail_is_unhealthy() {
    let (hangs, fails) = (AdapterFixture::new(), AdapterFixture::new());
    let _running = come_round(&fails);
    let ill = Health { agent_loop: false, ..Health::default() };
    let both = tokio::join!(Health::examine(&hangs.bus), Health::examine(&fails.bus));
    assert_eq!(both, (ill, ill));
    assert!(!ill.is_well());
}

#[tokio::test]
async fn status_and_doctor_fail_while_the_loop_is_stuck() {
    let fixture = ProgramFixture::new("");
    let _daemon = fixture.daemon().await;
    assert_eq!(fixture.run(&["status"]).await.code, Some(0));
    let store = rusqlite::Connection::open(fixture.home().join("state.db")).unwrap();
    store.busy_timeout(PATIENCE).unwrap();
    // Each pass of the loop reads this table, and nothing else here does.
    store.execute_batch("ALTER TABLE asks RENAME TO asks_of_before").unwrap();
    let ended = fixture.run(&["status"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.starts_with("unhealthy: the agent loop is stuck"), "{ended:?}");
    let ended = fixture.run(&["status", "--json"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let status: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let health = serde_json::json!({ "agent_loop": false, "store": true });
    assert_eq!(status["health"], health, "{status}");
    let ended = fixture.run(&["doctor"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("WRONG daemon: its agent loop is stuck"), "{ended:?}");
    store.execute_batch("ALTER TABLE asks_of_before RENAME TO asks").unwrap();
    until("the loop to go on", async || {
        (fixture.run(&["status"]).await.code == Some(0)).then_some(())
    })
    .await;
    let ended = fixture.run(&["doctor"]).await;
    assert!(!ended.out.contains("agent loop"), "{ended:?}");
}

#[tokio::test]
async fn status_fails_while_the_store_cannot_write() {
    let fixture = ProgramFixture::new("");
    let _daemon = fixture.daemon().await;
    assert_eq!(fixture.run(&["status"]).await.code, Some(0));
    let store = rusqlite::Connection::open(fixture.home().join("state.db")).unwrap();
    store.busy_timeout(PATIENCE).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ended = fixture.run(&["status"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.starts_with("unhealthy: the store cannot write"), "{ended:?}");
    let ended = fixture.run(&["status", "--json"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("\"store\": false"), "{ended:?}");
    store.execute_batch("ROLLBACK").unwrap();
    until("the store to write", async || {
        (fixture.run(&["status"]).await.code == Some(0)).then_some(())
    })
    .await;
}
