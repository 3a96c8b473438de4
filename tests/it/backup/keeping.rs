//! Backups that take no place of better ones: of a damaged store, of a home without its workspace, and in a folder whose disk
//! is not there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use peacrab::backup::schedule::{self, FolderLook, ReportedTroubles};
use peacrab::bus::Bus;
use peacrab::people::People;
use peacrab::replies;
use peacrab::store::{Store, StoreOptions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::troubles::{count, makes_one, mark, names, with_backups};
use crate::support::binary::{Daemon, ProgramFixture, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;
use crate::support::damage::damage;
use crate::support::rig::Rig;

#[tokio::test]
async fn a_damaged_store_is_not_backed_up_and_good_backups_stay() {
    let api = BotApi::start().await;
    let folder = tempfile::tempdir().unwrap();
    let fixture = ProgramFixture::new(&with_backups(&api, folder.path(), 1));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    makes_one(&daemon).await;
    daemon.terminate().await;
    // The next one is due.
    let good = format!("peacrab-20200101-000000-{}.tar.gz", mark(&fixture));
    let made = folder.path().join(&names(folder.path())[0]);
    fs::rename(made, folder.path().join(&good)).unwrap();
    damage(&fixture.home().join("state.db"), "strangers");
    let daemon = fixture.daemon().await;
    api.wait_for_words(ADA.id, replies::DATABASE_DAMAGED).await;
    assert!(!daemon.log().contains("Made a backup"), "{}", daemon.log());
    assert_eq!(names(folder.path()), [good.as_str()]);
    let ended = fixture.run(&["status"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let by_hand = fixture.folder().join("kept.tar.gz");
    let ended = fixture.run(&["backup", by_hand.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["cannot be backed up: the database is damaged", "restore the newest backup"] {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert!(!by_hand.exists());
    daemon.terminate().await;
    // As it is told, it is done.
    let good = folder.path().join(good);
    let ended = fixture.run(&["restore", good.to_str().unwrap(), "--replace"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let daemon = fixture.daemon().await;
    makes_one(&daemon).await;
}

#[tokio::test]
async fn a_workspace_that_is_gone_from_a_used_home_is_not_made_anew() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let (root, away) = (fixture.home().join("workspace"), fixture.folder().join("away"));
    fs::write(root.join("precious.md"), "tea").unwrap();
    fs::rename(&root, &away).unwrap();
    let refuses = async |words: &str| {
        for command in [&["run"] as &[&str], &["doctor"], &["backup", "kept.tar.gz"]] {
            let mut command = fixture.command(&[], command);
            command.current_dir(fixture.folder());
            let ended = fixture.run_with(command, "").await;
            assert_eq!(ended.code, Some(1), "{ended:?}");
            let said = format!("{}{}", ended.out, ended.err).replace("\n      ", " ");
            assert!(said.contains(words), "{words}: {ended:?}");
        }
        fs::remove_file(fixture.folder().join("kept.tar.gz")).unwrap();
        assert!(!root.join("AGENTS.md").exists());
    };
    refuses("is gone, although this home was in use").await;
    // The command is one for this home, not for the default one.
    for options in [&["named.tar.gz"] as &[&str], &["shown.tar.gz", "--json"]] {
        let mut command = fixture.command(&[], &[&["backup"] as &[&str], options].concat());
        command.current_dir(fixture.folder());
        let ended = fixture.run_with(command, "").await;
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains(" restore FILE --replace`"), "{ended:?}");
        assert!(said.contains(&format!(" --home {} ", fixture.home().display())), "{ended:?}");
        assert!(!said.contains("`peacrab restore"), "{ended:?}");
    }
    // The folder on which its disk is mounted.
    fs::create_dir(&root).unwrap();
    refuses("is empty, although this home was in use").await;
    fs::remove_dir(&root).unwrap();
    symlink(fixture.folder().join("not-mounted"), &root).unwrap();
    refuses("not-mounted, which is not there").await;
    // A link does not stand in the way of a restore, which a home without a workspace is told to make.
    fs::remove_file(&root).unwrap();
    fs::rename(&away, &root).unwrap();
    let file = super::back_up(&fixture).await;
    fs::rename(&root, &away).unwrap();
    symlink(fixture.folder().join("not-mounted"), &root).unwrap();
    let ended = fixture.run(&["restore", file.to_str().unwrap(), "--replace"]).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    fixture.daemon().await.terminate().await;
    assert_eq!(fs::read_to_string(root.join("precious.md")).unwrap(), "tea");
    // To move the record away is to begin anew.
    fs::remove_dir_all(&root).unwrap();
    fs::remove_file(fixture.home().join("template.json")).unwrap();
    fixture.daemon().await.terminate().await;
    assert!(root.join("AGENTS.md").exists() && !root.join("precious.md").exists());
}

#[tokio::test]
async fn a_home_starts_after_the_restore_of_a_backup_without_a_workspace() {
    let fixture = ProgramFixture::new("");
    fixture.daemon().await.terminate().await;
    let root = fixture.home().join("workspace");
    fs::remove_dir_all(&root).unwrap();
    fs::create_dir(&root).unwrap();
    let kept = fixture.folder().join("kept.tar.gz");
    let restore = ["restore", kept.to_str().unwrap(), "--replace"];
    let ended = fixture.run(&["backup", kept.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let ended = fixture.run(&restore).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("The backup has no workspace"), "{ended:?}");
    fixture.daemon().await.terminate().await;
    assert!(root.join("AGENTS.md").exists());
    // One with a workspace is compared by the record, which stays.
    assert_eq!(super::back_up(&fixture).await, kept);
    let ended = fixture.run(&restore).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.out.contains("has no workspace"), "{ended:?}");
    assert!(fixture.home().join("template.json").exists());
}

#[tokio::test]
async fn a_workspace_that_is_lost_while_the_daemon_runs_is_not_backed_up_regularly() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    rig.wait_until(|rig| rig.path().join("template.json").exists()).await;
    rig.stop().await;
    fs::rename(rig.workspace(), rig.path().join("away")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = schedule::Config {
        folder: folder.path().to_owned(),
        every: Duration::from_secs(3600),
        keep: 1,
    };
    let store = Store::open(&rig.path(), &StoreOptions::default()).unwrap();
    let bus = Bus::new(store, People::new(BTreeMap::new()), 10);
    let stop = CancellationToken::new();
    let told = "SELECT body FROM outbox WHERE body LIKE '%My workspace is missing%'";
    let waiting = async {
        rig.wait_until(|rig| rig.query(told).len() == 1).await;
        stop.cancel();
    };
    tokio::join!(schedule::run(rig.path(), config, bus.clone(), stop.clone()), waiting);
    bus.store.close().await;
    assert_eq!(names(folder.path()), Vec::<String>::new());
    fs::rename(rig.path().join("away"), rig.workspace()).unwrap();
    rig.start().await;
    assert!(rig.next_message("1").await.contains("restore the newest backup"));
    rig.finish().await;
}

/// Ada says something and is answered, so that a look at the folder would have been told before.
async fn goes_on_quietly(api: &BotApi, daemon: &Daemon, words: &str) {
    api.say(&said(&ADA, words));
    api.wait_for_words(ADA.id, &format!("You said: {words}")).await;
    assert_eq!(count(&daemon.log(), "Cannot make the regular backup"), 0, "{}", daemon.log());
}

/// Makes a backup due, as far as the home remembers its folder.
fn make_due(fixture: &ProgramFixture) {
    let file = fixture.home().join("backup-folder");
    let mut known: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(known["newest"].is_string(), "{known}");
    known["newest"] = json!("2020-01-01T00:00:00Z");
    fs::write(&file, known.to_string()).unwrap();
}

#[test]
fn a_false_alarm_silences_no_later_one() {
    use FolderLook::{Failed, Fine, Missing};
    let told = |looks: &[FolderLook]| {
        let mut troubles = ReportedTroubles::default();
        let tell = |(at, look): (usize, &FolderLook)| {
            let is_told = troubles.note(*look);
            if is_told {
                troubles.note_told();
            }
            is_told.then_some(at)
        };
        looks.iter().enumerate().filter_map(tell).collect::<Vec<_>>()
    };
    // A disk is mounted after the start.
    assert!(told(&[Missing, Fine, Missing, Fine]).is_empty());
    // It stays away.
    assert_eq!(told(&[Missing, Missing, Missing, Failed, Failed]), [1]);
    assert_eq!(told(&[Failed, Failed, Fine, Failed]), [0, 3]);
    assert_eq!(told(&[Failed, Missing, Fine, Missing, Failed]), [0, 4]);
    // One that could not be told is told at the next look.
    let mut troubles = ReportedTroubles::default();
    assert!(troubles.note(Failed) && troubles.note(Failed));
}

#[tokio::test]
async fn a_folder_that_is_mounted_after_the_start_causes_no_alarm() {
    let api = BotApi::start().await;
    let disk = tempfile::tempdir().unwrap();
    let (folder, away) = (disk.path().join("peacrab"), disk.path().join("away"));
    let fixture = ProgramFixture::new(&with_backups(&api, &folder, 3));
    let daemon = fixture.daemon().await;
    makes_one(&daemon).await;
    goes_on_quietly(&api, &daemon, "hello").await;
    daemon.terminate().await;
    fs::rename(&folder, &away).unwrap();
    let daemon = fixture.daemon().await;
    let missing = "The folder of the backups is missing";
    until("the look", async || daemon.log().contains(missing).then_some(())).await;
    goes_on_quietly(&api, &daemon, "and now").await;
    assert!(!folder.exists());
    let is_alarm = |text: &str| text.contains("I couldn't make the regular backup");
    assert!(!api.sent().iter().any(|sent| is_alarm(&sent.text)));
}

#[tokio::test]
async fn a_folder_that_is_gone_is_not_made_again_and_the_owner_hears_of_it() {
    let api = BotApi::start().await;
    let disk = tempfile::tempdir().unwrap();
    let (folder, away) = (disk.path().join("peacrab"), disk.path().join("away"));
    let fixture = ProgramFixture::new(&with_backups(&api, &folder, 3));
    let daemon = fixture.daemon().await;
    makes_one(&daemon).await;
    goes_on_quietly(&api, &daemon, "hello").await;
    daemon.terminate().await;
    fs::rename(&folder, &away).unwrap();
    make_due(&fixture);
    let daemon = fixture.daemon().await;
    let told = api.wait_for_words(ADA.id, "I couldn't make the regular backup in").await;
    assert!(told.text.contains("any more: mount its disk"), "{told:?}");
    assert!(!folder.exists());
    let ended = fixture.run(&["doctor"]).await;
    assert!(ended.out.contains("WRONG backups: there is no folder"), "{ended:?}");
    daemon.terminate().await;
    fs::rename(&away, &folder).unwrap();
    let daemon = fixture.daemon().await;
    goes_on_quietly(&api, &daemon, "and now").await;
}

#[tokio::test]
async fn a_folder_whose_disk_is_not_mounted_gets_no_backups() {
    let api = BotApi::start().await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fixture = ProgramFixture::new(&with_backups(&api, folder, 3));
    let daemon = fixture.daemon().await;
    makes_one(&daemon).await;
    goes_on_quietly(&api, &daemon, "hello").await;
    let file = fixture.home().join("backup-folder");
    until("the file", async || file.exists().then_some(())).await;
    daemon.terminate().await;
    let known: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(known["folder"], json!(folder));
    assert!(folder.canonicalize().unwrap().starts_with(known["mount"].as_str().unwrap()));
    // As if there had been a disk.
    let disk = json!({ "folder": folder, "mount": folder.canonicalize().unwrap() });
    fs::write(&file, disk.to_string()).unwrap();
    let before = names(folder);
    let made = folder.join(&before[0]);
    let old = folder.join(format!("peacrab-20200101-000000-{}.tar.gz", mark(&fixture)));
    fs::rename(made, &old).unwrap();
    let daemon = fixture.daemon().await;
    let told = api.wait_for_words(ADA.id, "I couldn't make the regular backup in").await;
    assert!(told.text.contains("is not on its disk, because"), "{told:?}");
    assert_eq!(names(folder), [old.file_name().unwrap().to_str().unwrap()]);
    let ended = fixture.run(&["doctor"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("WRONG backups: "), "{ended:?}");
    daemon.terminate().await;
    // It is meant.
    fs::remove_file(&file).unwrap();
    let daemon = fixture.daemon().await;
    makes_one(&daemon).await;
    until("the file", async || file.exists().then_some(())).await;
}
