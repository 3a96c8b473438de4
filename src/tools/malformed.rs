//! Runs in place of a call that could not be parsed from a model's text. It is offered to no model, and
//! only explains the mistake.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{AnyTool, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec};
use crate::people::Role;
use crate::provider::MALFORMED_CALL;

pub(super) static TOOL: LazyLock<Arc<dyn AnyTool>> = LazyLock::new(|| Arc::new(Malformed));

struct Malformed;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(default)]
    fault: String,
}

#[async_trait]
impl Tool for Malformed {
    type Args = Args;
    const SPEC: ToolSpec = ToolSpec {
        name: MALFORMED_CALL,
        description: "Stands for a call that could not be read.",
        role: Role::Guest,
        kind: ToolKind::Reads,
        retries: false,
    };

    async fn call(&self, args: Args, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let fault = if args.fault.is_empty() { "it cannot be read" } else { &args.fault };
        Err(ToolError::TellModel(format!(
            "Your call was not run: {fault}. Write it again, or answer in words."
        )))
    }
}
