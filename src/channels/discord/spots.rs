//! Where things are said: Discord tells of a message only which channel it stands in, and a thread
//! is a channel too. Each is asked for once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serenity::http::Route;
use serenity::model::id;

use super::call::{Api, CallError};
use super::inbound::Spot;
use super::wire::{Channel, Role, Snowflake};
use super::{channel_id, number};
use crate::channels::ChannelError;

/// Channels that are remembered; beyond, they are asked for again.
const SPOTS_MAX: usize = 2000;

/// Kinds of channels (Channel resource, types).
const DM: u8 = 1;
const GROUP_DM: u8 = 3;
const THREADS: [u8; 3] = [10, 11, 12];
/// Texts and announcements.
const HOLD_THREADS: [u8; 2] = [0, 5];

/// What is known, by channel and by server. Mutexes since sends and the listener are different tasks;
/// held for a look.
#[derive(Default)]
pub(super) struct Spots {
    spots: Mutex<HashMap<Snowflake, Spot>>,
    /// The bot's own roles; a server may have none.
    roles: Mutex<HashMap<Snowflake, Option<Snowflake>>>,
}

impl Spots {
    /// Where the messages of `channel` are said. The gateway tells the server; REST does not.
    pub(super) async fn of(
        &self,
        api: &Api,
        channel: &str,
        told: Option<&Snowflake>,
    ) -> Result<Spot, ChannelError> {
        if let Some(spot) = self.known(channel) {
            return Ok(spot);
        }
        // Whoever speaks where the bot may not look still speaks to it.
        let unseen = || Spot { guild: told.cloned(), chat: channel.to_owned(), ..Spot::default() };
        let Ok(channel_id) = channel_id(channel) else { return Ok(unseen()) };
        let found = api.get::<Channel>(Route::Channel { channel_id }, &[]).await;
        let spot = match found.map_err(CallError::while_asking) {
            Ok(found) => read(channel, found, told),
            Err(ChannelError::Refused(_)) => unseen(),
            Err(error) => return Err(error),
        };
        self.remember(channel, spot.clone());
        Ok(spot)
    }

    pub(super) fn known(&self, channel: &str) -> Option<Spot> {
        self.spots.lock().unwrap_or_else(PoisonError::into_inner).get(channel).cloned()
    }

    /// The role that a server made for the bot when it joined. It has the bot's name, and people who
    /// mention the bot often pick it by mistake.
    pub(super) async fn role_in(
        &self,
        api: &Api,
        guild: &str,
        bot: &str,
    ) -> Result<Option<Snowflake>, ChannelError> {
        let known = self.roles.lock().unwrap_or_else(PoisonError::into_inner).get(guild).cloned();
        if let Some(role) = known {
            return Ok(role);
        }
        let Ok(guild_id) = number(guild).map(id::GuildId::new) else { return Ok(None) };
        let found = api.get::<Vec<Role>>(Route::GuildRoles { guild_id }, &[]).await;
        let roles = match found.map_err(CallError::while_asking) {
            Ok(roles) => roles,
            Err(ChannelError::Refused(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let ours = |role: &Role| role.tags.as_ref().is_some_and(|tags| tags.bot_id == bot);
        let role = roles.into_iter().find(ours).map(|role| role.id);
        let mut roles = self.roles.lock().unwrap_or_else(PoisonError::into_inner);
        if roles.len() >= SPOTS_MAX {
            roles.clear();
        }
        roles.insert(guild.to_owned(), role.clone());
        Ok(role)
    }

    /// What the gateway tells is in private, without asking.
    pub(super) fn private(channel: &str) -> Spot {
        Spot { chat: channel.to_owned(), ..Spot::default() }
    }

    pub(super) fn remember(&self, channel: &str, spot: Spot) {
        let mut spots = self.spots.lock().unwrap_or_else(PoisonError::into_inner);
        if spots.len() >= SPOTS_MAX {
            spots.clear();
        }
        spots.insert(channel.to_owned(), spot);
    }
}

fn read(channel: &str, found: Channel, told: Option<&Snowflake>) -> Spot {
    let guild = found.guild_id.or_else(|| told.cloned());
    match (found.kind, found.parent_id) {
        (DM | GROUP_DM, _) => Spots::private(channel),
        (kind, Some(parent)) if THREADS.contains(&kind) => {
            Spot { guild, chat: parent, thread: Some(channel.to_owned()), ..Spot::default() }
        }
        (kind, _) => Spot {
            guild,
            chat: channel.to_owned(),
            has_threads: HOLD_THREADS.contains(&kind),
            ..Spot::default()
        },
    }
}
