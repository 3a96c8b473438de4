//! The tool that reads a skill that has no path in the workspace: a skill of the account's home folder, or a
//! shipped one.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::workspace::skills;

pub struct ReadSkill;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadSkillArgs {
    name: String,
}

#[async_trait]
impl Tool for ReadSkill {
    type Args = ReadSkillArgs;
    const SPEC: ToolSpec = ToolSpec::reads("read_skill", "Read a skill by its name.");

    async fn call(&self, args: ReadSkillArgs, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let read = cx.workspace.run_blocking(move |workspace| {
            let catalogue = skills::catalogue(workspace);
            match catalogue.for_model().find(|skill| skill.name == args.name) {
                Some(skill) => skills::body(workspace, skill),
                None => Err(format!("there is no skill `{}`", args.name)),
            }
        });
        read.await.map(ToolOutput::text).map_err(ToolError::TellModel)
    }
}
