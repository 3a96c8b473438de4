//! Fakes of the platforms that Peacrab talks to. They refuse what the real ones would refuse.

#[cfg_attr(
    not(any(feature = "slack", feature = "telegram")),
    expect(dead_code, reason = "most tests of the real program speak through Telegram")
)]
pub(crate) mod binary;
#[cfg(feature = "telegram")]
pub(crate) mod bot_api;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
pub(crate) mod adapter_fixture;
#[cfg(feature = "discord")]
pub(crate) mod discord_api;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
pub(crate) mod disk;
pub(crate) mod damage;
pub(crate) mod documents;
pub(crate) mod fake_channel;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
pub(crate) mod fake_daemon;
pub(crate) mod former_store;
pub(crate) mod effort;
pub(crate) mod log;
pub(crate) mod model_api;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
pub(crate) mod outbound;
pub(crate) mod platform;
pub(crate) mod pty;
pub(crate) mod record;
pub(crate) mod rig;
pub(crate) mod script;
pub(crate) mod search_api;
pub(crate) mod site;
#[cfg(feature = "slack")]
pub(crate) mod slack_api;
pub(crate) mod tool_context;
pub(crate) mod tools;
pub(crate) mod transcriber;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
pub(crate) mod watched;
#[cfg_attr(
    not(any(feature = "slack", feature = "telegram")),
    expect(dead_code, reason = "Discord's stand-in reads the bodies of calls itself")
)]
pub(crate) mod wire;
