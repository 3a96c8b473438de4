//! Durations, counted by their length in constant memory.

use std::time::Duration;

/// Counts of durations up to each of a list of bounds.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Upper bounds in seconds, ascending.
    bounds: &'static [f64],
    /// One count for each bound, and one for longer durations.
    counts: Vec<u64>,
    sum: Duration,
    longest: Duration,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        let (sum, longest) = (Duration::ZERO, Duration::ZERO);
        Self { bounds, counts: vec![0; bounds.len() + 1], sum, longest }
    }

    pub fn note(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound);
        self.counts[bucket.unwrap_or(self.bounds.len())] += 1;
        self.sum = self.sum.saturating_add(duration);
        self.longest = self.longest.max(duration);
    }

    /// Returns the number of durations up to each bound, in seconds; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(&self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> Duration {
        self.sum
    }

    pub fn longest(&self) -> Duration {
        self.longest
    }
}
