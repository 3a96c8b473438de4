//! The gateway: HTTP for browsers and other programs. A page to chat with the bot, health and metrics. TLS is left to
//! a reverse proxy.

pub mod config;
pub mod template;

#[cfg(feature = "gateway")]
mod access;
#[cfg(feature = "gateway")]
mod chat;
#[cfg(feature = "gateway")]
mod counters;
#[cfg(feature = "gateway")]
mod events;
#[cfg(feature = "gateway")]
mod guard;
#[cfg(feature = "gateway")]
mod health;
#[cfg(feature = "gateway")]
pub mod html;
#[cfg(feature = "gateway")]
mod limits;
#[cfg(feature = "gateway")]
mod logins;
#[cfg(feature = "gateway")]
mod metrics;
#[cfg(feature = "gateway")]
mod openai;
#[cfg(feature = "gateway")]
mod page;
#[cfg(feature = "gateway")]
mod publish;
#[cfg(feature = "gateway")]
mod refusal;
#[cfg(feature = "gateway")]
mod server;
#[cfg(feature = "gateway")]
mod stream;
#[cfg(feature = "gateway")]
mod webhooks;

pub use config::Config;
#[cfg(feature = "gateway")]
pub use server::{HttpGateway, run};
