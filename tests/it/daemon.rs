//! The real program over real sockets: people write through the stand-in for Telegram, the model
//! is the stand-in for a model API or the rehearsal, and the daemon is begun, killed and begun again.

#[cfg(feature = "telegram")]
mod cli;
#[cfg(feature = "telegram")]
mod crash;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
mod crash_everywhere;
#[cfg(feature = "telegram")]
mod cron;
#[cfg(feature = "discord")]
mod discord;
#[cfg(feature = "telegram")]
mod drafts;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
mod end_everywhere;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
mod full_disk;
#[cfg(feature = "telegram")]
mod groups;
#[cfg(feature = "telegram")]
mod life;
#[cfg(feature = "telegram")]
mod models;
#[cfg(feature = "telegram")]
mod pairing;
#[cfg(feature = "telegram")]
mod real_model;
#[cfg(feature = "telegram")]
mod send;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
mod status_words;
#[cfg(feature = "telegram")]
mod starting;
#[cfg(feature = "telegram")]
mod sync;
#[cfg(feature = "telegram")]
mod telegram;
#[cfg(feature = "telegram")]
mod telegram_files;
#[cfg(feature = "telegram")]
mod trouble;
#[cfg(feature = "telegram")]
mod web;
#[cfg(feature = "telegram")]
mod windows;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
mod year;
