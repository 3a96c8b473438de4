//! What Telegram has beside messages: buttons, edits, commands.

use peacrab::replies;
use peacrab::types::commands;
use serde_json::json;

use crate::support::binary::{ProgramFixture, home, now, said, until};
use crate::support::bot_api::BotApi;
use crate::support::bot_api::line::{ADA, BOB, Line, Person};

const CREW: i64 = -1_001_234;
const EVE: Person = Person { id: 7005, name: "Eve", is_bot: false };

#[tokio::test]
async fn the_owner_lets_somebody_in_with_a_button() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.say(&said(&ADA, "hello"));
    api.wait_for_words(ADA.id, "You said: hello").await;

    api.say(&said(&EVE, "let me in"));
    let question = api.wait_for_words(ADA.id, "wants to talk to me").await;
    assert_eq!(question.buttons, [[replies::APPROVE_PERSON, replies::DECLINE_PERSON]]);
    let data = api.received().into_iter().rev().find_map(|call| {
        let row = &call.body["reply_markup"]["inline_keyboard"][0];
        row[1]["callback_data"].as_str().map(str::to_owned)
    });
    let query = api.press(&ADA, question.id, replies::APPROVE_PERSON);
    assert_eq!(api.wait_for_answer(&query).await, None);
    api.wait_for_words(EVE.id, "You now have access").await;
    let decided = api.wait_for_words(ADA.id, "→ Approve (Ada)").await;
    assert_eq!((decided.id, decided.buttons), (question.id, Vec::<Vec<String>>::new()));

    // Somebody whose screen is behind presses the other one.
    let message = json!({ "message_id": question.id, "date": 0,
                          "chat": { "id": ADA.id, "type": "private", "first_name": "Ada" } });
    let late = api.press_other(&ADA, &json!({ "data": data.unwrap(), "message": message }));
    let words = api.wait_for_answer(&late).await;
    assert_eq!(words.as_deref(), Some(replies::ALREADY_DECIDED));
    api.say(&said(&EVE, "thank you"));
    api.wait_for_words(EVE.id, "You said: thank you").await;
}

#[tokio::test]
async fn what_was_changed_while_it_waited_is_answered_as_it_is_now() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    let in_crew = |by: &Person, text: &str| now(Line::group(CREW, by, text));
    api.say(&in_crew(&ADA, "@peacrab_bot wait 4"));
    // While she is being answered, Bob has to wait.
    api.wait_for_calls("sendChatAction", 1).await;
    let helo = api.say(&in_crew(&BOB, "@peacrab_bot helo"));
    api.wait_for_confirmed().await;
    api.edit(helo, &in_crew(&BOB, "@peacrab_bot hello there"));
    let answer = api.wait_for_words(CREW, "hello there").await;
    assert_eq!(answer.reply_to, Some(helo));

    // What was answered stays answered.
    api.edit(helo, &in_crew(&BOB, "@peacrab_bot something else"));
    api.say(&in_crew(&BOB, "@peacrab_bot the last one"));
    api.wait_for_words(CREW, "the last one").await;
    let said = |words: &str| api.sent().iter().any(|sent| sent.text.contains(words));
    assert!(!said("helo") && !said("something else"), "{:?}", api.sent());
}

#[tokio::test]
async fn the_commands_are_listed_and_the_privacy_mode_is_told() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    fixture.wait_for_link().await;
    until("commands", async || (api.commands() != json!([])).then_some(())).await;
    let expected: Vec<_> = commands::menu()
        .map(|(spec, about)| json!({ "command": spec.name, "description": about }))
        .collect();
    assert_eq!(api.commands(), json!(expected));
    let about = fixture.status().await["channels"]["home"]["about"].clone();
    assert!(about.as_str().unwrap().contains("privacy mode"), "{about}");
}

#[tokio::test]
async fn an_answer_is_shown_as_it_was_meant() {
    let api = BotApi::start().await;
    let fixture = ProgramFixture::new(&home(&api));
    let _daemon = fixture.daemon().await;
    api.say(&said(&ADA, "**bold** & 2 < 3 `a_b`"));
    let answer = api.wait_for_words(ADA.id, "You said").await;
    assert!(answer.text.starts_with("You said: bold & 2 < 3 a_b\n"), "{answer:?}");
    let html = "You said: <b>bold</b> &amp; 2 &lt; 3 <code>a_b</code>\n";
    assert!(answer.html.is_some_and(|sent| sent.starts_with(html)));
}
