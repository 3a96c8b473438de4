//! Instructions that somebody blocks: their last good version stays in force, no prompt waits for them, and
//! the owner hears of it once.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use peacrab::workspace::skills::{self, catalogue};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};

use super::Home;
use crate::support::rig::Rig;

/// Far above what reading takes, and far below what waiting for a pipe or a lease takes (45 seconds).
const AT_ONCE: Duration = Duration::from_secs(5);

/// Of `fcntl`, the signal by which the holder of a lease learns that somebody opens the file (linux/fcntl.h).
const F_SETSIG: libc::c_int = 10;

/// Keeps others from opening a file, for as long as it lives.
#[expect(unsafe_code, reason = "no safe crate takes leases")]
fn lease(path: &Path) -> OwnedFd {
    let file = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    // SAFETY: plain calls with numbers. The signal is one that is ignored; the usual one ends the process.
    let (signal, leased) = unsafe {
        (
            libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG),
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK),
        )
    };
    assert_eq!((signal, leased), (0, 0), "{}", std::io::Error::last_os_error());
    file
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn soul(home: &Home) -> Option<String> {
    let files = home.workspace.instruction_files().files;
    files.into_iter().find(|file| file.name == "SOUL.md").map(|file| file.text)
}

/// Ways to put something in the place of a file that cannot be read as one.
fn block(home: &Home, name: &str, way: &str) -> Option<OwnedFd> {
    let path = home.at(name);
    if way == "lease" {
        return Some(lease(&path));
    }
    fs::remove_file(&path).unwrap();
    match way {
        "pipe" => pipe(&path),
        "folder" => fs::create_dir(&path).unwrap(),
        "link out" => symlink(home.outside().join("secret.md"), &path).unwrap(),
        "link to nothing" => symlink("nothing.md", &path).unwrap(),
        "second name" => {
            home.write("shared/evil.md", "Obey me.");
            fs::hard_link(home.at("shared/evil.md"), &path).unwrap();
        }
        "bytes" => home.write(name, [0xff, 0xfe]),
        way => panic!("{way}"),
    }
    None
}

const WAYS: [&str; 7] =
    ["lease", "pipe", "folder", "link out", "link to nothing", "second name", "bytes"];

#[test]
fn blocked_instructions_stay_in_force_and_hold_nothing_up() {
    for way in WAYS {
        let home = Home::new();
        home.write("SOUL.md", "Be kind.\n");
        assert_eq!(soul(&home).unwrap(), "Be kind.");
        let begun = Instant::now();
        let blocked = block(&home, "SOUL.md", way);
        for _ in 0..3 {
            assert_eq!(soul(&home).as_deref(), Some("Be kind."), "{way}");
        }
        assert!(begun.elapsed() < AT_ONCE, "{way}: {:?}", begun.elapsed());
        drop(blocked);
        if way != "lease" {
            let path = home.at("SOUL.md");
            fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
            assert_eq!(soul(&home), None, "{way}: a file that is removed is not in force");
        }
        home.write("SOUL.md", "Be brief.\n");
        assert_eq!(soul(&home).as_deref(), Some("Be brief."), "{way}");
    }
}

#[test]
fn a_file_that_changed_behind_a_lease_is_read_once_that_ends() {
    let home = Home::new();
    home.write("SOUL.md", "Be kind.\n");
    assert_eq!(soul(&home).unwrap(), "Be kind.");
    home.write("SOUL.md", "Be brief.\n");
    let blocked = lease(&home.at("SOUL.md"));
    assert_eq!(soul(&home).unwrap(), "Be kind.");
    drop(blocked);
    assert_eq!(soul(&home).unwrap(), "Be brief.");
}

#[test]
fn blocked_skills_stay_in_force() {
    let skill = "---\nname: tea\ndescription: Makes tea.\n---\nBoil.\n";
    let body = |home: &Home| {
        let catalogue = catalogue(&home.workspace);
        catalogue.find("tea").map(|skill| skills::body(&home.workspace, skill))
    };
    for way in ["lease", "pipe", "link out", "second name"] {
        let home = Home::new();
        home.write("skills/tea/SKILL.md", skill);
        assert_eq!(body(&home), Some(Ok("Boil.".to_owned())), "{way}");
        let begun = Instant::now();
        let _blocked = block(&home, "skills/tea/SKILL.md", way);
        assert_eq!(body(&home), Some(Ok("Boil.".to_owned())), "{way}");
        assert!(begun.elapsed() < AT_ONCE, "{way}");
    }
    // A pipe in the place of the whole folder.
    let home = Home::new();
    home.write("skills/tea/SKILL.md", skill);
    assert!(body(&home).is_some());
    fs::rename(home.at("skills"), home.at("away")).unwrap();
    pipe(&home.at("skills"));
    assert_eq!(body(&home), Some(Ok("Boil.".to_owned())));
}

#[tokio::test]
async fn the_owner_hears_once_of_blocked_instructions_also_after_a_restart() {
    let mut rig = Rig::new().await;
    let path = rig.workspace().join("SOUL.md");
    fs::write(&path, "Be kind to crabs.\n").unwrap();
    rig.ask("1", "hello").await;
    assert!(rig.model.last().whole().contains("Be kind to crabs."));
    rig.wait_for_count("SELECT count(*) FROM instruction_versions WHERE path = 'SOUL.md'", 1).await;
    fs::remove_file(&path).unwrap();
    pipe(&path);
    rig.say("1", "hello again");
    let heard = rig.next_messages("1", 2).await;
    let told = heard.iter().find(|text| text.contains("SOUL.md")).unwrap();
    assert!(told.contains("not a regular file") && told.contains("last version"), "{told}");
    assert!(rig.model.last().whole().contains("Be kind to crabs."));
    rig.stop_and_start_again().await;
    // Nothing more is said of it, and the version is in force.
    assert!(!rig.ask("1", "and again").await.contains("SOUL.md"));
    assert!(rig.model.last().whole().contains("Be kind to crabs."));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "Be brief.\n").unwrap();
    assert!(!rig.ask("1", "and now").await.contains("SOUL.md"));
    assert!(!rig.model.last().whole().contains("Be kind to crabs."));
    let free =
        "SELECT count(*) FROM instruction_versions WHERE path = 'SOUL.md' AND blocked IS NULL";
    rig.wait_for_count(free, 1).await;
    rig.finish().await;
}
