//! What comes in: events in the order in which Discord tells them. An event counts as heard once it
//! is kept.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use serenity::model::id;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::Discord;
use super::endpoints::Endpoint;
use super::spots::Spots;
use crate::bus::{Published, Publisher};
use crate::channels::ChannelError;
use crate::channels::discord::inbound::{self, Custom, Identity, Reading, Spot};
use crate::channels::discord::wire::{self, Deleted, Interaction, Message};
use crate::people::Groups;
use crate::replies;

/// The event of a pressed button or an invoked command.
pub(super) const INTERACTION: &str = "INTERACTION_CREATE";

/// Who changes what they said longer ago is not thereby speaking to the bot.
const CHANGE_AGE_MAX: chrono::Duration = chrono::Duration::hours(1);

/// Discord forgets an interaction that is not answered by then.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);

/// For looking up where it happened, out of that.
const LOOK_TIME_MAX: Duration = Duration::from_secs(1);

/// Kinds of interactions, and of answers to them (Interactions, receiving and responding).
const COMMAND: u8 = 2;
const BUTTON: u8 = 3;
const SAY: u8 = 4;
const NOTHING: u8 = 6;
/// Only whoever pressed sees it.
const EPHEMERAL: u64 = 64;

/// How a message reached us.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    New,
    Changed,
    /// Read back; what was said before `until` was heard already, whatever it was.
    Missed {
        until: Option<DateTime<Utc>>,
    },
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
        if message.id == message.channel_id {
            self.discord.spots.note_post(&message.channel_id);
        }
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

    pub(super) async fn take(
        &self,
        message: &Message,
        spot: &Spot,
        heard: Heard,
    ) -> Result<bool, ChannelError> {
        let said = wire::time_of(&message.id);
        let spot = &Spot { role: self.our_role(message, spot).await?, ..spot.clone() };
        if heard == Heard::Changed && self.amend(message, spot).await? {
            return Ok(true);
        }
        let is_known = match heard {
            Heard::New => false,
            Heard::Changed if said.is_none_or(|said| Utc::now() - said > CHANGE_AGE_MAX) => {
                return Ok(false);
            }
            Heard::Changed => true,
            Heard::Missed { until } => said < until,
        };
        let custom = self.custom(spot).await?;
        // Where the bot is off, it does not even overhear.
        if spot.guild.is_some() && custom.groups == Groups::Off {
            return Ok(false);
        }
        // Only what speaks to the bot itself counts of what was there already.
        let strict = if is_known { custom.strictly() } else { custom };
        match inbound::read(message, spot, self.bot, self.publisher.channel(), strict) {
            Reading::Speaks(inbound) => {
                let taken = match heard {
                    Heard::New | Heard::Missed { .. } => self.publisher.publish(*inbound).await,
                    Heard::Changed => self.publisher.edit(*inbound).await,
                };
                taken?;
                Ok(true)
            }
            Reading::Overheard(line) if strict == custom => {
                let at = spot.address(self.publisher.channel());
                self.publisher.overheard(&at, message.id.as_str().into(), line);
                Ok(false)
            }
            Reading::Overheard(_) | Reading::Ignored => Ok(false),
        }
    }

    /// Whether that is a change of what the bot knows, to whomever it speaks now.
    async fn amend(&self, message: &Message, spot: &Spot) -> Result<bool, ChannelError> {
        let custom =
            Custom { groups: Groups::Always, threads: self.discord.threads, takes_part: false };
        match inbound::read(message, spot, self.bot, self.publisher.channel(), custom) {
            Reading::Speaks(inbound) => Ok(self.publisher.amend(*inbound).await?),
            Reading::Overheard(_) | Reading::Ignored => Ok(false),
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
            self.publisher.takes_part(&at).await?
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
            withdrawn?;
        }
        Ok(true)
    }

    pub(super) async fn keep_raw(&self, data: &Value) -> Result<bool, ChannelError> {
        let key = match data["id"].as_str() {
            Some(id) => inbound::key(self.bot, id),
            None => {
                let digest = Sha256::digest(data.to_string());
                let digest: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
                inbound::key(self.bot, &format!("raw:{digest}"))
            }
        };
        let kept = self.publisher.keep_raw(key, data.to_string()).await;
        kept?;
        Ok(true)
    }

    /// Kept first, then answered. One that cannot be kept is not told again, so its sender hears of it.
    async fn hear_interaction(&self, data: &Value) -> Result<bool, ChannelError> {
        let Ok(interaction) = Interaction::deserialize(data) else { return Ok(false) };
        if !matches!(interaction.kind, COMMAND | BUTTON) {
            return Ok(false);
        }
        let spot = self.spot_of(&interaction).await;
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
            (Some(Published::Full), _) => replies::PRESS_LATER,
            (Some(Published::Decided), _) => replies::ALREADY_DECIDED,
            (Some(Published::Gone), _) => replies::BUTTON_TOO_OLD,
            (None, _) => replies::NOT_KEPT,
        };
        self.answer(&interaction, words).await;
        Ok(taken.is_some())
    }

    /// Where it happened, as it tells itself, or as can be found out in time.
    async fn spot_of(&self, interaction: &Interaction) -> Spot {
        let Interaction { channel_id, guild_id, channel, .. } = interaction;
        let Some(guild) = guild_id else { return Spots::private(channel_id) };
        let Discord { spots, api, .. } = self.discord;
        if let Some(spot) = channel.as_ref().and_then(|told| spots.told(channel_id, told, guild)) {
            return spot;
        }
        let looked = timeout(LOOK_TIME_MAX, spots.of(api, channel_id, Some(guild))).await;
        looked.ok().and_then(Result::ok).unwrap_or_else(|| Spots::unseen(channel_id, guild))
    }

    async fn answer(&self, interaction: &Interaction, words: &str) {
        let answer = match words {
            "" => json!({ "type": NOTHING }),
            words => json!({ "type": SAY, "data": {
                "content": words, "flags": EPHEMERAL, "allowed_mentions": { "parse": [] },
            } }),
        };
        let Ok(id) = interaction.id.parse().map(id::InteractionId::new) else { return };
        let endpoint = Endpoint::CreateInteractionResponse(id, &interaction.token);
        let answered = self.discord.api.order(endpoint, Some(&answer));
        match timeout(ANSWER_TIME_MAX, answered).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(?error, "Could not answer a press or a command"),
            Err(_) => tracing::debug!("Could not answer a press or a command in time"),
        }
    }
}
