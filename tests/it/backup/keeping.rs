//! Backups that take no place of better ones: of a damaged store, and in a folder whose disk is not there.

use std::fs;

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
