//! The parsed `[channels.NAME]` sections. All of them exist in every build, so that a build without a
//! platform can report that it is missing.

use serde::Deserialize;

use crate::people::Access;
use crate::secret::Secret;

/// Default addresses of the platforms. The config can replace each of them.
pub const DISCORD_URL: &str = "https://discord.com";
pub const SLACK_URL: &str = "https://slack.com/api";
pub const TELEGRAM_URL: &str = "https://api.telegram.org";

/// One `[channels.NAME]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub access: Access,
    pub kind: ChannelKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ChannelKind {
    Discord(DiscordConfig),
    Slack(SlackConfig),
    Telegram(TelegramConfig),
    Terminal,
}

/// Settings of Discord.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscordConfig {
    pub token: Secret,
    /// Without a slash at the end: `https://discord.com` or a local server.
    pub api_url: String,
    pub threads: DiscordThreads,
}

/// Decides if a question in a server's channel is answered in a new thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiscordThreads {
    /// The answer is a reply in the channel.
    #[default]
    Reply,
    Open,
}

/// Settings of Slack.
#[derive(Clone, Debug, PartialEq)]
pub struct SlackConfig {
    /// The bot token: `xoxb-…`.
    pub token: Secret,
    /// The app-level token for Socket Mode: `xapp-…`.
    pub app_token: Secret,
    /// Without a slash at the end: `https://slack.com/api`.
    pub api_url: String,
    pub threads: SlackThreads,
}

/// Place of the answer to a message in a channel that is not in a thread yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlackThreads {
    /// In a new thread. Each thread is a conversation.
    #[default]
    Thread,
    /// In the channel. Threads that people begin are conversations of their own.
    Channel,
}

/// Settings of Telegram.
#[derive(Clone, Debug, PartialEq)]
pub struct TelegramConfig {
    pub token: Secret,
    /// Without a slash at the end: `https://api.telegram.org` or a local server.
    pub api_url: String,
}
