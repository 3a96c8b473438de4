//! Kills around reservations: what a call had reserved is spent, as an estimate, once and for good; no call that ended is
//! forgotten or counted twice; and the limits hold all the same.

use super::child::{self, At, Kill, When};
use super::{KNOWING, Scene, verdict};

/// More than anything here uses.
const PLENTY: u64 = 1_000_000;

/// The rows of the ledger in a state, by cause.
fn booked(scene: &Scene, state: &str) -> Vec<String> {
    let sql = format!("SELECT cause FROM ledger WHERE state = '{state}' ORDER BY cause");
    verdict::look(&scene.home(), &sql)
}

/// All of the ledger.
fn ledger(scene: &Scene) -> Vec<String> {
    let row = "SELECT id || ' ' || state || ' ' || input || ' ' || output || ' ' || at FROM ledger";
    verdict::look(&scene.home(), row)
}

fn scene(words: &str, day: Option<u64>, month: Option<u64>) -> Scene {
    let mut scene = Scene::with_said(KNOWING, &[("1", words)]);
    (scene.asks.budget, scene.asks.month) = (day, month);
    scene
}

/// Kills before or after each commit in turn.
fn kill_at_each_commit_of_calls(words: &str, when: When) {
    let undisturbed = scene(words, Some(PLENTY), None);
    undisturbed.bring_to_end();
    let calls = booked(&undisturbed, "settled");
    assert_eq!(booked(&undisturbed, "estimated"), Vec::<String>::new());
    assert!(calls.len() >= 2, "{calls:?}");
    for commit in 1.. {
        let scene = scene(words, Some(PLENTY), None);
        let killed = scene.run(Kill { at: At::Commit(commit), when });
        scene.bring_to_end();
        scene.judge();
        let what = format!("{words}, {when:?} commit {commit}");
        assert_eq!(booked(&scene, "settled"), calls, "{what}");
        assert_eq!(booked(&scene, "reserved"), Vec::<String>::new(), "{what}");
        let estimated = booked(&scene, "estimated");
        // A kill cuts off what runs at that moment: one call, or that of a subagent, too.
        assert!(estimated.len() <= 2, "{what}: {estimated:?}");
        assert!(estimated.iter().all(|cause| calls.contains(cause)), "{what}: {estimated:?}");
        if !killed {
            assert_eq!(estimated, Vec::<String>::new(), "{what}");
            assert!(commit > 8, "there should be more than {commit} commits");
            return;
        }
    }
}

#[test]
fn each_call_is_booked_once_after_a_kill_before_any_commit() {
    for words in ["append one to log.md", child::SPAWN, child::JOB] {
        kill_at_each_commit_of_calls(words, When::Before);
    }
}

#[test]
fn each_call_is_booked_once_after_a_kill_after_any_commit() {
    for words in ["append one to log.md", child::SPAWN, child::JOB] {
        kill_at_each_commit_of_calls(words, When::After);
    }
}

/// Only the first call fits, with an answer as long as there is room for.
const ROOM_FOR_ONE: u64 = 9_000;

#[test]
fn limits_of_a_day_and_a_month_hold_after_a_kill_and_nothing_is_booked_anew() {
    for (day, month, period) in
        [(Some(ROOM_FOR_ONE), None, "daily"), (None, Some(ROOM_FOR_ONE), "monthly")]
    {
        let scene = scene("hello", day, month);
        assert!(scene.run(Kill { at: At::Label("reserved".to_owned()), when: When::After }));
        let reserved = verdict::look(
            &scene.home(),
            "SELECT CAST(input + output AS TEXT) FROM ledger WHERE state = 'reserved'",
        );
        assert_eq!(reserved, [ROOM_FOR_ONE.to_string()]);
        scene.bring_to_end();
        assert_eq!(booked(&scene, "estimated"), ["chat"]);
        let answer = scene.answer();
        let refused = format!("Your {period} budget of 9,000 tokens is used up");
        assert!(answer.starts_with(&refused), "{answer}");
        // Neither a further start nor a further message books or gives back anything.
        let before = ledger(&scene);
        assert_eq!(before.len(), 1);
        scene.bring_to_end();
        scene.platform().say("1", "and now?");
        scene.bring_to_end();
        assert_eq!(ledger(&scene), before);
        let got = scene.platform().got();
        let refusals = got.iter().filter(|got| got.text.starts_with(&refused)).count();
        assert_eq!(refusals, 2, "{got:?}");
    }
}

#[test]
fn a_kill_of_many_daemons_in_a_row_books_each_reservation_once() {
    let scene = scene("hello", Some(PLENTY), None);
    let reserved = Kill { at: At::Label("reserved".to_owned()), when: When::After };
    // The third attempt is the last.
    for kills in 1..=3 {
        assert!(scene.run(reserved.clone()));
        let open = booked(&scene, "reserved");
        assert_eq!((open.len(), booked(&scene, "estimated").len()), (1, kills - 1));
    }
    scene.bring_to_end();
    scene.judge();
    assert_eq!((booked(&scene, "reserved").len(), booked(&scene, "estimated").len()), (0, 3));
}
