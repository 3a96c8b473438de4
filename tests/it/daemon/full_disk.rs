//! A daemon whose disk is really full when it starts: a file system in memory, in a mount namespace of the test's
//! own. Not run where that is not allowed.

use std::fs;

use peacrab::replies;

use crate::support::binary::{Daemon, ProgramFixture, home, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB};
use crate::support::disk::Disk;

async fn logs(daemon: &Daemon, words: &str) {
    until(words, async || daemon.log().contains(words).then_some(())).await;
}

#[tokio::test]
async fn starts_on_a_full_disk_by_its_ballast_or_waits_for_room() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let Some(disk) = Disk::of(&fixture).await else {
        return;
    };
    let daemon = disk.begin(&fixture);
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    assert!(daemon.terminate().await.success());
    assert!(disk.has("ballast"));

    // Orderly stopped, nothing is left of the log of the database.
    disk.fill();
    let daemon = disk.begin(&fixture);
    api.wait_for_words(ADA.id, replies::DISK_IS_FULL).await;
    assert!(daemon.log().contains("released the ballast file"), "{}", daemon.log());
    assert!(!disk.has("ballast"));
    disk.make_room();
    api.say(&said(&ADA, "and now"));
    api.wait_for_words(ADA.id, "You said: and now").await;
    assert!(daemon.terminate().await.success());

    // Nothing is left to be freed.
    fs::remove_file(disk.home.join("ballast")).ok();
    disk.fill();
    let daemon = disk.begin(&fixture);
    logs(&daemon, "waiting for free space").await;
    api.say(&said(&ADA, "are you there"));
    disk.make_room();
    api.wait_for_words(ADA.id, "You said: are you there").await;
    assert!(disk.has("ballast"), "it was not taken in again");
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn a_start_that_waits_for_room_leaves_no_empty_store_and_can_be_ended() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let Some(disk) = Disk::of(&fixture).await else {
        return;
    };
    let daemon = disk.begin(&fixture);
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    assert!(daemon.terminate().await.success());

    // Somebody begins anew.
    for name in ["state.db", "ballast"] {
        fs::remove_file(disk.home.join(name)).unwrap();
    }
    fs::remove_dir_all(disk.home.join("undo")).unwrap();
    disk.fill();
    let daemon = disk.begin(&fixture);
    logs(&daemon, "waiting for free space").await;
    assert!(!disk.has("state.db"));
    assert!(daemon.terminate().await.success());
    assert!(!disk.has("state.db"));
    let daemon = disk.begin(&fixture);
    logs(&daemon, "waiting for free space").await;
    disk.make_room();
    api.say(&said(&ADA, "are you there"));
    api.wait_for_words(ADA.id, "You said: are you there").await;
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn the_owner_hears_of_a_full_disk_while_it_runs_and_while_a_start_waits() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let Some(disk) = Disk::of(&fixture).await else {
        return;
    };
    let daemon = disk.begin(&fixture);
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    disk.fill();
    api.say(&said(&BOB, "are you there"));
    api.wait_for_words(ADA.id, replies::DISK_HAS_NO_SPACE).await;
    disk.make_room();
    api.wait_for_words(BOB.id, "You said: are you there").await;
    assert!(daemon.terminate().await.success());

    fs::remove_file(disk.home.join("ballast")).ok();
    disk.fill();
    let daemon = disk.begin(&fixture);
    api.wait_for_words(ADA.id, replies::START_WAITS_FOR_SPACE).await;
    assert!(daemon.terminate().await.success());
}

#[tokio::test]
async fn a_start_that_waits_for_room_is_told_alike_by_every_command() {
    let fixture = ProgramFixture::new("");
    let Some(disk) = Disk::of(&fixture).await else {
        return;
    };
    let daemon = disk.begin(&fixture);
    logs(&daemon, "Started").await;
    assert!(daemon.terminate().await.success());
    fs::remove_file(disk.home.join("ballast")).unwrap();
    disk.fill();
    let daemon = disk.begin(&fixture);
    logs(&daemon, "waiting for free space").await;
    for command in [&["status"] as &[&str], &["reload"], &["run"], &["send", "--to", "owner", "x"]]
    {
        let ended = disk.run(&fixture, command).await;
        assert_eq!(ended.code, Some(1), "{command:?}: {ended:?}");
        let words = "which waits for free space on the disk";
        assert!(ended.err.contains(words), "{command:?}: {ended:?}");
        assert!(!ended.err.contains("no daemon runs"), "{command:?}: {ended:?}");
    }
    // To stop it, or to begin elsewhere, would be wrong.
    for command in [&["run"] as &[&str], &["chat", "-m", "hello"]] {
        let ended = disk.run(&fixture, command).await;
        assert!(ended.err.contains("free some space"), "{ended:?}");
        assert!(!ended.err.contains("stop it first"), "{ended:?}");
    }
    let ended = disk.run(&fixture, &["doctor"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for words in ["WRONG daemon: the daemon cannot start (process ", "free some space"] {
        assert!(ended.out.contains(words), "{words}: {ended:?}");
    }
    assert!(!ended.out.contains("dmesg"), "{ended:?}");
    disk.make_room();
    logs(&daemon, "Started").await;
    let ended = disk.run(&fixture, &["run"]).await;
    assert!(ended.err.contains("another peacrab is running"), "{ended:?}");
    assert!(!ended.err.contains("waits for free space"), "{ended:?}");
    assert_eq!(disk.run(&fixture, &["status"]).await.code, Some(0));
    assert!(daemon.terminate().await.success());
    // The lock alone tells nothing of a daemon that has ended.
    let ended = disk.run(&fixture, &["status"]).await;
    assert!(ended.err.contains("no daemon runs"), "{ended:?}");
}
