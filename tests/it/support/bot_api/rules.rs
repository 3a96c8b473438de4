//! Which methods there are, and what each takes. Stricter than Telegram, which ignores parameters
//! that it does not know.

use serde_json::{Map, Value};

#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Text,
    Flag,
    /// A number, or the name of a public chat.
    Chat,
    List,
    Object,
}

use Kind::{Chat, Flag, Integer, List, Object, Text};

/// What each parameter is, whichever method takes it.
const PARAMETERS: &[(Kind, &[&str])] = &[
    (Chat, &["chat_id"]),
    (Text, &["text", "caption", "parse_mode", "action", "file_id", "url", "language_code"]),
    (Text, &["callback_query_id", "photo", "document", "voice", "audio", "video"]),
    (Integer, &["message_id", "message_thread_id", "offset", "limit", "timeout", "cache_time"]),
    (Flag, &["drop_pending_updates", "disable_notification", "protect_content", "is_big"]),
    (Flag, &["show_alert"]),
    (List, &["allowed_updates", "entities", "caption_entities", "reaction", "commands"]),
    (Object, &["link_preview_options", "reply_parameters", "reply_markup", "scope"]),
];

type Names = &'static [&'static str];

/// Each method with the parameters that it needs, and those that it takes.
const METHODS: &[(&str, Names, Names)] = &[
    ("getMe", &[], &[]),
    ("getWebhookInfo", &[], &[]),
    ("deleteWebhook", &[], &["drop_pending_updates"]),
    ("getUpdates", &[], &["offset", "limit", "timeout", "allowed_updates"]),
    ("sendMessage", &["chat_id", "text"], SENT_TEXT),
    (
        "editMessageText",
        &["chat_id", "message_id", "text"],
        &["parse_mode", "entities", "link_preview_options", "reply_markup"],
    ),
    ("sendChatAction", &["chat_id", "action"], &["message_thread_id"]),
    ("deleteMessage", &["chat_id", "message_id"], &[]),
    ("setMessageReaction", &["chat_id", "message_id"], &["reaction", "is_big"]),
    ("answerCallbackQuery", &["callback_query_id"], &["text", "show_alert", "url", "cache_time"]),
    ("getFile", &["file_id"], &[]),
    ("sendPhoto", &["chat_id", "photo"], SENT_FILE),
    ("sendDocument", &["chat_id", "document"], SENT_FILE),
    ("sendVoice", &["chat_id", "voice"], SENT_FILE),
    ("sendAudio", &["chat_id", "audio"], SENT_FILE),
    ("sendVideo", &["chat_id", "video"], SENT_FILE),
    ("getMyCommands", &[], &["scope", "language_code"]),
    ("setMyCommands", &["commands"], &["scope", "language_code"]),
];

const SENT_TEXT: Names = &[
    "message_thread_id",
    "parse_mode",
    "entities",
    "link_preview_options",
    "disable_notification",
    "protect_content",
    "reply_parameters",
    "reply_markup",
];

/// The file itself comes beside the parameters.
const SENT_FILE: Names = &[
    "message_thread_id",
    "caption",
    "parse_mode",
    "caption_entities",
    "disable_notification",
    "protect_content",
    "reply_parameters",
    "reply_markup",
];

/// The method's own spelling; its name may come in any case.
pub(crate) fn method(name: &str) -> Option<&'static str> {
    METHODS.iter().map(|(known, ..)| *known).find(|known| known.eq_ignore_ascii_case(name))
}

/// Checks the parameters, and gives those a type that came as text.
pub(crate) fn check(method: &str, found: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let (_, needed, optional) = METHODS.iter().find(|(name, ..)| *name == method).unwrap();
    let kind_of = |parameter: &str| {
        needed.iter().chain(*optional).find(|known| **known == parameter)?;
        PARAMETERS.iter().find(|(_, names)| names.contains(&parameter)).map(|(kind, _)| *kind)
    };
    let mut checked = Map::new();
    for (name, value) in found {
        let kind =
            kind_of(&name).ok_or_else(|| format!("Bad Request: unknown parameter \"{name}\""))?;
        let value = typed(kind, value)
            .ok_or_else(|| format!("Bad Request: parameter \"{name}\" has the wrong type"))?;
        checked.insert(name, value);
    }
    let text = checked.get("text").and_then(Value::as_str).unwrap_or_default();
    let shows_preview = text.contains("://")
        && checked.get("link_preview_options").is_none_or(|it| it["is_disabled"] != true);
    if shows_preview && optional.contains(&"link_preview_options") {
        return Err("Bad Request: the bot must not have links fetched for a preview".to_owned());
    }
    match needed.iter().find(|name| !checked.contains_key(**name)) {
        None => Ok(checked),
        Some(&"chat_id") => Err("Bad Request: chat_id is empty".to_owned()),
        Some(&"text") => Err("Bad Request: message text is empty".to_owned()),
        Some(name) => Err(format!("Bad Request: parameter \"{name}\" is required")),
    }
}

fn typed(kind: Kind, value: Value) -> Option<Value> {
    let value = match (kind, &value) {
        (Text, _) => value,
        (_, Value::String(text)) => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    };
    let fits = match kind {
        Integer => value.is_i64() || value.is_u64(),
        Text => value.is_string(),
        Flag => value.is_boolean(),
        Chat => value.is_i64() || value.as_str().is_some_and(|name| name.starts_with('@')),
        List => value.is_array(),
        Object => value.is_object(),
    };
    fits.then_some(value)
}
