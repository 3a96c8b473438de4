//! The progress of long work on a terminal: one line, which is written over about once a second and removed in the end.
//! Quick work shows nothing, and neither do scripts, which have the result.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Work that ends before shows nothing. A screen reader reads each line aloud, so there are few.
const EVERY: Duration = Duration::from_secs(1);

/// The text of the line, at the time when it is due.
pub struct ProgressText {
    title: &'static str,
    /// The bytes that there are, if that is known.
    total: Option<u64>,
    done: u64,
    next: Instant,
}

impl ProgressText {
    pub fn new(title: &'static str, total: Option<u64>, now: Instant) -> Self {
        Self { title, total, done: 0, next: now + EVERY }
    }

    /// Notes bytes that were done. Returns the line if it is due.
    pub fn add(&mut self, bytes: u64, now: Instant) -> Option<String> {
        self.done = self.done.saturating_add(bytes);
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        let megabytes = |bytes: u64| bytes / 1_000_000;
        let of = self.total.map(|total| format!(" of {}", megabytes(total.max(self.done))));
        Some(format!("{}: {}{} MB", self.title, megabytes(self.done), of.unwrap_or_default()))
    }
}

/// The line on standard error.
pub(super) struct ProgressLine {
    /// None if standard error is no terminal.
    text: Option<ProgressText>,
    /// The columns that are taken.
    columns: usize,
}

impl ProgressLine {
    pub(super) fn new(title: &'static str, total: Option<u64>) -> Self {
        let is_seen = io::stderr().is_terminal();
        let text = is_seen.then(|| ProgressText::new(title, total, Instant::now()));
        Self { text, columns: 0 }
    }

    pub(super) fn add(&mut self, bytes: u64) {
        let due = self.text.as_mut().and_then(|text| text.add(bytes, Instant::now()));
        if let Some(line) = due {
            self.write_over(&line);
            self.columns = line.len();
        }
    }

    /// Without signs that command the terminal, which not every one knows.
    fn write_over(&self, line: &str) {
        let columns = self.columns;
        write!(io::stderr(), "\r{line:columns$}").and_then(|()| io::stderr().flush()).ok();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.columns > 0 {
            self.write_over("");
            write!(io::stderr(), "\r").ok();
        }
    }
}
