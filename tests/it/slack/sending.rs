//! What is sent, how it is found again, and what a failure to send means.

use std::io::{Seek as _, Write as _};
use std::time::Duration;

use chrono::Utc;
use peacrab::channels::slack::{Slack, SlackDeadlines};
use peacrab::channels::{Channel, ChannelError, FileContent, MediaSink, SendLookup, Sent};
use peacrab::types::message::{
    Address, AllowedPressers, Attachment, Body, Choice, Content, DeliveryId, Hint, MediaKind,
    MediaRef, Outbound, Question, Reaction,
};
use serde_json::json;
use tokio::net::TcpListener;

use super::{CREW, DEADLINES, address, config, slack};
use crate::support::outbound::text_to;
use crate::support::slack_api::line::{ADA, Line};
use crate::support::slack_api::{self, Fault, SlackApi};

fn message(to: Address, text: &str) -> Outbound {
    text_to(7, to, text)
}

fn to_ada(text: &str) -> Outbound {
    message(address("D0ADA", None), text)
}

pub(super) async fn post(slack: &Slack, to: Address, text: &str) -> Sent {
    slack.send(&message(to, text)).await.unwrap()
}

async fn failure(fault: Fault) -> (ChannelError, Vec<slack_api::Sent>) {
    let api = SlackApi::start().await;
    api.fail("chat.postMessage", 1, &fault);
    (slack(&api).send(&to_ada("hi")).await.unwrap_err(), api.sent())
}

#[tokio::test]
async fn sends_a_text_that_unfolds_nothing_and_can_be_found() {
    let api = SlackApi::start().await;
    let sent = post(&slack(&api), address("D0ADA", None), "*hi* &lt;3").await;
    let on_screen = api.sent().remove(0);
    assert_eq!(on_screen.text, "*hi* &lt;3", "its markup is made elsewhere");
    assert_eq!(sent, Sent { id: Some(on_screen.ts.as_str().into()) });
    let call = api.calls("chat.postMessage").remove(0);
    assert_eq!((&call["unfurl_links"], call.get("link_names")), (&json!(false), None));
    assert_eq!(call["metadata"]["event_type"], "peacrab_delivery");
    let id = call["metadata"]["event_payload"]["id"].as_str().unwrap();
    assert!(id.starts_with("7.0."), "{id}");
}

/// The stand-in refuses a text with a link that would be fetched for a preview.
#[tokio::test]
async fn links_are_not_fetched_for_a_preview() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let link = "see https://elsewhere.example/x";
    let draft = slack.send(&to_ada(link)).await.unwrap().id;
    slack.send(&Outbound { replaces: draft, ..to_ada(link) }).await.unwrap();
    assert_eq!(api.sent()[0].text, link);
}

#[tokio::test]
async fn answers_in_the_thread_that_asked() {
    let api = SlackApi::start().await;
    post(&slack(&api), address(CREW, Some("1700000001.000100")), "hi").await;
    assert_eq!(api.sent().remove(0).thread.as_deref(), Some("1700000001.000100"));
}

#[tokio::test]
async fn takes_texts_up_to_the_limit_that_it_tells() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let longest = "🦀".repeat(slack.limits().text_max);
    let draft = post(&slack, address("D0ADA", None), "working…").await;
    slack.send(&Outbound { replaces: draft.id, ..to_ada(&longest) }).await.unwrap();
    assert_eq!(api.sent().remove(0).text, longest);
}

#[tokio::test]
async fn a_draft_becomes_the_answer() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let draft = slack.send(&to_ada("working…")).await.unwrap();
    let answer = Outbound { replaces: draft.id.clone(), ..to_ada("done") };
    assert_eq!(slack.send(&answer).await.unwrap(), draft);
    assert_eq!(slack.send(&answer).await.unwrap(), draft);
    let on_screen = api.sent();
    assert_eq!((on_screen.len(), on_screen[0].text.as_str(), on_screen[0].edits), (1, "done", 2));
}

#[tokio::test]
async fn a_draft_that_is_gone_is_told_of_and_nothing_is_sent() {
    let api = SlackApi::start().await;
    let asked = api.say(&Line::im(&ADA, "hello"));
    for gone in ["1700000001.000100", "no-id-of-slacks", &asked] {
        let answer = Outbound { replaces: Some(gone.into()), ..to_ada("done") };
        let error = slack(&api).send(&answer).await.unwrap_err();
        assert!(matches!(error, ChannelError::DraftGone), "{gone}: {error}");
    }
    assert!(api.sent().is_empty());
}

#[tokio::test]
async fn an_edit_that_is_in_doubt_is_made_again() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let draft = slack.send(&to_ada("working…")).await.unwrap();
    let answer = Outbound { replaces: draft.id.clone(), ..to_ada("done") };
    let update = Outbound { id: DeliveryId(0), ..answer.clone() };
    for fault in [Fault::CutAfter, Fault::BreaksAfter("internal_error"), Fault::Status(502)] {
        api.fail("chat.update", 1, &fault);
        // A draft that comes late would take the answer's place.
        let error = slack.send(&update).await.unwrap_err();
        assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
        api.fail("chat.update", 1, &fault);
        let error = slack.send(&answer).await.unwrap_err();
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    }
    assert_eq!(slack.send(&answer).await.unwrap(), draft);
    assert_eq!(api.sent().len(), 1);
}

#[tokio::test]
async fn waits_as_long_as_slack_says() {
    for after in [Some(7), None] {
        let (error, sent) = failure(Fault::TooMany { after }).await;
        let ChannelError::Unavailable { after: wait, .. } = error else { panic!("{error}") };
        assert_eq!((wait, sent), (after.map(Duration::from_secs), vec![]));
    }
    let (error, _) = failure(Fault::Deny("ratelimited")).await;
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn refusals_are_final_and_in_words() {
    for (error, words) in [
        ("channel_not_found", "no such channel"),
        ("not_in_channel", "invite it"),
        ("is_archived", "archived"),
        ("restricted_action", "not allowed"),
        ("msg_too_long", "too long"),
        ("no_text", "no text"),
        ("cant_crab", "cant_crab"),
    ] {
        let (refused, sent) = failure(Fault::Deny(error)).await;
        assert!(matches!(&refused, ChannelError::Refused(why) if why.contains(words)), "{refused}");
        assert_eq!(sent, []);
    }
}

#[tokio::test]
async fn what_only_the_operator_can_mend_waits_for_them() {
    for (error, words) in [
        ("token_revoked", "token not accepted"),
        ("account_inactive", "token not accepted"),
        ("missing_scope", "install the app again"),
        ("not_allowed_token_type", "xoxb-"),
    ] {
        let (closed, _) = failure(Fault::Deny(error)).await;
        assert!(matches!(&closed, ChannelError::Closed(why) if why.contains(words)), "{closed}");
    }
}

#[tokio::test]
async fn what_may_have_happened_is_in_doubt() {
    for fault in
        [Fault::CutAfter, Fault::BreaksAfter("internal_error"), Fault::BreaksAfter("fatal_error")]
    {
        let (error, sent) = failure(fault.clone()).await;
        assert!(matches!(error, ChannelError::Ambiguous(_)), "{fault:?}: {error}");
        assert_eq!(sent.len(), 1);
    }
    let (error, _) = failure(Fault::Status(504)).await;
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    for fault in [Fault::Status(503), Fault::Deny("service_unavailable")] {
        let (error, _) = failure(fault).await;
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    }
    let api = SlackApi::start().await;
    api.fail("chat.postMessage", 1, &Fault::Hang);
    let hasty = SlackDeadlines { call: Duration::from_millis(300), ..DEADLINES };
    let slack = Slack::with_deadlines(&config(&api), hasty).unwrap();
    let error = slack.send(&to_ada("hi")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
}

#[tokio::test]
async fn a_success_that_cannot_be_read_was_a_success() {
    let api = SlackApi::start().await;
    api.fail("chat.postMessage", 1, &Fault::Garbage);
    assert_eq!(slack(&api).send(&to_ada("hi")).await.unwrap(), Sent { id: None });
    assert_eq!(api.sent().len(), 1);
}

#[tokio::test]
async fn nobody_at_the_other_end_is_certainly_not_sent() {
    let api = SlackApi::start().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&api);
    config.api_url = format!("http://{}/api", free.local_addr().unwrap());
    drop(free);
    let slack = Slack::with_deadlines(&config, DEADLINES).unwrap();
    let error = slack.send(&to_ada("hi")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("xoxb"));
}

#[tokio::test]
async fn an_address_of_another_platform_is_refused() {
    let api = SlackApi::start().await;
    for stray in [address("-1001", None), address(CREW, Some("77")), address("crew", None)] {
        let error = slack(&api).send(&message(stray, "hi")).await.unwrap_err();
        assert!(matches!(error, ChannelError::Refused(_)), "{error}");
    }
}

#[tokio::test]
async fn finds_what_it_has_sent_and_nothing_else() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let root = api.say(&Line::channel(CREW, &ADA, "<@U0CRAB> hi"));
    for to in [address("D0ADA", None), address(CREW, Some(&root))] {
        let since = Utc::now();
        let first = message(to.clone(), "the same words");
        let second = Outbound { chunk_index: 1, ..first.clone() };
        let other = Outbound { id: DeliveryId(8), ..first.clone() };
        assert_eq!(slack.find(&first, since).await.unwrap(), SendLookup::Absent);
        api.fail("chat.postMessage", 1, &Fault::CutAfter);
        slack.send(&first).await.unwrap_err();
        let SendLookup::Sent(Sent { id: Some(id) }) = slack.find(&first, since).await.unwrap()
        else {
            panic!("not found")
        };
        assert!(api.sent().iter().any(|sent| sent.ts == id.as_str()));
        assert_eq!(slack.find(&second, since).await.unwrap(), SendLookup::Absent);
        assert_eq!(slack.find(&other, since).await.unwrap(), SendLookup::Absent);
        // Marked as a possible repetition, it is still the same.
        let marked = message(to, "(perhaps sent twice)\nthe same words");
        assert!(matches!(slack.find(&marked, since).await.unwrap(), SendLookup::Sent(_)));
    }
}

#[tokio::test]
async fn finds_it_behind_much_that_was_said_meanwhile() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    slack.send(&to_ada("hi")).await.unwrap();
    for at in 0..450 {
        api.say_unheard(&Line::im(&ADA, &format!("and {at}")));
    }
    assert!(matches!(slack.find(&to_ada("hi"), Utc::now()).await.unwrap(), SendLookup::Sent(_)));
}

#[tokio::test]
async fn says_when_it_cannot_know() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    for error in ["missing_scope", "not_in_channel", "thread_not_found"] {
        api.fail("conversations.history", 1, &Fault::Deny(error));
        assert_eq!(slack.find(&to_ada("hi"), Utc::now()).await.unwrap(), SendLookup::Unknowable);
    }
    api.fail("conversations.history", 1, &Fault::TooMany { after: Some(1) });
    let error = slack.find(&to_ada("hi"), Utc::now()).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable { after: Some(_), .. }), "{error}");
    let edit = Outbound { replaces: Some("1700000001.000100".into()), ..to_ada("hi") };
    assert_eq!(slack.find(&edit, Utc::now()).await.unwrap(), SendLookup::Unknowable);
}

fn question(text: &str) -> Outbound {
    let choice = |label: &str| Choice { label: label.to_owned(), says: format!("/{label}") };
    let choices = vec![choice("Yes"), choice(&"No, never. ".repeat(20))];
    let question = Question::new(text.to_owned(), choices, AllowedPressers::Anyone);
    Outbound { body: Body::Choice(question), ..to_ada("") }
}

#[tokio::test]
async fn a_question_has_buttons_until_it_is_decided() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let asked = slack.send(&question(&"Shall I? ".repeat(400))).await.unwrap();
    let blocks = api.sent().remove(0).blocks;
    assert_eq!(blocks.as_array().unwrap().len(), 3, "{blocks}");
    assert_eq!(blocks[2]["elements"][1]["action_id"], "p:7:1");
    assert_eq!(blocks[2]["elements"][0]["text"]["text"], "Yes");
    slack.send(&Outbound { replaces: asked.id, ..to_ada("Shall I? → Yes") }).await.unwrap();
    assert_eq!(api.sent().remove(0).blocks, json!([]));
}

#[tokio::test]
async fn shows_that_it_works_only_where_slack_shows_that() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let thread = Some("1700000001.000100");
    slack.hint(&address(CREW, thread), Hint::Typing).await.unwrap();
    slack.hint(&address("D0ADA", None), Hint::Typing).await.unwrap();
    assert!(api.calls("assistant.threads.setStatus").is_empty());
    slack.hint(&address("D0ADA", thread), Hint::Typing).await.unwrap();
    let status = api.calls("assistant.threads.setStatus").remove(0);
    assert_eq!((&status["channel_id"], &status["thread_ts"]), (&json!("D0ADA"), &json!(thread)));
    // The answer takes it away, also where it stands in the place of a draft.
    let draft = post(&slack, address("D0ADA", thread), "working…").await.id;
    slack.hint(&address("D0ADA", thread), Hint::Typing).await.unwrap();
    let answer = Outbound { replaces: draft, ..message(address("D0ADA", thread), "done") };
    slack.send(&answer).await.unwrap();
    slack.send(&answer).await.unwrap();
    let statuses = api.calls("assistant.threads.setStatus");
    assert_eq!((statuses.len(), &statuses[2]["status"]), (3, &json!("")));
    // An app that may not is not asked again.
    api.fail("assistant.threads.setStatus", 1, &Fault::Deny("missing_scope"));
    for _ in 0..2 {
        slack.hint(&address("D0ADA", thread), Hint::Typing).await.unwrap();
    }
    assert_eq!(api.calls("assistant.threads.setStatus").len(), 4);
}

#[tokio::test]
async fn takes_a_draft_away_that_no_answer_came_of() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let draft = post(&slack, address("D0ADA", None), "working…").await.id.unwrap();
    for _ in 0..2 {
        slack.hint(&address("D0ADA", None), Hint::Erase(draft.clone())).await.unwrap();
    }
    assert_eq!(api.sent(), []);
}

#[tokio::test]
async fn gives_a_sign_at_a_message() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let ts = api.say(&Line::im(&ADA, "hello"));
    let at = address("D0ADA", None);
    for (with, name) in [(Reaction::Seen, "eyes"), (Reaction::Steered, "ok_hand")] {
        for _ in 0..2 {
            let message = ts.as_str().into();
            slack.hint(&at, Hint::React { message, with }).await.unwrap();
        }
        assert!(api.reactions().contains(&("D0ADA".to_owned(), ts.clone(), name.to_owned())));
    }
    assert_eq!(api.reactions().len(), 2);
}

fn file(bytes: &[u8]) -> FileContent {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let (name, length) = ("crab.txt".to_owned(), bytes.len() as u64);
    FileContent { name, kind: MediaKind::Document, length, file }
}

fn with_file(to: Address, caption: &str) -> Outbound {
    let content = Content::Text(String::new());
    let (name, caption) = ("crab.txt".to_owned(), caption.to_owned());
    let body = Body::File(Attachment {
        name,
        kind: MediaKind::Document,
        caption,
        printed: false,
        content,
    });
    Outbound { body, ..message(to, "") }
}

#[tokio::test]
async fn sends_a_file_with_its_words_where_it_was_asked_for() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let bytes = "🦀".repeat(100_000).into_bytes();
    let to = with_file(address(CREW, Some("1700000001.000100")), "as you wished");
    slack.upload(&to, file(&bytes)).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!(
        (on_screen.files, on_screen.text.as_str()),
        (vec!["crab.txt".to_owned()], "as you wished")
    );
    assert_eq!(on_screen.thread.as_deref(), Some("1700000001.000100"));
    assert_eq!(api.uploads()[0].content.as_deref(), Some(&bytes[..]));
}

#[tokio::test]
async fn a_file_that_is_in_doubt_is_looked_for() {
    let api = SlackApi::start().await;
    let slack = slack(&api);
    let (to, since) = (with_file(address("D0ADA", None), ""), Utc::now());
    api.fail("files.getUploadURLExternal", 1, &Fault::CutAfter);
    let error = slack.upload(&to, file(b"crab")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable { .. }), "nobody sees it yet: {error}");
    assert_eq!(slack.find(&to, since).await.unwrap(), SendLookup::Absent);
    api.fail("files.completeUploadExternal", 1, &Fault::CutAfter);
    let error = slack.upload(&to, file(b"crab")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    assert!(matches!(slack.find(&to, since).await.unwrap(), SendLookup::Sent(_)));
    let error = slack.upload(&to, file(b"")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Refused(_)), "{error}");
}

fn media(handle: &str) -> MediaRef {
    let mime = Some("text/plain".to_owned());
    let handle = handle.to_owned();
    MediaRef {
        kind: MediaKind::Document,
        name: None,
        mime,
        size: None,
        handle,
        fetched: None,
        quoted: false,
    }
}

async fn fetched(slack: &Slack, media: &MediaRef, max: u64) -> Result<Vec<u8>, ChannelError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let into = tokio::fs::File::create(file.path()).await.unwrap();
    let mut sink = MediaSink::new(into, max);
    slack.fetch(media, &mut sink).await?;
    sink.finish().await.unwrap();
    Ok(std::fs::read(file.path()).unwrap())
}

#[tokio::test]
async fn fetches_a_file_with_its_token_and_from_slack_only() {
    let api = SlackApi::start().await;
    let adapter = slack(&api);
    let url = api.put_file("crab", &[7; 100_000]);
    assert_eq!(fetched(&adapter, &media(&url), 100_000).await.unwrap(), [7; 100_000]);
    let error = fetched(&adapter, &media(&url), 99_999).await.unwrap_err();
    assert!(matches!(error, ChannelError::Refused(_)), "{error}");
    for elsewhere in [
        "https://evil.example/f",
        "https://files.slack.com.evil.example/f",
        "http://files.slack.com/f",
    ] {
        let error = fetched(&adapter, &media(elsewhere), 9).await.unwrap_err();
        assert!(matches!(&error, ChannelError::Refused(why) if why.contains("not an address")));
    }
    let gone = url.replace("crab", "gone");
    let error = fetched(&adapter, &media(&gone), 9).await.unwrap_err();
    assert!(
        matches!(&error, ChannelError::Refused(why) if why.contains("no longer there")),
        "{error}"
    );
    // Without the scope, Slack gives a page to log in.
    let mut config = config(&api);
    config.token = peacrab::secret::Secret::new("xoxb-other");
    let slack = Slack::with_deadlines(&config, DEADLINES).unwrap();
    let error = fetched(&slack, &media(&url), 100_000).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Refused(why) if why.contains("files:read")), "{error}");
}

#[tokio::test]
async fn a_scope_that_only_files_want_closes_nothing() {
    let api = SlackApi::start().await;
    let (slack, to) = (slack(&api), with_file(address("D0ADA", None), ""));
    for method in ["files.getUploadURLExternal", "files.completeUploadExternal"] {
        api.fail(method, 1, &Fault::Deny("missing_scope"));
        let error = slack.upload(&to, file(b"crab")).await.unwrap_err();
        assert!(
            matches!(&error, ChannelError::Refused(why) if why.contains("is needed")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_page_of_something_on_the_way_is_no_refusal() {
    for status in [403, 404] {
        let (error, sent) = failure(Fault::Status(status)).await;
        assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
        assert_eq!(sent, []);
    }
}
