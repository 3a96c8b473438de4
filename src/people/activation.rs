//! `/activation`: when the bot answers in a group, as its admins have set it there. A group that the config turns off
//! stays off.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::{Connection, params};

use super::Groups;
use crate::types::message::{ChannelName, ChatId};

/// The settings of each chat. Cheap to clone.
#[derive(Clone, Default)]
// A lock because adapters ask for each message that they hear, and none of them waits for the store.
pub struct Activations(Arc<RwLock<HashMap<(ChannelName, ChatId), Groups>>>);

impl Activations {
    /// Reads what was set.
    pub fn load(&self, store: &Connection) -> rusqlite::Result<()> {
        let mut rows = store.prepare("SELECT channel, chat, groups FROM activations")?;
        let rows = rows.query_map([], |row| {
            let groups: String = row.get(2)?;
            Ok(((row.get(0)?, row.get(1)?), Groups::parse(&groups).unwrap_or_default()))
        })?;
        let set = rows.collect::<rusqlite::Result<_>>()?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = set;
        Ok(())
    }

    /// Returns what was set for the first of these ids.
    pub fn find<'a>(
        &self,
        channel: &ChannelName,
        ids: impl IntoIterator<Item = &'a str>,
    ) -> Option<Groups> {
        let set = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if set.is_empty() {
            return None;
        }
        ids.into_iter().find_map(|id| set.get(&(channel.clone(), ChatId::from(id))).copied())
    }
}

/// Sets when the bot answers in a chat; none: as the config says.
pub fn set_activation(
    store: &Connection,
    channel: &ChannelName,
    chat: &ChatId,
    groups: Option<Groups>,
) -> rusqlite::Result<()> {
    match groups {
        Some(groups) => store.execute(
            "INSERT OR REPLACE INTO activations (channel, chat, groups) VALUES (?, ?, ?)",
            params![channel, chat, groups.as_str()],
        ),
        None => store.execute(
            "DELETE FROM activations WHERE channel = ? AND chat = ?",
            params![channel, chat],
        ),
    }
    .map(drop)
}
