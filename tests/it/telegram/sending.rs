//! What is sent, and what a failure to send means.

use std::time::Duration;

use peacrab::channels::telegram::TelegramDeadlines;
use peacrab::channels::{Channel, ChannelError, Sent};
use peacrab::types::message::{DeliveryId, Hint, Outbound, Reaction};
use tokio::net::TcpListener;

use super::{CREW, DEADLINES, FORUM, acquainted, address, message, telegram, telegram_at, to_ada};
use crate::support::bot_api::line::{ADA, Line};
use crate::support::bot_api::{self, Fault};

async fn failure(fault: Fault) -> (ChannelError, Vec<bot_api::Sent>) {
    let (api, telegram) = acquainted().await;
    api.fail("sendMessage", 1, &fault);
    (telegram.send(&to_ada("hi")).await.unwrap_err(), api.sent())
}

#[tokio::test]
async fn sends_what_is_bold_as_bold() {
    let (api, telegram) = acquainted().await;
    let sent = telegram.send(&to_ada("<b>2</b> &lt; 7_000 &amp; *so on*")).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!(on_screen.text, "2 < 7_000 & *so on*");
    assert_eq!(on_screen.html.as_deref(), Some("<b>2</b> &lt; 7_000 &amp; *so on*"));
    assert_eq!(sent, Sent { id: Some(on_screen.id.to_string().into()) });
}

/// The stand-in refuses a text with a link that would be fetched for a preview.
#[tokio::test]
async fn links_are_not_fetched_for_a_preview() {
    let (api, telegram) = acquainted().await;
    let link = "see https://elsewhere.example/x";
    let draft = telegram.send(&to_ada(link)).await.unwrap().id;
    let other = "see https://elsewhere.example/y";
    telegram.send(&Outbound { replaces: draft, ..to_ada(other) }).await.unwrap();
    assert_eq!((api.sent()[0].text.as_str(), api.sent()[0].edits), (other, 1));
}

#[tokio::test]
async fn what_telegram_cannot_read_is_sent_at_once_as_plain_text() {
    let (api, telegram) = acquainted().await;
    api.fail("sendMessage", 1, &Fault::Deny(400, "Bad Request: ENTITIES_TOO_LONG"));
    for html in ["<b>bold</b> &amp; plain", "<b>open"] {
        let sent = telegram.send(&to_ada(html)).await.unwrap();
        let on_screen = api.sent().pop().unwrap();
        assert_eq!((on_screen.html, on_screen.text.contains('<')), (None, false), "{html}");
        assert_eq!(sent.id, Some(on_screen.id.to_string().into()));
    }
    assert_eq!(api.sent()[0].text, "bold & plain");
    let draft = api.sent().pop().unwrap().id.to_string().into();
    telegram
        .send(&Outbound { replaces: Some(draft), ..to_ada("<i>closed</i></b>") })
        .await
        .unwrap();
    let on_screen = api.sent().pop().unwrap();
    assert_eq!((on_screen.text.as_str(), on_screen.edits), ("closed", 1));
    // Not once more after that.
    let nonsense = Fault::Deny(400, "Bad Request: can't parse entities: whatever");
    api.fail("sendMessage", 2, &nonsense);
    let error = telegram.send(&to_ada("<b>bold</b>")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Refused(_)), "{error}");
}

#[tokio::test]
async fn answers_in_the_topic_and_to_the_message_that_asked() {
    let (api, telegram) = acquainted().await;
    let asked = api.say(&Line::group(FORUM, &ADA, "@peacrab_bot hi").in_topic(9));
    let mut answer = message(address(FORUM, Some(9)), "hi Ada");
    answer.reply_to = Some(asked.to_string().into());
    telegram.send(&answer).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!((on_screen.thread, on_screen.reply_to), (Some(9), Some(asked)));
}

#[tokio::test]
async fn answers_though_the_question_was_deleted() {
    let (api, telegram) = acquainted().await;
    api.say(&Line::group(CREW, &ADA, "hi"));
    let mut answer = message(address(CREW, None), "hi Ada");
    answer.reply_to = Some("99999".into());
    telegram.send(&answer).await.unwrap();
    assert_eq!(api.sent().remove(0).reply_to, None);
}

#[tokio::test]
async fn takes_texts_up_to_the_limit_that_it_tells() {
    let (api, telegram) = acquainted().await;
    let longest = "🦀".repeat(telegram.limits().text_max / 2);
    telegram.send(&to_ada(&format!("<b>{longest}</b>"))).await.unwrap();
    telegram.send(&to_ada(&longest)).await.unwrap();
    assert_eq!(api.sent().remove(0).text, longest);
    let error = telegram.send(&to_ada(&format!("{longest}!"))).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Refused(why) if why.contains("too long")), "{error}");
}

#[tokio::test]
async fn a_draft_becomes_the_answer() {
    let (api, telegram) = acquainted().await;
    let draft = telegram.send(&to_ada("working…")).await.unwrap();
    let answer = Outbound { replaces: draft.id.clone(), ..to_ada("done") };
    assert_eq!(telegram.send(&answer).await.unwrap(), draft);
    // Once more, as after a crash: it is not modified.
    assert_eq!(telegram.send(&answer).await.unwrap(), draft);
    let on_screen = api.sent();
    assert_eq!((on_screen.len(), on_screen[0].text.as_str(), on_screen[0].edits), (1, "done", 1));
}

#[tokio::test]
async fn a_draft_that_is_gone_is_told_of_and_nothing_is_sent() {
    let (api, telegram) = acquainted().await;
    let answer = Outbound { replaces: Some("99999".into()), ..to_ada("done") };
    let error = telegram.send(&answer).await.unwrap_err();
    assert!(matches!(error, ChannelError::DraftGone), "{error}");
    assert!(api.sent().is_empty());
}

#[tokio::test]
async fn an_edit_that_is_in_doubt_is_made_again() {
    let (api, telegram) = acquainted().await;
    let draft = telegram.send(&to_ada("working…")).await.unwrap();
    let answer = Outbound { replaces: draft.id.clone(), ..to_ada("done") };
    // What is only a draft is given up: it could come after the answer.
    let drafted = Outbound { id: DeliveryId(0), ..answer.clone() };
    for fault in [Fault::CutAfter, Fault::Status(502)] {
        api.fail("editMessageText", 1, &fault);
        let error = telegram.send(&answer).await.unwrap_err();
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
        api.fail("editMessageText", 1, &fault);
        let error = telegram.send(&drafted).await.unwrap_err();
        assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    }
    assert_eq!(telegram.send(&answer).await.unwrap(), draft);
    assert_eq!(api.sent().len(), 1);
}

#[tokio::test]
async fn waits_as_long_as_telegram_says() {
    let (error, sent) = failure(Fault::TooMany { after: 7 }).await;
    assert!(
        matches!(&error, ChannelError::Unavailable { after: Some(after), .. } if after.as_secs() == 7),
        "{error}"
    );
    assert_eq!(sent, []);
}

#[tokio::test]
async fn a_failing_server_is_noticed_at_once() {
    let begun = std::time::Instant::now();
    // It may have done what it was asked before it failed.
    for status in [500, 502, 503, 504] {
        let (error, _) = failure(Fault::Status(status)).await;
        assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn refusals_are_final_and_in_words() {
    for (fault, words) in [
        (Fault::BLOCKED, "blocked the bot"),
        (Fault::Deny(400, "Bad Request: chat not found"), "no such chat"),
        (Fault::Deny(403, "Forbidden: user is deactivated"), "account is gone"),
        (
            Fault::Deny(403, "Forbidden: bot was kicked from the supergroup chat"),
            "no longer in this chat",
        ),
        (
            Fault::Deny(400, "Bad Request: not enough rights to send text messages to the chat"),
            "allowed",
        ),
        (Fault::Deny(400, "Bad Request: TOPIC_CLOSED"), "topic is closed"),
        (Fault::Deny(400, "Bad Request: message thread not found"), "topic is gone"),
        (Fault::Deny(400, "Bad Request: PEER_ID_INVALID"), "no such chat"),
    ] {
        let (error, sent) = failure(fault).await;
        assert!(matches!(&error, ChannelError::Refused(why) if why.contains(words)), "{error}");
        assert_eq!(sent, []);
    }
}

#[tokio::test]
async fn a_lost_answer_leaves_it_in_doubt() {
    let (error, sent) = failure(Fault::CutAfter).await;
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    assert_eq!(sent.len(), 1);
    let (error, _) = failure(Fault::Status(504)).await;
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
}

#[tokio::test]
async fn no_answer_leaves_it_in_doubt() {
    let (api, _) = acquainted().await;
    let hasty = TelegramDeadlines { call: Duration::from_millis(300), ..DEADLINES };
    api.fail("sendMessage", 1, &Fault::Hang);
    let error = telegram(&api, hasty).send(&to_ada("hi")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
}

#[tokio::test]
async fn a_success_that_cannot_be_read_was_a_success() {
    let (api, telegram) = acquainted().await;
    api.fail("sendMessage", 1, &Fault::Garbage);
    assert_eq!(telegram.send(&to_ada("hi")).await.unwrap(), Sent { id: None });
    assert_eq!(api.sent().len(), 1);
}

#[tokio::test]
async fn nobody_at_the_other_end_is_certainly_not_sent() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let error = telegram_at(&url, "1:token", DEADLINES).send(&to_ada("hi")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("token"));
}

#[tokio::test]
async fn follows_a_group_that_became_a_supergroup() {
    let (api, telegram) = acquainted().await;
    api.say(&Line::group(CREW, &ADA, "hi"));
    api.fail("sendMessage", 1, &Fault::Moved(FORUM));
    telegram.send(&message(address(CREW, None), "hi")).await.unwrap();
    assert_eq!(api.sent().remove(0).chat, FORUM);
}

#[tokio::test]
async fn shows_that_it_types_in_the_topic() {
    let (api, telegram) = acquainted().await;
    api.say(&Line::group(FORUM, &ADA, "hi").in_topic(9));
    telegram.hint(&address(FORUM, Some(9)), Hint::Typing).await.unwrap();
    let call = api.received().remove(0);
    assert_eq!(
        (call.call.as_str(), call.body["message_thread_id"].as_i64()),
        ("sendChatAction", Some(9))
    );
}

#[tokio::test]
async fn an_address_of_another_platform_is_refused() {
    let (_api, telegram) = acquainted().await;
    let mut stray = to_ada("hi");
    stray.to.chat = "C0FFEE".into();
    let error = telegram.send(&stray).await.unwrap_err();
    assert!(matches!(error, ChannelError::Refused(_)), "{error}");
}

#[tokio::test]
async fn takes_a_draft_away() {
    let (api, telegram) = acquainted().await;
    let draft = telegram.send(&to_ada("working…")).await.unwrap().id.unwrap();
    telegram.hint(&address(ADA.id, None), Hint::Erase(draft)).await.unwrap();
    assert_eq!(api.sent(), []);
}

#[tokio::test]
async fn puts_a_sign_at_a_message() {
    let (api, telegram) = acquainted().await;
    let asked = api.say(&Line::group(FORUM, &ADA, "and this").in_topic(9));
    for (with, emoji) in [(Reaction::Seen, "👀"), (Reaction::Steered, "👌")] {
        let hint = Hint::React { message: asked.to_string().into(), with };
        telegram.hint(&address(FORUM, Some(9)), hint).await.unwrap();
        assert_eq!(api.reaction(FORUM, asked).as_deref(), Some(emoji));
    }
}

#[tokio::test]
async fn a_topic_that_is_gone_refuses_the_answer_in_words() {
    let (api, telegram) = acquainted().await;
    api.say(&Line::group(FORUM, &ADA, "hi").in_topic(9));
    let error = telegram.send(&message(address(FORUM, Some(8)), "hi")).await.unwrap_err();
    assert!(
        matches!(&error, ChannelError::Refused(why) if why.contains("topic is gone")),
        "{error}"
    );
}

#[tokio::test]
async fn what_overtakes_an_older_answer_names_its_question_in_private_too() {
    let (api, telegram) = acquainted().await;
    let asked = api.say(&Line::group(ADA.id, &ADA, "hi"));
    let answer = Outbound { reply_to: Some(asked.to_string().into()), ..to_ada("plain") };
    telegram.send(&answer).await.unwrap();
    telegram.send(&Outbound { overtakes: true, ..answer }).await.unwrap();
    let named: Vec<_> = api.sent().into_iter().map(|sent| sent.reply_to).collect();
    assert_eq!(named, [None, Some(asked)]);
}
