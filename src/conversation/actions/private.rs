//! Hides actions in private conversations from other people. The owner sees that there was an action, and nothing else.

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension};

use super::{Action, ActionScope};
use crate::bus::journal::read_address_at;
use crate::conversation::presence;
use crate::people::persons::PersonAccount;
use crate::people::{LOCAL, People};
use crate::store::{LenientJson, Time};
use crate::types::message::{Address, ChannelName, ChatKind, Sender};
use crate::types::session::CallId;

/// Maximum number of actions kept from a reader that are passed over to find theirs.
pub(super) const HIDDEN_MAX: usize = 50;

/// The conversation of a call, and the person for whom it was made.
struct CallAuthor {
    chat_kind: Option<ChatKind>,
    /// The channel on which the person is known.
    channel: Option<ChannelName>,
    sender: Option<Sender>,
    begun: DateTime<Utc>,
    /// The address for the result of a background task.
    reports_to: Option<Address>,
}

/// A person who requests actions.
pub struct ActionReader {
    pub people: People,
    /// Their known accounts.
    pub accounts: Vec<PersonAccount>,
}

impl ActionReader {
    /// Returns true if an action is part of somebody else's private conversation, or of their run of a task that reports
    /// to a private or an unknown chat, or if that cannot be determined.
    pub fn is_kept_from(&self, store: &Connection, call: CallId) -> rusqlite::Result<bool> {
        let author = store
            .prepare_cached(
                // For a task, `thread` is the channel on which its person is known.
                "SELECT s.chat_kind, iif(s.kind IN ('chat', 'command'), s.channel, s.thread), t.sender,
                        t.started, s.kind NOT IN ('chat', 'command') AND s.people_channel IS NOT NULL,
                        s.people_channel, s.people_chat, s.people_thread
                 FROM calls c JOIN turns t ON t.id = c.turn JOIN sessions s ON s.id = t.session
                 WHERE c.id = ?",
            )?
            .query_row([call], |row| {
                let is_of_task: bool = row.get(4)?;
                Ok(CallAuthor {
                    chat_kind: row.get::<_, LenientJson<ChatKind>>(0)?.0,
                    channel: row.get(1)?,
                    sender: row.get::<_, LenientJson<Sender>>(2)?.0,
                    begun: row.get::<_, Time>(3)?.0,
                    reports_to: if is_of_task { Some(read_address_at(row, 5)?) } else { None },
                })
            })
            .optional()?;
        let Some(CallAuthor { chat_kind, channel, sender, begun, reports_to }) = author else {
            return Ok(true);
        };
        if chat_kind == Some(ChatKind::Group) {
            let is_read_by_group =
                reports_to.map_or(Ok(true), |at| presence::is_known_group(store, &at))?;
            if is_read_by_group {
                return Ok(false);
            }
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
