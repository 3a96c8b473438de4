//! The one test crate: conversations with the program, whose ends are replaced by strict fakes.

#![expect(clippy::unwrap_used, reason = "what cannot be unwrapped is a failed test")]

mod providers;
mod support;
