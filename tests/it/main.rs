//! The one test crate: promises, each tried against the real thing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod config;
mod crash;
mod daemon;
mod logging;
mod providers;
mod telegram;
mod text;
mod tidy;
mod tools;
mod workspace;
