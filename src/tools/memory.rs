//! The memory tools: `remember` for lasting facts, `note` for events. Each person has a memory of their own, in
//! private chats only: text that others put there would appear in the person's sessions as true.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CallPlace, Reach, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::memory::{memory_path, notes_path};
use crate::short_text;
use crate::types::message::Address;
use crate::workspace::snapshot::FILE_CHARS_MAX;
use crate::workspace::{
    FileChange, FileError, FileScope, Hash, OpenedFile, Workspace, WorkspacePath,
};

/// Maximum length of one memory, in characters: a sentence or two. Longer text belongs in a file.
const TEXT_CHARS_MAX: usize = 500;

/// The names of these tools.
pub const REMEMBER: &str = "remember";
pub const NOTE: &str = "note";

pub struct Remember;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RememberArgs {
    /// One sentence, clear by itself.
    text: String,
}

#[async_trait]
impl Tool for Remember {
    type Args = RememberArgs;
    const SPEC: ToolSpec = ToolSpec::writes(
        REMEMBER,
        "Keep a lasting fact or wish in MEMORY.md, which you always see.",
    );

    fn reach(_: &RememberArgs, _: &Address) -> Reach {
        Reach::Memory
    }

    fn kept_text(args: &RememberArgs) -> Option<&str> {
        Some(&args.text)
    }

    fn check_args(&self, args: &RememberArgs, place: &CallPlace<'_>) -> Result<(), String> {
        one_line(&args.text)?;
        private_scope(place).map(drop)
    }

    async fn call(&self, args: RememberArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let text = one_line(&args.text).map_err(ToolError::TellModel)?;
        let scope = private_scope(&cx.place()).map_err(ToolError::TellModel)?;
        cx.workspace.run_blocking(move |workspace| remember(workspace, &scope, &text)).await
    }
}

pub struct NoteTool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteArgs {
    text: String,
}

#[async_trait]
impl Tool for NoteTool {
    type Args = NoteArgs;
    const SPEC: ToolSpec = ToolSpec::writes(
        NOTE,
        "Add what happened to today's notes; you see those of the last days.",
    );

    fn reach(_: &NoteArgs, _: &Address) -> Reach {
        Reach::Memory
    }

    fn kept_text(args: &NoteArgs) -> Option<&str> {
        Some(&args.text)
    }

    fn check_args(&self, args: &NoteArgs, place: &CallPlace<'_>) -> Result<(), String> {
        one_line(&args.text)?;
        private_scope(place).map(drop)
    }

    async fn call(&self, args: NoteArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let (text, now) = (one_line(&args.text).map_err(ToolError::TellModel)?, cx.now);
        let heading = now.format("# %Y-%m-%d, %A").to_string();
        let line = format!("- {} {text}", now.format("%H:%M"));
        let path = notes_path(now.date_naive());
        let scope = private_scope(&cx.place()).map_err(ToolError::TellModel)?;
        cx.workspace
            .run_blocking(move |workspace| {
                let (place, before) = open_text(workspace, &scope, &path)?;
                let change = with_line(place, before, &heading, &line);
                Ok(ToolOutput::change(format!("Noted in {path}."), change).only_adding())
            })
            .await
    }
}

/// Returns the files of a person in a private chat: only these have a memory.
fn private_scope(place: &CallPlace<'_>) -> Result<FileScope, String> {
    match place.scope() {
        FileScope::Group { .. } => {
            Err("Groups have no memory: this works in a private chat only.".to_owned())
        }
        scope @ (FileScope::Owner | FileScope::Person { .. }) => Ok(scope),
    }
}

/// Opens a file to change it. Returns its place and its text, or no text if it is new.
fn open_text(
    workspace: &Workspace,
    scope: &FileScope,
    path: &WorkspacePath,
) -> Result<(WorkspacePath, Option<String>), FileError> {
    let (place, file) = workspace.open_to_change(&scope.path(path), scope)?;
    Ok((place, file.map(OpenedFile::read_text).transpose()?))
}

fn remember(workspace: &Workspace, scope: &FileScope, text: &str) -> Result<ToolOutput, ToolError> {
    let path = memory_path(workspace, scope);
    let (place, before) = open_text(workspace, scope, &path)?;
    let known = before.as_deref().unwrap_or_default();
    if known.lines().any(|line| strip_bullet(line).to_lowercase() == text.to_lowercase()) {
        return Ok(ToolOutput::text("That is known already."));
    }
    if known.chars().count() + text.chars().count() > FILE_CHARS_MAX {
        return Err(ToolError::TellModel(format!(
            "{path} is full ({FILE_CHARS_MAX} characters). First shorten it with edit_file: join \
             what belongs together and remove what is no longer true."
        )));
    }
    let change = with_line(place, before, "# Memory", &format!("- {text}"));
    Ok(ToolOutput::change(format!("Remembered in {path}."), change).only_adding())
}

/// Appends `line` to `before`, or to a new file with `heading`.
fn with_line(path: WorkspacePath, before: Option<String>, heading: &str, line: &str) -> FileChange {
    let hash = before.as_ref().map(|before| Hash::of(before.as_bytes()));
    let mut text = before.unwrap_or_default();
    if text.trim().is_empty() {
        text = format!("{heading}\n\n");
    } else if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
    FileChange::new(path, hash, text.into_bytes())
}

/// Returns `text` as one line without a bullet.
fn one_line(text: &str) -> Result<String, String> {
    let text = short_text::one_line(text);
    let text = strip_bullet(&text);
    match text.chars().count() {
        0 => Err("The text is empty.".to_owned()),
        length if length > TEXT_CHARS_MAX => Err(format!(
            "The text has {length} characters, at most {TEXT_CHARS_MAX} are kept. Say it in a \
             sentence or two, or put it in a file of its own and remember where it is."
        )),
        _ => Ok(text.to_owned()),
    }
}

fn strip_bullet(line: &str) -> &str {
    let line = line.trim();
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).unwrap_or(line).trim()
}
