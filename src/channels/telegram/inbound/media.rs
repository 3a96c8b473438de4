//! Content besides text: files that can be fetched, and descriptions of all of it.

use serde_json::Value;

use crate::types::message::{MediaKind, MediaRef};

/// Maximum size, in bytes, of a file that Telegram's own server gives to bots (Bot API, getFile).
const FETCH_MAX: u64 = 20 << 20;

/// Kinds of content besides text. Telegram repeats some under an older key: an animation is a document
/// too, a venue a location. The first match counts.
pub(super) const MEDIA: &[&str] = &[
    "animation",
    "audio",
    "contact",
    "checklist",
    "dice",
    "document",
    "game",
    "venue",
    "location",
    "paid_media",
    "photo",
    "poll",
    "sticker",
    "story",
    "video",
    "video_note",
    "voice",
];

/// Kinds whose descriptions have words that somebody else may have chosen: names, titles, the question of a poll.
const CARDS: &[&str] = &["contact", "checklist", "document", "game", "venue", "poll"];

/// Returns true if the description of a message's content has words that need not be the sender's own.
pub(super) fn is_card(raw: &Value) -> bool {
    let kind = MEDIA.iter().find(|kind| raw.get(kind).is_some());
    kind.is_some_and(|kind| CARDS.contains(kind))
}

/// Describes content other than text for the model. None for text and service messages.
pub(super) fn description(raw: &Value) -> Option<String> {
    let (kind, media) = MEDIA.iter().find_map(|kind| Some((*kind, raw.get(kind)?)))?;
    let field = |name: &str| match media.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let with_detail = |noun: &str, detail: Option<String>| match detail {
        Some(detail) => format!("{noun}: {detail}"),
        None => noun.to_owned(),
    };
    let with_duration = |noun: &str| match field("duration") {
        Some(seconds) => format!("{noun}, {seconds} s"),
        None => noun.to_owned(),
    };
    let coordinates = |of: &Value| {
        let [latitude, longitude] = ["latitude", "longitude"].map(|name| of.get(name));
        Some(format!("latitude {}, longitude {}", latitude?, longitude?))
    };
    let noun = match kind {
        "animation" => "an animation".to_owned(),
        "audio" => with_duration("an audio file"),
        "contact" => {
            let contact = [field("first_name"), field("last_name"), field("phone_number")];
            let contact: Vec<_> = contact.into_iter().flatten().collect();
            with_detail("a contact", Some(contact.join(" ")))
        }
        "checklist" => with_detail("a checklist", field("title")),
        "dice" => format!(
            "{} that shows {}",
            field("emoji").unwrap_or_else(|| "a dice".to_owned()),
            field("value").unwrap_or_default()
        ),
        "document" => with_detail("a file", field("file_name")),
        "game" => with_detail("a game", field("title")),
        "venue" => {
            let parts =
                [field("title"), field("address"), media.get("location").and_then(coordinates)];
            with_detail("a place", Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", ")))
        }
        "location" => with_detail("a location", coordinates(media)),
        "paid_media" => "paid media".to_owned(),
        "photo" => "a photo".to_owned(),
        "poll" => with_detail("a poll", field("question")),
        "sticker" => with_detail("a sticker", field("emoji")),
        "story" => "a story".to_owned(),
        "video" => with_duration("a video"),
        "video_note" => with_duration("a video message"),
        _ => with_duration("a voice message"),
    };
    Some(format!("[sent {noun}]"))
}

/// Returns the attached file, if it can be fetched.
pub(super) fn file(raw: &Value) -> Option<MediaRef> {
    let (kind, media) = MEDIA.iter().find_map(|kind| Some((*kind, raw.get(kind)?)))?;
    let (kind, mime, media) = match kind {
        "photo" => (MediaKind::Image, Some("image/jpeg"), largest(media)?),
        "voice" => (MediaKind::Voice, Some("audio/ogg"), media),
        "audio" => (MediaKind::Audio, None, media),
        "animation" | "video" | "video_note" => (MediaKind::Video, Some("video/mp4"), media),
        "document" => (MediaKind::Document, None, media),
        "sticker" => (MediaKind::Sticker, Some(sticker_type(media)), media),
        _ => return None,
    };
    let text = |name: &str| media.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(MediaRef {
        kind,
        name: text("file_name"),
        mime: text("mime_type").or_else(|| mime.map(str::to_owned)),
        size: media.get("file_size").and_then(Value::as_u64),
        handle: text("file_id")?,
        fetched: None,
        quoted: false,
    })
}

/// Returns the largest size of a photo that Telegram gives to bots.
fn largest(sizes: &Value) -> Option<&Value> {
    let number = |size: &Value, name: &str| size.get(name).and_then(Value::as_u64).unwrap_or(0);
    let sizes = sizes.as_array()?.iter();
    sizes
        .filter(|size| number(size, "file_size") <= FETCH_MAX)
        .max_by_key(|size| number(size, "width").saturating_mul(number(size, "height")))
}

/// Returns the media type of a sticker. Telegram does not send one.
fn sticker_type(sticker: &Value) -> &'static str {
    let flag = |name: &str| sticker.get(name).and_then(Value::as_bool).unwrap_or_default();
    match (flag("is_animated"), flag("is_video")) {
        (true, _) => "application/x-tgsticker",
        (_, true) => "video/webm",
        _ => "image/webp",
    }
}
