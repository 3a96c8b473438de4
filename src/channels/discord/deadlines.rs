//! The deadlines of the Discord adapter.

use std::time::Duration;

/// Deadlines for Discord's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscordDeadlines {
    pub connect: Duration,
    /// For a whole call, except uploads.
    pub call: Duration,
    /// From a gateway connection, or a missed event on it, to the confirmation that the session resumes.
    /// After that a new session is begun.
    pub ready: Duration,
    /// Maximum silence of a link: longer than the interval of two heartbeats, and less than a minute.
    pub silence: Duration,
    /// Maximum wait before a new session, after one has become invalid.
    pub identify: Duration,
    /// Time for which new events wait for the missed ones before them.
    pub catch_up: Duration,
    /// Pause before a channel that could not be read back is tried again.
    pub retry_pause: Duration,
}

impl Default for DiscordDeadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(20),
            ready: Duration::from_secs(30),
            // Discord's heartbeats are 41 s apart, each with an answer.
            silence: Duration::from_secs(55),
            identify: Duration::from_secs(5),
            catch_up: Duration::from_secs(3),
            retry_pause: Duration::from_secs(30),
        }
    }
}
