//! How far we have heard, and where something is still missed. Both outlive the program: what comes
//! later in a place does not make up for what was missed there.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};

use super::inbound::moment;
use super::sending::ts_of;
use crate::types::message::{Address, ChannelName, ThreadId};

/// How old the durable mark may be: so much is looked up once more after a crash.
const MARK_EVERY: Duration = Duration::seconds(60);

/// How late Slack may tell of something.
const LATE_MAX: Duration = Duration::minutes(5);

/// A place that is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    /// After which message.
    pub(super) since: String,
    /// Where to go on, if a part was read already.
    pub(super) cursor: Option<String>,
}

#[derive(Default)]
pub(super) struct Progress {
    /// The time of the newest event that was acknowledged.
    until: Option<String>,
    pub(super) missed: BTreeMap<Address, Missed>,
    /// The mark of a daemon before this one was read.
    pub(super) is_restored: bool,
    /// It is known what this link has to look up. Before, what is heard says nothing of what was not.
    pub(super) is_noted: bool,
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
    /// Chat, thread, and since when.
    missed: Vec<(String, Option<String>, String)>,
}

impl Progress {
    /// Goes on from a mark, unless it is another bot's.
    pub(super) fn restore(&mut self, mark: &str, bot: &str, channel: &ChannelName) {
        let mark: Mark = serde_json::from_str(mark).unwrap_or_default();
        if mark.bot != bot {
            return;
        }
        self.until = self.until.take().or(mark.until);
        for (chat, thread, since) in mark.missed {
            let thread = thread.as_deref().map(ThreadId::from);
            let at = Address { channel: channel.clone(), chat: chat.as_str().into(), thread };
            self.missed.entry(at).or_insert(Missed { since, cursor: None });
        }
    }

    /// The durable mark, as it is to be set now.
    pub(super) fn mark(&mut self, bot: &str) -> String {
        self.marked = self.until.as_deref().and_then(moment);
        let missed = self.missed.iter().map(|(at, missed)| {
            let thread = at.thread.as_ref().map(|thread| thread.as_str().to_owned());
            (at.chat.as_str().to_owned(), thread, missed.since.clone())
        });
        let missed = missed.collect();
        let mark = Mark { bot: bot.to_owned(), until: self.until.clone(), missed };
        serde_json::to_string(&mark).unwrap_or_default()
    }

    /// Until when all was told that was said, whether it was for the bot or not; empty if unknown.
    pub(super) fn all_heard(&self) -> String {
        let until = self.until.as_deref().and_then(moment);
        until.map(|until| ts_of(until - LATE_MAX).0).unwrap_or_default()
    }

    /// An event of this time is acknowledged; true if the mark is to be set.
    pub(super) fn hear(&mut self, ts: &str) -> bool {
        // A time that is not yet would hide what is to come.
        let at = moment(ts).filter(|at| *at <= Utc::now() + LATE_MAX);
        let Some(at) = at.filter(|_| self.is_noted) else { return false };
        if self.until.as_deref().is_none_or(|until| until < ts) {
            self.until = Some(ts.to_owned());
        }
        self.marked.is_none_or(|marked| at - marked >= MARK_EVERY)
    }

    /// Notes a place; what is missed there since longer stays so.
    pub(super) fn note(&mut self, at: Address, since: String) {
        let missed = self.missed.entry(at).or_insert(Missed { since, cursor: None });
        // More may be there by now than where it was begun.
        missed.cursor = None;
    }
}
