//! The one test crate.

mod support;
mod telegram;
mod text;
