//! Commands with a terminal of their own: what holds for the others holds for them.

use peacrab::sandbox::{CommandEnding, CommandInput, ExceededLimit, SandboxLevel};

use super::degrade::{NO_NAMESPACES, without};
use super::{SECRET, Scene};

fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.order.input = CommandInput::Terminal;
    scene
}

/// What must not be had, with `R` for the folder in which the home is, and `P` for this process.
const ATTEMPTS: &[&str] = &[
    "cat R/home/config.toml R/home/state.db ../config.toml R/person/.ssh/id_rsa",
    "echo x > R/home/new; mv R/home/config.toml m; cat m",
    "ln -s R/home d; cat d/config.toml",
    "cat /proc/1/environ /proc/P/environ | tr '\\0' '\\n'; cat /etc/shadow && echo the-secret-of-the-house",
    "for i in 3 4 5 6 7 8 9 10 11 12; do eval \"cat <&$i\"; done",
    "kill -0 P && echo the-secret-of-the-house",
    "unshare -r true && echo the-secret-of-the-house",
    "ls -a /tmp | grep peacrab-t && echo the-secret-of-the-house",
];

async fn hold(scene: &Scene) {
    let (root, own) = (scene.root().display().to_string(), std::process::id().to_string());
    for attempt in ATTEMPTS {
        let command = attempt.replace("R/", &format!("{root}/")).replace("R ", &format!("{root} "));
        let command =
            command.replace("/P/", &format!("/{own}/")).replace("-0 P", &format!("-0 {own}"));
        let done = scene.run(&format!("test -t 0 && test -t 1 && ({command})")).await;
        assert!(!done.out.contains(SECRET), "{command}: {done:?}");
        assert!(matches!(done.ending, CommandEnding::Exit(_)), "{command}: {done:?}");
    }
    scene.check();
}

#[tokio::test]
async fn a_command_at_a_terminal_is_in_the_same_cage() {
    let scene = scene();
    hold(&scene).await;
    let words = "grep -E '^(NoNewPrivs|CapEff|CapBnd|Seccomp):' /proc/self/status";
    let (at_terminal, usual) =
        (scene.run(words).await.well(), Scene::new().run(words).await.well());
    assert_eq!(at_terminal.replace('\r', ""), usual);
    assert!(usual.contains("Seccomp:\t2"), "{usual}");
    let limits = "ulimit -a | tr -s ' '";
    let (at_terminal, usual) =
        (scene.run(limits).await.well(), Scene::new().run(limits).await.well());
    assert_eq!(at_terminal.replace('\r', ""), usual);
}

#[test]
fn so_it_is_without_namespaces() {
    without(NO_NAMESPACES, async || {
        let mut scene = Scene::bare();
        scene.order.input = CommandInput::Terminal;
        hold(&scene).await;
        assert_eq!(scene.run("echo x > $TMPDIR/x && cat $TMPDIR/x").await.well(), "x\r\n");
    });
}

#[tokio::test]
async fn what_a_command_at_a_terminal_has_started_ends_with_it() {
    let mut scene = scene();
    let daemon = "setsid sh -c 'while :; do date +%s%N > beat; sleep 0.02; done' >/dev/null 2>&1 </dev/null &\n\
                  trap '' HUP; while ! test -s beat; do sleep 0.01; done; echo begun";
    assert_eq!(scene.run(daemon).await.well(), "begun\r\n");
    let heartbeat_run = scene.read("beat");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(scene.read("beat"), heartbeat_run);
    scene.order.time_max = std::time::Duration::from_secs(1);
    assert_eq!(
        scene.run("trap '' HUP INT TERM; sleep 100").await.ending,
        CommandEnding::Over(ExceededLimit::Time)
    );
    scene.sandbox.level = SandboxLevel::Required;
    scene.sandbox.bounds.processes = 16;
    scene.order.time_max = std::time::Duration::from_secs(5);
    let done =
        scene.run("while :; do (setsid sleep 100 &) >/dev/null 2>&1; done 2>/dev/null").await;
    // By our count, or where the kernel's is reached first, by the time.
    let over = matches!(
        done.ending,
        CommandEnding::Over(ExceededLimit::Processes | ExceededLimit::Time)
            | CommandEnding::Exit(_)
    );
    assert!(over, "{done:?}");
}
