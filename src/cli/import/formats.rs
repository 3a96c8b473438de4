//! The formats of other bots' conversations and jobs. Pure.
//!
//! PicoClaw keeps a conversation as JSON with `messages`, or as lines of JSON beside a `.meta.json` (pkg/session, pkg/memory);
//! nanobot as lines of JSON after a line of metadata (nanobot/session/manager.py). Both keep jobs in `cron/jobs.json`.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::Value;

use crate::channels::markup::unescaped;
use crate::short_text::{is_invisible, one_line};
use crate::tasks::schedule::{EVERY_MIN, JobRequest, JobRequestKind, JobRequester};
use crate::types::job_verb::JobVerb;

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
        Err(error) => format!("(a job that cannot be read: {})", shown(&error.to_string())),
    });
    Some(lines.map(|line| ImportedJob { line }).collect())
}

/// The line that makes a job, or in brackets the reason why there is none. Only lines that `cron add` takes are proposed.
fn line(job: &OtherJob, now: DateTime<Utc>) -> String {
    let (text, kind) = match job.payload.command.as_str() {
        "" => (&job.payload.message, JobRequestKind::Prompt),
        _ => (&job.payload.command, JobRequestKind::Command),
    };
    let read = when(&job.schedule, now).and_then(|when| {
        let request = JobRequest {
            when: when.words.clone(),
            text: text.clone(),
            kind: Some(kind),
            ..JobRequest::new(JobVerb::Add)
        };
        let refused = |why: String| shown(&unescaped(&why));
        request.read(JobRequester::placeholder(), now, Tz::UTC).map(|_| when).map_err(refused)
    });
    let when = match read {
        Ok(when) => when,
        Err(why) => return format!("({}: {why})", quoted(&one_line(&job.name))),
    };
    let how = if kind == JobRequestKind::Command { "--command " } else { "" };
    let off = (!job.enabled).then(|| "it was switched off".to_owned());
    let notes: Vec<_> = off.into_iter().chain(when.note).collect();
    let notes = if notes.is_empty() { String::new() } else { format!("   # {}", notes.join("; ")) };
    format!("peacrab cron add {} {how}-- {}{notes}", when.options, quoted(text))
}

/// A schedule of another bot.
struct ReadSchedule {
    /// For the shell.
    options: String,
    /// For the parser of requests.
    words: String,
    /// The difference, if there is one.
    note: Option<String>,
}

/// Returns a schedule, or the reason why there is none.
fn when(schedule: &OtherSchedule, now: DateTime<Utc>) -> Result<ReadSchedule, String> {
    match (schedule.kind.as_str(), schedule) {
        ("at", OtherSchedule { at_ms: Some(at), .. }) => {
            let at = DateTime::from_timestamp_millis(*at).ok_or("its time cannot be read")?;
            if at <= now {
                return Err("its time has passed".to_owned());
            }
            let at = at.format("%Y-%m-%d %H:%M").to_string();
            let options = format!("--at {} --tz UTC", quoted(&at));
            Ok(ReadSchedule { options, words: format!("{at} UTC"), note: None })
        }
        ("every", OtherSchedule { every_ms: Some(pause), .. }) if *pause > 0 => Ok(every(*pause)),
        ("cron", OtherSchedule { expr: Some(expression), tz, .. }) if !expression.is_empty() => {
            let zone = tz.as_deref().filter(|zone| !zone.is_empty());
            let mut options = format!("--cron {}", quoted(expression));
            let mut words = format!("cron {expression}");
            if let Some(zone) = zone {
                let _ = write!(options, " --tz {}", quoted(zone));
                let _ = write!(words, " {zone}");
            }
            Ok(ReadSchedule { options, words, note: None })
        }
        _ => Err("its schedule cannot be read".to_owned()),
    }
}

/// A pause in milliseconds: in whole minutes if it can be, and not shorter than jobs may be.
fn every(pause: i64) -> ReadSchedule {
    let shortest = EVERY_MIN.num_milliseconds();
    let (every, note) = match pause {
        pause if pause < shortest => {
            let note = format!("it ran every {pause} ms, and jobs run at most once a minute");
            (format!("{}m", shortest / 60_000), Some(note))
        }
        pause if pause % 60_000 == 0 => (format!("{}m", pause / 60_000), None),
        pause => (format!("{}s", pause / 1_000), None),
    };
    ReadSchedule { options: format!("--every {every}"), words: format!("every {every}"), note }
}

/// A text on one line, in which nothing is hidden or reordered.
fn shown(text: &str) -> String {
    one_line(text).replace(is_invisible, "_")
}

/// A word for the shell, on one line, in which nothing is hidden or reordered.
fn quoted(text: &str) -> String {
    if !text.chars().any(|sign| sign.is_control() || is_invisible(sign)) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    // Bash, zsh and busybox know this form.
    let mut word = "$'".to_owned();
    for sign in text.chars() {
        let _ = match sign {
            '\n' => write!(word, "\\n"),
            '\t' => write!(word, "\\t"),
            '\\' | '\'' => write!(word, "\\{sign}"),
            sign if sign.is_control() || is_invisible(sign) => {
                let mut buffer = [0; 4];
                let mut bytes = sign.encode_utf8(&mut buffer).bytes();
                bytes.try_for_each(|byte| write!(word, "\\{byte:03o}"))
            }
            sign => write!(word, "{sign}"),
        };
    }
    word + "'"
}
