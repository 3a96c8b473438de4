//! Backups that take no place of better ones: of a damaged store, and in a folder whose disk is not there.

use std::fs;

use peacrab::replies;

use super::troubles::{makes_one, mark, names, with_backups};
use crate::support::binary::{ProgramFixture, said};
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
