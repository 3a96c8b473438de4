//! Reads pages of messages for [`backlog`](crate::channels::backlog): after a lost session Discord does
//! not repeat the missed ones.

use chrono::{DateTime, Utc};
use serde::Deserialize as _;
use serde_json::Value;

use super::endpoints::Endpoint;
use super::events::DiscordListener;
use super::ids::{channel_id, number};
use crate::bus::Publisher;
use crate::channels::ChannelError;
use crate::channels::backlog::{
    Backlog, HistoryPage, HistoryPages, PageError, Position, RateLimit, Unread,
};
use crate::channels::discord::wire::{self, DiscordMessage};
use crate::types::message::Address;

/// Maximum number of messages of one page (Message resource, get channel messages).
const PAGE: usize = 100;

impl HistoryPages for DiscordListener<'_> {
    /// The limit belongs to the route, and a route to one channel.
    const RATE_LIMIT: RateLimit = RateLimit::OfPlace;
    /// As many as the journal returns.
    const CHANNELS_MAX: usize = 100;
    const THREADS_MAX: usize = 100;
    const IS_IN_ORDER: bool = true;

    fn publisher(&self) -> &Publisher {
        self.publisher
    }

    fn backlog(&self) -> &Backlog {
        &self.discord.backlog
    }

    fn position_at(at: DateTime<Utc>) -> Position {
        Position(wire::id_before(at).to_string())
    }

    async fn page(&self, at: &Address, from: &Unread) -> Result<HistoryPage, PageError> {
        // A thread is a channel.
        let place = at.thread.as_ref().map_or(at.chat.as_str(), |thread| thread.as_str());
        let channel_id = channel_id(place).map_err(PageError::Never)?;
        let query = [("after", from.after.0.clone()), ("limit", PAGE.to_string())];
        let endpoint = Endpoint::Messages(channel_id);
        let page = self.discord.api.get::<Vec<Value>>(endpoint, &query).await;
        let page = page.map_err(|error| PageError::from(error.while_asking()))?;
        if page.is_empty() {
            return Ok(HistoryPage::default());
        }
        // REST does not name the server of a message. A message that may have been meant for others is
        // not taken as addressed to the bot.
        let address = self.discord.addresses.look_up(&self.discord.api, place).await?;
        let Some(address) = address else {
            return Err(PageError::Never("the bot may not look at this channel".to_owned()));
        };
        let mut events = Vec::new();
        for raw in &page {
            let event = match DiscordMessage::deserialize(raw) {
                Ok(message) => self.decode_at(&message, address.clone()).await?,
                Err(_) => self.unreadable(raw),
            };
            events.push((position_of(raw), event));
        }
        let last = events.iter().map(|(position, _)| position).max().cloned();
        let next = last.filter(|last| page.len() >= PAGE && *last > from.after);
        let next = next.map(|after| Unread { after, ..from.clone() });
        Ok(HistoryPage { events, next, threads: Vec::new() })
    }

    async fn keep_backlog(&self) -> Result<(), ChannelError> {
        self.discord.mark(true, self.publisher).await
    }
}

fn position_of(raw: &Value) -> Position {
    let id = raw["id"].as_str().filter(|id| number(id).is_ok());
    Position(id.unwrap_or_default().to_owned())
}
