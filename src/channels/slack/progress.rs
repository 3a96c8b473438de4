//! How far we have heard, and what outlives the program of that and of what is still missed: what comes
//! later in a place does not make up for what was missed there.

use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};

use super::inbound::moment;
use crate::channels::backlog::{Backlog, LATE_MAX, Position, Unread};
use crate::types::message::{Address, ChannelName, ThreadId};

/// How old the durable mark may be: so much is looked up once more after a crash.
const MARK_EVERY: Duration = Duration::seconds(60);

#[derive(Default)]
pub(super) struct Progress {
    /// The time of the newest event that was acknowledged.
    until: Option<String>,
    /// The mark of a daemon before this one was read.
    pub(super) is_restored: bool,
    /// Until when the durable mark says that all was told.
    marked: Option<DateTime<Utc>>,
}

/// What is durable.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Mark {
    /// The bot, as a user.
    bot: String,
    until: Option<String>,
    /// Chat, thread, and after which message.
    missed: Vec<(String, Option<String>, String)>,
}

impl Progress {
    /// Goes on from a mark, unless it is another bot's.
    pub(super) fn restore(
        &mut self,
        mark: &str,
        bot: &str,
        channel: &ChannelName,
        backlog: &Backlog,
    ) {
        let mark: Mark = serde_json::from_str(mark).unwrap_or_default();
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

    /// The durable mark, as it is to be set now.
    pub(super) fn mark(&mut self, bot: &str, backlog: &Backlog) -> String {
        self.marked = self.until();
        let missed = backlog.places().into_iter().map(|(at, unread)| {
            let thread = at.thread.as_ref().map(|thread| thread.as_str().to_owned());
            (at.chat.as_str().to_owned(), thread, unread.after.0)
        });
        let missed = missed.collect();
        let mark = Mark { bot: bot.to_owned(), until: self.until.clone(), missed };
        serde_json::to_string(&mark).unwrap_or_default()
    }

    /// Until when all was told that was said, whether it was for the bot or not; none if unknown.
    pub(super) fn until(&self) -> Option<DateTime<Utc>> {
        self.until.as_deref().and_then(moment)
    }

    /// An event of this time is acknowledged; true if the mark is to be set.
    pub(super) fn hear(&mut self, ts: &str) -> bool {
        // A time that is not yet would hide what is to come.
        let at = moment(ts).filter(|at| *at <= Utc::now() + LATE_MAX);
        let Some(at) = at else { return false };
        if self.until.as_deref().is_none_or(|until| until < ts) {
            self.until = Some(ts.to_owned());
        }
        self.marked.is_none_or(|marked| at - marked >= MARK_EVERY)
    }
}
