//! The deadlines of the Slack adapter.

use std::time::Duration;

/// Deadlines for Slack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlackDeadlines {
    pub connect: Duration,
    /// For a whole call.
    pub call: Duration,
    /// For the names of an event's people. After that the event is stored with their ids.
    pub names: Duration,
    /// Interval of our pings on a link.
    pub ping_every: Duration,
    /// A link without a received byte for this long is dead.
    pub silence: Duration,
    /// Time for which new events wait for the missed ones before them.
    pub catch_up: Duration,
    /// A link that ends sooner counts as failed: the next one is begun under back-off.
    pub steady: Duration,
    /// Pause before a conversation that could not be read is tried again.
    pub retry_pause: Duration,
}

impl Default for SlackDeadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(15),
            // Slack repeats an event that is not acknowledged within three seconds.
            names: Duration::from_secs(1),
            ping_every: Duration::from_secs(15),
            // Slack itself pings every few seconds, too.
            silence: Duration::from_secs(40),
            catch_up: Duration::from_secs(2),
            steady: Duration::from_secs(10),
            retry_pause: Duration::from_secs(30),
        }
    }
}
