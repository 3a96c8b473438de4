//! Compares the approvals that were given to a call with its files as they are now.

use crate::conversation::asks::CallApproval;
use crate::tools::files::ReadFile;
use crate::tools::{Reach, Tool, ToolContext};
use crate::trust::permission::{self, Decision, PermissionRequest};
use crate::turn::proposed::{self, ProposedFiles};
use crate::turn::run::active::ActiveTurn;
use crate::types::session::{Call, CallOutcome};
use crate::workspace::FileChange;

/// The approvals given to a call, compared with its files as they are now.
#[derive(Default)]
pub(super) struct ComparedApprovals {
    /// The approval that covers it.
    pub(super) covering: Option<CallApproval>,
    /// True if it was approved with files, and can change or send none any more.
    pub(super) has_lost_files: bool,
    /// The change of a file that it would make.
    pub(super) change: Option<FileChange>,
}

impl ActiveTurn<'_> {
    /// Compares the approvals given to a planned call with its files as they are now. `is_followed`: later calls may depend
    /// on the change that it makes.
    pub(super) async fn compare_approvals(
        &self,
        call: &Call,
        given: &[CallApproval],
        is_followed: bool,
        cx: &ToolContext,
    ) -> ComparedApprovals {
        let is_needed = is_followed || !given.is_empty();
        if !is_needed || call.outcome != CallOutcome::Planned {
            return ComparedApprovals::default();
        }
        let found = Box::pin(proposed::find_files(self.turns, call, cx)).await;
        let ProposedFiles { files, change, .. } = found;
        let covers = |approval: &&CallApproval| proposed::covers(approval, files.as_ref());
        let covering = given.iter().find(covers).cloned();
        let has_lost_files = !given.is_empty() && covering.is_none() && files.is_none();
        ComparedApprovals { covering, has_lost_files, change }
    }

    /// Returns true if files can be read here without approval. Only then may a model be told, before anybody is asked, why
    /// a call with a file cannot be made: the explanation may tell what the file contains.
    pub(super) fn may_read_files(&self, cx: &ToolContext) -> bool {
        let tool = <ReadFile as Tool>::SPEC.name;
        let Ok((_, terms)) = self.turns.tools.authorise(tool, cx.user()) else { return false };
        let request = PermissionRequest {
            tool,
            terms,
            reach: Reach::Here,
            role: cx.role,
            own_role: self.requester.role,
            taint: None,
            knows_url: false,
            is_attended: self.limits.is_attended,
        };
        let decision = permission::decide(&request, &self.turns.config.asking);
        self.limits.caller.has(tool) && decision == Decision::Allow
    }
}
