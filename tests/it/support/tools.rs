//! Tools that misbehave.

use async_trait::async_trait;
use peacrab::people::Role;
use peacrab::tools::{Kind, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::script::Gate;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

const fn spec(name: &'static str) -> ToolSpec {
    ToolSpec { name, description: "Misbehaves.", role: Role::Guest, kind: Kind::Reads }
}

/// Hangs until its gate is open, and holds up what comes after it.
pub(crate) struct HangingTool(pub(crate) Gate);

#[async_trait]
impl Tool for HangingTool {
    type Args = Nothing;
    const SPEC: ToolSpec = ToolSpec { kind: Kind::Queues, ..spec("hang") };

    async fn call(&self, _: Nothing, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.pass().await;
        Ok(ToolOutput::text("hung no more"))
    }
}

/// Looks at something until its gate is open.
pub(crate) struct LookingTool(pub(crate) Gate);

#[async_trait]
impl Tool for LookingTool {
    type Args = Nothing;
    const SPEC: ToolSpec = spec("look");

    async fn call(&self, _: Nothing, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.pass().await;
        Ok(ToolOutput::text("looked"))
    }
}

pub(crate) struct PanickingTool;

#[async_trait]
impl Tool for PanickingTool {
    type Args = Nothing;
    const SPEC: ToolSpec = spec("panic");

    async fn call(&self, _: Nothing, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        panic!("the tool was told to panic")
    }
}

pub(crate) struct AbortingTool;

#[async_trait]
impl Tool for AbortingTool {
    type Args = Nothing;
    const SPEC: ToolSpec = spec("abort");

    async fn call(&self, _: Nothing, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Err(ToolError::Abort(std::io::Error::other("the tool cannot go on").into()))
    }
}
