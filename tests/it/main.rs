//! The one test crate.

mod config;
