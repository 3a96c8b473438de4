//! The ids of conversations, turns and calls: the numbers of their rows in the store.

use serde::{Deserialize, Serialize};

/// Declares a newtype over a row id of the store.
macro_rules! row_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

row_id! {
    /// One conversation. An id is never used again.
    SessionId,
    TurnId,
    /// One tool call of one step.
    CallId,
}
