//! A tool whose lowest role is set by the config.

use async_trait::async_trait;

use super::{AnyTool, CallPlace, CallTerms, ToolContext, ToolError, ToolOutput, ToolTerms};
use crate::people::Role;
use crate::provider::ToolSchema;
use crate::types::call_files::CallFiles;
use crate::types::message::Address;

/// A tool for people with at least this role, whatever its own terms.
pub(super) struct ForRole<T>(pub(super) Role, pub(super) T);

#[async_trait]
impl<T: AnyTool> AnyTool for ForRole<T> {
    fn terms(&self) -> ToolTerms {
        ToolTerms { role: self.0, ..self.1.terms() }
    }

    fn schema(&self) -> ToolSchema {
        self.1.schema()
    }

    fn check(&self, arguments: &str, place: &CallPlace<'_>) -> Result<(), String> {
        self.1.check(arguments, place)
    }

    fn call_terms(&self, arguments: &str, here: &Address) -> CallTerms {
        self.1.call_terms(arguments, here)
    }

    async fn call_files_json(
        &self,
        arguments: &str,
        cx: &ToolContext,
    ) -> Result<Option<CallFiles>, ToolError> {
        self.1.call_files_json(arguments, cx).await
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.1.call_json(arguments, cx).await
    }
}
