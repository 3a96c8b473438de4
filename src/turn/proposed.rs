//! The complete change of a file that a call would make, for the person who is asked to approve it.

use similar::TextDiff;

use crate::tools::{ToolContext, ToolKind, ToolOutput};
use crate::turn::services::TurnServices;
use crate::types::session::Call;
use crate::workspace::{FileChange, READ_BYTES_MAX, Workspace};

/// Unchanged lines that are shown before and after each changed part.
const CONTEXT_LINES: usize = 3;

/// Returns the change that a call would make to a file, as a unified diff. None if it changes no file, or cannot begin.
/// Does not change the file.
pub(crate) async fn diff(turns: &TurnServices, call: &Call, cx: &ToolContext) -> Option<String> {
    let (tool, terms) = turns.tools.authorise(&call.tool, cx.user()).ok()?;
    if terms.kind != ToolKind::Writes {
        return None;
    }
    let Ok(ToolOutput::Change(change)) = tool.call_json(&call.arguments, cx).await else {
        return None;
    };
    let compare = move |workspace: &Workspace| compare(workspace, &change.file);
    turns.services.workspace.run_blocking(compare).await
}

fn compare(workspace: &Workspace, change: &FileChange) -> Option<String> {
    let before = match &change.before {
        None => String::new(),
        Some(_) => {
            let file = workspace.open_without_links(&change.path).ok()?;
            String::from_utf8(file.read_up_to(READ_BYTES_MAX).ok()?).ok()?
        }
    };
    let after = std::str::from_utf8(&change.contents).ok()?;
    let name = change.path.as_str();
    let (old, new) = match (&change.before, &change.after) {
        (None, _) => ("(no file)", name),
        (_, None) => (name, "(no file)"),
        _ => (name, name),
    };
    let diff = TextDiff::from_lines(before.as_str(), after);
    let diff = diff.unified_diff().context_radius(CONTEXT_LINES).header(old, new).to_string();
    Some(diff.trim_end().to_owned())
}
