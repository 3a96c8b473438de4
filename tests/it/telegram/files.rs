//! Files, in and out, without the whole in memory and without the token in any word.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::time::Duration;

use peacrab::channels::telegram::TelegramDeadlines;
use peacrab::channels::{Channel, ChannelError, FileContent, MediaSink, Sent};
use peacrab::replies;
use peacrab::types::message::{Attachment, Body, Content, MediaKind, MediaRef, Outbound};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::{DEADLINES, FORUM, acquainted, address, message, telegram, to_ada};
use crate::support::bot_api::line::{ADA, Line};
use crate::support::bot_api::{self, BotApi, Fault, SentFile};

const PNG: &[u8] = b"\x89PNG and so on";

fn content(name: &str, kind: MediaKind, bytes: &[u8]) -> FileContent {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    FileContent { name: name.to_owned(), kind, length: bytes.len() as u64, file }
}

fn with_caption(caption: &str) -> Body {
    Body::File(Attachment {
        name: "unused".to_owned(),
        kind: MediaKind::Document,
        caption: caption.to_owned(),
        printed: false,
        content: Content::Text(String::new()),
    })
}

fn to_ada_file() -> Outbound {
    Outbound { body: with_caption("look"), ..to_ada("") }
}

async fn uploaded(file: FileContent) -> (BotApi, Result<Sent, ChannelError>) {
    let (api, telegram) = acquainted().await;
    let sent = telegram.upload(&to_ada_file(), file).await;
    (api, sent)
}

fn shown(api: &BotApi) -> (bot_api::Sent, SentFile) {
    let sent = api.sent().pop().unwrap();
    let file = sent.file.clone().unwrap_or_else(|| panic!("no file: {sent:?}"));
    (sent, file)
}

#[tokio::test]
async fn each_kind_is_shown_as_what_it_is_where_telegram_can() {
    for (name, kind, field) in [
        ("a.png", MediaKind::Image, "photo"),
        ("a.JPG", MediaKind::Image, "photo"),
        ("a.webp", MediaKind::Sticker, "photo"),
        ("a.svg", MediaKind::Image, "document"),
        ("a.ogg", MediaKind::Voice, "voice"),
        ("a.wav", MediaKind::Voice, "document"),
        ("a.mp3", MediaKind::Audio, "audio"),
        ("a.flac", MediaKind::Audio, "document"),
        ("a.mp4", MediaKind::Video, "video"),
        ("a.mkv", MediaKind::Video, "document"),
        ("a.png", MediaKind::Document, "document"),
        ("plan", MediaKind::Document, "document"),
    ] {
        let (api, sent) = uploaded(content(name, kind, PNG)).await;
        let (message, file) = shown(&api);
        assert_eq!(sent.unwrap().id, Some(message.id.to_string().into()));
        assert_eq!((file.field, file.name.as_str()), (field, name));
        assert_eq!((message.text.as_str(), file.bytes.as_slice()), ("look", PNG));
    }
}

#[tokio::test]
async fn words_under_a_file_have_markup_where_telegram_can_read_it() {
    let (api, telegram) = acquainted().await;
    for (caption, html) in [("<b>look</b>", Some("<b>look</b>".to_owned())), ("<b>look", None)] {
        let file = content("a.txt", MediaKind::Document, b"x");
        let message = Outbound { body: with_caption(caption), ..to_ada("") };
        telegram.upload(&message, file).await.unwrap();
        let (sent, file) = shown(&api);
        assert_eq!((sent.text.as_str(), sent.html, file.bytes), ("look", html, b"x".to_vec()));
    }
    let longest = "🦀".repeat(telegram.limits().caption_max / 2);
    let message = Outbound { body: with_caption(&longest), ..to_ada("") };
    telegram.upload(&message, content("a.txt", MediaKind::Document, b"x")).await.unwrap();
    assert_eq!(shown(&api).0.text, longest);
    // As plain text, without the addresses for which there is no room.
    let link = format!("<a href=\"https://x.org/{}\">{}</a><b>", "y".repeat(900), "z".repeat(900));
    let message = Outbound { body: with_caption(&link), ..to_ada("") };
    telegram.upload(&message, content("a.txt", MediaKind::Document, b"x")).await.unwrap();
    assert_eq!(shown(&api).0.text, "z".repeat(900));
}

#[tokio::test]
async fn a_file_goes_into_the_topic_and_to_the_message_that_asked() {
    let (api, telegram) = acquainted().await;
    let asked = api.say(&Line::group(FORUM, &ADA, "@peacrab_bot plot it").in_topic(9));
    let answer = Outbound {
        reply_to: Some(asked.to_string().into()),
        body: with_caption(""),
        ..message(address(FORUM, Some(9)), "")
    };
    telegram.upload(&answer, content("a.png", MediaKind::Image, PNG)).await.unwrap();
    let (sent, _) = shown(&api);
    assert_eq!((sent.thread, sent.reply_to, sent.text.as_str()), (Some(9), Some(asked), ""));
    let call = api.received().pop().unwrap();
    assert!(call.body.get("caption").is_none(), "{call:?}");
}

#[tokio::test]
async fn a_name_in_any_script_arrives_whole() {
    let (api, _) = uploaded(content("Pläne \"für\" 蟹.txt", MediaKind::Document, b"x")).await;
    assert_eq!(shown(&api).1.name, "Pläne _für_ 蟹.txt");
}

#[tokio::test]
async fn a_large_file_arrives_whole_and_one_that_grows_as_it_was() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let mut file = content("a.bin", MediaKind::Document, &bytes);
    file.length -= 5;
    let (api, _) = uploaded(file).await;
    assert_eq!(shown(&api).1.bytes, bytes[..bytes.len() - 5]);
}

#[tokio::test]
async fn a_picture_that_telegram_cannot_show_is_sent_as_a_file() {
    let (api, sent) = uploaded(content("a.png", MediaKind::Image, b"no picture")).await;
    assert!(sent.unwrap().id.is_some());
    let (message, file) = shown(&api);
    assert_eq!((file.field, file.bytes.as_slice()), ("document", &b"no picture"[..]));
    assert_eq!((api.sent().len(), message.text.as_str()), (1, "look"));
    let (api, telegram) = acquainted().await;
    api.fail("sendPhoto", 1, &Fault::Deny(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"));
    telegram.upload(&to_ada_file(), content("a.png", MediaKind::Image, PNG)).await.unwrap();
    assert_eq!(shown(&api).1.field, "document");
}

#[tokio::test]
async fn a_picture_too_large_for_one_is_sent_as_a_file() {
    let mut bytes = vec![0; (10 << 20) + 1];
    bytes[..4].copy_from_slice(b"\x89PNG");
    let (api, _) = uploaded(content("a.png", MediaKind::Image, &bytes)).await;
    assert_eq!(shown(&api).1.field, "document");
}

/// Who delivers then sends words in its place, as for all platforms; `peacrab send` knows of that.
#[tokio::test]
async fn a_file_that_telegram_does_not_take_is_refused_with_its_reason() {
    let (api, sent) = uploaded(content("a&b.txt", MediaKind::Document, b"")).await;
    let Err(ChannelError::Refused(why)) = &sent else { panic!("{sent:?}") };
    assert!(why.contains("file must be non-empty"), "{why}");
    assert!(api.sent().is_empty());
}

#[tokio::test]
async fn failures_are_told_apart() {
    let file = || content("a.txt", MediaKind::Document, b"x");
    let failure = async |fault: Fault| {
        let (api, telegram) = acquainted().await;
        api.fail("sendDocument", 1, &fault);
        (telegram.upload(&to_ada_file(), file()).await.unwrap_err(), api.sent().len())
    };
    let (error, _) = failure(Fault::TooMany { after: 7 }).await;
    let after = Some(Duration::from_secs(7));
    assert!(matches!(error, ChannelError::Unavailable { after: waits, .. } if waits == after));
    let (error, _) = failure(Fault::BLOCKED).await;
    assert!(matches!(&error, ChannelError::Refused(why) if why.contains("blocked")), "{error}");
    let (error, _) = failure(Fault::Deny(400, "Bad Request: message thread not found")).await;
    assert!(matches!(&error, ChannelError::Refused(why) if why.contains("topic")), "{error}");
    let (error, sent) = failure(Fault::CutAfter).await;
    assert!(matches!(error, ChannelError::Ambiguous(_)) && sent == 1, "{error}");
    for status in [500, 502, 503] {
        let (error, _) = failure(Fault::Status(status)).await;
        assert!(matches!(error, ChannelError::Ambiguous(_)), "{error}");
    }
}

#[tokio::test]
async fn a_file_that_shrinks_on_the_way_is_no_message() {
    let mut file = content("a.txt", MediaKind::Document, b"short");
    file.length = 500;
    let (api, sent) = uploaded(file).await;
    assert!(sent.is_err() && api.sent().is_empty(), "{sent:?}");
}

fn reference(handle: &str) -> MediaRef {
    MediaRef {
        kind: MediaKind::Document,
        name: None,
        mime: None,
        size: None,
        handle: handle.to_owned(),
        fetched: None,
        quoted: false,
    }
}

fn sink(bytes_max: u64) -> MediaSink {
    let file: File = tempfile::tempfile().unwrap();
    MediaSink::new(tokio::fs::File::from_std(file), bytes_max)
}

async fn fetch(api: &BotApi, deadlines: TelegramDeadlines) -> Result<Vec<u8>, ChannelError> {
    let mut sink = sink(30 << 20);
    telegram(api, deadlines).fetch(&reference("f1"), &mut sink).await?;
    let mut file = sink.finish().await.unwrap();
    file.rewind().await.unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).await.unwrap();
    Ok(bytes)
}

#[tokio::test]
async fn fetches_a_file_whole() {
    let api = BotApi::start().await;
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    api.keep_file("f1", &bytes);
    assert!(fetch(&api, DEADLINES).await.unwrap() == bytes);
}

#[tokio::test]
async fn asks_again_for_a_file_that_telegram_cannot_reach_just_now() {
    let api = BotApi::start().await;
    api.keep_file("f1", b"here");
    let unavailable = "Bad Request: wrong file_id or the file is temporarily unavailable";
    api.fail("getFile", 2, &Fault::Deny(400, unavailable));
    assert_eq!(fetch(&api, DEADLINES).await.unwrap(), b"here");
    api.fail("getFile", 3, &Fault::Deny(400, unavailable));
    let error = fetch(&api, DEADLINES).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Refused(why) if why == replies::FILE_GONE), "{error}");
}

#[tokio::test]
async fn says_why_a_file_cannot_be_had() {
    let api = BotApi::start().await;
    let error = fetch(&api, DEADLINES).await.unwrap_err();
    assert!(matches!(&error, ChannelError::Refused(why) if why == replies::FILE_GONE), "{error}");
    api.keep_file("f1", &vec![0; (20 << 20) + 1]);
    let error = fetch(&api, DEADLINES).await.unwrap_err();
    let too_large = replies::FILE_OVER_TELEGRAM;
    assert!(matches!(&error, ChannelError::Refused(why) if why == too_large), "{error}");
    api.keep_file("f1", b"more than five bytes");
    let error = telegram(&api, DEADLINES).fetch(&reference("f1"), &mut sink(5)).await.unwrap_err();
    let too_large = replies::FILE_TOO_LARGE;
    assert!(matches!(&error, ChannelError::Refused(why) if why == too_large), "{error}");
}

#[tokio::test]
async fn a_file_that_does_not_come_is_given_up_without_a_word_of_the_token() {
    let api = BotApi::start().await;
    api.keep_file("f1", b"x");
    api.hold_files_back();
    let hasty = TelegramDeadlines { file: Duration::from_millis(300), ..DEADLINES };
    let error = fetch(&api, hasty).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable { .. }), "{error}");
    let (_, secret) = api.token().split_once(':').unwrap();
    assert!(!format!("{error} {error:?}").contains(secret));
}

#[tokio::test]
async fn waits_with_a_file_as_long_as_telegram_says() {
    let api = BotApi::start().await;
    api.keep_file("f1", b"x");
    api.fail("getFile", 1, &Fault::TooMany { after: 7 });
    let error = fetch(&api, DEADLINES).await.unwrap_err();
    let after = Some(Duration::from_secs(7));
    assert!(matches!(error, ChannelError::Unavailable { after: waits, .. } if waits == after));
}
