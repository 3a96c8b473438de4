//! Who is let in, and what becomes of what cannot be taken.

use chrono::{Duration, Utc};
use peacrab::people::{Access, Groups};
use peacrab::replies;
use peacrab::types::message::{DeliveryId, Press};

use crate::support::fake_channel::SendBehavior;
use crate::support::rig::{OWNER, Rig, RigOptions, STRANGER, USER};
use crate::support::script::{Gate, held, says};

/// The code among the words that a stranger got.
fn code(words: &str) -> String {
    let (_, rest) = words.split_once("Your code is ").unwrap();
    rest.split(',').next().unwrap().to_owned()
}

#[tokio::test]
async fn turns_strangers_away_and_lets_in_whom_the_owner_approves() {
    let mut rig = Rig::new().await;
    rig.ask("owner", "hello").await;
    rig.say_as(STRANGER, "s", "hello");
    let words = rig.next_message("s").await;
    let code = code(&words);
    assert_eq!(words, replies::pairing_code("peacrab", &code, true));
    let asks = replies::stranger_asks("Person 66 (id 66)", "home", &code);
    assert_eq!(rig.next_message("owner").await, asks);
    // Not again for a while.
    rig.say_as(STRANGER, "s", "hello?");
    rig.settled().await;
    // Nor can a user let them in.
    rig.say_as(USER, "u", &format!("/pair approve {code}"));
    assert_eq!(rig.next_message("u").await, replies::OWNER_ONLY);
    rig.execute("UPDATE strangers SET answered_at = answered_at - 11 * 60 * 1000");
    rig.say_as(STRANGER, "s", "hello again");
    assert_eq!(rig.next_message("s").await, replies::pairing_code("peacrab", &code, true));
    rig.say("owner", &format!("/pair approve {}", code.to_lowercase()));
    assert_eq!(rig.next_message("owner").await, replies::approved("Person 66 (id 66)", "user"));
    assert_eq!(rig.next_message("s").await, replies::WELCOME_USER);
    rig.say_as(STRANGER, "s", "am I in?");
    assert_eq!(rig.next_message("s").await, "re: am I in?");
    assert_eq!(rig.model.asked().len(), 2);
    rig.finish().await;
}

#[tokio::test]
async fn makes_the_first_who_is_approved_the_owner() {
    let access = Access::default();
    let mut rig = Rig::of(RigOptions { access, ..RigOptions::default() }).await;
    rig.say_as(STRANGER, "s", "/pair approve AAAAAAAA");
    let words = rig.next_message("s").await;
    assert_eq!(words, replies::pairing_code("peacrab", &code(&words), false));
    rig.settled().await;
    assert!(rig.model.asked().is_empty());
    rig.finish().await;
}

#[tokio::test]
async fn a_crowd_of_strangers_keeps_nobody_out() {
    let mut rig = Rig::new().await;
    rig.ask("1", "hello").await;
    for stranger in 0..40 {
        let stranger = format!("s{stranger}");
        rig.say_as(&stranger, &stranger, "hello");
        assert!(rig.next_message(&stranger).await.contains("Your code is"));
    }
    rig.say_as("honest", "honest", "hello");
    let honest = code(&rig.next_message("honest").await);
    // The oldest have to ask again; who asks again at once gets no other code.
    rig.wait_for_count("SELECT count(*) FROM strangers WHERE code IS NOT NULL", 32).await;
    for stranger in 0..40 {
        let stranger = format!("s{stranger}");
        rig.say_as(&stranger, &stranger, "hello again");
    }
    rig.settled().await;
    // The owner is asked about the first three, and lets in whom they like.
    assert_eq!(rig.next_messages("1", 3).await.len(), 3);
    assert!(rig.ask("1", &format!("/pair approve {honest}")).await.contains("honest"));
    rig.say_as("honest", "honest", "hello");
    assert!(rig.next_messages("honest", 2).await.contains(&"re: hello".to_owned()));
    rig.finish().await;
}

#[tokio::test]
async fn says_nothing_to_strangers_in_groups() {
    let mut rig = Rig::new().await;
    rig.say_as(STRANGER, "-1", "hello");
    rig.say_as(STRANGER, "-1", "/status");
    rig.say_as(USER, "-1", "hello");
    assert_eq!(rig.next_message("-1").await, "re: hello");
    assert_eq!(rig.model.asked().len(), 1);
    rig.finish().await;
}

#[tokio::test]
async fn gives_nobody_a_code_where_pairing_is_off() {
    let mut parts = RigOptions::default();
    parts.access.pairing = false;
    let mut rig = Rig::of(parts).await;
    rig.say_as(STRANGER, "s", "hello");
    rig.ask("1", "hello").await;
    assert!(rig.unread("s").is_empty());
    rig.finish().await;
}

#[tokio::test]
async fn everyone_is_a_guest_with_fewer_tools_if_all_are_let_in() {
    let mut parts = RigOptions::default();
    parts.access.allow = vec![USER.to_owned(), "*".to_owned()];
    let mut rig = Rig::of(parts).await;
    let mut offered = Vec::new();
    for who in [STRANGER, USER, OWNER] {
        rig.say_as(who, who, "hello");
        rig.next_message(who).await;
        let tools = rig.model.last().tools;
        offered.push(tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>());
    }
    assert!(offered[0].is_empty(), "{offered:?}");
    assert!(offered[0].len() < offered[1].len() && offered[1].len() <= offered[2].len());
    assert!(rig.model.asked()[0].whole().contains("with “Person 66” (guest)"));
    rig.finish().await;
}

#[tokio::test]
async fn accepts_what_is_delivered_twice_once() {
    let mut rig = Rig::new().await;
    let message = rig.home.message(OWNER, "1", "hello");
    for _ in 0..3 {
        rig.home.hears(message.clone());
    }
    assert_eq!(rig.next_message("1").await, "re: hello");
    rig.stop_and_start_again().await;
    rig.home.hears(message);
    assert_eq!(rig.ask("1", "again").await, "re: again");
    assert_eq!(rig.model.asked().len(), 2);
    rig.finish().await;
}

#[tokio::test]
async fn refuses_in_words_what_is_too_much_and_takes_the_rest() {
    let mut parts = RigOptions::default();
    parts.agent.waiting_max = 2;
    let mut rig = Rig::of(parts).await;
    let gate = Gate::shut();
    rig.model.on("first", [held(&gate, says("done"))]);
    rig.say("1", "first");
    rig.wait_at(&gate).await;
    for n in 0..4 {
        rig.say("1", &format!("n{n}"));
    }
    // Once for all: what is sent meanwhile gets no line each.
    assert_eq!(rig.next_message("1").await, replies::too_many_waiting(2));
    gate.open();
    assert_eq!(rig.next_messages("1", 2).await, ["done", "re: n0 n1"]);
    assert_eq!(rig.ask("1", "and now?").await, "re: and now?");
    rig.finish().await;
}

#[tokio::test]
async fn does_not_answer_what_it_finds_a_day_late() {
    let mut rig = Rig::new().await;
    let late = |hours| {
        move |message: &mut peacrab::types::message::Inbound| {
            message.at = Utc::now() - Duration::hours(hours);
        }
    };
    rig.say_changed(OWNER, "1", "yesterday", late(25));
    assert_eq!(rig.next_message("1").await, replies::TOO_LATE);
    assert!(rig.model.asked().is_empty());
    rig.say_changed(OWNER, "1", "this morning", late(23));
    assert_eq!(rig.next_message("1").await, "re: this morning");
    assert_eq!(rig.query("SELECT outcome FROM inbound ORDER BY id"), ["late", "answered"]);
    rig.finish().await;
}

#[tokio::test]
async fn who_speaks_in_a_listed_chat_is_a_guest_there_and_nowhere_else() {
    let chats = [("-1".to_owned(), Groups::Always), ("-2".to_owned(), Groups::Off)];
    let access = Access { chats: chats.into(), pairing: false, ..RigOptions::default().access };
    let mut rig = Rig::of(RigOptions { access, ..RigOptions::default() }).await;
    rig.say_as(STRANGER, "s", "in private");
    rig.say_as(STRANGER, "-2", "where it is off");
    rig.say_as(STRANGER, "-3", "elsewhere");
    rig.say_as(STRANGER, "-1", "hello");
    assert_eq!(rig.next_message("-1").await, "re: hello");
    rig.say_changed(STRANGER, "-4", "in a server", |inbound| inbound.within = vec!["-1".into()]);
    assert_eq!(rig.next_message("-4").await, "re: in a server");
    rig.say_as(STRANGER, "-1", "/whoami");
    assert!(rig.next_message("-1").await.contains("guest"));
    assert_eq!(rig.model.asked().len(), 2);
    // What strangers say leaves nothing behind: they could fill the disk.
    assert_eq!(rig.query("SELECT DISTINCT chat FROM inbound ORDER BY chat"), ["-1", "-4"]);
    rig.finish().await;
}

#[tokio::test]
async fn stops_a_loop_of_bots_until_a_person_speaks() {
    let mut rig = Rig::new().await;
    let by_bot = |rig: &Rig, text: &str| {
        rig.say_changed(USER, "-1", text, |inbound| {
            inbound.cause.sender_mut().bot = true;
        });
    };
    for n in 1..=5 {
        by_bot(&rig, &format!("beep {n}"));
        assert_eq!(rig.next_message("-1").await, format!("re: beep {n}"));
    }
    by_bot(&rig, "beep 6");
    rig.settled().await;
    rig.say_as(OWNER, "-1", "what now?");
    assert_eq!(rig.next_message("-1").await, "re: what now?");
    by_bot(&rig, "beep 7");
    assert_eq!(rig.next_message("-1").await, "re: beep 7");
    rig.finish().await;
}

/// The delivery of the newest question.
fn question(rig: &Rig) -> i64 {
    rig.query("SELECT CAST(max(id) AS TEXT) FROM outbox WHERE body LIKE '{\"choice\"%'")[0]
        .parse()
        .unwrap()
}

fn press(rig: &Rig, who: &str, chat: &str, delivery: i64, choice: usize) {
    rig.say_changed(who, chat, "", |inbound| {
        inbound.id = Some("the question".into());
        inbound.body.press = Some(Press { delivery: DeliveryId(delivery), choice });
    });
}

#[tokio::test]
async fn lets_the_owner_decide_about_a_stranger_with_a_button_once() {
    let mut rig = Rig::new().await;
    rig.ask("owner", "hello").await;
    rig.say_as(STRANGER, "s", "hello");
    let code = code(&rig.next_message("s").await);
    rig.next_message("owner").await;
    let asked = question(&rig);
    // Neither by others nor from elsewhere nor what was never offered.
    press(&rig, USER, "owner", asked, 0);
    press(&rig, OWNER, "elsewhere", asked, 0);
    press(&rig, OWNER, "owner", asked, 2);
    press(&rig, OWNER, "owner", asked + 1000, 0);
    rig.settled().await;
    assert_eq!(rig.query("SELECT CAST(count(*) AS TEXT) FROM people"), ["0"]);
    press(&rig, OWNER, "owner", asked, 0);
    let words = replies::stranger_asks("Person 66 (id 66)", "home", &code);
    assert_eq!(
        rig.next_message("owner").await,
        replies::decided(&words, replies::APPROVE_PERSON, "Person 7")
    );
    assert_eq!(rig.next_message("owner").await, replies::approved("Person 66 (id 66)", "user"));
    assert_eq!(rig.next_message("s").await, replies::WELCOME_USER);
    press(&rig, OWNER, "owner", asked, 1);
    rig.settled().await;
    rig.finish().await;
}

#[tokio::test]
async fn what_was_turned_away_in_a_group_is_not_judged_anew() {
    let mut rig = Rig::new().await;
    let mention = rig.home.message(STRANGER, "-1", "@crab hello");
    rig.home.hears(mention.clone());
    rig.settled().await;
    rig.execute(
        "INSERT INTO people (channel, sender, name, role, since) VALUES ('home', '66', 'S', '\"user\"', 0)",
    );
    // Found again when what was missed is read.
    rig.home.hears(mention);
    rig.say_as(STRANGER, "-1", "and now?");
    assert_eq!(rig.next_message("-1").await, "re: and now?");
    assert_eq!(rig.model.asked().len(), 1);
    rig.finish().await;
}

#[tokio::test]
async fn a_press_shows_that_its_question_has_arrived() {
    let mut rig = Rig::new().await;
    rig.ask("owner", "hello").await;
    rig.home.next("owner", [SendBehavior::Swallows]);
    rig.say_as(STRANGER, "s", "hello");
    rig.next_message("s").await;
    rig.next_message("owner").await;
    press(&rig, OWNER, "owner", question(&rig), 1);
    // Neither the question again nor anything between.
    let words = rig.next_messages("owner", 2).await;
    assert!(words[0].contains("→ Decline") || words[1].contains("→ Decline"), "{words:?}");
    assert_eq!(rig.next_message("s").await, replies::PERSON_DECLINED);
    rig.settled().await;
    rig.finish().await;
}
