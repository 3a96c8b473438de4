//! A bound on what an MCP server says unasked. Each message costs time to read; a server that sends them
//! without end is disconnected.

use tokio::time::Instant;

/// Messages at once. A server that reports progress sends a few a second.
const BURST: f64 = 1_000.0;

/// Messages a second, for as long as it likes.
const EACH_SECOND: f64 = 20.0;

/// So many bytes cost as much as a message.
const BYTES_EACH: usize = 16 * 1024;

pub(super) struct UnaskedBudget {
    left: f64,
    at: Instant,
}

impl UnaskedBudget {
    pub(super) fn new() -> Self {
        Self { left: BURST, at: Instant::now() }
    }

    /// Takes a message of so many bytes off. Returns false if there were too many.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let now = Instant::now();
        let came = now.duration_since(self.at).as_secs_f64() * EACH_SECOND;
        (self.left, self.at) = ((self.left + came).min(BURST), now);
        let more = u32::try_from(bytes / BYTES_EACH).unwrap_or(u32::MAX);
        self.left -= 1.0 + f64::from(more);
        self.left >= 0.0
    }
}
