//! Changes that reach further than the arguments of their call tell, by a link or as an undo.

use crate::conversation::asks::OnUntrusted;
use crate::memory;
use crate::tools::{Reach, ToolContext};
use crate::trust::table::{self, Act, Ruling, TurnState};
use crate::turn::prompt;
use crate::turn::services::TurnServices;
use crate::workspace::{Workspace, WorkspacePath};

/// Words for the model if a change reaches further than its arguments tell, by a link or as an undo: nobody was
/// asked about that.
pub(crate) async fn refused(
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
        return Some(prompt::rule_by_detour(path));
    }
    let actual = Reach::File(path.folder()).within(cx.chat_kind);
    let is_asked = |reach: &Reach| {
        let turn = TurnState { is_tainted: true, is_attended: true };
        table::decide(Act::of(reach, false), turn) != Ruling::Do
    };
    if is_asked(&actual) && !is_asked(&reach) {
        return Some(prompt::folder_by_detour(path));
    }
    let path = path.clone();
    let rule = move |workspace: &Workspace| workspace.shown_changed_as(&path);
    let rule = turns.services.workspace.off_thread(rule).await;
    rule.map(|path| prompt::rule_by_detour(&path))
}
