//! The one test crate: promises, each tried against the real thing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod admission;
mod commands;
mod compaction;
mod config;
mod crash;
mod daemon;
mod delivery;
mod discord;
mod groups;
mod logging;
mod loops;
mod markup;
mod media;
mod prompt;
mod providers;
mod slack;
mod steering;
mod store;
mod telegram;
mod text;
mod tidy;
mod tools;
mod turns;
mod workspace;
