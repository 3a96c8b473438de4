//! Kills while a private conversation goes on after a pause without what others wrote: it is left out once, nothing else is
//! lost, and nobody is asked.

use std::fs;

use rusqlite::Connection;

use super::child::{At, Kill, When};
use super::{KNOWING, Scene, verdict};

fn kill_at_each_commit_after_a_pause(when: When) {
    for commit in 1.. {
        // The model that sees a picture has seen untrusted content.
        let scene = Scene::with_said(KNOWING, &[("1", "the crab is small")]);
        scene.bring_to_end();
        scene.platform().say("1", "a photo");
        scene.bring_to_end();
        let store = Connection::open(scene.home().join("state.db")).unwrap();
        store.execute_batch("UPDATE turns SET ended = ended - 121 * 60000").unwrap();
        drop(store);
        scene.platform().say("1", "append one to log.md");
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        scene.judge();
        let what = format!("{when:?} commit {commit}");
        assert_eq!(fs::read_to_string(scene.log()).unwrap(), "one\n", "{what}");
        let sessions = "SELECT summary FROM sessions WHERE kind = 'chat' AND closed IS NULL
                        AND untrusted_summary LIKE '%a photo%'";
        let kept = verdict::look(&scene.home(), sessions);
        assert!(matches!(&kept[..], [it] if it.contains("the crab is small")), "{what}: {kept:?}");
        let steps = "SELECT input FROM steps WHERE input LIKE '%a photo%'";
        assert_eq!(verdict::look(&scene.home(), steps).len(), 1, "{what}");
        if !killed {
            assert!(commit > 5, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn a_conversation_is_cleaned_after_a_pause_and_a_kill_before_any_commit() {
    kill_at_each_commit_after_a_pause(When::Before);
}

#[test]
fn a_conversation_is_cleaned_after_a_pause_and_a_kill_after_any_commit() {
    kill_at_each_commit_after_a_pause(When::After);
}
