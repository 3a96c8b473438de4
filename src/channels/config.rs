//! The `[channels.NAME]` sections as they are meant. All of them are known in every build: one that
//! leaves a platform out can say so.

use serde::Deserialize;

use crate::people::Access;
use crate::secret::Secret;

/// Where the platforms are; each can be told to be elsewhere.
pub const DISCORD_URL: &str = "https://discord.com";
pub const SLACK_URL: &str = "https://slack.com/api";
pub const TELEGRAM_URL: &str = "https://api.telegram.org";

/// One `[channels.NAME]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub access: Access,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Discord(DiscordConfig),
    Slack(SlackConfig),
    Telegram(TelegramConfig),
    Terminal,
}

/// What is Discord's own.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscordConfig {
    pub token: Secret,
    /// Without a slash at the end: `https://discord.com` or a local server.
    pub api_url: String,
    pub threads: DiscordThreads,
}

/// Whether a question in a server's channel is answered in a thread of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiscordThreads {
    /// It is answered where it stands.
    #[default]
    Reply,
    Open,
}

/// What is Slack's own.
#[derive(Clone, Debug, PartialEq)]
pub struct SlackConfig {
    /// The bot's: `xoxb-…`.
    pub token: Secret,
    /// The app's, for Socket Mode: `xapp-…`.
    pub app_token: Secret,
    /// Without a slash at the end: `https://slack.com/api`.
    pub api_url: String,
    pub threads: SlackThreads,
}

/// Where a message in a channel is answered that is in no thread yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlackThreads {
    /// In a thread of its own; each thread is a conversation.
    #[default]
    Thread,
    /// In the channel; threads that people begin are conversations of their own.
    Channel,
}

/// What is Telegram's own.
#[derive(Clone, Debug, PartialEq)]
pub struct TelegramConfig {
    pub token: Secret,
    /// Without a slash at the end: `https://api.telegram.org` or a local server.
    pub api_url: String,
}
