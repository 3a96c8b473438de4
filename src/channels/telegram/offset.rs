//! The offset of the long poll: the id to request, and the mark to store.

use chrono::{DateTime, Duration, Utc};

/// Age of the last update from which all are requested. After a week without updates Telegram continues from
/// a random id, often a lower one (Bot API, `Update.update_id`). Those that we have read were confirmed long
/// before.
const QUIET_MAX: Duration = Duration::days(6);

/// The offset of one bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    bot: u64,
    /// The last received id plus one, never a maximum, and the time it was received.
    next: Option<(i32, DateTime<Utc>)>,
}

impl Offset {
    /// Parses a mark that [`Offset::mark`] wrote at that time. Another bot's mark is ignored.
    pub fn from_mark(bot: u64, mark: Option<(String, DateTime<Utc>)>) -> Self {
        let next = mark.and_then(|(mark, at)| {
            let (owner, next) = mark.split_once(':')?;
            Some((next.parse().ok().filter(|_| owner.parse() == Ok(bot))?, at))
        });
        Self { bot, next }
    }

    /// Returns the mark to store. None before the first update.
    pub fn mark(&self) -> Option<String> {
        self.next.map(|(next, _)| format!("{}:{next}", self.bot))
    }

    /// Returns the offset to poll with. Polling confirms all updates below it.
    pub fn to_poll(&self, now: DateTime<Utc>) -> Option<i32> {
        self.next.filter(|(_, at)| now - at < QUIET_MAX).map(|(next, _)| next)
    }

    /// Advances beyond the accepted update `id`.
    pub fn advance(&mut self, id: i32, now: DateTime<Utc>) {
        self.next = Some((id.saturating_add(1), now));
    }
}
