//! Tools that end a turn, for turns that a text alone does not end.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec, tell};
use crate::people::Role;
use crate::provider::ToolSchema;
pub use crate::provider::{COMPLETION, CONVERSE};
use crate::types::session::{Call, CallOutcome};

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
        role: Role::Guest,
        // The turn ends with its outcome, which is the result.
        kind: ToolKind::Reads,
        retries: true,
    };

    async fn call(&self, args: CompletionArgs, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        text_output("result", &args.result)
    }
}

pub struct Converse;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConverseArgs {
    /// The text that the person reads.
    text: String,
}

#[async_trait]
impl Tool for Converse {
    type Args = ConverseArgs;
    const SPEC: ToolSpec = ToolSpec {
        name: CONVERSE,
        description: "Say something to the person, and wait for what they say.",
        role: Role::Guest,
        kind: ToolKind::Reads,
        retries: true,
    };

    async fn call(&self, args: ConverseArgs, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        text_output("text", &args.text)
    }
}

/// Returns the schema of `task_completion` for a task whose result nobody reads.
pub fn silent_schema(schema: &ToolSchema) -> ToolSchema {
    let mut schema = schema.clone();
    "Call this when there is nothing to tell.".clone_into(&mut schema.description);
    schema.parameters["properties"]["result"]["description"] = "Read by nobody.".into();
    schema
}

fn text_output(name: &str, text: &str) -> Result<ToolOutput, ToolError> {
    match text.trim() {
        "" => tell(format!("`{name}` is empty.")),
        text => Ok(ToolOutput::text(text)),
    }
}

/// Returns the call that ended its turn, among those of its last step, and its text.
pub fn find_ending_call(calls: &[Call]) -> Option<(&'static str, &str)> {
    calls.iter().find_map(|call| {
        let name = [COMPLETION, CONVERSE].into_iter().find(|name| call.tool == *name)?;
        match &call.outcome {
            CallOutcome::Done(said) => Some((name, said.as_str())),
            _ => None,
        }
    })
}
