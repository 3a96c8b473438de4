//! Long work at a start, and what is told of it meanwhile: a database of a former version is updated, and the index of the
//! memory is filled again.

use std::fs;
use std::time::Duration;

use peacrab::replies;
use rusqlite::Connection;
use tokio::net::UnixDatagram;
use tokio::time::{sleep, timeout};

use crate::support::binary::{PATIENCE, ProgramFixture, until};
use crate::support::former_store::{BASE, make_store, newest};

/// The lines of the next datagram.
async fn next(socket: &UnixDatagram) -> Vec<String> {
    let mut buffer = [0; 256];
    let length = timeout(PATIENCE, socket.recv(&mut buffer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&buffer[..length]).lines().map(str::to_owned).collect()
}

/// The status without the time that it took so far.
fn without_time(status: &str) -> String {
    let end = status.rfind(", ").or_else(|| status.rfind(" in ")).unwrap();
    status[..end].to_owned()
}

#[tokio::test]
async fn systemd_hears_of_each_step_of_an_update_of_the_database_and_waits() {
    let fixture = ProgramFixture::new("");
    make_store(&fixture.home(), BASE);
    let path = fixture.folder().join("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = fixture.command(&[], &["run"]);
    command.env("NOTIFY_SOCKET", &path);
    let daemon = fixture.begin(command);
    let mut told = Vec::new();
    loop {
        let lines = next(&socket).await;
        if lines == ["READY=1"] {
            break;
        }
        told.push(lines);
    }
    // A step that takes long is told of again and again.
    let mut status: Vec<_> = told.iter().map(|lines| without_time(&lines[0])).collect();
    status.dedup();
    let last = newest();
    let steps =
        (BASE..last).map(|step| format!("STATUS=Updating the database: version {step} of {last}"));
    let end = format!("STATUS=Updated the database to version {last}");
    assert_eq!(status, steps.chain([end]).collect::<Vec<_>>());
    for lines in &told {
        assert_eq!(lines[1..], ["EXTEND_TIMEOUT_USEC=300000000", "WATCHDOG=1"], "{told:?}");
    }
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn commands_tell_how_far_an_update_of_the_database_is_that_takes_long() {
    let fixture = ProgramFixture::new("");
    make_store(&fixture.home(), BASE);
    let path = fixture.home().join("state.db");
    // One program keeps it from writing, another one from emptying the log at the end.
    let [writer, reader] = [(); 2].map(|()| Connection::open(&path).unwrap());
    reader.pragma_update(None, "journal_mode", "wal").unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM turns").unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let daemon = fixture.begin(fixture.command(&[], &["run"]));
    let logs = async |words: &str| {
        until(words, async || daemon.log().contains(words).then_some(())).await;
    };
    logs("Updating the database").await;
    // Commands wait for one that takes less.
    sleep(Duration::from_millis(1_200)).await;
    writer.execute_batch("ROLLBACK").unwrap();
    let lock = fixture.home().join("lock");
    let last = newest() - BASE;
    until("the last step", async || {
        let text = fs::read_to_string(&lock).unwrap();
        text.contains(&format!("updates its database, step {last} of {last}")).then_some(())
    })
    .await;
    let (status, doctor) = tokio::join!(fixture.run(&["status"]), fixture.run(&["doctor"]));
    reader.execute_batch("ROLLBACK").unwrap();
    let words = format!("which is updating its database, step {last} of {last})");
    assert_eq!(status.code, Some(1), "{status:?}");
    assert!(status.err.contains(&words) && status.err.contains("nothing is lost"), "{status:?}");
    assert!(doctor.out.contains("warn  daemon: the daemon is starting (process "), "{doctor:?}");
    assert!(doctor.out.contains(&words), "{doctor:?}");
    logs("Started").await;
    let pid: u64 = fs::read_to_string(&lock).unwrap().parse().unwrap();
    assert_eq!(fixture.status().await["pid"], pid);
    assert!(daemon.terminate().await.success());
}

/// More than are indexed in a moment.
const PASSAGES: u64 = 20_000;

#[tokio::test]
async fn an_index_that_is_filled_again_is_counted_by_status_doctor_and_log() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let store = Connection::open(fixture.home().join("state.db")).unwrap();
    let many = format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {PASSAGES})
         INSERT INTO recall_entries (who, kind, source, line, at, text)
         SELECT 'a1', 'turn', i, 1, 1, 'figs ' || i FROM n;
         INSERT INTO recall_index (recall_index) VALUES ('delete-all')"
    );
    store.execute_batch(&many).unwrap();
    drop(store);
    let daemon = fixture.daemon().await;
    let counted = until("the count", async || {
        let count = fixture.status().await["indexing"].clone();
        (!count.is_null()).then_some(count)
    })
    .await;
    assert_eq!(counted["parts"], "passages");
    let (done, total) = (counted["done"].as_u64().unwrap(), counted["total"].as_u64().unwrap());
    assert!(done < total && total >= PASSAGES, "{counted}");
    let (status, doctor) = tokio::join!(fixture.run(&["status"]), fixture.run(&["doctor"]));
    let of = format!(" of {total}\n");
    assert!(status.out.contains("\nindexing passages: "), "{status:?}");
    assert!(status.out.contains(&of), "{status:?}");
    assert!(doctor.out.contains("warn  search: indexing passages: "), "{doctor:?}");
    assert!(doctor.out.contains(&of), "{doctor:?}");
    let log = daemon.log();
    let line = log.lines().find(|line| line.contains("Indexing passages for the search"));
    assert!(line.unwrap().contains(&format!("total={total}")), "{log}");
    until("the whole index", async || fixture.status().await["indexing"].is_null().then_some(()))
        .await;
    let ended = fixture.run(&["doctor"]).await;
    assert!(!ended.out.contains("search: indexing"), "{ended:?}");
    assert!(daemon.terminate().await.success());
    assert_eq!(replies::indexing("messages", 40, 120), "indexing messages: 40 of 120");
}
