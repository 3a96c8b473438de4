//! The size of one step of deletion, so that other changes are made in between.

/// Maximum number of rows that are deleted in one transaction: some milliseconds even on a slow card.
pub const SLICE: usize = 100;

/// Returns [`SLICE`] as a parameter of SQL.
pub fn slice() -> i64 {
    i64::try_from(SLICE).expect("a small number")
}
