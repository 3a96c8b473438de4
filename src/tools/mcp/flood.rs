//! A rate limit for messages that an MCP server sends unrequested. Each costs time to read. A server that sends
//! them without end is disconnected.

use tokio::time::Instant;

/// Maximum burst of messages. A server that reports progress sends a few a second.
const BURST: f64 = 1_000.0;

/// Sustained rate, in messages a second.
const EACH_SECOND: f64 = 20.0;

/// Bytes that cost as much as one more message.
const BYTES_EACH: usize = 16 * 1024;

pub(super) struct UnsolicitedBudget {
    left: f64,
    at: Instant,
}

impl UnsolicitedBudget {
    pub(super) fn new() -> Self {
        Self { left: BURST, at: Instant::now() }
    }

    /// Counts a message of `bytes`. Returns false if there were too many.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let now = Instant::now();
        let refill = now.duration_since(self.at).as_secs_f64() * EACH_SECOND;
        (self.left, self.at) = ((self.left + refill).min(BURST), now);
        let extra = u32::try_from(bytes / BYTES_EACH).unwrap_or(u32::MAX);
        self.left -= 1.0 + f64::from(extra);
        self.left >= 0.0
    }
}
