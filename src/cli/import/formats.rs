//! The formats of other bots' conversations and jobs. Pure.
//!
//! PicoClaw keeps a conversation as JSON with `messages`, or as lines of JSON beside a `.meta.json` (pkg/session, pkg/memory);
//! nanobot as lines of JSON after a line of metadata (nanobot/session/manager.py). Both keep jobs in `cron/jobs.json`.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess};
use serde_json::Value;

use super::sparse::{Kept, Sparse};
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

impl ImportedJob {
    /// Returns the job with a line for the command by which people start this program. A reason in brackets stays.
    pub(super) fn started_by(self, program: &str) -> Self {
        match self.line.strip_prefix("peacrab ") {
            Some(rest) => Self { line: format!("{program} {rest}") },
            None => self,
        }
    }
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

/// The texts of a value: of a string, of the parts in a list, or of the fields that a message or a conversation has.
#[derive(Default)]
struct Texts {
    string: Option<String>,
    /// The texts of the parts, a line each.
    parts: Option<String>,
    text: Option<String>,
    role: Option<String>,
    content: Option<String>,
    timestamp: Option<String>,
    summary: Option<String>,
}

impl Sparse for Texts {
    fn of_string(text: &str) -> Self {
        Self { string: Some(text.to_owned()), ..Self::default() }
    }

    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut parts: Option<String> = None;
        while let Some(Kept(part)) = list.next_element::<Kept<Self>>()? {
            let Some(text) = part.text else { continue };
            match &mut parts {
                Some(parts) => {
                    parts.push('\n');
                    parts.push_str(&text);
                }
                None => parts = Some(text),
            }
        }
        Ok(Self { parts, ..Self::default() })
    }

    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut texts = Self::default();
        while let Some(key) = object.next_key::<String>()? {
            let field = match key.as_str() {
                "text" => &mut texts.text,
                "role" => &mut texts.role,
                "timestamp" => &mut texts.timestamp,
                "summary" => &mut texts.summary,
                "content" => {
                    let Kept(content) = object.next_value::<Kept<Self>>()?;
                    texts.content = content.string.or(content.parts);
                    continue;
                }
                _ => {
                    object.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = object.next_value::<Kept<Self>>()?.0.string;
        }
        Ok(texts)
    }
}

/// The messages of people and the bot, as a text.
#[derive(Default)]
struct Messages {
    text: String,
    count: usize,
}

impl Messages {
    fn push(&mut self, message: &Texts) {
        let Some(role @ ("user" | "assistant")) = message.role.as_deref() else { return };
        let said = message.content.as_deref().unwrap_or_default();
        if said.trim().is_empty() {
            return;
        }
        self.count += 1;
        let at = message.timestamp.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
        let _ = write!(self.text, "{role}{at}: {said}\n\n");
    }
}

/// A list of messages. None if a value is none.
#[derive(Default)]
struct MessageList(Option<Messages>);

impl Sparse for MessageList {
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut messages = Messages::default();
        while let Some(Kept(message)) = list.next_element::<Kept<Texts>>()? {
            messages.push(&message);
        }
        Ok(Self(Some(messages)))
    }
}

/// A conversation as one object.
#[derive(Default)]
struct WholeSession {
    messages: Option<Messages>,
    summary: Option<String>,
}

impl Sparse for WholeSession {
    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut session = Self::default();
        while let Some(key) = object.next_key::<String>()? {
            match key.as_str() {
                "messages" => session.messages = object.next_value::<Kept<MessageList>>()?.0.0,
                "summary" => session.summary = object.next_value::<Kept<Texts>>()?.0.string,
                _ => {
                    object.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(session)
    }
}

/// Reads a conversation: a JSON object with messages, or a message a line. None if it is neither. `meta` may hold a
/// summary. Only the texts are kept in memory.
pub fn read_session(text: &str, meta: Option<&str>) -> Option<OtherSession> {
    let whole = serde_json::from_str::<Kept<WholeSession>>(text).map(|whole| whole.0);
    let (head, messages, skipped) = match whole.unwrap_or_default() {
        WholeSession { messages: Some(messages), summary } => (summary, messages, 0),
        WholeSession { messages: None, .. } => {
            let (messages, skipped) = read_lines(text)?;
            (None, messages, skipped)
        }
    };
    let meta = meta.and_then(|meta| serde_json::from_str::<Kept<Texts>>(meta).ok());
    let mut summaries = head.into_iter().chain(meta.and_then(|meta| meta.0.summary));
    let mut session = OtherSession { text: messages.text, messages: messages.count, skipped };
    if let Some(summary) = summaries.find(|it| !it.is_empty()) {
        session.text.insert_str(0, &format!("Summary: {summary}\n\n"));
    }
    Some(session)
}

/// Reads a message a line. Also returns the number of unreadable lines. None if none can be read.
fn read_lines(text: &str) -> Option<(Messages, usize)> {
    let (mut messages, mut read, mut skipped) = (Messages::default(), 0, 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match serde_json::from_str::<Kept<Texts>>(line) {
            Ok(Kept(message)) => {
                read += 1;
                messages.push(&message);
            }
            Err(_) => skipped += 1,
        }
    }
    (read > 0).then_some((messages, skipped))
}

/// Reads a file of jobs. None if it is none.
pub fn read_jobs(text: &str, now: DateTime<Utc>) -> Option<Vec<ImportedJob>> {
    let file: JobFile = serde_json::from_str(text).ok()?;
    let lines = file.jobs.into_iter().map(|job| match read_job(job) {
        Ok(job) => line(&job, now),
        Err(why) => format!("(a job that cannot be read: {why})"),
    });
    Some(lines.map(|line| ImportedJob { line }).collect())
}

/// Reads a job. The error names the part that is not as these bots write it.
fn read_job(job: Value) -> Result<OtherJob, String> {
    let part = |key: &str| job.get(key).cloned().unwrap_or_default();
    let is_schedule = serde_json::from_value::<OtherSchedule>(part("schedule")).is_ok();
    let is_payload = serde_json::from_value::<OtherPayload>(part("payload")).is_ok();
    let why = match (job.is_object(), is_schedule, is_payload) {
        (false, ..) => "it is no object of JSON",
        (_, false, _) => "its `schedule` is missing or of an unknown form",
        (_, _, false) => "its `payload` is missing or of an unknown form",
        (true, true, true) => "its `name` or `enabled` is of an unknown form",
    };
    serde_json::from_value(job).map_err(|_| why.to_owned())
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
