//! Processes: what a command starts ends with it, whatever it does, and it reaches no others.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use peacrab::sandbox::{self, CommandEnding, CommandInput, ExceededLimit, SandboxCommand};
use tokio::time::{Instant, sleep};

use super::{Scene, have};
use crate::support::binary::{PATIENCE, until};

/// Set for the copy of this program that stands for a daemon; holds the workspace.
const DAEMON: &str = "PEACRAB_CAGE_DAEMON";

/// Ways in which daemons leave those who have started them.
const DAEMONS: &[&str] = &[
    "(while :; do date +%s%N > beat; sleep 0.02; done) &",
    "setsid sh -c 'while :; do date +%s%N > beat; sleep 0.02; done' >/dev/null 2>&1 </dev/null &",
    "nohup sh -c 'while :; do date +%s%N > beat; sleep 0.02; done' >/dev/null 2>&1 &",
    "(setsid sh -c '(trap \"\" TERM HUP INT; while :; do date +%s%N > beat; sleep 0.02; done) &' &) >/dev/null 2>&1",
];

/// Waits until the command's daemon is at work.
async fn beats(scene: &Scene) {
    until("a beat", async || fs::exists(scene.workspace().join("beat")).unwrap().then_some(()))
        .await;
}

/// Checks that nobody writes any more: what must not come is followed by what would have come before.
async fn is_dead(scene: &Scene, how: &str) {
    let heartbeat_run = || fs::read(scene.workspace().join("beat")).unwrap_or_default();
    let before = heartbeat_run();
    sleep(Duration::from_millis(300)).await;
    assert_eq!(before, heartbeat_run(), "it lives on: {how}");
}

#[tokio::test]
async fn daemons_end_with_the_command_that_has_started_them() {
    for daemon in DAEMONS {
        let scene = Scene::new();
        let wait = "while ! test -s beat; do sleep 0.01; done; echo begun";
        let done = scene.run(&format!("{daemon}\n{wait}")).await;
        assert_eq!(done.well(), "begun\n", "{daemon}");
        is_dead(&scene, daemon).await;
    }
}

#[tokio::test]
async fn daemons_end_at_the_time_limit_and_when_nobody_waits_any_more() {
    for daemon in DAEMONS {
        let mut scene = Scene::new();
        scene.order.time_max = Duration::from_secs(1);
        let done = scene.run(&format!("{daemon}\nsleep 100")).await;
        assert_eq!(done.ending, CommandEnding::Over(ExceededLimit::Time), "{daemon}");
        is_dead(&scene, daemon).await;

        let scene = Scene::new();
        let command = format!("{daemon}\nsleep 100");
        let order = SandboxCommand { command, ..scene.order.clone() };
        tokio::select! {
            run = sandbox::run(&scene.sandbox, &order, b"") => panic!("{run:?}"),
            () = beats(&scene) => {}
        }
        // Its guard is told by the socket, and needs a moment.
        sleep(Duration::from_millis(200)).await;
        is_dead(&scene, daemon).await;
    }
}

/// Stands for the daemon in the next test.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "it is told by its parent what to do")]
async fn stands_for_a_daemon_when_it_is_told_to() {
    let Ok(workspace) = std::env::var(DAEMON) else { return };
    let scene = Scene::new();
    let workspace = std::path::PathBuf::from(workspace);
    let command = format!("{}\nsleep 100", DAEMONS[3]);
    let order = SandboxCommand {
        command,
        cwd: workspace.clone(),
        folder: workspace.clone(),
        home: workspace,
        ..scene.order.clone()
    };
    sandbox::run(&scene.sandbox, &order, b"").await.unwrap();
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the daemon is this test's own child")]
async fn nothing_survives_the_kill_of_the_daemon() {
    let scene = Scene::new();
    let mut daemon = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::processes::stands_for_a_daemon_when_it_is_told_to"])
        .env(DAEMON, scene.workspace())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    beats(&scene).await;
    daemon.kill().await.unwrap();
    sleep(Duration::from_millis(200)).await;
    is_dead(&scene, "the daemon was killed").await;
}

#[tokio::test]
async fn signals_reach_no_others() {
    let scene = Scene::new();
    let own = std::process::id();
    let command = format!(
        "kill -0 {own} && echo REACHED; kill -9 {own} && echo REACHED; kill -KILL 1; \
         kill -TERM -1; kill -KILL -1; echo still"
    );
    // The last of them may well end the shell itself.
    let done = scene.run(&format!("({command}) 2>/dev/null")).await;
    assert!(!done.out.contains("REACHED"), "{done:?}");
    assert_eq!(scene.run("echo alive").await.well(), "alive\n");
}

#[tokio::test]
async fn only_its_own_processes_are_seen() {
    let scene = Scene::new();
    let out = scene.run("for p in /proc/[0-9]*; do basename $p; done 2>/dev/null").await.well();
    // The first process, the shell, and what it runs.
    assert!(out.lines().count() <= 4, "{out}");
    assert!(out.lines().all(|pid| pid == "[0-9]*" || pid.parse::<u32>().unwrap() < 50), "{out}");
    let name = scene.run("tr '\\0' ' ' < /proc/1/cmdline; cat /proc/1/environ | wc -c").await;
    assert!(!name.out.contains("HOME="), "{name:?}");
}

#[tokio::test]
async fn there_is_no_terminal_to_type_into() {
    let scene = Scene::new();
    let done = scene.run("(echo evil > /dev/tty) 2>&1; test -t 0 || test -t 1 || echo none").await;
    assert!(done.out.contains("none") && done.out.contains("/dev/tty"), "{done:?}");
    // And one of its own is its own alone.
    let mut scene = Scene::new();
    scene.order.input = CommandInput::Terminal;
    let done = scene.run("test -t 0 && test -t 1 && stty size && echo typed > /dev/tty").await;
    assert_eq!(done.well().replace('\r', ""), "24 80\ntyped\n");
    if have("python3") {
        scene.write(
            "type.py",
            "import fcntl, termios\ntry:\n    fcntl.ioctl(0, termios.TIOCSTI, b'x')\n    print('TYPED')\n\
             except PermissionError:\n    print('held')\n",
        );
        assert_eq!(scene.run("python3 type.py").await.well().trim(), "held");
    }
}

#[tokio::test]
async fn many_commands_leave_nothing_behind() {
    let scene = Scene::new();
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let (began, before) = (Instant::now(), open());
    for _ in 0..50 {
        assert_eq!(scene.run("echo x").await.well(), "x\n");
    }
    // Other tests run beside this one and have files open, too.
    assert!(open() < before + 200, "{} files were open, now {}", before, open());
    assert!(began.elapsed() < PATIENCE);
}
