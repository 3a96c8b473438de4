//! Buttons and commands: kept first, then answered, to whoever pressed and nobody else.

use peacrab::bus::outbox;
use peacrab::channels::Channel;
use peacrab::people::Groups;
use peacrab::replies;
use peacrab::store::{StoreOptions, Sync};
use peacrab::types::commands;
use peacrab::types::message::{
    AllowedPressers, Body, Choice, DeliveryId, Outbound, Press, Question, SenderId,
};
use serde_json::json;

use super::{address, discord};
use crate::support::adapter_fixture::AdapterFixture;
use crate::support::discord_api::line::{ADA, BOB, CREW, LAB, Line, THREAD};
use crate::support::discord_api::{DiscordApi, Fault, Sent};

/// A question of two choices that stands in the crew's channel, for Ada alone.
async fn ask(api: &DiscordApi, fixture: &AdapterFixture) -> Sent {
    let choice = |label: &str| Choice { label: label.to_owned(), says: format!("/{label}") };
    let body = Body::Choice(Question::new(
        "Shall I?".to_owned(),
        vec![choice("yes"), choice("no")],
        AllowedPressers::Only(SenderId::from(ADA.id.to_string())),
    ));
    let to = address(CREW, None);
    let (put_to, put_body) = (to.clone(), body.clone());
    let put = move |store: &_| outbox::put_body(store, &put_to, &put_body);
    let id: DeliveryId = fixture.bus.store.write("ask", Sync::Now, put).await.unwrap();
    let message =
        Outbound { id, chunk_index: 0, to, reply_to: None, overtakes: false, replaces: None, body };
    discord(api).send(&message).await.unwrap();
    api.sent().pop().unwrap()
}

#[tokio::test]
async fn a_press_is_kept_and_answered_without_words() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let question = ask(&api, &fixture).await;
    let [yes, no] = [0, 1].map(|at: usize| question.buttons[at].1.clone());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            let check = async |interaction, expected: (u64, &str)| {
                let answered = api.wait_for_answer(interaction).await;
                let (kind, text) = answered.answer.unwrap();
                assert_eq!((kind, text.as_str()), expected);
                assert_eq!(answered.is_private, kind == 4);
            };
            check(api.press(&BOB, &question, &yes), (4, replies::NOT_YOURS_TO_PRESS)).await;
            check(api.press(&ADA, &question, &yes), (6, "")).await;
            check(api.press(&ADA, &question, &no), (4, replies::ALREADY_DECIDED)).await;
            check(api.press(&ADA, &question, "p:999:0"), (4, replies::BUTTON_TOO_OLD)).await;
            check(api.press(&ADA, &question, "of another program"), (4, replies::BUTTON_TOO_OLD))
                .await;
        })
        .await;
    let heard = fixture.received().await;
    assert_eq!(heard.len(), 1);
    let press: Press = yes.parse().unwrap();
    assert_eq!((heard[0].body.text.as_str(), heard[0].body.press), ("/yes", Some(press)));
    assert_eq!(heard[0].from, address(CREW, None));
    assert_eq!(heard[0].id, Some(question.id.to_string().into()));
}

#[tokio::test]
async fn a_command_is_heard_as_if_it_were_written() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            let invoked = api.invoke(&ADA, CREW, "status", None);
            let answered = api.wait_for_answer(invoked).await;
            assert_eq!(answered.answer, Some((4, replies::COMMAND_RECEIVED.to_owned())));
            assert!(answered.is_private);
            let invoked = api.invoke(&BOB, BOB.dm(), "pair", Some("approve ABC"));
            api.wait_for_answer(invoked).await;
        })
        .await;
    assert_eq!(fixture.texts().await, ["/status", "/pair approve ABC"]);
    let heard = fixture.received().await;
    assert_eq!([&heard[0].from, &heard[1].from], [&address(CREW, None), &address(BOB.dm(), None)]);
}

#[tokio::test]
async fn is_answered_while_what_was_missed_is_read_back() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            api.say(&Line::private(&ADA, "before"));
            fixture.wait_for(1).await;
        })
        .await;
    api.forget_sessions();
    api.fail("GET /channels/*/messages", 1, &Fault::Hang);
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(2, 0).await;
            let answered = api.wait_for_answer(api.invoke(&ADA, ADA.dm(), "status", None)).await;
            assert_eq!(answered.answer, Some((4, replies::COMMAND_RECEIVED.to_owned())));
        })
        .await;
}

#[tokio::test]
async fn strangers_and_places_that_are_off_are_told_so() {
    let api = DiscordApi::start().await;
    let fixture = AdapterFixture::with(&StoreOptions::default(), |access| {
        access.allow = vec![ADA.id.to_string()];
        access.groups = Groups::Off;
    });
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            for (who, channel) in [(&ADA, CREW), (&BOB, BOB.dm())] {
                let answered = api.wait_for_answer(api.invoke(who, channel, "status", None)).await;
                assert_eq!(answered.answer, Some((4, replies::COMMAND_NOT_ALLOWED.to_owned())));
            }
        })
        .await;
    assert_eq!(fixture.texts().await, Vec::<String>::new());
}

#[tokio::test]
async fn commands_are_told_to_discord_when_it_does_not_have_them_so() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    let puts = || api.received().iter().filter(|call| call.call.starts_with("PUT ")).count();
    for round in 1..3 {
        fixture
            .listening(&discord(&api), async {
                api.wait_for_sessions(round, 0).await;
                api.wait_for_calls("GET /applications/*/commands", round).await;
                api.wait_for_calls("PUT /applications/*/commands", 1).await;
                api.wait_for_answer(api.invoke(&ADA, CREW, "status", None)).await;
            })
            .await;
        assert_eq!(puts(), 1);
        api.forget_sessions();
    }
    let names: Vec<_> = api.commands().iter().map(|command| command["name"].clone()).collect();
    let expected: Vec<_> = commands::menu().map(|(spec, _)| json!(spec.name)).collect();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn looks_nothing_up_before_it_answers() {
    let (api, fixture) = (DiscordApi::start().await, AdapterFixture::new());
    api.fail("GET /channels/*", 2, &Fault::Hang);
    fixture
        .listening(&discord(&api), async {
            api.wait_for_sessions(1, 0).await;
            // Somebody speaks at the same time where it has to look, and hears nothing back.
            api.say(&Line::server(LAB, &BOB, "hello"));
            let answered = api.wait_for_answer(api.invoke(&ADA, THREAD, "status", None)).await;
            assert_eq!(answered.answer, Some((4, replies::COMMAND_RECEIVED.to_owned())));
        })
        .await;
    assert_eq!(fixture.received().await[0].from, address(CREW, Some(THREAD)));
}
