//! A newer version's texts for the workspace: untouched files follow, those changed elsewhere are merged, those changed in
//! the same lines and removed ones stay.

use std::collections::BTreeMap;
use std::fs;

use peacrab::daemon::template::{FormerTemplate, TemplateRecord, TemplateUpdate, rebuild, update};
use peacrab::workspace::merge::merge;
use peacrab::workspace::{Hash, Workspace};
use proptest::prelude::*;
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
    assert_eq!(update(&workspace, &one, &mut record, &folder), TemplateUpdate::default());
    assert_eq!(update(&workspace, &one, &mut record, &folder), TemplateUpdate::default());
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
    let found = update(&workspace, &two, &mut record, &folder);
    assert_eq!(found.updated, ["AGENTS.md", "skills/a/SKILL.md"]);
    assert_eq!(found.left, ["SOUL.md"]);
    let text = |name: &str| fs::read_to_string(root.join(name)).ok();
    assert_eq!(text("AGENTS.md").as_deref(), Some("two"));
    assert_eq!(text("skills/a/SKILL.md").as_deref(), Some("two"));
    assert_eq!(text("SOUL.md").as_deref(), Some("mine"));
    assert_eq!(text("TOOLS.md"), None);
    assert_eq!(found.added, ["NEW.md"]);
    assert_eq!(text("NEW.md").as_deref(), Some("two"));
    assert_eq!(fs::read_to_string(folder.join("SOUL.md")).unwrap(), "two");
    // It is told once.
    assert_eq!(update(&workspace, &two, &mut record, &folder), TemplateUpdate::default());
    // One that was added and is removed stays removed, too.
    fs::remove_file(root.join("NEW.md")).unwrap();
    assert_eq!(update(&workspace, &two, &mut record, &folder), TemplateUpdate::default());
    assert_eq!(fs::read_to_string(root.join("NEW.md")).ok(), None);
}

#[test]
fn a_new_file_of_the_template_replaces_nothing() {
    let home = TempDir::new().unwrap();
    let (root, folder) = (home.path().join("workspace"), home.path().join("template"));
    let workspace = Workspace::open(&root).unwrap();
    let mut record = TemplateRecord::default();
    update(&workspace, &template(&[("AGENTS.md", "one")]), &mut record, &folder);
    fs::create_dir_all(root.join("notes/skills/own")).unwrap();
    fs::remove_dir_all(root.join("skills")).unwrap();
    std::os::unix::fs::symlink("notes/skills", root.join("skills")).unwrap();
    fs::write(root.join("MINE.md"), "mine").unwrap();
    std::os::unix::fs::symlink("/nowhere", root.join("LINK.md")).unwrap();
    fs::create_dir(root.join("FOLDER.md")).unwrap();
    let names = ["AGENTS.md", "FOLDER.md", "LINK.md", "MINE.md", "skills/new/SKILL.md"];
    let two = template(&names.map(|name| (name, "one")));
    let found = update(&workspace, &two, &mut record, &folder);
    let expected = TemplateUpdate {
        left: vec!["MINE.md".to_owned()],
        linked: vec!["skills/new/SKILL.md".to_owned()],
        ..TemplateUpdate::default()
    };
    assert_eq!(found, expected);
    assert_eq!(fs::read_to_string(root.join("MINE.md")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(folder.join("MINE.md")).unwrap(), "one");
    assert!(!root.join("notes/skills/new").exists());
    assert_eq!(update(&workspace, &two, &mut record, &folder), TemplateUpdate::default());
}

#[test]
fn a_lost_record_is_made_again_and_nothing_is_overwritten() {
    let home = TempDir::new().unwrap();
    let (root, folder) = (home.path().join("workspace"), home.path().join("template"));
    let workspace = Workspace::open(&root).unwrap();
    fs::write(root.join("AGENTS.md"), "one").unwrap();
    fs::write(root.join("SOUL.md"), "mine").unwrap();
    let one = template(&["AGENTS.md", "REMOVED.md", "SOUL.md"].map(|name| (name, "one")));
    let mut record = TemplateRecord::default();
    let found = rebuild(&workspace, &one, &mut record, &folder);
    let expected =
        TemplateUpdate { unknown: vec!["SOUL.md".to_owned()], ..TemplateUpdate::default() };
    assert_eq!(found, expected);
    assert_eq!(fs::read_to_string(root.join("SOUL.md")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(folder.join("SOUL.md")).unwrap(), "one");
    assert!(!root.join("REMOVED.md").exists());
    assert_eq!(update(&workspace, &one, &mut record, &folder), TemplateUpdate::default());
    let two = template(&["AGENTS.md", "REMOVED.md", "SOUL.md"].map(|name| (name, "two")));
    let found = update(&workspace, &two, &mut record, &folder);
    assert_eq!(found.updated, ["AGENTS.md"]);
    assert_eq!(found.left, ["SOUL.md"]);
}

#[test]
fn a_text_that_cannot_be_shown_after_the_record_was_lost_is_shown_later() {
    let home = TempDir::new().unwrap();
    let (root, folder) = (home.path().join("workspace"), home.path().join("template"));
    let workspace = Workspace::open(&root).unwrap();
    fs::write(root.join("AGENTS.md"), "one").unwrap();
    fs::write(root.join("SOUL.md"), "mine").unwrap();
    let one = template(&["AGENTS.md", "SOUL.md"].map(|name| (name, "one")));
    let mut record = TemplateRecord::default();
    // Something stands in the way.
    fs::write(&folder, "").unwrap();
    let found = rebuild(&workspace, &one, &mut record, &folder);
    assert_eq!(found.failed.len(), 1, "{found:?}");
    assert_eq!(found.failed[0].name, "SOUL.md");
    fs::remove_file(&folder).unwrap();
    let found = update(&workspace, &one, &mut record, &folder);
    assert_eq!(found.left, ["SOUL.md"]);
    assert_eq!(fs::read_to_string(folder.join("SOUL.md")).unwrap(), "one");
    assert_eq!(update(&workspace, &one, &mut record, &folder), TemplateUpdate::default());
}

/// A workspace with `AGENTS.md` as the owner has it, which has followed `former`. Then comes `new`.
struct Followed {
    home: TempDir,
    record: TemplateRecord,
    new: &'static str,
}

impl Followed {
    fn new(former: &'static str, own: &str, new: &'static str) -> Self {
        let home = TempDir::new().unwrap();
        let mut followed = Self { home, record: TemplateRecord::default(), new: former };
        fs::create_dir(followed.home.path().join("workspace")).unwrap();
        followed.write(former);
        assert_eq!(followed.update(), TemplateUpdate::default());
        followed.write(own);
        followed.new = new;
        followed
    }

    fn update(&mut self) -> TemplateUpdate {
        let workspace = Workspace::open(&self.home.path().join("workspace")).unwrap();
        let template = template(&[("AGENTS.md", self.new)]);
        update(&workspace, &template, &mut self.record, &self.home.path().join("template"))
    }

    fn write(&self, text: &str) {
        fs::write(self.home.path().join("workspace/AGENTS.md"), text).unwrap();
    }

    fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.home.path().join(file)).ok()
    }
}

fn merged() -> TemplateUpdate {
    TemplateUpdate { merged: vec!["AGENTS.md".to_owned()], ..TemplateUpdate::default() }
}

const FORMER: &str = "# Rules\n\nBe brief.\n\nBe kind.\n\nAsk.\n";

#[test]
fn a_file_that_was_changed_elsewhere_gets_both_changes() {
    let own = "# Rules\n\nBe brief.\n\nBe kind.\n\nAsk.\n\nMy cat is Tom.\n";
    let mut home = Followed::new(FORMER, own, "# Rules\n\nBe short.\n\nBe kind.\n\nAsk.\n");
    assert_eq!(home.update(), merged());
    let both = "# Rules\n\nBe short.\n\nBe kind.\n\nAsk.\n\nMy cat is Tom.\n";
    assert_eq!(home.text("workspace/AGENTS.md").as_deref(), Some(both));
    assert_eq!(home.text("template/before/AGENTS.md").as_deref(), Some(own));
    assert_eq!(home.text("template/AGENTS.md"), None, "nothing is left to be copied");
    assert_eq!(home.update(), TemplateUpdate::default());
    // The next one, too.
    home.new = "# Our rules\n\nBe short.\n\nBe kind.\n\nAsk.\n";
    assert_eq!(home.update(), merged());
    let both = "# Our rules\n\nBe short.\n\nBe kind.\n\nAsk.\n\nMy cat is Tom.\n";
    assert_eq!(home.text("workspace/AGENTS.md").as_deref(), Some(both));
}

#[test]
fn a_file_that_was_changed_in_the_same_lines_stays() {
    let own = "# Rules\n\nBe brief and blunt.\n\nBe kind.\n\nAsk.\n\nMy cat is Tom.\n";
    let new = "# Rules\n\nBe short.\n\nBe kind.\n\nAsk.\n";
    let mut home = Followed::new(FORMER, own, new);
    let left = TemplateUpdate { left: vec!["AGENTS.md".to_owned()], ..TemplateUpdate::default() };
    assert_eq!(home.update(), left);
    assert_eq!(home.text("workspace/AGENTS.md").as_deref(), Some(own));
    assert_eq!(home.text("template/AGENTS.md").as_deref(), Some(new));
    assert_eq!(home.text("template/before/AGENTS.md"), None);
}

#[test]
fn a_merge_that_a_crash_cut_off_is_done_once_and_told() {
    let own = "# Rules\n\nBe brief.\n\nBe kind.\n\nAsk.\n\nMy cat is Tom.\n";
    let new = "# Rules\n\nBe short.\n\nBe kind.\n\nAsk.\n";
    let mut home = Followed::new(FORMER, own, new);
    let record = home.record.clone();
    home.update();
    let both = home.text("workspace/AGENTS.md");
    // The record and the message to the owner were not on the disk yet.
    home.record = record;
    assert_eq!(home.update(), merged());
    assert_eq!(home.text("workspace/AGENTS.md"), both);
    assert_eq!(home.text("template/before/AGENTS.md").as_deref(), Some(own));
}

#[test]
fn an_update_that_a_crash_cut_off_is_told() {
    let mut home = Followed::new(FORMER, FORMER, "# Rules\n\nBe short.\n\nBe kind.\n\nAsk.\n");
    let record = home.record.clone();
    let updated = home.update();
    assert_eq!(updated.updated, ["AGENTS.md"]);
    home.record = record;
    assert_eq!(home.update(), updated);
}

/// A workspace with three files that nobody has changed, which has followed their text `one`.
fn followed_by_three() -> (TempDir, TemplateRecord) {
    let home = TempDir::new().unwrap();
    let root = home.path().join("workspace");
    let workspace = Workspace::open(&root).unwrap();
    let mut record = TemplateRecord::default();
    let names = ["AGENTS.md", "IDENTITY.md", "SOUL.md"];
    for name in names {
        fs::write(root.join(name), "one").unwrap();
    }
    update(
        &workspace,
        &template(&names.map(|name| (name, "one"))),
        &mut record,
        &home.path().join("template"),
    );
    (home, record)
}

#[test]
fn a_linked_file_stays_and_stops_no_other() {
    let (home, record) = followed_by_three();
    let (root, folder) = (home.path().join("workspace"), home.path().join("template"));
    let workspace = Workspace::open(&root).unwrap();
    let two = template(&["AGENTS.md", "IDENTITY.md", "SOUL.md"].map(|name| (name, "two")));
    fs::create_dir_all(root.join("notes")).unwrap();
    fs::remove_file(root.join("IDENTITY.md")).unwrap();
    std::os::unix::fs::symlink("notes/id.md", root.join("IDENTITY.md")).unwrap();
    for own in ["one", "my own"] {
        let mut record = record.clone();
        fs::write(root.join("notes/id.md"), own).unwrap();
        fs::write(root.join("AGENTS.md"), "one").unwrap();
        fs::write(root.join("SOUL.md"), "one").unwrap();
        let found = update(&workspace, &two, &mut record, &folder);
        let expected = TemplateUpdate {
            updated: vec!["AGENTS.md".to_owned(), "SOUL.md".to_owned()],
            linked: vec!["IDENTITY.md".to_owned()],
            ..TemplateUpdate::default()
        };
        assert_eq!(found, expected, "{own}");
        assert_eq!(fs::read_to_string(root.join("notes/id.md")).unwrap(), own);
        assert_eq!(fs::read_to_string(folder.join("IDENTITY.md")).unwrap(), "two");
        // It is told once.
        let again = update(&workspace, &two, &mut record, &folder);
        assert_eq!(again, TemplateUpdate::default());
    }
}

#[test]
fn a_file_that_cannot_be_updated_stops_no_other_and_is_tried_again() {
    let (home, mut record) = followed_by_three();
    let (root, folder) = (home.path().join("workspace"), home.path().join("template"));
    let workspace = Workspace::open(&root).unwrap();
    let two = template(&["AGENTS.md", "IDENTITY.md", "SOUL.md"].map(|name| (name, "two")));
    fs::write(root.join("IDENTITY.md"), "my own").unwrap();
    // Its new text has no place.
    fs::write(&folder, "in the way").unwrap();
    let found = update(&workspace, &two, &mut record, &folder);
    assert_eq!(found.updated, ["AGENTS.md", "SOUL.md"]);
    let failed: Vec<_> = found.failed.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(failed, ["IDENTITY.md"]);
    assert!(found.failed[0].reason.starts_with("cannot write its new text: "), "{found:?}");
    fs::remove_file(&folder).unwrap();
    let again = update(&workspace, &two, &mut record, &folder);
    let left = TemplateUpdate { left: vec!["IDENTITY.md".to_owned()], ..TemplateUpdate::default() };
    assert_eq!(again, left);
}

#[test]
fn a_file_that_is_no_text_any_more_stays() {
    let mut home = Followed::new(FORMER, "", "# Rules\n\nBe short.\n\nBe kind.\n\nAsk.\n");
    fs::write(home.home.path().join("workspace/AGENTS.md"), [0xff, 0xfe, 0x00]).unwrap();
    assert_eq!(home.update().left, ["AGENTS.md"]);
}

#[test]
fn changes_of_the_same_or_neighbouring_lines_are_not_merged() {
    let check = |one: &str, other: &str, expected: Option<&str>| {
        assert_eq!(merge("a\nb\nc\nd\n", one, other).as_deref(), expected, "{one:?} {other:?}");
    };
    check("A\nb\nc\nd\n", "a\nb\nc\nD\n", Some("A\nb\nc\nD\n"));
    check("A\nb\nc\nd\n", "X\nb\nc\nd\n", None);
    check("A\nb\nc\nd\n", "a\nB\nc\nd\n", None);
    check("a\nb\nc\nd\ne\n", "a\nb\nc\nd\nf\n", None);
    check("a\nb\nc\nd\ne\n", "a\nb\nc\nd\ne\n", Some("a\nb\nc\nd\ne\n"));
    check("a\nd\n", "a\nb\nc\nd\nnew\n", Some("a\nd\nnew\n"));
    check("a\nd\n", "a\nb\nC\nd\n", None);
    check("", "a\nb\nc\nd\n", Some(""));
    check("", "a\nb\nc\nD\n", None);
    check("top\na\nb\nc\nd\n", "a\nb\nc\nd", Some("top\na\nb\nc\nd"));
}

/// Texts of a few lines, some of which are alike.
fn lines() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-d]{0,1}", 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn a_merge_keeps_the_changes_of_both_sides(former in lines(), one in lines(), other in lines()) {
        prop_assert_eq!(merge(&former, &one, &former), Some(one.clone()));
        prop_assert_eq!(merge(&former, &former, &other), Some(other.clone()));
        prop_assert_eq!(merge(&former, &one, &one), Some(one.clone()));
        let merged = merge(&former, &one, &other);
        prop_assert_eq!(&merged, &merge(&former, &other, &one));
        if let Some(merged) = merged {
            // Once merged, the same change adds nothing.
            let new = |side: &str| {
                let has = |text: &str, line: &str| text.split_inclusive('\n').any(|it| it == line);
                side.split_inclusive('\n').filter(|line| !has(&former, line)).all(|line| has(&merged, line))
            };
            prop_assert!(new(&one) && new(&other), "{:?}", merged);
        }
    }
}

#[tokio::test]
async fn the_owner_hears_of_updates_after_a_start() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.wait_until(|rig| rig.path().join("template.json").exists()).await;
    rig.stop().await;
    // As a version wrote them whose texts were others.
    let shipped = fs::read_to_string(rig.workspace().join("AGENTS.md")).unwrap();
    let record = fs::read_to_string(rig.path().join("template.json")).unwrap();
    let mut record: TemplateRecord = serde_json::from_str(&record).unwrap();
    fs::write(rig.workspace().join("AGENTS.md"), "Former rules.").unwrap();
    fs::write(rig.workspace().join("SOUL.md"), "My own soul.").unwrap();
    for name in ["AGENTS.md", "SOUL.md"] {
        let former = FormerTemplate::Hash(Hash::of(b"Former rules.").to_string());
        record.insert(name.to_owned(), former);
    }
    let identity = fs::read_to_string(rig.workspace().join("IDENTITY.md")).unwrap();
    let former = format!("A former line.\n\n{identity}");
    record.insert("IDENTITY.md".to_owned(), FormerTemplate::new(former.as_bytes()));
    let own = "\nI like tea.\n";
    fs::write(rig.workspace().join("IDENTITY.md"), former + own).unwrap();
    let text = serde_json::to_string(&record).unwrap();
    fs::write(rig.path().join("template.json"), text).unwrap();
    rig.start().await;
    let told = rig.next_message("1").await;
    assert!(told.contains("kept your changes: IDENTITY.md."), "{told}");
    let merged = fs::read_to_string(rig.workspace().join("IDENTITY.md")).unwrap();
    assert_eq!(merged, identity + own);
    assert!(rig.path().join("template/before/IDENTITY.md").exists());
    assert!(told.contains("nobody had changed: AGENTS.md."), "{told}");
    assert!(told.contains("because they were changed: SOUL.md."), "{told}");
    assert_eq!(fs::read_to_string(rig.workspace().join("AGENTS.md")).unwrap(), shipped);
    assert_eq!(fs::read_to_string(rig.workspace().join("SOUL.md")).unwrap(), "My own soul.");
    assert!(rig.path().join("template/SOUL.md").exists());
    rig.ask("1", "hello again").await;
    rig.finish().await;
}

#[tokio::test]
async fn the_owner_hears_once_of_a_file_that_cannot_be_updated() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.wait_until(|rig| rig.path().join("template.json").exists()).await;
    rig.stop().await;
    let record = fs::read_to_string(rig.path().join("template.json")).unwrap();
    let mut record: TemplateRecord = serde_json::from_str(&record).unwrap();
    for name in ["AGENTS.md", "IDENTITY.md", "SOUL.md"] {
        fs::write(rig.workspace().join(name), "Former rules.").unwrap();
        record.insert(name.to_owned(), FormerTemplate::new(b"Former rules."));
    }
    fs::write(rig.workspace().join("IDENTITY.md"), "My own.").unwrap();
    let text = serde_json::to_string(&record).unwrap();
    fs::write(rig.path().join("template.json"), text).unwrap();
    fs::write(rig.path().join("template"), "in the way").unwrap();
    rig.start().await;
    let told = rig.next_messages("1", 2).await;
    assert!(told[0].contains("I couldn't update these files"), "{told:?}");
    assert!(told[0].contains("- IDENTITY.md: cannot write its new text: "), "{told:?}");
    assert!(told[1].contains("nobody had changed: AGENTS.md, SOUL.md."), "{told:?}");
    rig.stop_and_start_again().await;
    assert_ne!(rig.ask("1", "hello again").await, told[0], "it is told once");
    rig.finish().await;
}

#[tokio::test]
async fn the_owner_hears_of_a_broken_record_and_of_new_files() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.wait_until(|rig| rig.path().join("template.json").exists()).await;
    rig.stop().await;
    let file = rig.path().join("template.json");
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(rig.workspace().join("SOUL.md"), "My own soul.").unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    rig.start().await;
    let told = rig.next_message("1").await;
    assert!(told.contains("(template.json) was broken"), "{told}");
    assert!(told.contains("left them as they are: SOUL.md."), "{told}");
    rig.wait_until(|_| fs::read_to_string(&file).is_ok_and(|text| text == whole)).await;
    rig.stop().await;
    // As a version wrote it that did not have this skill.
    let skill = "skills/weekly-review/SKILL.md";
    let mut record: TemplateRecord = serde_json::from_str(&whole).unwrap();
    record.remove(skill).unwrap();
    fs::write(&file, serde_json::to_string(&record).unwrap()).unwrap();
    fs::remove_file(rig.workspace().join(skill)).unwrap();
    rig.start().await;
    let told = rig.next_message("1").await;
    assert!(told.contains(&format!("delete any that you don't want: {skill}.")), "{told}");
    assert!(rig.workspace().join(skill).exists());
    rig.ask("1", "hello again").await;
    rig.finish().await;
}
