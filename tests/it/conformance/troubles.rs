//! What is promised while something is wrong: with a call, with the link, with the token.

use std::fs;
use std::time::Duration;

use axum::Router;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::scene::{AWAY, HOME, Scene};
use super::stage::{Act, Place, Stage, Trouble, Who};
use crate::support::script::{Gate, calls, paced, says};
use crate::support::wire::{closed_port, error_page, serve};

use Place::Private;
use Who::{Ada, Bob};

/// The mark of what may have been sent before (docs/faq.md tells people of it).
const MARK: &str = "(perhaps sent twice)\n";

/// More calls than a test makes.
const FOR_EVER: usize = 10_000;

pub(super) async fn waits_as_long_as_a_rate_limit_says<S: Stage>() {
    answers_despite::<S>(Trouble::RateLimitedWith).await;
}

pub(super) async fn waits_out_a_rate_limit_that_says_nothing<S: Stage>() {
    answers_despite::<S>(Trouble::RateLimitedWithout).await;
}

pub(super) async fn sends_again_after_a_server_error<S: Stage>() {
    answers_despite::<S>(Trouble::ServerError).await;
}

pub(super) async fn answers_once_though_a_call_hangs<S: Stage>() {
    answers_despite::<S>(Trouble::Hang).await;
}

pub(super) async fn answers_once_though_the_connection_is_cut_after_it_was_taken<S: Stage>() {
    answers_despite::<S>(Trouble::CutAfterAcceptance).await;
}

pub(super) async fn answers_once_though_the_receipt_is_garbage<S: Stage>() {
    answers_despite::<S>(Trouble::Garbage).await;
}

/// One answer that is not marked; where the platform cannot be asked, marked ones besides or instead.
async fn answers_despite<S: Stage>(trouble: Trouble) {
    let mut scene = Scene::<S>::new().await;
    scene.stage.fail(Act::Send, 1, trouble);
    scene.stage.say(Private(Ada), Ada, "one");
    // The others do not wait for it.
    scene.settles(1).await;
    scene.ask(Private(Bob), Bob, "two").await;
    scene.settles(2).await;
    let seen = scene.stage.seen();
    let count = |text: &str| seen.iter().filter(|seen| seen.text == text).count();
    let (plain, marked) = (count("re: one"), count(&format!("{MARK}re: one")));
    let in_doubt =
        matches!(trouble, Trouble::Hang | Trouble::CutAfterAcceptance | Trouble::ServerError);
    if in_doubt && !S::CAN_BE_ASKED {
        assert!(plain <= 1 && marked <= 1 && plain + marked >= 1, "{seen:?}");
    } else {
        assert_eq!((plain, marked), (1, 0), "{seen:?}");
    }
    assert_eq!(seen.len(), plain + marked + 1, "{seen:?}");
    assert_eq!(scene.stage.offences(), Vec::<String>::new());
    scene.stop().await;
}

pub(super) async fn waits_while_a_server_fails_for_long<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.stage.fail(Act::Send, FOR_EVER, Trouble::ServerError);
    scene.stage.say(Private(Ada), Ada, "one");
    scene.stage.say(Private(Bob), Bob, "two");
    let failing = "SELECT count(*) FROM outbox WHERE attempts >= 3 AND failing_since IS NOT NULL";
    scene.wait_until("failures", |scene| scene.count(failing) == Some(2)).await;
    let calls = scene.stage.calls(Act::Send);
    assert!((6..=8).contains(&calls), "{calls} calls");
    scene.stage.heal();
    scene.hears("re: one").await;
    scene.hears("re: two").await;
    scene.settles(2).await;
    let seen = scene.stage.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen.iter().all(|seen| seen.text.starts_with(MARK) != S::CAN_BE_ASKED), "{seen:?}");
    assert_eq!(scene.count("SELECT count(*) FROM outbox WHERE state = 'dead'"), Some(0));
}

pub(super) async fn gives_up_a_file_that_fails_while_others_arrive<S: Stage>() {
    let mut scene = Scene::<S>::new().await;
    fs::write(scene.workspace().join("plan.md"), "tides").unwrap();
    scene.stage.fail(Act::Upload, FOR_EVER, Trouble::ServerError);
    let file = calls(&[("message", json!({ "files": ["plan.md"] }))]);
    scene.model.on("send the plan", [file, says("NO_REPLY")]);
    scene.stage.say(Private(Ada), Ada, "send the plan");
    let ended = "SELECT count(*) FROM turns WHERE ending IS NOT NULL";
    scene.wait_until("the turn's end", |scene| scene.count(ended) == Some(1)).await;
    // What comes after it does not wait for ever.
    scene.stage.say(Private(Ada), Ada, "one");
    scene.hears("re: one").await;
    let gone =
        |scene: &Scene<S>| scene.stage.seen().iter().any(|it| it.text.contains("couldn't send"));
    let mut asked = 2;
    while !gone(&scene) {
        let words = format!("word {asked}");
        scene.ask(Private(Bob), Bob, &words).await;
        asked += 1;
    }
    assert_eq!(scene.hears("couldn't send the file plan.md").await.place, Private(Ada));
    scene.settles(asked).await;
    assert!(scene.stage.seen().iter().all(|seen| seen.file.is_none()));
    scene.stop().await;
}

pub(super) async fn leaves_no_draft_beside_an_answer_over_a_slow_link<S: Stage>() {
    let scene = Scene::<S>::drafting().await;
    let slow = Trouble::Slow(Duration::from_millis(1200));
    scene.stage.fail(Act::Send, FOR_EVER, slow);
    scene.stage.fail(Act::Edit, FOR_EVER, slow);
    let gate = Gate::shut();
    scene.model.on("grow", [paced(&[("Let me", None), (" see.", Some(&gate))])]);
    scene.stage.say(Private(Ada), Ada, "grow");
    scene.wait_until("a draft on its way", |scene| scene.stage.calls(Act::Send) > 0).await;
    gate.open();
    scene.hears("Let me see.").await;
    scene.ends_with(1, &["Let me see."]).await;
}

pub(super) async fn edits_again_when_the_last_edit_fails<S: Stage>() {
    let scene = Scene::<S>::drafting().await;
    let gate = Gate::shut();
    scene.model.on("grow", [paced(&[("Let me", None), (" see.", Some(&gate))])]);
    scene.stage.say(Private(Ada), Ada, "grow");
    scene.hears("Let me").await;
    scene.stage.fail(Act::Edit, 1, Trouble::ServerError);
    gate.open();
    scene.hears("see.").await;
    scene.ends_with(1, &["Let me see."]).await;
}

pub(super) async fn answers_once_what_is_said_while_the_link_is_down<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.ask(Private(Ada), Ada, "one").await;
    scene.stage.drop_link();
    scene.ask(Private(Ada), Ada, "two").await;
    scene.ask(Private(Ada), Ada, "three").await;
    scene.ends_with(3, &["re: one", "re: two", "re: three"]).await;
}

pub(super) async fn notices_a_silent_link<S: Stage>() {
    let scene = Scene::<S>::new().await;
    scene.ask(Private(Ada), Ada, "one").await;
    scene.stage.silence_link();
    scene.ask(Private(Ada), Ada, "two").await;
    scene.ask(Private(Ada), Ada, "three").await;
    assert!(scene.is_up(HOME), "{}", scene.trouble(HOME));
    scene.ends_with(3, &["re: one", "re: two", "re: three"]).await;
}

pub(super) async fn begins_anew_what_is_never_confirmed<S: Stage>() {
    let mut scene = Scene::at_rest(S::start().await);
    scene.stage.ignore_handshake();
    scene.begin().await;
    scene.ask(Private(Ada), Ada, "one").await;
    // Where there is something to be gone on with.
    scene.stage.ignore_handshake();
    scene.stage.drop_link();
    scene.ask(Private(Ada), Ada, "two").await;
    scene.stop().await;
    // And where it was stored.
    scene.stage.ignore_handshake();
    scene.stage.say(Private(Ada), Ada, "three");
    scene.begin().await;
    scene.hears("re: three").await;
    scene.ends_with(3, &["re: one", "re: two", "re: three"]).await;
}

/// The texts of the bot's messages.
fn texts<S: Stage>(stage: &S) -> Vec<String> {
    stage.seen().into_iter().map(|seen| seen.text).collect()
}

pub(super) async fn goes_on_elsewhere_when_a_token_is_revoked<S: Stage>() {
    let another = S::start_another().await;
    let mut scene = Scene::at_rest(S::start().await).with_another(&another);
    scene.begin().await;
    scene.ask(Private(Ada), Ada, "one").await;
    scene.stage.revoke_token();
    scene.wait_until("trouble", |scene| scene.trouble(HOME).contains("token not accepted")).await;
    another.say(Private(Ada), Ada, "two");
    scene.wait_until("an answer", |_| texts(&another) == ["re: two"]).await;
    assert!(!scene.is_up(HOME) && scene.is_up(AWAY), "{}", scene.trouble(AWAY));
    scene.ends_with(2, &["re: one"]).await;
}

pub(super) async fn comes_up_once_there_is_a_network<S: Stage>() {
    let (socket, base) = closed_port();
    // Somewhere else, until ours begins.
    let mut scene = Scene::of(S::start().await, base);
    scene.start().await;
    scene.wait_until("trouble", |scene| scene.trouble(HOME).contains("no connection")).await;
    let listener: TcpListener = socket.listen(16).unwrap();
    scene.stage = S::start_at(listener).await;
    scene.wait_until("the link", |scene| scene.is_up(HOME)).await;
    scene.ask(Private(Ada), Ada, "one").await;
    scene.ends_with(1, &["re: one"]).await;
}

pub(super) async fn names_an_address_where_somebody_else_answers<S: Stage>() {
    for status in [200, 302, 401, 403, 404] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let page = move || async move { error_page(status) };
        let mut other = JoinSet::new();
        other.spawn(serve(listener, Router::new().fallback(page)));
        let trouble = trouble_at::<S>(base.clone()).await;
        let status = if status == 200 { String::new() } else { status.to_string() };
        assert!(trouble.contains(&status) && trouble.contains(&format!(" at {base}")), "{trouble}");
    }
}

pub(super) async fn names_an_address_where_nobody_answers<S: Stage>() {
    let (_socket, base) = closed_port();
    let trouble = trouble_at::<S>(base.clone()).await;
    assert!(trouble.contains("no connection"), "{trouble}");
    assert!(trouble.contains(&format!(" at {base}")), "{trouble}");
}

/// What is said of a link to this address, which is wrong.
async fn trouble_at<S: Stage>(base: String) -> String {
    let mut scene = Scene::of(S::start().await, base);
    scene.start().await;
    scene.wait_until("trouble", |scene| !scene.trouble(HOME).is_empty()).await;
    let trouble = scene.trouble(HOME);
    assert!(trouble.ends_with(": is api_url right?"), "{trouble}");
    assert!(!S::TOKENS.iter().any(|token| trouble.contains(token)), "{trouble}");
    scene.stop().await;
    trouble
}

pub(super) async fn answers_once_what_is_said_during_a_restart<S: Stage>() {
    let mut scene = Scene::<S>::new().await;
    scene.ask(Private(Ada), Ada, "one").await;
    scene.stop().await;
    scene.stage.say(Private(Ada), Ada, "two");
    scene.begin().await;
    scene.hears("re: two").await;
    scene.ask(Private(Ada), Ada, "three").await;
    scene.ends_with(3, &["re: one", "re: two", "re: three"]).await;
}

pub(super) async fn keeps_two_bots_of_one_platform_apart<S: Stage>() {
    let another = S::start_another().await;
    let mut scene = Scene::at_rest(S::start().await).with_another(&another);
    scene.begin().await;
    // As both are alike, so are the ids of what is said to them.
    scene.stage.say(Private(Ada), Ada, "one");
    another.say(Private(Ada), Ada, "two");
    scene
        .wait_until("both answers", |scene| {
            texts(&scene.stage) == ["re: one"] && texts(&another) == ["re: two"]
        })
        .await;
    scene.settles(2).await;
    assert_eq!(texts(&another), ["re: two"]);
    scene.ends_with(2, &["re: one"]).await;
}
