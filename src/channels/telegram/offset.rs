//! Where reading goes on, as a value: what to ask for, and what to write down.

use chrono::{DateTime, Duration, Utc};

/// After a week without updates Telegram goes on from a random id, often a lower one (Bot API,
/// `Update.update_id`). From a day before that on, we ask for whatever there is; all that we have
/// read was confirmed long before.
const QUIET_MAX: Duration = Duration::days(6);

/// The id to go on from, for one bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    bot: u64,
    /// The last id that was received, and one; never a maximum. With it, when it was received.
    next: Option<(i32, DateTime<Utc>)>,
}

impl Offset {
    /// Reads a mark that [`Offset::mark`] wrote at that time. Another bot's mark means nothing.
    pub fn from_mark(bot: u64, mark: Option<(String, DateTime<Utc>)>) -> Self {
        let next = mark.and_then(|(mark, at)| {
            let (of, next) = mark.split_once(':')?;
            Some((next.parse().ok().filter(|_| of.parse() == Ok(bot))?, at))
        });
        Self { bot, next }
    }

    pub fn mark(&self) -> Option<String> {
        self.next.map(|(next, _)| format!("{}:{next}", self.bot))
    }

    /// What to poll with. All updates below it are confirmed thereby.
    pub fn ask(&self, now: DateTime<Utc>) -> Option<i32> {
        self.next.filter(|(_, at)| now - at < QUIET_MAX).map(|(next, _)| next)
    }

    /// Goes on after the update `id`, which is accepted.
    pub fn advance(&mut self, id: i32, now: DateTime<Utc>) {
        self.next = Some((id.saturating_add(1), now));
    }
}
