//! Commands of jobs and kills: what was run is never run again, and what was cut off is told.

use std::fs;
use std::time::Duration;

use super::child::{self, At, Kill, When};
use super::{KNOWING, Scene, verdict};
use crate::support::effort;

/// Kills before or after each commit in turn, while a command is due and is run. What it has done it has
/// done once; where a kill came in its middle, that is told, and it is not run again.
fn kill_at_each_commit_of_a_command(words: &str, when: When) {
    for commit in 1.. {
        let scene = Scene::with_said(KNOWING, &[("1", words)]);
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        scene.judge();
        command_was_run_once(&scene, words, &format!("{when:?} commit {commit}"));
        if !killed {
            assert!(commit > 8, "there should be more than {commit} commits");
            return;
        }
    }
}

/// Gives how its run ended.
fn command_was_run_once(scene: &Scene, words: &str, what: &str) -> String {
    let [state] = &*verdict::runs(&scene.home()) else { panic!("{what}: not one run") };
    let ran = fs::read_to_string(scene.home().join("workspace/ran.log")).unwrap_or_default();
    let got = scene.platform().got();
    let told = |is_it: &dyn Fn(&str) -> bool| {
        got.iter().filter(|got| got.delivery != 0 && is_it(&got.text)).count()
    };
    let said = match words {
        child::COMMAND => told(&|text| text == "the crab ran"),
        _ => told(&|text| text.contains("Added to den.md")),
    };
    let cut_off = told(&|text| text.contains("was cut off when I stopped"));
    match state.as_str() {
        "done" => assert_eq!((&*ran, said, cut_off), ("ran\n", 1, 0), "{what}: {got:?}"),
        "interrupted" => {
            assert!(ran.is_empty() || ran == "ran\n", "{what}: {ran}");
            assert_eq!((said, cut_off), (0, 1), "{what}: {got:?}");
        }
        other => panic!("{what}: {other}"),
    }
    state.clone()
}

#[test]
fn a_command_that_is_due_is_run_once_or_told_after_a_kill_before_any_commit() {
    for words in [child::COMMAND, child::CHECK] {
        kill_at_each_commit_of_a_command(words, When::Before);
    }
}

#[test]
fn a_command_that_is_due_is_run_once_or_told_after_a_kill_after_any_commit() {
    for words in [child::COMMAND, child::CHECK] {
        kill_at_each_commit_of_a_command(words, When::After);
    }
}

/// What is written down before and after a command decides what becomes of it.
#[test]
fn a_command_is_begun_after_a_kill_before_it_and_never_after_one_in_its_middle() {
    for (label, when, ends) in [
        ("jobs claimed", When::After, "done"),
        ("command begins", When::Before, "done"),
        ("command begins", When::After, "interrupted"),
        ("command ends", When::Before, "interrupted"),
        ("command ends", When::After, "done"),
        ("command cut off", When::Before, "done"),
    ] {
        for words in [child::COMMAND, child::CHECK] {
            let scene = Scene::with_said(KNOWING, &[("1", words)]);
            let killed = scene.run(Kill { at: At::Label(label.to_owned()), when });
            assert_eq!(killed, label != "command cut off", "{label}");
            // The power goes again while it is found out.
            if ends == "interrupted" {
                let again = At::Label("command cut off".to_owned());
                assert!(scene.run(Kill { at: again, when: When::Before }));
            }
            scene.bring_to_end();
            scene.judge();
            let what = format!("{words}, {when:?} {label}");
            assert_eq!(command_was_run_once(&scene, words, &what), ends, "{what}");
        }
    }
}

/// Kills at random moments, while commands are due one after another.
#[test]
fn random_kills_run_no_command_twice() {
    let kills = effort::kills();
    let scene = Scene::new(KNOWING);
    let wanted = kills as usize / 8;
    // On a busy machine, most starts are killed before they begin a command: more follow then.
    let has_few = |n| n < kills * 4 && verdict::runs(&scene.home()).len() <= wanted;
    for n in (0..).take_while(|n| *n < kills || has_few(*n)) {
        if n % 4 == 0 {
            scene.platform().say(&format!("c{n}"), child::COMMAND);
        }
        let mut daemon = scene.daemon(None);
        std::thread::sleep(Duration::from_millis(fastrand::u64(60..500)));
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
    scene.bring_to_end();
    scene.judge();
    let ran = fs::read_to_string(scene.home().join("workspace/ran.log")).unwrap_or_default();
    let ended = verdict::runs(&scene.home());
    let done = ended.iter().filter(|state| *state == "done").count();
    let interrupted = ended.iter().filter(|state| *state == "interrupted").count();
    assert_eq!(done + interrupted, ended.len(), "{ended:?}");
    let ran = ran.lines().count();
    assert!((done..=ended.len()).contains(&ran), "{ran} times, of {ended:?}");
    // One command for every four kills, and most of them in the middle of one.
    assert!(done > 0 && done + interrupted > wanted, "{ended:?}");
    let jobs = verdict::look(&scene.home(), "SELECT CAST(count(*) AS TEXT) FROM jobs");
    assert_eq!(jobs, [ended.len().to_string()]);
}
