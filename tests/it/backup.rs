//! Backups and restores by the real program, also in the middle of work and cut off by a crash.

mod keeping;
mod troubles;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use chrono::{DateTime, TimeDelta, Utc};
use peacrab::backup::schedule::until_due;
use peacrab::backup::{file_name, restore};
use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::support::binary::{ProgramFixture, home, model, said, until};
use crate::support::bot_api::line::ADA;
use crate::support::bot_api::{BotApi, Fault};
use crate::support::model_api::{ModelApi, Platform, Reply};

fn answer(text: &str) -> Reply {
    let chunk = |delta: Value, finish: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    Reply::events(&[chunk(json!({"content": text}), None), chunk(json!({}), Some("stop"))])
}

fn store(fixture: &ProgramFixture) -> Connection {
    Connection::open(fixture.home().join("state.db")).unwrap()
}

fn count(fixture: &ProgramFixture, of: &str) -> i64 {
    store(fixture).query_row(&format!("SELECT count(*) FROM {of}"), [], |row| row.get(0)).unwrap()
}

/// Makes a backup and returns its file.
async fn back_up(fixture: &ProgramFixture) -> PathBuf {
    let file = fixture.folder().join("kept.tar.gz");
    fs::remove_file(&file).ok();
    let ended = fixture.run(&["backup", file.to_str().unwrap()]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    file
}

#[tokio::test]
async fn a_backup_of_a_running_daemon_is_restored_with_all_that_was_said_and_written() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let nothing = fixture.run(&["backup", "x.tar.gz"]).await;
    assert!(nothing.err.contains("there is nothing to back up"), "{nothing:?}");
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "append tea to notes/likes.md"));
    let likes = fixture.home().join("workspace/notes/likes.md");
    until("the note", async || likes.exists().then_some(())).await;
    until("the answer", async || {
        let is_pending = "outbox WHERE state = 'pending'";
        (!api.sent().is_empty() && count(&fixture, is_pending) == 0).then_some(())
    })
    .await;
    let file = back_up(&fixture).await;
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0);
    let left: Vec<_> =
        fs::read_dir(fixture.folder()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_str().unwrap().contains("partial")), "{left:?}");
    // It is not overwritten, and lies nowhere that it would contain itself.
    let path = file.to_str().unwrap();
    assert!(fixture.run(&["backup", path]).await.err.contains("already exists"));
    let inside = fixture.home().join("workspace/x.tar.gz");
    let ended = fixture.run(&["backup", inside.to_str().unwrap()]).await;
    assert!(ended.err.contains("is inside a folder that is backed up"), "{ended:?}");

    let ended = fixture.run(&["restore", path]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("another peacrab is running on"), "{ended:?}");
    daemon.terminate().await;
    let turns = count(&fixture, "turns");
    let ended = fixture.run(&["restore", path]).await;
    assert!(
        ended.err.contains("--replace moves it into a folder before-restore-… in it"),
        "{ended:?}"
    );
    // After the backup.
    fs::write(fixture.home().join("workspace/notes/later.md"), "later").unwrap();
    let ended = fixture.run(&["restore", path, "--replace"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.contains("I was restored from a backup of"), "{ended:?}");
    assert!(ended.out.contains("It had no pending work"), "{ended:?}");
    assert_eq!(count(&fixture, "turns"), turns);
    let workspace = fixture.home().join("workspace");
    assert!(fs::read_to_string(workspace.join("notes/likes.md")).unwrap().contains("tea"));
    assert!(!workspace.join("notes/later.md").exists());
    let mut entries = fs::read_dir(fixture.home()).unwrap().map(|it| it.unwrap().path());
    let before = entries.find(|it| it.to_str().unwrap().contains("before-restore")).unwrap();
    assert!(before.join("workspace/notes/later.md").exists() && before.join("state.db").exists());
    let _daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "I was restored from a backup of").await;
    api.say(&said(&ADA, "still here?"));
    api.wait_for_words(ADA.id, "You said: still here?").await;
}

#[tokio::test]
async fn what_was_pending_is_neither_sent_nor_run_but_listed() {
    let (api, main) = (BotApi::start().await, ModelApi::start(Platform::OpenAi).await);
    let fixture = ProgramFixture::new(&(home(&api) + &model("main", &main)));
    let daemon = fixture.daemon().await;
    main.reply(answer("Good day."));
    api.say(&said(&ADA, "good day"));
    api.wait_for_words(ADA.id, "Good day.").await;
    // A turn that runs, a message behind it, a delivery that does not get through, and jobs.
    main.reply(Reply::Silence);
    api.say(&said(&ADA, "think about the tide"));
    until("the turn", async || (count(&fixture, "turns WHERE ending IS NULL") == 1).then_some(()))
        .await;
    api.say(&said(&ADA, "and about the moon"));
    api.fail("sendMessage", 1000, &Fault::Status(503));
    for (when, text) in [("--at", "water the plants"), ("--every", "look at the sky")] {
        let time = if when == "--at" { "1h" } else { "2h" };
        let ended = fixture.run(&["cron", "add", when, time, "--message", text]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let parcel = ["send", "--to", "owner", "a word from a script"];
    let sending = fixture.begin_quietly(&parcel);
    until("the delivery", async || {
        (count(&fixture, "outbox WHERE state = 'pending'") > 0).then_some(())
    })
    .await;
    until("the message", async || {
        (count(&fixture, "inbound WHERE state <> 'done'") == 2).then_some(())
    })
    .await;
    let file = back_up(&fixture).await;
    drop(sending);
    daemon.kill().await;

    // Both jobs were due since.
    let elsewhere = ProgramFixture::new(&(home(&api) + &model("main", &main)));
    let unpacked = unpacked(&file, elsewhere.folder());
    let db = Connection::open(unpacked.join("state.db")).unwrap();
    db.execute("UPDATE jobs SET next = next - 8000000", []).unwrap();
    drop(db);
    let file = packed(&unpacked, elsewhere.folder());
    let requests = main.requests().len();
    let sent = api.sent().len();
    api.heal();
    let ended = elsewhere.run(&["restore", file.to_str().unwrap()]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for words in [
        "think about the tide",
        "and about the moon",
        "a word from a script",
        "job 1, paused: water the plants",
        "job 2, next ",
        "Turns that were running or waiting: 1.",
    ] {
        assert!(ended.out.contains(words), "{words}: {ended:?}");
    }
    let _daemon = elsewhere.daemon().await;
    let told = api.wait_for_words(ADA.id, "I was restored from a backup of").await;
    assert!(told.text.contains("and about the moon"), "{told:?}");
    main.reply(answer("I am."));
    api.say(&said(&ADA, "are you there?"));
    api.wait_for_words(ADA.id, "I am.").await;
    assert_eq!(main.requests().len(), requests + 1, "nothing else was asked");
    assert_eq!(api.sent().len(), sent + 2, "{:?}", api.sent());
    let jobs = elsewhere.run(&["cron", "list"]).await;
    assert!(jobs.out.contains("paused"), "{jobs:?}");
}

#[tokio::test]
async fn a_restore_lists_all_that_was_pending_and_says_which_links_it_replaced() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let disk = fixture.folder().join("disk");
    fs::create_dir(&disk).unwrap();
    for name in ["state.db", "workspace"] {
        fs::rename(fixture.home().join(name), disk.join(name)).unwrap();
        std::os::unix::fs::symlink(disk.join(name), fixture.home().join(name)).unwrap();
    }
    let parcels = "WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < 12)
         INSERT INTO outbox (channel, chat, body, created, state, next)
         SELECT 'terminal', 'x', json_object('text', 'message ' || n), 1, 'pending', 1 FROM numbers";
    store(&fixture).execute(parcels, []).unwrap();
    let file = back_up(&fixture).await;
    let path = file.to_str().unwrap();
    let ended = fixture.run(&["restore", path, "--replace"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for words in ["message 12", "state.db was a link to ", "workspace was a link to "] {
        assert!(ended.out.contains(words), "{words}: {ended:?}");
    }
    assert!(!fixture.home().join("state.db").is_symlink() && disk.join("state.db").exists());
    let ended = fixture.run(&["restore", path, "--replace", "--json"]).await;
    let restored: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(restored["pending_work"]["outgoing"].as_array().unwrap().len(), 12, "{restored}");
    assert_eq!(restored["links"], json!([]));
    assert_eq!(restored["access"], json!({"known": true, "taken": [], "given": []}));
}

#[tokio::test]
async fn a_restore_that_was_cut_off_is_named_and_finished_by_the_next_command() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let (workspace, ready) =
        (fixture.home().join("workspace"), fixture.home().join("restore.ready"));
    fs::create_dir(&ready).unwrap();
    fs::rename(&workspace, ready.join("workspace")).unwrap();
    for command in ["doctor", "check", "status"] {
        let ended = fixture.run(&[command]).await;
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains("a restore was cut off"), "{command}: {ended:?}");
        assert!(!said.contains("is gone"), "{command}: {ended:?}");
    }
    assert!(ready.exists());
    let file = back_up(&fixture).await;
    assert!(workspace.join("AGENTS.md").exists() && !ready.exists());
    assert!(unpacked(&file, fixture.folder()).join("workspace/AGENTS.md").exists());
}

#[tokio::test]
async fn files_keep_the_time_of_their_last_change() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let note = fixture.home().join("workspace/note.md");
    fs::write(&note, "tea").unwrap();
    // Files of reproducible archives have the beginning of 1970.
    for seconds in [1_700_000_000, 0] {
        let changed = UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::options().append(true).open(&note).unwrap().set_modified(changed).unwrap();
        let file = back_up(&fixture).await;
        let ended = fixture.run(&["restore", file.to_str().unwrap(), "--replace"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(fs::metadata(&note).unwrap().modified().unwrap(), changed);
    }
}

#[tokio::test]
async fn a_file_of_a_former_version_which_kept_no_times_is_as_new_as_its_restore() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let file = back_up(&fixture).await;
    let unpacked = unpacked(&file, fixture.folder());
    // Its archives have the beginning of 1970 for all.
    for name in ["peacrab-backup.json", "state.db", "workspace/AGENTS.md"] {
        let file = fs::File::options().append(true).open(unpacked.join(name)).unwrap();
        file.set_modified(UNIX_EPOCH).unwrap();
    }
    fs::rename(packed(&unpacked, fixture.folder()), &file).unwrap();
    let ended = fixture.run(&["restore", file.to_str().unwrap(), "--replace"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let file = fs::metadata(fixture.home().join("workspace/AGENTS.md")).unwrap();
    assert!(file.modified().unwrap() > UNIX_EPOCH + Duration::from_secs(1_000_000_000));
}

#[tokio::test]
async fn no_backup_goes_to_or_comes_from_what_is_no_file() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let pipe = fixture.folder().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let ended = fixture.run(&["restore", pipe.to_str().unwrap(), "--replace"]).await;
    assert!(ended.err.contains("it is not a file"), "{ended:?}");
    let link = fixture.folder().join("link.tar.gz");
    std::os::unix::fs::symlink(fixture.folder().join("not-there"), &link).unwrap();
    let ended = fixture.run(&["backup", link.to_str().unwrap()]).await;
    assert!(ended.err.contains("already exists"), "{ended:?}");
    assert!(link.is_symlink());
    let mut command = fixture.command(&[], &["backup", "-"]);
    command.current_dir(fixture.folder());
    let ended = fixture.run_with(command, "").await;
    assert!(ended.err.contains("name a file"), "{ended:?}");
    assert!(!fixture.folder().join("-").exists());
}

/// Unpacks an archive as `tar` would.
fn unpacked(file: &Path, folder: &Path) -> PathBuf {
    let into = folder.join("unpacked");
    let archive = flate2::read::GzDecoder::new(fs::File::open(file).unwrap());
    tar::Archive::new(archive).unpack(&into).unwrap();
    into
}

/// Packs a folder again, the manifest first.
fn packed(folder: &Path, beside: &Path) -> PathBuf {
    let file = beside.join("packed.tar.gz");
    let gz = flate2::write::GzEncoder::new(fs::File::create(&file).unwrap(), Default::default());
    let mut archive = tar::Builder::new(gz);
    for name in ["peacrab-backup.json", "state.db"] {
        archive.append_path_with_name(folder.join(name), name).unwrap();
    }
    archive.append_dir_all("workspace", folder.join("workspace")).unwrap();
    archive.into_inner().unwrap().finish().unwrap();
    file
}

#[tokio::test]
async fn a_backup_that_is_damaged_strange_or_newer_changes_nothing() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let file = back_up(&fixture).await;
    let whole = fs::read(&file).unwrap();
    let before = count(&fixture, "sqlite_schema");
    let refused = async |words: &str| {
        let ended = fixture.run(&["restore", file.to_str().unwrap(), "--replace"]).await;
        assert_eq!(ended.code, Some(1), "{words}: {ended:?}");
        assert!(ended.err.contains(words), "{words}: {ended:?}");
        assert!(!ended.err.contains('\u{1b}'), "{words}: {ended:?}");
        assert_eq!(count(&fixture, "sqlite_schema"), before);
        let names = fs::read_dir(fixture.home()).unwrap().map(|it| it.unwrap().file_name());
        let names: Vec<_> = names.map(|it| it.into_string().unwrap()).collect();
        assert!(!names.iter().any(|it| it.contains("restore")), "{names:?}");
    };
    for length in [0, 10, whole.len() / 2, whole.len() - 4] {
        fs::write(&file, &whole[..length]).unwrap();
        refused("is not a complete backup").await;
    }
    let mut flipped = whole.clone();
    let at = flipped.len() - 6;
    flipped[at] ^= 0xff;
    fs::write(&file, flipped).unwrap();
    refused("is not a complete backup").await;
    fs::write(&file, "hello").unwrap();
    refused("is not a complete backup").await;
    // What follows the archive is no part of it: something that was added, or the whole once more.
    for more in [b"more".as_slice(), whole.as_slice(), &[0; 512]] {
        fs::write(&file, [whole.as_slice(), more].concat()).unwrap();
        refused("is not a complete backup: it goes on after its end").await;
    }
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(whole.as_slice()).read_to_end(&mut content).unwrap();
    content.extend_from_within(..512);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    gz.write_all(&content).unwrap();
    fs::write(&file, gz.finish().unwrap()).unwrap();
    refused("is not a complete backup: it goes on after its end").await;

    fs::write(&file, &whole).unwrap();
    let unpacked = unpacked(&file, fixture.folder());
    let archive = file.display().to_string();
    for (schema, words) in [
        (9999, format!("{archive} was written by a newer peacrab")),
        (6, format!("peacrab: a preview of peacrab wrote {archive} (schema 6)")),
    ] {
        let db = Connection::open(unpacked.join("state.db")).unwrap();
        db.pragma_update(None, "user_version", schema).unwrap();
        drop(db);
        fs::rename(packed(&unpacked, fixture.folder()), &file).unwrap();
        refused(&words).await;
    }

    // An entry that would land elsewhere.
    for (path, kind) in [
        ("../evil", tar::EntryType::Regular),
        // One that would clear the screen where it is named.
        ("evil\u{1b}[2J", tar::EntryType::Regular),
        ("workspace/link", tar::EntryType::Symlink),
    ] {
        let gz =
            flate2::write::GzEncoder::new(fs::File::create(&file).unwrap(), Default::default());
        let mut archive = tar::Builder::new(gz);
        archive
            .append_path_with_name(unpacked.join("peacrab-backup.json"), "peacrab-backup.json")
            .unwrap();
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_link_name("/etc/passwd").unwrap();
        header.set_size(0);
        header.set_mode(0o600);
        header.set_cksum();
        archive.append(&header, std::io::empty()).unwrap();
        archive.into_inner().unwrap().finish().unwrap();
        refused("which no backup has").await;
    }
    assert!(!fixture.folder().join("evil").exists() && !fixture.home().join("../evil").exists());
}

#[tokio::test]
async fn a_restore_that_was_cut_off_is_finished_by_the_next_start() {
    let fixture = ProgramFixture::new("");
    fixture.run(&["chat", "-m", "append one to notes.md"]).await;
    let file = back_up(&fixture).await;
    fixture.run(&["chat", "-m", "append two to notes.md"]).await;
    let ended = fixture.run(&["restore", file.to_str().unwrap(), "--replace"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let notes = || fs::read_to_string(fixture.home().join("workspace/notes.md")).unwrap();
    assert!(!notes().contains("two"));
    // As a crash between two renames leaves it: decided, the store moved, the workspace not.
    let ready = fixture.home().join("restore.ready");
    fs::create_dir(&ready).unwrap();
    fs::create_dir_all(ready.join("workspace")).unwrap();
    fs::write(ready.join("workspace/notes.md"), "three\n").unwrap();
    let before = fixture.home().join("before-restore-x");
    fs::write(ready.join("before"), before.to_str().unwrap()).unwrap();
    restore::finish(&fixture.home()).unwrap();
    assert_eq!(notes(), "three\n");
    assert!(before.join("workspace/notes.md").exists() && !ready.exists());
    restore::finish(&fixture.home()).unwrap();
    // What was not decided is forgotten.
    let partial = fixture.home().join("restore.partial");
    fs::create_dir(&partial).unwrap();
    fs::File::create(partial.join("state.db")).unwrap().write_all(b"half").unwrap();
    let ended = fixture.run(&["restore", file.to_str().unwrap(), "--replace"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(notes().contains("one") && !partial.exists());
}

#[tokio::test]
async fn a_restore_whose_folder_has_lost_its_name_keeps_the_earlier_data() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let (home, ready) = (fixture.home(), fixture.home().join("restore.ready"));
    fs::create_dir_all(ready.join("workspace")).unwrap();
    fs::write(ready.join("workspace/notes.md"), "three\n").unwrap();
    // A power cut has left the file without its content.
    fs::write(ready.join("before"), "").unwrap();
    restore::finish(&home).unwrap();
    assert_eq!(fs::read_to_string(home.join("workspace/notes.md")).unwrap(), "three\n");
    let names = troubles::names(&home);
    let kept = names.iter().find(|name| name.starts_with("before-restore-")).unwrap();
    assert!(home.join(kept).join("workspace/AGENTS.md").exists(), "{names:?}");
}

#[tokio::test]
async fn a_log_without_its_store_is_data_and_no_part_of_what_is_restored() {
    let fixture = ProgramFixture::new("");
    let daemon = fixture.daemon().await;
    let file = back_up(&fixture).await;
    fixture.run(&["chat", "-m", "hello"]).await;
    daemon.kill().await;
    let (home, away) = (fixture.home(), fixture.folder().join("away"));
    let log = fs::read(home.join("state.db-wal")).unwrap();
    assert!(!log.is_empty());
    fs::rename(&home, &away).unwrap();
    fs::create_dir(&home).unwrap();
    for name in ["state.db-wal", "state.db-shm"] {
        fs::copy(away.join(name), home.join(name)).unwrap();
    }
    let restore = ["restore", file.to_str().unwrap(), "--replace"];
    let refused = fixture.run(&restore[..2]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("there is data in"), "{refused:?}");
    let ended = fixture.run(&restore).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let names = troubles::names(&home);
    let kept = names.iter().find(|name| name.starts_with("before-restore-")).unwrap();
    assert_eq!(fs::read(home.join(kept).join("state.db-wal")).unwrap(), log);
    assert!(!names.contains(&"state.db-wal".to_owned()), "{names:?}");
    let ended = fixture.run(&["doctor"]).await;
    assert!(!ended.out.contains("log of the store"), "{ended:?}");
}

#[tokio::test]
async fn the_daemon_makes_backups_by_itself_and_keeps_so_many() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new("");
    let folder = fixture.folder().join("backups");
    fs::create_dir(&folder).unwrap();
    let old = ["peacrab-20200101-000000.tar.gz", "peacrab-20200102-000000.tar.gz"];
    for name in old.iter().chain(&["mine.txt"]) {
        fs::write(folder.join(name), "").unwrap();
    }
    let config = |to: &Path| {
        let text = format!(
            "{}\n[backup]\nto = \"{}\"\nevery = \"1h\"\nkeep = 2\n",
            home(&api),
            to.display()
        );
        fs::write(fixture.folder().join("config.toml"), text).unwrap();
    };
    config(&folder);
    let daemon = fixture.daemon().await;
    let names = || {
        let names = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name());
        let mut names: Vec<_> = names.map(|it| it.into_string().unwrap()).collect();
        names.sort();
        names
    };
    until("the backup", async || (!names().contains(&old[0].to_owned())).then_some(())).await;
    let names = names();
    assert!(
        names.contains(&"mine.txt".to_owned()) && names.contains(&old[1].to_owned()),
        "{names:?}"
    );
    assert_eq!(names.len(), 3, "{names:?}");
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    daemon.terminate().await;
    // Where it cannot be written, the owner hears of it.
    config(&folder.join("mine.txt"));
    let daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, "I couldn't make the regular backup in").await;
    daemon.terminate().await;
    let new = names.iter().find(|name| name.starts_with("peacrab-20") && **name != old[1]).unwrap();
    let ended = fixture.run(&["restore", folder.join(new).to_str().unwrap(), "--replace"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_backup_is_due_by_the_age_of_the_newest() {
    let now: DateTime<Utc> = "2026-11-22T12:00:00Z".parse().unwrap();
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(until_due(None, day, now), Duration::ZERO);
    assert_eq!(until_due(Some(now - TimeDelta::hours(25)), day, now), Duration::ZERO);
    assert_eq!(
        until_due(Some(now - TimeDelta::hours(1)), day, now),
        Duration::from_secs(23 * 3600)
    );
    // Made by a clock that was wrong.
    assert_eq!(until_due(Some(now + TimeDelta::days(400)), day, now), Duration::ZERO);
    assert_eq!(file_name(now), "peacrab-20261122-120000.tar.gz");
}

#[tokio::test]
async fn a_backup_has_every_folder_of_the_home_and_its_memory() {
    let fixture = ProgramFixture::new("");
    let ended = fixture.run(&["chat", "-m", "/remember wish: a statue of a crab"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let files = [
        "workspace/memory/MEMORY.md",
        "workspace/skills/knots/SKILL.md",
        "downloads/inbox/a.pdf",
        "shared/list.md",
        "people/p2/workspace/memory/MEMORY.md",
        "people/p2/downloads/b.txt",
        "groups/g1/c.md",
        "undo/0a",
        "web/out-1-0",
    ];
    for name in files {
        let file = fixture.home().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("I am {name}")).unwrap();
    }
    let sql =
        "INSERT INTO web_logins (hash, person, since, seen, agent) VALUES ('h', 'p', 1, 1, 'a')";
    store(&fixture).execute(sql, []).unwrap();
    let (facts, index) = (count(&fixture, "facts"), count(&fixture, "recall_entries"));
    assert!(facts == 1 && index > 0, "{facts} {index}");
    let file = back_up(&fixture).await;

    let elsewhere = ProgramFixture::new("");
    let ended = elsewhere.run(&["restore", file.to_str().unwrap()]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(!ended.out.contains("There is no config"), "{ended:?}");
    let look = format!("those of that time: please look at {}people`.", elsewhere.here());
    assert!(ended.out.contains(&look), "{ended:?}");
    for name in files {
        let text = fs::read_to_string(elsewhere.home().join(name));
        assert_eq!(text.ok(), Some(format!("I am {name}")));
    }
    assert_eq!((count(&elsewhere, "facts"), count(&elsewhere, "recall_entries")), (facts, index));
    // One of them may have been ended since.
    assert_eq!(count(&elsewhere, "web_logins"), 0);
    let ended = elsewhere.run(&["chat", "-m", "/memory"]).await;
    assert!(ended.out.contains("a statue of a crab"), "{ended:?}");
}

#[tokio::test]
async fn links_and_special_files_are_counted_apart_and_a_missing_config_is_named() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let workspace = fixture.home().join("workspace");
    std::os::unix::fs::symlink("/etc/passwd", workspace.join("link")).unwrap();
    let pipe = workspace.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let file = fixture.folder().join("kept.tar.gz");
    let ended = fixture.run(&["backup", file.to_str().unwrap()]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.contains("Left out: 1 link and 1 special file.\n"), "{ended:?}");
    let second = fixture.folder().join("second.tar.gz");
    let ended = fixture.run(&["backup", "--json", second.to_str().unwrap()]).await;
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&told["links"], &told["special"]), (&json!(1), &json!(1)), "{told}");
    // No backup has the config, which is needed next.
    let elsewhere = ProgramFixture::new("");
    let restore = elsewhere.bare_command(&["restore", file.to_str().unwrap()]);
    let ended = elsewhere.run_with(restore, "").await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let place = elsewhere.home().join("config.toml");
    let words = format!("There is no config at {}", place.display());
    assert!(ended.out.contains(&words), "{ended:?}");
}

#[tokio::test]
async fn a_file_with_names_elsewhere_is_restored_to_the_downloads() {
    let fixture = ProgramFixture::new("");
    let ended = fixture.run(&["chat", "-m", "hello"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let put = |from: &str, to: &str| {
        let (from, to) = (fixture.home().join(from), fixture.home().join(to));
        for file in [&from, &to] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        fs::write(&from, from.file_name().unwrap().as_encoded_bytes()).unwrap();
        fs::hard_link(from, to).unwrap();
    };
    put("downloads/a", "workspace/x/a");
    put("../b", "people/p2/workspace/b");
    put("workspace/repo/c", "workspace/clone/c");
    put("people/p2/workspace/d", "workspace/d");
    fs::create_dir_all(fixture.home().join("downloads/linked-files")).unwrap();
    let file = fixture.folder().join("kept.tar.gz");
    let ended = fixture.run(&["backup", file.to_str().unwrap()]).await;
    let told = "In downloads/linked-files-2/, people/p2/downloads/linked-files/ of it: 4 files";
    assert!(ended.out.contains(told), "{ended:?}");

    let elsewhere = ProgramFixture::new("");
    let ended = elsewhere.run(&["restore", file.to_str().unwrap()]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    for name in [
        "downloads/a",
        "downloads/linked-files-2/x/a",
        "people/p2/downloads/linked-files/b",
        "workspace/repo/c",
        "workspace/clone/c",
        "people/p2/downloads/linked-files/d",
        "downloads/linked-files-2/d",
    ] {
        let text = fs::read_to_string(elsewhere.home().join(name)).ok();
        assert_eq!(text.as_deref(), name.rsplit('/').next(), "{name}");
    }
    for name in ["workspace/x/a", "workspace/d", "people/p2/workspace/b"] {
        assert!(!elsewhere.home().join(name).exists(), "{name}");
    }
}

#[tokio::test]
async fn positions_in_platforms_events_are_kept_only_if_they_are_newer() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let marks = "INSERT INTO marks (channel, name, mark, at) VALUES ('a', '', 'a-1', 1000), ('b', '', 'b-1', 3000)";
    store(&fixture).execute(marks, []).unwrap();
    let file = back_up(&fixture).await;
    store(&fixture)
        .execute_batch(
            "UPDATE marks SET mark = mark || '-changed', at = 2000 WHERE channel IN ('a', 'b');
             INSERT INTO marks (channel, name, mark, at) VALUES ('c', '', 'c-1', 500)",
        )
        .unwrap();
    let ended = fixture.run(&["restore", file.to_str().unwrap(), "--replace"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let store = store(&fixture);
    let mut rows = store
        .prepare("SELECT mark FROM marks WHERE name = '' AND channel <> '' ORDER BY channel")
        .unwrap();
    let found = rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<Vec<String>, _>>();
    assert_eq!(found.unwrap(), ["a-1-changed", "b-1", "c-1"]);
}
