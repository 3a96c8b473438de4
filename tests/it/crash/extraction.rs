//! Kills around the transactions that keep noticed facts, and count those that an answer rests on: afterwards they are
//! there, once.

use std::process::Child;
use std::time::Instant;

use super::child::{At, Kill, NOTICED, When};
use super::{KNOWING, PATIENCE, Scene, verdict};

const FACTS: &str = "SELECT text FROM facts";

/// Waits until something is so, or the daemon has died.
fn wait(daemon: &mut Child, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while daemon.try_wait().unwrap().is_none() && !so() {
        assert!(begun.elapsed() < PATIENCE, "it never was");
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
}

#[test]
fn noticed_facts_are_kept_once_after_a_kill_around_their_commit() {
    for when in [When::Before, When::After] {
        let mut scene = Scene::new(KNOWING);
        for n in 0..6 {
            // Each in a turn of its own.
            scene.platform().say("1", &format!("hello {n}"));
            scene.bring_to_end();
        }
        scene.extracts = true;
        let at = At::Label("facts noticed".to_owned());
        let mut daemon = scene.daemon(Some(Kill { at, when }));
        wait(&mut daemon, || false);
        let facts = || verdict::look(&scene.home(), FACTS);
        assert_eq!(facts().len(), usize::from(when == When::After), "{when:?}");
        let mut daemon = scene.daemon(None);
        let taken = || verdict::look(&scene.home(), "SELECT taken || '' FROM extractions");
        wait(&mut daemon, || !taken().is_empty());
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert_eq!(facts(), [NOTICED], "{when:?}");
        // The file that shows them is written after the commit, and by the next conversation if that was cut off.
        scene.extracts = false;
        scene.platform().say("1", "/new");
        scene.platform().say("1", "hello again");
        scene.bring_to_end();
        let shown = std::fs::read_to_string(scene.home().join("workspace/memory/FACTS.md"));
        assert!(shown.unwrap().contains(NOTICED), "{when:?}");
    }
}

#[test]
fn facts_that_an_answer_rests_on_are_counted_once_after_a_kill_around_any_commit() {
    for when in [When::Before, When::After] {
        for commit in 1.. {
            let scene = Scene::new(KNOWING);
            scene.platform().say("1", &format!("/remember {NOTICED}"));
            scene.bring_to_end();
            scene.platform().say("1", "hello");
            let has_killed = scene.run(Kill { at: At::Commit(commit), when });
            scene.bring_to_end();
            let uses = verdict::look(&scene.home(), "SELECT accesses || '' FROM facts");
            assert_eq!(uses, ["1"], "commit {commit}, {when:?}");
            if !has_killed {
                break;
            }
        }
    }
}
