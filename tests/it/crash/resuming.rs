//! Kills while a conversation moves: afterwards it is at one place, and its former one was told once.

use super::child::{At, Kill, When};
use super::{KNOWING, Scene, verdict};

#[test]
fn a_conversation_that_moves_is_at_one_place_after_a_kill_at_any_commit() {
    for commit in 1.. {
        for when in [When::Before, When::After] {
            let scene = Scene::with_said(KNOWING, &[("1", "the word is crab"), ("2", "hello")]);
            scene.bring_to_end();
            scene.platform().say("2", "/resume the word");
            let killed = scene.run(Kill { at: At::Commit(commit), when });
            scene.bring_to_end();
            let what = format!("{when:?} commit {commit}");
            let open = "SELECT s.chat || ' ' || count(t.id) FROM sessions s JOIN turns t ON t.session = s.id
                        WHERE s.closed IS NULL AND s.kind = 'chat' GROUP BY s.id";
            assert_eq!(verdict::look(&scene.home(), open), ["2 1"], "{what}");
            let got = scene.platform().got();
            let count = |words: &str| got.iter().filter(|got| got.text.contains(words)).count();
            assert_eq!(
                (count("We're back in"), count("continues at home")),
                (1, 1),
                "{what}: {got:?}"
            );
            if !killed {
                assert!(commit > 3, "there should be more than {commit} commits");
                return;
            }
        }
    }
}
