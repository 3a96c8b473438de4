//! The gateway: health and metrics, the page as a channel, sign-in, and requests that others cause.

mod attacks;
mod browser;
mod chat;
mod events;
mod files;
mod html;
mod links;
mod openai;
mod service;
mod webhooks;
