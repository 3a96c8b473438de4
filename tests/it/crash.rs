//! The daemon is killed before and after each of its commits, and at random, in a process of its
//! own, and begun again. Whatever was accepted has its one outcome; nothing is said or done twice.

mod child;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::platform::{Manners, Platform};
use child::{Kill, Spec};

/// The longest that a daemon may take to bring everything to its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What people say: plain words, several tools in a row, files, memory, messages to elsewhere,
/// commands, and an answer that is cut into several.
const SAID: &[(&str, &str)] = &[
    ("1", "hello"),
    ("1", "append one to log.md then append two to log.md then append three to log.md"),
    (
        "2",
        "remember that the crab is small then note that it rained then tell home:3 lunch is ready",
    ),
    ("2", "/status"),
    ("3", "write first to a.md then replace first with second in a.md then read a.md"),
    ("1", "append four to log.md"),
    (
        "3",
        "a long one: lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor \
           incididunt ut labore et dolore magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation \
           ullamco laboris nisi ut aliquip ex ea commodo consequat.",
    ),
];

const KNOWING: Manners = Manners { knows: true, misbehaves: false, text_max: 160 };
const UNKNOWING: Manners = Manners { knows: false, ..KNOWING };

/// A home, a platform, and daemons that come and go.
struct Scene {
    folder: TempDir,
    manners: Manners,
}

impl Scene {
    fn new(manners: Manners) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), manners }
    }

    fn with_all_said(manners: Manners) -> Self {
        let scene = Self::new(manners);
        SAID.iter().for_each(|(chat, text)| scene.platform().say(chat, text));
        scene
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn platform(&self) -> Platform {
        Platform::new(&self.folder.path().join("platform"), self.manners)
    }

    /// Begins a daemon that is killed as said.
    #[expect(clippy::disallowed_methods, reason = "the daemon is this test's own child")]
    fn daemon(&self, kill: Option<Kill>) -> Child {
        let spec = Spec {
            home: self.home(),
            platform: self.folder.path().join("platform"),
            manners: self.manners,
            kill,
        };
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child::daemon", "--nocapture"])
            .env(child::SPEC, serde_json::to_string(&spec).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Runs a daemon until it is killed or has nothing left to do; true if it was killed.
    fn run(&self, kill: Kill) -> bool {
        let mut daemon = self.daemon(Some(kill));
        self.settle(&mut daemon).is_some()
    }

    /// Runs a daemon until nothing is left to do.
    fn bring_to_end(&self) {
        let mut daemon = self.daemon(None);
        let ended = self.settle(&mut daemon);
        assert_eq!(ended, None, "the daemon ended by itself");
    }

    /// Waits until nothing is left to do and kills the daemon, or until it is dead.
    fn settle(&self, daemon: &mut Child) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = daemon.try_wait().unwrap() {
                return Some(status);
            }
            if verdict::is_settled(&self.home(), self.platform().said().len()) {
                daemon.kill().unwrap();
                daemon.wait().unwrap();
                return None;
            }
            assert!(begun.elapsed() < PATIENCE, "{}", verdict::what_is_left(&self.home()));
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    fn judge(&self) {
        verdict::judge(&self.home(), &self.platform(), self.manners);
    }
}

/// Kills before or after each commit in turn, each in a world of its own, until there is no commit
/// left to kill at.
fn kill_at_each_commit(manners: Manners, phase: child::When) {
    for commit in 1.. {
        let scene = Scene::with_all_said(manners);
        let killed = scene.run(Kill { commit, when: phase });
        scene.bring_to_end();
        scene.judge();
        if !killed {
            assert!(commit > 20, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn nothing_is_lost_or_doubled_by_a_kill_before_any_commit() {
    kill_at_each_commit(KNOWING, child::When::Before);
}

#[test]
fn nothing_is_lost_or_doubled_by_a_kill_after_any_commit() {
    kill_at_each_commit(KNOWING, child::When::After);
}

#[test]
fn what_may_be_doubled_by_a_kill_before_any_commit_is_marked() {
    kill_at_each_commit(UNKNOWING, child::When::Before);
}

#[test]
fn what_may_be_doubled_by_a_kill_after_any_commit_is_marked() {
    kill_at_each_commit(UNKNOWING, child::When::After);
}

/// Kills at two hundred random moments while people keep talking to a platform that misbehaves.
fn kill_at_random(manners: Manners, kills: u32) {
    let scene = Scene::new(Manners { misbehaves: true, ..manners });
    for kill in 0..kills {
        let (chat, text) = SAID[fastrand::usize(..SAID.len())];
        let text = text.replace("append ", &format!("append {kill}-"));
        scene.platform().say(chat, &text);
        let mut daemon = scene.daemon(None);
        std::thread::sleep(Duration::from_millis(fastrand::u64(10..150)));
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
    scene.bring_to_end();
    scene.judge();
}

#[test]
fn two_hundred_random_kills_lose_and_double_nothing() {
    kill_at_random(KNOWING, 200);
}

#[test]
fn random_kills_of_a_platform_that_cannot_be_asked_double_nothing_unmarked() {
    kill_at_random(UNKNOWING, 60);
}

fn database(home: &Path) -> PathBuf {
    home.join("state.db")
}
