//! Requests about jobs in the form of the tool and the command line, and their parser.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::people::persons::PersonAccount;
use crate::people::{self, People, Role};
use crate::replies;
use crate::tasks::schedule::job::{JobDefinition, JobId, JobScope, Missed};
use crate::tasks::schedule::needs::CommandNeeds;
use crate::tasks::schedule::operation::{JobChange, JobOperation};
use crate::tasks::schedule::payload::{JobConversation, Payload};
use crate::tasks::schedule::preapproved_calls::PreapprovedCalls;
use crate::tasks::schedule::time_parser;
use crate::tasks::schedule::timing::Timing;
use crate::types::job_verb::JobVerb;
use crate::types::message::{Address, ChannelName, ChatKind, Sender};
use crate::types::source::Author;

/// Maximum length of a prompt, a message or a command, in characters.
const TEXT_CHARS_MAX: usize = 4_000;

/// Maximum number of words of a time that is searched in a person's text, and of words of a line that are searched.
const TIME_WORDS_MAX: usize = 8;
const TIME_LINE_WORDS_MAX: usize = 200;

// The use of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum JobRequestKind {
    // A model works on it, in a session of its own. Doc comments here would be part of each prompt.
    #[default]
    Prompt,
    // A model works on it, in this conversation.
    Here,
    // It is sent verbatim.
    Message,
    // A shell runs it, and its output is sent.
    Command,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    pub action: JobVerb,
    #[serde(default)]
    #[schemars(with = "i64")]
    pub id: Option<i64>,
    /// 20m, tomorrow 8:00, ISO time, every 2h, cron: 30 7 * * 1-5
    #[serde(default)]
    pub when: String,
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    #[schemars(with = "JobRequestKind")]
    pub kind: Option<JobRequestKind>,
    #[serde(default)]
    #[schemars(with = "Missed")]
    pub missed: Option<Missed>,
    /// Command to add context; {"wakeAgent":false} skips the run
    #[serde(default)]
    #[schemars(with = "String")]
    pub check: Option<String>,
    /// For the command, without files
    #[serde(default)]
    pub network: bool,
    /// For the command
    #[serde(default)]
    pub paths: Vec<String>,
    /// Tools, sites used unasked
    #[serde(default)]
    pub allow: String,
}

impl JobRequest {
    pub fn new(action: JobVerb) -> Self {
        Self {
            action,
            id: None,
            when: String::new(),
            text: String::new(),
            kind: None,
            missed: None,
            check: None,
            network: false,
            paths: Vec::new(),
            allow: String::new(),
        }
    }

    /// Returns true if it has a command, for which not everybody has the rights, or names the needs of one.
    pub fn has_command(&self) -> bool {
        self.kind == Some(JobRequestKind::Command)
            || self.check.as_ref().is_some_and(|check| !check.trim().is_empty())
            || self.names_needs()
    }

    /// Returns true if the command would have more access than the default.
    pub fn names_needs(&self) -> bool {
        self.network || !self.paths.is_empty()
    }

    /// Returns true if it creates a job that only sends a text to the address of the request.
    pub fn is_reminder(&self) -> bool {
        self.action == JobVerb::Add
            && self.kind == Some(JobRequestKind::Message)
            && !self.has_command()
    }

    /// Returns true if its runs would get more rights than the default.
    pub fn is_granting(&self) -> bool {
        self.names_needs() || !self.allow.trim().is_empty()
    }

    /// Parses the needs of its command.
    pub fn needs(&self) -> Result<CommandNeeds, String> {
        CommandNeeds::parse(self.network, &self.paths)
    }
}

/// The person who requests a job, and the address for its results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRequester {
    pub to: Address,
    pub known_on: ChannelName,
    pub chat_kind: ChatKind,
    pub sender: Sender,
    /// True if the turn that requests it has read untrusted content.
    pub tainted: bool,
}

impl JobRequester {
    /// Returns a requester for a request that creates no job, because it only reads or is only checked.
    pub fn placeholder() -> Self {
        Self {
            to: Address { channel: "".into(), chat: "".into(), thread: None },
            known_on: "".into(),
            chat_kind: ChatKind::Private,
            sender: Sender::person(people::LOCAL, people::LOCAL),
            tainted: false,
        }
    }

    /// Returns the person as the author of an answer to them.
    pub fn author(&self) -> Author {
        Author { channel: self.known_on.clone(), id: self.sender.id.clone() }
    }

    /// Returns the definition of a job for this person.
    pub(super) fn define(
        self,
        timing: Timing,
        payload: Payload,
        needs: CommandNeeds,
        missed: Missed,
    ) -> JobDefinition {
        let Self { to, known_on, chat_kind, sender, tainted } = self;
        JobDefinition { to, known_on, chat_kind, sender, timing, payload, needs, missed, tainted }
    }

    /// Returns the jobs that somebody with this role may see and change here: an owner in private all, others their own,
    /// and in a group those whose results go there.
    pub fn scope(
        &self,
        store: &Connection,
        people: &People,
        role: Role,
    ) -> rusqlite::Result<JobScope> {
        let (channel, sender) = (self.known_on.clone(), self.sender.id.clone());
        match (role, self.chat_kind) {
            (Role::Owner, ChatKind::Private) => {
                JobScope::of_owner(store, people, &PersonAccount { channel, sender })
            }
            (_, ChatKind::Private) => Ok(JobScope::Of(channel, sender)),
            (_, ChatKind::Group) => Ok(JobScope::OfAt(channel, sender, self.to.clone())),
        }
    }
}

impl JobRequest {
    /// Parses the request. The error is an explanation for people and models.
    pub fn read(
        self,
        asker: JobRequester,
        now: DateTime<Utc>,
        zone: Tz,
    ) -> Result<JobOperation, String> {
        let needs = self.needs()?;
        let unasked = PreapprovedCalls::parse(&self.allow)?;
        let Self { action, id, when, text, kind, missed, check, .. } = self;
        let id = || id.map(JobId).ok_or_else(|| replies::WHICH_JOB.to_owned());
        let when = when.trim();
        let timing = (!when.is_empty()).then(|| parse_when(when, now, zone)).transpose()?;
        let text = text.trim();
        let check = check.map(|check| check.trim().to_owned());
        let longest = check.iter().map(String::as_str).chain([text]);
        if longest.map(|text| text.chars().count()).max() > Some(TEXT_CHARS_MAX) {
            return Err(replies::job_text_too_long(TEXT_CHARS_MAX));
        }
        let text = (!text.is_empty()).then(|| text.to_owned());
        Ok(match action {
            JobVerb::Add => {
                let timing = timing.ok_or(replies::WHEN_JOB)?;
                let text = text.ok_or(replies::WHAT_JOB)?;
                let payload = payload(kind.unwrap_or_default(), text, check, unasked)?;
                if payload.command().is_none() && !needs.is_none() {
                    return Err(replies::NEEDS_WITHOUT_COMMAND.to_owned());
                }
                let missed = missed.unwrap_or_default();
                JobOperation::Add(Box::new(asker.define(timing, payload, needs, missed)))
            }
            JobVerb::List => JobOperation::List,
            JobVerb::Show => JobOperation::Show(id()?),
            JobVerb::Edit => {
                let tainted = asker.tainted;
                let change =
                    JobChange { timing, text, kind, missed, check, needs, unasked, tainted };
                JobOperation::Edit(id()?, change)
            }
            JobVerb::Pause => JobOperation::Pause(id()?),
            JobVerb::Resume => JobOperation::Resume(id()?),
            JobVerb::Remove => JobOperation::Remove(id()?),
            JobVerb::Run => JobOperation::Run(id()?),
            JobVerb::History => JobOperation::History(id()?),
        })
    }
}

/// Returns the payload of a job, or an explanation of conflicting fields. An empty check counts as none.
pub(super) fn payload(
    kind: JobRequestKind,
    text: String,
    check: Option<String>,
    unasked: PreapprovedCalls,
) -> Result<Payload, String> {
    let check = check.filter(|check| !check.is_empty());
    if text.contains('\0') || check.as_ref().is_some_and(|check| check.contains('\0')) {
        return Err(replies::NUL_IN_JOB.to_owned());
    }
    if kind != JobRequestKind::Prompt && !unasked.is_none() {
        return Err(replies::UNASKED_WITHOUT_PROMPT.to_owned());
    }
    match (kind, check) {
        (JobRequestKind::Message | JobRequestKind::Command, Some(_)) => {
            Err(replies::CHECK_WITHOUT_PROMPT.to_owned())
        }
        (JobRequestKind::Message, None) => Ok(Payload::Message(text)),
        (JobRequestKind::Command, None) => Ok(Payload::Command(text)),
        (JobRequestKind::Prompt, check) => {
            let session = JobConversation::Own;
            Ok(Payload::Prompt { text, session, check, webhook: None, unasked })
        }
        (JobRequestKind::Here, check) => {
            let session = JobConversation::Here;
            Ok(Payload::Prompt { text, session, check, webhook: None, unasked })
        }
    }
}

/// Returns true if `when` is a time that a person has named in these texts. A part of a named time does not count: in
/// "tomorrow 8:00", neither "tomorrow" nor "8:00" does.
pub fn is_named_time(texts: &[&str], when: &str, now: DateTime<Tz>) -> bool {
    let (now, zone) = (now.to_utc(), now.timezone());
    let Ok(wanted) = parse_when(when.trim(), now, zone) else { return false };
    texts.iter().flat_map(|text| text.lines()).any(|line| {
        let words: Vec<_> =
            line.split_whitespace().map(bare_word).take(TIME_LINE_WORDS_MAX).collect();
        let mut read_until = 0;
        (0..words.len()).any(|first| {
            let ends = (first + 1..=words.len().min(first + TIME_WORDS_MAX)).rev();
            let parse_until = |end: usize| {
                let timing = parse_when(&words[first..end].join(" "), now, zone).ok()?;
                Some((end, timing))
            };
            let Some((end, timing)) = ends.filter(|end| *end > read_until).find_map(parse_until)
            else {
                return false;
            };
            read_until = end;
            timing == wanted
        })
    })
}

/// Returns a word without the punctuation around it.
fn bare_word(word: &str) -> &str {
    let word = word.trim_start_matches(['(', '"', '\'', '„', '“']);
    word.trim_end_matches([',', '.', ';', ':', '!', '?', ')', '"', '\'', '“', '”'])
}

/// Parses all forms of a time, each of which may be followed by a time zone.
fn parse_when(text: &str, now: DateTime<Utc>, zone: Tz) -> Result<Timing, String> {
    let (text, zone) = match text.rsplit_once(' ') {
        Some((before, last)) if last.contains('/') || last.eq_ignore_ascii_case("utc") => {
            // A step in a cron line has a slash as well.
            match time_parser::zone(last) {
                Ok(zone) => (before.trim(), zone),
                Err(words) if last.starts_with(char::is_alphabetic) => return Err(words),
                Err(_) => (text, zone),
            }
        }
        _ => (text, zone),
    };
    let lower = text.to_lowercase();
    if lower.starts_with("every ") {
        return time_parser::every(text, now);
    }
    let line = match lower.strip_prefix("cron") {
        Some(_) => Some(text[4..].trim_start_matches([':', ' '])),
        None => looks_like_cron(text).then_some(text),
    };
    match line {
        Some(line) => time_parser::cron(line, now, zone),
        None => time_parser::at(text, now, zone),
    }
}

fn looks_like_cron(text: &str) -> bool {
    let fields: Vec<_> = text.split_whitespace().collect();
    let is_field = |field: &&str| {
        field.starts_with(|character: char| character.is_ascii_digit() || character == '*')
    };
    matches!(fields.len(), 5 | 6) && fields.iter().take(2).all(is_field) || text.starts_with('@')
}
