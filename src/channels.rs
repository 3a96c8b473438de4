//! Chat platforms behind one trait, [`Channel`]: listen, send, hint, find. The differences between platforms are
//! data ([`PlatformLimits`]). Supervision, splitting and delivery exist once, beside the adapters. Not here:
//! access control (`bus`), and answers (`turn`).

mod api;
#[cfg(any(feature = "discord", feature = "slack"))]
pub mod backlog;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
pub mod call;
pub mod config;
pub mod deliver;
pub mod direct;
#[cfg(feature = "discord")]
pub mod discord;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
pub mod routing;
pub mod intake;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
mod json;
mod listeners;
pub mod markup;
pub mod network;
pub mod restored;
pub mod chunking;
#[cfg(feature = "slack")]
pub mod slack;
pub mod supervise;
#[cfg(feature = "telegram")]
pub mod telegram;
pub mod terminal;
pub mod text;
#[cfg(feature = "gateway")]
pub mod web;

use std::sync::Arc;

pub use api::{
    Channel, ChannelError, ChannelProbe, Channels, Drafts, FileContent, GIVE_UP_AFTER, Markup,
    MediaSink, PlatformLimits, SendLookup, Sent, Unit,
};
pub use config::{ChannelKind, Config};

/// Creates the adapter of a config section. None for the terminal, which every daemon has. Returns an error for
/// invalid settings, and for a platform that this build lacks.
pub fn connect(kind: &ChannelKind) -> anyhow::Result<Option<Arc<dyn Channel>>> {
    Ok(match kind {
        #[cfg(feature = "discord")]
        ChannelKind::Discord(config) => Some(Arc::new(discord::Discord::new(config)?)),
        #[cfg(feature = "slack")]
        ChannelKind::Slack(config) => Some(Arc::new(slack::Slack::new(config)?)),
        #[cfg(feature = "telegram")]
        ChannelKind::Telegram(config) => Some(Arc::new(telegram::Telegram::new(config)?)),
        ChannelKind::Terminal => None,
        #[cfg(not(all(feature = "discord", feature = "slack", feature = "telegram")))]
        _ => anyhow::bail!("this program was built without this platform"),
    })
}
