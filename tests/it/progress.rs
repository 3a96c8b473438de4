//! Long work on a terminal, and the results of commands for scripts.

use std::fs;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use peacrab::cli::progress::ProgressText;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::support::binary::{Ended, PATIENCE, ProgramFixture, until};
use crate::support::pty::Pty;

#[test]
fn long_work_tells_once_a_second_how_far_it_is() {
    let begun = Instant::now();
    let after = |millis| begun + Duration::from_millis(millis);
    let mut line = ProgressText::new("Restoring", Some(8_000_000), begun);
    assert_eq!(line.add(1_000_000, after(500)), None, "quick work shows nothing");
    assert_eq!(line.add(1_500_000, after(1_000)).as_deref(), Some("Restoring: 2 of 8 MB"));
    assert_eq!(line.add(1_000_000, after(1_999)), None);
    // More than there was at first.
    assert_eq!(line.add(6_500_000, after(2_000)).as_deref(), Some("Restoring: 10 of 10 MB"));
    let mut line = ProgressText::new("Backing up", None, begun);
    assert_eq!(line.add(7_000_000, after(1_500)).as_deref(), Some("Backing up: 7 MB"));
}

fn json(ended: &Ended) -> Value {
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

#[tokio::test]
async fn scripts_read_the_results_of_backup_restore_and_import() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let file = fixture.folder().join("kept.tar.gz");
    let path = file.to_str().unwrap();
    let made = json(&fixture.run(&["backup", path, "--json"]).await);
    assert_eq!(made["file"], path);
    assert_eq!(made["bytes"], fs::metadata(&file).unwrap().len());
    assert!(made["files"].as_u64().unwrap() > 5, "{made}");
    let restored = json(&fixture.run(&["restore", path, "--replace", "--json"]).await);
    let before = restored["before"].as_str().unwrap();
    assert!(fs::exists(format!("{before}/state.db")).unwrap(), "{restored}");
    assert!(restored["pending"].as_str().unwrap().contains("no pending work"), "{restored}");

    let other = fixture.folder().join("picoclaw");
    fs::create_dir_all(other.join("workspace/memory")).unwrap();
    fs::write(other.join("workspace/memory/MEMORY.md"), "Ada likes tea.").unwrap();
    let imported =
        json(&fixture.run(&["import", "picoclaw", other.to_str().unwrap(), "--json"]).await);
    assert_eq!(imported["memory"], serde_json::json!(["memory/MEMORY.md"]));
    let folder = imported["folder"].as_str().unwrap();
    assert!(fs::exists(format!("{folder}/memory/MEMORY.md")).unwrap(), "{imported}");
}

/// Columns of a narrow and of a wide terminal.
const COLUMNS: [u16; 2] = [40, 120];

/// Lets a process work for a small part of the time, as on a slow board, until it is dropped.
struct SlowBoard {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SlowBoard {
    fn begin(process: u32) -> Self {
        let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
        let ends = Arc::<AtomicBool>::default();
        let until = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            let send = |signal| kill_process(process, signal).is_ok();
            while !until.load(Ordering::SeqCst) && send(Signal::STOP) {
                thread::sleep(Duration::from_millis(100));
                send(Signal::CONT);
                thread::sleep(Duration::from_millis(2));
            }
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for SlowBoard {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Waits until the line was written twice. It stands in one place.
async fn see_progress(pty: &Pty, title: &str) {
    until(title, async || (pty.raw().matches(title).count() >= 2).then_some(())).await;
    let screen = pty.screen();
    let lines = screen.iter().filter(|line| line.contains(title));
    assert_eq!(lines.count(), 1, "{screen:?}");
}

/// Waits for the result, above which nothing is left of the line.
async fn see_result(mut pty: Pty, title: &str, result: &str) {
    assert_eq!(pty.ends().await, Some(0), "{}", pty.raw());
    pty.wait_for_words(result).await;
    let screen = pty.screen();
    assert!(!screen.iter().any(|line| line.contains(title)), "{screen:?}");
}

/// Runs a command slowly on a terminal.
async fn run_on_terminal(command: Command, columns: u16, title: &str, result: &str) {
    let pty = Pty::begin(command, columns);
    let slow = SlowBoard::begin(pty.pid());
    see_progress(&pty, title).await;
    drop(slow);
    see_result(pty, title, result).await;
}

/// Runs a command slowly without a terminal: it says nothing but its result.
async fn run_elsewhere(mut command: Command, result: &str) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let slow = SlowBoard::begin(child.id().unwrap());
    // Long enough for the line.
    sleep(Duration::from_secs(5)).await;
    drop(slow);
    check_silent(timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap(), result);
}

fn check_silent(ended: Output, result: &str) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(ended.stdout), text(ended.stderr));
    assert_eq!((ended.status.code(), err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains(result), "{out}");
}

/// Bytes that cannot be compressed.
fn random(bytes: usize) -> Vec<u8> {
    let mut random = vec![0; bytes];
    fastrand::Rng::with_seed(5).fill(&mut random);
    random
}

#[tokio::test]
async fn a_backup_shows_its_progress_on_a_terminal_and_only_there() {
    const RESULT: &str = "The config and the keys";
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    fs::write(fixture.home().join("workspace/large.bin"), random(16 << 20)).unwrap();
    // Each in a folder of its own: one looks there for what others have left.
    let backup = |name: &str| {
        let folder = fixture.folder().join(name);
        fs::create_dir(&folder).unwrap();
        fixture.command(&[], &["backup", folder.join("kept.tar.gz").to_str().unwrap()])
    };
    let [narrow, wide] = COLUMNS;
    tokio::join!(
        run_on_terminal(backup("narrow"), narrow, "Backing up: ", RESULT),
        run_on_terminal(backup("wide"), wide, "Backing up: ", RESULT),
        run_elsewhere(backup("elsewhere"), RESULT),
    );
}

#[tokio::test]
async fn a_restore_shows_its_progress_on_a_terminal_and_only_there() {
    const RESULT: &str = "Restored into";
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    fs::write(fixture.home().join("workspace/large.bin"), random(4 << 20)).unwrap();
    let file = fixture.folder().join("kept.tar.gz");
    assert_eq!(fixture.run(&["backup", file.to_str().unwrap()]).await.code, Some(0));
    let homes = [(); 3].map(|()| ProgramFixture::new(""));
    let [narrow, wide, elsewhere] =
        homes.each_ref().map(|fixture| fixture.command(&[], &["restore", file.to_str().unwrap()]));
    tokio::join!(
        run_on_terminal(narrow, COLUMNS[0], "Restoring: ", RESULT),
        run_on_terminal(wide, COLUMNS[1], "Restoring: ", RESULT),
        run_elsewhere(elsewhere, RESULT),
    );
}

#[tokio::test]
async fn an_import_shows_its_progress_on_a_terminal_and_only_there() {
    const RESULT: &str = "Imported into";
    let folder = tempfile::tempdir().unwrap();
    let memory = folder.path().join("workspace/memory");
    fs::create_dir_all(&memory).unwrap();
    for number in 0..1_900 {
        fs::write(memory.join(format!("{number}.md")), "Ada likes tea.\n".repeat(350)).unwrap();
    }
    let homes = [(); 3].map(|()| ProgramFixture::new(""));
    let [narrow, wide, elsewhere] = homes.each_ref().map(|fixture| {
        fs::create_dir(fixture.home()).unwrap();
        fixture.command(&[], &["import", "picoclaw", folder.path().to_str().unwrap()])
    });
    tokio::join!(
        run_on_terminal(narrow, COLUMNS[0], "Importing: ", RESULT),
        run_on_terminal(wide, COLUMNS[1], "Importing: ", RESULT),
        run_elsewhere(elsewhere, RESULT),
    );
}
