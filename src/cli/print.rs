//! Writing to the terminal, where a reader that has gone away is no reason to panic. Output that is lost in another way
//! makes the command fail.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, OnceLock};

use chrono::Utc;
use rustix::termios::tcgetwinsize;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use crate::bus::outbox::FailingDeliveries;
use crate::channels::markup::unescaped;
use crate::control::disk_usage::DiskUsage;
use crate::control::health::Health;
use crate::control::{ChannelStatus, Status};
use crate::memory::recall::progress::IndexCount;
use crate::replies;
use crate::short_text::{reorders_or_hides, shortened};
use crate::types::event::EventKind;

/// Lines of more are hard to read, however wide the screen is.
const COLUMNS_MAX: usize = 90;

/// Columns where nobody says how many there are.
const COLUMNS_USUAL: usize = 80;

/// Columns that a paragraph has beside its prefix, however narrow the screen is.
const COLUMNS_LEAST: usize = 20;

/// True if the standard output is a terminal, as found at the first write. One that hangs up is a reader that has gone
/// away.
static IS_TERMINAL: LazyLock<bool> = LazyLock::new(|| io::stdout().is_terminal());

/// The first failure by which output was lost, as on a full disk.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Returns the failure by which output of this command was lost, if there was one.
pub(super) fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

/// True once something was written to the standard output.
static HAS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Returns true if this command has shown something on the standard output.
pub(super) fn has_shown() -> bool {
    HAS_SHOWN.load(Ordering::Relaxed)
}

/// Notes the outcome of a write to the standard output.
pub(super) fn note_written(written: io::Result<()>) {
    let is_terminal = *IS_TERMINAL;
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && !is_terminal
    {
        FAILURE.set(error).ok();
    }
}

/// Writes to the standard output, at once.
pub(super) fn bytes(content: &[u8]) {
    LazyLock::force(&IS_TERMINAL);
    HAS_SHOWN.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    note_written(out.write_all(content).and_then(|()| out.flush()));
}

pub(super) fn line(text: &str) {
    bytes((for_output(text) + "\n").as_bytes());
}

/// Returns the columns that a line of text should have on this terminal.
pub(super) fn columns() -> usize {
    columns_of(io::stdout())
}

fn columns_of(terminal: impl AsFd) -> usize {
    let columns = tcgetwinsize(terminal).map(|size| usize::from(size.ws_col));
    columns.ok().filter(|columns| *columns > 0).unwrap_or(COLUMNS_USUAL).min(COLUMNS_MAX)
}

/// Wraps a line at its blanks, if it is too long. A word that is longer than a line, such as an address, stays whole, and so
/// does a command between backticks, of which a half would run, too.
pub(super) fn wrap(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let indent: String = line.chars().take_while(|sign| *sign == ' ').collect();
    let (mut wrapped, mut width) = (indent.clone(), indent.width());
    let mut is_first = true;
    for word in whole_parts(line) {
        if !is_first && width + 1 + word.width() > columns {
            wrapped += &format!("\n{indent}");
            width = indent.width();
        } else if !is_first {
            wrapped.push(' ');
            width += 1;
        }
        wrapped += &word;
        width += word.width();
        is_first = false;
    }
    wrapped
}

/// The words of a line, with those between backticks as one.
fn whole_parts(line: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut is_quoted = false;
    for word in line.split_whitespace() {
        match parts.last_mut() {
            Some(part) if is_quoted => {
                part.push(' ');
                part.push_str(word);
            }
            _ => parts.push(word.to_owned()),
        }
        is_quoted ^= word.matches('`').count() % 2 == 1;
    }
    match is_quoted {
        // It has a backtick without its other one.
        true => line.split_whitespace().map(str::to_owned).collect(),
        false => parts,
    }
}

/// Prints lines behind a prefix. On a terminal they are wrapped at its width and stand below each other; a file and
/// another program get them as they are.
pub(super) fn wrapped(prefix: &str, text: &str) {
    if !io::stdout().is_terminal() {
        return line(&format!("{prefix}{text}"));
    }
    let room = columns().saturating_sub(prefix.width()).max(COLUMNS_LEAST);
    let lines: Vec<String> = text.lines().map(|line| wrap(line, room)).collect();
    let indent = " ".repeat(prefix.width());
    line(&format!("{prefix}{}", lines.join("\n").replace('\n', &format!("\n{indent}"))));
}

/// The form of a command's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultForm {
    Words,
    Json,
}

impl ResultForm {
    /// As `--json` says.
    pub(super) fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Words }
    }
}

/// A result for a script.
pub(super) fn json(value: &Value) {
    line(&format!("{value:#}"));
}

/// Without an end of line, at once.
pub(super) fn piece(text: &str) {
    bytes(for_output(text).as_bytes());
}

/// Signs that command the terminal, which only the program itself writes.
pub(super) fn raw(signs: &str) {
    bytes(signs.as_bytes());
}

/// An error that ends the command. On a terminal it is wrapped at its width.
pub(super) fn failure_words(text: &str) {
    let columns = io::stderr().is_terminal().then(|| columns_of(io::stderr()));
    match columns {
        Some(columns) => {
            let lines: Vec<_> = text.lines().map(|line| wrap(line, columns)).collect();
            error(&lines.join("\n"));
        }
        None => error(text),
    }
}

/// Writes to the standard error, without what commands a terminal or hides in it: servers, archives and new programs are
/// quoted in errors. A script has a JSON object beside it, where such signs are escaped.
pub(super) fn error(text: &str) {
    writeln!(io::stderr(), "{}", strip_control(text)).ok();
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
    let Health { agent_loop, store, damaged } = status.health;
    let of_store = match damaged {
        true => replies::STORE_IS_DAMAGED,
        false => replies::STORE_DOES_NOT_WRITE,
    };
    let parts = [(agent_loop, replies::LOOP_IS_STUCK), (store, of_store)];
    let ill = parts.into_iter().filter(|(is_well, _)| !is_well).map(|(_, words)| words);
    let ill: Vec<_> = ill.collect();
    if !ill.is_empty() {
        text.insert_str(0, &(replies::unhealthy(&ill) + "\n"));
    }
    if let Some(safe_mode) = status.safe_mode {
        // The command line cannot know whether /restart works, and need not.
        text += &(replies::safe_mode(safe_mode, false) + "\n");
    }
    for (name, trouble) in &status.model_troubles {
        let since = trouble.since.format("%Y-%m-%d %H:%M UTC");
        let _ = writeln!(text, "model {name}: fails since {since}: {}", trouble.reason);
    }
    if let Some(awaiting) = &status.awaiting_model {
        let since = awaiting.since.format("%Y-%m-%d %H:%M UTC").to_string();
        text += &replies::turns_await_model(awaiting.turns, &since);
        text.push('\n');
    }
    if let Some(IndexCount { parts, done, total }) = status.indexing {
        text += &(replies::indexing(parts.name(), done, total) + "\n");
    }
    if let Some(count) = status.config_warnings.filter(|count| *count > 0) {
        text += &(replies::config_has_warnings(count) + "\n");
    }
    text += &disk_line(status);
    for (name, channel) in &status.channels {
        let _ = writeln!(text, "channel {name}: {}", channel_line(channel));
    }
    for (name, waiting) in &status.removed_channels {
        let _ = writeln!(text, "channel {name}: {}", replies::channel_is_removed(*waiting));
    }
    for (name, server) in &status.mcp {
        let link = match (&server.trouble, server.up) {
            (Some(trouble), _) => format!("down: {trouble}"),
            (None, true) => format!("up, {} tools", server.tools),
            (None, false) => "starting".to_owned(),
        };
        let _ = writeln!(text, "MCP server {name}: {link}");
    }
    text + &unescaped(&status.shell.describe()) + "\n" + &unescaped(&status.heartbeat)
}

/// Returns a line for an internal event. None for events that are shown anyway.
pub(super) fn event(what: &EventKind) -> Option<String> {
    /// Of a tool's input and output.
    const SHOWN_CHARS_MAX: usize = 200;
    let short =
        |text: &str| shortened(&strip_control(text).replace(['\n', '\t'], " "), SHOWN_CHARS_MAX);
    let words = match what {
        EventKind::Text { .. } | EventKind::Sources { .. } => return None,
        EventKind::TurnStart { attempt } => format!("turn begins, attempt {attempt}"),
        EventKind::StepStart { step } => format!("step {}", step + 1),
        EventKind::StepEnd { step, input, cached, output, .. } => {
            let step = step + 1;
            format!("step {step} is done: {input} tokens read ({cached} cached), {output} written")
        }
        EventKind::ThinkingStart => "thinking begins".to_owned(),
        EventKind::Thinking { text } => format!("| {}", short(text)),
        EventKind::ThinkingEnd => "thinking ends".to_owned(),
        EventKind::ToolStart { action, tool, arguments } => {
            format!("{tool} {} (action {action})", short(arguments))
        }
        EventKind::ToolEnd { action, tool, result, failed, ms } => {
            let how = if *failed { "failed" } else { "is done" };
            format!("{tool} {how} in {ms} ms (action {action}): {}", short(result))
        }
        EventKind::MemoryUpdated { path } => format!("memory updated: {path}"),
        EventKind::NoToolCall { reminder } => format!("no tool call, reminder {reminder}"),
        EventKind::Steered { messages } => format!("{messages} new messages join the turn"),
        EventKind::Compacted { turns } => format!("{turns} turns compacted into a summary"),
        EventKind::Error { text } => format!("error: {}", short(text)),
        EventKind::TurnEnd { silent: true } => "turn ends, silent".to_owned(),
        EventKind::TurnEnd { silent: false } => "turn ends".to_owned(),
        EventKind::Delivered { delivery, .. } => format!("message {} delivered", delivery.0),
        EventKind::DeliveryLate { delivery, reason } => {
            format!("message {} is late: {}", delivery.0, short(reason))
        }
        EventKind::DeliveryFailed { delivery, reason } => {
            format!("message {} was given up: {}", delivery.0, short(reason))
        }
        EventKind::Missed { events } => {
            format!("{events} events skipped, because they came too fast")
        }
    };
    // The names of tools and files are chosen by the model, too.
    Some(strip_control(&format!("· {words}")))
}

/// The size of the database, and what was written, by whom and how fast.
fn disk_line(status: &Status) -> String {
    let megabytes = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    let writers = |disk: &DiskUsage| {
        format!(
            "{} by the store, {} as files, {} by commands",
            megabytes(disk.written_by_store),
            megabytes(disk.written_as_files),
            megabytes(disk.written_by_programs)
        )
    };
    let disk = status.disk;
    let hours = u64::try_from((Utc::now() - status.since).num_hours()).unwrap_or_default();
    let daily = disk
        .daily(hours)
        .map(|daily| format!("; about {} a day: {}", megabytes(daily.written()), writers(&daily)));
    format!(
        "database: {}; written since the start: {}{}\n",
        megabytes(disk.database),
        writers(&disk),
        daily.unwrap_or_default(),
    )
}

fn channel_line(channel: &ChannelStatus) -> String {
    let heard = channel.last_byte_s.map(|seconds| format!("last heard {seconds} s ago"));
    let pending = match channel.pending {
        0 => None,
        1 => Some("1 outgoing message".to_owned()),
        n => Some(format!("{n} outgoing messages")),
    };
    let failing = failing_part(&channel.failing);
    let state = match (&channel.trouble, channel.up) {
        (Some(_), _) => "down".to_owned(),
        (None, true) => format!("up, {}", channel.about),
        (None, false) => "connecting".to_owned(),
    };
    let parts: Vec<_> = [Some(state), heard, pending, failing].into_iter().flatten().collect();
    // The reason comes last: it says what to do, in sentences of its own.
    let trouble = channel.trouble.iter().map(|trouble| format!(": {trouble}"));
    parts.join(", ") + &trouble.collect::<String>()
}

/// Returns the time since deliveries began to fail, and the reason.
fn failing_part(failing: &FailingDeliveries) -> Option<String> {
    let since = match (Utc::now() - failing.since?).num_seconds().max(0) {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    };
    let reason = failing.reason.as_deref().unwrap_or_default();
    Some(format!("{} failing for {since} ({reason})", failing.count))
}

/// Returns the text without what would command the terminal, reorder its lines or hide in them: models and strangers
/// wrote it.
pub(super) fn strip_control(text: &str) -> String {
    text.chars().filter(|sign| !is_control(*sign) && !reorders_or_hides(*sign)).collect()
}

/// Returns the text without signs that command a terminal. It may be a message, which keeps those that turn its direction.
pub(super) fn without_controls(text: &str) -> String {
    text.chars().filter(|sign| !is_control(*sign)).collect()
}

fn is_control(sign: char) -> bool {
    sign.is_control() && !matches!(sign, '\n' | '\t')
}

/// Returns the text for standard output. A file and another program, which may read JSON, get all but controls.
fn for_output(text: &str) -> String {
    match io::stdout().is_terminal() {
        true => strip_control(text),
        false => without_controls(text),
    }
}

/// The facts of a listing, one a line.
pub(super) fn facts(listed: &Value) -> String {
    let text = |fact: &Value, key: &str| fact[key].as_str().unwrap_or_default().to_owned();
    let all = listed.as_array().map(Vec::as_slice).unwrap_or_default();
    let lines = all.iter().map(|fact| {
        let rested = if fact["status"] == "active" { "" } else { ", not in prompts" };
        let (kind, words, made) = (text(fact, "kind"), text(fact, "text"), text(fact, "made"));
        format!("#{} {kind}: {words} ({made}{rested})", fact["number"])
    });
    match lines.collect::<Vec<_>>().join("\n") {
        none if none.is_empty() => {
            "I keep no facts about you. /remember TEXT keeps one.".to_owned()
        }
        lines => lines,
    }
}
