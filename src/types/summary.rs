//! A summary as data. Not here: how it is made (`turn::compaction`), and where it is kept (`conversation::transcript`).

use crate::types::source::Source;

/// A summary, and the sources of all that it sums up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcedSummary {
    pub text: String,
    pub sources: Vec<Source>,
}
