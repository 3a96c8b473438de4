//! Signals where a command has no process numbers of its own: they reach its own processes, as everywhere, and no
//! others. Tried with Landlock, which holds them back since Linux 6.12, and without it.

use std::io;
use std::process::{Child, Command};

use peacrab::sandbox::{CommandEnding, SandboxLevel};

use super::Scene;
use super::degrade::{NEITHER, NO_NAMESPACES, without};

/// A process of this account that is not the command's, the leader of a group of its own.
struct Outsider(Child);

impl Outsider {
    #[expect(clippy::disallowed_methods, reason = "it stands for another program of the account")]
    fn new() -> Self {
        Self(Command::new("setsid").args(["sleep", "600"]).spawn().unwrap())
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Tries each way to send that process a signal, or to have it sent one.
#[expect(unsafe_code, reason = "the kernel's own calls, of which some need structures")]
pub(super) fn signal(place: &str) -> io::Result<String> {
    // Linux's numbers (asm-generic/fcntl.h, asm-generic/sockios.h).
    const F_SETSIG: libc::c_int = 10;
    const F_SETOWN_EX: libc::c_int = 15;
    const FIOSETOWN: libc::c_int = 0x8901;
    let process: libc::pid_t = place.parse().map_err(io::Error::other)?;
    let (signal, mut pipe, owner) = (libc::SIGUSR1, [0; 2], [1, process]);
    // SAFETY: the kernel writes two descriptors, which live here, as the other structures do. A signal's details may be
    // zeros; their code says that a program has sent it.
    let results = unsafe {
        libc::pipe(pipe.as_mut_ptr());
        let mut details: libc::siginfo_t = std::mem::zeroed();
        details.si_signo = signal;
        details.si_code = libc::SI_QUEUE;
        let details = &raw const details;
        let open = libc::syscall(libc::SYS_pidfd_open, process, 0);
        let results = [
            libc::kill(process, signal).into(),
            libc::kill(-process, signal).into(),
            libc::kill(process, 0).into(),
            libc::syscall(libc::SYS_tkill, process, signal),
            libc::syscall(libc::SYS_tgkill, process, process, signal),
            libc::syscall(libc::SYS_rt_sigqueueinfo, process, signal, details),
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, process, signal, details),
            libc::syscall(libc::SYS_pidfd_send_signal, open, signal, details, 0),
            libc::fcntl(pipe[0], libc::F_SETOWN, process).into(),
            libc::fcntl(pipe[0], libc::F_SETOWN, -process).into(),
            libc::fcntl(pipe[0], F_SETOWN_EX, owner.as_ptr()).into(),
            libc::syscall(libc::SYS_ioctl, pipe[0], FIOSETOWN, &raw const process),
        ];
        libc::fcntl(pipe[0], F_SETSIG, signal);
        libc::fcntl(pipe[0], libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK);
        libc::write(pipe[1], b"x".as_ptr().cast(), 1);
        results
    };
    Ok(match results.iter().all(|result| *result == -1) {
        true => "ALL HELD".to_owned(),
        false => format!("WENT THROUGH {results:?}"),
    })
}

async fn no_other_process_gets_a_signal(mut scene: Scene) {
    let mut outsider = Outsider::new();
    let attack = scene.attack(&format!("signal {}", outsider.0.id()));
    let said = scene.run(&attack).await.well();
    assert!(said.contains("ALL HELD"), "{said}");
    // All of them, and the first process of the command, which waits for the rest.
    let first = scene.run("kill -KILL $PPID 2>&1; echo still").await.well();
    assert!(first.contains("still"), "{first}");
    let done = scene.run("trap '' TERM; kill -TERM -1; kill -KILL -1; echo still").await;
    assert_eq!(done.ending, CommandEnding::Exit(0), "{done:?}");
    assert!(outsider.is_alive());
    // Also the daemon, which is this test.
    assert_eq!(scene.run("echo alive").await.well(), "alive\n");
}

async fn own_processes_get_theirs(scene: Scene) {
    for (command, said) in [
        ("sleep 60 & kill $!; wait $!; echo $?", "143"),
        ("sleep 60 & kill -0 $! && echo there; kill -9 $!; wait $!; echo $?", "there\n137"),
        ("trap 'echo got' USR1; kill -USR1 $$; echo on", "got\non"),
        ("sh -c 'kill -9 $$'; echo $?", "137"),
        ("sh -c 'kill -SEGV $$'; echo $?", "139"),
        ("timeout 0.2 sleep 60; echo $?", "124"),
        ("kill -0 999999999 || echo nobody", "nobody"),
        ("kill -99 $$ || echo none", "none"),
        // A group, and one that grows; the caller's own.
        (
            "setsid sh -c 'sleep 60 & sleep 60 & wait' & sleep 0.3; kill -- -$!; wait $!; echo $?",
            "143",
        ),
        (
            "setsid sh -c 'while :; do echo x >> beats; sleep 0.01; done' & sleep 0.3; kill -9 -$!; \
             wait $!; echo $?; before=$(wc -l < beats); sleep 0.2; echo $(($(wc -l < beats) - before))",
            "137\n0",
        ),
        (
            "setsid -w sh -c 'trap \"echo all; exit 3\" TERM; sleep 60 & kill 0; sleep 5'; echo $?",
            "all\n3",
        ),
    ] {
        let done = scene.run(&format!("exec 2>/dev/null; {command}")).await;
        assert_eq!(done.out.trim(), said, "{command}: {done:?}");
    }
    // Many times, by which a race of the answer with the signal would show.
    let often = "exec 2>/dev/null; i=0; while [ $i -lt 200 ]; do sleep 60 & kill $! || echo LOST; wait $!; \
                 i=$((i + 1)); done; echo done";
    assert_eq!(scene.run(often).await.well(), "done\n");
}

/// Without Landlock: there, only the supervisor holds them back.
fn older() -> Scene {
    let mut scene = Scene::bare();
    scene.sandbox.level = SandboxLevel::BestEffort;
    scene
}

#[test]
fn no_other_process_gets_a_signal_without_namespaces() {
    without(NO_NAMESPACES, async || no_other_process_gets_a_signal(Scene::bare()).await);
    without(NEITHER, async || no_other_process_gets_a_signal(older()).await);
}

#[test]
fn own_processes_get_their_signals_without_namespaces() {
    without(NO_NAMESPACES, async || own_processes_get_theirs(Scene::bare()).await);
    without(NEITHER, async || own_processes_get_theirs(older()).await);
}
