//! Hides the content of actions in private conversations: other people see that there was an action, and nothing else.

use rusqlite::{Connection, OptionalExtension};

use super::Action;
use crate::people::persons::PersonAccount;
use crate::people::{LOCAL, People};
use crate::store::{LenientJson, Time};
use crate::types::message::{ChannelName, ChatKind, Sender};
use crate::types::session::CallId;

/// A person who requests actions.
pub struct ActionReader {
    pub people: People,
    /// Their known accounts.
    pub accounts: Vec<PersonAccount>,
}

impl ActionReader {
    /// Returns true if an action is part of somebody else's private conversation, or if that cannot be determined.
    pub fn is_kept_from(&self, store: &Connection, call: CallId) -> rusqlite::Result<bool> {
        let author = store
            .prepare_cached(
                // For a task, `thread` is the channel on which its person is known.
                "SELECT s.chat_kind, iif(s.kind IN ('chat', 'command'), s.channel, s.thread), t.sender,
                        t.started
                 FROM calls c JOIN turns t ON t.id = c.turn JOIN sessions s ON s.id = t.session
                 WHERE c.id = ?",
            )?
            .query_row([call], |row| {
                let chat_kind = row.get::<_, LenientJson<ChatKind>>(0)?.0;
                let channel: Option<ChannelName> = row.get(1)?;
                let sender = row.get::<_, LenientJson<Sender>>(2)?.0;
                Ok((chat_kind, channel, sender, row.get::<_, Time>(3)?.0))
            })
            .optional()?;
        let Some((chat_kind, channel, sender, begun)) = author else { return Ok(true) };
        if chat_kind == Some(ChatKind::Group) {
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

    /// Returns the actions without the inputs and outputs of other people's private conversations.
    pub fn hide_private(
        &self,
        store: &Connection,
        actions: Vec<Action>,
    ) -> rusqlite::Result<Vec<Action>> {
        let shown =
            actions.into_iter().map(|action| match self.is_kept_from(store, action.id)? {
                true => Ok(action.without_texts()),
                false => Ok(action),
            });
        shown.collect()
    }
}
