//! What is sent, and where to.

use std::io::{Seek as _, Write as _};

use peacrab::channels::discord::Discord;
use peacrab::channels::discord::Threads;
use peacrab::channels::{Channel, ChannelError, FileContent, MediaSink, Sent};
use peacrab::types::message::{
    Address, AllowedPressers, Attachment, Body, Choice, Content, DeliveryId, Hint, MediaKind,
    MediaRef, Outbound, Question, Reaction,
};
use serde_json::json;

use super::{DEADLINES, address, discord, discord_with};
use crate::support::discord_api::line::{ADA, BOB, BOT, CREW, Line, THREAD};
use crate::support::discord_api::{DiscordApi, Fault};
use crate::support::outbound::text_to;

pub(super) fn message(to: Address, text: &str) -> Outbound {
    text_to(1, to, text)
}

pub(super) fn to_ada(text: &str) -> Outbound {
    message(address(ADA.dm(), None), text)
}

pub(super) async fn start() -> (DiscordApi, Discord) {
    let api = DiscordApi::start().await;
    let discord = discord(&api);
    (api, discord)
}

#[tokio::test]
async fn sends_words_that_ping_nobody() {
    let (api, discord) = start().await;
    let text = "2 * 3 < 7_000 & @everyone";
    let sent = discord.send(&to_ada(text)).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!((on_screen.text.as_str(), on_screen.channel), (text, ADA.dm()));
    assert_eq!(sent, Sent { id: Some(on_screen.id.to_string().into()) });
    let body = &api.received()[0].body;
    assert_eq!(body["allowed_mentions"]["parse"], json!([]));
    assert_eq!(body["enforce_nonce"], true);
}

/// The stand-in refuses a text with a link that would be fetched for a preview.
#[tokio::test]
async fn links_are_not_fetched_for_a_preview() {
    let (api, discord) = start().await;
    let link = "see https://elsewhere.example/x";
    let draft = discord.send(&to_ada(link)).await.unwrap().id;
    discord.send(&Outbound { replaces: draft, ..to_ada(link) }).await.unwrap();
    assert_eq!(api.sent()[0].text, link);
}

#[tokio::test]
async fn answers_in_the_thread_and_to_the_message_that_asked() {
    let (api, discord) = start().await;
    let asked = api.say(&Line::server(THREAD, &ADA, "hi"));
    let mut answer = message(address(CREW, Some(THREAD)), "hi Ada");
    answer.reply_to = Some(asked.to_string().into());
    discord.send(&answer).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!((on_screen.channel, on_screen.reply_to), (THREAD, Some(asked)));
}

#[tokio::test]
async fn in_private_it_is_plain_what_is_answered() {
    let (api, discord) = start().await;
    let asked = api.say(&Line::private(&ADA, "hi"));
    let mut answer = to_ada("hi Ada");
    answer.reply_to = Some(asked.to_string().into());
    discord.send(&answer).await.unwrap();
    discord.send(&Outbound { id: DeliveryId(2), ..answer }).await.unwrap();
    assert_eq!(api.sent().remove(0).reply_to, None);
    let asked = |call: &str| api.received().iter().filter(|other| other.call == call).count();
    assert_eq!(asked(&format!("GET /channels/{}", ADA.dm())), 1, "a place is asked for once");
}

#[tokio::test]
async fn answers_though_the_question_was_deleted() {
    let (api, discord) = start().await;
    let mut answer = message(address(CREW, None), "hi Ada");
    answer.reply_to = Some("99999".into());
    discord.send(&answer).await.unwrap();
    assert_eq!(api.sent().remove(0).reply_to, None);
}

#[tokio::test]
async fn opens_the_thread_of_a_question_when_something_is_said_in_it() {
    let api = DiscordApi::start().await;
    let discord = discord_with(&api, Threads::Open, DEADLINES);
    let ask = format!("{} what about {}, {}?", BOT.mention(), BOB.mention(), "long ".repeat(40));
    let asked = api.say(&Line::server(CREW, &ADA, &ask));
    let mut answer = message(address(CREW, Some(asked)), "hi Ada");
    answer.reply_to = Some(asked.to_string().into());
    discord.hint(&answer.to, Hint::Typing).await.unwrap();
    let name = api.thread_name(asked).unwrap();
    assert!(name.contains("what about @Bob, long long") && name.ends_with("long…"), "{name}");
    discord.send(&answer).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!((on_screen.channel, on_screen.reply_to), (asked, None));

    // Somebody else was quicker.
    let asked = api.say(&Line::server(CREW, &ADA, "and this?"));
    let there = Fault::Deny(400, 160_004, "A thread has already been created for this message");
    api.fail("POST /channels/*/messages/*/threads", 1, &there);
    let error = discord.send(&message(address(CREW, Some(asked)), "hi")).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Refused(why) if why.contains("no such channel")));
    discord.send(&message(address(CREW, Some(asked)), "hi")).await.unwrap();
    assert_eq!(api.sent().len(), 2);
}

#[tokio::test]
async fn a_thread_that_is_gone_for_good_is_told_of() {
    let (api, discord) = start().await;
    api.remove_channel(THREAD);
    let error = discord.send(&message(address(CREW, Some(THREAD)), "hi")).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Refused(why) if why.contains("gone")), "{error}");
}

#[tokio::test]
async fn takes_texts_up_to_the_limit_that_it_tells() {
    let (api, discord) = start().await;
    let longest = "x".repeat(discord.limits().text_max);
    discord.send(&to_ada(&longest)).await.unwrap();
    assert_eq!(api.sent().remove(0).text, longest);
    let over = Outbound { id: DeliveryId(2), ..to_ada(&format!("{longest}!")) };
    let error = discord.send(&over).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Refused(_)), "{error}");
}

#[tokio::test]
async fn the_same_chunk_sent_twice_is_one_message() {
    let (api, discord) = start().await;
    let first = discord.send(&to_ada("hi")).await.unwrap();
    assert_eq!(discord.send(&to_ada("hi")).await.unwrap(), first);
    discord.send(&Outbound { chunk_index: 1, ..to_ada("hi") }).await.unwrap();
    discord.send(&Outbound { id: DeliveryId(2), ..to_ada("hi") }).await.unwrap();
    // Drafts and notices have no number.
    let notice = Outbound { id: DeliveryId(0), ..to_ada("hi") };
    discord.send(&notice).await.unwrap();
    discord.send(&notice).await.unwrap();
    assert_eq!(api.sent().len(), 5);
}

#[tokio::test]
async fn a_draft_becomes_the_answer() {
    let (api, discord) = start().await;
    let draft = discord.send(&to_ada("working…")).await.unwrap();
    let answer = Outbound { replaces: draft.id.clone(), ..to_ada("done") };
    assert_eq!(discord.send(&answer).await.unwrap(), draft);
    // Once more, as after a crash.
    assert_eq!(discord.send(&answer).await.unwrap(), draft);
    let on_screen = api.sent();
    assert_eq!((on_screen.len(), on_screen[0].text.as_str()), (1, "done"));
}

#[tokio::test]
async fn a_draft_that_is_gone_is_told_of_and_nothing_is_sent() {
    let (api, discord) = start().await;
    for gone in ["99999", "0", "no number"] {
        let answer = Outbound { replaces: Some(gone.into()), ..to_ada("done") };
        let error = discord.send(&answer).await.unwrap_err();
        assert!(matches!(error, ChannelError::DraftGone), "{error}");
    }
    assert!(api.sent().is_empty());
}

#[tokio::test]
async fn takes_a_draft_away() {
    let (api, discord) = start().await;
    let to_ada = to_ada("working…");
    let draft = discord.send(&to_ada).await.unwrap().id.unwrap();
    discord.hint(&to_ada.to, Hint::Erase(draft.clone())).await.unwrap();
    assert_eq!(api.sent(), []);
    discord.hint(&to_ada.to, Hint::Erase(draft)).await.unwrap_err();
}

#[tokio::test]
async fn shows_that_it_types_and_that_it_has_seen() {
    let (api, discord) = start().await;
    let asked = api.say(&Line::server(THREAD, &ADA, "hi"));
    let at = address(CREW, Some(THREAD));
    discord.hint(&at, Hint::Typing).await.unwrap();
    assert_eq!(api.received()[0].call, format!("POST /channels/{THREAD}/typing"));
    for with in [Reaction::Seen, Reaction::Steered] {
        let message = asked.to_string().into();
        discord.hint(&at, Hint::React { message, with }).await.unwrap();
    }
    // The question that a thread is about stands outside of it.
    let asked_outside = api.say(&Line::server(CREW, &ADA, "hi"));
    let message = asked_outside.to_string().into();
    let own = address(CREW, Some(asked_outside));
    discord.hint(&own, Hint::React { message, with: Reaction::Seen }).await.unwrap();
    let expected = [(asked, "👀"), (asked, "👌"), (asked_outside, "👀")];
    assert_eq!(api.reactions(), expected.map(|(id, emoji)| (id, emoji.to_owned())));
}

fn question(count: usize) -> Outbound {
    let choice = |n| Choice { label: format!("Choice {n}"), says: format!("/pick {n}") };
    let choices = (0..count).map(choice).collect();
    let body = Body::Choice(Question::new("Which?".to_owned(), choices, AllowedPressers::Anyone));
    Outbound { id: DeliveryId(9), body, ..to_ada("") }
}

#[tokio::test]
async fn a_question_has_buttons_until_it_is_decided() {
    let (api, discord) = start().await;
    let sent = discord.send(&question(7)).await.unwrap();
    let buttons = api.sent().remove(0).buttons;
    assert_eq!(buttons.len(), 7);
    assert_eq!(buttons[6], ("Choice 6".to_owned(), "p:9:6".to_owned()));
    let decided = Outbound { replaces: sent.id, ..to_ada("Which? Choice 6.") };
    discord.send(&decided).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!((on_screen.text.as_str(), on_screen.buttons), ("Which? Choice 6.", Vec::new()));
}

fn file(content: &[u8]) -> (Outbound, FileContent) {
    let body = Body::File(Attachment {
        name: "plan.txt".to_owned(),
        kind: MediaKind::Document,
        caption: "The plan.".to_owned(),
        printed: false,
        content: Content::Workspace("plan.txt".to_owned()),
    });
    let mut open = tempfile::tempfile().unwrap();
    open.write_all(content).unwrap();
    open.rewind().unwrap();
    let (name, kind) = ("plan.txt".to_owned(), MediaKind::Document);
    let length = u64::try_from(content.len()).unwrap();
    (Outbound { body, ..to_ada("") }, FileContent { name, kind, length, file: open })
}

#[tokio::test]
async fn sends_files() {
    let (api, discord) = start().await;
    let content = b"first, second".repeat(50_000);
    let (message, open) = file(&content);
    let sent = discord.upload(&message, open).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!(sent.id, Some(on_screen.id.to_string().into()));
    assert_eq!(on_screen.text, "The plan.");
    assert_eq!(on_screen.files.len(), 1);
    assert_eq!((on_screen.files[0].0.as_str(), &on_screen.files[0].1), ("plan.txt", &content));
}

#[tokio::test]
async fn sends_a_file_into_a_thread_that_is_to_be_opened() {
    let (api, discord) = start().await;
    let asked = api.say(&Line::server(CREW, &ADA, "the plan, please"));
    let (message, open) = file(b"first");
    let message = Outbound { to: address(CREW, Some(asked)), ..message };
    discord.upload(&message, open).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!((on_screen.channel, on_screen.files[0].1.as_slice()), (asked, &b"first"[..]));
}

fn media(url: &str) -> MediaRef {
    let (kind, handle) = (MediaKind::Document, url.to_owned());
    MediaRef { kind, name: None, mime: None, size: None, handle, fetched: None, quoted: false }
}

/// What is fetched of `url`, up to a bound.
async fn fetch(discord: &Discord, url: &str, bytes_max: u64) -> Result<Vec<u8>, ChannelError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let open = tokio::fs::File::create(file.path()).await.unwrap();
    let mut sink = MediaSink::new(open, bytes_max);
    discord.fetch(&media(url), &mut sink).await?;
    sink.finish().await.unwrap();
    Ok(std::fs::read(file.path()).unwrap())
}

#[tokio::test]
async fn fetches_files_that_lie_at_discord_and_no_others() {
    let (api, discord) = start().await;
    let content = b"a picture".repeat(20_000);
    let attachment = api.attachment(CREW, "a.png", &content);
    let url = attachment["url"].as_str().unwrap();
    assert_eq!(fetch(&discord, url, 1 << 20).await.unwrap(), content);
    let error = fetch(&discord, url, 1000).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Refused(why) if why.contains("too large")), "{error}");
    let gone = url.replace("a.png", "b.png");
    let error = fetch(&discord, &gone, 1000).await.unwrap_err();
    assert!(
        matches!(&error, ChannelError::Refused(why) if why.contains("no longer at Discord")),
        "{error}"
    );
    let other = DiscordApi::start().await.url().to_owned() + "/attachments/1/a.png";
    for url in [
        other.as_str(),
        "http://cdn.discordapp.com/a",
        "https://cdn.discordapp.com:8443/a",
        "https://cdn.discordapp.com.example/a",
        "file:///etc/passwd",
        "a.png",
    ] {
        let error = fetch(&discord, url, 1000).await.unwrap_err();
        assert!(matches!(&error, ChannelError::Refused(why) if why.contains("is not on Discord")));
    }
}

#[tokio::test]
async fn reads_what_was_said_before() {
    let (api, discord) = start().await;
    let lines: Vec<u64> = (0..5)
        .map(|n| {
            api.say(&Line::server(CREW, if n % 2 == 0 { &ADA } else { &BOB }, &format!("line {n}")))
        })
        .collect();
    let before = Some(lines[4].to_string().into());
    let told = discord.history(&address(CREW, None), before.as_ref(), 3).await.unwrap();
    let told: Vec<_> = told.iter().map(|line| (&*line.author, &*line.text)).collect();
    assert_eq!(told, [("Bob", "line 1"), ("Ada", "line 2"), ("Bob", "line 3")]);
    let unopened = address(CREW, Some(lines[4]));
    assert_eq!(discord.history(&unopened, None, 3).await.unwrap(), Vec::new());
}

#[tokio::test]
async fn an_address_of_another_platform_is_refused() {
    let (_api, discord) = start().await;
    for chat in ["C0FFEE", "0", "-5", ""] {
        let mut stray = to_ada("hi");
        stray.to.chat = chat.into();
        let error = discord.send(&stray).await.unwrap_err();
        assert!(matches!(error, ChannelError::Refused(_)), "{error}");
    }
}

#[tokio::test]
async fn answers_around_a_thread_that_it_may_not_open() {
    let (api, _) = start().await;
    let discord = discord_with(&api, Threads::Open, DEADLINES);
    let asked = api.say(&Line::server(CREW, &ADA, "hi"));
    let to = address(CREW, Some(asked));
    api.fail("POST /channels/*/messages/*/threads", 1, &Fault::MISSING_PERMISSIONS);
    let draft = discord.send(&message(to.clone(), "working…")).await.unwrap();
    let answer = Outbound { replaces: draft.id, ..message(to, "hi Ada") };
    discord.send(&answer).await.unwrap();
    let on_screen = api.sent().remove(0);
    assert_eq!((on_screen.channel, on_screen.reply_to), (CREW, Some(asked)));
    assert_eq!((on_screen.text.as_str(), api.sent().len()), ("hi Ada", 1));
}
