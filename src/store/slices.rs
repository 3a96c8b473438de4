//! How much is forgotten at a time, so that other changes come in between.

/// Rows that are forgotten in one transaction: some milliseconds also on a slow card.
pub const SLICE: usize = 100;

/// The same, as a parameter of SQL.
pub fn slice() -> i64 {
    i64::try_from(SLICE).expect("a small number")
}
