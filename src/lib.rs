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
pub mod process;
pub mod atomic_file;
pub mod short_text;
pub mod http;
pub mod types;
pub mod replies;
pub mod store;
pub mod workspace;
pub mod provider;
pub mod sandbox;
pub mod documents;
pub mod people;
pub mod memory;
pub mod bus;
pub mod conversation;
pub mod channels;
pub mod services;
pub mod trust;
pub mod tasks;
pub mod tools;
pub mod turn;
pub mod agent;
pub mod doctor;
pub mod control;
pub mod gateway;
pub mod hooks;
pub mod backup;
pub mod config;
pub mod daemon;
pub mod cli;
