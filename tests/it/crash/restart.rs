//! The daemon is killed before and after each of its commits while it follows `/restart`: whoever asked is told that it
//! begins, and once that it is done.

use std::time::Instant;

use peacrab::replies;

use super::child::{At, Kill, When};
use super::{KNOWING, PATIENCE, Scene};

/// How often somebody was told these words.
fn told(scene: &Scene, words: &str) -> usize {
    scene.platform().got().iter().filter(|got| got.delivery != 0 && got.text == words).count()
}

/// Runs daemons until one has reported back, as systemd would; each ends when it has followed.
fn run_until_reported(scene: &Scene, words: &str) {
    let begun = Instant::now();
    while told(scene, words) == 0 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", scene.platform().got());
        let mut daemon = scene.daemon(None);
        while daemon.try_wait().unwrap().is_none() && told(scene, words) == 0 {
            assert!(begun.elapsed() < PATIENCE, "{:?}", scene.platform().got());
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
}

fn kill_at_each_commit_of_a_restart(when: When) {
    let back = replies::restarted(env!("CARGO_PKG_VERSION"));
    for commit in 1.. {
        let mut scene = Scene::new(KNOWING);
        scene.restarts = true;
        scene.platform().say("1", "/restart");
        // It is killed, or ends by itself, or is ended when nothing is left to do.
        let mut daemon = scene.daemon(Some(Kill { at: At::Commit(commit), when }));
        let was_killed = scene.settle(&mut daemon).is_some_and(|status| status.code().is_none());
        run_until_reported(&scene, &back);
        // Another start reports nothing more.
        scene.platform().say("1", "hello");
        scene.restarts = false;
        scene.bring_to_end();
        assert_eq!(told(&scene, &back), 1, "commit {commit}: {:?}", scene.platform().got());
        assert_eq!(told(&scene, replies::RESTARTING), 1, "commit {commit}");
        if !was_killed {
            assert!(commit > 3, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn a_restart_is_reported_once_after_a_kill_before_any_commit() {
    kill_at_each_commit_of_a_restart(When::Before);
}

#[test]
fn a_restart_is_reported_once_after_a_kill_after_any_commit() {
    kill_at_each_commit_of_a_restart(When::After);
}
