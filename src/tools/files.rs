//! File tools: read, write, edit, append, list. A call reaches the folders of its person or group, and `shared/`.
//! Only the owner reaches the workspace, in a private chat. The turn makes the changes of a call.

mod checks;
mod document;
mod edit;
mod list;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    CallPlace, RESULT_CHARS_MAX, Reach, Tool, ToolContext, ToolError, ToolOutput, ToolReader,
    ToolSpec,
};
use crate::documents::has_document_ending;
use crate::memory::is_memory;
use crate::types::message::Address;
use crate::types::source::Source;
use crate::workspace::{
    FileChange, FileError, FilePage, FileScope, Folder, Hash, OpenedFile, Workspace, WorkspacePath,
    picture_type,
};
pub(super) use checks::{PathUse, check_change, check_listed, check_read};
use checks::{check_length, check_maker, sentence};

/// Page size of `read_file`, in bytes. The page with its last line, how to read on, stays below the cut.
const PAGE_BYTES_MAX: u64 = RESULT_CHARS_MAX as u64 - 200;

const LIST_DEPTH_MAX: u8 = 8;

pub struct ReadFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFileArgs {
    path: WorkspacePath,
    #[serde(default)]
    offset: u64,
    #[serde(default = "page_bytes_max")]
    limit: u64,
}

impl ReadFileArgs {
    /// The beginning of a file.
    pub(super) fn first_page(path: WorkspacePath) -> Self {
        Self { path, offset: 0, limit: PAGE_BYTES_MAX }
    }
}

#[async_trait]
impl Tool for ReadFile {
    type Args = ReadFileArgs;
    const SPEC: ToolSpec =
        ToolSpec::reads("read_file", "Read a text file, a long one page by page.");

    fn check_args(&self, args: &ReadFileArgs, place: &CallPlace<'_>) -> Result<(), String> {
        check_read(&args.path, place)
    }

    async fn call(&self, args: ReadFileArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let reader = cx.reader();
        if has_document_ending(args.path.name())
            && let Some(shown) = document::read(&args, cx).await?
        {
            return Ok(shown);
        }
        cx.workspace.run_blocking(move |workspace| read(workspace, &args, &reader)).await
    }
}

pub struct WriteFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFileArgs {
    path: WorkspacePath,
    content: String,
}

#[async_trait]
impl Tool for WriteFile {
    type Args = WriteFileArgs;
    const SPEC: ToolSpec = ToolSpec::writes(
        "write_file",
        "Make a file, or replace all of it; edit_file changes a part.",
    );

    fn reach(args: &WriteFileArgs, _: &Address) -> Reach {
        reach_of(&args.path)
    }

    fn check_args(&self, args: &WriteFileArgs, place: &CallPlace<'_>) -> Result<(), String> {
        check_change(&args.path, PathUse::New, place)?;
        check_length(&args.path, args.content.len() as u64)
    }

    async fn call(&self, args: WriteFileArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let scope = cx.scope();
        cx.workspace
            .run_blocking(move |workspace| {
                let given = scope.path(&args.path);
                let (path, file) = workspace.open_to_change(&given, &scope)?;
                let before = file.map(OpenedFile::hash).transpose()?;
                let done = if before.is_some() { "Replaced" } else { "Made" };
                changed(FileChange::new(path, before, args.content.into_bytes()), done)
            })
            .await
    }
}

pub struct EditFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditFileArgs {
    path: WorkspacePath,
    /// It must occur once.
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

#[async_trait]
impl Tool for EditFile {
    type Args = EditFileArgs;
    const SPEC: ToolSpec = ToolSpec::writes("edit_file", "Replace a piece of text in a file.");

    fn reach(args: &EditFileArgs, _: &Address) -> Reach {
        reach_of(&args.path)
    }

    fn check_args(&self, args: &EditFileArgs, place: &CallPlace<'_>) -> Result<(), String> {
        check_change(&args.path, PathUse::Existing, place)?;
        edit::check_old(&args.old)
    }

    async fn call(&self, args: EditFileArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let scope = cx.scope();
        cx.workspace
            .run_blocking(move |workspace| {
                let opened = TextToChange::open(workspace, &args.path, &scope)?;
                let edited = edit::replaced(&opened.text, &args.old, &args.new, args.all)
                    .map_err(|why| opened.explained(&why))?;
                opened.changed(edited, "Edited")
            })
            .await
    }
}

pub struct AppendFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendFileArgs {
    path: WorkspacePath,
    content: String,
}

#[async_trait]
impl Tool for AppendFile {
    type Args = AppendFileArgs;
    const SPEC: ToolSpec =
        ToolSpec::writes("append_file", "Add text at the end of a file, or make it.");

    fn reach(args: &AppendFileArgs, _: &Address) -> Reach {
        reach_of(&args.path)
    }

    /// Returns the content for a text file of the workspace that is neither an instruction nor a program.
    fn kept_text(args: &AppendFileArgs) -> Option<&str> {
        let is_text = is_plain_text(args.path.name());
        let is_own = reach_of(&args.path) == Reach::File(Folder::Workspace);
        (is_text && is_own).then_some(&*args.content)
    }

    fn check_args(&self, args: &AppendFileArgs, place: &CallPlace<'_>) -> Result<(), String> {
        check_change(&args.path, PathUse::New, place)?;
        check_length(&args.path, args.content.len() as u64)
    }

    async fn call(&self, args: AppendFileArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let scope = cx.scope();
        cx.workspace
            .run_blocking(move |workspace| {
                let given = scope.path(&args.path);
                let (path, file) = workspace.open_to_change(&given, &scope)?;
                let before = file.map(OpenedFile::read_text).transpose()?;
                let hash = before.as_ref().map(|text| Hash::of(text.as_bytes()));
                let text = edit::appended(before.unwrap_or_default(), &args.content);
                let change = FileChange::new(path, hash, text.into_bytes());
                changed(change, "Added to").map(ToolOutput::only_adding)
            })
            .await
    }
}

pub struct ListFiles;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListFilesArgs {
    #[serde(default)]
    path: String,
    #[serde(default = "list_depth")]
    #[schemars(range(min = 1, max = LIST_DEPTH_MAX))]
    depth: u8,
}

#[async_trait]
impl Tool for ListFiles {
    type Args = ListFilesArgs;
    const SPEC: ToolSpec = ToolSpec::reads("list_files", "List files and folders.");

    fn check_args(&self, args: &ListFilesArgs, place: &CallPlace<'_>) -> Result<(), String> {
        match listed_path(&args.path)? {
            Some(path) => check_listed(&path, place),
            None => Ok(()),
        }
    }

    async fn call(&self, args: ListFilesArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let scope = cx.scope();
        let depth = args.depth.clamp(1, LIST_DEPTH_MAX);
        let path = listed_path(&args.path).map_err(ToolError::TellModel)?;
        cx.workspace.run_blocking(move |workspace| list::list(workspace, path, depth, &scope)).await
    }
}

/// An existing text file that a call is about to change.
pub(super) struct TextToChange {
    pub(super) path: WorkspacePath,
    pub(super) text: String,
    source: Source,
}

impl TextToChange {
    pub(super) fn open(
        workspace: &Workspace,
        path: &WorkspacePath,
        scope: &FileScope,
    ) -> Result<Self, ToolError> {
        let (path, file) = workspace.open_to_change(&scope.path(path), scope)?;
        let file = file.ok_or_else(|| FileError::Missing(path.clone()))?;
        let source = file.source();
        Ok(Self { path, text: file.read_text()?, source })
    }

    /// Returns the error of a failed call. The reason may contain text of the file.
    pub(super) fn explained(&self, why: &impl ToString) -> ToolError {
        explained(&self.path, self.source.clone(), why)
    }

    /// Returns the result of a call that replaces the text.
    pub(super) fn changed(self, text: String, done: &str) -> Result<ToolOutput, ToolError> {
        let before = Some(Hash::of(self.text.as_bytes()));
        changed(FileChange::new(self.path, before, text.into_bytes()), done)
    }
}

/// Parses the path of a listing. None for the root of the tree.
pub(super) fn listed_path(path: &str) -> Result<Option<WorkspacePath>, String> {
    match path.trim() {
        "" | "." | "./" => Ok(None),
        path => path.parse().map(Some).map_err(|error| sentence(&error)),
    }
}

/// Returns the error of a failed call. The reason may contain text of the file.
pub(super) fn explained(path: &WorkspacePath, source: Source, why: &impl ToString) -> ToolError {
    let message = format!("In {path}: {}", why.to_string());
    match (&source, path.is_untrusted()) {
        (Source::File { .. }, false) => ToolError::TellModel(message),
        _ => ToolError::TellUntrusted(source, message),
    }
}

/// Returns true if the file is plain text by its name, such as a list or a note.
fn is_plain_text(name: &str) -> bool {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    ["md", "markdown", "txt"].iter().any(|text| end.eq_ignore_ascii_case(text))
}

fn page_bytes_max() -> u64 {
    PAGE_BYTES_MAX
}

/// Two levels: the workspace's folders and their entries.
fn list_depth() -> u8 {
    2
}

/// Becomes an explanation for the model: none of these errors has to end a turn.
impl From<FileError> for ToolError {
    fn from(error: FileError) -> Self {
        let hint = match &error {
            FileError::Missing(_) => " See what there is with list_files.",
            FileError::Folder(_) => " See what it holds with list_files.",
            _ => "",
        };
        Self::TellModel(sentence(&error) + hint)
    }
}

/// Returns the result of a call that makes `change`. Without a difference, no change is made.
pub(super) fn changed(change: FileChange, done: &str) -> Result<ToolOutput, ToolError> {
    let (path, length) = (&change.path, change.contents.len() as u64);
    // A link may have led there.
    check_maker(path).and_then(|()| check_length(path, length)).map_err(ToolError::TellModel)?;
    if change.before == change.after {
        return Ok(ToolOutput::text(format!("{path} already reads like that.")));
    }
    let for_model = format!("{done} {path} (now {}).", format_size(length));
    Ok(ToolOutput::change(for_model, change))
}

/// Returns the reach of a change. Instructions and memory have reaches of their own.
pub(super) fn reach_of(path: &WorkspacePath) -> Reach {
    match path {
        path if path.is_change_reported() => Reach::Instructions,
        path if is_memory(path) => Reach::Memory,
        _ => Reach::File(path.folder()),
    }
}

pub(super) fn read(
    workspace: &Workspace,
    args: &ReadFileArgs,
    reader: &ToolReader,
) -> Result<ToolOutput, ToolError> {
    let file = reader.open(workspace, &args.path)?;
    let (path, source) = (file.path().clone(), file.source());
    let limit = args.limit.clamp(1, PAGE_BYTES_MAX);
    // A few bytes more, as a character may begin at the limit.
    let page = file.read_page(args.offset, limit + 3)?;
    show_page(args, &path, source, &page)
}

fn show_page(
    args: &ReadFileArgs,
    path: &WorkspacePath,
    source: Source,
    page: &FilePage,
) -> Result<ToolOutput, ToolError> {
    let limit = args.limit.clamp(1, PAGE_BYTES_MAX);
    let size = page.size;
    if size == 0 {
        return Ok(ToolOutput::text(format!("{path} is empty.")));
    }
    if args.offset >= size {
        return Err(ToolError::TellModel(format!(
            "{path} ends at byte {size}; there is nothing at offset {}.",
            args.offset
        )));
    }
    let Some((skipped, text)) = page_text(&page.bytes, limit, args.offset > 0) else {
        let hint = match picture_type(&page.bytes) {
            Some(_) => {
                " It is a picture; you see those that people send, if your model sees at all."
            }
            None => "",
        };
        return Err(ToolError::TellModel(format!(
            "{path} is not text ({}, binary or not UTF-8), so it cannot be shown.{hint}",
            format_size(size)
        )));
    };
    let start = args.offset + skipped as u64;
    let end = start + text.len() as u64;
    let with_source = |text: String| ToolOutput::of(source, text);
    if start == 0 && end >= size {
        return Ok(with_source(text.to_owned()));
    }
    let read_on = match end {
        end if end >= size => "This is the end.".to_owned(),
        end => format!("Read on with offset {end}."),
    };
    Ok(with_source(format!("{text}\n[Bytes {start} to {end} of {size}. {read_on}]")))
}

/// Returns the text of about the first `limit` bytes, and the number of skipped bytes of a character that
/// began earlier. It ends at a line's end if that costs less than half of it. None if it is not text.
fn page_text(bytes: &[u8], limit: u64, has_offset: bool) -> Option<(usize, &str)> {
    let is_continuation = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let skipped = match has_offset {
        true => bytes.iter().take(3).take_while(is_continuation).count(),
        false => 0,
    };
    let bytes = &bytes[skipped..];
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("valid up to there")
        }
        Err(_) => return None,
    };
    if text.contains('\0') || (text.is_empty() && !bytes.is_empty()) {
        return None;
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // More bytes than the limit were requested, so fewer mean the end of the file.
    if bytes.len() <= limit {
        return Some((skipped, text));
    }
    // At least one character, so that reading on always advances.
    let end = (1..=limit).rev().find(|at| text.is_char_boundary(*at));
    let text = &text[..end.unwrap_or_else(|| text.chars().next().map_or(0, char::len_utf8))];
    match text.rfind('\n') {
        Some(at) if at >= text.len() / 2 => Some((skipped, &text[..=at])),
        _ => Some((skipped, text)),
    }
}

pub(super) fn format_size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
