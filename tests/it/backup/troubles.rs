//! Backups in trouble: wrong clocks, files that cannot be read, folders of several homes, leftovers, full disks.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use chrono::{TimeDelta, Utc};
use peacrab::backup::file_name;
use serde_json::{Value, json};

use super::back_up;
use crate::support::binary::{Daemon, ProgramFixture, home, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;

/// A config with regular backups.
pub(super) fn with_backups(api: &BotApi, to: &Path, keep: usize) -> String {
    let to = to.display();
    format!("{}\n[backup]\nto = \"{to}\"\nevery = \"1h\"\nkeep = {keep}\n", home(api))
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
    let mut names: Vec<_> = names.map(|it| it.into_string().unwrap()).collect();
    names.sort();
    names
}

/// The mark of a fixture's home, which is made by its first backup.
pub(super) fn mark(fixture: &ProgramFixture) -> String {
    fs::read_to_string(fixture.home().join("backup-mark")).unwrap().trim().to_owned()
}

pub(super) async fn makes_one(daemon: &Daemon) {
    until("a backup", async || daemon.log().contains("Made a backup").then_some(())).await;
}

pub(super) fn count(text: &str, words: &str) -> usize {
    text.matches(words).count()
}

/// Makes a folder whose path is longer than a system call takes, so that nobody can open it by its path.
fn put_out_of_reach(fixture: &ProgramFixture, folder: &str) {
    let name = "x".repeat(255);
    let levels = |count: usize| (0..count).map(|_| name.as_str()).collect::<Vec<_>>().join("/");
    let (upper, lower) =
        (fixture.home().join(folder).join(levels(8)), fixture.folder().join("lower"));
    fs::create_dir_all(&upper).unwrap();
    fs::create_dir_all(lower.join(levels(9))).unwrap();
    fs::rename(lower, upper.join(&name)).unwrap();
}

#[tokio::test]
async fn a_name_in_the_future_neither_repeats_backups_nor_deletes_the_new_one() {
    let api = BotApi::start().await;
    let folder = tempfile::tempdir().unwrap();
    let fixture = ProgramFixture::new(&with_backups(&api, folder.path(), 1));
    let future = file_name(Utc::now() + TimeDelta::days(4000));
    fs::write(folder.path().join(&future), "").unwrap();
    let mut daemon = fixture.daemon().await;
    for round in ["one", "two"] {
        makes_one(&daemon).await;
        // Its own, of a clock that ran ahead.
        let mark = mark(&fixture);
        let own = format!("peacrab-20990101-000000-{mark}.tar.gz");
        api.say(&said(&ADA, round));
        api.wait_for_words(ADA.id, &format!("You said: {round}")).await;
        assert_eq!(count(&daemon.log(), "Made a backup"), 1, "{}", daemon.log());
        assert_eq!(count(&daemon.log(), "Cannot make"), 0, "{}", daemon.log());
        let made: Vec<_> = names(folder.path()).into_iter().filter(|it| *it != future).collect();
        let made: Vec<_> = made.iter().filter(|name| **name != own).collect();
        assert!(made.len() == 1 && made[0].ends_with(&format!("-{mark}.tar.gz")), "{made:?}");
        assert!(names(folder.path()).contains(&future));
        daemon.terminate().await;
        // Due again, with one more in the future.
        let made = folder.path().join(made[0]);
        fs::rename(&made, folder.path().join(format!("peacrab-20200101-000000-{mark}.tar.gz")))
            .unwrap();
        fs::write(folder.path().join(&own), "").unwrap();
        daemon = fixture.daemon().await;
    }
    makes_one(&daemon).await;
    assert_eq!(names(folder.path()).len(), 3, "{:?}", names(folder.path()));
}

#[tokio::test]
async fn a_restart_makes_no_backup_that_is_not_due() {
    let api = BotApi::start().await;
    let folder = tempfile::tempdir().unwrap();
    let fixture = ProgramFixture::new(&with_backups(&api, folder.path(), 3));
    let daemon = fixture.daemon().await;
    makes_one(&daemon).await;
    daemon.terminate().await;
    let before = names(folder.path());
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    assert!(!daemon.log().contains("Made a backup"), "{}", daemon.log());
    assert_eq!(names(folder.path()), before);
}

#[tokio::test]
async fn homes_that_share_a_folder_count_only_their_own_backups() {
    let api = BotApi::start().await;
    let folder = tempfile::tempdir().unwrap();
    let config = with_backups(&api, folder.path(), 1);
    let (one, other) = (ProgramFixture::new(&config), ProgramFixture::new(&config));
    let old = "peacrab-20200101-000000.tar.gz";
    let daemon = one.daemon().await;
    makes_one(&daemon).await;
    daemon.terminate().await;
    // From now on, nobody knows whose one without a mark is.
    fs::write(folder.path().join(old), "").unwrap();
    let daemon = other.daemon().await;
    makes_one(&daemon).await;
    daemon.terminate().await;
    assert_ne!(mark(&one), mark(&other));
    let all = names(folder.path());
    let of = |fixture: &ProgramFixture| {
        let end = format!("-{}.tar.gz", mark(fixture));
        all.iter().filter(|name| name.ends_with(&end)).count()
    };
    assert!(all.contains(&old.to_owned()) && of(&one) == 1 && of(&other) == 1, "{all:?}");
    // Each of them is restored by its name.
    let own = all.iter().find(|name| name.contains(&mark(&one))).unwrap();
    let own = folder.path().join(own);
    let ended = one.run(&["restore", own.to_str().unwrap(), "--replace"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(one.home().join("backup-mark").exists(), "a restore keeps the home's mark");
}

#[tokio::test]
async fn what_cannot_be_read_is_named_and_the_rest_is_backed_up() {
    let fixture = ProgramFixture::new("");
    fixture.run(&["chat", "-m", "append tea to notes.md"]).await;
    put_out_of_reach(&fixture, "shared");
    let file = fixture.folder().join("kept.tar.gz");
    let ended = fixture.run(&["backup", file.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words =
        "the backup was made, but it is not whole. 1 of the files and folders cannot be read:";
    assert!(ended.err.contains(words) && ended.err.contains("\n- shared/xxx"), "{ended:?}");
    let second = fixture.folder().join("second.tar.gz");
    let ended = fixture.run(&["backup", "--json", second.to_str().unwrap()]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(1), ""), "{ended:?}");
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (&told["left_out"], &told["moved"], &told["links"]),
        (&json!(1), &json!(0), &json!(0))
    );
    assert!(told["left_out_named"][0]["path"].as_str().unwrap().starts_with("shared/xxx"));
    let elsewhere = ProgramFixture::new("");
    let ended = elsewhere.run(&["restore", file.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(elsewhere.home().join("workspace/notes.md").exists());
}

#[tokio::test]
async fn the_owner_hears_once_that_regular_backups_are_not_whole() {
    let api = BotApi::start().await;
    let folder = tempfile::tempdir().unwrap();
    let fixture = ProgramFixture::new(&with_backups(&api, folder.path(), 3));
    // The owner is known before the backup.
    let quiet = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    makes_one(&quiet).await;
    quiet.terminate().await;
    for name in names(folder.path()) {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    put_out_of_reach(&fixture, "shared");
    let _daemon = fixture.daemon().await;
    let told = api.wait_for_words(ADA.id, "is incomplete, because I can't read 1 of").await;
    assert!(told.text.contains("shared/xxx"), "{told:?}");
    api.say(&said(&ADA, "and now"));
    api.wait_for_words(ADA.id, "You said: and now").await;
    let all = api.sent();
    let messages = all.iter().filter(|sent| sent.text.contains("is incomplete"));
    assert_eq!(messages.count(), 1);
}

#[tokio::test]
async fn a_backup_that_was_killed_leaves_nothing_for_long() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    // So long that it is still read when the program is killed.
    let large = fixture.home().join("shared/large");
    fs::create_dir_all(large.parent().unwrap()).unwrap();
    File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let file = fixture.folder().join("kept.tar.gz");
    let mut killed = fixture.begin_quietly(&["backup", file.to_str().unwrap()]);
    let leftovers = || {
        let names = names(fixture.folder()).into_iter().filter(|name| name.contains(".partial"));
        names.collect::<Vec<_>>()
    };
    until("the unfinished backup", async || (leftovers().len() >= 2).then_some(())).await;
    // While it is written, nobody takes it away.
    let ended = fixture.run(&["backup", file.to_str().unwrap()]).await;
    assert!(ended.err.contains("is being written by another peacrab"), "{ended:?}");
    killed.kill().await.unwrap();
    assert!(leftovers().len() >= 2, "{:?}", leftovers());
    fs::remove_file(large).unwrap();
    // Also by a backup of another name.
    let other = fixture.folder().join("other.tar.gz");
    let ended = fixture.run(&["backup", other.to_str().unwrap()]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(leftovers(), [""; 0]);
}

#[tokio::test]
async fn leftovers_are_deleted_only_if_they_are_ones_own_and_nobody_writes_them() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let mark = mark_after(&fixture).await;
    let put = |name: &str| {
        let file = File::create(fixture.folder().join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        file
    };
    let kept = [
        format!("busy.tar.gz.{mark}.partial"),
        format!("busy.tar.gz.{mark}.partial-db"),
        "x.tar.gz.0a0a0a0a.partial".to_owned(),
        "download.partial".to_owned(),
        "peacrab-20260101-000000.tar.gz.partial".to_owned(),
    ];
    let busy = put(&kept[0]);
    kept[1..].iter().for_each(|name| drop(put(name)));
    busy.lock().unwrap();
    let gone = [
        format!("a.tar.gz.{mark}.partial"),
        format!("a.tar.gz.{mark}.partial-db"),
        format!("b.tar.gz.{mark}.partial-db-journal"),
        format!("peacrab-20260101-000000-{mark}.tar.gz.{mark}.partial"),
        // Of a former version, and long ago.
        "peacrab-20250101-000000.tar.gz.partial-db".to_owned(),
        "kept.tar.gz.partial".to_owned(),
    ];
    gone.iter().for_each(|name| drop(put(name)));
    let old = File::options().write(true).open(fixture.folder().join(&gone[4])).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_secs(48 * 3600)).unwrap();
    drop(old);
    back_up(&fixture).await;
    let all = names(fixture.folder());
    for name in &kept {
        assert!(all.contains(name), "{name}: {all:?}");
    }
    for name in &gone {
        assert!(!all.contains(name), "{name}: {all:?}");
    }
}

/// The mark that a backup has made.
async fn mark_after(fixture: &ProgramFixture) -> String {
    back_up(fixture).await;
    mark(fixture)
}

#[tokio::test]
async fn a_restore_that_was_killed_leaves_nothing_after_the_next_start() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let partial = fixture.home().join("restore.partial");
    fs::create_dir_all(partial.join("workspace")).unwrap();
    fs::write(partial.join("workspace/a.md"), "half").unwrap();
    fixture.daemon().await.terminate().await;
    assert!(!partial.exists());
}

#[tokio::test]
async fn a_cause_is_named_once() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let nowhere = fixture.folder().join("nowhere/x.tar.gz");
    let ended = fixture.run(&["backup", nowhere.to_str().unwrap()]).await;
    assert_eq!((ended.code, count(&ended.err, "No such file")), (Some(1), 1), "{ended:?}");
    let ended = fixture.run(&["restore", nowhere.to_str().unwrap(), "--replace"]).await;
    assert_eq!((ended.code, count(&ended.err, "No such file")), (Some(1), 1), "{ended:?}");
}

#[tokio::test]
async fn a_mark_that_cannot_be_read_or_written_is_told_and_no_backup_is_made_under_another() {
    let api = BotApi::start().await;
    let folder = tempfile::tempdir().unwrap();
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    daemon.terminate().await;
    let config = with_backups(&api, folder.path(), 1);
    fs::write(fixture.folder().join("config.toml"), config).unwrap();
    // It stands where the mark is written before it gets its name; and where it is read.
    for name in ["backup-mark.new", "backup-mark"] {
        let obstacle = fixture.home().join(name);
        fs::create_dir_all(&obstacle).unwrap();
        let before = told_of_backups(&api);
        let daemon = fixture.daemon().await;
        until("the word", async || (told_of_backups(&api) > before).then_some(())).await;
        assert!(daemon.log().contains("backup-mark in the home"), "{}", daemon.log());
        assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
        daemon.terminate().await;
        fs::remove_dir(obstacle).unwrap();
    }
    let daemon = fixture.daemon().await;
    makes_one(&daemon).await;
    let own = format!("-{}.tar.gz", mark(&fixture));
    let made = names(folder.path());
    assert!(made.len() == 1 && made[0].ends_with(&own), "{made:?}");
}

fn told_of_backups(api: &BotApi) -> usize {
    let is_alarm = |text: &str| text.contains("I couldn't make the regular backup");
    api.sent().iter().filter(|sent| is_alarm(&sent.text)).count()
}

#[cfg(all(feature = "discord", feature = "slack"))]
#[tokio::test]
async fn a_home_on_a_full_disk_has_the_same_mark_each_time_and_keeps_it() {
    use crate::support::disk::Disk;
    let fixture = ProgramFixture::new("");
    let Some(disk) = Disk::of(&fixture).await else { return };
    let mark = || peacrab::backup::HomeMark::of_or_spare(&disk.home).unwrap().to_string();
    let file = disk.home.join("backup-mark");
    disk.fill();
    let spare = mark();
    assert!(!file.exists());
    assert_eq!((spare.len(), mark()), (8, spare.clone()));
    // Another home has another one, also in the same place.
    let other = tempfile::tempdir().unwrap();
    assert_ne!(peacrab::backup::HomeMark::of_or_spare(other.path()).unwrap().to_string(), spare);
    disk.make_room();
    assert_eq!(mark(), spare);
    assert_eq!(fs::read_to_string(&file).unwrap().trim(), spare);
    // A home that has one keeps it.
    fs::write(&file, "0a0a0a0a\n").unwrap();
    disk.fill();
    assert_eq!(mark(), "0a0a0a0a");
}

#[cfg(all(feature = "discord", feature = "slack"))]
#[tokio::test]
async fn a_first_backup_from_a_full_disk_is_whole_and_leaves_nothing_there() {
    use crate::support::disk::Disk;
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let Some(disk) = Disk::of(&fixture).await else { return };
    let daemon = disk.begin(&fixture);
    until("the daemon", async || daemon.log().contains("Started").then_some(())).await;
    daemon.terminate().await;
    fs::remove_file(disk.home.join("ballast")).unwrap();
    disk.fill();
    let before = names(&disk.home);
    // Onto the full disk, nothing of it stays.
    let inside = fixture.home().join("onto-itself.tar.gz");
    let ended = disk.run(&fixture, &["backup", inside.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("the disk is full"), "{ended:?}");
    assert_eq!(names(&disk.home), before);
    // Elsewhere it is made, without a mark.
    let file = fixture.folder().join("kept.tar.gz");
    let path = file.to_str().unwrap();
    let ended = disk.run(&fixture, &["backup", path]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(names(&disk.home), before);
    disk.make_room();
    let ended = disk.run(&fixture, &["restore", path, "--replace"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[cfg(all(feature = "discord", feature = "slack"))]
#[tokio::test]
async fn a_full_disk_is_named_as_such_and_not_as_a_damaged_backup() {
    use crate::support::disk::Disk;
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let Some(disk) = Disk::of(&fixture).await else { return };
    let daemon = disk.begin(&fixture);
    until("the daemon", async || daemon.log().contains("Started").then_some(())).await;
    daemon.terminate().await;
    let file = fixture.folder().join("kept.tar.gz");
    let path = file.to_str().unwrap();
    let ended = disk.run(&fixture, &["backup", path]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    disk.fill();
    let ended = disk.run(&fixture, &["restore", path, "--replace"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("is full: free some space, then restore again"), "{ended:?}");
    assert!(!ended.err.contains("complete backup"), "{ended:?}");
    assert!(disk.has("state.db") && !disk.has("restore.partial"));
    // A backup onto it says so as well, and of which file.
    let inside = fixture.home().join("onto-itself.tar.gz");
    let ended = disk.run(&fixture, &["backup", inside.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("onto-itself.tar.gz"), "{ended:?}");
    assert!(!ended.err.contains("Restore it from a backup"), "{ended:?}");
}

#[tokio::test]
async fn what_root_makes_in_the_home_of_another_account_is_that_accounts() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    fixture.daemon().await.terminate().await;
    let file = back_up(&fixture).await;
    let home = fixture.home();
    fs::remove_dir_all(&home).unwrap();
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&home, Some(12345), Some(12345)).unwrap();
    let ended = fixture.run(&["restore", file.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let roots = || -> Vec<String> {
        let is_roots = |name: &String| fs::metadata(home.join(name)).unwrap().uid() == 0;
        names(&home).into_iter().filter(is_roots).collect()
    };
    assert_eq!(roots(), Vec::<String>::new());
    assert!(home.join("lock").exists());
    fixture.daemon().await.terminate().await;
    assert!(home.join("starts.json").exists() && home.join("ballast").exists());
    assert_eq!(roots(), Vec::<String>::new());
    // The folder of what was there before is one of them.
    let ended = fixture.run(&["restore", file.to_str().unwrap(), "--replace"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(names(&home).iter().any(|name| name.starts_with("before-restore-")), "{ended:?}");
    assert_eq!(roots(), Vec::<String>::new());
}

#[tokio::test]
async fn a_folder_with_a_disk_of_its_own_stops_a_restore_before_it_begins() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let file = back_up(&fixture).await;
    let (home, workspace) = (fixture.home(), fixture.home().join("workspace"));
    let mount = "mount --bind \"$0\" \"$0\" && exec \"$@\"";
    let words = ["unshare", "-rm", "sh", "-c", mount].map(OsStr::new);
    let wrapper = [&words[..], &[workspace.as_os_str()]].concat();
    let restore = ["restore", file.to_str().unwrap(), "--replace"];
    let version = fixture.run_with(fixture.command(&wrapper, &["--version"]), "").await;
    if version.code != Some(0) {
        // Nothing can be mounted here.
        return;
    }
    let look = || (names(&home), fs::read(home.join("state.db")).unwrap());
    let before = look();
    let ended = fixture.run_with(fixture.command(&wrapper, &restore), "").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let named = format!("{} is a disk of its own", workspace.display());
    assert!(ended.err.contains(&named) && ended.err.contains("Nothing was changed"), "{ended:?}");
    assert!(look() == before, "{:?}", names(&home));
    // A former version has begun such a restore, and could not finish it.
    let ready = home.join("restore.ready");
    fs::create_dir_all(ready.join("workspace")).unwrap();
    fs::write(ready.join("workspace/notes.md"), "three\n").unwrap();
    fs::write(ready.join("before"), home.join("before-restore-x").to_str().unwrap()).unwrap();
    let ended = fixture.run_with(fixture.command(&wrapper, &["run"]), "").await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains(&named) && ended.err.contains("has begun"), "{ended:?}");
    assert!(ready.join("workspace/notes.md").exists() && workspace.join("AGENTS.md").exists());
    fixture.daemon().await.terminate().await;
    assert_eq!(fs::read_to_string(workspace.join("notes.md")).unwrap(), "three\n");
    assert!(!ready.exists() && home.join("before-restore-x/workspace/AGENTS.md").exists());
}
