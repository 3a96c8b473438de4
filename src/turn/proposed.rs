//! The files of a call as people who are asked about it are shown them: the complete change of a file, the files that are
//! sent, or the paths that a command sees. An approval covers only these, so they are determined again before the call is
//! made.

use similar::TextDiff;

use crate::conversation::asks::CallApproval;
use crate::memory;
use crate::tools::{
    AnyTool, Effect, ToolChange, ToolContext, ToolError, ToolKind, ToolOutput, message,
};
use crate::turn::services::TurnServices;
use crate::types::call_files::{CallFiles, ChangedFile, SentFile};
use crate::types::message::{Attachment, Body, Content};
use crate::types::session::Call;
use crate::types::source::Source;
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
    /// The change that it would make.
    pub(crate) change: Option<FileChange>,
    /// The result of a call that would do nothing.
    pub(crate) known: Option<KnownResult>,
}

/// The result of a call that would change, send and run nothing, so that it is known before anybody is asked. It may tell
/// what a file contains.
pub(crate) enum KnownResult {
    /// Nothing has to be changed. A text with its sources.
    Nothing(String, Vec<Source>),
    /// The call cannot be made.
    Failed(ToolError),
}

impl KnownResult {
    fn of(called: Result<ToolOutput, ToolError>) -> Option<Self> {
        match called {
            Ok(ToolOutput::Text { for_model, sources }) => Some(Self::Nothing(for_model, sources)),
            Err(error @ (ToolError::TellModel(_) | ToolError::TellUntrusted(..))) => {
                Some(Self::Failed(error))
            }
            Ok(
                ToolOutput::Change(_)
                | ToolOutput::Effects { .. }
                | ToolOutput::Asks(_)
                | ToolOutput::Awaits(_),
            )
            // It may succeed later.
            | Err(ToolError::Transient(_) | ToolError::Abort(_)) => None,
        }
    }
}

/// Returns the files that a call would change or send, or the paths that its command would see, as they are now. Changes,
/// sends and runs nothing.
pub(crate) async fn find_files(
    turns: &TurnServices,
    call: &Call,
    cx: &ToolContext,
) -> ProposedFiles {
    let Ok((tool, terms)) = turns.tools.authorise(&call.tool, cx.user()) else {
        return ProposedFiles::default();
    };
    match terms.kind {
        ToolKind::Reads => ProposedFiles::default(),
        ToolKind::Queues | ToolKind::Acts { .. } => {
            match tool.call_files_json(&call.arguments, cx).await {
                Ok(files) => ProposedFiles { files, ..ProposedFiles::default() },
                Err(error) => {
                    ProposedFiles { known: KnownResult::of(Err(error)), ..ProposedFiles::default() }
                }
            }
        }
        ToolKind::Writes => {
            let change = match tool.call_json(&call.arguments, cx).await {
                Ok(ToolOutput::Change(change)) => change,
                called => {
                    return ProposedFiles {
                        known: KnownResult::of(called),
                        ..ProposedFiles::default()
                    };
                }
            };
            let (files, change) = (Some(changed_file(&change)), change.file);
            let compared = change.clone();
            let compare = move |workspace: &Workspace| compare(workspace, &compared);
            let diff = cx.workspace.run_blocking(compare).await;
            ProposedFiles { files, diff, change: Some(change), known: None }
        }
    }
}

/// Returns true if an approval covers the paths that the command of a call would see now.
pub(crate) async fn covers_paths(
    approval: &CallApproval,
    tool: &dyn AnyTool,
    call: &Call,
    cx: &ToolContext,
) -> bool {
    let files = tool.call_files_json(&call.arguments, cx).await.unwrap_or_default();
    covers(approval, files.as_ref())
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
