//! The workspace: nothing outside can be reached, nothing is half written, nothing of the operator's
//! is overwritten.

mod exchanged;
mod instructions;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use chrono::NaiveDate;
use peacrab::memory::{memory, recent_notes};
use peacrab::types::person::{FolderOwner, PersonId};
use peacrab::workspace::instruction_scan;
use peacrab::workspace::skills::{SkillPlace, catalogue};
use peacrab::workspace::snapshot::FILE_CHARS_MAX;
use peacrab::workspace::{
    Audience, EntryKind, FileChange, FileError, FileScope, Hash, PathError, READ_BYTES_MAX,
    Workspace, WorkspacePath,
};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use tempfile::TempDir;

/// A workspace in a folder of its own, with `outside/secret.md` beside it.
struct Home {
    folder: TempDir,
    workspace: Workspace,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/secret.md"), "secret").unwrap();
        let workspace = Workspace::open(&folder.path().join("workspace")).unwrap();
        Self { folder, workspace }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.workspace.root().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn outside(&self) -> std::path::PathBuf {
        self.folder.path().join("outside")
    }

    /// The change of `name` into `text`, as it is now.
    fn change(&self, name: &str, text: &str) -> FileChange {
        let path = path(name);
        let before = self.workspace.hash(&path).unwrap();
        FileChange::new(path, before, text.as_bytes().to_vec())
    }
}

fn path(text: &str) -> WorkspacePath {
    text.parse().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn paths_are_told_apart_from_what_leads_out() {
    let check = |text: &str, expected| {
        let found = text.parse::<WorkspacePath>();
        assert_eq!(found.map(|path| path.to_string()), expected, "{text:?}");
    };
    check("notes/plan.md", Ok("notes/plan.md".into()));
    check("./notes//plan.md/", Ok("notes/plan.md".into()));
    check("ünïcode 🦀.md", Ok("ünïcode 🦀.md".into()));
    check("..a/b..", Ok("..a/b..".into()));
    for empty in ["", ".", "./", " "] {
        check(empty, Err(PathError::Empty));
    }
    for absolute in ["/etc/passwd", "/", "//x"] {
        check(absolute, Err(PathError::Absolute(absolute.into())));
    }
    for climbs in ["..", "../x", "a/../../x", "a/.."] {
        check(climbs, Err(PathError::Climbs(climbs.into())));
    }
    check("..\\x", Err(PathError::Backslash("..\\x".into())));
    check("a\0b", Err(PathError::Control));
    check("a\nb", Err(PathError::Control));
    check(&"x".repeat(201), Err(PathError::TooLong));
    check(&"x/".repeat(600), Err(PathError::TooLong));
    check("a/.peacrab-tmp-1", Err(PathError::Temporary));
}

proptest! {
    #[test]
    fn a_parsed_path_has_only_plain_names(text in "[a./ \\\\é]{0,12}") {
        if let Ok(path) = text.parse::<WorkspacePath>() {
            prop_assert!(!path.as_str().starts_with('/') && !path.as_str().is_empty());
            prop_assert!(path.as_str().split('/').all(|name| !["", ".", ".."].contains(&name)));
            prop_assert_eq!(path.as_str().parse(), Ok(path.clone()));
        }
    }
}

#[test]
fn links_that_lead_out_are_not_followed() {
    let home = Home::new();
    symlink(home.outside().join("secret.md"), home.at("file")).unwrap();
    symlink("../outside/secret.md", home.at("relative")).unwrap();
    symlink(home.outside(), home.at("folder")).unwrap();
    fs::create_dir(home.at("inner")).unwrap();
    symlink("../folder", home.at("inner/nested")).unwrap();
    symlink("/etc", home.at("etc")).unwrap();
    symlink("/proc/self/root", home.at("magic")).unwrap();
    let ways = [
        "file",
        "relative",
        "folder/secret.md",
        "inner/nested/secret.md",
        "etc/passwd",
        "magic/etc/passwd",
    ];
    for way in ways {
        let path = path(way);
        assert!(home.workspace.read(&path).is_err(), "{way}");
        assert!(home.workspace.read_page(&path, 0, 9).is_err(), "{way}");
        assert!(home.workspace.hash(&path).is_err(), "{way}");
        let change = FileChange::new(path, Some(Hash::of(b"secret")), b"overwritten".to_vec());
        assert!(home.workspace.apply(&change).is_err(), "{way}");
    }
    for folder in ["folder", "inner/nested", "etc"] {
        assert!(home.workspace.list(Some(&path(folder))).is_err(), "{folder}");
        let new = FileChange::new(path(&format!("{folder}/new")), None, b"x".to_vec());
        assert!(matches!(home.workspace.apply(&new), Err(FileError::Outside(_))), "{folder}");
    }
    assert!(matches!(home.workspace.read(&path("file")), Err(FileError::Outside(_))));
    assert_eq!(names(&home.outside()), ["secret.md"]);
    assert_eq!(fs::read_to_string(home.outside().join("secret.md")).unwrap(), "secret");
}

#[test]
fn links_that_stay_inside_are_followed_and_kept() {
    let home = Home::new();
    home.write("real/plan.md", "one");
    symlink("real", home.at("folder")).unwrap();
    symlink("folder/plan.md", home.at("plan.md")).unwrap();
    assert_eq!(home.workspace.read_text(&path("plan.md")).unwrap().unwrap(), "one");
    let change = home.change("plan.md", "two");
    assert!(
        matches!(home.workspace.apply(&change), Err(FileError::Changed(_))),
        "a link came since"
    );
    let to = home.workspace.resolve(&change.path).unwrap();
    home.workspace.apply(&FileChange { path: to, ..change }).unwrap();
    assert_eq!(fs::read_to_string(home.at("real/plan.md")).unwrap(), "two");
    assert!(home.at("plan.md").is_symlink());
    assert_eq!(home.workspace.resolve(&path("folder/new/x.md")).unwrap(), path("real/new/x.md"));

    symlink("nowhere.md", home.at("dangling")).unwrap();
    symlink("loop", home.at("loop")).unwrap();
    let new = FileChange::new(path("dangling"), None, b"x".to_vec());
    assert!(matches!(home.workspace.apply(&new), Err(FileError::Dangling(_))));
    assert!(home.workspace.read(&path("loop")).is_err());
    assert!(!home.at("nowhere.md").exists());
}

#[test]
fn private_files_are_private_by_whatever_way() {
    let home = Home::new();
    symlink("memory", home.at("open")).unwrap();
    symlink("USER.md", home.at("person.md")).unwrap();
    let others = FileScope::of_person(&FolderOwner::Person(PersonId(2)));
    let ways = [
        "memory",
        "memory/MEMORY.md",
        "memory/new.md",
        "notes/garden.md",
        "Memory/x",
        "MEMORY.md",
        "user.md",
        "open/MEMORY.md",
        "open/new/x.md",
        "person.md",
    ];
    for way in ways {
        let found = home.workspace.resolve_for(&path(way), &others);
        assert!(matches!(found, Err(FileError::Private(_))), "{way}: {found:?}");
        assert!(home.workspace.resolve_for(&path(way), &FileScope::Owner).is_ok(), "{way}");
    }
    assert!(home.workspace.resolve_for(&path("shared/memory.md"), &others).is_ok());
}

#[test]
fn nobody_gets_out_while_a_folder_turns_into_a_link() {
    let home = Home::new();
    home.write("swapped/secret.md", "inside");
    fs::write(home.outside().join("marker"), "").unwrap();
    symlink(home.outside(), home.at("link")).unwrap();
    let end = Instant::now() + Duration::from_millis(400);
    let (mut read, mut written) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (home.at("swapped"), home.at("link"));
            while Instant::now() < end {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        while Instant::now() < end {
            let path = path("swapped/secret.md");
            if let Ok(Some(text)) = home.workspace.read_text(&path) {
                assert_ne!(text, "secret");
                read += 1;
            }
            if let Ok(page) = home.workspace.read_page(&path, 0, 100) {
                assert_ne!(page.bytes, b"secret");
            }
            if let Ok(Some(before)) = home.workspace.hash(&path) {
                let change = FileChange::new(path, Some(before), format!("{written}").into_bytes());
                written += usize::from(home.workspace.apply(&change).is_ok());
            }
            let new = FileChange::new("swapped/new.md".parse().unwrap(), None, b"new".to_vec());
            let _ = home.workspace.apply(&new);
            if let Ok(listing) = home.workspace.list(Some(&"swapped".parse().unwrap())) {
                assert!(listing.entries.iter().all(|entry| entry.name != "marker"));
            }
        }
    });
    assert!(read > 0 && written > 0, "the race was run: {read} reads, {written} writes");
    assert_eq!(names(&home.outside()), ["marker", "secret.md"]);
    assert_eq!(fs::read_to_string(home.outside().join("secret.md")).unwrap(), "secret");
}

#[test]
fn pipes_sockets_and_folders_are_refused_without_waiting() {
    let home = Home::new();
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, home.at("pipe"), FileType::Fifo, mode, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(home.at("socket")).unwrap();
    for name in ["pipe", "socket"] {
        assert!(matches!(home.workspace.read(&path(name)), Err(FileError::Special(_))), "{name}");
        assert!(matches!(home.workspace.hash(&path(name)), Err(FileError::Special(_))), "{name}");
        let change = FileChange::new(path(name), None, b"x".to_vec());
        assert!(home.workspace.apply(&change).is_err(), "{name}");
    }
    assert!(matches!(home.workspace.read(&path("memory")), Err(FileError::Folder(_))));
    assert!(matches!(home.workspace.read(&path("SOUL.md/x")), Err(FileError::NotAFolder(_))));
    let below_file = FileChange::new(path("SOUL.md/x"), None, b"x".to_vec());
    assert!(home.workspace.apply(&below_file).is_err());
}

#[test]
fn big_files_are_refused_whole_and_read_in_pages() {
    let home = Home::new();
    let file = fs::File::create(home.at("big.bin")).unwrap();
    file.set_len(READ_BYTES_MAX + 1).unwrap();
    let big = path("big.bin");
    assert!(matches!(home.workspace.read(&big), Err(FileError::TooBig { .. })));
    assert_eq!(home.workspace.read_page(&big, READ_BYTES_MAX, 100).unwrap().bytes, [0]);
    assert!(home.workspace.hash(&big).unwrap().is_some());
    file.set_len(1 << 40).unwrap();
    assert!(matches!(home.workspace.hash(&big), Err(FileError::TooBig { .. })));
    assert_eq!(
        home.workspace.read_page(&big, 1 << 39, u64::MAX).unwrap().bytes.len() as u64,
        READ_BYTES_MAX
    );
}

#[test]
fn a_change_is_made_whole_with_its_folders_and_keeps_the_mode() {
    let home = Home::new();
    let change = home.change("a/b/c.md", "text");
    assert_eq!(change.before, None);
    home.workspace.apply(&change).unwrap();
    assert_eq!(home.workspace.hash(&change.path).unwrap(), change.after);
    assert_eq!(names(&home.at("a/b")), ["c.md"]);

    fs::set_permissions(home.at("a/b/c.md"), fs::Permissions::from_mode(0o754)).unwrap();
    home.workspace.apply(&home.change("a/b/c.md", "more")).unwrap();
    let mode = fs::metadata(home.at("a/b/c.md")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o754);
    assert_eq!(fs::read_to_string(home.at("a/b/c.md")).unwrap(), "more");
}

#[test]
fn a_change_of_what_somebody_else_changed_is_refused() {
    let home = Home::new();
    home.write("plan.md", "mine");
    let (change, new) = (home.change("plan.md", "bot's"), home.change("new.md", "bot's"));
    home.write("plan.md", "mine, edited");
    home.write("new.md", "mine");
    assert!(matches!(home.workspace.apply(&change), Err(FileError::Changed(_))));
    assert!(matches!(home.workspace.apply(&new), Err(FileError::Changed(_))));
    assert_eq!(fs::read_to_string(home.at("plan.md")).unwrap(), "mine, edited");
    assert_eq!(fs::read_to_string(home.at("new.md")).unwrap(), "mine");
    fs::remove_file(home.at("plan.md")).unwrap();
    assert!(matches!(home.workspace.apply(&change), Err(FileError::Changed(_))));
    assert!(!home.at("plan.md").exists());
}

#[test]
fn leftovers_of_a_crash_are_hidden_and_then_removed() {
    let home = Home::new();
    home.write(".peacrab-tmp-0123", "half");
    home.write("notes/.peacrab-tmp-4567", "half");
    home.write("notes/plan.md", "whole");
    let listing = home.workspace.list(Some(&path("notes"))).unwrap();
    assert_eq!(listing.entries.len(), 1);
    let again = Workspace::open(home.workspace.root()).unwrap();
    assert_eq!(names(&home.at("notes")), ["plan.md"]);
    assert!(!names(again.root()).iter().any(|name| name.starts_with(".peacrab")));
}

#[test]
fn a_new_workspace_is_filled_for_its_owner_alone() {
    let home = Home::new();
    let root = home.workspace.root();
    assert_eq!(fs::metadata(root).unwrap().permissions().mode() & 0o777, 0o700);
    let expected =
        ["AGENTS.md", "HEARTBEAT.md", "IDENTITY.md", "SOUL.md", "USER.md", "memory", "skills"];
    assert_eq!(names(root), expected);
    let expected = vec!["daily-summary", "lists", "meeting-notes", "weekly-review"];
    let skills = catalogue(&home.workspace);
    let found: Vec<_> = skills.skills.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!((found, skills.broken), (expected, vec![]));
    let place = SkillPlace::Workspace(path("skills/daily-summary/SKILL.md"));
    assert_eq!(skills.skills[0].place, place);
    let instructions = home.workspace.instruction_files();
    let length: usize = instructions.files.iter().map(|file| file.text.chars().count()).sum();
    assert!(length < 5_000, "the rules of the house take {length} characters");
}

#[test]
fn the_template_never_overwrites() {
    let home = Home::new();
    home.write("SOUL.md", "mine");
    fs::remove_file(home.at("USER.md")).unwrap();
    Workspace::open(home.workspace.root()).unwrap();
    assert_eq!(fs::read_to_string(home.at("SOUL.md")).unwrap(), "mine");
    assert!(!home.at("USER.md").exists(), "what was removed stays removed");

    let other = tempfile::tempdir().unwrap();
    let other = other.path().join("workspace");
    fs::create_dir(&other).unwrap();
    Workspace::open(&other).unwrap();
    assert!(other.join("AGENTS.md").exists(), "an empty folder is filled");
}

#[test]
fn a_template_cut_short_by_a_crash_is_completed() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("workspace");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(".peacrab-tmp-template"), "").unwrap();
    fs::write(folder.join("SOUL.md"), "already here").unwrap();
    Workspace::open(&folder).unwrap();
    assert!(folder.join("skills/daily-summary/SKILL.md").exists());
    assert_eq!(fs::read_to_string(folder.join("SOUL.md")).unwrap(), "already here");
    assert!(!folder.join(".peacrab-tmp-template").exists());
}

#[test]
fn strange_names_are_listed_on_one_line_each() {
    let home = Home::new();
    let strange = std::ffi::OsStr::from_bytes(b"bad\xff\nname");
    home.write("odd/fine.md", "x");
    fs::write(home.at("odd").join(strange), "xy").unwrap();
    symlink("/etc", home.at("odd/link")).unwrap();
    let listing = home.workspace.list(Some(&path("odd"))).unwrap();
    let found: Vec<_> =
        listing.entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    let expected = [
        ("bad\u{fffd}\u{fffd}name", EntryKind::File(2)),
        ("fine.md", EntryKind::File(1)),
        ("link", EntryKind::Link),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_rules_of_the_house_follow_their_files() {
    let home = Home::new();
    let soul = |home: &Home| {
        let files = home.workspace.instruction_files().files;
        files.into_iter().find(|file| file.name == "SOUL.md").map(|file| file.text)
    };
    home.write("SOUL.md", "Be kind.\n");
    assert_eq!(soul(&home).unwrap(), "Be kind.");
    home.workspace.apply(&home.change("SOUL.md", "Be rude.\n")).unwrap();
    assert_eq!(soul(&home).unwrap(), "Be rude.");
    fs::remove_file(home.at("SOUL.md")).unwrap();
    assert_eq!(soul(&home), None);
    home.write("SOUL.md", [0xff, 0xfe]);
    assert_eq!(soul(&home), None, "no version of it was ever good");

    let instructions = home.workspace.instruction_files();
    let shown =
        |audience| instructions.files_for(audience).map(|file| file.name).collect::<Vec<_>>();
    assert_eq!(shown(Audience::Owner), ["AGENTS.md", "IDENTITY.md", "USER.md"]);
    assert_eq!(shown(Audience::Others), ["AGENTS.md", "IDENTITY.md"]);
}

#[test]
fn files_of_existing_workspaces_are_read_in_their_order() {
    let home = Home::new();
    home.write("TOOLS.md", "The printer is called Hedwig.");
    home.write("BOOTSTRAP.md", "Ask for a name.");
    let names = |home: &Home, audience| {
        let instructions = home.workspace.instruction_files();
        instructions.files_for(audience).map(|file| file.name).collect::<Vec<_>>()
    };
    let all = ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md"];
    assert_eq!(names(&home, Audience::Owner), all);
    assert_eq!(names(&home, Audience::Others), ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md"]);
    // Only while the workspace is new.
    home.write("memory/MEMORY.md", "# Memory\n\n- The owner is Ada.\n");
    assert_eq!(names(&home, Audience::Owner), all[..5]);
    for name in ["TOOLS.md", "BOOTSTRAP.md"] {
        assert!(path(name).is_change_reported(), "{name} gives orders");
    }
}

#[test]
fn new_files_have_names_that_mean_what_they_say() {
    let check = |name: &str| path(name).check_new().map_err(|error| error.to_string());
    for (name, advice) in [
        ("~/notes/a.md", "`notes/a.md`"),
        ("~ada/a.md", "`a.md`"),
        ("file:notes/a.md", "`notes/a.md`"),
        ("FILE:", "`notes/plan.md`"),
        ("notes/a\u{202e}dm.txt", "`notes/adm.txt`"),
    ] {
        let refused = check(name).unwrap_err();
        assert!(refused.contains(advice), "{refused}");
    }
    for name in ["notes/a.md", "notes/~a.md", "files/a.md", "notes/é.md"] {
        assert_eq!(check(name), Ok(()), "{name}");
    }
}

/// Within one tick of the file system's clock, of the same size, and with its time set back.
#[test]
fn an_edit_at_once_is_noticed_though_size_and_time_are_the_same() {
    let home = Home::new();
    let skill =
        |n: usize| format!("---\nname: tea\ndescription: Tea number {n:03}.\n---\nBoil it.\n");
    home.write("skills/tea/SKILL.md", skill(0));
    let then = fs::metadata(home.at("SOUL.md")).unwrap().modified().unwrap();
    for n in 0..100 {
        for (path, text) in [("SOUL.md", format!("Be {n:03}.")), ("skills/tea/SKILL.md", skill(n))]
        {
            fs::write(home.at(path), text).unwrap();
            let file = fs::File::options().write(true).open(home.at(path)).unwrap();
            file.set_modified(then).unwrap();
        }
        let files = home.workspace.instruction_files().files;
        let soul = files.iter().find(|file| file.name == "SOUL.md").unwrap();
        assert_eq!(soul.text, format!("Be {n:03}."));
        let skills = catalogue(&home.workspace);
        assert_eq!(skills.find("tea").unwrap().description, format!("Tea number {n:03}."));
    }
}

#[test]
fn a_skill_that_is_added_or_removed_at_once_is_noticed() {
    let home = Home::new();
    let count = || catalogue(&home.workspace).skills.len();
    let shipped = count();
    for n in 1..=20 {
        let path = format!("skills/tea-{n}/SKILL.md");
        home.write(&path, format!("---\nname: tea-{n}\ndescription: Tea.\n---\nBoil it.\n"));
        assert_eq!(count(), shipped + n);
    }
    for n in 1..=20 {
        fs::remove_dir_all(home.at(&format!("skills/tea-{n}"))).unwrap();
        assert_eq!(count(), shipped + 20 - n);
    }
}

#[test]
fn long_rules_are_cut_in_the_middle_and_it_is_said() {
    let home = Home::new();
    for name in ["AGENTS.md", "SOUL.md", "USER.md", "IDENTITY.md"] {
        home.write(name, format!("begin{}end", "é".repeat(FILE_CHARS_MAX)));
    }
    let files = home.workspace.instruction_files().files;
    let text = &files[0].text;
    assert!(text.starts_with("beginé") && text.ends_with("éend"), "both ends are kept");
    assert!(
        text.contains("[8 characters of AGENTS.md are left out here; it is longer than 20000.]")
    );
    assert_eq!(files.len(), 4);
    let length: usize = files.iter().map(|file| file.text.chars().count()).sum();
    assert!(length < 60_600, "{length} together");
}

#[test]
fn broken_skills_are_reported_and_the_others_kept() {
    let home = Home::new();
    home.write("skills/broken/SKILL.md", "no front matter");
    fs::create_dir(home.at("skills/empty")).unwrap();
    symlink(home.outside(), home.at("skills/out")).unwrap();
    let catalogue = catalogue(&home.workspace);
    assert_eq!(catalogue.skills.len(), 4);
    let broken: Vec<_> = catalogue.broken.iter().map(|broken| broken.path.as_str()).collect();
    let expected = ["skills/broken/SKILL.md", "skills/empty/SKILL.md", "skills/out/SKILL.md"];
    assert_eq!(broken, expected);
}

#[test]
fn memory_and_the_notes_of_the_last_days_are_read() {
    let home = Home::new();
    let today = NaiveDate::from_ymd_opt(2026, 3, 1).unwrap();
    home.write("memory/202603/20260301.md", "# today\n");
    home.write("memory/202602/20260227.md", "# two days ago\n");
    home.write("memory/202602/20260226.md", "# too long ago\n");
    assert_eq!(
        recent_notes(&home.workspace, &FileScope::Owner, today, 3),
        "# two days ago\n\n# today"
    );
    home.write("memory/202603/20260301.md", "- a line of notes\n".repeat(1_000));
    let notes = recent_notes(&home.workspace, &FileScope::Owner, today, 3);
    assert!(notes.starts_with("[The beginning of memory/202603/20260301.md is left out.]\n- a"));
    assert!(notes.chars().count() < 6_100);

    assert_eq!(memory(&home.workspace, &FileScope::Owner), "# Memory");
    fs::remove_file(home.at("memory/MEMORY.md")).unwrap();
    assert_eq!(memory(&home.workspace, &FileScope::Owner), "");
    home.write("MEMORY.md", "- at the root\n");
    assert_eq!(memory(&home.workspace, &FileScope::Owner), "- at the root");
}

/// Two sessions that change one file at once: each change is made, or refused and made again.
#[test]
fn of_changes_at_once_none_is_lost() {
    let home = Home::new();
    home.write("log.md", "");
    let add = |line: usize| loop {
        let log = path("log.md");
        let before = home.workspace.read(&log).unwrap().unwrap();
        let hash = Hash::of(&before);
        let contents = [before, format!("{line}\n").into_bytes()].concat();
        match home.workspace.apply(&FileChange::new(log, Some(hash), contents)) {
            Ok(()) => return,
            Err(error) => assert!(matches!(error, FileError::Changed(_)), "{error}"),
        }
    };
    std::thread::scope(|threads| {
        for thread in 0..4 {
            threads.spawn(move || (0..10).for_each(|line| add(thread * 10 + line)));
        }
    });
    let log = home.workspace.read_text(&path("log.md")).unwrap().unwrap();
    let mut lines: Vec<usize> = log.lines().map(|line| line.parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..40).collect::<Vec<_>>());
}

#[test]
fn of_too_many_rules_the_first_are_looked_at() {
    let home = Home::new();
    let look = |home: &Home| {
        let mut count = 0;
        let is_whole = instruction_scan::visit_all(&home.workspace, &mut |_, _, _| count += 1);
        (count, is_whole)
    };
    let (there, _) = look(&home);
    for n in there..300 {
        home.write(&format!("skills/many/{n}"), "x");
    }
    fs::create_dir_all(home.at("skills/zzz/empty")).unwrap();
    assert_eq!(look(&home), (300, true));
    home.write("skills/zzz/more", "x");
    assert_eq!(look(&home), (300, false));
}
