//! Handing a task to a subagent, and how a subagent hands back what came of it.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, Kind, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::people::Role;
use crate::session::{Call, Outcome};

const TASK_CHARS_MAX: usize = 8_000;

/// What only a subagent calls.
pub(super) const COMPLETION: &str = "task_completion";

/// What a subagent cannot call: nobody speaks with it, and it hands nothing on.
pub(super) const NOT_FOR_SUBAGENTS: &[&str] = &[
    "message",
    "ask_question",
    "propose",
    "update_proposal",
    "list_proposals",
    "spawn",
    "subagent",
    "schedule",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// All that it must know: it sees nothing else.
    task: String,
}

pub struct Spawn;

#[async_trait]
impl Tool for Spawn {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec {
        name: "spawn",
        description: "Hand a longer task to a subagent that works beside you; its result is sent here.",
        role: Role::User,
        kind: Kind::Queues,
        retries: false,
    };

    async fn call(&self, args: Args, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let task = task(&args)?;
        Ok(ToolOutput { effects: vec![Effect::Spawn(task)], ..ToolOutput::default() })
    }
}

pub struct Subagent;

#[async_trait]
impl Tool for Subagent {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec {
        name: "subagent",
        description: "Hand a task to a subagent, and wait for its result.",
        role: Role::User,
        kind: Kind::Queues,
        retries: false,
    };

    async fn call(&self, args: Args, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput { awaits: Some(task(&args)?), ..ToolOutput::default() })
    }
}

fn task(args: &Args) -> Result<String, ToolError> {
    let task = args.task.trim();
    match task.chars().count() {
        0 => Err(ToolError::TellModel("The task has no text.".to_owned())),
        length if length > TASK_CHARS_MAX => Err(ToolError::TellModel(format!(
            "A task has at most {TASK_CHARS_MAX} characters; put the rest into a file."
        ))),
        _ => Ok(task.to_owned()),
    }
}

pub struct TaskCompletion;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompletionArgs {
    /// All that is to be known of it; nothing else is passed on.
    result: String,
}

#[async_trait]
impl Tool for TaskCompletion {
    type Args = CompletionArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: COMPLETION,
        description: "Call this when the task is done, or cannot be done.",
        role: Role::User,
        // The turn ends with its outcome, which is the result.
        kind: Kind::Reads,
        retries: true,
    };

    async fn call(&self, args: CompletionArgs, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        match args.result.trim() {
            "" => Err(ToolError::TellModel("The result has no text.".to_owned())),
            result => Ok(ToolOutput::text(result)),
        }
    }
}

/// What a turn has completed its task with, in the step with these calls.
pub fn completed_with(calls: &[Call]) -> Option<String> {
    calls.iter().find_map(|call| match &call.outcome {
        Outcome::Done(result) if call.tool == COMPLETION => Some(result.clone()),
        _ => None,
    })
}
