//! Where things are said: Discord tells of a message only which channel it stands in, and a thread
//! is a channel too. Asked for once per channel.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serenity::http::Route;

use super::call::{Api, CallError};
use super::inbound::Spot;
use super::wire::{self, Snowflake};
use super::{channel_id, wire::Channel};
use crate::channels::ChannelError;

/// Channels that are remembered; beyond, they are asked for again.
const SPOTS_MAX: usize = 2000;

/// Kinds of channels (Channel resource, types).
const DM: u8 = 1;
const GROUP_DM: u8 = 3;
const THREADS: [u8; 3] = [10, 11, 12];
/// Texts and announcements.
const HOLD_THREADS: [u8; 2] = [0, 5];

#[derive(Default)]
pub(super) struct Spots(
    // A mutex since sends and the listener are different tasks; held for a look.
    Mutex<HashMap<Snowflake, Spot>>,
);

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
        let id = channel_id(channel).map_err(ChannelError::Refused)?;
        let spot = match api.get::<Channel>(Route::Channel { channel_id: id }, &[]).await {
            Ok(found) => read(channel, found, told),
            // Whoever speaks where the bot may not look still speaks to it.
            Err(CallError::Denied(denial)) if matches!(denial.status, 403 | 404) => {
                Spot { guild: told.cloned(), chat: channel.to_owned(), ..Spot::default() }
            }
            Err(error) => return Err(error.while_asking()),
        };
        self.remember(channel, spot.clone());
        Ok(spot)
    }

    pub(super) fn known(&self, channel: &str) -> Option<Spot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(channel).cloned()
    }

    /// What the gateway tells is in private, without asking.
    pub(super) fn private(channel: &str) -> Spot {
        Spot { chat: channel.to_owned(), ..Spot::default() }
    }

    pub(super) fn remember(&self, channel: &str, spot: Spot) {
        let mut spots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spots.len() >= SPOTS_MAX {
            spots.clear();
        }
        spots.insert(channel.to_owned(), spot);
    }
}

fn read(channel: &str, found: wire::Channel, told: Option<&Snowflake>) -> Spot {
    let guild = found.guild_id.or_else(|| told.cloned());
    match (found.kind, found.parent_id) {
        (DM | GROUP_DM, _) => Spots::private(channel),
        (kind, Some(parent)) if THREADS.contains(&kind) => {
            Spot { guild, chat: parent, thread: Some(channel.to_owned()), has_threads: false }
        }
        (kind, _) => Spot {
            guild,
            chat: channel.to_owned(),
            thread: None,
            has_threads: HOLD_THREADS.contains(&kind),
        },
    }
}
