//! Changes of a config file that keep everything else in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use peacrab::config::edit::{ConfigEdit, NewSection};

/// The file after a change of this text.
fn changed(before: &str, change: impl FnOnce(&mut ConfigEdit)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    fs::write(&file, before).unwrap();
    let mut edit = ConfigEdit::open(&file).unwrap();
    change(&mut edit);
    edit.save().unwrap();
    fs::read_to_string(&file).unwrap()
}

fn with_owner(before: &str) -> String {
    changed(before, |edit| edit.add_owner("home", "77").unwrap())
}

fn section(kind: &'static str) -> NewSection {
    let texts = vec![("type", "openai".to_owned())];
    NewSection { kind, name: "new".to_owned(), texts, lists: Vec::new(), secrets: Vec::new() }
}

#[test]
fn the_ends_of_lines_and_the_mark_at_the_beginning_are_kept() {
    let lines = "# Mine.\r\n[channels.home] # here\r\ntype = \"telegram\"\r\nowners = [\r\n  \"5\", # me\r\n]\r\n# The end.\r\n";
    let expected = lines.replace("# me\r\n", "# me\r\n  \"77\",\r\n");
    assert_eq!(with_owner(lines), expected);
    let marked = format!("\u{feff}{lines}");
    assert_eq!(with_owner(&marked), format!("\u{feff}{expected}"));
    assert_eq!(
        changed(&marked, |edit| edit.add(&section("providers")).unwrap()),
        format!("{marked}\r\n[providers.new]\r\ntype = \"openai\"\r\n")
    );
    // Nothing is changed where nothing is to be.
    assert_eq!(changed(&marked, |_| {}), marked);
}

#[test]
fn an_entry_of_a_list_over_lines_gets_a_line_of_its_own() {
    for (before, after) in [
        ("[]", "[\"77\"]"),
        ("[\"5\"] # me", "[\"5\", \"77\"] # me"),
        ("[\"5\", ]", "[\"5\", \"77\", ]"),
        ("[\n  \"5\", # me\n]", "[\n  \"5\", # me\n  \"77\",\n]"),
        ("[\n    \"5\" # me\n  ]", "[\n    \"5\", # me\n    \"77\"\n  ]"),
        ("[\n\t\"5\",\n\t# \"6\", not yet\n]", "[\n\t\"5\",\n\t# \"6\", not yet\n\t\"77\",\n]"),
        ("[\"5\",\n \"6\"]", "[\"5\",\n \"6\", \"77\"]"),
        ("[\n  # nobody\n]", "[\n  # nobody\n  \"77\"\n]"),
    ] {
        let text =
            |owners: &str| format!("[channels.home]\nowners = {owners}\ntype = \"telegram\"\n");
        assert_eq!(with_owner(&text(before)), text(after), "{before}");
    }
}

#[test]
fn the_model_that_answers_first_gets_a_line_of_its_own() {
    let text =
        |list: &str| format!("[agent]\nproviders = {list}\n[providers.main]\n[providers.new]\n");
    for (before, after) in [
        ("[\"main\"]  # mine", "[\"new\", \"main\"]  # mine"),
        ("[\n  \"main\", # mine\n]", "[\n  \"new\",\n  \"main\", # mine\n]"),
        // One that is in the list moves, and each comment stays with its model.
        ("[\"main\", \"new\"]", "[\"new\", \"main\"]"),
        (
            "[\n  \"main\", # cloud\n  \"new\", # here\n]",
            "[\n  \"new\", # here\n  \"main\", # cloud\n]",
        ),
        ("[\n  \"main\",\n  # here\n  \"new\"\n]", "[\n  # here\n  \"new\",\n  \"main\"\n]"),
        ("[\"main\", # cloud\n  \"new\"]", "[\"new\",\n  \"main\" # cloud\n]"),
        ("[\"new\", # here\n  \"main\"]", "[\"new\", # here\n  \"main\"]"),
    ] {
        let changed = changed(&text(before), |edit| edit.set_default_provider("new").unwrap());
        assert_eq!(changed, text(after));
    }
}

#[test]
fn a_file_that_is_not_there_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let file: &Path = &folder.path().join("config.toml");
    let mut edit = ConfigEdit::open(file).unwrap();
    edit.add(&section("providers")).unwrap();
    edit.save().unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "[providers.new]\ntype = \"openai\"\n");
}

#[test]
fn a_link_to_a_file_that_is_not_there_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (file, target) = (folder.path().join("config.toml"), folder.path().join("dotfiles.toml"));
    symlink(&target, &file).unwrap();
    let refused = ConfigEdit::open(&file).err().unwrap().to_string();
    let words = format!("is a link to {}, which is not there", target.display());
    assert!(refused.contains(&words), "{refused}");
    assert_eq!(fs::read_link(&file).unwrap(), target);
    // One whose file is there stays a link.
    fs::write(&target, "").unwrap();
    let mut edit = ConfigEdit::open(&file).unwrap();
    edit.add(&section("providers")).unwrap();
    edit.save().unwrap();
    assert_eq!(fs::read_link(&file).unwrap(), target);
    assert!(fs::read_to_string(&target).unwrap().contains("[providers.new]"));
}
