//! `/activation`: when the bot answers in a group, as the group's admins have set it. A group that the config
//! turns off stays off.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::{Connection, params};

use super::Groups;
use crate::types::message::{ChannelName, ChatId};

/// The `/activation` settings of all chats. Cheap to clone.
#[derive(Clone, Default)]
// A lock, because adapters look up every received message here, and must not wait for the store.
pub struct Activations(Arc<RwLock<HashMap<(ChannelName, ChatId), Groups>>>);

impl Activations {
    /// Reads the settings from the store.
    pub fn load(&self, store: &Connection) -> rusqlite::Result<()> {
        let mut rows = store.prepare("SELECT channel, chat, groups FROM activations")?;
        let rows = rows.query_map([], |row| {
            let groups: String = row.get(2)?;
            Ok(((row.get(0)?, row.get(1)?), Groups::parse(&groups).unwrap_or_default()))
        })?;
        let settings = rows.collect::<rusqlite::Result<_>>()?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
        Ok(())
    }

    /// Returns the setting of the first of these chats that has one.
    pub fn find<'a>(
        &self,
        channel: &ChannelName,
        ids: impl IntoIterator<Item = &'a str>,
    ) -> Option<Groups> {
        let settings = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if settings.is_empty() {
            return None;
        }
        ids.into_iter().find_map(|id| settings.get(&(channel.clone(), ChatId::from(id))).copied())
    }
}

/// Sets when the bot answers in a chat. None restores the config's rule.
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
