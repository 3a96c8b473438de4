//! The listing of `list_files`: a folder with what it holds, or the whole tree of the folders that a call reaches.

use std::fmt::Write as _;

use super::size_words;
use crate::tools::{ToolError, ToolOutput, cut};
use crate::types::source::Source;
use crate::workspace::folders::{DOWNLOADS, SHARED};
use crate::workspace::{EntryKind, FileScope, OpenedFolder, Workspace, WorkspacePath};

/// Maximum number of entries in a listing. More would be cut anyway.
const LIST_ENTRIES_MAX: usize = 300;

/// Lists a folder. Without a path, it is the root of the tree, in which untrusted folders are shown closed:
/// the names in them are text that others wrote.
pub(super) fn list(
    workspace: &Workspace,
    path: Option<WorkspacePath>,
    depth: u8,
    scope: &FileScope,
) -> Result<ToolOutput, ToolError> {
    let is_root = path.is_none();
    let path = match path {
        Some(path) => Some(scope.path(&path)),
        None => scope.root(),
    };
    let folder = match &path {
        // A person's or a group's folder is made when something is put there.
        Some(path) if is_root => workspace.open_folder_for(path, scope).ok(),
        Some(path) => Some(workspace.open_folder_for(path, scope)?),
        None => Some(workspace.open_folder(None)?),
    };
    let is_untrusted = path.as_ref().is_some_and(WorkspacePath::is_of_others);
    let mut shown = ShownListing { scope, is_untrusted, lines: Vec::new(), cut: false };
    if let Some(folder) = folder {
        shown.folder(&folder, depth, 0);
    }
    if is_root {
        shown.closed(workspace);
    }
    let mut text = shown.lines.join("\n");
    if text.is_empty() {
        text.push_str("There are no files.");
    }
    if shown.cut {
        let _ = write!(text, "\n[There are more. List one folder, or use a smaller depth.]");
    }
    let text = cut(&text, "List one folder, or use a smaller depth.");
    Ok(match path.filter(|_| is_untrusted) {
        Some(path) => ToolOutput::of(Source::File { path: path.to_string() }, text),
        None => ToolOutput::text(text),
    })
}

/// A listing under construction.
struct ShownListing<'a> {
    scope: &'a FileScope,
    /// It is one of an untrusted folder, in which all names are.
    is_untrusted: bool,
    lines: Vec<String>,
    cut: bool,
}

impl ShownListing<'_> {
    fn folder(&mut self, folder: &OpenedFolder, depth: u8, level: usize) {
        let listing = folder.list();
        self.cut |= listing.cut;
        for entry in listing.entries {
            let name = &entry.name;
            let below = match folder.path() {
                None => name.parse(),
                Some(path) => format!("{path}/{name}").parse::<WorkspacePath>(),
            };
            // A folder of that name in the workspace is shown with the one beside it.
            if folder.path().is_none() && below.as_ref().is_ok_and(WorkspacePath::is_beside) {
                continue;
            }
            if self.lines.len() == LIST_ENTRIES_MAX {
                self.cut = true;
                return;
            }
            let is_closed =
                !self.is_untrusted && below.as_ref().is_ok_and(WorkspacePath::is_of_others);
            let what = match entry.kind {
                EntryKind::Folder if is_closed => {
                    let inside = folder.folder(name).map_or(0, |it| it.list().entries.len());
                    closed_words(inside)
                }
                EntryKind::Folder => "/".to_owned(),
                EntryKind::File(size) => format!(" ({})", size_words(size)),
                EntryKind::Link => " (link)".to_owned(),
                EntryKind::Special => " (not a regular file)".to_owned(),
            };
            self.lines.push(format!("{}{name}{what}", "  ".repeat(level)));
            // One that vanished or cannot be read is shown as empty.
            if entry.kind == EntryKind::Folder
                && !is_closed
                && depth > 1
                && let Ok(below) = folder.folder(name)
            {
                self.folder(&below, depth - 1, level + 1);
            }
        }
    }

    /// Adds the untrusted folders with the number of entries in them.
    fn closed(&mut self, workspace: &Workspace) {
        for name in [DOWNLOADS, SHARED] {
            let given: WorkspacePath = name.parse().expect("it is one name");
            let path = self.scope.path(&given);
            let folder = workspace.open_folder_for(&path, self.scope);
            let inside = folder.map_or(0, |folder| folder.list().entries.len());
            if inside > 0 {
                self.lines.push(format!("{name}{}", closed_words(inside)));
            }
        }
    }
}

fn closed_words(inside: usize) -> String {
    format!("/ ({inside} inside, by others)")
}
