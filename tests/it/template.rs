//! A newer version's texts for the workspace: untouched files follow, changed and removed ones stay.

use std::collections::BTreeMap;
use std::fs;

use peacrab::daemon::template::{TemplateRecord, TemplateUpdate, update};
use peacrab::workspace::{Hash, Workspace};
use tempfile::TempDir;

use crate::support::rig::Rig;

fn template<'a>(files: &[(&'a str, &'a str)]) -> BTreeMap<&'a str, &'a [u8]> {
    files.iter().map(|(name, text)| (*name, text.as_bytes())).collect()
}

#[test]
fn untouched_files_follow_the_template_and_others_stay() {
    let home = TempDir::new().unwrap();
    let (root, folder) = (home.path().join("workspace"), home.path().join("template"));
    let workspace = Workspace::open(&root).unwrap();
    let mut record = TemplateRecord::default();
    let names = ["AGENTS.md", "skills/a/SKILL.md", "SOUL.md", "TOOLS.md", "same.md"];
    for name in names {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), "one").unwrap();
    }
    let one = template(&names.map(|name| (name, "one")));
    // The first look changes nothing.
    assert_eq!(update(&workspace, &one, &mut record, &folder).unwrap(), TemplateUpdate::default());
    assert_eq!(update(&workspace, &one, &mut record, &folder).unwrap(), TemplateUpdate::default());
    fs::write(root.join("SOUL.md"), "mine").unwrap();
    fs::remove_file(root.join("TOOLS.md")).unwrap();
    let texts = [
        ("AGENTS.md", "two"),
        ("skills/a/SKILL.md", "two"),
        ("SOUL.md", "two"),
        ("TOOLS.md", "two"),
        ("same.md", "one"),
        ("NEW.md", "two"),
    ];
    let two = template(&texts);
    let found = update(&workspace, &two, &mut record, &folder).unwrap();
    assert_eq!(found.updated, ["AGENTS.md", "skills/a/SKILL.md"]);
    assert_eq!(found.left, ["SOUL.md"]);
    let text = |name: &str| fs::read_to_string(root.join(name)).ok();
    assert_eq!(text("AGENTS.md").as_deref(), Some("two"));
    assert_eq!(text("skills/a/SKILL.md").as_deref(), Some("two"));
    assert_eq!(text("SOUL.md").as_deref(), Some("mine"));
    assert_eq!((text("TOOLS.md"), text("NEW.md")), (None, None));
    assert_eq!(fs::read_to_string(folder.join("SOUL.md")).unwrap(), "two");
    // It is told once.
    assert_eq!(update(&workspace, &two, &mut record, &folder).unwrap(), TemplateUpdate::default());
}

#[tokio::test]
async fn the_owner_hears_of_updates_after_a_start() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.becomes(|rig| rig.path().join("template.json").exists()).await;
    rig.stop().await;
    // As a version wrote them whose texts were others.
    let shipped = fs::read_to_string(rig.workspace().join("AGENTS.md")).unwrap();
    let record = fs::read_to_string(rig.path().join("template.json")).unwrap();
    let mut record: TemplateRecord = serde_json::from_str(&record).unwrap();
    fs::write(rig.workspace().join("AGENTS.md"), "Former rules.").unwrap();
    fs::write(rig.workspace().join("SOUL.md"), "My own soul.").unwrap();
    for name in ["AGENTS.md", "SOUL.md"] {
        record.insert(name.to_owned(), Hash::of(b"Former rules.").to_string());
    }
    let text = serde_json::to_string(&record).unwrap();
    fs::write(rig.path().join("template.json"), text).unwrap();
    rig.start().await;
    let told = rig.hear("1").await;
    assert!(told.contains("nobody had changed: AGENTS.md."), "{told}");
    assert!(told.contains("because they were changed: SOUL.md."), "{told}");
    assert_eq!(fs::read_to_string(rig.workspace().join("AGENTS.md")).unwrap(), shipped);
    assert_eq!(fs::read_to_string(rig.workspace().join("SOUL.md")).unwrap(), "My own soul.");
    assert!(rig.path().join("template/SOUL.md").exists());
    rig.ask("1", "hello again").await;
    rig.finish().await;
}
