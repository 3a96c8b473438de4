//! Tracks the position in Slack's events, and writes the durable mark of it and of missed messages. A later
//! event of a conversation does not prove that nothing was missed there.

use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};

use super::inbound::moment;
use crate::channels::backlog::{Backlog, LATE_MAX, Position, Unread};
use crate::types::message::{Address, ChannelName, ThreadId};

/// Maximum age of the durable mark. Events of that time are read once more after a crash.
const MARK_EVERY: Duration = Duration::seconds(60);

#[derive(Default)]
pub(super) struct SlackProgress {
    /// Time of the newest acknowledged event.
    until: Option<String>,
    /// True once the mark of an earlier daemon was read.
    pub(super) is_restored: bool,
    /// The time in the durable mark.
    marked: Option<DateTime<Utc>>,
}

/// The durable state.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ProgressRow {
    /// The bot's user id.
    bot: String,
    until: Option<String>,
    /// Chat, thread, and the last message that was received there.
    missed: Vec<(String, Option<String>, String)>,
}

impl SlackProgress {
    /// Restores the position from a mark, unless it belongs to another bot.
    pub(super) fn restore(
        &mut self,
        mark: &str,
        bot: &str,
        channel: &ChannelName,
        backlog: &Backlog,
    ) {
        let mark: ProgressRow = serde_json::from_str(mark).unwrap_or_default();
        if mark.bot != bot {
            return;
        }
        self.until = self.until.take().or(mark.until);
        for (chat, thread, after) in mark.missed {
            let thread = thread.as_deref().map(ThreadId::from);
            let at = Address { channel: channel.clone(), chat: chat.as_str().into(), thread };
            backlog.note(at, Unread { after: Position(after), ..Unread::default() });
        }
    }

    /// Returns the durable mark to store now.
    pub(super) fn mark(&mut self, bot: &str, backlog: &Backlog) -> String {
        self.marked = self.until();
        let missed = backlog.entries().into_iter().map(|(at, unread)| {
            let thread = at.thread.as_ref().map(|thread| thread.as_str().to_owned());
            (at.chat.as_str().to_owned(), thread, unread.after.0)
        });
        let missed = missed.collect();
        let mark = ProgressRow { bot: bot.to_owned(), until: self.until.clone(), missed };
        serde_json::to_string(&mark).unwrap_or_default()
    }

    /// Time up to which all events were received, for the bot or not. None if unknown.
    pub(super) fn until(&self) -> Option<DateTime<Utc>> {
        self.until.as_deref().and_then(moment)
    }

    /// Notes an acknowledged event. Returns true if the mark must be stored.
    pub(super) fn note_event(&mut self, ts: &str) -> bool {
        // A time in the future would hide events that are still to come.
        let at = moment(ts).filter(|at| *at <= Utc::now() + LATE_MAX);
        let Some(at) = at else { return false };
        if self.until.as_deref().is_none_or(|until| until < ts) {
            self.until = Some(ts.to_owned());
        }
        self.marked.is_none_or(|marked| at - marked >= MARK_EVERY)
    }
}
