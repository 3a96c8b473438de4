//! A store that the doctor and `run` cannot open: what is wrong with it decides what they advise.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peacrab::doctor::Severity;
use peacrab::doctor::machine::check_disk;
use peacrab::doctor::store::failure;
use peacrab::replies;
use peacrab::store::{OpenError, StoreError};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::accounts::WithoutRights;
use super::found;
use crate::support::binary::{ProgramFixture, home, said};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, Person};
use crate::support::damage::damage;

/// A home in which a daemon has run, and its database.
async fn used() -> (ProgramFixture, PathBuf) {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let path = fixture.home().join("state.db");
    (fixture, path)
}

/// The words about a start that has found damage, with the commands of this home.
fn found_damage(fixture: &ProgramFixture) -> String {
    replies::LAST_START_FOUND_DAMAGE.replace("`peacrab ", &fixture.here())
}

#[tokio::test]
async fn a_store_that_another_program_has_locked_is_not_to_be_restored() {
    let (fixture, path) = used().await;
    let begun = Instant::now();
    fixture.run(&["doctor"]).await;
    let usual = begun.elapsed();
    let holder = Connection::open(&path).unwrap();
    let lock = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE held (x)";
    holder.execute_batch(lock).unwrap();
    let begun = Instant::now();
    let ended = fixture.run(&["doctor"]).await;
    let words = ["WRONG store: it cannot be examined, because ", "has it locked", "close that"];
    found(&ended, 1, &words);
    assert!(!ended.out.contains("restore FILE"), "{}", ended.out);
    // It is waited for once, five seconds. A second wait would be over after ten.
    let waited = begun.elapsed().saturating_sub(usual);
    assert!(waited < Duration::from_secs(9), "{waited:?}");
    let ended = fixture.run(&["run"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("has it locked. Close that program"), "{ended:?}");
    assert!(!ended.err.contains("backup"), "{ended:?}");
    drop(holder);
    let ended = fixture.run(&["doctor"]).await;
    assert!(ended.out.contains("ok    store: readable"), "{}", ended.out);
}

#[tokio::test]
async fn a_store_that_this_account_may_not_open_is_given_back() {
    let (fixture, path) = used().await;
    // No mode keeps root out.
    let Some(fixture) = WithoutRights::of(fixture) else { return };
    fixture.give_all();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let ended = fixture.run(&["doctor"]).await;
    found(&ended, 1, &["WRONG store: this account cannot open it", "chmod u+rwX"]);
    assert!(!ended.out.contains("restore FILE"), "{}", ended.out);
    let ended = fixture.run(&["run"]).await;
    assert!(ended.err.contains("chmod u+rwX") && !ended.err.contains("backup"), "{ended:?}");
}

#[tokio::test]
async fn an_emptied_store_is_lost_and_no_new_one_is_begun_in_silence() {
    let (fixture, path) = used().await;
    fs::write(&path, "").unwrap();
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &["WRONG store: the file is empty", "restore the newest backup"],
    );
    let file = fixture.folder().join("backup.tar.gz").display().to_string();
    for command in [&["run"] as &[&str], &["cron", "list"], &["backup", file.as_str()]] {
        let ended = fixture.run(command).await;
        assert_eq!(ended.code, Some(1), "{command:?}: {ended:?}");
        let words = "is empty, although this home was in use";
        assert!(ended.err.contains(words), "{command:?}: {ended:?}");
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    // Nor where it is gone.
    fs::remove_file(&path).unwrap();
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &["WRONG store: state.db is not there", "restore the newest backup", "ballast and undo"],
    );
    for command in [&["run"] as &[&str], &["cron", "list"], &["backup", file.as_str()]] {
        let ended = fixture.run(command).await;
        assert_eq!(ended.code, Some(1), "{command:?}: {ended:?}");
        let words = "is not there, although this home was in use";
        assert!(ended.err.contains(words), "{command:?}: {ended:?}");
    }
    assert!(!path.exists() && !Path::new(&file).exists());
    // To move the rest away is to begin anew.
    for name in ["ballast", "undo"] {
        let left = fixture.home().join(name);
        fs::rename(&left, fixture.folder().join(name)).unwrap();
    }
    fixture.daemon().await.terminate().await;

    // A first start that was cut short may leave an empty file.
    let fixture = ProgramFixture::new("");
    fs::create_dir(fixture.home()).unwrap();
    fs::set_permissions(fixture.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(fixture.home().join("state.db"), "").unwrap();
    let ended = fixture.run(&["doctor"]).await;
    assert!(ended.out.contains("ok    store: there is none yet; the first start"), "{}", ended.out);
    fixture.daemon().await.terminate().await;
}

#[tokio::test]
async fn a_store_that_is_damaged_in_the_middle_is_named_with_what_to_do() {
    let (fixture, path) = used().await;
    damage(&path, "%");
    let ended = fixture.run(&["run"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let place = path.display().to_string();
    for words in [place.as_str(), "the database is damaged", "Restore it from a backup"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
}

#[tokio::test]
async fn a_damaged_header_is_damage_whatever_fails_first() {
    let (fixture, path) = used().await;
    let whole = fs::read(&path).unwrap();
    let random: &[(usize, &[u8])] = &[(24, &[0xbe; 76])];
    let unsupported: &[(usize, &[u8])] = &[(44, &[0, 0, 0, 9])];
    // The version looks like that of a newer program.
    let newer: &[(usize, &[u8])] = &[(60, &[0, 1, 0, 0]), (80, &[1])];
    for changes in [random, unsupported, newer] {
        let mut bytes = whole.clone();
        for (at, change) in changes {
            bytes[*at..*at + change.len()].copy_from_slice(change);
        }
        fs::write(&path, bytes).unwrap();
        found(&fixture.run(&["doctor"]).await, 1, &["WRONG store: ", "restore the newest backup"]);
        let ended = fixture.run(&["run"]).await;
        assert!(ended.err.contains("Restore it from a backup"), "{ended:?}");
    }
    let mut bytes = whole;
    bytes[44..48].copy_from_slice(&[0, 0, 0, 9]);
    fs::write(&path, bytes).unwrap();
    let file = fixture.folder().join("kept.tar.gz").display().to_string();
    let ended = fixture.run(&["backup", file.as_str()]).await;
    assert!(ended.err.contains("restore the newest backup"), "{ended:?}");
}

#[tokio::test]
async fn damage_that_shows_while_it_runs_is_named_to_the_owner_and_by_status() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    daemon.terminate().await;
    damage(&fixture.home().join("state.db"), "strangers");
    let daemon = fixture.daemon().await;
    let stranger = Person { id: 7009, name: "Cy", is_bot: false };
    api.say(&said(&stranger, "let me in"));
    api.wait_for_words(stranger.id, replies::STORE_DAMAGED).await;
    api.wait_for_words(ADA.id, replies::DATABASE_DAMAGED).await;
    let ended = fixture.run(&["status"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "unhealthy: the store is damaged: restore the newest backup";
    assert!(ended.out.starts_with(words), "{ended:?}");
    let ended = fixture.run(&["status", "--json"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let status: Value = serde_json::from_str(&ended.out).unwrap();
    let health = json!({ "agent_loop": true, "store": false, "damaged": true });
    assert_eq!(status["health"], health);
    daemon.terminate().await;
}

#[tokio::test]
async fn damage_that_stops_the_start_is_told_to_the_owner_once_and_named_by_status() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    daemon.terminate().await;
    let path = fixture.home().join("state.db");
    let good = fs::read(&path).unwrap();
    let told = || {
        let sent = api.sent();
        sent.iter().filter(|sent| sent.as_it_came().contains("so I can't start")).count()
    };
    for times in [1, 2] {
        damage(&path, "ledger");
        for _ in 0..2 {
            let ended = fixture.run(&["run"]).await;
            assert_eq!(ended.code, Some(1), "{ended:?}");
            let restore = format!("({}restore FILE --replace`)", fixture.here());
            assert!(ended.err.contains(&restore), "{ended:?}");
            assert_eq!(told(), times);
        }
        let ended = fixture.run(&["status", "--json"]).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let error: Value = serde_json::from_str(&ended.out).unwrap();
        assert!(error["error"].as_str().unwrap().contains(&found_damage(&fixture)), "{ended:?}");
        assert!(ended.err.contains(&found_damage(&fixture)), "{ended:?}");
        // It is whole again, so the next damage is a new one.
        for ending in ["-wal", "-shm"] {
            fs::remove_file(format!("{}{ending}", path.display())).ok();
        }
        fs::write(&path, &good).unwrap();
        fixture.daemon().await.terminate().await;
        let ended = fixture.run(&["status"]).await;
        assert!(ended.err.contains("start it with"), "{ended:?}");
    }
    // Nothing can be read of who the owner is.
    damage(&path, "%");
    let ended = fixture.run(&["run"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(told(), 2);
    let ended = fixture.run(&["status"]).await;
    assert!(ended.err.contains(&found_damage(&fixture)), "{ended:?}");
}

#[tokio::test]
async fn damage_is_named_no_more_once_its_store_was_replaced_or_moved_away() {
    let (fixture, path) = used().await;
    let file = fixture.folder().join("kept.tar.gz");
    let ended = fixture.run(&["backup", file.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    damage(&path, "ledger");
    let ended = fixture.run(&["run"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let ended = fixture.run(&["status"]).await;
    assert!(ended.err.contains(&found_damage(&fixture)), "{ended:?}");
    let away = fixture.folder().join("away.db");
    fs::rename(&path, &away).unwrap();
    let ended = fixture.run(&["status"]).await;
    assert!(ended.err.contains("start it with"), "{ended:?}");
    fs::rename(&away, &path).unwrap();
    let ended = fixture.run(&["status"]).await;
    assert!(ended.err.contains(&found_damage(&fixture)), "{ended:?}");
    let ended = fixture.run(&["restore", file.to_str().unwrap(), "--replace"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = fixture.run(&["status"]).await;
    assert!(ended.err.contains("start it with"), "{ended:?}");
    fixture.daemon().await.terminate().await;
}

#[tokio::test]
async fn a_workspace_that_is_gone_or_closed_is_wrong() {
    let (fixture, _) = used().await;
    let workspace = fixture.home().join("workspace");
    let closed = workspace.join("closed");
    fs::create_dir(&closed).unwrap();
    let owner = fs::metadata(fixture.home()).unwrap().uid();
    match rustix::process::geteuid().is_root() {
        // The account of the home is another one then, which may not use what is root's.
        true => std::os::unix::fs::chown(fixture.home(), Some(12345), None).unwrap(),
        false => fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap(),
    }
    let ended = fixture.run(&["doctor"]).await;
    let place = workspace.display().to_string();
    found(
        &ended,
        1,
        &["WRONG workspace: account ", "cannot use", "chown -R --reference=", place.as_str()],
    );
    std::os::unix::fs::chown(fixture.home(), Some(owner), None).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let ended = fixture.run(&["doctor"]).await;
    assert!(ended.out.contains("ok    workspace: "), "{}", ended.out);
    fs::remove_dir_all(&workspace).unwrap();
    found(
        &fixture.run(&["doctor"]).await,
        1,
        &["WRONG workspace: ", "is gone, although this home was in use", "bring the folder back"],
    );
}

#[tokio::test]
async fn a_mode_that_keeps_the_account_of_the_home_out_is_wrong() {
    let (fixture, path) = used().await;
    let (home, workspace) = (fixture.home(), fixture.home().join("workspace"));
    let undo = home.join("undo");
    if rustix::process::geteuid().is_root() {
        // No mode keeps root out.
        for path in [&home, &path, &undo, &workspace] {
            std::os::unix::fs::chown(path, Some(12345), None).unwrap();
        }
    }
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, closed, open) in [(&path, 0o400, 0o600), (&undo, 0o500, 0o700)] {
        let words = format!("WRONG files: the mode of {} keeps its own", path.display());
        let advice = format!("to do: chmod u+rwX {}", path.display());
        assert!(!fixture.run(&["doctor"]).await.out.contains(&words));
        set(path, closed);
        found(&fixture.run(&["doctor"]).await, 1, &[words.as_str(), advice.as_str()]);
        set(path, open);
    }
    set(&workspace, 0o500);
    let words = ["WRONG workspace: account ", "cannot use 1 of its files and folders, such as "];
    found(&fixture.run(&["doctor"]).await, 1, &words);
    set(&workspace, 0o700);
}

#[test]
fn only_damage_leads_to_a_backup() {
    let path = || PathBuf::from("/nowhere/state.db");
    let cause = || StoreError::Broken("disk I/O error".to_owned());
    let holder = "process 42 (sqlite3)".to_owned();
    let used = OpenError::InUse { path: path(), holder };
    let denied = OpenError::Denied { path: path(), why: "run this as root".to_owned() };
    let failing = OpenError::Database { path: path(), cause: cause() };
    for error in [&used, &denied, &failing] {
        let finding = failure(error, None);
        assert_eq!(finding.severity, Severity::Wrong, "{error}");
        let advice = finding.advice.unwrap();
        assert!(!advice.contains("restore") && !error.to_string().contains("ackup"), "{advice}");
    }
    // The daemon knows better.
    let finding = failure(&used, Some(true));
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.words.contains("the daemon that runs reads and writes it"), "{finding:?}");
    assert_eq!(failure(&used, Some(false)).severity, Severity::Wrong);
    let damaged = OpenError::of_database(path(), StoreError::Corrupt("page 7".to_owned()));
    assert!(failure(&damaged, None).advice.unwrap().contains("restore the newest backup"));
    assert!(matches!(OpenError::of_database(path(), cause()), OpenError::Database { .. }));
}

#[test]
fn a_look_at_a_store_that_fails_changes_nothing_in_its_home() {
    let home = tempfile::tempdir().unwrap();
    let names = [home.path().join("room"), home.path().join("state.db")];
    names.iter().for_each(|name| fs::write(name, "as it was").unwrap());
    let folder_time = || fs::metadata(home.path()).unwrap().modified().unwrap();
    let before = folder_time();
    let cause = StoreError::Broken("disk I/O error".to_owned());
    let failing = OpenError::of_database(names[1].clone(), cause);
    assert!(matches!(failing, OpenError::Database { .. }), "{failing}");
    assert_eq!(folder_time(), before);
    names.iter().for_each(|name| assert_eq!(fs::read(name).unwrap(), b"as it was"));
}

#[test]
fn the_check_of_the_disk_writes_to_no_file_that_a_link_leads_to() {
    let (home, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = others.path().join("file");
    fs::write(&file, "of somebody else").unwrap();
    std::os::unix::fs::symlink(&file, home.path().join(".doctor")).unwrap();
    check_disk(home.path());
    assert_eq!(fs::read_to_string(&file).unwrap(), "of somebody else");
}

/// A home that was used, and has lost the log of its database in a kill.
async fn home_without_its_log(api: &BotApi) -> ProgramFixture {
    let fixture = ProgramFixture::new(&home(api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    daemon.terminate().await;
    // From now on, the database itself knows the owner.
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "and now"));
    api.wait_for_words(ADA.id, "You said: and now").await;
    daemon.kill().await;
    fs::remove_file(fixture.home().join("state.db-wal")).unwrap();
    fixture
}

#[tokio::test]
async fn the_owner_hears_of_a_lost_log_also_after_a_start_that_was_refused() {
    let api = BotApi::start().await;
    let fixture = home_without_its_log(&api).await;
    let (workspace, away) = (fixture.home().join("workspace"), fixture.folder().join("away"));
    fs::rename(&workspace, &away).unwrap();
    let ended = fixture.run(&["run"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("The log of the database is lost"), "{ended:?}");
    assert!(ended.err.contains("although this home was in use"), "{ended:?}");
    fs::rename(&away, &workspace).unwrap();
    let daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "state.db-wal").await;
    daemon.terminate().await;
    let _daemon = fixture.daemon().await;
    api.say(&said(&ADA, "again"));
    api.wait_for_words(ADA.id, "You said: again").await;
    let told = api.sent().iter().filter(|sent| sent.text.contains("state.db-wal")).count();
    assert_eq!(told, 1);
}

#[tokio::test]
async fn the_owner_hears_of_a_lost_log_also_where_it_cannot_be_recorded() {
    let api = BotApi::start().await;
    let fixture = home_without_its_log(&api).await;
    // Nothing can be recorded, as on a full disk.
    fs::create_dir(fixture.home().join("starts.json.new")).unwrap();
    let _daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "state.db-wal").await;
}

#[tokio::test]
async fn the_owner_hears_once_of_a_log_that_was_lost() {
    let api = BotApi::start().await;
    let fixture = home_without_its_log(&api).await;
    let ended = fixture.run(&["doctor"]).await;
    assert!(ended.out.contains("warn  log of the store: state.db-wal is missing"), "{ended:?}");
    let daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "state.db-wal").await;
    assert!(daemon.log().contains("The log of the database is lost"), "{}", daemon.log());
    // Its delivery is settled before the next answer goes out.
    api.say(&said(&ADA, "again"));
    api.wait_for_words(ADA.id, "You said: again").await;
    daemon.kill().await;
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "once more"));
    api.wait_for_words(ADA.id, "You said: once more").await;
    assert!(!daemon.log().contains("The log of the database is lost"), "{}", daemon.log());
    let told = api.sent().iter().filter(|sent| sent.text.contains("state.db-wal")).count();
    assert_eq!(told, 1);
}
