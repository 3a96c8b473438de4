//! Control groups: where a part of the tree was delegated, the kernel's bounds hold for all of a command together. The
//! nightly part boots a machine for this; elsewhere it is checked that nobody claims it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use peacrab::sandbox::{
    self, CommandEnding, CommandLimits, ExceededLimit, SandboxState, adopt_cgroup,
};

use super::{Done, MB, Scene};

/// Set where a group was delegated to this test, which must have it then.
const DELEGATED: &str = "PEACRAB_TEST_CGROUP";

const MEMORY: u64 = 96 * MB;
const PROCESSES: u32 = 32;
/// Four threads for each process, and ours.
const TASKS: u64 = 4 * 32 + 1;

/// The most that was seen of a command's group.
#[derive(Debug, Default)]
struct Peak {
    memory: u64,
    tasks: u64,
}

/// The group in which those of commands stand.
fn top() -> PathBuf {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = text.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    Path::new("/sys/fs/cgroup").join(own).parent().unwrap().to_owned()
}

fn groups() -> Vec<PathBuf> {
    let all = fs::read_dir(top()).unwrap().flatten().map(|entry| entry.path());
    all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("command-")).collect()
}

/// Runs a command, and looks at its group all the while.
async fn watch(scene: &Scene, command: &str) -> (Done, Peak) {
    let mut peak = Peak::default();
    let number = |path: PathBuf| -> u64 {
        fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    };
    let look = async {
        loop {
            for group in groups() {
                assert_eq!(number(group.join("memory.max")).max(MEMORY), MEMORY);
                // Which of the two there is depends on the kernel.
                for name in ["memory.peak", "memory.current"] {
                    peak.memory = peak.memory.max(number(group.join(name)));
                }
                peak.tasks = peak.tasks.max(number(group.join("pids.current")));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let done = tokio::select! {
        done = scene.run(command) => done,
        () = look => unreachable!("it never ends"),
    };
    (done, peak)
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the machine that was booted for it says so")]
#[expect(clippy::print_stdout, reason = "the nightly part shows what was seen")]
async fn the_bounds_hold_exactly_in_a_control_group_and_nobody_claims_it_elsewhere() {
    let adopted = adopt_cgroup();
    assert!(adopted || std::env::var(DELEGATED).is_err(), "the delegated group is not used");
    // Once more changes nothing.
    assert_eq!(adopt_cgroup(), adopted);
    // As root, with a kernel that cannot give commands another account's view of files in memory.
    let mut scene = Scene::bare();
    let state = sandbox::test_sandbox(&scene.sandbox);
    let SandboxState::Sandboxed { enforced, .. } = &state else { panic!("{state:?}") };
    assert_eq!(enforced.group, adopted);
    assert_eq!(state.describe().contains("memory limited by a control group"), adopted);
    if !adopted {
        return;
    }
    scene.sandbox.least = *enforced;
    scene.sandbox.bounds = CommandLimits::new(MEMORY, 64 * MB, 200 * MB, PROCESSES);
    assert_eq!(scene.run("echo alive").await.well(), "alive\n");
    let mut bombs: Vec<(&str, String)> =
        ["forget", "tables"].map(|attack| (attack, scene.attack(attack))).into_iter().collect();
    for attack in ["fill", "fill-and-leave", "pipes"] {
        let command = scene.attack(attack);
        bombs.push((attack, format!("for i in 1 2 3 4 5 6 7 8; do {command} & done; wait")));
    }
    let many = "for i in 1 2 3 4; do (head -c 40M /dev/zero | tail -n 1 | sleep 60) & done; wait";
    bombs.push(("buffers", many.to_owned()));
    for (name, bomb) in bombs {
        let (done, peak) = watch(&scene, &format!("({bomb}) 2>/dev/null")).await;
        println!("{name}: {peak:?} of {MEMORY}, {:?}", done.ending);
        // What an account's pipes can hold together is bounded, too (`pipe-user-pages-soft`), which may be less.
        if name != "pipes" {
            assert_eq!(done.ending, CommandEnding::Over(ExceededLimit::Memory), "{name}: {done:?}");
        }
        assert!(peak.memory <= MEMORY && peak.memory > MEMORY / 2, "{name}: {peak:?}");
    }
    for bomb in ["b() { b | b & }; b; sleep 2", "while :; do sleep 100 & done"] {
        let (done, peak) = watch(&scene, &format!("({bomb}) 2>/dev/null")).await;
        println!("{bomb}: {peak:?} of {TASKS}, {:?}", done.ending);
        assert!(
            !matches!(done.ending, CommandEnding::Lost | CommandEnding::Refused(_)),
            "{done:?}"
        );
        assert!(peak.tasks <= TASKS && peak.tasks > 8, "{bomb}: {peak:?}");
    }
    // Nothing is left, and the next command runs.
    assert_eq!(scene.run("echo alive").await.well(), "alive\n");
    assert_eq!(groups(), Vec::<PathBuf>::new());
}
