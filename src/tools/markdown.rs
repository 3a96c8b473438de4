//! Tools for Markdown files: list, read, write a section, create a file. The folders and rules are those of the other
//! file tools. MEMORY.md and the notes are such files.

pub mod sections;

use std::fmt::Write as _;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::{
    PathUse, ReadFileArgs, TextToChange, changed, check_change, check_listed, check_read,
    explained, format_size, listed_path, reach_of, read,
};
use super::{
    CallPlace, Reach, Tool, ToolContext, ToolError, ToolOutput, ToolReader, ToolSpec, cut,
};
use crate::memory::is_memory;
use crate::short_text::escaped_path;
use crate::types::message::Address;
use crate::types::source::{self, Source};
use crate::workspace::snapshot::FILE_CHARS_MAX;
use crate::workspace::{EntryKind, FileChange, OpenedFile, OpenedFolder, Workspace, WorkspacePath};

/// Maximum number of files in a listing. More would be cut anyway.
const LIST_FILES_MAX: usize = 60;

/// Maximum number of folders that a listing looks into, and how deep.
const LIST_FOLDERS_MAX: usize = 100;
const LIST_DEPTH_MAX: usize = 6;

/// Maximum size of a file whose headings are listed, in bytes. The same as for an indexed file.
const LIST_BYTES_MAX: u64 = 256 * 1024;

pub struct ListMarkdown;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListMarkdownArgs {
    #[serde(default)]
    path: String,
}

#[async_trait]
impl Tool for ListMarkdown {
    type Args = ListMarkdownArgs;
    const SPEC: ToolSpec =
        ToolSpec::reads("list_markdown", "List Markdown files with their headings.");

    fn check_args(&self, args: &ListMarkdownArgs, place: &CallPlace<'_>) -> Result<(), String> {
        match listed_path(&args.path)? {
            Some(path) if is_markdown(path.name()) => check_read(&path, place),
            Some(path) => check_listed(&path, place),
            None => Ok(()),
        }
    }

    async fn call(
        &self,
        args: ListMarkdownArgs,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let reader = cx.reader();
        let path = listed_path(&args.path).map_err(ToolError::TellModel)?;
        cx.workspace.run_blocking(move |workspace| list(workspace, path.as_ref(), &reader)).await
    }
}

pub struct ReadMarkdown;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadMarkdownArgs {
    path: WorkspacePath,
    #[serde(default)]
    heading: String,
}

#[async_trait]
impl Tool for ReadMarkdown {
    type Args = ReadMarkdownArgs;
    const SPEC: ToolSpec =
        ToolSpec::reads("read_markdown", "Read a Markdown file, or one section.");

    fn check_args(&self, args: &ReadMarkdownArgs, place: &CallPlace<'_>) -> Result<(), String> {
        check_read(&args.path, place)
    }

    async fn call(
        &self,
        args: ReadMarkdownArgs,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let reader = cx.reader();
        cx.workspace
            .run_blocking(move |workspace| match args.heading.trim() {
                "" => read(workspace, &ReadFileArgs::first_page(args.path), &reader),
                heading => read_section(workspace, &args.path, heading, &reader),
            })
            .await
    }
}

pub struct WriteMarkdownSection;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteMarkdownSectionArgs {
    path: WorkspacePath,
    /// Such as `## Garden`.
    heading: String,
    content: String,
}

#[async_trait]
impl Tool for WriteMarkdownSection {
    type Args = WriteMarkdownSectionArgs;
    const SPEC: ToolSpec = ToolSpec::writes(
        "write_markdown_section",
        "Replace the text below a heading, or add a section.",
    );

    fn reach(args: &WriteMarkdownSectionArgs, _: &Address) -> Reach {
        reach_of(&args.path)
    }

    fn check_args(
        &self,
        args: &WriteMarkdownSectionArgs,
        place: &CallPlace<'_>,
    ) -> Result<(), String> {
        check_name(&args.path)?;
        check_change(&args.path, PathUse::Existing, place)
    }

    async fn call(
        &self,
        args: WriteMarkdownSectionArgs,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let scope = cx.scope();
        cx.workspace
            .run_blocking(move |workspace| {
                let opened = TextToChange::open(workspace, &args.path, &scope)?;
                let written = sections::write(&opened.text, &args.heading, &args.content)
                    .map_err(|error| opened.explained(&format!("{error}.")))?;
                check_budget(&opened.path, &opened.text, &written)?;
                opened.changed(written, "Changed")
            })
            .await
    }
}

pub struct CreateMarkdownFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateMarkdownFileArgs {
    path: WorkspacePath,
    content: String,
}

#[async_trait]
impl Tool for CreateMarkdownFile {
    type Args = CreateMarkdownFileArgs;
    const SPEC: ToolSpec =
        ToolSpec::writes("create_markdown_file", "Make a Markdown file that is not there yet.");

    fn reach(args: &CreateMarkdownFileArgs, _: &Address) -> Reach {
        reach_of(&args.path)
    }

    fn check_args(
        &self,
        args: &CreateMarkdownFileArgs,
        place: &CallPlace<'_>,
    ) -> Result<(), String> {
        check_name(&args.path)?;
        check_change(&args.path, PathUse::New, place)
    }

    async fn call(
        &self,
        args: CreateMarkdownFileArgs,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let scope = cx.scope();
        cx.workspace
            .run_blocking(move |workspace| {
                let given = scope.path(&args.path);
                let (path, file) = workspace.open_to_change(&given, &scope)?;
                if file.is_some() {
                    return Err(ToolError::TellModel(format!(
                        "{path} is there already. Change it with write_markdown_section."
                    )));
                }
                check_budget(&path, "", &args.content)?;
                changed(FileChange::new(path, None, args.content.into_bytes()), "Made")
            })
            .await
    }
}

fn is_markdown(name: &str) -> bool {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    ["md", "markdown"].iter().any(|markdown| end.eq_ignore_ascii_case(markdown))
}

fn check_name(path: &WorkspacePath) -> Result<(), String> {
    match is_markdown(path.name()) {
        true => Ok(()),
        false => Err(format!(
            "{path} is no Markdown file: its name does not end in .md. Use the other file tools."
        )),
    }
}

/// Returns an error if a file that prompts contain would grow beyond the part that they show.
fn check_budget(path: &WorkspacePath, before: &str, after: &str) -> Result<(), ToolError> {
    let is_in_prompts = is_memory(path) || path.is_change_reported();
    let (before, length) = (before.chars().count(), after.chars().count());
    if is_in_prompts && length > FILE_CHARS_MAX && length > before {
        return Err(ToolError::TellModel(format!(
            "{path} is full: it would have {length} of {FILE_CHARS_MAX} characters. Shorten it first: join what \
             belongs together and remove what is no longer true."
        )));
    }
    Ok(())
}

fn read_section(
    workspace: &Workspace,
    path: &WorkspacePath,
    heading: &str,
    reader: &ToolReader,
) -> Result<ToolOutput, ToolError> {
    let file = reader.open(workspace, path)?;
    let (path, source) = (file.path().clone(), file.source());
    let text = file.read_text()?;
    match sections::read(&text, heading) {
        Ok(section) => {
            let rest = "Read the sections below it, or all with read_file.";
            Ok(ToolOutput::of(source, cut(section.trim_end(), rest)))
        }
        Err(error) => Err(explained(&path, source, &format!("{error}."))),
    }
}

/// Lists a file, or the files in a folder. Without a path it is the root of the tree, without the untrusted folders.
fn list(
    workspace: &Workspace,
    path: Option<&WorkspacePath>,
    reader: &ToolReader,
) -> Result<ToolOutput, ToolError> {
    let mut listing = MarkdownListing::new(workspace, reader);
    match path {
        Some(path) if is_markdown(path.name()) => {
            let file = reader.open(workspace, path)?;
            listing.add_file(file);
        }
        _ => {
            let scope = &reader.scope;
            let at = match path {
                Some(path) => Some(scope.path(path)),
                None => scope.root(),
            };
            let folder = match &at {
                Some(at) if path.is_none() => workspace.open_folder_for(at, scope).ok(),
                Some(at) => Some(workspace.open_folder_for(at, scope)?),
                None => Some(workspace.open_folder(None)?),
            };
            if let Some(folder) = folder {
                listing.add_folder(&folder, LIST_DEPTH_MAX);
            }
        }
    }
    if listing.text.is_empty() {
        listing.text.push_str("There are no Markdown files.");
    }
    if listing.is_cut {
        listing.text.push_str("[There are more. List one folder.]");
    }
    let for_model = cut(listing.text.trim_end(), "List one folder, or one file.");
    Ok(ToolOutput::Text { for_model, sources: listing.sources })
}

/// A listing under construction.
struct MarkdownListing<'a> {
    workspace: &'a Workspace,
    reader: &'a ToolReader,
    text: String,
    sources: Vec<Source>,
    files: usize,
    folders: usize,
    is_cut: bool,
}

impl<'a> MarkdownListing<'a> {
    fn new(workspace: &'a Workspace, reader: &'a ToolReader) -> Self {
        let (text, sources) = (String::new(), Vec::new());
        Self { workspace, reader, text, sources, files: 0, folders: 0, is_cut: false }
    }

    fn add_folder(&mut self, folder: &OpenedFolder, depth: usize) {
        self.folders += 1;
        if depth == 0 || self.folders > LIST_FOLDERS_MAX {
            self.is_cut = true;
            return;
        }
        let is_untrusted = folder.path().is_some_and(WorkspacePath::is_untrusted);
        let listing = folder.list();
        self.is_cut |= listing.cut;
        for entry in listing.entries.iter().filter(|entry| !entry.name.starts_with('.')) {
            let Ok(path) = folder.path_of(&entry.name) else { continue };
            // Untrusted folders stay closed until one of them is asked for.
            if !is_untrusted && path.is_untrusted()
                || folder.path().is_none() && path.is_beside_workspace()
            {
                continue;
            }
            match entry.kind {
                EntryKind::Folder => {
                    // A folder that vanished or cannot be read is left out.
                    if let Ok(below) = folder.folder(&entry.name) {
                        self.add_folder(&below, depth - 1);
                    }
                }
                EntryKind::File(_) if is_markdown(&entry.name) => {
                    if self.files == LIST_FILES_MAX {
                        self.is_cut = true;
                        return;
                    }
                    if let Ok(file) = self.workspace.open_for(&path, &self.reader.scope) {
                        self.add_file(file);
                    }
                }
                EntryKind::File(_) | EntryKind::Link | EntryKind::Special => {}
            }
        }
    }

    fn add_file(&mut self, file: OpenedFile) {
        self.files += 1;
        source::add(&mut self.sources, &file.source());
        let path = escaped_path(file.path().as_str());
        let _ = writeln!(self.text, "{path} ({})", format_size(file.size()));
        // A file that is too large or not text is listed without headings.
        if file.size() <= LIST_BYTES_MAX
            && let Ok(text) = file.read_text()
        {
            self.text.push_str(&sections::outline(&text));
        }
    }
}
