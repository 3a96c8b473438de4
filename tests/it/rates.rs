//! Rate limits: one friendly line, not one for each message; never for commands and the owner.

use std::time::{Duration, Instant};

use peacrab::bus::rates::{Rate, RateCounters, RateLimits, RateOf};
use peacrab::people::Access;
use peacrab::replies;
use peacrab::types::message::{Address, MediaKind, MediaRef};

use crate::support::fake_channel::FetchBehavior;
use crate::support::rig::{OTHER_USER, OWNER, Rig, RigOptions, USER};
use crate::support::script::{Gate, held, says};

const NONE: RateLimits =
    RateLimits { person_per_minute: 0, chat_per_minute: 0, files_per_day: 0, turns_per_person: 0 };

async fn with(limits: RateLimits) -> Rig {
    let mut parts = RigOptions::default();
    parts.agent.limits = limits;
    Rig::of(parts).await
}

fn at(chat: &str) -> Address {
    Address { channel: "home".into(), chat: chat.into(), thread: None }
}

#[test]
fn a_minute_slides() {
    let (rates, limits) = (RateCounters::default(), RateLimits { person_per_minute: 2, ..NONE });
    let begun = Instant::now();
    let count = |seconds| {
        let now = begun + Duration::from_secs(seconds);
        rates.count(&limits, &at("1"), &"8".into(), now)
    };
    let over = |is_news| Rate::Over { most: 2, whose: RateOf::Person, is_news };
    assert_eq!([count(0), count(30)], [Rate::Within; 2]);
    assert_eq!([count(31), count(40)], [over(true), over(false)]);
    // What was refused does not count.
    assert_eq!(count(60), Rate::Within);
    assert_eq!([count(61), count(89)], [over(true), over(false)]);
    assert_eq!(count(90), Rate::Within);
}

#[test]
fn a_chat_and_a_person_have_limits_of_their_own() {
    let rates = RateCounters::default();
    let limits = RateLimits { person_per_minute: 2, chat_per_minute: 3, ..NONE };
    let now = Instant::now();
    let count = |who: &str, chat: &str| rates.count(&limits, &at(chat), &who.into(), now);
    assert_eq!([count("8", "g"), count("8", "g"), count("9", "g")], [Rate::Within; 3]);
    let over = |most, whose| Rate::Over { most, whose, is_news: true };
    assert_eq!(count("9", "g"), over(3, RateOf::Chat));
    assert_eq!(count("8", "h"), over(2, RateOf::Person));
    assert_eq!(count("9", "h"), Rate::Within);
    // Ten thousand people are no burden for long.
    for person in 0..10_000 {
        assert_eq!(count(&format!("p{person}"), &format!("c{person}")), Rate::Within);
    }
    let later = now + Duration::from_secs(61);
    assert_eq!(rates.count(&limits, &at("g"), &"8".into(), later), Rate::Within);
}

#[tokio::test]
async fn who_writes_too_fast_is_told_once() {
    let mut rig = with(RateLimits { person_per_minute: 2, ..NONE }).await;
    for text in ["one", "two"] {
        rig.say_as(USER, "2", text);
        assert_eq!(rig.next_message("2").await, format!("re: {text}"));
    }
    for text in ["three", "four", "/btw five", "/compact"] {
        rig.say_as(USER, "2", text);
    }
    assert_eq!(rig.next_message("2").await, replies::too_fast(2));
    let refused = "SELECT count(*) FROM inbound WHERE outcome = 'refused'";
    rig.wait_for_count(refused, 4).await;
    // Commands are never limited, nor others, nor the owner.
    rig.say_as(USER, "2", "/queue");
    assert!(rig.next_message("2").await.starts_with("While I work for you"));
    rig.say_as(OTHER_USER, "3", "hello");
    assert_eq!(rig.next_message("3").await, "re: hello");
    for round in 0..5 {
        assert_eq!(rig.ask("1", &format!("hello {round}")).await, format!("re: hello {round}"));
    }
    assert_eq!(rig.unread("2"), Vec::<String>::new());
    rig.finish().await;
}

#[tokio::test]
async fn a_group_has_a_limit_for_all_together_but_the_owner() {
    let mut rig = with(RateLimits { chat_per_minute: 2, ..NONE }).await;
    rig.say_as(USER, "-1", "one");
    assert_eq!(rig.next_message("-1").await, "re: one");
    rig.say_as(OTHER_USER, "-1", "two");
    assert_eq!(rig.next_message("-1").await, "re: two");
    rig.say_as(USER, "-1", "three");
    assert_eq!(rig.next_message("-1").await, replies::chat_too_fast(2));
    rig.say_as(OTHER_USER, "-1", "four");
    assert_eq!(rig.ask("-1", "and I?").await, "re: and I?");
    rig.finish().await;
}

#[tokio::test]
async fn one_person_has_so_many_turns_at_a_time_and_the_others_wait() {
    let mut parts = RigOptions::default();
    parts.agent.limits = RateLimits { turns_per_person: 2, ..NONE };
    parts.access = Access { owners: vec![OWNER.to_owned()], ..parts.access };
    let mut rig = Rig::of(parts).await;
    let gate = Gate::shut();
    rig.model.on("slow", (0..3).map(|_| held(&gate, says("slowly"))));
    for chat in ["2", "3", "4"] {
        rig.say_as(USER, chat, "slow");
    }
    rig.wait_at_times(&gate, 2).await;
    // The third waits, and nobody else does.
    rig.say_as(OTHER_USER, "5", "quick");
    assert_eq!(rig.next_message("5").await, "re: quick");
    rig.waiting(1).await;
    gate.open();
    for chat in ["2", "3", "4"] {
        assert_eq!(rig.next_message(chat).await, "slowly");
    }
    rig.finish().await;
}

#[tokio::test]
async fn one_person_sends_so_many_files_a_day_and_pushes_out_nobody_elses() {
    let mut rig = with(RateLimits { files_per_day: 2, ..NONE }).await;
    let send = |rig: &Rig, who: &str, chat: &str, files: usize| {
        let file = || MediaRef {
            kind: MediaKind::Document,
            name: Some("a.txt".to_owned()),
            mime: None,
            size: Some(2),
            handle: "a".to_owned(),
            fetched: None,
            quoted: false,
        };
        let media = (0..files).map(|_| file()).collect();
        rig.say_changed(who, chat, "look", |message| message.body.media = media);
    };
    rig.home.has_file("a", (0..8).map(|_| FetchBehavior::Bytes(b"hi".to_vec())));
    send(&rig, USER, "2", 1);
    rig.next_message("2").await;
    // Two more are one too many, whichever chat they come from; one more is not.
    send(&rig, USER, "3", 2);
    assert_eq!(rig.next_message("3").await, replies::too_many_files_today(2));
    send(&rig, USER, "2", 1);
    rig.next_message("2").await;
    send(&rig, USER, "2", 1);
    assert_eq!(rig.next_message("2").await, replies::too_many_files_today(2));
    // Messages without files, others and the owner are not limited by that.
    rig.say_as(USER, "2", "hello");
    assert_eq!(rig.next_message("2").await, "re: hello");
    send(&rig, OTHER_USER, "9", 2);
    rig.next_message("9").await;
    for _ in 0..3 {
        send(&rig, OWNER, "1", 1);
        rig.next_message("1").await;
    }
    // A day later there is room again.
    rig.execute("UPDATE inbound SET received = received - 86400001");
    send(&rig, USER, "2", 2);
    rig.next_message("2").await;
    rig.finish().await;
}
