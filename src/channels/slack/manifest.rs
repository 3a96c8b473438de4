//! The manifest from which Slack makes an app with everything that Peacrab needs.

/// The manifest, to be pasted at <https://api.slack.com/apps>.
pub const MANIFEST: &str = include_str!("manifest.yaml");

/// The scopes of the bot's token that the manifest asks for.
pub const BOT_SCOPES: [&str; 12] = [
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "im:history",
    "mpim:history",
    "reactions:write",
    "users:read",
];

/// The scope of the assistant pane, which workspaces on the free plan do not have. Without it no status is shown.
pub const OPTIONAL_SCOPE: &str = "assistant:write";
