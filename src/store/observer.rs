//! Commits as tests and figures observe them: when they happen, how durable they are, and their labels.

use std::sync::Arc;

/// Durability of a change: on the disk when `write` returns, or with a later change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    Now,
    Later,
}

/// Called for every commit, on the writer thread, just before and just after it.
pub type Observer = Arc<dyn Fn(Moment<'_>) + Send + std::marker::Sync>;

#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Counted from one since the store was opened.
    pub commit: u64,
    pub phase: Phase,
    /// `Now` if the commit, and all before it, is on the disk once it is made.
    pub sync: Sync,
    /// The labels of its changes.
    pub labels: &'a [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Before,
    After,
}
