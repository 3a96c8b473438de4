//! What people say to the bot, as Slack tells of it.

use serde_json::{Map, Value, json};

use super::{BOT, TEAM};

/// An account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Person {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
}

pub(crate) const ADA: Person = Person { id: "U0ADA", name: "Ada" };
pub(crate) const BOB: Person = Person { id: "U0BOB", name: "Bob" };

pub(crate) const PEOPLE: &[Person] = &[ADA, BOB];

impl Person {
    /// Their private chat with the bot.
    pub(crate) fn im(&self) -> String {
        format!("D{}", &self.id[1..])
    }
}

/// One message to be.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) channel: String,
    pub(crate) thread: Option<String>,
    text: String,
    from: Person,
    /// Further fields of the message; they win over the usual ones. Null removes one.
    fields: Map<String, Value>,
}

impl Line {
    pub(crate) fn im(from: &Person, text: &str) -> Self {
        Self::channel(&from.im(), from, text)
    }

    pub(crate) fn channel(channel: &str, from: &Person, text: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            thread: None,
            text: text.to_owned(),
            from: *from,
            fields: Map::new(),
        }
    }

    pub(crate) fn in_thread(mut self, ts: &str) -> Self {
        self.thread = Some(ts.to_owned());
        self
    }

    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    pub(crate) fn mentions_bot(&self) -> bool {
        self.text.contains(&format!("<@{BOT}>"))
    }

    /// The message as it is in the history.
    pub(crate) fn message(&self, ts: &str) -> Value {
        let mut message = json!({
            "type": "message",
            "user": self.from.id,
            "team": TEAM,
            "text": self.text,
            "ts": ts,
            "client_msg_id": format!("0b1b0ef0-{ts}"),
            "blocks": [{
                "type": "rich_text",
                "block_id": "b1",
                "elements": [{ "type": "rich_text_section", "elements": [
                    { "type": "text", "text": self.text }
                ] }]
            }],
        });
        let object = message.as_object_mut().unwrap();
        if let Some(thread) = &self.thread {
            object.insert("thread_ts".to_owned(), thread.as_str().into());
        }
        for (field, value) in self.fields.clone() {
            if value.is_null() {
                object.remove(&field);
            } else {
                object.insert(field, value);
            }
        }
        message
    }

    /// As a `message` event.
    pub(crate) fn event(&self, ts: &str) -> Value {
        let mut event = self.message(ts);
        event["channel"] = self.channel.as_str().into();
        event["event_ts"] = ts.into();
        event["channel_type"] = channel_type(&self.channel).into();
        event
    }

    /// As an `app_mention` event, which knows less.
    pub(crate) fn mention(&self, ts: &str) -> Value {
        let mut event = self.event(ts);
        event["type"] = "app_mention".into();
        event.as_object_mut().unwrap().remove("channel_type");
        event.as_object_mut().unwrap().remove("subtype");
        event
    }
}

pub(crate) fn channel_type(channel: &str) -> &'static str {
    match channel.chars().next() {
        Some('D') => "im",
        Some('G') => "mpim",
        _ => "channel",
    }
}
