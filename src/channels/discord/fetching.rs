//! Reads files and earlier messages from Discord on demand.

use std::time::Duration;

use reqwest::{StatusCode, Url};
use tokio::time::timeout;

use super::Discord;
use super::call::{DiscordCallError, UNKNOWN_CHANNEL};
use super::endpoints::Endpoint;
use super::ids::message_id;
use super::inbound;
use super::sending::DiscordTarget;
use crate::channels::discord::wire::{self, DiscordMessage};
use crate::channels::{ChannelError, MediaSink};
use crate::types::message::{Address, MessageId, OverheardLine};

/// Discord's file servers (Reference, CDN).
const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

/// Maximum wait for the next part of a file.
const PIECE_TIME_MAX: Duration = Duration::from_secs(20);

/// Maximum number of messages of one request (Message resource, get channel messages).
const PAGE: usize = 100;

impl Discord {
    /// Streams a file. Its URL comes from a message, so the host is checked: no other host is contacted,
    /// and our token is never sent along.
    pub(super) async fn fetch_file(
        &self,
        url: &str,
        into: &mut MediaSink,
    ) -> Result<(), ChannelError> {
        let not_at_discord =
            || ChannelError::Refused("the file is not on Discord's servers".to_owned());
        let url =
            Url::parse(url).ok().filter(|url| self.holds_files(url)).ok_or_else(not_at_discord)?;
        let too_slow = |_| ChannelError::unavailable("discord: the download is too slow");
        let request = timeout(PIECE_TIME_MAX, self.api.client().get(url).send());
        let lost = |_| ChannelError::unavailable("discord: the connection was lost");
        let mut response = request.await.map_err(too_slow)?.map_err(lost)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN | StatusCode::GONE => {
                let reason = "the file is no longer at Discord";
                return Err(ChannelError::Refused(reason.to_owned()));
            }
            status => {
                let reason = format!("discord's files answer with {status}");
                return Err(ChannelError::unavailable(reason));
            }
        }
        loop {
            let piece = timeout(PIECE_TIME_MAX, response.chunk()).await.map_err(too_slow)?;
            match piece.map_err(lost)? {
                Some(piece) => into.write(&piece).await?,
                None => return Ok(()),
            }
        }
    }

    fn holds_files(&self, url: &Url) -> bool {
        let at_discord = url.scheme() == "https"
            && url.port().is_none()
            && url.host_str().is_some_and(|host| FILE_HOSTS.contains(&host));
        at_discord || self.api.base().origin() == url.origin()
    }

    /// Returns the latest messages at an address, or those before a given one, oldest first.
    pub(super) async fn read_before(
        &self,
        at: &Address,
        before: Option<&MessageId>,
        max: usize,
    ) -> Result<Vec<OverheardLine>, ChannelError> {
        let mut query = vec![("limit", max.clamp(1, PAGE).to_string())];
        if let Some(before) = before {
            let id = message_id(before.as_str()).map_err(ChannelError::Refused)?;
            query.push(("before", id.to_string()));
        }
        let endpoint = Endpoint::Messages(DiscordTarget::of(at)?.channel());
        let mut page: Vec<DiscordMessage> = match self.api.get(endpoint, &query).await {
            Ok(page) => page,
            // A thread that is not opened yet.
            Err(error) if error.is(UNKNOWN_CHANNEL) => Vec::new(),
            Err(error) => return Err(DiscordCallError::while_asking(error)),
        };
        let bot = self.identity().await?;
        page.sort_by_key(|message| wire::order_of(&message.id));
        Ok(page.iter().filter_map(|message| inbound::line(message, bot)).collect())
    }
}
