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

type Parameter = (&'static str, Kind, bool);

const METHODS: &[(&str, &[Parameter])] = &[
    ("getMe", &[]),
    ("deleteWebhook", &[("drop_pending_updates", Flag, false)]),
    (
        "getUpdates",
        &[
            ("offset", Integer, false),
            ("limit", Integer, false),
            ("timeout", Integer, false),
            ("allowed_updates", List, false),
        ],
    ),
    (
        "sendMessage",
        &[
            ("chat_id", Chat, true),
            ("text", Text, true),
            ("message_thread_id", Integer, false),
            ("parse_mode", Text, false),
            ("entities", List, false),
            ("link_preview_options", Object, false),
            ("disable_notification", Flag, false),
            ("protect_content", Flag, false),
            ("reply_parameters", Object, false),
            ("reply_markup", Object, false),
        ],
    ),
    (
        "editMessageText",
        &[
            ("chat_id", Chat, true),
            ("message_id", Integer, true),
            ("text", Text, true),
            ("parse_mode", Text, false),
            ("entities", List, false),
            ("link_preview_options", Object, false),
            ("reply_markup", Object, false),
        ],
    ),
    (
        "sendChatAction",
        &[("chat_id", Chat, true), ("action", Text, true), ("message_thread_id", Integer, false)],
    ),
    ("deleteMessage", &[("chat_id", Chat, true), ("message_id", Integer, true)]),
    (
        "setMessageReaction",
        &[
            ("chat_id", Chat, true),
            ("message_id", Integer, true),
            ("reaction", List, false),
            ("is_big", Flag, false),
        ],
    ),
    (
        "answerCallbackQuery",
        &[
            ("callback_query_id", Text, true),
            ("text", Text, false),
            ("show_alert", Flag, false),
            ("url", Text, false),
            ("cache_time", Integer, false),
        ],
    ),
    ("getFile", &[("file_id", Text, true)]),
    ("sendPhoto", &with_file("photo")),
    ("sendDocument", &with_file("document")),
    ("sendVoice", &with_file("voice")),
    ("sendAudio", &with_file("audio")),
    ("sendVideo", &with_file("video")),
    ("getMyCommands", &[("scope", Object, false), ("language_code", Text, false)]),
    (
        "setMyCommands",
        &[("commands", List, true), ("scope", Object, false), ("language_code", Text, false)],
    ),
];

/// What all methods take that send a file. The file itself comes beside the parameters.
const fn with_file(field: &'static str) -> [Parameter; 10] {
    [
        ("chat_id", Chat, true),
        (field, Text, true),
        ("message_thread_id", Integer, false),
        ("caption", Text, false),
        ("parse_mode", Text, false),
        ("caption_entities", List, false),
        ("disable_notification", Flag, false),
        ("protect_content", Flag, false),
        ("reply_parameters", Object, false),
        ("reply_markup", Object, false),
    ]
}

/// The method's own spelling; its name may come in any case.
pub(crate) fn method(name: &str) -> Option<&'static str> {
    METHODS.iter().map(|(known, _)| *known).find(|known| known.eq_ignore_ascii_case(name))
}

/// Checks the parameters, and gives those a type that came as text.
pub(crate) fn check(method: &str, found: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let (_, known) = METHODS.iter().find(|(name, _)| *name == method).unwrap();
    let mut checked = Map::new();
    for (name, value) in found {
        let Some((_, kind, _)) = known.iter().find(|(known, ..)| *known == name) else {
            return Err(format!("Bad Request: unknown parameter \"{name}\""));
        };
        let value = typed(*kind, value)
            .ok_or_else(|| format!("Bad Request: parameter \"{name}\" has the wrong type"))?;
        checked.insert(name, value);
    }
    match known.iter().find(|(name, _, required)| *required && !checked.contains_key(*name)) {
        None => Ok(checked),
        Some(("chat_id", ..)) => Err("Bad Request: chat_id is empty".to_owned()),
        Some(("text", ..)) => Err("Bad Request: message text is empty".to_owned()),
        Some((name, ..)) => Err(format!("Bad Request: parameter \"{name}\" is required")),
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
