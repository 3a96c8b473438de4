//! The gateway: HTTP for browsers and other programs. A page to chat with the bot, health and metrics. Not here: TLS,
//! which is left to a reverse proxy.

pub mod config;
#[cfg(feature = "gateway")]
mod http;
pub mod template;

pub use config::Config;
#[cfg(feature = "gateway")]
pub use http::{HttpGateway, html, run};
