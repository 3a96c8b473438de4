//! Skills as other assistants write them: found, checked, shown, and begun with.

mod format;

use std::fs;
use std::path::Path;

use peacrab::replies;
use peacrab::workspace::Workspace;
use peacrab::workspace::skills::{SkillEnvironment, catalogue};
use serde_json::json;
use tempfile::TempDir;

use crate::support::fake_channel::FakeChannel;
use crate::support::rig::{Rig, RigOptions, USER};
use crate::support::script::{calls, says};

fn write(folder: &Path, name: &str, head: &str, body: &str) {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: {name}\n{head}\n---\n{body}\n");
    fs::write(folder.join("SKILL.md"), text).unwrap();
}

/// A rig with the account's home folder in `home`.
async fn with_home(home: &TempDir) -> Rig {
    let skill_environment = SkillEnvironment {
        home: Some(home.path().to_owned()),
        path: vec!["/bin".into()],
        env: ["SET".to_owned()].into(),
    };
    Rig::of(RigOptions { skill_environment, ..RigOptions::default() }).await
}

#[tokio::test]
async fn are_found_in_every_place_and_the_first_wins() {
    let home = tempfile::tempdir().unwrap();
    let rig = with_home(&home).await;
    let agents = home.path().join(".agents/skills");
    write(&agents, "far", "description: From home.", "Far body in {baseDir}.");
    write(&agents, "lists", "description: Not this one.", "");
    write(&rig.workspace().join(".agents/skills"), "near", "description: From here.", "");
    let mut rig = rig;
    let shown = rig.ask("1", "/skills").await;
    assert!(shown.contains("far (ready): From home."), "{shown}");
    assert!(shown.contains("near (ready): From here.") && !shown.contains("Not this one"));
    // The model reads one that no path leads to with a tool.
    rig.model.on("use far", [calls(&[("read_skill", json!({"name": "far"}))]), says("done")]);
    rig.ask("1", "use far").await;
    let asked = rig.model.last();
    assert!(asked.system[0].contains("- far (read_skill): From home."), "{}", asked.system[0]);
    assert!(asked.system[0].contains("- near (.agents/skills/near/SKILL.md): From here."));
    let body = format!("result: Far body in {}/far.", agents.display());
    assert_eq!(asked.messages.last().unwrap(), &body);
    rig.finish().await;
}

#[test]
fn those_that_ship_are_there_where_the_workspace_has_none() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("workspace");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("SOUL.md"), "from elsewhere").unwrap();
    let workspace = Workspace::open(&folder).unwrap();
    assert_eq!(catalogue(&workspace).skills.len(), 4);
    fs::create_dir(folder.join("skills")).unwrap();
    assert_eq!(catalogue(&workspace).skills.len(), 0, "who removes them means it");
}

#[tokio::test]
async fn what_is_missing_is_said_and_looked_for_again() {
    let home = tempfile::tempdir().unwrap();
    let rig = with_home(&home).await;
    let skills = rig.workspace().join("skills");
    fs::remove_dir_all(&skills).unwrap();
    let needs = |needs: &str| format!("description: d\nmetadata: {{openclaw: {needs}}}");
    write(&skills, "a-os", &needs("{os: [plan9]}"), "");
    write(&skills, "b-bin", &needs("{requires: {bins: [sh, no-such]}}"), "");
    write(&skills, "c-any", &needs("{requires: {anyBins: [no-such, sh], env: [SET]}}"), "");
    write(&skills, "d-env", &needs("{requires: {env: [UNSET]}}"), "");
    write(&skills, "e-hidden", "description: d\ndisable-model-invocation: true", "");
    write(&skills, "f-model", "description: d\nuser-invocable: false", "");
    write(&skills, "g-odd", "description: it is: odd", "");
    write(&skills, "h-broken", "", "");
    let mut rig = rig;
    assert_eq!(
        rig.ask("1", "/skills").await,
        "a-os (can't be used: it is for plan9 only): d\n\
         b-bin (can't be used: it needs the program no-such): d\n\
         c-any (ready): d\n\
         d-env (can't be used: it needs the variable UNSET): d\n\
         e-hidden (only with /skill): d\n\
         f-model (ready, but not with /skill): d\n\
         g-odd (ready): it is: odd\n  note: a value with a colon in it wants quotes\n\
         skills/h-broken/SKILL.md was skipped: it has no description"
    );
    rig.ask("1", "hello").await;
    let system = rig.model.last().system.concat();
    for (name, told) in
        [("a-os", false), ("b-bin", false), ("c-any", true), ("e-hidden", false), ("f-model", true)]
    {
        assert_eq!(system.contains(&format!("- {name} (")), told, "{name} in {system}");
    }
    for (name, words) in [
        ("b-bin", replies::skill_unusable("b-bin", "it needs the program no-such")),
        ("f-model", replies::no_skill("f-model")),
        ("nemo", replies::no_skill("nemo")),
    ] {
        assert_eq!(rig.ask("1", &format!("/skill {name} please")).await, words);
    }
    assert_eq!(rig.ask("1", "/skill").await, replies::SKILL_USAGE);
    assert_eq!(rig.model.asked().len(), 1);
    // A change counts at once.
    write(&skills, "b-bin", "description: needs nothing any more", "");
    assert!(rig.ask("1", "/skills").await.contains("b-bin (ready): needs nothing"));
    rig.finish().await;
}

#[tokio::test]
async fn a_turn_begins_with_a_skill() {
    let mut rig = Rig::new().await;
    let skills = rig.workspace().join("skills");
    write(
        &skills,
        "greet",
        "description: d",
        "Greet from {baseDir}.\n[Not a line of the program.]",
    );
    rig.say_as(USER, "-1", "/skill Greet the queen");
    rig.next_message("-1").await;
    let newest = rig.model.last().messages.pop().unwrap();
    let (_, told) = newest.split_once("]\n").unwrap();
    assert_eq!(
        told,
        "[The skill Greet:]\nGreet from skills/greet.\n[Not a line of the program.]\n\
         [End of the skill. Use it for this:]\nthe queen"
    );
    // What was once sent is sent again byte for byte, also when the skill is gone.
    fs::remove_dir_all(skills.join("greet")).unwrap();
    rig.say_as(USER, "-1", "thanks");
    rig.next_message("-1").await;
    assert!(rig.model.last().messages[0].contains("Greet from skills/greet."));
    rig.finish().await;
}

#[tokio::test]
async fn those_that_are_always_there_are_in_the_prompt_within_bounds() {
    let mut rig = Rig::at_rest(FakeChannel::new(), RigOptions::default());
    let skills = rig.workspace().join("skills");
    for name in ["a", "b", "c", "d"] {
        let body = format!("Body of {name}. {}", "x".repeat(6_000));
        write(&skills, name, "description: d\nmetadata: {openclaw: {always: true}}", &body);
    }
    rig.start().await;
    rig.ask("1", "hello").await;
    let system = rig.model.last().system.concat();
    assert!(system.contains("# Skill a\nBody of a."), "{system}");
    assert!(system.contains("characters of a are left out here; it is longer than 4000."));
    assert!(system.contains("- d (skills/d/SKILL.md): d") && !system.contains("Body of d."));
    let shown = rig.ask("1", "/skills").await;
    assert!(shown.contains("a (always active): d"), "{shown}");
    rig.finish().await;
}
