//! The one test crate.

#![expect(clippy::unwrap_used, reason = "what a test does not expect ends it")]

mod tools;
mod workspace;
