//! The one test crate.

mod config;
mod logging;
