//! Questions that were asked on other platforms are listed on the page of the same person, and answered there.

use peacrab::replies;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::browser::{Browser, rig, url};
use crate::support::rig::{OTHER_USER, Rig, USER};
use crate::support::script::{calls, says};

/// The page of somebody who writes in a chat of the platform.
async fn page_of(rig: &mut Rig, who: &str, chat: &str) -> Browser {
    rig.say_as(who, chat, "/web");
    Browser::by_link(&rig.next_message(chat).await).await
}

async fn questions(page: &Browser) -> Vec<Value> {
    page.get("/waiting").await["questions"].as_array().unwrap().clone()
}

async fn answer(page: &Browser, question: &Value, body: &Value) -> StatusCode {
    page.post(&format!("/questions/{}", question["id"]), body).await.status()
}

/// The user is asked for a colour in their private chat.
async fn asks_user(rig: &mut Rig, choices: &[&str]) {
    let asks = calls(&[("ask_question", json!({"question": "Which *one*?", "choices": choices}))]);
    rig.model.on("paint", [asks, says("I paint it.")]);
    rig.say_as(USER, "2", "paint it");
    assert_eq!(rig.next_message("2").await, "Which *one*?");
}

#[tokio::test]
async fn a_question_of_another_platform_is_answered_by_a_button() {
    let mut rig = rig().await;
    let (page, other) =
        (page_of(&mut rig, USER, "2").await, page_of(&mut rig, OTHER_USER, "3").await);
    let (owner, ben) = (Browser::owner(&rig).await, Browser::of(&rig, "ben").await);
    asks_user(&mut rig, &["red", "blue"]).await;
    let listed = questions(&page).await;
    let [question] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((&question["channel"], &question["session"]), (&json!("home"), &Value::Null));
    assert_eq!(question["message"]["choices"], json!(["red", "blue"]));
    assert_eq!(question["message"]["html"], "<p>Which <em>one</em>?</p>\n");
    // It is nobody else's, the owner's included.
    let press = json!({ "id": "answer-0001", "choice": 1 });
    for stranger in [&other, &ben, &owner] {
        assert_eq!(questions(stranger).await, Vec::<Value>::new());
        assert_eq!(answer(stranger, question, &press).await, StatusCode::GONE);
    }
    for wrong in [
        json!({ "id": "answer-0001" }),
        json!({ "id": "answer-0001", "choice": 1, "text": "blue" }),
        json!({ "id": "answer-0001", "text": " " }),
        json!({ "id": "answer-0001", "text": "/new" }),
        json!({ "id": "x", "choice": 1 }),
    ] {
        assert_eq!(answer(&page, question, &wrong).await, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let none = json!({ "id": "answer-0001", "choice": 7 });
    assert_eq!(answer(&page, question, &none).await, StatusCode::GONE);
    assert_eq!(answer(&page, question, &press).await, StatusCode::ACCEPTED);
    // A double click counts once, and so does a second decision.
    assert_eq!(answer(&page, question, &press).await, StatusCode::OK);
    let again = json!({ "id": "answer-0002", "choice": 0 });
    let again = answer(&page, question, &again).await;
    assert!(matches!(again, StatusCode::CONFLICT | StatusCode::GONE), "{again}");
    // The turn goes on where it was asked, which shows the decision.
    let heard = rig.next_messages("2", 2).await;
    let name = format!("Person {USER}");
    assert!(heard.contains(&replies::decided("Which *one*?", "blue", &name)), "{heard:?}");
    assert!(heard.contains(&"I paint it.".to_owned()), "{heard:?}");
    assert!(rig.model.last().transcript().contains("blue"));
    assert_eq!(questions(&page).await, Vec::<Value>::new());
    assert_eq!(page.get("/sessions").await["sessions"], json!([]));
    rig.finish().await;
}

#[tokio::test]
async fn a_question_without_buttons_is_answered_in_words_also_after_a_restart() {
    let mut rig = rig().await;
    let page = page_of(&mut rig, USER, "2").await;
    asks_user(&mut rig, &[]).await;
    let question = questions(&page).await.remove(0);
    assert_eq!(question["message"].get("choices"), None);
    rig.stop_and_start_again().await;
    let page = Browser { url: url(&rig).await, ..page };
    assert_eq!(questions(&page).await, std::slice::from_ref(&question));
    let words = json!({ "id": "answer-0001", "text": "a light green" });
    assert_eq!(answer(&page, &question, &words).await, StatusCode::ACCEPTED);
    assert_eq!(rig.next_message("2").await, "I paint it.");
    assert!(rig.model.last().transcript().contains("a light green"));
    // It was their own message there, and is no other answer once it has been one.
    assert_eq!(answer(&page, &question, &words).await, StatusCode::OK);
    let late = json!({ "id": "answer-0002", "text": "no, red" });
    assert_eq!(answer(&page, &question, &late).await, StatusCode::GONE);
    let heard = rig.query(&format!(
        "SELECT channel || ' ' || chat || ' ' || json_extract(message, '$.body.text') FROM inbound
         WHERE sender = '{USER}' ORDER BY id"
    ));
    assert_eq!(heard, ["home 2 /web", "home 2 paint it", "home 2 a light green"]);
    rig.finish().await;
}

#[tokio::test]
async fn an_answer_that_was_given_where_it_was_asked_ends_the_question_here() {
    let mut rig = rig().await;
    let page = page_of(&mut rig, USER, "2").await;
    asks_user(&mut rig, &["red", "blue"]).await;
    let question = questions(&page).await.remove(0);
    rig.say_as(USER, "2", "the red one");
    assert!(rig.next_messages("2", 2).await.contains(&"I paint it.".to_owned()));
    assert_eq!(questions(&page).await, Vec::<Value>::new());
    let press = json!({ "id": "answer-0001", "choice": 1 });
    assert_eq!(answer(&page, &question, &press).await, StatusCode::GONE);
    rig.finish().await;
}

#[tokio::test]
async fn a_revoked_person_answers_nothing() {
    let mut rig = rig().await;
    let page = page_of(&mut rig, USER, "2").await;
    asks_user(&mut rig, &["red", "blue"]).await;
    let question = questions(&page).await.remove(0);
    let person = format!("(SELECT person FROM accounts WHERE sender = '{USER}')");
    rig.execute(&format!("UPDATE persons SET blocked = 1 WHERE id = {person}"));
    let press = json!({ "id": "answer-0001", "choice": 1 });
    assert_eq!(answer(&page, &question, &press).await, StatusCode::FORBIDDEN);
    assert_eq!(rig.query("SELECT state FROM asks"), ["open"]);
    // Let in again, they answer it.
    rig.execute(&format!("UPDATE persons SET blocked = NULL WHERE id = {person}"));
    assert_eq!(answer(&page, &question, &press).await, StatusCode::ACCEPTED);
    assert!(rig.next_messages("2", 2).await.contains(&"I paint it.".to_owned()));
    rig.finish().await;
}
