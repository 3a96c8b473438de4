//! The safe mode: a daemon that was killed again and again answers, and nothing acts by itself.

use std::fs;

use peacrab::daemon::starts::{FoundDamage, STARTS_MAX, StartRecord, WITHIN_S};
use rusqlite::Connection;

use crate::support::binary::{Daemon, ProgramFixture, home, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB};

/// A daemon that was killed so often, and was started again.
async fn killed(fixture: &ProgramFixture, times: usize) -> Daemon {
    for _ in 0..times {
        fixture.daemon().await.kill().await;
    }
    fixture.daemon().await
}

#[tokio::test]
async fn three_kills_in_five_minutes_lead_to_a_mode_in_which_nothing_acts_by_itself() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;
    let job = ["cron", "add", "--at", "1h", "--message", "Water the plants."];
    let ended = fixture.run(&job).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    daemon.kill().await;
    let daemon = killed(&fixture, 1).await;
    assert!(fixture.status().await["safe_mode"].is_null(), "two are not enough");
    daemon.kill().await;

    // The job is due, and does not run.
    let store = Connection::open(fixture.home().join("state.db")).unwrap();
    store.execute("UPDATE jobs SET next = next - 8000000", []).unwrap();
    drop(store);
    let daemon = fixture.daemon().await;
    let told = api.wait_for_words(ADA.id, "I'm in safe mode").await;
    assert!(told.text.contains("was killed 3 times"), "{told:?}");
    assert!(told.text.contains("peacrab reload"), "{told:?}");
    let status = fixture.run(&["status"]).await;
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.out.contains("I'm in safe mode"), "{status:?}");
    assert_eq!(fixture.status().await["safe_mode"]["starts"], 3);
    api.say(&said(&BOB, "are you there?"));
    api.wait_for_words(BOB.id, "You said: are you there?").await;
    api.say(&said(&ADA, "/status"));
    let shown = api.wait_for_words(ADA.id, "idle here").await;
    assert!(shown.text.contains("To leave safe mode"), "{shown:?}");
    assert!(daemon.log().contains("Running in safe mode"), "{}", daemon.log());
    assert!(!api.sent().iter().any(|sent| sent.text.contains("Water")), "{:?}", api.sent());

    // It is told once, however often it is killed on.
    daemon.kill().await;
    let _daemon = fixture.daemon().await;
    assert_eq!(fixture.status().await["safe_mode"]["starts"], 4);
    // The way out.
    let ended = fixture.run(&["reload"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    api.wait_for_words(ADA.id, "Water the plants.").await;
    until("the usual mode", async || {
        let ended = fixture.run(&["status", "--json"]).await;
        (ended.code == Some(0) && ended.out.contains("\"safe_mode\": null")).then_some(())
    })
    .await;
    let notices = api.sent().into_iter().filter(|sent| sent.text.starts_with("I'm in safe mode"));
    assert_eq!(notices.filter(|sent| !sent.text.contains("idle here")).count(), 1);
}

#[tokio::test]
async fn an_orderly_end_begins_the_count_anew() {
    let fixture = ProgramFixture::new("");
    killed(&fixture, 2).await.terminate().await;
    let daemon = killed(&fixture, 2).await;
    assert!(fixture.status().await["safe_mode"].is_null());
    daemon.kill().await;
    let daemon = fixture.daemon().await;
    assert_eq!(fixture.status().await["safe_mode"]["starts"], 3);
    daemon.terminate().await;
    let _daemon = fixture.daemon().await;
    assert!(fixture.status().await["safe_mode"].is_null());
}

#[tokio::test]
async fn an_unreadable_record_is_none() {
    let fixture = ProgramFixture::new("");
    killed(&fixture, 2).await.kill().await;
    fs::write(fixture.home().join("starts.json"), "{\"boot\": 3").unwrap();
    let _daemon = fixture.daemon().await;
    assert!(fixture.status().await["safe_mode"].is_null());
}

#[test]
fn starts_count_by_the_clock_of_one_boot() {
    let started = |times: &[u64]| {
        let start = |record: StartRecord, at: &u64| record.started("a", *at);
        times.iter().fold(StartRecord::default(), start)
    };
    // The first start follows nothing.
    assert_eq!(started(&[10]).safe_mode(), None);
    assert_eq!(started(&[10, 20, 30]).safe_mode(), None);
    assert_eq!(started(&[10, 20, 30, 40]).safe_mode(), Some(STARTS_MAX));
    // Slowly.
    assert_eq!(started(&[10, 200, 400, 600]).safe_mode(), None);
    assert_eq!(started(&[0, 1, 2, WITHIN_S]).safe_mode(), Some(3));
    assert_eq!(started(&[0, 1, 2, WITHIN_S + 1]).safe_mode(), None);
    // Power cuts are no fault of the program.
    let rebooted = started(&[10, 20, 30]).started("b", 5);
    assert_eq!(rebooted.unexpected, Vec::<u64>::new());
    assert_eq!(rebooted.started("b", 8).unexpected, [8]);
    // Damage of the store is known across boots, until a start finds it whole.
    let damaged = StartRecord { damage: FoundDamage::Told, ..started(&[10]) };
    assert_eq!(damaged.started("b", 5).damage, FoundDamage::Told);
    // A former version has not recorded it.
    let former = r#"{"boot": "a", "runs": true, "unexpected": [1], "is_reported": false}"#;
    let former: StartRecord = serde_json::from_str(former).unwrap();
    assert_eq!((former.runs, former.damage), (true, FoundDamage::None));
    // The owner is told again once it was over.
    let told = StartRecord { is_reported: true, ..started(&[10, 20, 30, 40]) };
    assert!(told.clone().started("a", 50).is_reported);
    assert!(!told.started("a", 1000).is_reported);
}
