//! The HTTP server of the gateway, and everything that it serves.

mod access;
mod chat;
mod connection;
mod counters;
mod event_log;
mod events;
mod folders;
mod guard;
mod health;
pub mod html;
mod limits;
mod lists;
mod logins;
mod metrics;
mod openai;
mod page;
mod proposed;
mod publish;
mod questions;
mod refusal;
mod refused_calls;
mod server;
mod sign_ins;
mod state;
mod stream;
mod stream_access;
mod webhooks;

pub use server::run;
pub use state::HttpGateway;
