//! Checks the bot's account by calls that open no gateway session: its identity, its intents, and its session limit.

use serde::Deserialize;

use super::Discord;
use super::call::DiscordCallError;
use super::endpoints::Endpoint;
use crate::channels::{ChannelError, ChannelProbe};

/// Message Content Intent, for many servers and for few (Application resource, application flags).
const MESSAGE_CONTENT: u64 = (1 << 18) | (1 << 19);

/// View Channels, Send Messages, Attach Files, Read Message History, Add Reactions, Create Public Threads and Send
/// Messages in Threads (Permissions, bitwise permission flags).
const PERMISSIONS: u64 =
    (1 << 10) | (1 << 11) | (1 << 15) | (1 << 16) | (1 << 6) | (1 << 35) | (1 << 38);

const NO_CONTENT: &str = "the bot cannot read messages: at https://discord.com/developers/applications open your application, \
                          Bot, and switch on Message Content Intent";

#[derive(Deserialize)]
struct DiscordApplication {
    id: String,
    #[serde(default)]
    flags: u64,
}

impl Discord {
    pub(super) async fn probe_account(&self) -> Result<ChannelProbe, ChannelError> {
        let me = self.get_me().await?;
        let found = self.api.get::<DiscordApplication>(Endpoint::ApplicationFlags, &[]).await;
        let DiscordApplication { id, flags } = found.map_err(DiscordCallError::while_asking)?;
        // A session that may not begin today is a fault, too.
        self.gateway_url(false).await?;
        let has_content = flags & MESSAGE_CONTENT != 0;
        let faults = if has_content { Vec::new() } else { vec![NO_CONTENT.to_owned()] };
        let link = format!(
            "https://discord.com/oauth2/authorize?client_id={id}&scope=bot%20applications.commands\
             &permissions={PERMISSIONS}"
        );
        Ok(ChannelProbe { name: format!("@{}", me.name), link: Some(link), faults })
    }
}
