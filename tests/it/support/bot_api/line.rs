//! What people say to the bot, as Telegram tells of it.

use serde_json::{Map, Value, json};

/// Telegram's ids of supergroups are below this.
const SUPERGROUP_MAX: i64 = -1_000_000_000_000;

/// An account.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) id: i64,
    pub(crate) name: &'static str,
    pub(crate) is_bot: bool,
}

pub(crate) const ADA: Person = Person { id: 7001, name: "Ada", is_bot: false };
pub(crate) const BOB: Person = Person { id: 7002, name: "Bob", is_bot: false };

impl Person {
    pub(crate) fn json(&self) -> Value {
        json!({ "id": self.id, "is_bot": self.is_bot, "first_name": self.name })
    }
}

/// One message to be.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) chat: i64,
    pub(crate) topic: Option<i64>,
    pub(crate) reply_to: Option<i64>,
    from: Person,
    /// Further fields of the message; they win over the usual ones. Null removes one.
    fields: Map<String, Value>,
}

impl Line {
    pub(crate) fn private(from: &Person, text: &str) -> Self {
        Self::group(from.id, from, text)
    }

    /// A group's id is negative, a supergroup's is below -1,000,000,000,000.
    pub(crate) fn group(chat: i64, from: &Person, text: &str) -> Self {
        let line =
            Self { chat, topic: None, reply_to: None, from: from.clone(), fields: Map::default() };
        line.with("text", text).with("entities", entities(text))
    }

    pub(crate) fn in_topic(mut self, topic: i64) -> Self {
        self.topic = Some(topic);
        self
    }

    pub(crate) fn replying_to(mut self, message: i64) -> Self {
        self.reply_to = Some(message);
        self
    }

    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    /// Something else than text: a photo, say.
    pub(crate) fn media(self, field: &str, value: Value) -> Self {
        self.with("text", Value::Null).with("entities", Value::Null).with(field, value)
    }

    /// The message as it is in an update.
    pub(crate) fn json(&self, id: i64, replied: Option<Value>) -> Value {
        let mut message = json!({
            "message_id": id,
            "from": self.from.json(),
            "chat": chat_json(self.chat, self.from.name),
            "date": 1_700_000_000 + id,
        });
        let object = message.as_object_mut().unwrap();
        if let Some(topic) = self.topic {
            object.insert("message_thread_id".to_owned(), topic.into());
            object.insert("is_topic_message".to_owned(), true.into());
        }
        if let Some(replied) = replied {
            object.insert("reply_to_message".to_owned(), replied);
        }
        for (field, value) in self.fields.clone() {
            if value.is_null() || value == json!([]) {
                object.remove(&field);
            } else {
                object.insert(field, value);
            }
        }
        message
    }
}

pub(crate) fn chat_json(id: i64, name: &str) -> Value {
    match id {
        1.. => json!({ "id": id, "type": "private", "first_name": name }),
        ..=SUPERGROUP_MAX => {
            json!({ "id": id, "type": "supergroup", "title": "The crew", "is_forum": true })
        }
        _ => json!({ "id": id, "type": "group", "title": "The crew" }),
    }
}

/// The mentions and commands in `text`, as Telegram finds them, in UTF-16 units.
fn entities(text: &str) -> Value {
    let mut found = Vec::new();
    let mut offset = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let length = name.encode_utf16().count();
        let kind = match name.chars().next() {
            Some('@') => Some("mention"),
            Some('/') => Some("bot_command"),
            _ => None,
        };
        if let Some(kind) = kind.filter(|_| length > 1) {
            found.push(json!({ "type": kind, "offset": offset, "length": length }));
        }
        offset += word.encode_utf16().count();
    }
    found.into()
}
