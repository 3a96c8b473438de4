//! Kills in an incognito conversation, at its end and while it is erased: nothing of it is left, and nothing else goes.

use std::time::{Duration, Instant};

use super::child::{At, Kill, When};
use super::{KNOWING, Scene};
use crate::forget::places;
use crate::support::platform::DOCUMENT;

const WORD: &str = "quetzalcoatl";

/// Runs a daemon until no table and no file has the word.
fn bring_to_erasure(scene: &Scene, context: &str) {
    let mut daemon = scene.daemon(None);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let left = places(&scene.home(), WORD);
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{context}: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

fn rows(scene: &Scene, sql: &str) -> i64 {
    let store = rusqlite::Connection::open(scene.home().join("state.db")).unwrap();
    store.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Kills at each commit of what follows a line of a conversation, until there is none left to kill at.
fn kill_at_each(before: &[&str], line: &str, after: &[&str]) {
    for commit in 1.. {
        for when in [When::Before, When::After] {
            let scene = Scene::with_said(KNOWING, &[("1", "append ordinary to log.md")]);
            scene.bring_to_end();
            for line in before {
                scene.platform().say("1", line);
                scene.bring_to_end();
            }
            scene.platform().say("1", line);
            let killed = scene.run(Kill { at: At::Commit(commit), when });
            scene.bring_to_end();
            for line in after {
                scene.platform().say("1", line);
                scene.bring_to_end();
            }
            let context = format!("{when:?} commit {commit}");
            // The platform of the test keeps what was said, beside the home.
            bring_to_erasure(&scene, &context);
            assert_eq!(rows(&scene, "SELECT count(*) FROM attachments"), 0, "{context}");
            let kept = "SELECT count(*) FROM recall_entries WHERE text LIKE '%ordinary%' AND kind = 'turn'";
            assert_eq!(rows(&scene, kept), 1, "{context}");
            let open =
                "SELECT count(*) FROM sessions WHERE incognito IS NOT NULL AND closed IS NULL";
            assert_eq!(rows(&scene, open), 0, "{context}");
            assert_eq!(std::fs::read_to_string(scene.log()).unwrap(), "ordinary\n", "{context}");
            if !killed {
                assert!(commit > 3, "there should be more than {commit} commits");
                return;
            }
        }
    }
}

#[test]
fn nothing_of_it_is_left_after_a_kill_while_it_lasts() {
    let hello = format!("hello {WORD}, {DOCUMENT}");
    kill_at_each(&["/incognito"], &hello, &["/new"]);
    kill_at_each(&["/incognito"], &format!("read {WORD}.md"), &["/new"]);
}

#[test]
fn nothing_of_it_is_left_after_a_kill_at_its_end() {
    kill_at_each(&["/incognito", &format!("hello {WORD}, {DOCUMENT}")], "/new", &[]);
}

#[test]
fn nothing_of_it_is_left_after_a_kill_while_another_one_is_resumed() {
    let before = ["/new".to_owned(), "/incognito".to_owned(), format!("hello {WORD}")];
    kill_at_each(&before.each_ref().map(AsRef::as_ref), "/resume #1", &[]);
}
