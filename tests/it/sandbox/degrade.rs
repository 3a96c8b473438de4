//! Kernels that have less: parts of this one are taken away, as if they were not there, and what is
//! said and done is compared with what is left. Nothing is skipped where Landlock is missing: then it is
//! checked that commands are refused.

use std::collections::BTreeMap;

use peacrab::sandbox::{self, CommandEnding, NetworkAccess, SandboxLevel, SandboxState};
use rustix::process::geteuid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::{SECRET, Scene};

/// Runs `test` in a thread where these calls fail with this error, in all that it starts, too.
pub(crate) fn without<T: Send + 'static>(
    calls: &'static [(libc::c_long, libc::c_int)],
    test: impl AsyncFnOnce() -> T + Send + 'static,
) -> T {
    let run = move || {
        for (call, error) in calls {
            if *call == libc::SYS_unshare {
                refuse_namespaces_by_clone(*error);
            }
            let rules = BTreeMap::from([(*call, Vec::new())]);
            let error = SeccompAction::Errno(error.unsigned_abs());
            let arch = std::env::consts::ARCH.try_into().unwrap();
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, arch).unwrap();
            apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test())
    };
    std::thread::spawn(run).join().unwrap()
}

/// The other way to them.
fn refuse_namespaces_by_clone(error: libc::c_int) {
    let kinds = [libc::CLONE_NEWUSER, libc::CLONE_NEWPID, libc::CLONE_NEWNS, libc::CLONE_NEWNET]
        .into_iter();
    let rules = kinds.map(|kind| {
        let kind = u64::from(kind.unsigned_abs());
        let has = SeccompCmpOp::MaskedEq(kind);
        let has = SeccompCondition::new(0, SeccompCmpArgLen::Dword, has, kind).unwrap();
        SeccompRule::new(vec![has]).unwrap()
    });
    let rules = BTreeMap::from([(libc::SYS_clone, rules.collect())]);
    let error = SeccompAction::Errno(error.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, arch).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

pub(crate) const NO_LANDLOCK: &[(libc::c_long, libc::c_int)] =
    &[(libc::SYS_landlock_create_ruleset, libc::ENOSYS)];
pub(crate) const NO_NAMESPACES: &[(libc::c_long, libc::c_int)] =
    &[(libc::SYS_unshare, libc::EPERM)];
pub(crate) const NEITHER: &[(libc::c_long, libc::c_int)] =
    &[(libc::SYS_landlock_create_ruleset, libc::EOPNOTSUPP), (libc::SYS_unshare, libc::EPERM)];
const NO_FILTERS: &[(libc::c_long, libc::c_int)] =
    &[(libc::SYS_unshare, libc::EPERM), (libc::SYS_seccomp, libc::EINVAL)];
const ONLY_NO_FILTERS: &[(libc::c_long, libc::c_int)] = &[(libc::SYS_seccomp, libc::EINVAL)];

fn level(level: SandboxLevel) -> Scene {
    let mut scene = Scene::new();
    scene.sandbox.level = level;
    scene
}

#[test]
fn all_is_enforced_on_this_kernel_or_it_is_said_what_is_not() {
    let state = sandbox::test_sandbox(&Scene::new().sandbox);
    let SandboxState::Sandboxed { level, enforced } = &state else { panic!("{state:?}") };
    assert_eq!(*level, SandboxLevel::Required);
    assert!(enforced.files(), "{enforced:?}");
    let words = state.describe();
    assert!(
        words.starts_with("Shell: sandboxed (required): files limited to the workspace"),
        "{words}"
    );
    let all = enforced.own_root && enforced.processes && enforced.calls && enforced.signals;
    assert_eq!(words.contains("NOT enforced"), !all, "{words}");
}

#[test]
fn without_landlock_commands_are_refused() {
    without(NO_LANDLOCK, async || {
        let scene = level(SandboxLevel::Required);
        let state = sandbox::test_sandbox(&scene.sandbox);
        assert!(!state.is_offered());
        let words = state.describe();
        assert!(words.contains("not available") && words.contains("Landlock"), "{words}");
        let done = scene.run("echo begun").await;
        assert!(
            matches!(done.ending, CommandEnding::Refused(_)) && done.out.is_empty(),
            "{done:?}"
        );
    });
}

#[test]
fn the_reason_tells_an_old_kernel_from_a_filter() {
    for (error, words) in [
        (libc::ENOSYS, "this kernel has no Landlock (ENOSYS)"),
        (libc::EOPNOTSUPP, "switched off (EOPNOTSUPP)"),
        (libc::EPERM, "a system call filter blocks Landlock (EPERM)"),
    ] {
        let found = no_landlock(error, || {
            sandbox::test_sandbox(&level(SandboxLevel::Required).sandbox).describe()
        });
        assert!(
            found.contains("Shell: not available") && found.contains(words),
            "{error}: {found}"
        );
    }
}

/// What a test finds where Landlock fails like this.
fn no_landlock<T: Send + 'static>(error: libc::c_int, test: fn() -> T) -> T {
    let calls: &'static [_] = match error {
        libc::EPERM => &[(libc::SYS_landlock_create_ruleset, libc::EPERM)],
        libc::EOPNOTSUPP => &[(libc::SYS_landlock_create_ruleset, libc::EOPNOTSUPP)],
        _ => NO_LANDLOCK,
    };
    without(calls, async move || test())
}

#[test]
fn without_landlock_best_effort_hides_what_it_can() {
    without(NO_LANDLOCK, async || {
        let scene = level(SandboxLevel::BestEffort);
        let state = sandbox::test_sandbox(&scene.sandbox);
        let SandboxState::Sandboxed { enforced, .. } = &state else { panic!("{state:?}") };
        assert!(!enforced.files() && enforced.landlock == 0);
        if enforced.own_root {
            let root = scene.root().display().to_string();
            let done =
                scene.run(&format!("cat {root}/home/config.toml; echo x > {root}/home/new")).await;
            assert!(!done.out.contains(SECRET), "{done:?}");
            scene.check();
        }
        assert!(
            state.describe().contains("NOT enforced on this kernel: files limited"),
            "{}",
            state.describe()
        );
    });
}

#[test]
fn without_namespaces_files_network_and_leftovers_are_sandboxed_all_the_same() {
    without(NO_NAMESPACES, async || {
        let scene = Scene::bare();
        let state = sandbox::test_sandbox(&scene.sandbox);
        let SandboxState::Sandboxed { enforced, .. } = &state else { panic!("{state:?}") };
        assert!(enforced.files() && !enforced.own_root && !enforced.processes, "{enforced:?}");
        assert_eq!(enforced.network, NetworkAccess::Refused);
        let says_so = state.describe().contains("no signals to other processes");
        assert!(says_so && enforced.signals, "{enforced:?}");
        assert!(
            state.describe().contains("NOT enforced on this kernel: no access to other processes"),
            "{}",
            state.describe()
        );

        let root = scene.root().display().to_string();
        let own = std::process::id();
        for command in [
            format!("cat {root}/home/config.toml; echo x > {root}/home/new; ls {root}/home"),
            format!("cat /proc/1/environ /proc/{own}/environ /proc/self/environ | tr '\\0' '\\n'"),
            format!("ln -s {root}/home d; cat d/config.toml; ln {root}/home/config.toml h; cat h"),
            format!("kill -0 {own} && echo {SECRET}"),
            "ls /tmp && echo the-secret-of-the-house".to_owned(),
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX)' && echo the-secret-of-the-house".to_owned(),
            "python3 -c 'import socket; socket.socket()' && echo the-secret-of-the-house".to_owned(),
        ] {
            let done = scene.run(&command).await;
            assert!(!done.out.contains(SECRET), "{command}: {done:?}");
        }
        scene.check();
        // It has a folder for temporary files, which goes with it.
        let tmp = scene.run("echo x > $TMPDIR/x && cat $TMPDIR/x && echo $TMPDIR").await.well();
        let folder = tmp.lines().nth(1).unwrap();
        assert!(tmp.starts_with("x\n") && !std::path::Path::new(folder).exists(), "{tmp}");
        // And a daemon ends with it.
        let daemon = "setsid sh -c 'while :; do date +%s%N > beat; sleep 0.02; done' >/dev/null 2>&1 &\n\
                      while ! test -s beat; do sleep 0.01; done; echo begun";
        assert_eq!(scene.run(daemon).await.well(), "begun\n");
        let heartbeat_run = scene.read("beat");
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        assert_eq!(scene.read("beat"), heartbeat_run);
    });
}

#[test]
fn with_neither_commands_are_refused() {
    without(NEITHER, async || {
        let scene = level(SandboxLevel::Required);
        assert!(!sandbox::test_sandbox(&scene.sandbox).is_offered());
        let scene = level(SandboxLevel::BestEffort);
        let state = sandbox::test_sandbox(&scene.sandbox);
        let SandboxState::Sandboxed { enforced, .. } = state else { panic!("{state:?}") };
        assert!(!enforced.files() && enforced.calls, "{enforced:?}");
        assert_eq!(scene.run("echo runs").await.well(), "runs\n");
    });
}

#[test]
fn where_the_network_or_dangerous_calls_cannot_be_kept_away_commands_are_refused() {
    for calls in [NO_FILTERS, ONLY_NO_FILTERS] {
        without(calls, async || {
            // A network that the config allows need not be kept away; the rest must.
            for network in [false, true] {
                let mut scene = level(SandboxLevel::Required);
                scene.sandbox.network = network;
                let state = sandbox::test_sandbox(&scene.sandbox);
                assert!(!state.is_offered(), "{state:?}");
                let done = scene.run("echo begun").await;
                let CommandEnding::Refused(why) = &done.ending else { panic!("{done:?}") };
                // Root is refused before that.
                let is_refused = |words: &str| why.contains(words);
                let as_root = geteuid().is_root() && is_refused("I run as root");
                assert!(as_root || is_refused("network") || is_refused("seccomp"), "{why}");
                assert_eq!(done.out, "");
            }
            let mut scene = level(SandboxLevel::BestEffort);
            scene.sandbox.network = true;
            let state = sandbox::test_sandbox(&scene.sandbox);
            let SandboxState::Sandboxed { enforced, .. } = &state else { panic!("{state:?}") };
            assert!(!enforced.calls && enforced.network == NetworkAccess::On);
            let words = state.describe();
            assert!(words.contains("NOT enforced on this kernel: ") && words.contains("calls"));
            assert_eq!(scene.run("echo runs").await.well(), "runs\n");
        });
    }
}

#[test]
fn a_command_for_which_less_holds_than_was_found_is_refused() {
    let found = |level, calls| {
        without(calls, async move || {
            let scene = self::level(level);
            let SandboxState::Sandboxed { enforced, .. } = sandbox::test_sandbox(&scene.sandbox)
            else {
                panic!()
            };
            enforced
        })
    };
    for level in [SandboxLevel::Required, SandboxLevel::BestEffort] {
        let all = found(level, &[]);
        let bare = match geteuid().is_root() {
            true => found(SandboxLevel::BestEffort, NO_NAMESPACES),
            false => found(level, NO_NAMESPACES),
        };
        assert!(all.own_root && all.processes && !bare.own_root);
        without(NO_NAMESPACES, async move || {
            let mut scene = self::level(level);
            scene.sandbox.least = all;
            let done = scene.run("echo begun").await;
            let CommandEnding::Refused(why) = &done.ending else { panic!("{done:?}") };
            assert!(why.contains("sandbox would be weaker than at my start"), "{why}");
            assert_eq!(done.out, "");
            let mut scene = Scene::bare();
            scene.sandbox.least = bare;
            assert_eq!(scene.run("echo begun").await.well(), "begun\n");
        });
        without(NO_LANDLOCK, async move || {
            let mut scene = self::level(level);
            scene.sandbox.least = all;
            assert!(matches!(scene.run("echo begun").await.ending, CommandEnding::Refused(_)));
        });
    }
}

#[tokio::test]
async fn a_path_that_may_be_written_and_is_not_there_is_said() {
    let mut scene = level(SandboxLevel::Required);
    scene.sandbox.write.push("/nowhere/photos".into());
    let state = sandbox::test_sandbox(&scene.sandbox);
    assert!(!state.is_offered(), "{state:?}");
    assert!(state.describe().contains("/nowhere/photos, which commands may write"), "{state:?}");
    let done = scene.run("echo begun").await;
    let CommandEnding::Refused(why) = &done.ending else { panic!("{done:?}") };
    assert!(why.contains("/nowhere/photos") && done.out.is_empty(), "{why}");
    // Nothing else is lost by it where what there is is enough.
    let SandboxState::Sandboxed { enforced: usual, .. } =
        sandbox::test_sandbox(&level(SandboxLevel::BestEffort).sandbox)
    else {
        panic!()
    };
    scene.sandbox.level = SandboxLevel::BestEffort;
    let SandboxState::Sandboxed { enforced, .. } = sandbox::test_sandbox(&scene.sandbox) else {
        panic!()
    };
    assert_eq!(enforced, usual);
    assert_eq!(scene.run("ls /nowhere 2>/dev/null; echo begun").await.well(), "begun\n");
    // One that may only be read is left out: nothing more is open by that.
    let mut scene = level(SandboxLevel::Required);
    scene.sandbox.read.push("/nowhere/books".into());
    let SandboxState::Sandboxed { enforced, .. } = sandbox::test_sandbox(&scene.sandbox) else {
        panic!()
    };
    assert_eq!(enforced, usual);
}

#[tokio::test]
async fn off_is_off_and_says_so() {
    let scene = level(SandboxLevel::Off);
    let state = sandbox::test_sandbox(&scene.sandbox);
    assert_eq!(state, SandboxState::Unsandboxed);
    assert!(state.describe().contains("NO SANDBOX"), "{}", state.describe());
    let root = scene.root().display().to_string();
    assert_eq!(scene.run(&format!("cat {root}/home/config.toml")).await.well(), SECRET);
    // It is bounded, and leaves nothing behind, all the same.
    let daemon = "setsid sh -c 'while :; do date +%s%N > beat; sleep 0.02; done' >/dev/null 2>&1 &\n\
                  while ! test -s beat; do sleep 0.01; done; env | grep -c CARGO";
    let done = scene.run(daemon).await;
    assert_eq!(done.out, "0\n");
    let heartbeat_run = scene.read("beat");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(scene.read("beat"), heartbeat_run);
}

#[test]
fn a_program_that_is_no_cage_is_refused() {
    let mut scene = Scene::new();
    for program in ["/bin/true", "/nowhere/peacrab"] {
        scene.sandbox.program = program.into();
        assert!(!sandbox::test_sandbox(&scene.sandbox).is_offered(), "{program}");
    }
}
