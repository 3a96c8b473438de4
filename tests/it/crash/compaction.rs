//! The daemon is killed before and after each of its commits while the steps of a running turn become part of a summary:
//! the model is told which calls it has made, and none is made twice.

use std::fs;

use super::child::{APPENDS, At, COUNTED, Kill, MANY, When};
use super::{KNOWING, Scene, verdict};

fn kill_at_each_commit_of_a_compaction(when: When) {
    for commit in 1.. {
        let scene = Scene::with_said(KNOWING, &[("1", MANY)]);
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        scene.judge();
        let what = format!("{when:?} commit {commit}");
        let log = fs::read_to_string(scene.home().join("workspace").join(COUNTED)).unwrap();
        let lines: Vec<_> = (0..APPENDS).map(|n| n.to_string()).collect();
        assert_eq!(log.lines().collect::<Vec<_>>(), lines, "{what}");
        let sql =
            "SELECT cast(begins_step AS TEXT) FROM sessions WHERE summary = 'The crab counts.'";
        let begins = verdict::look(&scene.home(), sql);
        assert!(matches!(&begins[..], [step] if step != "0"), "{what}: {begins:?}");
        assert_eq!(scene.answer(), "All are there.", "{what}");
        if !killed {
            assert!(commit > 12, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn calls_of_summarized_steps_are_made_once_after_a_kill_before_any_commit() {
    kill_at_each_commit_of_a_compaction(When::Before);
}

#[test]
fn calls_of_summarized_steps_are_made_once_after_a_kill_after_any_commit() {
    kill_at_each_commit_of_a_compaction(When::After);
}
