//! Peacrab, an assistant that answers on chat platforms and loses nothing.
//!
//! ```text
//!  telegram   discord   slack   terminal     channels: publish what they hear
//!     └──────────┴── Publisher ──┴───┘       bus: admits, commits to the journal, wakes the loop
//!                        ▼
//!                   Agent::run               reads waiting rows; alone owns the sessions
//!                        ▼
//!                    turn::run               prompt → Provider ⇄ Tools, committed before it is acted on
//!                        ▼
//!                     outbox                 rows; one delivery task per channel
//!     ┌──────────┬───────┴───────┬───┐
//!  telegram   discord   slack   terminal
//! ```
//!
//! Modules stand in reading order; one imports only those above it.

pub mod secret;
pub mod foreign;
pub mod http;
pub mod replies;
pub mod message;
pub mod session;
pub mod event;
pub mod workspace;
pub mod provider;
pub mod store;
pub mod forgetting;
pub mod people;
pub mod memory;
pub mod actions;
pub mod past;
pub mod bus;
pub mod errands;
pub mod conversations;
pub mod channels;
pub mod send;
pub mod proposals;
pub mod oversight;
pub mod sandbox;
pub mod schedule;
pub mod heartbeat;
pub mod tools;
pub mod asks;
pub mod subagents;
pub mod agent;
pub mod control;
pub mod hooks;
pub mod config;
pub mod logging;
pub mod daemon;
pub mod cli;
