//! Messages to people about changes of files that nobody was asked about: of instructions, and those that keep a person's own
//! words.

use crate::memory;
use crate::replies;
use crate::tools::Effect;
use crate::turn::call_context::CallContext;
use crate::turn::services::TurnServices;
use crate::types::commands::CommandId;
use crate::types::message::{AllowedPressers, Body, Choice, Question};
use crate::types::session::Intent;
use crate::workspace::{FileChange, Hash, READ_BYTES_MAX, Workspace, WorkspacePath};

/// Returns the changed lines of an instruction file, with the path under which the bot uses it. None for other files.
pub(super) fn instruction_changes(
    workspace: &Workspace,
    change: &FileChange,
) -> Option<(WorkspacePath, String)> {
    let instruction = workspace.find_instruction_path(&change.path)?;
    let before = workspace.open_without_links(&change.path);
    let before = before.and_then(|file| file.read_up_to(READ_BYTES_MAX)).unwrap_or_default();
    let after = String::from_utf8_lossy(&change.contents);
    Some((instruction, memory::changes(&String::from_utf8_lossy(&before), &after)?))
}

/// Returns the same for a change that was made before a crash.
pub(super) async fn interrupted_changes(
    turns: &TurnServices,
    intent: &Intent,
) -> Option<(WorkspacePath, String)> {
    let Intent::File { path, before, .. } = intent else { return None };
    let path = path.parse::<WorkspacePath>().ok()?;
    let (images, before) = (turns.actions.images.clone(), before.clone());
    let lines = move |workspace: &Workspace| {
        let instruction = workspace.find_instruction_path(&path)?;
        let before = before.and_then(|hash| images.get(&Hash::parse(&hash)?)).unwrap_or_default();
        let after = workspace.open_without_links(&path);
        let after = after.and_then(|file| file.read_up_to(READ_BYTES_MAX)).unwrap_or_default();
        let lines =
            memory::changes(&String::from_utf8_lossy(&before), &String::from_utf8_lossy(&after))?;
        Some((instruction, lines))
    };
    turns.services.workspace.run_blocking(lines).await
}

/// Reports a changed instruction to the owner, because unseen changes of instructions would control the bot. Only the
/// owner can request them, in private, so the message goes to the chat of the call.
pub(super) fn report_instruction_change(
    calling: &CallContext<'_>,
    path: &WorkspacePath,
    lines: &str,
) -> Effect {
    let report = replies::instructions_changed(path, lines, calling.call.id);
    Effect::Say { to: calling.at.clone(), body: Body::Text(report) }
}

/// Shows a person that their own words were kept without approval, with a button to undo it.
pub(super) fn show_own_words(calling: &CallContext<'_>, path: &str) -> Option<Effect> {
    let text = calling.own_words.as_ref()?;
    let id = calling.call.id;
    let undo = Choice { label: replies::UNDO_IT.to_owned(), says: CommandId::Undo.line(id) };
    let who = AllowedPressers::Only(calling.person.id.clone());
    let text = replies::own_words_saved(path, text, id);
    let question = Question::new(text, vec![undo], who);
    Some(Effect::Say { to: calling.at.clone(), body: Body::Choice(question) })
}
