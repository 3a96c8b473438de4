//! The network rule of `exec`: calls that ask for the network are refused, need approval, or run.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::provider::ToolSchema;
use crate::tools::{
    AnyTool, CallPlace, CallTerms, Reach, ToolContext, ToolError, ToolOutput, ToolTerms,
};
use crate::trust::acts::CommandAccess;
use crate::types::call_files::CallFiles;
use crate::types::message::Address;
use crate::types::words::words;

/// Decides if a command can have the network, which a call has to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkRule {
    #[default]
    Off,
    /// Somebody is asked about each such call.
    Ask,
    On,
}

words!(NetworkRule { Off = "off", Ask = "ask", On = "on" });

/// The argument that asks for the network.
const ARGUMENT: &str = "network";

/// The error of a call that asks for the network where no command has it.
const IS_OFF: &str = "Denied: commands have no network here. Only the owner can change that, in the config ([exec] \
    network).";

/// A tool whose calls can ask for the network.
pub(super) struct ByNetworkRule<T> {
    pub(super) rule: NetworkRule,
    /// True if the sandbox hides files. Otherwise each command sees everything, whatever it asks for.
    pub(super) files_sandboxed: bool,
    pub(super) tool: T,
}

#[async_trait]
impl<T: AnyTool> AnyTool for ByNetworkRule<T> {
    fn terms(&self) -> ToolTerms {
        self.tool.terms()
    }

    /// Leaves the argument out if it would be refused.
    fn schema(&self) -> ToolSchema {
        let mut schema = self.tool.schema();
        if self.rule == NetworkRule::Off
            && let Some(properties) = schema.parameters["properties"].as_object_mut()
        {
            properties.remove(ARGUMENT);
        }
        schema
    }

    fn check(&self, arguments: &str, place: &CallPlace<'_>) -> Result<(), String> {
        self.tool.check(arguments, place)?;
        match self.rule == NetworkRule::Off && asks_for_network(arguments) {
            true => Err(IS_OFF.to_owned()),
            false => Ok(()),
        }
    }

    fn call_terms(&self, arguments: &str, here: &Address) -> CallTerms {
        let terms = self.tool.call_terms(arguments, here);
        let reach = match (terms.reach, self.rule) {
            (Reach::Command(_), _) if !self.files_sandboxed => Reach::Command(CommandAccess::Both),
            (Reach::Command(CommandAccess::Network), NetworkRule::Ask | NetworkRule::Off) => {
                Reach::Command(CommandAccess::AskedNetwork)
            }
            (reach, _) => reach,
        };
        CallTerms { reach, ..terms }
    }

    async fn call_files_json(
        &self,
        arguments: &str,
        cx: &ToolContext,
    ) -> Result<Option<CallFiles>, ToolError> {
        self.tool.call_files_json(arguments, cx).await
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if self.rule == NetworkRule::Off && asks_for_network(arguments) {
            return Err(ToolError::TellModel(IS_OFF.to_owned()));
        }
        self.tool.call_json(arguments, cx).await
    }
}

fn asks_for_network(arguments: &str) -> bool {
    let arguments = serde_json::from_str::<Value>(arguments).unwrap_or_default();
    arguments[ARGUMENT] == Value::Bool(true)
}
