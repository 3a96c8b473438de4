//! The parts of Discord's objects that we read. Lenient: a field that is absent or has a new shape counts
//! as absent. Only fields that are indispensable are required.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An id. Discord sends them as strings.
pub type Snowflake = String;

/// Start of Discord's ids, which have milliseconds above 22 bits of other data (Reference, snowflakes).
const EPOCH_MS: i64 = 1_420_070_400_000;

#[derive(Clone, Debug, Default, Deserialize)]
pub struct DiscordUser {
    pub id: Snowflake,
    #[serde(default, deserialize_with = "or_default")]
    pub username: String,
    #[serde(default, deserialize_with = "or_default")]
    pub global_name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub bot: bool,
}

impl DiscordUser {
    /// The visible name.
    pub fn shown(&self) -> &str {
        self.global_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.username)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Member {
    #[serde(default, deserialize_with = "or_default")]
    pub nick: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub user: Option<DiscordUser>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct DiscordMessage {
    pub id: Snowflake,
    pub channel_id: Snowflake,
    pub author: DiscordUser,
    #[serde(default, deserialize_with = "or_default")]
    pub guild_id: Option<Snowflake>,
    #[serde(default, deserialize_with = "or_default")]
    pub member: Option<Member>,
    #[serde(default, deserialize_with = "or_default")]
    pub webhook_id: Option<Snowflake>,
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub kind: u8,
    #[serde(default, deserialize_with = "or_default")]
    pub content: String,
    #[serde(default, deserialize_with = "or_default")]
    pub edited_timestamp: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub flags: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub nonce: Option<Value>,
    #[serde(default, deserialize_with = "each")]
    pub mentions: Vec<DiscordUser>,
    #[serde(default, deserialize_with = "each")]
    pub mention_roles: Vec<Snowflake>,
    #[serde(default, deserialize_with = "or_default")]
    pub mention_everyone: bool,
    #[serde(default, deserialize_with = "each")]
    pub attachments: Vec<DiscordAttachment>,
    #[serde(default, deserialize_with = "each")]
    pub sticker_items: Vec<Sticker>,
    #[serde(default, deserialize_with = "or_default")]
    pub poll: Option<Poll>,
    #[serde(default, deserialize_with = "or_default")]
    pub message_reference: Option<Reference>,
    #[serde(default, deserialize_with = "or_default")]
    pub referenced_message: Option<Box<Self>>,
    #[serde(default, deserialize_with = "each")]
    pub message_snapshots: Vec<Snapshot>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct DiscordAttachment {
    #[serde(default, deserialize_with = "or_default")]
    pub filename: String,
    #[serde(default, deserialize_with = "or_default")]
    pub content_type: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub size: Option<u64>,
    pub url: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Sticker {
    pub id: Snowflake,
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub format_type: u8,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Poll {
    pub question: PollText,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PollText {
    pub text: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Reference {
    #[serde(default, deserialize_with = "or_default")]
    pub message_id: Option<Snowflake>,
}

/// A forwarded message.
#[derive(Clone, Debug, Deserialize)]
pub struct Snapshot {
    pub message: Forwarded,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Forwarded {
    #[serde(default, deserialize_with = "or_default")]
    pub content: String,
    #[serde(default, deserialize_with = "each")]
    pub attachments: Vec<DiscordAttachment>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct DiscordChannel {
    #[serde(rename = "type")]
    pub kind: u8,
    #[serde(default, deserialize_with = "or_default")]
    pub guild_id: Option<Snowflake>,
    #[serde(default, deserialize_with = "or_default")]
    pub parent_id: Option<Snowflake>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct DiscordRole {
    pub id: Snowflake,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Option<Tags>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Tags {
    #[serde(default, deserialize_with = "or_default")]
    pub bot_id: Snowflake,
}

/// One or several deleted messages.
#[derive(Clone, Debug, Deserialize)]
pub struct Deleted {
    pub channel_id: Snowflake,
    #[serde(default, deserialize_with = "or_default")]
    pub guild_id: Option<Snowflake>,
    #[serde(default, deserialize_with = "or_default")]
    pub id: Option<Snowflake>,
    #[serde(default, deserialize_with = "each")]
    pub ids: Vec<Snowflake>,
}

/// A pressed button or an invoked command.
#[derive(Clone, Debug, Deserialize)]
pub struct DiscordInteraction {
    pub id: Snowflake,
    pub token: String,
    #[serde(rename = "type")]
    pub kind: u8,
    pub channel_id: Snowflake,
    #[serde(default, deserialize_with = "or_default")]
    pub channel: Option<DiscordChannel>,
    #[serde(default, deserialize_with = "or_default")]
    pub guild_id: Option<Snowflake>,
    #[serde(default, deserialize_with = "or_default")]
    pub member: Option<Member>,
    #[serde(default, deserialize_with = "or_default")]
    pub user: Option<DiscordUser>,
    #[serde(default, deserialize_with = "or_default")]
    pub message: Option<DiscordShownMessage>,
    #[serde(default, deserialize_with = "or_default")]
    pub data: InvokedCommand,
}

/// The message above a button.
#[derive(Clone, Debug, Deserialize)]
pub struct DiscordShownMessage {
    pub id: Snowflake,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct InvokedCommand {
    /// Of a button.
    #[serde(default, deserialize_with = "or_default")]
    pub custom_id: String,
    /// Of a command.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "each")]
    pub options: Vec<TypedOption>,
}

/// Text that was typed into an option of a command.
#[derive(Clone, Debug, Deserialize)]
pub struct TypedOption {
    #[serde(default)]
    pub value: Value,
}

/// A command as it is registered.
#[derive(Clone, Debug, Deserialize)]
pub struct RegisteredCommand {
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub kind: Option<u8>,
    #[serde(default, deserialize_with = "each")]
    pub options: Vec<Value>,
}

/// The needed part of a sent message. Other fields are ignored, so they cannot be mistaken for a failure.
#[derive(Clone, Debug, Deserialize)]
pub struct DiscordSentMessage {
    pub id: Snowflake,
}

/// Returns the creation time of an id.
pub fn time_of(id: &str) -> Option<DateTime<Utc>> {
    let id: u64 = id.parse().ok()?;
    DateTime::from_timestamp_millis(i64::try_from(id >> 22).ok()?.checked_add(EPOCH_MS)?)
}

/// Returns an id just before all that were made since then.
pub fn id_before(at: DateTime<Utc>) -> u64 {
    let since = u64::try_from(at.timestamp_millis() - EPOCH_MS).unwrap_or_default();
    since.saturating_sub(1) << 22
}

/// Orders ids of the same kind by creation.
pub fn order_of(id: &str) -> u64 {
    id.parse().unwrap_or_default()
}

/// Deserializes a value. An unexpected shape counts as absent.
fn or_default<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Default + for<'a> Deserialize<'a>,
    D: Deserializer<'de>,
{
    let value = Value::deserialize(from)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

/// Deserializes the readable elements of a list.
fn each<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: for<'a> Deserialize<'a>,
    D: Deserializer<'de>,
{
    let values: Vec<Value> = or_default(from)?;
    Ok(values.into_iter().filter_map(|value| T::deserialize(value).ok()).collect())
}
