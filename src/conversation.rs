//! Conversations in the store: sessions, turns, steps and calls, their questions and plans, and the record of actions.
//! Not here: anything that asks a model, runs a tool or sends a message.

pub mod former_home;
pub mod sources;
pub mod reasons;
pub mod forgetting;
pub mod blanking;
pub mod sessions;
pub mod task_sessions;
pub mod presence;
pub mod tokens;
pub mod shares;
pub mod shorten;
pub mod asks;
pub mod deferred;
pub mod settings;
pub mod plans;
pub mod proposals;
pub mod budgets;
pub mod ledger;
pub mod actions;
pub mod history;
pub mod incognito;
pub mod delivered;
pub mod quoted_texts;
pub mod ended_turns;
pub mod named_sessions;
pub mod session_export;
pub mod transcript;
pub mod model_waits;
pub mod restored;
