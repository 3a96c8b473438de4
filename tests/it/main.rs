//! The one test crate: promises, each tried against the real thing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

mod actions;
mod admission;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
mod api_url;
mod aside;
mod asks;
mod beginnings;
mod attachments;
#[cfg(feature = "telegram")]
mod away;
mod budgets;
#[cfg(feature = "telegram")]
mod backup;
mod catalogue;
mod circles;
mod sandbox;
mod commands;
mod commands_page;
mod compaction;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
mod config;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
mod conformance;
mod control;
mod crash;
#[cfg(any(feature = "discord", feature = "telegram"))]
mod daemon;
mod delivery;
#[cfg(feature = "discord")]
mod discord;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram", feature = "mcp"))]
mod documents;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
mod doctor;
mod events;
mod extraction;
mod facts;
mod facts_file;
mod fairness;
mod finish;
mod folders;
mod former_home;
mod forget;
mod foreign;
#[cfg(feature = "gateway")]
mod gateway;
mod groups;
#[cfg(feature = "hardware")]
mod hardware;
#[cfg(any(feature = "discord", feature = "slack"))]
mod routing;
mod heartbeat;
mod import;
mod incognito;
#[cfg(all(feature = "discord", feature = "slack", feature = "telegram"))]
mod init;
mod interleavings;
mod json_output;
#[cfg(not(all(feature = "discord", feature = "slack", feature = "telegram")))]
mod left_out;
mod logging;
mod loops;
mod markdown;
mod markup;
#[cfg(feature = "mcp")]
mod mcp;
mod media;
mod origins;
mod packaging;
mod passes;
mod memory;
mod model_waits;
mod names;
mod recall;
mod people;
mod personas;
mod prices;
mod progress;
mod prompt;
mod proposals;
mod pruning;
mod providers;
mod queue;
mod restarts;
mod routes;
mod rates;
#[cfg(feature = "telegram")]
mod reload;
mod replies;
mod schedule;
#[cfg(feature = "telegram")]
mod safe_mode;
mod secrets;
mod sessions;
mod service;
mod settings;
mod shell;
mod signatures;
mod short_text;
mod skills;
#[cfg(feature = "slack")]
mod slack;
mod steering;
mod store;
mod subagents;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
mod supervise;
#[cfg(feature = "telegram")]
mod telegram;
mod text;
mod template;
mod terminal;
mod tidy;
mod tools;
mod turns;
mod unreadable;
mod unseen_tools;
mod update;
mod used_facts;
mod web;
#[cfg(any(feature = "discord", feature = "slack", feature = "telegram"))]
mod watchdog;
mod why;
mod workspace;
mod writes;
