//! What a command changes of what the bot goes by is shown to the owner, and can be undone, as what the
//! tools for files change is.

use std::fs;
use std::path::PathBuf;

use peacrab::replies;
use serde_json::json;

use super::{config, tools};
use crate::support::rig::{Rig, RigOptions, USER};
use crate::support::script::{Reply, calls, says};

async fn rig() -> Rig {
    let rig = Rig::of(RigOptions { tools: tools(&config()), ..RigOptions::default() }).await;
    fs::write(rig.workspace().join("SOUL.md"), "Be kind.\nBe brief.\n").unwrap();
    rig
}

fn exec(command: &str) -> Reply {
    calls(&[("exec", json!({"command": command}))])
}

fn text(rig: &Rig, path: &str) -> String {
    fs::read_to_string(rig.workspace().join(path)).unwrap()
}

fn skill(rig: &Rig, name: &str) -> PathBuf {
    let folder = rig.workspace().join("skills").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder.join("SKILL.md")
}

/// The number of the action that says that a file was changed.
fn number(rig: &Rig, path: &str) -> String {
    let sql = "SELECT CAST(id AS TEXT) FROM calls WHERE wire_id = 'seen' AND arguments LIKE '%";
    rig.query(&format!("{sql}{path}%' ORDER BY id DESC")).remove(0)
}

#[tokio::test]
async fn the_owner_is_shown_what_a_command_changes_and_can_undo_it() {
    let mut rig = rig().await;
    fs::write(skill(&rig, "tea"), "---\nname: tea\ndescription: Makes tea.\n---\nBoil.\n").unwrap();
    let command = "sed -i 's/kind/rude/' SOUL.md; echo obey > IDENTITY.md; sed -i s/Boil/Burn/ skills/tea/SKILL.md; \
                   echo x > list.md";
    rig.model.on("change", [exec(command), says("Done.")]);
    rig.say("1", "change them");
    let heard = rig.next_messages("1", 2).await;
    let told = heard.iter().find(|text| text.starts_with("My instructions or skills")).unwrap();
    assert!(told.contains("while exec ran"), "{told}");
    assert!(told.contains("SOUL.md:\n```\n- removed: Be kind.\n- added: Be rude."), "{told}");
    assert!(told.contains("```\n- removed: Boil.\n- added: Burn.\n```\nUse /undo"), "{told}");
    assert!(told.contains("IDENTITY.md:") && told.contains("- added: obey"), "{told}");
    assert!(!told.contains("list.md"), "{told}");
    let soul = number(&rig, "SOUL.md");
    assert!(told.contains(&format!("Use /undo {soul} to undo it.")), "{told}");
    assert!(rig.ask("1", &format!("/undo {soul}")).await.contains("SOUL.md is as it was"));
    assert_eq!(text(&rig, "SOUL.md"), "Be kind.\nBe brief.\n");
    let tea = number(&rig, "skills/tea");
    assert!(rig.ask("1", &format!("/undo {tea}")).await.contains("as it was"));
    assert!(text(&rig, "skills/tea/SKILL.md").contains("Boil."));
    // What a command leaves alone is not told of.
    rig.model.on("look", [exec("cat SOUL.md; touch AGENTS.md"), says("Looked.")]);
    assert_eq!(rig.ask("1", "look at them").await, "Looked.");
    rig.finish().await;
}

#[tokio::test]
async fn what_is_put_in_a_rules_place_or_taken_away_is_told_and_undone() {
    let mut rig = rig().await;
    let agents = text(&rig, "AGENTS.md");
    let command = "mv SOUL.md soul; echo evil > e; mv e AGENTS.md; mkdir -p skills/new; \
                   printf -- '---\\nname: new\\ndescription: d\\n---\\nevil' > skills/new/SKILL.md; ln -s ../list skills/own";
    rig.model.on("move", [exec(command), says("Moved.")]);
    rig.say("1", "move them");
    let heard = rig.next_messages("1", 2).await;
    let told = heard.iter().find(|text| text.starts_with("My instructions or skills")).unwrap();
    for lines in ["SOUL.md:\n```\n- removed: Be kind.", "- added: evil", "skills/new/SKILL.md:"] {
        assert!(told.contains(lines), "{told}");
    }
    for path in ["SOUL.md", "AGENTS.md", "skills/new"] {
        let id = number(&rig, path);
        assert!(rig.ask("1", &format!("/undo {id}")).await.contains("as it was"), "{path}");
    }
    assert_eq!(text(&rig, "SOUL.md"), "Be kind.\nBe brief.\n");
    assert_eq!(text(&rig, "AGENTS.md"), agents);
    assert!(!rig.workspace().join("skills/new/SKILL.md").exists());
    rig.finish().await;
}

#[tokio::test]
async fn what_a_command_in_the_background_changes_is_told_when_it_ends_unasked() {
    let mut rig = rig().await;
    let command = "sleep 1; echo 'Be rude.' >> SOUL.md";
    let begin = calls(&[("exec", json!({"command": command, "background": true}))]);
    rig.model.on("begin", [begin, says("Begun.")]);
    assert_eq!(rig.ask("1", "begin it").await, "Begun.");
    let told = rig.next_message("1").await;
    assert!(told.contains("SOUL.md:\n```\n- added: Be rude."), "{told}");
    assert_eq!(rig.query("SELECT rules FROM rule_watch"), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn no_model_goes_by_what_a_command_changed_before_the_owner_was_shown_it() {
    let mut rig = rig().await;
    let command = "echo 'Be rude.' >> SOUL.md; touch done; sleep 100";
    let begin = calls(&[("exec", json!({"command": command, "background": true}))]);
    rig.model.on("begin", [begin, says("Begun.")]);
    rig.say("1", "begin it");
    rig.wait_until(|rig| rig.workspace().join("done").exists()).await;
    let heard = rig.next_messages("1", 1).await;
    if heard == ["Begun."] {
        // It runs on, and somebody speaks.
        rig.say("1", "hello");
        let heard = rig.next_messages("1", 2).await;
        assert!(heard[0].contains("- added: Be rude."), "{heard:?}");
    } else {
        assert!(heard[0].contains("- added: Be rude."), "{heard:?}");
        rig.next_messages("1", 1).await;
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_command_that_is_stopped_or_cut_off_by_a_crash_is_told_of_too() {
    let mut rig = rig().await;
    rig.model.on("run", [exec("echo 'Be rude.' >> SOUL.md; touch done; sleep 100")]);
    rig.say("1", "run it");
    rig.wait_until(|rig| rig.workspace().join("done").exists()).await;
    rig.say("1", "/stop");
    let heard = rig.next_messages("1", 2).await;
    assert!(
        heard.iter().any(|text| text.contains("SOUL.md:\n```\n- added: Be rude.")),
        "{heard:?}"
    );
    // What was written down before a crash is compared after it.
    let begin = calls(&[("exec", json!({"command": "sleep 100", "background": true}))]);
    rig.model.on("begin", [begin, says("Begun.")]);
    assert_eq!(rig.ask("1", "begin it").await, "Begun.");
    rig.stop().await;
    let before = "Be kind.\nBe brief.\nBe rude.\n";
    assert_eq!(text(&rig, "SOUL.md"), before);
    fs::write(rig.workspace().join("SOUL.md"), "Be kind.\nBe brief.\nBe evil.\n").unwrap();
    rig.start().await;
    let told = rig.next_message("1").await;
    assert!(told.contains("SOUL.md:\n```\n- removed: Be rude.\n- added: Be evil.\n```"), "{told}");
    rig.stop_and_start_again().await;
    let soul = number(&rig, "SOUL.md");
    assert!(rig.ask("1", &format!("/undo {soul}")).await.contains("as it was"));
    assert_eq!(text(&rig, "SOUL.md"), before);
    rig.finish().await;
}

#[tokio::test]
async fn what_a_tool_for_files_has_told_is_not_told_again() {
    let mut rig = rig().await;
    let begin = calls(&[("exec", json!({"command": "sleep 100", "background": true}))]);
    let edit = json!({ "path": "SOUL.md", "old": "Be kind.", "new": "Be rude." });
    rig.model.on("change", [begin, calls(&[("edit_file", edit)]), says("Done.")]);
    rig.say("1", "change your soul");
    let heard = rig.next_messages("1", 2).await;
    let id = rig.query("SELECT CAST(id AS TEXT) FROM calls WHERE tool = 'edit_file'").remove(0);
    let lines = "- removed: Be kind.\n- added: Be rude.";
    assert!(heard.contains(&replies::instructions_changed("SOUL.md", lines, &id)), "{heard:?}");
    assert!(rig.ask("1", &format!("/undo {id}")).await.contains("SOUL.md"));
    rig.model.on("look", [exec("cat SOUL.md"), says("Looked.")]);
    assert_eq!(rig.ask("1", "look at it").await, "Looked.");
    rig.finish().await;
}

#[tokio::test]
async fn changes_are_found_among_more_files_than_are_watched() {
    let mut rig = rig().await;
    fs::write(skill(&rig, "zzz"), "---\nname: zzz\ndescription: d\n---\nBoil.\n").unwrap();
    let command = "mkdir skills/aaa; for n in $(seq 1 400); do echo $n > skills/aaa/$n; done; echo evil >> skills/zzz/SKILL.md; \
                   echo evil >> SOUL.md; head -c 300000 /dev/zero > IDENTITY.md";
    rig.model.on("fill", [exec(command), says("Filled.")]);
    rig.say("1", "fill it");
    let heard = rig.next_messages("1", 2).await;
    let told = heard.iter().find(|text| text.starts_with("My instructions or skills")).unwrap();
    assert!(
        told.contains("more files than I can watch") && told.contains("more files: /actions"),
        "{told}"
    );
    for path in ["SOUL.md", "IDENTITY.md", "skills/zzz/SKILL.md"] {
        let id = number(&rig, path);
        assert!(rig.ask("1", &format!("/undo {id}")).await.contains("as it was"), "{path}");
    }
    assert_eq!(text(&rig, "SOUL.md"), "Be kind.\nBe brief.\n");
    rig.finish().await;
}

#[tokio::test]
async fn a_link_in_a_rules_place_is_told_and_what_it_leads_to_is_a_rule() {
    let mut rig = rig().await;
    fs::write(skill(&rig, "tea"), "---\nname: tea\ndescription: d\n---\nBoil.\n").unwrap();
    let command = "cp AGENTS.md house.md; ln -sf house.md AGENTS.md; mv skills s; ln -s s skills; \
                   rm -f HEARTBEAT.md; ln -s later.md HEARTBEAT.md";
    rig.model.on("link", [exec(command), says("Linked.")]);
    rig.say("1", "link them");
    let heard = rig.next_messages("1", 2).await;
    let told = heard.iter().find(|text| text.starts_with("My instructions or skills")).unwrap();
    for (link, to) in [("AGENTS.md", "house.md"), ("skills", "s"), ("HEARTBEAT.md", "later.md")] {
        let words = format!("{link}:\n```\nIt is now a link to {to}.");
        assert!(told.contains(&words), "{told}");
    }
    assert!(!told.contains("skills/tea"), "{told}");
    rig.model.on("look", [exec("cat AGENTS.md"), says("Looked.")]);
    assert_eq!(rig.ask("1", "look at it").await, "Looked.");
    // Others cannot write there, and the owner is told by the name that counts.
    let write =
        |path: &str| calls(&[("write_file", json!({ "path": path, "content": "Be rude.\n" }))]);
    for path in ["house.md", "s/tea/SKILL.md", "s/new/SKILL.md", "later.md"] {
        rig.model.on("evil", [write(path), says("No.")]);
        rig.say_as(USER, "-1", "evil");
        assert_eq!(rig.next_message("-1").await, "No.");
        let now = fs::read_to_string(rig.workspace().join(path)).unwrap_or_default();
        assert!(!now.contains("rude"), "{path}");
    }
    rig.model.on("own", [write("later.md"), says("Done.")]);
    rig.say("1", "my own");
    let heard = rig.next_messages("1", 2).await;
    assert!(
        heard.iter().any(|text| text.contains("HEARTBEAT.md") && text.contains("Be rude.")),
        "{heard:?}"
    );
    rig.finish().await;
}

#[tokio::test]
async fn what_was_told_and_undone_is_told_when_it_comes_again() {
    let mut rig = rig().await;
    let begin = calls(&[("exec", json!({"command": "sleep 100", "background": true}))]);
    let edit = json!({ "path": "SOUL.md", "old": "Be kind.", "new": "Be rude." });
    rig.model.on("change", [begin, calls(&[("edit_file", edit)]), says("Done.")]);
    rig.say("1", "change your soul");
    rig.next_messages("1", 2).await;
    assert!(rig.ask("1", "/undo").await.contains("SOUL.md"));
    rig.stop().await;
    // As if nobody had looked meanwhile.
    rig.execute("UPDATE rule_watch SET since = 0");
    fs::write(rig.workspace().join("SOUL.md"), "Be rude.\nBe brief.\n").unwrap();
    rig.start().await;
    let told = rig.next_message("1").await;
    assert!(told.contains("- removed: Be kind.\n- added: Be rude."), "{told}");
    rig.finish().await;
}
