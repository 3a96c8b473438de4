//! The Telegram adapter.
