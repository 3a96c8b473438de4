//! Which methods there are, which token and which form each wants, and what it takes. Stricter than
//! Slack, which ignores arguments that it does not know.

use serde_json::{Map, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Bot,
    App,
}

/// The methods that read know no JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Json,
    Form,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Ts,
    Channel,
    User,
    Flag,
    Integer,
    Metadata,
    Blocks,
    Files,
}

use Kind::{Blocks, Channel, Files, Flag, Integer, Metadata, Text, Ts, User};

/// What each argument is, whichever method takes it.
const ARGUMENTS: &[(Kind, &[&str])] = &[
    (Channel, &["channel", "channel_id"]),
    (User, &["user"]),
    (Ts, &["ts", "thread_ts", "timestamp", "oldest", "latest"]),
    (Text, &["text", "name", "status", "cursor", "file", "filename", "initial_comment"]),
    (Text, &["alt_txt", "snippet_type"]),
    (Flag, &["unfurl_links", "unfurl_media", "mrkdwn", "link_names", "inclusive"]),
    (Flag, &["include_all_metadata", "include_locale"]),
    (Integer, &["limit", "length"]),
    (Metadata, &["metadata"]),
    (Blocks, &["blocks"]),
    (Files, &["files"]),
];

/// Those that a method needs, and those that it takes.
type Names = &'static [&'static str];

pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) token: Token,
    pub(super) takes: Takes,
    needed: Names,
    optional: Names,
}

const fn json(name: &'static str, needed: Names, optional: Names) -> Method {
    Method { name, token: Token::Bot, takes: Takes::Json, needed, optional }
}

const fn form(name: &'static str, needed: Names, optional: Names) -> Method {
    Method { takes: Takes::Form, ..json(name, needed, optional) }
}

const POSTED: Names = &[
    "text",
    "blocks",
    "thread_ts",
    "metadata",
    "unfurl_links",
    "unfurl_media",
    "mrkdwn",
    "link_names",
];
const UPDATED: Names =
    &["text", "blocks", "metadata", "link_names", "unfurl_links", "unfurl_media"];
const PAGED: Names = &["oldest", "latest", "inclusive", "limit", "cursor", "include_all_metadata"];

const METHODS: &[Method] = &[
    form("auth.test", &[], &[]),
    Method { token: Token::App, ..form("apps.connections.open", &[], &[]) },
    json("chat.postMessage", &["channel"], POSTED),
    json("chat.update", &["channel", "ts"], UPDATED),
    json("chat.delete", &["channel", "ts"], &[]),
    json("chat.postEphemeral", &["channel", "user", "text"], &["thread_ts"]),
    form("conversations.history", &["channel"], PAGED),
    form("conversations.replies", &["channel", "ts"], PAGED),
    form("users.info", &["user"], &["include_locale"]),
    json("reactions.add", &["channel", "timestamp", "name"], &[]),
    json("assistant.threads.setStatus", &["channel_id", "thread_ts", "status"], &[]),
    form("files.getUploadURLExternal", &["filename", "length"], &["alt_txt", "snippet_type"]),
    json(
        "files.completeUploadExternal",
        &["files"],
        &["channel_id", "thread_ts", "initial_comment"],
    ),
    form("files.info", &["file"], &[]),
];

/// What is wrong, in Slack's word and in more.
pub(super) type Wrong = (&'static str, String);

pub(super) fn method(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

/// Checks the arguments, and gives those a type that came as text.
pub(super) fn check(
    method: &Method,
    found: Map<String, Value>,
) -> Result<Map<String, Value>, Wrong> {
    let mut checked = Map::new();
    for (name, value) in found {
        let Some(kind) = kind_of(method, &name) else {
            return Err(("invalid_arguments", format!("unknown argument `{name}`")));
        };
        let value = match (method.takes, &value) {
            (Takes::Form, Value::String(text)) if matches!(kind, Flag | Integer) => {
                serde_json::from_str(text).unwrap_or(value)
            }
            _ => value,
        };
        fits(kind, &value).map_err(|error| (error, format!("`{name}`: {value}")))?;
        checked.insert(name, value);
    }
    // The bot must not have links fetched for a preview.
    let hides = |name: &str| checked.get(name).is_some_and(|value| *value == false);
    let text = checked.get("text").and_then(Value::as_str).unwrap_or_default();
    let may_show = method.optional.contains(&"unfurl_links") && text.contains("://");
    if may_show && !(hides("unfurl_links") && hides("unfurl_media")) {
        return Err(("invalid_arguments", "links would be fetched".to_owned()));
    }
    let caption = checked.get("initial_comment").and_then(Value::as_str).unwrap_or_default();
    if caption.contains("://") {
        return Err(("invalid_arguments", "links of a caption would be fetched".to_owned()));
    }
    match method.needed.iter().find(|name| !checked.contains_key(**name)) {
        None => Ok(checked),
        Some(&("channel" | "channel_id")) => Err(("channel_not_found", "no channel".to_owned())),
        Some(name) => Err(("invalid_arguments", format!("`{name}` is required"))),
    }
}

fn kind_of(method: &Method, argument: &str) -> Option<Kind> {
    method.needed.iter().chain(method.optional).find(|known| **known == argument)?;
    ARGUMENTS.iter().find(|(_, names)| names.contains(&argument)).map(|(kind, _)| *kind)
}

fn fits(kind: Kind, value: &Value) -> Result<(), &'static str> {
    let text = value.as_str();
    let is_id = |first: &[char]| {
        text.is_some_and(|id| {
            id.len() > 2
                && id.starts_with(first)
                && id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        })
    };
    let (fits, error) = match kind {
        Text => (text.is_some(), "invalid_arguments"),
        Ts => (text.is_some_and(is_ts), "invalid_ts"),
        Channel => (is_id(&['C', 'D', 'G', 'U', 'W']), "channel_not_found"),
        User => (is_id(&['U', 'W']), "user_not_found"),
        Flag => (value.is_boolean(), "invalid_arguments"),
        Integer => (value.is_u64(), "invalid_arguments"),
        Metadata => {
            let fits = value["event_type"].is_string() && value["event_payload"].is_object();
            (fits && value.as_object().unwrap().len() == 2, "invalid_metadata_format")
        }
        Blocks => (value.as_array().is_some_and(|blocks| are_blocks(blocks)), "invalid_blocks"),
        Files => {
            let is_file = |file: &Value| file["id"].is_string();
            let fits = value.as_array().is_some_and(|files| files.iter().all(is_file));
            (fits, "invalid_arguments")
        }
    };
    if fits { Ok(()) } else { Err(error) }
}

/// `1610241741.000200`, with six digits behind the point.
fn is_ts(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.').is_some_and(|(seconds, micros)| {
        seconds.len() == 10 && micros.len() == 6 && digits(seconds) && digits(micros)
    })
}

/// Block kit's bounds, of the blocks that the bot knows.
fn are_blocks(blocks: &[Value]) -> bool {
    let text = |value: &Value, kind: &str, max: usize| {
        value["type"] == kind
            && value["text"].as_str().is_some_and(|t| (1..=max).contains(&t.chars().count()))
    };
    let mut actions = std::collections::BTreeSet::new();
    let mut is_button = |button: &Value| {
        let action = button["action_id"].as_str().unwrap_or_default();
        button["type"] == "button"
            && text(&button["text"], "plain_text", 75)
            && (1..=255).contains(&action.len())
            && actions.insert(action.to_owned())
    };
    blocks.len() <= 50
        && blocks.iter().all(|block| match block["type"].as_str() {
            // Slack makes links of names and channels otherwise, which wake up people.
            Some("section") => {
                text(&block["text"], "mrkdwn", 3000) && block["text"]["verbatim"] == true
            }
            Some("actions") => block["elements"].as_array().is_some_and(|buttons| {
                (1..=25).contains(&buttons.len()) && buttons.iter().all(&mut is_button)
            }),
            _ => false,
        })
}
