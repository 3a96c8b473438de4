//! Resolves channels to addresses. An event names only the channel of a message, and a thread is a
//! channel too. Each channel is requested once.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use serenity::model::id;

use super::call::{DiscordApi, DiscordCallError};
use super::endpoints::Endpoint;
use super::ids::{channel_id, number};
use super::inbound::DiscordAddress;
use super::wire::{DiscordChannel, DiscordRole, Snowflake};
use crate::channels::ChannelError;

/// Maximum number of remembered channels. When it is reached, all are forgotten and requested again.
const ADDRESSES_MAX: usize = 2000;

/// Kinds of channels (Channel resource, types).
const DM: u8 = 1;
const GROUP_DM: u8 = 3;
const THREADS: [u8; 3] = [10, 11, 12];
/// Text and announcement channels.
const HOLD_THREADS: [u8; 2] = [0, 5];

/// Known facts by channel and by server. Mutexes, because sends and the listener are different tasks.
/// Locked only briefly.
#[derive(Default)]
pub(super) struct Addresses {
    addresses: Mutex<HashMap<Snowflake, DiscordAddress>>,
    /// The bot's own role in each server. A server may have none.
    roles: Mutex<HashMap<Snowflake, Option<Snowflake>>>,
    posts: Mutex<HashSet<Snowflake>>,
    barred: Mutex<HashSet<Snowflake>>,
}

impl Addresses {
    /// Returns the address of the messages of `channel`. The gateway reports its server (`known_guild`);
    /// REST may not.
    pub(super) async fn of(
        &self,
        api: &DiscordApi,
        channel: &str,
        known_guild: Option<&Snowflake>,
    ) -> Result<DiscordAddress, ChannelError> {
        // The gateway knows better than an earlier request that could see little.
        let is_complete = |at: &DiscordAddress| known_guild.is_none() || at.guild.is_some();
        if let Some(at) = self.known(channel).filter(is_complete) {
            return Ok(at);
        }
        let unseen = || DiscordAddress {
            guild: known_guild.cloned(),
            chat: channel.to_owned(),
            ..Default::default()
        };
        match self.request(api, channel, known_guild).await {
            Ok(at) => Ok(at.unwrap_or_else(unseen)),
            Err(error @ ChannelError::Closed(_)) => Err(error),
            // A message from a channel that the bot may not look up still addresses it. The next message
            // tries again.
            Err(error) => {
                tracing::warn!(channel, %error, "Cannot look up a channel");
                Ok(unseen())
            }
        }
    }

    /// Looks up the kind of a channel. None if the bot may not look.
    pub(super) async fn look_up(
        &self,
        api: &DiscordApi,
        channel: &str,
    ) -> Result<Option<DiscordAddress>, ChannelError> {
        match self.known(channel) {
            Some(at) => Ok(Some(at)),
            None => self.request(api, channel, None).await,
        }
    }

    async fn request(
        &self,
        api: &DiscordApi,
        channel: &str,
        known_guild: Option<&Snowflake>,
    ) -> Result<Option<DiscordAddress>, ChannelError> {
        let Ok(channel_id) = channel_id(channel) else { return Ok(None) };
        let found = api.get::<DiscordChannel>(Endpoint::Channel(channel_id), &[]).await;
        match found.map_err(DiscordCallError::while_asking) {
            Ok(found) => {
                let at = read(channel, &found, known_guild);
                if let Some(at) = &at {
                    self.remember(channel, at.clone());
                }
                Ok(at)
            }
            Err(ChannelError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the address of a channel that is part of an event.
    pub(super) fn address_in_event(
        &self,
        channel: &str,
        found: &DiscordChannel,
        guild: &Snowflake,
    ) -> Option<DiscordAddress> {
        let at = read(channel, found, Some(guild)).filter(|at| at.guild.is_some())?;
        self.remember(channel, at.clone());
        Some(at)
    }

    pub(super) fn known(&self, channel: &str) -> Option<DiscordAddress> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).get(channel).cloned()
    }

    /// Returns the address of a channel that could not be looked up.
    pub(super) fn unseen(channel: &str, guild: &Snowflake) -> DiscordAddress {
        DiscordAddress {
            guild: Some(guild.clone()),
            chat: channel.to_owned(),
            ..Default::default()
        }
    }

    /// Notes a forum's post: its first message is inside of the thread.
    pub(super) fn note_post(&self, thread: &str) {
        note(&self.posts, thread);
    }

    pub(super) fn is_post(&self, thread: &str) -> bool {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner).contains(thread)
    }

    /// Notes a thread that cannot be opened: its messages go to the channel around it.
    pub(super) fn note_barred(&self, thread: &str) {
        note(&self.barred, thread);
    }

    pub(super) fn is_barred(&self, thread: &str) -> bool {
        self.barred.lock().unwrap_or_else(PoisonError::into_inner).contains(thread)
    }

    /// Returns the role that a server made for the bot when it joined. It has the bot's name, and people
    /// who mention the bot often pick it by mistake.
    pub(super) async fn role_in(
        &self,
        api: &DiscordApi,
        guild: &str,
        bot: &str,
    ) -> Result<Option<Snowflake>, ChannelError> {
        let known = self.roles.lock().unwrap_or_else(PoisonError::into_inner).get(guild).cloned();
        if let Some(role) = known {
            return Ok(role);
        }
        let Ok(guild_id) = number(guild).map(id::GuildId::new) else { return Ok(None) };
        let found = api.get::<Vec<DiscordRole>>(Endpoint::GuildRoles(guild_id), &[]).await;
        let roles = match found.map_err(DiscordCallError::while_asking) {
            Ok(roles) => roles,
            Err(error @ ChannelError::Closed(_)) => return Err(error),
            // Requested again when somebody next mentions a role.
            Err(error) => {
                tracing::debug!(guild, %error, "Cannot look up the bot's role");
                return Ok(None);
            }
        };
        let ours = |role: &DiscordRole| role.tags.as_ref().is_some_and(|tags| tags.bot_id == bot);
        let role = roles.into_iter().find(ours).map(|role| role.id);
        let mut roles = self.roles.lock().unwrap_or_else(PoisonError::into_inner);
        if roles.len() >= ADDRESSES_MAX {
            roles.clear();
        }
        roles.insert(guild.to_owned(), role.clone());
        Ok(role)
    }

    /// Returns the address of a private chat, as the gateway reports it. Needs no request.
    pub(super) fn private(channel: &str) -> DiscordAddress {
        DiscordAddress { chat: channel.to_owned(), ..Default::default() }
    }

    pub(super) fn remember(&self, channel: &str, at: DiscordAddress) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= ADDRESSES_MAX {
            addresses.clear();
        }
        addresses.insert(channel.to_owned(), at);
    }
}

fn note(set: &Mutex<HashSet<Snowflake>>, thread: &str) {
    let mut noted = set.lock().unwrap_or_else(PoisonError::into_inner);
    if noted.len() >= ADDRESSES_MAX {
        noted.clear();
    }
    noted.insert(thread.to_owned());
}

/// Parses a channel. None if a server's channel does not name its server: nothing else distinguishes it
/// from a private chat.
fn read(
    channel: &str,
    found: &DiscordChannel,
    known_guild: Option<&Snowflake>,
) -> Option<DiscordAddress> {
    if matches!(found.kind, DM | GROUP_DM) {
        return Some(Addresses::private(channel));
    }
    let guild = Some(found.guild_id.as_ref().or(known_guild)?.clone());
    Some(match &found.parent_id {
        Some(parent) if THREADS.contains(&found.kind) => DiscordAddress {
            guild,
            chat: parent.clone(),
            thread: Some(channel.to_owned()),
            ..Default::default()
        },
        _ => DiscordAddress {
            guild,
            chat: channel.to_owned(),
            has_threads: HOLD_THREADS.contains(&found.kind),
            ..Default::default()
        },
    })
}
