//! Commands that take all there is. The machine must live on, and the command must end.

use std::time::Duration;

use peacrab::sandbox::{
    self, CommandEnding, CommandLimits, ExceededLimit, KeptOutput, SandboxCommand,
};

use super::{MB, Scene, have};

/// A command that is over in a moment is not waited for long.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_fork_bomb_ends() {
    let scene = Scene::new();
    for bomb in ["b() { b | b & }; b; sleep 2", "while :; do sleep 100 & done"] {
        let done = scene.run(&format!("({bomb}) 2>/dev/null")).await;
        assert!(done.took < SOON, "{bomb}: {done:?}");
        // Killed by count, or it dies out as it can start no more.
        assert!(
            matches!(
                done.ending,
                CommandEnding::Over(ExceededLimit::Processes | ExceededLimit::Memory)
                    | CommandEnding::Exit(_)
            ),
            "{bomb}: {done:?}"
        );
        // And the next command runs.
        assert_eq!(scene.run("echo alive").await.well(), "alive\n");
    }
}

#[tokio::test]
async fn a_memory_bomb_ends() {
    let mut scene = Scene::new();
    scene.sandbox.bounds = CommandLimits::new(64 * MB, 64 * MB, 200 * MB, 64);
    // One process that takes too much is refused by the kernel.
    let done = scene.run("tail -n 1 /dev/zero").await;
    assert!(
        matches!(
            done.ending,
            CommandEnding::Exit(1..) | CommandEnding::Over(ExceededLimit::Memory)
        ),
        "{done:?}"
    );
    assert!(done.took < SOON);
    // Many that each take a little are counted together.
    let many = "for i in 1 2 3 4; do (head -c 40M /dev/zero | tail -n 1 | sleep 60) & done; wait";
    let done = scene.run(&format!("({many}) 2>/dev/null")).await;
    assert_eq!(done.ending, CommandEnding::Over(ExceededLimit::Memory), "{done:?}");
    assert!(done.took < SOON);
    // Nor does a temporary file get more than its share.
    let done = scene.run("head -c 60M /dev/zero > /tmp/big; stat -c %s /tmp/big").await;
    let size: u64 = done.out.lines().last().unwrap().trim().parse().unwrap();
    assert!(size <= 16 * MB, "{done:?}");
    let done = scene.run("head -c 60M /dev/zero > /dev/shm/big; stat -c %s /dev/shm/big").await;
    let size: u64 = done.out.lines().last().unwrap().trim().parse().unwrap();
    assert!(size <= 16 * MB, "{done:?}");
}

#[tokio::test]
async fn memory_that_is_shared_and_has_no_name_counts() {
    // Without Python, what has a name is filled above.
    if !have("python3") {
        return;
    }
    let mut scene = Scene::new();
    scene.sandbox.bounds = CommandLimits::new(64 * MB, 600 * MB, 900 * MB, 64);
    for script in [
        "import mmap, time\nm = mmap.mmap(-1, 300 << 20)\nfor i in range(0, 300 << 20, 4096): m[i] = 1\ntime.sleep(60)",
        "import os, time\nf = os.memfd_create('x')\nfor i in range(300): os.write(f, bytes(1 << 20))\ntime.sleep(60)",
    ] {
        scene.write("bomb.py", script);
        let done = scene.run("exec python3 bomb.py 2>&1").await;
        assert!(done.took < SOON, "{script}: {done:?}");
        assert!(
            matches!(
                done.ending,
                CommandEnding::Over(ExceededLimit::Memory) | CommandEnding::Exit(1)
            ),
            "{script}: {done:?}"
        );
    }
}

#[tokio::test]
async fn a_disk_bomb_ends() {
    let scene = Scene::new();
    // One large file, by the kernel's limit.
    let done = scene.run("exec head -c 1G /dev/zero > big").await;
    assert!(matches!(done.ending, CommandEnding::Signal(25) | CommandEnding::Exit(1)), "{done:?}");
    assert!(std::fs::metadata(scene.workspace().join("big")).unwrap().len() <= 64 * MB);
    std::fs::remove_file(scene.workspace().join("big")).unwrap();
    // Many smaller ones, by what is left of the disk.
    let many = "i=0; while :; do head -c 20M /dev/urandom > f$i; sync f$i; i=$((i + 1)); done";
    let done = scene.run(many).await;
    assert_eq!(done.ending, CommandEnding::Over(ExceededLimit::Disk), "{done:?}");
}

#[tokio::test]
async fn endless_work_ends_at_its_time() {
    let mut scene = Scene::new();
    scene.order.time_max = Duration::from_secs(1);
    for work in ["while :; do :; done", "trap '' TERM INT HUP; while :; do :; done", "sleep 1000"] {
        let done = scene.run(work).await;
        assert_eq!(done.ending, CommandEnding::Over(ExceededLimit::Time), "{work}");
        assert!(done.took < Duration::from_secs(10), "{work}: {done:?}");
    }
    // Also if it has let go of its output.
    let done = scene.run("exec >/dev/null 2>&1; sleep 1000").await;
    assert_eq!(done.ending, CommandEnding::Over(ExceededLimit::Time));
}

#[tokio::test]
async fn ten_gigabytes_of_output_are_not_kept() {
    let scene = Scene::new();
    let order =
        SandboxCommand { command: "head -c 10G /dev/zero".to_owned(), ..scene.order.clone() };
    let run = sandbox::run(&scene.sandbox, &order, b"").await.unwrap();
    assert_eq!(run.ending, CommandEnding::Over(ExceededLimit::Output));
    assert!(run.kept.total() > 1024 * MB && run.kept.total() < 1200 * MB, "{}", run.kept.total());
    assert!(run.kept.whole().len() < 2 * 1024 * 1024);
}

#[test]
fn the_beginning_and_the_end_of_an_output_are_kept() {
    let mut kept = KeptOutput::default();
    let lines: String = (0..400_000).map(|line| format!("{line}\n")).collect();
    for piece in lines.as_bytes().chunks(7_001) {
        kept.take(piece);
    }
    assert_eq!(kept.total(), lines.len() as u64);
    let whole = String::from_utf8(kept.whole()).unwrap();
    assert!(whole.starts_with("0\n1\n2\n") && whole.ends_with("399998\n399999\n"));
    let said = format!("[{} bytes are left out]", kept.missing());
    assert!(kept.missing() > 0 && whole.contains(&said));
    let (head, tail) = kept.since(kept.total() - 7);
    assert_eq!((head, tail), (&b""[..], &b"399999\n"[..]));
    let mut short = KeptOutput::default();
    short.take(b"abc");
    assert_eq!((short.since(1).0, short.missing()), (&b"bc"[..], 0));
}
