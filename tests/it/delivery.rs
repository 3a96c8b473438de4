//! Deliveries: in order, once, and none held up by what hangs elsewhere.

mod drain;
mod patience;
mod reachable;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use peacrab::replies;
use serde_json::json;

use crate::support::fake_channel::{FakeChannel, SendBehavior};
use crate::support::rig::{OWNER, Rig, RigOptions};
use crate::support::script::{calls, says};

#[tokio::test]
async fn waits_as_long_as_the_platform_says() {
    let mut rig = Rig::new().await;
    let after = Duration::from_millis(300);
    rig.home.next("1", [SendBehavior::Busy(after), SendBehavior::Busy(after)]);
    let begun = Instant::now();
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    assert!(begun.elapsed() >= 2 * after);
    assert_eq!(rig.home.tried("1").len(), 3);
    rig.finish().await;
}

#[tokio::test]
async fn gives_up_at_once_what_is_refused_and_tells_the_owner() {
    let mut rig = Rig::with(FakeChannel::with(false, 100), RigOptions::default()).await;
    rig.ask("owner", "hello").await;
    rig.home.next("gone", [SendBehavior::Takes, SendBehavior::Refuses]);
    let long = "lorem ipsum ".repeat(40);
    rig.model.on("long", [says(&long)]);
    rig.say_as("8", "gone", "long");
    rig.next_message("gone").await;
    let words = replies::undeliverable("home:gone", "the chat is gone");
    assert_eq!(rig.next_message("owner").await.replace('\n', " "), words.replace('\n', " "));
    assert_eq!(rig.home.tried("gone").len(), 2, "later parts were sent after a refusal");
    rig.say_as("8", "gone", "next");
    assert_eq!(rig.next_message("gone").await, "re: next");
    rig.finish().await;
}

#[tokio::test]
async fn tells_the_owner_of_what_did_not_arrive_in_their_own_chat() {
    let mut rig = Rig::new().await;
    rig.home.next("1", [SendBehavior::Refuses]);
    assert_eq!(rig.ask("1", "hello").await, replies::undeliverable_here("the chat is gone"));
    // But not of that word itself, without end.
    rig.home.next("1", [SendBehavior::Refuses, SendBehavior::Refuses]);
    rig.say("1", "hello");
    rig.settled().await;
    assert_eq!(rig.ask("1", "again").await, "re: again");
    rig.finish().await;
}

#[tokio::test]
async fn marks_what_may_have_arrived_before() {
    let mut rig = Rig::new().await;
    rig.home.next("1", [SendBehavior::Loses]);
    let marked = replies::perhaps_repeated("re: hello");
    assert_eq!(rig.ask("1", "hello").await, marked);
    rig.finish().await;
}

#[tokio::test]
async fn gives_up_what_may_have_arrived_three_times() {
    let mut rig = Rig::new().await;
    rig.ask("owner", "hello").await;
    rig.home.always("8", SendBehavior::Loses);
    rig.say_as("8", "8", "hello");
    rig.wait_until(|rig| !rig.home.tried("8").is_empty()).await;
    rig.ask("owner", "are you there?").await;
    let told = rig.next_message("owner").await;
    assert_eq!(told, replies::undeliverable("home:8", "nobody can say whether it arrived"));
    let marked = replies::perhaps_repeated("re: hello");
    assert_eq!(rig.home.tried("8"), ["re: hello", &marked, &marked]);
    rig.finish().await;
}

#[tokio::test]
async fn does_not_give_up_what_may_have_arrived_while_nothing_else_arrives() {
    let mut rig = Rig::new().await;
    let lost = vec![SendBehavior::Loses; 3];
    rig.home.next("1", lost);
    let marked = replies::perhaps_repeated("re: hello");
    assert_eq!(rig.ask("1", "hello").await, marked);
    assert_eq!(rig.home.tried("1"), ["re: hello", &marked, &marked, &marked]);
    rig.finish().await;
}

#[tokio::test]
async fn explains_what_it_gave_up_while_others_arrived_with_the_next_delivery_that_works() {
    let fake_channel = FakeChannel::new().giving_up_soon();
    let mut rig = Rig::with(fake_channel, RigOptions::default()).await;
    rig.ask("owner", "hello").await;
    rig.home.always("8", SendBehavior::Busy(Duration::from_millis(200)));
    rig.say_as("8", "8", "hello");
    let given_up = replies::undeliverable("home:8", "busy");
    let mut asked = 0;
    while rig.ask("owner", "and now?").await != given_up {
        asked += 1;
        assert!(asked < 1000, "it is never given up");
        tokio::task::yield_now().await;
    }
    rig.home.always("8", SendBehavior::Takes);
    rig.say_as("8", "8", "next");
    assert_eq!(rig.next_messages("8", 2).await, ["re: next", &replies::given_up_here(1, "busy")]);
    // The owner still waits for the answer that the word came before.
    assert_eq!(rig.next_message("owner").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn gives_nothing_up_and_keeps_the_order_while_the_platform_is_away() {
    let fake_channel = FakeChannel::new().giving_up_soon();
    let mut rig = Rig::with(fake_channel, RigOptions::default()).await;
    let away = SendBehavior::Busy(Duration::from_millis(200));
    for chat in ["1", "2"] {
        rig.home.always(chat, away.clone());
        for text in ["a", "b", "c"] {
            rig.say(chat, text);
        }
    }
    // Longer than what is given up while others arrive.
    let failing = "SELECT count(*) FROM outbox WHERE failed_at - failing_since > 2500 AND head = 1";
    rig.wait_for_count(failing, 2).await;
    rig.wait_for_count("SELECT count(*) FROM outbox WHERE lets_others_pass = 1", 0).await;
    for chat in ["1", "2"] {
        rig.home.always(chat, SendBehavior::Takes);
    }
    for chat in ["1", "2"] {
        let heard = rig.next_messages(chat, 1).await.concat();
        assert!(heard.contains("re: a"), "{heard}");
    }
    rig.settled().await;
    assert_eq!(rig.query("SELECT state FROM outbox WHERE state <> 'sent'"), Vec::<String>::new());
    rig.stop().await;
}

/// A rig in which a file is sent to `1`, and is lost each time.
async fn sending_a_file_for_ever(fake_channel: FakeChannel) -> Rig {
    let mut rig = Rig::with(fake_channel, RigOptions::default()).await;
    fs::write(rig.workspace().join("plan.md"), "tides").unwrap();
    rig.home.always_files(SendBehavior::Loses);
    let file = json!({"files": ["plan.md"]});
    rig.model.on("send", [calls(&[("message", file)]), says("NO_REPLY")]);
    rig.say("1", "send it");
    rig.wait_for_count("SELECT count(*) FROM turns WHERE ending IS NOT NULL", 1).await;
    rig
}

#[tokio::test]
async fn what_overtakes_a_file_that_fails_for_ever_names_its_question() {
    let fake_channel = FakeChannel::taking_files_and_knowing(1_000).giving_up_soon();
    let mut rig = sending_a_file_for_ever(fake_channel).await;
    rig.say("1", "hello");
    let home = Arc::clone(&rig.home);
    let heard = rig.next_messages_on(Arc::clone(&home), "1", 1).await.remove(0);
    assert_eq!((heard.text.as_str(), heard.reply_to.as_deref()), ("re: hello", Some("m2")));
    rig.say("1", "still there?");
    let heard = rig.next_messages_on(Arc::clone(&home), "1", 1).await.remove(0);
    assert_eq!((heard.text.as_str(), heard.reply_to.as_deref()), ("re: still there?", Some("m3")));
    // Once others have arrived for a while, words take its place, and the pauses have grown.
    rig.wait_for_count("SELECT others_arrived FROM outbox WHERE id = 1", 1).await;
    rig.say("1", "hm");
    let heard = rig.next_messages("1", 2).await;
    assert_eq!(heard, ["re: hm", &replies::file_not_sent("plan.md", "cut off")]);
    let uploads = rig.home.tried("1").iter().filter(|text| text.is_empty()).count();
    assert!((5..=7).contains(&uploads), "{uploads}");
    rig.finish().await;
}

#[tokio::test]
async fn what_overtakes_quotes_its_question_where_messages_cannot_name_it() {
    let fake_channel =
        FakeChannel::taking_files_and_knowing(1_000).giving_up_soon().without_replies();
    let mut rig = sending_a_file_for_ever(fake_channel).await;
    assert_eq!(rig.ask("1", "hello").await, "> hello\n\nre: hello");
    let long = "when is high water, and how long does it take to walk to the island and back?";
    rig.model.on("high water", [says("At six.")]);
    let quoted = "> when is high water, and how long does it take to walk to the…\n\nAt six.";
    assert_eq!(rig.ask("1", long).await, quoted);
    rig.stop().await;
}

#[tokio::test]
async fn asks_a_platform_that_knows_before_it_sends_again() {
    let mut rig = Rig::with(FakeChannel::with(true, 4000), RigOptions::default()).await;
    rig.home.next("1", [SendBehavior::Swallows]);
    rig.home.next("2", [SendBehavior::Loses]);
    rig.say("1", "hello");
    rig.say("2", "hello");
    assert_eq!(rig.next_message("1").await, "re: hello");
    assert_eq!(rig.next_message("2").await, "re: hello");
    rig.settled().await;
    assert_eq!(rig.home.tried("1").len(), 1);
    assert_eq!(rig.home.tried("2"), ["re: hello", "re: hello"]);
    rig.finish().await;
}

#[tokio::test]
async fn does_not_forget_that_a_message_may_be_there_while_it_cannot_be_sent() {
    let mut rig = Rig::with(FakeChannel::with(true, 4000), RigOptions::default()).await;
    let busy = SendBehavior::Busy(Duration::from_millis(10));
    // The platform finds it only later; meanwhile it certainly takes nothing.
    rig.home.next("1", [SendBehavior::SwallowsUnseen, busy.clone()]);
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.settled().await;
    assert_eq!(rig.home.tried("1").len(), 2);
    // What was certainly not sent adds no doubt.
    rig.home.next("2", [SendBehavior::Loses, busy.clone(), busy.clone(), busy.clone(), busy]);
    assert_eq!(rig.ask("2", "hello").await, "re: hello");
    rig.finish().await;
}

#[tokio::test]
async fn no_refusals_and_waits_give_up_what_may_have_arrived_once() {
    let mut rig = Rig::new().await;
    let busy = SendBehavior::Busy(Duration::from_millis(10));
    rig.home.next("1", [SendBehavior::Loses, busy.clone(), busy.clone(), busy.clone(), busy]);
    assert_eq!(rig.ask("1", "hello").await, replies::perhaps_repeated("re: hello"));
    rig.finish().await;
}

#[tokio::test]
async fn an_answer_whose_file_is_refused_is_sent_as_messages() {
    let fake_channel = FakeChannel::taking_long_ones_as_files(100, 3);
    let mut rig = Rig::with(fake_channel, RigOptions::default()).await;
    let long: Vec<_> = (0..60).map(|n| format!("word{n}")).collect();
    let long = long.join(" ");
    rig.model.on("long", [says(&long), says(&long)]);
    rig.home.next("1", [SendBehavior::Takes, SendBehavior::Refuses]);
    rig.say("1", "long");
    let mut words = Vec::new();
    while words.len() < 60 {
        let part = rig.next_message("1").await;
        words.extend(part.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(words.join(" "), long);
    // One that is taken.
    rig.say("1", "long");
    assert_eq!(rig.next_messages("1", 2).await[1], replies::WHOLE_ANSWER);
    rig.finish().await;
}

#[tokio::test]
async fn takes_a_success_that_cannot_be_read_for_a_success() {
    let mut rig = Rig::new().await;
    rig.home.next("1", [SendBehavior::TakesWithoutId]);
    assert_eq!(rig.ask("1", "hello").await, "re: hello");
    rig.settled().await;
    assert_eq!(rig.home.tried("1").len(), 1);
    rig.finish().await;
}

#[tokio::test]
async fn a_chat_that_is_stuck_holds_up_no_other() {
    let mut rig = Rig::new().await;
    rig.home.next("stuck", [SendBehavior::Stuck]);
    rig.say("stuck", "hello");
    for chat in 0..20 {
        let chat = format!("chat {chat}");
        assert_eq!(rig.ask(&chat, "hello").await, "re: hello");
    }
    // What hung may have arrived.
    rig.stop_and_start_again().await;
    assert_eq!(rig.next_message("stuck").await, replies::perhaps_repeated("re: hello"));
    rig.finish().await;
}

#[tokio::test]
async fn a_channel_that_is_stuck_holds_up_no_other() {
    let other = Arc::new(FakeChannel::new());
    let channels = vec![("other", Arc::clone(&other))];
    let mut rig = Rig::of(RigOptions { channels, ..RigOptions::default() }).await;
    let chats: Vec<_> = (0..20).map(|chat| format!("stuck {chat}")).collect();
    for chat in &chats {
        rig.home.next(chat, [SendBehavior::Stuck]);
        rig.say(chat, "hello");
    }
    rig.wait_for_count("SELECT count(*) FROM chunks WHERE state = 'sending'", 16).await;
    other.hears(other.message(OWNER, "1", "hello"));
    assert_eq!(rig.next_messages_on(other, "1", 1).await[0].text, "re: hello");
    rig.stop().await;
    for chat in &chats {
        rig.home.always(chat, SendBehavior::Takes);
        rig.home.forget(chat);
    }
    rig.start().await;
    for chat in &chats {
        assert!(rig.next_message(chat).await.ends_with("re: hello"));
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_panic_in_one_send_harms_no_other() {
    let mut rig = Rig::new().await;
    rig.home.next("stuck", [SendBehavior::Stuck]);
    rig.say("stuck", "hello");
    rig.wait_for_count("SELECT count(*) FROM chunks WHERE state = 'sending'", 1).await;
    rig.home.next("panic", [SendBehavior::Panics]);
    assert_eq!(rig.ask("panic", "hello").await, replies::perhaps_repeated("re: hello"));
    assert_eq!(rig.home.tried("stuck").len(), 1, "the stuck send was begun again");
    rig.stop_and_start_again().await;
    rig.next_message("stuck").await;
    rig.finish().await;
}

#[tokio::test]
async fn long_answers_arrive_in_parts_and_in_order() {
    let mut rig = Rig::with(FakeChannel::with(false, 100), RigOptions::default()).await;
    let words: Vec<_> = (0..200).map(|n| format!("word{n}")).collect();
    rig.model.on("long", [says(&words.join(" "))]);
    rig.home.next(
        "1",
        [SendBehavior::Takes, SendBehavior::Busy(Duration::from_millis(50)), SendBehavior::Takes],
    );
    rig.say("1", "long");
    rig.wait_until(|rig| !rig.home.tried("1").is_empty()).await;
    rig.say("1", "short");
    let mut told = Vec::new();
    while told.len() < 200 {
        let part = rig.next_message("1").await;
        told.extend(part.split_whitespace().map(str::to_owned));
    }
    assert_eq!(told, words);
    assert_eq!(rig.next_message("1").await, "re: short");
    rig.finish().await;
}

#[tokio::test]
async fn later_messages_of_a_chat_do_not_overtake() {
    let mut rig = Rig::new().await;
    let several: Vec<_> = (0..5).map(|n| ("message", json!({"text": format!("n{n}")}))).collect();
    rig.model.on("count", [calls(&several), says("done")]);
    rig.home.next("1", [SendBehavior::Busy(Duration::from_millis(200))]);
    rig.say("1", "count");
    assert_eq!(rig.next_messages("1", 6).await, ["n0", "n1", "n2", "n3", "n4", "done"]);
    rig.finish().await;
}
