//! Fakes of the platforms that Peacrab talks to. They refuse what the real ones would refuse.

pub(crate) mod binary;
pub(crate) mod bot_api;
pub(crate) mod discord_api;
pub(crate) mod double;
pub(crate) mod model_api;
pub(crate) mod platform;
pub(crate) mod record;
pub(crate) mod rig;
pub(crate) mod script;
pub(crate) mod slack_api;
pub(crate) mod tools;
pub(crate) mod transcriber;
