//! Telegram: stub.

use crate::secret::Secret;

/// What is Telegram's own in a `[channels.NAME]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub token: Secret,
    /// Without a slash at the end: `https://api.telegram.org` or a local server.
    pub api_url: String,
}
