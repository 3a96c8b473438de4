//! The view of commits for tests and benchmarks: their times, durability and labels.

use std::sync::Arc;

/// Durability of a change: on the disk when `write` returns, or with a later change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    Now,
    Later,
}

/// A callback for every commit, on the writer thread, just before and just after it.
pub type Observer = Arc<dyn Fn(CommitEvent<'_>) + Send + std::marker::Sync>;

#[derive(Clone, Copy, Debug)]
pub struct CommitEvent<'a> {
    /// The commit's number since the store was opened, counted from 1.
    pub commit: u64,
    pub phase: Phase,
    /// `Now` if the commit and all earlier ones are on the disk once it is made.
    pub sync: Sync,
    /// The labels of its changes.
    pub labels: &'a [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Before,
    After,
}
