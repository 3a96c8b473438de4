//! A text that must not be shown: no `Debug` or `Display` of what it holds, and it cannot be
//! serialized.

use std::fmt;

/// A token or key. [`Secret::reveal`] is the only way to read it; keep its uses few.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
