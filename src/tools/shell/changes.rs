//! Lists the files of the workspace that a command with the network has changed (`git pull`), for the model and for the
//! person. Such a command is asked about each time, and its changes cannot be undone.

use std::fmt::Write as _;

use super::places::{self, ExecArgs};
use crate::replies;
use crate::short_text::escaped_path;
use crate::tools::{Effect, ToolContext};
use crate::trust::acts::CommandAccess;
use crate::types::message::Body;
use crate::workspace::path_stamps::{PathChanges, PathStamps};
use crate::workspace::{Folder, Workspace, WorkspacePath};

/// Maximum number of listed files: a screen or two. The others are counted.
const SHOWN_MAX: usize = 30;

/// Paths that a command can change while it has the network, as they were before it.
pub(super) struct WatchedPaths {
    named: Vec<WorkspacePath>,
    before: PathStamps,
}

impl WatchedPaths {
    /// Stamps the paths. None for any other command.
    pub(super) async fn watch(args: &ExecArgs, cx: &ToolContext) -> Option<Self> {
        if places::access(args) != CommandAccess::Both {
            return None;
        }
        let scope = cx.scope();
        let mut named = places::named(&args.paths).ok()?;
        // Everything is untrusted in the other folders.
        named.retain(|path| matches!(scope.folder(path), Folder::Workspace | Folder::Group));
        let stamp = move |workspace: &Workspace| {
            let before = workspace.stamp_paths(&scope, &named);
            Self { named, before }
        };
        Some(cx.workspace.off_thread(stamp).await)
    }

    /// Returns the files that are different now.
    pub(super) async fn changes(self, cx: &ToolContext) -> PathChanges {
        let scope = cx.scope();
        let compare = move |workspace: &Workspace| {
            self.before.changes(&workspace.stamp_paths(&scope, &self.named))
        };
        cx.workspace.off_thread(compare).await
    }
}

/// Returns the changes for the model, which names the files exactly.
pub(super) fn for_model(changes: &PathChanges) -> String {
    let mut text = match changes.all.is_empty() {
        true => "[No file in these paths of the workspace is different now.".to_owned(),
        false => {
            "[Different now in these paths of the workspace, and shown to the person:".to_owned()
        }
    };
    for change in changes.all.iter().take(SHOWN_MAX) {
        let _ = write!(text, "\n{} {}", change.kind.as_str(), escaped_path(&change.path));
    }
    if changes.all.len() > SHOWN_MAX {
        let _ = write!(text, "\nand {} more", changes.all.len() - SHOWN_MAX);
    }
    if !changes.is_whole {
        text.push_str("\nThere are more files than can be compared.");
    }
    text + "]"
}

/// Returns the message to the people of the chat. None if nothing has changed that could be seen.
pub(super) fn for_people(changes: &PathChanges, cx: &ToolContext) -> Option<Effect> {
    if changes.all.is_empty() && changes.is_whole {
        return None;
    }
    let more = changes.all.len().saturating_sub(SHOWN_MAX);
    let shown = changes.all.iter().take(SHOWN_MAX);
    let shown = shown.map(|change| (change.kind.as_str(), change.path.as_str()));
    let text = replies::files_changed_by_command(shown, more, changes.is_whole);
    Some(Effect::Say { to: cx.address.clone(), body: Body::Text(text) })
}
