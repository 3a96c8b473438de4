//! Kills while words are forgotten: after the next start they are nowhere, and the person is told once.

use super::child::{At, Kill, When};
use super::{KNOWING, Scene};
use crate::forget::places;

const WORD: &str = "quetzalcoatl";

#[test]
fn what_is_to_be_forgotten_is_forgotten_after_a_kill_at_any_commit() {
    for commit in 1.. {
        for when in [When::Before, When::After] {
            let said = [
                ("1", "remember that quetzalcoatl is green then note that quetzalcoatl sleeps"),
                ("1", "append quetzalcoatl to log.md"),
                ("1", "/remember quetzalcoatl likes figs"),
            ];
            let scene = Scene::with_said(KNOWING, &said);
            scene.bring_to_end();
            std::fs::remove_file(scene.log()).ok();
            scene.platform().say("1", &format!("/forget yes: {WORD}"));
            let killed = scene.run(Kill { at: At::Commit(commit), when });
            scene.bring_to_end();
            let got = scene.platform().got();
            let told = got.iter().filter(|got| got.text.starts_with("Forgotten")).count();
            assert_eq!(told, 1, "{when:?} commit {commit}: {got:?}");
            assert_eq!(
                places(&scene.home(), WORD),
                Vec::<String>::new(),
                "{when:?} commit {commit}"
            );
            if !killed {
                assert!(commit > 8, "there should be more than {commit} commits");
                return;
            }
        }
    }
}
