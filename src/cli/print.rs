//! Writing to the terminal, where a reader that has gone away is no reason to panic.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use crate::control::Status;

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
        let link = match (&channel.trouble, channel.up) {
            (Some(trouble), _) => format!("down: {trouble}"),
            (None, true) => format!("up, {}", channel.about),
            (None, false) => "connecting".to_owned(),
        };
        let _ = write!(text, "channel {name}: {link}");
        if let Some(seconds) = channel.last_byte_s {
            let _ = write!(text, ", heard {seconds} s ago");
        }
        if channel.pending > 0 {
            let _ = write!(text, ", {} messages on their way out", channel.pending);
        }
        text.push('\n');
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

/// Without what would command the terminal: models and strangers wrote it.
fn harmless(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_control() || matches!(sign, '\n' | '\t')).collect()
}
