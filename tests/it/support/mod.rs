//! Local stand-ins for the platforms.

pub(crate) mod bot_api;
pub(crate) mod record;
