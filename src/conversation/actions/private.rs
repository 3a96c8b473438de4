//! Hides actions in private conversations from other people. The owner sees that there was an action, and nothing else.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Action, ActionScope};
use crate::people::persons::PersonAccount;
use crate::people::{LOCAL, People};
use crate::store::{Json, LenientJson, Time};
use crate::types::message::{ChannelName, ChatKind, Sender};
use crate::types::session::CallId;

/// Maximum number of actions kept from a reader that are passed over to find theirs.
pub(super) const HIDDEN_MAX: usize = 50;

/// A person who requests actions.
pub struct ActionReader {
    pub people: People,
    /// Their known accounts.
    pub accounts: Vec<PersonAccount>,
}

impl ActionReader {
    /// Returns true if an action is part of somebody else's private conversation, or of their run of a task that reports
    /// to a private chat, or if that cannot be determined.
    pub fn is_kept_from(&self, store: &Connection, call: CallId) -> rusqlite::Result<bool> {
        let author = store
            .prepare_cached(
                // For a task, `thread` is the channel on which its person is known.
                "SELECT s.chat_kind, iif(s.kind IN ('chat', 'command'), s.channel, s.thread), t.sender,
                        t.started, s.kind NOT IN ('chat', 'command') AND EXISTS (
                            SELECT 1 FROM sessions o
                            WHERE o.kind = 'chat' AND o.channel = s.people_channel
                            AND o.chat = s.people_chat AND o.chat_kind = ?2)
                 FROM calls c JOIN turns t ON t.id = c.turn JOIN sessions s ON s.id = t.session
                 WHERE c.id = ?1",
            )?
            .query_row(params![call, Json(ChatKind::Private)], |row| {
                let chat_kind = row.get::<_, LenientJson<ChatKind>>(0)?.0;
                let channel: Option<ChannelName> = row.get(1)?;
                let sender = row.get::<_, LenientJson<Sender>>(2)?.0;
                let is_in_group = chat_kind == Some(ChatKind::Group) && !row.get::<_, bool>(4)?;
                Ok((is_in_group, (channel, sender), row.get::<_, Time>(3)?.0))
            })
            .optional()?;
        let Some((is_in_group, (channel, sender), begun)) = author else { return Ok(true) };
        if is_in_group {
            return Ok(false);
        }
        let (Some(channel), Some(sender)) = (channel, sender) else { return Ok(true) };
        let author = PersonAccount { channel, sender: sender.id };
        for reader in &self.accounts {
            let is_local = author.sender.as_str() == LOCAL && reader.sender.as_str() == LOCAL;
            if is_local || self.people.owns_past(store, reader, &author, begun)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the actions of a scope, newest first, without those that are kept from the reader. In the list of everything,
    /// for the owner, these have no inputs and outputs.
    pub fn list(
        &self,
        store: &Connection,
        scope: &ActionScope,
        tool: Option<&str>,
        limit: usize,
    ) -> rusqlite::Result<Vec<Action>> {
        let is_everything = *scope == ActionScope::ALL;
        let read_max = if is_everything { limit } else { limit + HIDDEN_MAX };
        let mut shown = Vec::new();
        for action in super::list(store, scope, tool, read_max)? {
            if shown.len() == limit {
                break;
            }
            match self.is_kept_from(store, action.id)? {
                false => shown.push(action),
                true if is_everything => shown.push(action.without_texts()),
                true => {}
            }
        }
        Ok(shown)
    }
}
