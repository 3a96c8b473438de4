//! Which fields a body may have, of which type, and how much of each Discord takes.

use serde_json::{Map, Value, json};

use super::state::Denial;

/// Discord's limit, in characters (Message resource, create message).
const CONTENT_MAX: usize = 2000;
const NONCE_MAX: usize = 25;
const ROWS_MAX: usize = 5;
const BUTTONS_MAX: usize = 5;

/// The type of a field.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Number,
    Object,
    List,
    Nonce,
}

use Kind::{Flag, List, Nonce, Number, Object, Text};

type Fields = &'static [(&'static str, Kind)];

const CREATE: Fields = &[
    ("content", Text),
    ("nonce", Nonce),
    ("enforce_nonce", Flag),
    ("tts", Flag),
    ("embeds", List),
    ("allowed_mentions", Object),
    ("message_reference", Object),
    ("components", List),
    ("sticker_ids", List),
    ("attachments", List),
    ("flags", Number),
];
const EDIT: Fields = &[
    ("content", Text),
    ("embeds", List),
    ("flags", Number),
    ("allowed_mentions", Object),
    ("components", List),
    ("attachments", List),
];
const THREAD: Fields =
    &[("name", Text), ("auto_archive_duration", Number), ("rate_limit_per_user", Number)];
const CALLBACK: Fields = &[("type", Number), ("data", Object)];
const CALLBACK_DATA: Fields = &[
    ("content", Text),
    ("flags", Number),
    ("allowed_mentions", Object),
    ("components", List),
    ("embeds", List),
    ("tts", Flag),
    ("attachments", List),
];
const COMMAND: Fields = &[
    ("name", Text),
    ("description", Text),
    ("type", Number),
    ("options", List),
    ("contexts", List),
    ("integration_types", List),
    ("default_member_permissions", Text),
    ("dm_permission", Flag),
    ("nsfw", Flag),
    ("name_localizations", Object),
    ("description_localizations", Object),
];

/// A message to be made, complete; whether files come along is told by `files`.
pub(super) fn message(body: &Value, files: usize) -> Result<(), Denial> {
    let fields = object(body, CREATE)?;
    let content = content(fields)?;
    let has_more = ["embeds", "components", "sticker_ids"]
        .iter()
        .any(|key| fields.get(*key).and_then(Value::as_array).is_some_and(|list| !list.is_empty()));
    if content.is_empty() && !has_more && files == 0 {
        return Err(Denial::new(400, 50006, "Cannot send an empty message"));
    }
    let nonce = fields.get("nonce").and_then(Value::as_str).unwrap_or_default();
    if nonce.chars().count() > NONCE_MAX {
        return Err(bad("nonce", "BASE_TYPE_BAD_LENGTH"));
    }
    mentions(fields)?;
    no_previews(fields)?;
    if let Some(reference) = fields.get("message_reference") {
        snowflake(&reference["message_id"]).ok_or_else(|| bad("message_reference", "BAD"))?;
    }
    rows(fields)
}

pub(super) fn edit(body: &Value) -> Result<(), Denial> {
    let fields = object(body, EDIT)?;
    if content(fields)?.is_empty() {
        return Err(Denial::new(400, 50006, "Cannot send an empty message"));
    }
    mentions(fields)?;
    no_previews(fields)?;
    rows(fields)
}

/// The bot must not have links fetched for a preview: SUPPRESS_EMBEDS.
fn no_previews(fields: &Map<String, Value>) -> Result<(), Denial> {
    let flags = fields.get("flags").and_then(Value::as_u64).unwrap_or_default();
    let text = fields.get("content").and_then(Value::as_str).unwrap_or_default();
    if flags & 4 == 4 || !text.contains("://") {
        Ok(())
    } else {
        Err(bad("flags", "SHOWS_PREVIEWS"))
    }
}

pub(super) fn thread(body: &Value) -> Result<String, Denial> {
    let fields = object(body, THREAD)?;
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() || name.chars().count() > 100 {
        return Err(bad("name", "BASE_TYPE_BAD_LENGTH"));
    }
    let minutes = fields.get("auto_archive_duration").and_then(Value::as_u64);
    if minutes.is_some_and(|minutes| ![60, 1440, 4320, 10080].contains(&minutes)) {
        return Err(bad("auto_archive_duration", "BASE_TYPE_CHOICES"));
    }
    Ok(name.to_owned())
}

/// The answer to an interaction: its type.
pub(super) fn callback(body: &Value) -> Result<u64, Denial> {
    let fields = object(body, CALLBACK)?;
    let kind = fields.get("type").and_then(Value::as_u64).unwrap_or_default();
    match (kind, fields.get("data")) {
        (4, Some(data)) => {
            let fields = object(data, CALLBACK_DATA)?;
            if content(fields)?.is_empty() {
                return Err(Denial::new(400, 50006, "Cannot send an empty message"));
            }
            mentions(fields)?;
        }
        (5, Some(data)) => {
            object(data, CALLBACK_DATA)?;
        }
        (5 | 6, None) => {}
        _ => return Err(bad("type", "BASE_TYPE_CHOICES")),
    }
    Ok(kind)
}

pub(super) fn commands(body: &Value) -> Result<(), Denial> {
    let list = body.as_array().ok_or_else(|| bad("body", "BASE_TYPE_LIST"))?;
    let mut names = Vec::new();
    for command in list {
        let fields = object(command, COMMAND)?;
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, about) = (text("name"), text("description"));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if !(1..=32).contains(&name.len()) || !name.chars().all(plain) {
            return Err(bad("name", "APPLICATION_COMMAND_INVALID_NAME"));
        }
        if !(1..=100).contains(&about.chars().count()) {
            return Err(bad("description", "BASE_TYPE_BAD_LENGTH"));
        }
        if names.contains(&name) {
            return Err(bad("name", "APPLICATION_COMMANDS_DUPLICATE_NAME"));
        }
        names.push(name);
    }
    Ok(())
}

pub(super) fn snowflake(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}

fn object(body: &Value, known: Fields) -> Result<&Map<String, Value>, Denial> {
    let fields = body.as_object().ok_or_else(|| bad("body", "BASE_TYPE_OBJECT"))?;
    for (name, value) in fields {
        let Some((_, kind)) = known.iter().find(|(known, _)| known == name) else {
            return Err(bad(name, "UNKNOWN_FIELD"));
        };
        let fits = match kind {
            Text => value.is_string() || value.is_null(),
            Flag => value.is_boolean(),
            Number => value.is_u64(),
            Object => value.is_object(),
            List => value.is_array(),
            Nonce => value.is_string() || value.is_i64() || value.is_u64(),
        };
        if !fits {
            return Err(bad(name, "BASE_TYPE_WRONG"));
        }
    }
    Ok(fields)
}

/// The text as Discord takes it: trimmed, not too long.
fn content(fields: &Map<String, Value>) -> Result<&str, Denial> {
    let text = fields.get("content").and_then(Value::as_str).unwrap_or_default();
    if text.chars().count() > CONTENT_MAX {
        return Err(bad("content", "BASE_TYPE_MAX_LENGTH"));
    }
    Ok(text.trim())
}

/// A model's words must never ping: Discord would take a message without this, we do not.
fn mentions(fields: &Map<String, Value>) -> Result<(), Denial> {
    let allowed =
        fields.get("allowed_mentions").ok_or_else(|| bad("allowed_mentions", "ABSENT"))?;
    if allowed["parse"] != json!([]) {
        return Err(bad("allowed_mentions", "PARSES"));
    }
    Ok(())
}

fn rows(fields: &Map<String, Value>) -> Result<(), Denial> {
    let rows = fields.get("components").and_then(Value::as_array);
    let rows = rows.map(Vec::as_slice).unwrap_or_default();
    let mut ids = Vec::new();
    for row in rows {
        let buttons = row["components"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_fine = row["type"] == 1
            && (1..=BUTTONS_MAX).contains(&buttons.len())
            && buttons.iter().all(|button| {
                let length =
                    |key: &str| button[key].as_str().map_or(0, |text: &str| text.chars().count());
                button["type"] == 2
                    && button["style"].is_u64()
                    && (1..=100).contains(&length("custom_id"))
                    && (1..=80).contains(&length("label"))
            });
        if !is_fine {
            return Err(bad("components", "COMPONENT_LAYOUT"));
        }
        ids.extend(buttons.iter().map(|button| button["custom_id"].clone()));
    }
    let count = ids.len();
    ids.sort_by_key(Value::to_string);
    ids.dedup();
    if rows.len() > ROWS_MAX || ids.len() < count {
        return Err(bad("components", "COMPONENT_CUSTOM_ID_DUPLICATED"));
    }
    Ok(())
}

fn bad(field: &str, code: &str) -> Denial {
    let mut denial = Denial::new(400, 50035, "Invalid Form Body");
    denial.more = Some(json!({ field: { "_errors": [{ "code": code, "message": code }] } }));
    denial
}
