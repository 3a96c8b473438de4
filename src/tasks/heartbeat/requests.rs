//! The requests of HEARTBEAT.md, the prompt made from them, and the alert in the model's answer.

use crate::tasks::heartbeat::context::HeartbeatContext;
use crate::types::origin::TaskKind;
use crate::types::source::{Source, SourcedText};
use crate::workspace::snapshot::{FILE_CHARS_MAX, cut_middle};
use crate::workspace::{FileError, Workspace, WorkspacePath};

/// The name of the file with the requests.
pub const FILE: &str = "HEARTBEAT.md";

/// First or last words of an answer that reports nothing (a convention of the field).
const NOTHING: [&str; 2] = ["HEARTBEAT_OK", "NO_REPLY"];

/// Maximum length of text around such a word that is dropped, in characters (a convention of the field).
const BESIDE_CHARS_MAX: usize = 300;

/// Name of a section that, if it exists, has all requests of the file (a convention of the field).
const ACTIVE: &str = "active tasks";

/// Reads the requests of the workspace's file. None if there are none.
pub(super) fn read(workspace: &Workspace) -> Result<Option<String>, FileError> {
    let path = FILE.parse::<WorkspacePath>().expect("it is a path");
    let text = workspace.instruction(&path)?.unwrap_or_default();
    Ok(active_requests(&text).map(|text| cut_middle(&text, FILE_CHARS_MAX, FILE)))
}

/// Returns a file's requests without comments. None if it has only headings, comments, and boxes that are empty or
/// ticked.
pub fn active_requests(text: &str) -> Option<String> {
    let text = without_comments(text.trim_start_matches('\u{feff}'));
    let text = active_section(&text).unwrap_or(text);
    text.lines().any(is_request).then(|| text.trim().to_owned())
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("<!--");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(part.split_once("-->").map_or("", |(_, rest)| rest));
    }
    kept
}

/// Returns the level and the text of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let words = line.trim_start().trim_start_matches('#');
    let level = line.trim_start().len() - words.len();
    let is_heading = level > 0 && (words.is_empty() || words.starts_with([' ', '\t']));
    is_heading.then(|| (level, words.trim()))
}

/// Returns the section with all requests, if the file has one.
fn active_section(text: &str) -> Option<String> {
    let mut lines = text.lines();
    lines.find(|line| {
        heading(line).is_some_and(|(level, words)| level == 2 && words.eq_ignore_ascii_case(ACTIVE))
    })?;
    let ends_section = |line: &&str| heading(line).is_some_and(|(level, _)| level <= 2);
    Some(lines.take_while(|line| !ends_section(line)).collect::<Vec<_>>().join("\n"))
}

/// Returns true if a line is a request.
fn is_request(line: &str) -> bool {
    let line = line.trim();
    if heading(line).is_some() || line.chars().all(|character| "-*_= ".contains(character)) {
        return false;
    }
    let item = line.trim_start_matches(|character: char| character.is_ascii_digit());
    let item = item.trim_start_matches(['-', '*', '+', '.', ')']).trim_start();
    let is_ticked = ["[x]", "[X]"].iter().any(|tick| item.starts_with(tick));
    let request = item.strip_prefix("[ ]").or_else(|| item.strip_prefix("[]")).unwrap_or(item);
    !is_ticked && !request.trim().is_empty()
}

/// The heading of the notes below the file's requests.
const NOTES: &str = "\n\nToday's notes:\n";
const PLAN: &str = "\n\nThe plan of your conversation with them:\n";
const RAN: &str = "\n\nJobs that ran since the last heartbeat:\n- ";
const TOLD: &str = "\n\nWhat you have told them lately:\n- ";

/// Returns the assignment of a heartbeat run.
pub(super) fn task(watched: &str, notes: &str, surroundings: &HeartbeatContext) -> SourcedText {
    let mut text = SourcedText::of(Source::Program, format!("{FILE}:\n"));
    text.push(Source::File { path: FILE.to_owned() }, watched);
    let HeartbeatContext { by, plan, ran, told, tainted } = surroundings;
    let planned_by = plan.as_ref().and_then(|plan| plan.by.clone());
    let plan = plan.as_ref().map(ToString::to_string).unwrap_or_default();
    let (ran, told) = (ran.join("\n- "), told.join("\n- "));
    let read_others = *tainted;
    let task = |kind, read_others| {
        let by = Some(by.clone());
        Source::Task { kind, number: None, by, read_others }
    };
    let parts = [
        (NOTES, notes, Source::Memory),
        (PLAN, &plan, Source::Plan { by: planned_by, read_others }),
        (RAN, &ran, task(TaskKind::Job, false)),
        (TOLD, &told, task(TaskKind::Heartbeat, read_others)),
    ];
    for (heading, body, source) in parts.into_iter().filter(|(_, body, _)| !body.is_empty()) {
        text.push_program(heading);
        text.push(source, body);
    }
    text
}

/// Returns the alert in a model's answer. None if there is nothing to report.
pub fn alert(answer: &str) -> Option<&str> {
    let is_decoration = |sign: char| sign.is_whitespace() || "*_`\"'.:,;!–—-".contains(sign);
    let continues_word = |sign: char| sign.is_alphanumeric() || sign == '_';
    let answer = answer.trim();
    let remainder = NOTHING.iter().find_map(|mark| {
        let after = answer.trim_start_matches(is_decoration).strip_prefix(mark);
        let after = after.filter(|rest| !rest.starts_with(continues_word));
        let before = answer.trim_end_matches(is_decoration).strip_suffix(mark);
        let before = before.filter(|rest| !rest.ends_with(continues_word));
        let after = after.map(|rest| rest.trim_start_matches(is_decoration));
        after.or_else(|| before.map(|rest| rest.trim_end_matches(is_decoration)))
    });
    match remainder {
        None => Some(answer).filter(|answer| !answer.is_empty()),
        Some(remainder) => Some(remainder).filter(|it| it.chars().count() > BESIDE_CHARS_MAX),
    }
}
