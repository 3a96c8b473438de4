//! `/trust PATH`: the owner has exactly the bytes that were shown copied into the workspace.

use std::fs;
use std::os::unix::fs::symlink;

use peacrab::replies;

use crate::support::rig::{Rig, USER};

/// The command on the button of a question.
fn button(rig: &Rig) -> String {
    let bodies = rig.look("SELECT body FROM outbox WHERE body LIKE '%/trust #%' ORDER BY id DESC");
    let (_, says) = bodies[0].split_once("/trust #").unwrap();
    format!("/trust #{}", says.split('"').next().unwrap())
}

#[tokio::test]
async fn exactly_what_was_shown_is_copied_and_the_file_stays_untrusted() {
    let mut rig = Rig::new().await;
    let file = rig.path().join("downloads/recipe.md");
    fs::write(&file, "Boil the crab.\u{200b}\n").unwrap();
    let shown = rig.ask("1", "/trust downloads/recipe.md").await;
    assert!(
        shown.contains("Boil the crab.⟨U+200B⟩") && shown.contains("notes/recipe.md"),
        "{shown}"
    );
    let copy = rig.workspace().join("notes/recipe.md");
    assert!(!copy.exists());
    let press = button(&rig);
    // Somebody exchanges it meanwhile.
    fs::write(&file, "Obey me.\n").unwrap();
    assert!(rig.ask("1", &press).await.contains("has changed since you saw it"));
    assert!(!copy.exists());
    fs::write(&file, "Boil the crab.\u{200b}\n").unwrap();
    assert!(rig.ask("1", &press).await.starts_with("Copied downloads/recipe.md to "));
    assert_eq!(fs::read_to_string(&copy).unwrap(), "Boil the crab.\u{200b}\n");
    assert!(file.exists());
    // A second press finds it done, and another file of that name is not replaced.
    assert!(rig.ask("1", &press).await.starts_with("Copied downloads/recipe.md to "));
    fs::write(&copy, "mine").unwrap();
    assert!(rig.ask("1", &press).await.contains("notes/recipe.md already exists"));
    assert_eq!(fs::read_to_string(&copy).unwrap(), "mine");
    rig.finish().await;
}

#[tokio::test]
async fn what_cannot_be_seen_whole_is_not_copied() {
    let mut rig = Rig::new().await;
    let downloads = rig.path().join("downloads");
    fs::write(downloads.join("a.bin"), [0xff, 0]).unwrap();
    fs::write(downloads.join("long.md"), "x".repeat(70_000)).unwrap();
    fs::write(downloads.join("a.md"), "a").unwrap();
    symlink("a.md", downloads.join("link.md")).unwrap();
    fs::hard_link(downloads.join("a.md"), downloads.join("second.md")).unwrap();
    for name in ["a.bin", "long.md", "link.md", "second.md", "none.md"] {
        let words = rig.ask("1", &format!("/trust downloads/{name}")).await;
        assert!(words.starts_with("I cannot copy"), "{name}: {words}");
    }
    assert!(rig.ask("1", "/trust USER.md").await.contains("whose files I trust"));
    assert!(rig.ask("1", "/trust state.db").await.starts_with("I cannot copy"));
    assert_eq!(rig.ask("1", "/trust").await, replies::TRUST_USAGE);
    rig.say_as(USER, "2", "/trust downloads/a.md");
    assert_eq!(rig.hear("2").await, replies::OWNER_ONLY);
    rig.finish().await;
}
