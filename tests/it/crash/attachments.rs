//! Kills while a document comes in and while it is removed: its record, its text and its file are there together, or
//! none of them.

use super::child::{At, Kill, When};
use super::{KNOWING, Scene};
use crate::forget::places;
use crate::support::platform::DOCUMENT;

/// The paths of all records, with the length of their texts.
fn records(scene: &Scene) -> Vec<(String, usize)> {
    let store = rusqlite::Connection::open(scene.home().join("state.db")).unwrap();
    let mut rows = store.prepare("SELECT path, length(text) FROM attachments ORDER BY id").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_document_has_one_record_after_a_kill_at_any_commit() {
    for commit in 1.. {
        for when in [When::Before, When::After] {
            let scene = Scene::with_said(KNOWING, &[("1", &format!("hello, {DOCUMENT}"))]);
            let killed = scene.run(Kill { at: At::Commit(commit), when });
            scene.bring_to_end();
            scene.judge();
            let records = records(&scene);
            let [(path, 39)] = records.as_slice() else {
                panic!("{when:?} commit {commit}: {records:?}")
            };
            assert!(scene.home().join(path).exists(), "{when:?} commit {commit}");
            if !killed {
                assert!(commit > 4, "there should be more than {commit} commits");
                return;
            }
        }
    }
}

#[test]
fn a_document_is_forgotten_with_its_file_after_a_kill_at_any_commit() {
    for commit in 1.. {
        for when in [When::Before, When::After] {
            let scene = Scene::with_said(KNOWING, &[("1", &format!("hello, {DOCUMENT}"))]);
            scene.bring_to_end();
            let [(path, _)] = records(&scene).try_into().unwrap();
            scene.platform().say("1", "/forget yes: 800 crowns");
            let killed = scene.run(Kill { at: At::Commit(commit), when });
            scene.bring_to_end();
            assert!(!scene.home().join(&path).exists(), "{when:?} commit {commit}");
            assert_eq!(records(&scene), [], "{when:?} commit {commit}");
            let places = places(&scene.home(), "crowns");
            assert_eq!(places, Vec::<String>::new(), "{when:?} commit {commit}");
            if !killed {
                assert!(commit > 8, "there should be more than {commit} commits");
                return;
            }
        }
    }
}
