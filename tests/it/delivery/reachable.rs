//! What a channel's link tells its deliveries: they go out as soon as it is back, and what fails while the platform
//! is heard ends, also if nothing else is delivered.

use std::fs;
use std::time::{Duration, Instant};

use peacrab::replies;
use serde_json::json;

use crate::support::fake_channel::{FakeChannel, SendBehavior};
use crate::support::rig::{Rig, RigOptions, USER};
use crate::support::script::{Gate, calls, held, says};

#[tokio::test]
async fn what_waits_is_delivered_as_soon_as_the_link_is_back() {
    let mut rig = Rig::new().await;
    let gate = Gate::shut();
    rig.model.on("wait", [held(&gate, says("done"))]);
    rig.say("1", "wait");
    rig.wait_at(&gate).await;
    rig.home.next("1", [SendBehavior::Busy(Duration::from_secs(29))]);
    rig.home.goes_away(true);
    gate.open();
    let begun = Instant::now();
    rig.wait_for_count("SELECT count(*) FROM outbox WHERE failing_since IS NOT NULL", 1).await;
    rig.home.goes_away(false);
    assert_eq!(rig.next_message("1").await, "done");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    rig.finish().await;
}

#[tokio::test]
async fn what_may_have_arrived_is_not_repeated_each_time_the_link_comes_back() {
    let mut rig = Rig::new().await;
    rig.home.next("1", [SendBehavior::Loses, SendBehavior::Loses]);
    rig.say("1", "hello");
    rig.wait_for_count("SELECT attempts FROM outbox", 2).await;
    rig.execute("UPDATE outbox SET next = failed_at + 25000");
    rig.home.goes_away(true);
    rig.stop().await;
    rig.home.goes_away(false);
    rig.start().await;
    // The link is up.
    assert_eq!(rig.ask("2", "hello").await, "re: hello");
    assert_eq!(rig.home.tried("1").len(), 2);
    rig.say("1", "and now?");
    let marked = replies::perhaps_repeated("re: hello");
    assert_eq!(rig.next_messages("1", 2).await, [&*marked, "re: and now?"]);
    rig.finish().await;
}

#[tokio::test]
async fn words_take_the_place_of_a_file_whose_uploads_come_to_nothing_though_nothing_else_arrives()
{
    let fake_channel = FakeChannel::taking_files_and_knowing(1_000).doubting_shortly();
    let mut rig = Rig::with(fake_channel, RigOptions::default()).await;
    fs::write(rig.workspace().join("plan.md"), "tides").unwrap();
    rig.home.always_files(SendBehavior::Loses);
    let file = json!({"files": ["plan.md"]});
    rig.model.on("send", [calls(&[("message", file)]), says("NO_REPLY")]);
    assert_eq!(rig.ask("1", "send it").await, replies::file_not_sent("plan.md", "cut off"));
    let uploads = rig.home.tried("1").iter().filter(|text| text.is_empty()).count();
    // Before the second one, nobody has asked the platform whether it has the file.
    assert_eq!(uploads, 13);
    rig.finish().await;
}

#[tokio::test]
async fn gives_up_what_may_have_arrived_six_times_while_the_platform_is_heard() {
    let mut rig = Rig::with(FakeChannel::new().doubting_shortly(), RigOptions::default()).await;
    rig.home.always("1", SendBehavior::Loses);
    rig.say("1", "hello");
    rig.wait_until(|rig| {
        rig.home.overhears(rig.home.message(USER, "-5", "to others"));
        rig.query("SELECT state FROM outbox") == ["dead"]
    })
    .await;
    assert_eq!(rig.home.tried("1").len(), 6);
    rig.home.always("1", SendBehavior::Takes);
    rig.say("1", "and now?");
    let explained = replies::given_up_here(1, "nobody can say whether it arrived");
    assert_eq!(rig.next_messages("1", 2).await, ["re: and now?", &explained]);
    rig.finish().await;
}
