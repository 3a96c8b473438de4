//! Tools that list actions, and undo them. An undo is a change of a file like any other, made by the
//! turn, and can itself be undone.

use async_trait::async_trait;
use chrono::DateTime;
use chrono_tz::Tz;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Reach, Tool, ToolChange, ToolContext, ToolError, ToolOutput, ToolSpec, cut};
use crate::conversation::actions::{self, Action, ActionScope, UNDO};
use crate::replies;
use crate::short_text::shortened;
use crate::types::message::Address;
use crate::types::session::CallId;
use crate::workspace::Folder;

const LIST_MAX: usize = 50;

/// Maximum length of an output, in characters.
const OUTPUT_CHARS_MAX: usize = 120;

pub struct ListActions;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListActionsArgs {
    #[serde(default = "list_limit")]
    #[schemars(range(min = 1, max = LIST_MAX))]
    limit: usize,
    #[serde(default)]
    tool: String,
}

#[async_trait]
impl Tool for ListActions {
    type Args = ListActionsArgs;
    const SPEC: ToolSpec =
        ToolSpec::reads("list_actions", "List the latest tool calls here, with numbers for undo.");

    async fn call(&self, args: ListActionsArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let (scope, reader) = (scope(cx).within(Some(cx.session)), cx.action_reader());
        let limit = args.limit.clamp(1, LIST_MAX);
        let tool = (!args.tool.is_empty()).then_some(args.tool);
        let list = move |store: &_| {
            let found = reader.list(store, &scope, tool.as_deref(), limit)?;
            let sources = actions::sources_of(store, &found)?;
            Ok((found, sources))
        };
        let (found, sources) = cx.actions.store.search(list).await?;
        if found.is_empty() {
            return Ok(ToolOutput::text(replies::NO_ACTIONS));
        }
        let lines: Vec<_> = found.iter().map(|action| format_action(action, cx.now)).collect();
        let for_model = cut(&lines.join("\n"), "Use a smaller limit.");
        Ok(ToolOutput::Text { for_model, sources })
    }
}

pub struct Undo;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UndoArgs {
    /// From list_actions; 0: the last change.
    #[serde(default)]
    id: i64,
}

#[async_trait]
impl Tool for Undo {
    type Args = UndoArgs;
    const SPEC: ToolSpec = ToolSpec::writes(UNDO, "Undo a change of a file that a tool has made.");

    /// The change is not looked up yet: it counts as one of a file of the workspace.
    fn reach(_: &UndoArgs, _: &Address) -> Reach {
        Reach::File(Folder::Workspace)
    }

    async fn call(&self, args: UndoArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let id = (args.id != 0).then_some(CallId(args.id));
        let scope = match id {
            Some(_) => scope(cx),
            None => scope(cx).within(Some(cx.session)),
        };
        let reader = cx.action_reader();
        let find_target = move |store: &_| actions::find_undo_target(store, &reader, &scope, id);
        let found = cx.actions.store.search(find_target).await?;
        let Some(target) = found else {
            let message = id.map(replies::no_such_action);
            let message = message.unwrap_or_else(|| replies::NOTHING_TO_UNDO.to_owned());
            return Err(ToolError::TellModel(message));
        };
        let (images, scope) = (cx.actions.images.clone(), cx.scope());
        let (id, tool) = (target.id, target.tool.clone());
        let undoing = cx.workspace.run_blocking(move |workspace| {
            actions::change_that_undoes(workspace, &images, &target, &scope)
        });
        let change = undoing.await.map_err(ToolError::TellModel)?;
        let for_model = replies::undone(id, &tool, &change.path);
        let (undoes, only_adds) = (Some(id), false);
        Ok(ToolOutput::Change(ToolChange { for_model, file: change, undoes, only_adds }))
    }
}

fn list_limit() -> usize {
    10
}

fn scope(cx: &ToolContext) -> ActionScope {
    ActionScope::of(&cx.who, cx.role, cx.chat_kind, Some(cx.session))
}

fn format_action(action: &Action, now: DateTime<Tz>) -> String {
    let output = shortened(&action.output.replace(char::is_control, " "), OUTPUT_CHARS_MAX);
    format!("{}\n  → {output}", action.describe(now))
}
