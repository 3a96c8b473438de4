//! Tools that delegate a task to a subagent.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    CallPlace, Effect, SubagentTask, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, finish,
};
use crate::provider::ASK_QUESTION;

const TASK_CHARS_MAX: usize = 8_000;

/// The tool whose result is that of the delegated task.
pub const SUBAGENT: &str = "subagent";

/// Tools that a subagent cannot call: it talks to nobody, and delegates nothing.
pub(super) const NOT_FOR_SUBAGENTS: &[&str] = &[
    finish::CONVERSE,
    "message",
    ASK_QUESTION,
    "propose",
    "update_proposal",
    "list_proposals",
    "spawn",
    SUBAGENT,
    "schedule",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    task: String,
}

pub struct Spawn;

#[async_trait]
impl Tool for Spawn {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec::queues(
        "spawn",
        "Hand a longer task, told whole, to a subagent beside you; its result is sent here.",
    );

    fn check_args(&self, args: &Args, _: &CallPlace<'_>) -> Result<(), String> {
        task_text(args).map(drop)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::effect("", Effect::Spawn(parse_task(&args, cx)?)))
    }
}

pub struct SubagentTool;

#[async_trait]
impl Tool for SubagentTool {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec::queues(
        SUBAGENT,
        "Hand a task, told whole, to a subagent, and wait for its result.",
    );

    fn check_args(&self, args: &Args, _: &CallPlace<'_>) -> Result<(), String> {
        task_text(args).map(drop)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::Awaits(parse_task(&args, cx)?))
    }
}

fn parse_task(args: &Args, cx: &ToolContext) -> Result<SubagentTask, ToolError> {
    let text = task_text(args).map_err(ToolError::TellModel)?.to_owned();
    Ok(SubagentTask { text, tainted: cx.tainted })
}

fn task_text(args: &Args) -> Result<&str, String> {
    let task = args.task.trim();
    match task.chars().count() {
        0 => Err("The task has no text.".to_owned()),
        1..=TASK_CHARS_MAX => Ok(task),
        _ => Err(format!(
            "A task has at most {TASK_CHARS_MAX} characters; put the rest into a file."
        )),
    }
}
