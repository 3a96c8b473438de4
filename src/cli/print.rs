//! Writing to the terminal, where a reader that has gone away is no reason to panic.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use crate::control::{ChannelStatus, Status};

pub(super) fn line(text: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", harmless(text)).and_then(|()| out.flush()).ok();
}

/// Without an end of line, at once.
pub(super) fn piece(text: &str) {
    let mut out = io::stdout().lock();
    out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush()).ok();
}

pub(super) fn error(text: &str) {
    writeln!(io::stderr(), "{text}").ok();
}

pub(super) fn status(status: &Status) -> String {
    let mut text = format!(
        "peacrab {} (process {}) since {}\nhome: {}\nprovider: {}\ntools: {}, skills: {}, fixed prompt: about {} tokens\n\
         turns running: {}, chats waiting: {}, tokens in 30 days: {}\n",
        status.version,
        status.pid,
        status.since.format("%Y-%m-%d %H:%M UTC"),
        status.home,
        status.provider,
        status.tools,
        status.skills,
        status.prompt_tokens,
        status.turns_running,
        status.waiting,
        status.tokens_30_days,
    );
    for (name, channel) in &status.channels {
        let _ = writeln!(text, "channel {name}: {}", channel_line(channel));
    }
    for (name, server) in &status.mcp {
        let link = match (&server.trouble, server.up) {
            (Some(trouble), _) => format!("down: {trouble}"),
            (None, true) => format!("up, {} tools", server.tools),
            (None, false) => "starting".to_owned(),
        };
        let _ = writeln!(text, "MCP server {name}: {link}");
    }
    text.trim_end().to_owned()
}

fn channel_line(channel: &ChannelStatus) -> String {
    let heard = channel.last_byte_s.map(|seconds| format!("last heard {seconds} s ago"));
    let pending = match channel.pending {
        0 => None,
        1 => Some("a message on its way out".to_owned()),
        n => Some(format!("{n} messages on their way out")),
    };
    let state = match (&channel.trouble, channel.up) {
        (Some(_), _) => "down".to_owned(),
        (None, true) => format!("up, {}", channel.about),
        (None, false) => "connecting".to_owned(),
    };
    let parts: Vec<_> = [Some(state), heard, pending].into_iter().flatten().collect();
    // The reason comes last: it says what to do, in sentences of its own.
    let trouble = channel.trouble.iter().map(|trouble| format!(": {trouble}"));
    parts.join(", ") + &trouble.collect::<String>()
}

/// Without what would command the terminal: models and strangers wrote it.
fn harmless(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_control() || matches!(sign, '\n' | '\t')).collect()
}
