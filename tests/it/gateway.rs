//! The gateway: health and metrics, the page as a channel, sign-in, and requests that others cause.

mod attacks;
pub(crate) mod browser;
mod chat;
mod clients;
mod day;
mod events;
mod files;
mod folders;
mod html;
mod isolation;
mod links;
mod lists;
mod live;
mod metrics;
mod openai;
mod port;
mod proposals;
mod questions;
mod service;
mod sign_ins;
mod sizes;
mod webhooks;
