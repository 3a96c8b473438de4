//! The real program over real sockets: people write through the stand-in for Telegram, the model
//! is the stand-in for a model API or the rehearsal, and the daemon is begun, killed and begun again.

mod cli;
mod crash;
mod discord;
mod drafts;
mod groups;
mod life;
mod models;
mod pairing;
mod sync;
mod telegram;
mod telegram_files;
mod trouble;
