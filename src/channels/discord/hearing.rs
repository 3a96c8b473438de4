//! What comes in: events in the order in which Discord tells them, and what was missed, read back
//! place by place. An event counts as heard once it is kept.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use serenity::http::{LightMethod, Route};
use serenity::model::id;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::inbound::{self, Custom, Identity, Reading, Spot};
use super::spots::Spots;
use super::wire::{self, Deleted, Interaction, Message};
use super::{Discord, channel_id, not_kept};
use crate::bus::{Published, Publisher};
use crate::channels::ChannelError;
use crate::message::{Address, MessageId};
use crate::people::Groups;
use crate::replies;

/// The event of a pressed button or an invoked command.
pub(super) const INTERACTION: &str = "INTERACTION_CREATE";

/// Messages of one look (Message resource, get channel messages).
const PAGE: usize = 100;

/// What is read back of one place; who says more while nobody listens says the rest again.
const MISSED_MAX: usize = 500;

/// Discord forgets an interaction that is not answered by then.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);

/// Kinds of interactions, and of answers to them (Interactions, receiving and responding).
const COMMAND: u8 = 2;
const BUTTON: u8 = 3;
const SAY: u8 = 4;
const NOTHING: u8 = 6;
/// Only whoever pressed sees it.
const EPHEMERAL: u64 = 64;

/// How a message reached us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    New,
    Changed,
}

/// The listener of one link.
pub(super) struct Ear<'a> {
    pub(super) discord: &'a Discord,
    pub(super) publisher: &'a Publisher,
    pub(super) bot: &'a Identity,
}

impl Ear<'_> {
    /// Takes an event in; true if it was kept.
    pub(super) async fn hear(&self, name: &str, data: &Value) -> Result<bool, ChannelError> {
        match name {
            "MESSAGE_CREATE" => self.hear_message(data, Heard::New).await,
            // Embeds that Discord adds change a message too; nobody has said anything then.
            "MESSAGE_UPDATE" if data["edited_timestamp"].is_string() => {
                self.hear_message(data, Heard::Changed).await
            }
            "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => self.hear_deleted(data).await,
            INTERACTION => self.hear_interaction(data).await,
            _ => Ok(false),
        }
    }

    async fn hear_message(&self, data: &Value, heard: Heard) -> Result<bool, ChannelError> {
        let message = match Message::deserialize(data) {
            Ok(message) => message,
            // An update may hold no more than what has changed.
            Err(_) if heard == Heard::Changed => return Ok(false),
            Err(_) => return self.keep_raw(data).await,
        };
        if !inbound::is_speech(&message, self.bot, |id| self.publisher.lets_bot(id)) {
            return Ok(false);
        }
        let spot = match &message.guild_id {
            None => Spots::private(&message.channel_id),
            told => {
                let Discord { spots, api, .. } = self.discord;
                spots.of(api, &message.channel_id, told.as_ref()).await?
            }
        };
        self.take(&message, &spot, heard).await
    }

    async fn take(
        &self,
        message: &Message,
        spot: &Spot,
        heard: Heard,
    ) -> Result<bool, ChannelError> {
        let custom = self.custom(spot).await?;
        let spot = &Spot { role: self.our_role(message, spot).await?, ..spot.clone() };
        match inbound::read(message, spot, self.bot, self.publisher.channel(), custom) {
            Reading::Speaks(inbound) => {
                let taken = match heard {
                    Heard::New => self.publisher.publish(*inbound).await,
                    Heard::Changed => self.publisher.edit(*inbound).await,
                };
                taken.map_err(|error| not_kept(&error))?;
                Ok(true)
            }
            Reading::Overheard(line) => {
                let at = spot.address(self.publisher.channel());
                self.publisher.overheard(&at, message.id.as_str().into(), line);
                Ok(false)
            }
            Reading::Ignored => Ok(false),
        }
    }

    /// Asked for only where somebody mentions roles.
    async fn our_role(
        &self,
        message: &Message,
        spot: &Spot,
    ) -> Result<Option<String>, ChannelError> {
        match &spot.guild {
            Some(guild) if !message.mention_roles.is_empty() => {
                let Discord { spots, api, .. } = self.discord;
                spots.role_in(api, guild, &self.bot.id).await
            }
            _ => Ok(None),
        }
    }

    /// What the operator wants in this place, and whether the bot is part of what goes on there.
    async fn custom(&self, spot: &Spot) -> Result<Custom, ChannelError> {
        let groups = self.groups(spot);
        let takes_part = if spot.thread.is_some() && groups == Groups::Mention {
            let at = spot.address(self.publisher.channel());
            self.publisher.takes_part(&at).await.map_err(|error| not_kept(&error))?
        } else {
            false
        };
        Ok(Custom { groups, threads: self.discord.threads, takes_part })
    }

    fn groups(&self, spot: &Spot) -> Groups {
        let ids = [spot.thread.as_deref(), Some(&spot.chat), spot.guild.as_deref()];
        self.publisher.groups(ids.into_iter().flatten())
    }

    async fn hear_deleted(&self, data: &Value) -> Result<bool, ChannelError> {
        let Ok(deleted) = Deleted::deserialize(data) else { return Ok(false) };
        let known = self.discord.spots.known(&deleted.channel_id);
        let spot = known.unwrap_or_else(|| Spots::private(&deleted.channel_id));
        let at = spot.address(self.publisher.channel());
        for id in deleted.id.iter().chain(&deleted.ids) {
            let key = inbound::key(self.bot, id);
            let withdrawn = self.publisher.withdraw(&at, &id.as_str().into(), key).await;
            withdrawn.map_err(|error| not_kept(&error))?;
        }
        Ok(true)
    }

    async fn keep_raw(&self, data: &Value) -> Result<bool, ChannelError> {
        let key = match data["id"].as_str() {
            Some(id) => inbound::key(self.bot, id),
            None => {
                let digest = Sha256::digest(data.to_string());
                let digest: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
                inbound::key(self.bot, &format!("raw:{digest}"))
            }
        };
        let kept = self.publisher.keep_raw(key, data.to_string()).await;
        kept.map_err(|error| not_kept(&error))?;
        Ok(true)
    }

    /// Kept first, then answered. One that cannot be kept is not told again, so its sender hears of it.
    async fn hear_interaction(&self, data: &Value) -> Result<bool, ChannelError> {
        let Ok(interaction) = Interaction::deserialize(data) else { return Ok(false) };
        if !matches!(interaction.kind, COMMAND | BUTTON) {
            return Ok(false);
        }
        let spot = match &interaction.guild_id {
            None => Spots::private(&interaction.channel_id),
            told => {
                let Discord { spots, api, .. } = self.discord;
                spots.of(api, &interaction.channel_id, told.as_ref()).await?
            }
        };
        let is_off = spot.guild.is_some() && self.groups(&spot) == Groups::Off;
        let taken = match inbound::read_interaction(
            &interaction,
            &spot,
            self.bot,
            self.publisher.channel(),
        ) {
            _ if is_off => Some(Published::TurnedAway),
            Some(inbound) => self.publisher.publish(inbound).await.ok(),
            None => Some(Published::Gone),
        };
        let words = match (taken, interaction.kind) {
            (Some(Published::Accepted | Published::Repeated), COMMAND) => replies::COMMAND_TAKEN,
            (Some(Published::Accepted | Published::Repeated), _) => "",
            (Some(Published::TurnedAway), COMMAND) => replies::COMMAND_NOT_TAKEN,
            (Some(Published::TurnedAway | Published::NotYours), _) => replies::NOT_YOURS_TO_PRESS,
            (Some(Published::Decided), _) => replies::ALREADY_DECIDED,
            (Some(Published::Gone), _) => replies::BUTTON_TOO_OLD,
            (None, _) => replies::NOT_KEPT,
        };
        self.answer(&interaction, words).await;
        Ok(taken.is_some())
    }

    async fn answer(&self, interaction: &Interaction, words: &str) {
        let answer = match words {
            "" => json!({ "type": NOTHING }),
            words => json!({ "type": SAY, "data": {
                "content": words, "flags": EPHEMERAL, "allowed_mentions": { "parse": [] },
            } }),
        };
        let Ok(id) = interaction.id.parse().map(id::InteractionId::new) else { return };
        let route = Route::InteractionResponse { interaction_id: id, token: &interaction.token };
        let answered = self.discord.api.order(LightMethod::Post, route, Some(&answer));
        match timeout(ANSWER_TIME_MAX, answered).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(?error, "Could not answer a press or a command"),
            Err(_) => tracing::debug!("Could not answer a press or a command in time"),
        }
    }

    /// Reads back what was said while nobody listened, in all places where the bot was spoken to.
    pub(super) async fn catch_up(&self) -> Result<(), ChannelError> {
        let heard = self.publisher.last_heard().await.map_err(|error| not_kept(&error))?;
        for (place, last) in places(&heard) {
            match self.catch_up_at(&place, &last).await {
                Ok(()) => {}
                Err(ChannelError::Refused(reason)) => {
                    tracing::debug!(%place, %reason, "Cannot read back what was said here");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn catch_up_at(&self, place: &str, last: &str) -> Result<(), ChannelError> {
        let channel_id = channel_id(place).map_err(ChannelError::Refused)?;
        let mut after = last.to_owned();
        for _ in 0..MISSED_MAX / PAGE {
            let query = [("after", after.clone()), ("limit", PAGE.to_string())];
            let route = Route::ChannelMessages { channel_id };
            let page: Vec<Value> =
                self.discord.api.get(route, &query).await.map_err(|error| error.while_asking())?;
            self.publisher.heard_byte();
            let mut missed: Vec<_> = page.iter().map(|raw| (id_of(raw), raw)).collect();
            missed.sort_by_key(|(id, _)| *id);
            if missed.is_empty() {
                return Ok(());
            }
            // What REST gives does not say which server it is of.
            let spot = self.discord.spots.of(&self.discord.api, place, None).await?;
            for (_, raw) in &missed {
                let Ok(message) = Message::deserialize(*raw) else {
                    self.keep_raw(raw).await?;
                    continue;
                };
                if inbound::is_speech(&message, self.bot, |id| self.publisher.lets_bot(id)) {
                    self.take(&message, &spot, Heard::New).await?;
                }
            }
            match missed.last() {
                Some((last, _)) if missed.len() >= PAGE => after = last.to_string(),
                _ => return Ok(()),
            }
        }
        tracing::warn!(place, "More was said here than is read back");
        Ok(())
    }
}

/// The channels to look in, and after which message. What began a thread stands in the channel
/// around it, so that is looked at too.
fn places(heard: &[(Address, MessageId)]) -> Vec<(String, String)> {
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    let mut note = |place: &str, last: &str| {
        let last = wire::order_of(last);
        let newest = places.entry(place.to_owned()).or_default();
        *newest = last.max(*newest);
    };
    for (at, last) in heard {
        match &at.thread {
            None => note(at.chat.as_str(), last.as_str()),
            Some(thread) => {
                note(thread.as_str(), last.as_str());
                note(at.chat.as_str(), thread.as_str());
            }
        }
    }
    places.into_iter().map(|(place, last)| (place, last.to_string())).collect()
}

fn id_of(raw: &Value) -> u64 {
    raw["id"].as_str().map(wire::order_of).unwrap_or_default()
}
