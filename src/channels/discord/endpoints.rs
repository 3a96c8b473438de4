//! The table of Discord's REST endpoints that Peacrab calls, and nothing else: `call` sends the
//! requests.

use reqwest::{Method, Url};
use serenity::model::id::{ApplicationId, ChannelId, GuildId, InteractionId, MessageId};

/// The API version that our bodies and parsers are written for.
const BASE_PATH: &str = "api/v10";

/// An endpoint with the ids in its path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Endpoint<'a> {
    /// The bot's own account.
    CurrentUser,
    /// The bot's application; an old bot's has another id than the bot.
    CurrentApplication,
    /// The same application with its flags, which show the privileged intents.
    ApplicationFlags,
    /// The gateway's address, and how many sessions may still begin today.
    GatewayBot,
    /// The commands that are registered for all servers.
    Commands(ApplicationId),
    /// Replaces the commands that are registered for all servers.
    SetCommands(ApplicationId),
    /// A server's roles, the bot's own among them.
    GuildRoles(GuildId),
    /// The kind of a channel, and its parent.
    Channel(ChannelId),
    /// Messages of a channel, before or after one of them.
    Messages(ChannelId),
    /// One message, for the name of its thread.
    Message(ChannelId, MessageId),
    /// Sends a message, with or without files.
    CreateMessage(ChannelId),
    /// Edits a message of ours.
    EditMessage(ChannelId, MessageId),
    /// Deletes a draft of ours.
    DeleteMessage(ChannelId, MessageId),
    /// Opens the thread of a message.
    StartThread(ChannelId, MessageId),
    /// Shows the typing indicator.
    TriggerTyping(ChannelId),
    /// Reacts to a message as the bot, with a percent-encoded emoji.
    CreateReaction(ChannelId, MessageId, &'a str),
    /// Answers a pressed button or a command, by its token.
    CreateInteractionResponse(InteractionId, &'a str),
}

impl Endpoint<'_> {
    /// The method, and the path below [`BASE_PATH`].
    pub(super) fn method_and_path(self) -> (Method, String) {
        let (get, put, post) = (Method::GET, Method::PUT, Method::POST);
        match self {
            Self::CurrentUser => (get, "users/@me".to_owned()),
            Self::CurrentApplication => (get, "oauth2/applications/@me".to_owned()),
            Self::ApplicationFlags => (get, "applications/@me".to_owned()),
            Self::GatewayBot => (get, "gateway/bot".to_owned()),
            Self::Commands(of) => (get, format!("applications/{of}/commands")),
            Self::SetCommands(of) => (put, format!("applications/{of}/commands")),
            Self::GuildRoles(of) => (get, format!("guilds/{of}/roles")),
            Self::Channel(id) => (get, format!("channels/{id}")),
            Self::Messages(at) => (get, format!("channels/{at}/messages")),
            Self::Message(at, id) => (get, format!("channels/{at}/messages/{id}")),
            Self::CreateMessage(at) => (post, format!("channels/{at}/messages")),
            Self::EditMessage(at, id) => (Method::PATCH, format!("channels/{at}/messages/{id}")),
            Self::DeleteMessage(at, id) => (Method::DELETE, format!("channels/{at}/messages/{id}")),
            Self::StartThread(at, id) => (post, format!("channels/{at}/messages/{id}/threads")),
            Self::TriggerTyping(at) => (post, format!("channels/{at}/typing")),
            Self::CreateReaction(at, id, emoji) => {
                (put, format!("channels/{at}/messages/{id}/reactions/{emoji}/@me"))
            }
            Self::CreateInteractionResponse(id, token) => {
                (post, format!("interactions/{id}/{token}/callback"))
            }
        }
    }
}

/// The address of `path` on the server at `base`, which ends in a slash.
pub(super) fn address(base: &Url, path: &str) -> Result<Url, url::ParseError> {
    format!("{base}{BASE_PATH}/{path}").parse()
}
