//! The formats of other bots' conversations and jobs. Pure.
//!
//! PicoClaw keeps a conversation as JSON with `messages`, or as lines of JSON beside a `.meta.json` (pkg/session, pkg/memory);
//! nanobot as lines of JSON after a line of metadata (nanobot/session/manager.py). Both keep jobs in `cron/jobs.json`.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

/// A conversation as a text.
#[derive(Debug, PartialEq, Eq)]
pub struct OtherSession {
    pub text: String,
    /// The messages of people and the bot.
    pub messages: usize,
    /// Lines that could not be read.
    pub skipped: usize,
}

/// A job as a line for the shell.
#[derive(Debug, PartialEq, Eq)]
pub struct ImportedJob {
    pub line: String,
}

#[derive(Deserialize)]
struct JobFile {
    jobs: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OtherJob {
    #[serde(default)]
    name: String,
    #[serde(default = "yes")]
    enabled: bool,
    schedule: OtherSchedule,
    payload: OtherPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OtherSchedule {
    kind: String,
    at_ms: Option<i64>,
    every_ms: Option<i64>,
    expr: Option<String>,
    tz: Option<String>,
}

#[derive(Deserialize)]
struct OtherPayload {
    #[serde(default)]
    message: String,
    #[serde(default)]
    command: String,
}

fn yes() -> bool {
    true
}

/// Reads a conversation: a JSON object with messages, or a message a line. None if it is neither. `meta` may hold a
/// summary.
pub fn read_session(text: &str, meta: Option<&str>) -> Option<OtherSession> {
    let whole: Option<Value> = serde_json::from_str(text).ok();
    let (head, messages, skipped) = match whole {
        Some(mut value) if value["messages"].is_array() => {
            let messages = value["messages"].take();
            (value, messages.as_array().cloned().unwrap_or_default(), 0)
        }
        _ => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let read: Vec<Option<Value>> =
                lines.map(|line| serde_json::from_str(line).ok()).collect();
            let skipped = read.iter().filter(|line| line.is_none()).count();
            let messages: Vec<_> = read.into_iter().flatten().collect();
            if messages.is_empty() {
                return None;
            }
            (Value::Null, messages, skipped)
        }
    };
    let meta = meta.and_then(|meta| serde_json::from_str::<Value>(meta).ok());
    let summary = [Some(&head), meta.as_ref()].into_iter().flatten();
    let summary = summary.filter_map(|it| it["summary"].as_str()).find(|it| !it.is_empty());
    let mut session = OtherSession { text: String::new(), messages: 0, skipped };
    if let Some(summary) = summary {
        let _ = write!(session.text, "Summary: {summary}\n\n");
    }
    for message in &messages {
        let Some(role @ ("user" | "assistant")) = message["role"].as_str() else { continue };
        let said = content(&message["content"]);
        if said.trim().is_empty() {
            continue;
        }
        session.messages += 1;
        let at = message["timestamp"].as_str().map(|at| format!(" ({at})")).unwrap_or_default();
        let _ = write!(session.text, "{role}{at}: {said}\n\n");
    }
    Some(session)
}

/// The text of a message, which may be in parts.
fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Reads a file of jobs. None if it is none.
pub fn read_jobs(text: &str, now: DateTime<Utc>) -> Option<Vec<ImportedJob>> {
    let file: JobFile = serde_json::from_str(text).ok()?;
    let lines = file.jobs.into_iter().map(|job| match serde_json::from_value::<OtherJob>(job) {
        Ok(job) => line(&job, now),
        Err(error) => format!("(a job that cannot be read: {error})"),
    });
    Some(lines.map(|line| ImportedJob { line }).collect())
}

fn line(job: &OtherJob, now: DateTime<Utc>) -> String {
    let (words, how) = match job.payload.command.as_str() {
        "" => (job.payload.message.as_str(), ""),
        command => (command, "--command "),
    };
    let when = match when(&job.schedule, now) {
        Ok(when) => when,
        Err(why) => return format!("({}: {why})", quoted(&job.name)),
    };
    let off = if job.enabled { "" } else { "   # it was switched off" };
    format!("peacrab cron add {when} {how}-- {}{off}", quoted(words))
}

/// The options for a schedule, or the reason why there are none.
fn when(schedule: &OtherSchedule, now: DateTime<Utc>) -> Result<String, String> {
    let zone = schedule.tz.as_deref().filter(|zone| !zone.is_empty());
    let zone = zone.map(|zone| format!(" --tz {}", quoted(zone))).unwrap_or_default();
    match (schedule.kind.as_str(), schedule) {
        ("at", OtherSchedule { at_ms: Some(at), .. }) => {
            let at = DateTime::from_timestamp_millis(*at).ok_or("its time cannot be read")?;
            if at <= now {
                return Err("its time has passed".to_owned());
            }
            Ok(format!("--at {} --tz UTC", quoted(&at.format("%Y-%m-%d %H:%M").to_string())))
        }
        ("every", OtherSchedule { every_ms: Some(pause), .. }) if *pause > 0 => {
            // In whole minutes, at least one.
            let minutes = (pause / 60_000).max(1);
            Ok(format!("--every {minutes}m"))
        }
        ("cron", OtherSchedule { expr: Some(expression), .. }) if !expression.is_empty() => {
            Ok(format!("--cron {}{zone}", quoted(expression)))
        }
        _ => Err("its schedule cannot be read".to_owned()),
    }
}

/// A word for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
