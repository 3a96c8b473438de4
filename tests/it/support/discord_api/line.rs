//! What people say on Discord, as its gateway tells of it.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

/// Discord's ids count milliseconds from here, above 22 bits of other things.
const EPOCH_MS: i64 = 1_420_070_400_000;

pub(crate) const GUILD: u64 = 900_000_000_000_000_001;
/// A text channel of the server.
pub(crate) const CREW: u64 = 900_000_000_000_000_011;
/// Another one.
pub(crate) const LAB: u64 = 900_000_000_000_000_012;
/// A thread in [`CREW`].
pub(crate) const THREAD: u64 = 900_000_000_000_000_021;

/// The role that the server made for the bot.
pub(crate) const ROLE: u64 = 900_000_000_000_000_031;

/// An account.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    pub(crate) is_bot: bool,
}

pub(crate) const ADA: Person = Person { id: 800_000_000_000_000_001, name: "Ada", is_bot: false };
pub(crate) const BOB: Person = Person { id: 800_000_000_000_000_002, name: "Bob", is_bot: false };
pub(crate) const BOT: Person =
    Person { id: 800_000_000_000_004_242, name: "Peacrab", is_bot: true };

/// Whom a mention can be resolved to.
const KNOWN: [&Person; 3] = [&ADA, &BOB, &BOT];

impl Person {
    pub(crate) fn json(&self) -> Value {
        json!({
            "id": self.id.to_string(), "username": self.name.to_lowercase(), "discriminator": "0",
            "global_name": self.name, "avatar": null, "bot": self.is_bot, "public_flags": 0,
        })
    }

    /// The channel in which they and the bot are alone.
    pub(crate) fn dm(&self) -> u64 {
        self.id + 100_000
    }

    pub(crate) fn mention(&self) -> String {
        format!("<@{}>", self.id)
    }
}

/// One message to be.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) channel: u64,
    pub(crate) guild: Option<u64>,
    pub(crate) reply_to: Option<u64>,
    from: Person,
    text: String,
    /// Further fields of the message; they win over the usual ones. Null stays null.
    fields: Map<String, Value>,
}

impl Line {
    pub(crate) fn private(from: &Person, text: &str) -> Self {
        Self {
            channel: from.dm(),
            guild: None,
            reply_to: None,
            from: from.clone(),
            text: text.to_owned(),
            fields: Map::default(),
        }
    }

    /// In a channel or a thread of the server.
    pub(crate) fn server(channel: u64, from: &Person, text: &str) -> Self {
        Self { channel, guild: Some(GUILD), ..Self::private(from, text) }
    }

    pub(crate) fn replying_to(mut self, message: u64) -> Self {
        self.reply_to = Some(message);
        self
    }

    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    /// The message as REST gives it: without server and member.
    pub(crate) fn json(&self, id: u64, replied: Option<Value>) -> Value {
        let mut message = message_json(id, self.channel, &self.from, &self.text);
        if let Some(reply_to) = self.reply_to {
            message["type"] = 19.into();
            message["message_reference"] = json!({
                "type": 0, "message_id": reply_to.to_string(),
                "channel_id": self.channel.to_string(),
            });
            message["referenced_message"] = replied.unwrap_or_default();
        }
        message.as_object_mut().unwrap().extend(self.fields.clone());
        message
    }

    /// The message as the gateway tells of it.
    pub(crate) fn event(&self, id: u64, replied: Option<Value>) -> Value {
        let mut message = self.json(id, replied);
        if let Some(guild) = self.guild {
            message["guild_id"] = guild.to_string().into();
            message["member"] = json!({
                "roles": [], "nick": null, "joined_at": "2020-01-01T00:00:00+00:00",
                "deaf": false, "mute": false, "flags": 0,
            });
        }
        message
    }
}

pub(crate) fn message_json(id: u64, channel: u64, from: &Person, text: &str) -> Value {
    let mentioned = KNOWN.iter().filter(|person| {
        text.contains(&person.mention()) || text.contains(&format!("<@!{}>", person.id))
    });
    let mentions: Vec<_> = mentioned.map(|person| person.json()).collect();
    json!({
        "id": id.to_string(), "type": 0, "channel_id": channel.to_string(),
        "author": from.json(), "content": text, "timestamp": time_of(id).to_rfc3339(),
        "edited_timestamp": null, "tts": false, "mention_everyone": false, "mentions": mentions,
        "mention_roles": [], "attachments": [], "embeds": [], "components": [], "pinned": false,
        "flags": 0,
    })
}

/// The first id of a moment.
pub(crate) fn id_at(at: DateTime<Utc>) -> u64 {
    u64::try_from(at.timestamp_millis() - EPOCH_MS).unwrap() << 22
}

pub(crate) fn time_of(id: u64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(i64::try_from(id >> 22).unwrap() + EPOCH_MS).unwrap()
}
