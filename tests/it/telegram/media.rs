//! What people send besides text, as the bot hears it.

use peacrab::people::Groups;
use peacrab::types::message::{InboundContent, MediaKind, MediaRef, Quote};
use serde_json::{Value, json};

use super::{CREW, FORUM, Reading, hear_in, reading_after};
use crate::support::bot_api::line::{ADA, BOB, Line};

fn file(more: &Value) -> Value {
    let mut file = json!({ "file_id": "f", "file_unique_id": "u", "file_size": 9 });
    file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    file
}

fn sent(field: &str, value: Value) -> Line {
    Line::private(&ADA, "").media(field, value)
}

fn heard(line: &Line) -> InboundContent {
    hear_in(line, None, Groups::Mention).unwrap().body
}

fn media(kind: MediaKind, name: Option<&str>, mime: Option<&str>) -> MediaRef {
    MediaRef {
        kind,
        name: name.map(str::to_owned),
        mime: mime.map(str::to_owned),
        size: Some(9),
        handle: "f".to_owned(),
        fetched: None,
        quoted: false,
    }
}

#[test]
fn each_kind_of_file_is_something_to_fetch() {
    let named = json!({ "file_name": "plan.pdf", "mime_type": "application/pdf" });
    let song = json!({ "file_name": "a.mp3", "mime_type": "audio/mpeg", "duration": 7 });
    let round = json!({ "length": 240, "duration": 7 });
    let cases = [
        ("document", named, media(MediaKind::Document, Some("plan.pdf"), Some("application/pdf"))),
        ("audio", song, media(MediaKind::Audio, Some("a.mp3"), Some("audio/mpeg"))),
        ("voice", json!({ "duration": 7 }), media(MediaKind::Voice, None, Some("audio/ogg"))),
        ("video", json!({ "duration": 7 }), media(MediaKind::Video, None, Some("video/mp4"))),
        ("video_note", round, media(MediaKind::Video, None, Some("video/mp4"))),
        ("animation", json!({}), media(MediaKind::Video, None, Some("video/mp4"))),
    ];
    for (field, more, expected) in cases {
        let line = sent(field, file(&more));
        assert_eq!(
            heard(&line),
            InboundContent { media: vec![expected.clone()], ..InboundContent::default() }
        );
        let body = heard(&line.with("caption", "read this"));
        assert_eq!((body.text.as_str(), body.media), ("read this", vec![expected]), "{field}");
    }
}

#[test]
fn of_a_photo_the_largest_size_that_can_be_had_is_taken() {
    let size = |id: &str, width: u64, bytes: u64| json!({ "file_id": id, "file_unique_id": id, "width": width, "height": 10, "file_size": bytes });
    let sizes = json!([size("s", 90, 1), size("l", 1280, 9), size("m", 320, 5)]);
    let body = heard(&sent("photo", sizes));
    let expected =
        MediaRef { handle: "l".to_owned(), ..media(MediaKind::Image, None, Some("image/jpeg")) };
    assert_eq!(body, InboundContent { media: vec![expected], ..InboundContent::default() });
    let sizes = json!([size("s", 90, 1), size("l", 1280, 30 << 20)]);
    assert_eq!(heard(&sent("photo", sizes)).media[0].handle, "s");
}

#[test]
fn a_sticker_is_a_picture_that_means_something() {
    for (more, mime) in [
        (json!({ "is_animated": false, "is_video": false }), "image/webp"),
        (json!({ "is_animated": true, "is_video": false }), "application/x-tgsticker"),
        (json!({ "is_animated": false, "is_video": true }), "video/webm"),
    ] {
        let mut sticker = file(&more);
        sticker["emoji"] = "🦀".into();
        let body = heard(&sent("sticker", sticker));
        assert_eq!(body.text, "[sent a sticker: 🦀]");
        assert_eq!(body.media, [media(MediaKind::Sticker, None, Some(mime))]);
    }
}

#[test]
fn a_file_without_a_handle_is_told_in_words() {
    assert_eq!(heard(&sent("voice", json!({ "duration": 7 }))).text, "[sent a voice message, 7 s]");
    assert_eq!(heard(&sent("photo", json!([{}]))).text, "[sent a photo]");
}

#[test]
fn who_replies_to_a_picture_speaks_of_it() {
    let photo = json!([file(&json!({ "width": 1, "height": 1 }))]);
    let shown = Line::group(CREW, &BOB, "").media("photo", photo).json(40, None);
    let line = Line::group(CREW, &ADA, "@peacrab_bot what is this?");
    let body = hear_in(&line, Some(shown), Groups::Mention).unwrap().body;
    assert_eq!(body.text, "what is this?");
    let quoted = Quote {
        author: "Bob".to_owned(),
        text: "[sent a photo]".to_owned(),
        by_others: true,
        by_bot: false,
    };
    assert_eq!(body.quoted, Some(quoted));
    let picture = media(MediaKind::Image, None, Some("image/jpeg"));
    assert_eq!(body.media, [MediaRef { quoted: true, ..picture }]);
}

#[test]
fn what_is_passed_on_is_another_persons() {
    let origin = |more: Value| {
        let mut origin = json!({ "date": 1 });
        origin.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        origin
    };
    let bob = json!({ "id": 7002, "is_bot": false, "first_name": "Bob", "last_name": "B" });
    let news = json!({ "id": -9, "type": "channel", "title": "News" });
    for (more, author) in [
        (json!({ "type": "user", "sender_user": bob }), "forwarded from Bob B"),
        (json!({ "type": "hidden_user", "sender_user_name": "Eve" }), "forwarded from Eve"),
        (json!({ "type": "channel", "message_id": 4, "chat": news }), "forwarded from News"),
        (json!({ "type": "of_next_year" }), "forwarded from somebody"),
    ] {
        let line = Line::private(&ADA, "/stop it").with("forward_origin", origin(more.clone()));
        let text = "/stop it".to_owned();
        let quoted =
            Some(Quote { author: author.to_owned(), text, by_others: true, by_bot: false });
        assert_eq!(heard(&line), InboundContent { quoted, ..InboundContent::default() });
        let voice = sent("voice", file(&json!({ "duration": 7 })));
        let body = heard(&voice.with("forward_origin", origin(more)));
        let text = "[sent a voice message, 7 s]".to_owned();
        assert_eq!(
            body.quoted,
            Some(Quote { author: author.to_owned(), text, by_others: true, by_bot: false })
        );
        let voice = media(MediaKind::Voice, None, Some("audio/ogg"));
        assert_eq!(
            (body.text.as_str(), body.media),
            ("", vec![MediaRef { quoted: true, ..voice }])
        );
    }
}

#[test]
fn what_is_passed_on_to_a_group_does_not_speak_to_the_bot() {
    let origin = json!({ "type": "hidden_user", "sender_user_name": "Eve", "date": 1 });
    let line = Line::group(CREW, &ADA, "@peacrab_bot /stop").with("forward_origin", origin);
    let update = json!({ "update_id": 1, "message": line.json(55, None) });
    let Reading::Overheard { line, .. } = reading_after(&update, Groups::Mention, None) else {
        panic!()
    };
    assert_eq!(line.text, "(forwarded from Eve) @peacrab_bot /stop");
}

#[test]
fn a_picture_of_another_chat_comes_along_too() {
    let elsewhere = json!({
        "origin": { "type": "channel", "date": 1, "message_id": 4,
                    "chat": { "id": -9, "type": "channel", "title": "News" } },
        "document": file(&json!({ "file_name": "a.txt" })),
    });
    let line = Line::private(&ADA, "what is this?").with("external_reply", elsewhere);
    let body = heard(&line);
    let quoted = Quote {
        author: "News".to_owned(),
        text: "[sent a file: a.txt]".to_owned(),
        by_others: true,
        by_bot: false,
    };
    assert_eq!(body.quoted, Some(quoted));
    let file = media(MediaKind::Document, Some("a.txt"), None);
    assert_eq!(body.media, [MediaRef { quoted: true, ..file }]);
}

#[test]
fn the_pictures_of_an_album_belong_together() {
    let photo = json!([file(&json!({ "width": 1, "height": 1 }))]);
    let line = Line::group(FORUM, &ADA, "").media("photo", photo).with("media_group_id", "a");
    let update = json!({ "update_id": 1, "message": line.json(55, None) });
    let after = |album, groups| reading_after(&update, groups, album);
    let Reading::Speaks(inbound) = after(Some("a"), Groups::Mention) else { panic!() };
    assert!(inbound.body.more && inbound.body.media.len() == 1, "{inbound:?}");
    assert!(matches!(after(Some("b"), Groups::Mention), Reading::Overheard { .. }));
    assert_eq!(after(Some("a"), Groups::Off), Reading::Ignored);
}
