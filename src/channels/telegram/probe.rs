//! Checks the bot's account by calls that neither confirm nor receive updates: `getMe` and `getWebhookInfo`.

use serde::Deserialize;
use teloxide::payloads::GetWebhookInfo;

use super::Telegram;
use super::call::TelegramCallError;
use crate::channels::{ChannelError, ChannelProbe};

/// The needed part of the answer: a webhook would receive the updates in our place.
#[derive(Deserialize)]
struct WebhookInfo {
    #[serde(default)]
    url: String,
}

/// A fault, and what to do about it.
const HAS_WEBHOOK: &str = "a webhook is set for this bot, so it cannot be polled: remove it with the method deleteWebhook \
                           (open https://api.telegram.org/botTOKEN/deleteWebhook with your token)";

impl Telegram {
    pub(super) async fn probe_account(&self) -> Result<ChannelProbe, ChannelError> {
        let me = self.ask_identity().await?;
        let webhook = self.api.call(&GetWebhookInfo::new(), self.deadlines.call).await;
        let WebhookInfo { url } = webhook.map_err(TelegramCallError::while_asking)?;
        let faults = if url.is_empty() { Vec::new() } else { vec![HAS_WEBHOOK.to_owned()] };
        let link = Some(format!("https://t.me/{}", me.username));
        Ok(ChannelProbe { name: format!("@{}", me.username), link, faults })
    }
}
