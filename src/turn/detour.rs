//! Refuses file changes whose reach is larger than the arguments of the call show, by a link or as an undo.

use crate::conversation::asks::OnUntrusted;
use crate::memory;
use crate::tools::{Reach, ToolContext};
use crate::trust::table::{self, Act, Ruling, TurnState};
use crate::turn::prompt;
use crate::turn::services::TurnServices;
use crate::workspace::{Workspace, WorkspacePath};

/// Returns an explanation for the model if the reach of a change is larger than its arguments show, because nobody
/// has approved that reach.
pub(crate) async fn refuse_wider_reach(
    turns: &TurnServices,
    cx: &ToolContext,
    reach: Reach,
    path: &WorkspacePath,
) -> Option<String> {
    if !cx.tainted || turns.config.asking.untrusted == OnUntrusted::Allow {
        return None;
    }
    let (Reach::Here | Reach::File(_)) = reach else { return None };
    if memory::is_memory(path) {
        return Some(prompt::instruction_by_other_path(path));
    }
    let actual = Reach::File(path.folder()).within(cx.chat_kind);
    let needs_approval = |reach: &Reach| {
        let turn = TurnState { is_tainted: true, is_attended: true };
        table::decide(Act::of(reach, false), turn) != Ruling::Do
    };
    if needs_approval(&actual) && !needs_approval(&reach) {
        return Some(prompt::file_by_other_path(path));
    }
    let path = path.clone();
    let instruction = move |workspace: &Workspace| workspace.find_instruction_path(&path);
    let instruction = turns.services.workspace.run_blocking(instruction).await;
    instruction.map(|path| prompt::instruction_by_other_path(&path))
}
