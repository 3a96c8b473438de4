//! Backups that take no place of better ones: of a damaged store, and in a folder whose disk is not there.

use std::fs;

use peacrab::backup::schedule::{FolderLook, ReportedTroubles};
use peacrab::replies;
use serde_json::{Value, json};

use super::troubles::{count, makes_one, mark, names, with_backups};
use crate::support::binary::{Daemon, ProgramFixture, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::ADA;
use crate::support::damage::damage;

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
