//! Questions with buttons, and what becomes of them.

use peacrab::channels::Channel;
use peacrab::people::Groups;
use peacrab::types::message::{
    AllowedPressers, Body, Cause, ChatKind, Choice, DeliveryId, InboundContent, Outbound, Press,
    Question, Sender,
};
use serde_json::{Value, json};

use super::{FORUM, Reading, acquainted, address, message, reading, to_ada};
use crate::support::bot_api::line::{ADA, BOB, Line};

fn question(labels: &[&str]) -> Body {
    let choice = |label: &&str| Choice { label: (*label).to_owned(), says: (*label).to_owned() };
    let choices = labels.iter().map(choice).collect();
    Body::Choice(Question::new("Shall I?".to_owned(), choices, AllowedPressers::Anyone))
}

#[tokio::test]
async fn short_labels_stand_in_rows_and_long_ones_below_each_other() {
    let (api, telegram) = acquainted().await;
    let long = "Let them in, and tell me what they say next";
    for labels in [&["1", "2", "3", "4"][..], &["no", long]] {
        telegram.send(&Outbound { body: question(labels), ..to_ada("") }).await.unwrap();
    }
    let sent = api.sent();
    assert_eq!(sent[0].buttons, [vec!["1", "2", "3"], vec!["4"]]);
    assert_eq!(sent[1].buttons, [vec!["no"], vec![long]]);
    assert_eq!(sent[0].text, "Shall I?");
}

#[tokio::test]
async fn a_button_tells_its_question_and_its_place() {
    let (api, telegram) = acquainted().await;
    api.say(&Line::group(FORUM, &ADA, "hi").in_topic(9));
    let asked = message(address(FORUM, Some(9)), "");
    let asked = Outbound { id: DeliveryId(i64::MAX), body: question(&["a", "b"]), ..asked };
    telegram.send(&asked).await.unwrap();
    let call = api.received().pop().unwrap();
    assert_eq!(call.body["message_thread_id"], 9);
    let button = &call.body["reply_markup"]["inline_keyboard"][0][1];
    assert_eq!(button["callback_data"], format!("p:{}:1", i64::MAX));
}

#[tokio::test]
async fn what_was_decided_takes_the_place_of_the_question_and_its_buttons() {
    let (api, telegram) = acquainted().await;
    let asked = telegram.send(&Outbound { body: question(&["a"]), ..to_ada("") }).await.unwrap();
    let decided = Outbound { replaces: asked.id.clone(), ..to_ada("Shall I?\n\n→ a (Ada)") };
    assert_eq!(telegram.send(&decided).await.unwrap(), asked);
    let sent = api.sent().remove(0);
    assert!(sent.buttons.is_empty() && sent.text.contains("→ a"), "{sent:?}");
    let again = Outbound { replaces: asked.id, body: question(&["c"]), ..to_ada("") };
    telegram.send(&again).await.unwrap();
    assert_eq!(api.sent().remove(0).buttons, [["c"]]);
}

fn pressed(message: &Value) -> Reading {
    let query = json!({ "id": "77", "from": BOB.json(), "data": "p:5:1", "message": message });
    reading(&json!({ "update_id": 1, "callback_query": query }), Groups::Off)
}

#[test]
fn a_press_is_read_with_who_and_where() {
    let asked = Line::group(FORUM, &ADA, "Shall I?").in_topic(9).json(55, None);
    let Reading::Pressed { query, press } = pressed(&asked) else { panic!() };
    assert_eq!((query.as_str(), press.key.as_str()), ("77", "telegram:4242:cb:77"));
    assert_eq!((press.from.clone(), press.chat_kind), (address(FORUM, Some(9)), ChatKind::Group));
    assert_eq!(press.cause, Cause::Person(Sender::person("7002", "Bob")));
    assert_eq!(press.id, Some("55".into()));
    let expected = Press { delivery: DeliveryId(5), choice: 1 };
    assert_eq!(press.body, InboundContent { press: Some(expected), ..InboundContent::default() });
    assert_eq!(press.at.timestamp(), 1_800_000_000);
}

#[test]
fn a_press_on_an_old_message_is_read_as_well() {
    let chat = json!({ "id": ADA.id, "type": "private", "first_name": "Ada" });
    let old = json!({ "message_id": 3, "date": 0, "chat": chat });
    let Reading::Pressed { press, .. } = pressed(&old) else { panic!() };
    assert_eq!((press.from, press.chat_kind), (address(ADA.id, None), ChatKind::Private));
}

#[test]
fn a_press_that_cannot_be_read_is_kept() {
    let garbled = json!({ "update_id": 1, "callback_query": { "id": 7 } });
    assert!(matches!(reading(&garbled, Groups::Off), Reading::Unreadable(_)));
}
