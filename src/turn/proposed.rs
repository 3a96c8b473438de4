//! The files of a call as people who are asked about it are shown them: the complete change of a file, or the files that
//! are sent. An approval covers only these, so they are determined again before the call is made.

use similar::TextDiff;

use crate::conversation::asks::CallApproval;
use crate::memory;
use crate::tools::{Effect, ToolChange, ToolContext, ToolKind, ToolOutput, message};
use crate::turn::services::TurnServices;
use crate::types::call_files::{CallFiles, ChangedFile, SentFile};
use crate::types::message::{Attachment, Body, Content};
use crate::types::session::Call;
use crate::workspace::{FileChange, Hash, READ_BYTES_MAX, Workspace, WorkspacePath};

/// Unchanged lines that are shown before and after each changed part.
const CONTEXT_LINES: usize = 3;

/// The files of a call, and the difference that it would make to one of them.
#[derive(Default)]
pub(crate) struct ProposedFiles {
    /// None if the call has no files, or cannot begin.
    pub(crate) files: Option<CallFiles>,
    /// A unified diff, if it changes a text.
    pub(crate) diff: Option<String>,
}

impl ProposedFiles {
    /// Returns the path of the file that the call would change.
    pub(crate) fn changed_path(&self) -> Option<&str> {
        self.files.as_ref().and_then(CallFiles::changed_path)
    }
}

/// Returns the files that a call would change or send, as they are now. Changes and sends nothing.
pub(crate) async fn find_files(
    turns: &TurnServices,
    call: &Call,
    cx: &ToolContext,
) -> ProposedFiles {
    let Ok((tool, terms)) = turns.tools.authorise(&call.tool, cx.user()) else {
        return ProposedFiles::default();
    };
    match terms.kind {
        ToolKind::Reads | ToolKind::Acts { .. } => ProposedFiles::default(),
        ToolKind::Queues => {
            let sent = tool.files_to_send_json(&call.arguments, cx).await.unwrap_or_default();
            let files = (!sent.is_empty()).then_some(CallFiles::Sends(sent));
            ProposedFiles { files, diff: None }
        }
        ToolKind::Writes => {
            let Ok(ToolOutput::Change(change)) = tool.call_json(&call.arguments, cx).await else {
                return ProposedFiles::default();
            };
            let files = Some(changed_file(&change));
            let compare = move |workspace: &Workspace| compare(workspace, &change.file);
            let diff = turns.services.workspace.run_blocking(compare).await;
            ProposedFiles { files, diff }
        }
    }
}

/// Returns the files of a call that has been carried out as far as its output: those that are changed or sent next.
pub(crate) async fn files_of(turns: &TurnServices, output: &ToolOutput) -> Option<CallFiles> {
    let effects = match output {
        ToolOutput::Change(change) => return Some(changed_file(change)),
        ToolOutput::Effects { effects, .. } => effects,
        ToolOutput::Text { .. } | ToolOutput::Asks(_) | ToolOutput::Awaits(_) => return None,
    };
    let copies: Vec<_> = effects.iter().filter_map(copy_of).collect();
    if copies.is_empty() {
        return None;
    }
    let read = move |workspace: &Workspace| {
        let sent = |(copy, original): &(String, String)| {
            let file = workspace.open_file(&copy.parse::<WorkspacePath>().ok()?).ok()?;
            message::sent_file(original.clone(), file).ok()
        };
        copies.iter().map(sent).collect::<Option<Vec<SentFile>>>()
    };
    // A copy that cannot be read is not what was shown.
    let sent = turns.services.workspace.run_blocking(read).await;
    Some(CallFiles::Sends(sent.unwrap_or_default()))
}

/// Returns the path of the copy that an effect sends, and that of its original.
fn copy_of(effect: &Effect) -> Option<(String, String)> {
    let Effect::Send { body: Body::File(Attachment { content, .. }), .. } = effect else {
        return None;
    };
    let Content::Copy { copy, original } = content else { return None };
    Some((copy.clone(), original.clone()))
}

/// Returns true if an approval covers a call with these files. A call that adds to a file does the same whatever the file
/// contains, and all notes of a memory are one target: it depends on the day in which file they are.
pub(crate) fn covers(approval: &CallApproval, files: Option<&CallFiles>) -> bool {
    match (&approval.files, files) {
        (Some(CallFiles::Adds { path: approved }), Some(CallFiles::Adds { path })) => {
            approved == path || are_notes_of_one_memory(approved, path)
        }
        (approved, files) => approved.as_ref() == files,
    }
}

fn are_notes_of_one_memory(one: &str, other: &str) -> bool {
    let folder = |path: &str| -> Option<String> {
        let path = path.parse::<WorkspacePath>().ok()?;
        memory::notes_folder(&path).map(str::to_owned)
    };
    folder(one).is_some_and(|one| folder(other) == Some(one))
}

fn changed_file(change: &ToolChange) -> CallFiles {
    let ToolChange { file, only_adds, .. } = change;
    let path = file.path.as_str().to_owned();
    if *only_adds {
        return CallFiles::Adds { path };
    }
    let before = file.before.as_ref().map(Hash::to_string);
    CallFiles::Changes(ChangedFile { path, before })
}

fn compare(workspace: &Workspace, change: &FileChange) -> Option<String> {
    let before = match &change.before {
        None => String::new(),
        Some(hash) => {
            let file = workspace.open_without_links(&change.path).ok()?;
            let bytes = file.read_up_to(READ_BYTES_MAX).ok()?;
            // A difference to other contents than those that the approval covers must not be shown.
            (Hash::of(&bytes) == *hash).then(|| String::from_utf8(bytes).ok()).flatten()?
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
