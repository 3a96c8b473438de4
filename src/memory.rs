//! The bot's memory: MEMORY.md and recent notes in the form for a prompt, their changes, facts, and the search index.
//! The tools `remember` and `note` write to it. Not here: the times at which it is read into a prompt or facts are
//! extracted (`turn`).

pub mod attachments;
pub mod blanking;
pub mod extraction;
pub mod facts;
pub mod facts_file;
pub mod forgotten;
pub mod recall;

use std::collections::HashMap;

use chrono::{Days, NaiveDate};
use tracing::warn;

use crate::people::Role;
use crate::provider::tokens;
use crate::short_text::shortened;
use crate::types::message::{Address, ChatKind};
use crate::types::person::FolderOwner;
use crate::workspace::folders::{PEOPLE, WORKSPACE};
use crate::workspace::snapshot::{FILE_CHARS_MAX, cut_middle};
use crate::workspace::{Audience, FileError, FileScope, OpenedFile, Workspace, WorkspacePath};

/// Settings of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// True if passages related to a message are added to the prompt.
    pub recall: bool,
    /// Maximum number of facts of one person in a prompt.
    pub facts_max: usize,
    /// True if facts are extracted from conversations.
    pub extract: bool,
    /// The config section of the provider that extracts facts, which exists. None means the conversation's.
    pub provider: Option<String>,
    /// Maximum number of tokens for that in a day, read and written.
    pub tokens_per_day: u64,
}

/// Maximum length of all notes in a prompt, in characters: about 1,500 tokens.
pub const NOTES_CHARS_MAX: usize = 6_000;

/// Maximum length of the reported changes in a message, in characters.
pub const CHANGES_CHARS_MAX: usize = 1_500;

/// Maximum length of a changed line, in characters.
const LINE_CHARS_MAX: usize = 300;

/// Length of the mark in a cut text, in characters.
const MARK_CHARS: usize = 80;

/// Space reserved for "and N more", in characters.
const MORE_CHARS: usize = 40;

/// Returns the audience of a text for `role` in this kind of chat. The memory is for the owner in private only.
pub fn audience(role: Role, chat_kind: ChatKind) -> Audience {
    match (role, chat_kind) {
        (Role::Owner, ChatKind::Private) => Audience::Owner,
        (
            Role::Guest | Role::User | Role::Admin | Role::Owner,
            ChatKind::Private | ChatKind::Group,
        ) => Audience::Others,
    }
}

/// Returns the files that a turn can access for `role`, the kind of chat, the address, and the owner of a folder.
pub fn file_scope(role: Role, chat_kind: ChatKind, at: &Address, owner: &FolderOwner) -> FileScope {
    match (audience(role, chat_kind), chat_kind) {
        (Audience::Owner, _) => FileScope::Owner,
        (Audience::Others, ChatKind::Private) => FileScope::of_person(owner),
        (Audience::Others, ChatKind::Group) => FileScope::of_group(&at.channel, &at.chat),
    }
}

/// Returns the path of the memory in a scope: `memory/MEMORY.md`, or the root's MEMORY.md if only that exists.
pub fn memory_path(workspace: &Workspace, scope: &FileScope) -> WorkspacePath {
    let (default, root) = (path("memory/MEMORY.md"), path("MEMORY.md"));
    let exists = |path| workspace.open_for(&scope.path(path), scope).is_ok();
    if !exists(&default) && exists(&root) { root } else { default }
}

/// Returns the path of the notes of `day`: `memory/YYYYMM/YYYYMMDD.md`.
pub fn notes_path(day: NaiveDate) -> WorkspacePath {
    path(&format!("memory/{}.md", day.format("%Y%m/%Y%m%d")))
}

/// Returns the folder of the memory to whose notes a file belongs. None for files that are no notes of a day.
pub fn notes_folder(path: &WorkspacePath) -> Option<&str> {
    let (month_folder, name) = path.as_str().rsplit_once('/')?;
    let (folder, month) = month_folder.rsplit_once('/')?;
    let day = NaiveDate::parse_from_str(name.strip_suffix(".md")?, "%Y%m%d").ok()?;
    (is_memory(path) && day.format("%Y%m").to_string() == month).then_some(folder)
}

/// Returns true if a file belongs to the memory: MEMORY.md or the notes.
pub fn is_memory(path: &WorkspacePath) -> bool {
    let names: Vec<_> = path.as_str().split('/').take(4).collect();
    let first = match names.as_slice() {
        [PEOPLE, _, WORKSPACE, first] => first,
        [first, ..] => first,
        [] => "",
    };
    ["memory", "MEMORY.md"].iter().any(|name| first.eq_ignore_ascii_case(name))
}

/// Returns the memory in a scope, cut in the middle if it is too long. Empty if there is none. For the person of
/// the scope only.
pub fn memory(workspace: &Workspace, scope: &FileScope) -> String {
    let path = memory_path(workspace, scope);
    cut_middle(&text(workspace, &path, scope), FILE_CHARS_MAX, path.as_str())
}

/// Returns the USER.md that a person other than the owner has written in their own workspace.
pub fn user_text(workspace: &Workspace, scope: &FileScope) -> String {
    let path = path("USER.md");
    cut_middle(&text(workspace, &path, scope), FILE_CHARS_MAX, path.as_str())
}

/// Returns `text` in at most `tokens_max` tokens. In a longer text, a mark with `name` replaces the middle.
pub fn fit(text: &str, tokens_max: u64, name: &str) -> String {
    shorter(text, tokens_max, |chars| cut_middle(text, chars, name))
}

/// Returns the end of `text` in at most `tokens_max` tokens.
pub fn fit_end(text: &str, tokens_max: u64, name: &str) -> String {
    shorter(text, tokens_max, |chars| keep_end(text, chars, name))
}

/// Returns `text`, or the longest result of `cut` that has at most `tokens_max` tokens.
fn shorter(text: &str, tokens_max: u64, cut: impl Fn(usize) -> String) -> String {
    let text_tokens = tokens(text);
    if text_tokens <= tokens_max {
        return text.to_owned();
    }
    let share = text.chars().count() as u64 * tokens_max / text_tokens;
    let mut chars = usize::try_from(share).unwrap_or_default().saturating_sub(MARK_CHARS);
    while chars > 0 {
        let shorter = cut(chars);
        if tokens(&shorter) <= tokens_max {
            return shorter;
        }
        // Some parts of a text have more tokens than others.
        chars = chars * 9 / 10;
    }
    String::new()
}

/// Returns the notes of the last `days` days up to `today`, oldest first. If they are too long, the
/// latest. For the person of the scope only.
pub fn recent_notes(
    workspace: &Workspace,
    scope: &FileScope,
    today: NaiveDate,
    days: u64,
) -> String {
    let mut notes = Vec::new();
    let mut remaining_chars = NOTES_CHARS_MAX;
    for ago in 0..days {
        let Some(day) = today.checked_sub_days(Days::new(ago)) else { break };
        let path = notes_path(day);
        let day = text(workspace, &path, scope);
        if !day.is_empty() && remaining_chars > 0 {
            let day = keep_end(&day, remaining_chars, path.as_str());
            remaining_chars = remaining_chars.saturating_sub(day.chars().count());
            notes.push(day);
        }
    }
    notes.reverse();
    notes.join("\n\n")
}

/// Describes the changes from `before` to `now` for the model, as removed and added lines: at most
/// [`CHANGES_CHARS_MAX`] characters. Blank lines change nothing that is followed, and are left out. None if and only if
/// both are equal.
pub fn changes(before: &str, now: &str) -> Option<String> {
    if before == now {
        return None;
    }
    let removed = surplus(before, now).into_iter().map(|line| ("- removed: ", line));
    let added = surplus(now, before).into_iter().map(|line| ("- added: ", line));
    let lines: Vec<String> =
        removed.chain(added).map(|(what, line)| changed_line(what, line)).collect();
    if lines.is_empty() {
        return Some("- Only the order or spacing of its lines changed.".to_owned());
    }
    let mut description = String::new();
    let mut length = 0;
    for (index, line) in lines.iter().enumerate() {
        length += line.chars().count() + 1;
        if length > CHANGES_CHARS_MAX - MORE_CHARS {
            description.push_str(&format!("- and {} more changes.\n", lines.len() - index));
            break;
        }
        description.push_str(line);
        description.push('\n');
    }
    Some(description.trim_end().to_owned())
}

/// Returns the lines of `text` that `other` lacks or has less often, in order, without blank ones.
fn surplus<'a>(text: &'a str, other: &str) -> Vec<&'a str> {
    let mut counts = HashMap::new();
    for line in other.lines() {
        *counts.entry(line.trim()).or_insert(0_usize) += 1;
    }
    let is_new = |line: &&str| match counts.get_mut(*line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => !line.is_empty(),
    };
    text.lines().map(str::trim).filter(is_new).collect()
}

fn changed_line(what: &str, line: &str) -> String {
    let line = line.strip_prefix("- ").unwrap_or(line);
    format!("{what}{}", shortened(line, LINE_CHARS_MAX))
}

/// Returns the last `max` characters of `text`, from a line's start if possible.
fn keep_end(text: &str, max: usize, name: &str) -> String {
    let length = text.chars().count();
    if length <= max {
        return text.to_owned();
    }
    let start = text.char_indices().nth(length - max).map_or(text.len(), |(at, _)| at);
    let end = &text[start..];
    let end = end.split_once('\n').map_or(end, |(_, rest)| rest);
    format!("[The beginning of {name} is left out.]\n{end}")
}

fn text(workspace: &Workspace, path: &WorkspacePath, scope: &FileScope) -> String {
    let opened = workspace.open_for(&scope.path(path), scope);
    // A group's files are untrusted, and shown as such.
    let is_group = matches!(scope, FileScope::Group { .. });
    let checked = opened.and_then(|file| match is_group {
        true => Ok(file),
        false => file.check_trusted().map(|()| file),
    });
    match checked.and_then(OpenedFile::read_text) {
        Ok(text) => text.trim().to_owned(),
        Err(FileError::Missing(_)) => String::new(),
        Err(error) => {
            warn!(%error, "Skipped memories that cannot be read");
            String::new()
        }
    }
}

fn path(text: &str) -> WorkspacePath {
    text.parse().expect("our own names are paths")
}
