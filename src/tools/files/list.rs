//! The listing of `list_files`: the entries of a folder, or the whole tree of folders that a call reaches.

use std::fmt::Write as _;

use super::format_size;
use crate::short_text::escaped_path;
use crate::tools::{ToolError, ToolOutput, cut};
use crate::types::source::Source;
use crate::workspace::folders::{DOWNLOADS, SHARED};
use crate::workspace::{EntryKind, FileScope, OpenedFolder, Workspace, WorkspacePath};

/// Maximum number of entries in a listing. More would be cut anyway.
const LIST_ENTRIES_MAX: usize = 300;

/// Lists a folder. Without a path, it lists the root of the tree, and shows untrusted folders closed: others wrote
/// the names in them.
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
    // A link may have led to another folder.
    let opened = folder.as_ref().and_then(OpenedFolder::path);
    let path = opened.cloned().or(path);
    let is_untrusted = path.as_ref().is_some_and(WorkspacePath::is_untrusted);
    let mut listing = ShownListing { scope, is_untrusted, lines: Vec::new(), cut: false };
    if let Some(folder) = folder {
        listing.add_folder(&folder, depth, 0);
    }
    if is_root {
        listing.add_closed_folders(workspace);
    }
    let mut text = listing.lines.join("\n");
    if text.is_empty() {
        text.push_str("There are no files.");
    }
    if listing.cut {
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
    /// True for an untrusted folder, where all names are untrusted.
    is_untrusted: bool,
    lines: Vec<String>,
    cut: bool,
}

impl ShownListing<'_> {
    fn add_folder(&mut self, folder: &OpenedFolder, depth: u8, level: usize) {
        let listing = folder.list();
        self.cut |= listing.cut;
        for entry in listing.entries {
            let name = &entry.name;
            let below = match folder.path() {
                None => name.parse(),
                Some(path) => format!("{path}/{name}").parse::<WorkspacePath>(),
            };
            // Shown later, together with the folder of that name beside the workspace.
            if folder.path().is_none()
                && below.as_ref().is_ok_and(WorkspacePath::is_beside_workspace)
            {
                continue;
            }
            if self.lines.len() == LIST_ENTRIES_MAX {
                self.cut = true;
                return;
            }
            let is_closed =
                !self.is_untrusted && below.as_ref().is_ok_and(WorkspacePath::is_untrusted);
            let suffix = match entry.kind {
                EntryKind::Folder if is_closed => {
                    let count = folder.folder(name).map_or(0, |it| it.list().entries.len());
                    closed_suffix(count)
                }
                EntryKind::Folder => "/".to_owned(),
                EntryKind::File(size) => format!(" ({})", format_size(size)),
                EntryKind::Link => " (link)".to_owned(),
                EntryKind::Special => " (not a regular file)".to_owned(),
            };
            self.lines.push(format!("{}{}{suffix}", "  ".repeat(level), escaped_path(name)));
            // A folder that vanished or cannot be read is shown as empty.
            if entry.kind == EntryKind::Folder
                && !is_closed
                && depth > 1
                && let Ok(below) = folder.folder(name)
            {
                self.add_folder(&below, depth - 1, level + 1);
            }
        }
    }

    /// Adds the untrusted folders with the number of entries in them.
    fn add_closed_folders(&mut self, workspace: &Workspace) {
        for name in [DOWNLOADS, SHARED] {
            let given: WorkspacePath = name.parse().expect("it is one name");
            let path = self.scope.path(&given);
            let folder = workspace.open_folder_for(&path, self.scope);
            let count = folder.map_or(0, |folder| folder.list().entries.len());
            if count > 0 {
                self.lines.push(format!("{name}{}", closed_suffix(count)));
            }
        }
    }
}

fn closed_suffix(count: usize) -> String {
    format!("/ ({count} inside, by others)")
}
