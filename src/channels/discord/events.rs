//! Decodes and accepts gateway events in Discord's order. An event counts as received once it is stored.

use std::time::Duration;

use chrono::Utc;
use serde::Deserialize;
use serde_json::{Value, json};
use serenity::model::id;
use tokio::time::timeout;

use super::Discord;
use super::addresses::Addresses;
use super::call::SUPPRESS_EMBEDS;
use super::endpoints::Endpoint;
use super::wire::{Deleted, DiscordInteraction, DiscordMessage};
use crate::bus::{Published, Publisher};
use crate::channels::ChannelError;
use crate::channels::discord::inbound::{
    self, DiscordAddress, DiscordIdentity, DiscordReadingContext,
};
use crate::channels::routing::{self, EventOutcome, InboundEvent};
use crate::replies;

/// The event of a pressed button or an invoked command.
pub(super) const INTERACTION: &str = "INTERACTION_CREATE";

/// Time in which an interaction must be answered. Discord drops it after that.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);

/// The part of it in which the channel is looked up.
const LOOKUP_TIME_MAX: Duration = Duration::from_secs(1);

/// Kinds of interactions, and of answers to them (Interactions, receiving and responding).
const COMMAND: u8 = 2;
const BUTTON: u8 = 3;
const CHANNEL_MESSAGE: u8 = 4;
const DEFERRED_UPDATE: u8 = 6;
/// Message flag: only the person who pressed sees it.
const EPHEMERAL: u64 = 64;

/// The listener of one link.
pub(super) struct DiscordListener<'a> {
    pub(super) discord: &'a Discord,
    pub(super) publisher: &'a Publisher,
    pub(super) bot: &'a DiscordIdentity,
}

impl DiscordListener<'_> {
    /// Accepts an event. Returns true if it was stored.
    pub(super) async fn receive(&self, name: &str, data: &Value) -> Result<bool, ChannelError> {
        let events = match name {
            "MESSAGE_CREATE" => vec![self.decode_new(data).await?],
            // Discord also reports embeds that it adds, but then the text is unchanged.
            "MESSAGE_UPDATE" if data["edited_timestamp"].is_string() => {
                vec![self.decode_edit(data).await?]
            }
            "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => self.decode_deleted(data),
            INTERACTION => return Ok(self.receive_interaction(data).await),
            _ => return Ok(false),
        };
        let outcomes = routing::receive(self.publisher, events, None).await?;
        Ok(outcomes.iter().any(|outcome| *outcome != EventOutcome::Ignored))
    }

    async fn decode_new(&self, data: &Value) -> Result<InboundEvent, ChannelError> {
        let Ok(message) = DiscordMessage::deserialize(data) else {
            return Ok(self.unreadable(data));
        };
        if message.id == message.channel_id {
            self.discord.addresses.note_post(&message.channel_id);
        }
        if !inbound::is_speech(&message, self.bot) {
            return Ok(InboundEvent::Ignored);
        }
        let at = self.address_of(&message).await?;
        self.decode_at(&message, at).await
    }

    /// Decodes a new message at a known address.
    pub(super) async fn decode_at(
        &self,
        message: &DiscordMessage,
        at: DiscordAddress,
    ) -> Result<InboundEvent, ChannelError> {
        let at = self.with_role(message, at).await?;
        Ok(inbound::decode(message, &at, &self.context())
            .map_or(InboundEvent::Ignored, InboundEvent::New))
    }

    async fn decode_edit(&self, data: &Value) -> Result<InboundEvent, ChannelError> {
        // An update may contain only the changed fields.
        let message = DiscordMessage::deserialize(data).ok();
        let Some(message) = message.filter(|message| inbound::is_speech(message, self.bot)) else {
            return Ok(InboundEvent::Ignored);
        };
        let at = self.address_of(&message).await?;
        let at = self.with_role(&message, at).await?;
        let edited = inbound::decode_edit(&message, &at, &self.context(), Utc::now());
        Ok(edited.unwrap_or(InboundEvent::Ignored))
    }

    fn decode_deleted(&self, data: &Value) -> Vec<InboundEvent> {
        let Ok(deleted) = Deleted::deserialize(data) else { return Vec::new() };
        let known = self.discord.addresses.known(&deleted.channel_id);
        let at = known.unwrap_or_else(|| Addresses::private(&deleted.channel_id));
        let address = at.address(self.publisher.channel());
        let deletion = |id: &String| InboundEvent::Deleted {
            address: address.clone(),
            id: id.as_str().into(),
            key: inbound::key(self.bot, id),
        };
        deleted.id.iter().chain(&deleted.ids).map(deletion).collect()
    }

    fn context(&self) -> DiscordReadingContext<'_> {
        let (bot, channel) = (self.bot, self.publisher.channel());
        DiscordReadingContext { bot, channel, threads: self.discord.threads }
    }

    async fn address_of(&self, message: &DiscordMessage) -> Result<DiscordAddress, ChannelError> {
        let Discord { addresses, api, .. } = self.discord;
        match &message.guild_id {
            None => Ok(Addresses::private(&message.channel_id)),
            guild => addresses.of(api, &message.channel_id, guild.as_ref()).await,
        }
    }

    /// Adds the bot's role, which is requested only if the message mentions roles.
    async fn with_role(
        &self,
        message: &DiscordMessage,
        at: DiscordAddress,
    ) -> Result<DiscordAddress, ChannelError> {
        let role = match &at.guild {
            Some(guild) if !message.mention_roles.is_empty() => {
                let Discord { addresses, api, .. } = self.discord;
                addresses.role_in(api, guild, &self.bot.id).await?
            }
            _ => None,
        };
        Ok(DiscordAddress { role, ..at })
    }

    pub(super) fn unreadable(&self, data: &Value) -> InboundEvent {
        let raw = data.to_string();
        let id = data["id"].as_str().map_or_else(|| routing::digest(&raw), str::to_owned);
        InboundEvent::Unreadable { key: inbound::key(self.bot, &id), raw }
    }

    /// Stores an interaction, then answers it. Discord does not repeat one that cannot be stored, so its
    /// sender is notified.
    async fn receive_interaction(&self, data: &Value) -> bool {
        let Ok(interaction) = DiscordInteraction::deserialize(data) else { return false };
        if !matches!(interaction.kind, COMMAND | BUTTON) {
            return false;
        }
        let at = self.address_of_interaction(&interaction).await;
        let outcome = match inbound::decode_interaction(&interaction, &at, &self.context()) {
            Some(event) => routing::receive_one(self.publisher, event).await.ok(),
            None => Some(EventOutcome::Published(Published::Gone)),
        };
        let text = match outcome.map(EventOutcome::published) {
            None => replies::NOT_KEPT,
            Some(published) if interaction.kind == COMMAND => {
                published.map_or("", routing::reply_to_command)
            }
            Some(published) => published.and_then(routing::reply_to_press).unwrap_or_default(),
        };
        self.answer(&interaction, text).await;
        outcome.is_some()
    }

    /// Returns the address of an interaction: from its own fields, or looked up within the time limit.
    async fn address_of_interaction(&self, interaction: &DiscordInteraction) -> DiscordAddress {
        let DiscordInteraction { channel_id, guild_id, channel, .. } = interaction;
        let Some(guild) = guild_id else { return Addresses::private(channel_id) };
        let Discord { addresses, api, .. } = self.discord;
        let named =
            channel.as_ref().and_then(|found| addresses.address_in_event(channel_id, found, guild));
        if let Some(at) = named {
            return at;
        }
        let lookup = timeout(LOOKUP_TIME_MAX, addresses.of(api, channel_id, Some(guild))).await;
        lookup.ok().and_then(Result::ok).unwrap_or_else(|| Addresses::unseen(channel_id, guild))
    }

    async fn answer(&self, interaction: &DiscordInteraction, text: &str) {
        let answer = match text {
            "" => json!({ "type": DEFERRED_UPDATE }),
            text => json!({ "type": CHANNEL_MESSAGE, "data": {
                "content": text, "flags": EPHEMERAL | SUPPRESS_EMBEDS, "allowed_mentions": { "parse": [] },
            } }),
        };
        let Ok(id) = interaction.id.parse().map(id::InteractionId::new) else { return };
        let endpoint = Endpoint::CreateInteractionResponse(id, &interaction.token);
        let sending = self.discord.api.order(endpoint, Some(&answer));
        match timeout(ANSWER_TIME_MAX, sending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(?error, "Could not acknowledge a button or a command")
            }
            Err(_) => tracing::debug!("Could not acknowledge a button or a command in time"),
        }
    }
}
