//! Tools with their types erased: arguments are JSON, as models write them. Each [`Tool`] is one.

use async_trait::async_trait;
use serde_json::Value;

use super::{
    CallPlace, CallTerms, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, ToolTerms, arguments,
    short_schema, without_nulls,
};
use crate::provider::ToolSchema;
use crate::types::call_files::CallFiles;
use crate::types::message::Address;

/// A tool with its type erased.
#[async_trait]
pub trait AnyTool: Send + Sync + 'static {
    fn terms(&self) -> ToolTerms;
    /// Returns the schema. The name in it is `[a-z0-9_]`, at most 64 characters.
    fn schema(&self) -> ToolSchema;

    /// Checks the arguments. Returns an explanation for the model if a call with them cannot begin.
    fn check(&self, _arguments: &str, _place: &CallPlace<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Returns the terms of a call with these arguments from an address.
    fn call_terms(&self, _arguments: &str, _here: &Address) -> CallTerms {
        CallTerms::of(self.terms().kind.reach())
    }

    /// Returns the files that a call with these arguments would send, or the paths that its command would see, as they
    /// are now. Sends and runs nothing.
    async fn call_files_json(
        &self,
        _arguments: &str,
        _cx: &ToolContext,
    ) -> Result<Option<CallFiles>, ToolError> {
        Ok(None)
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError>;
}

#[async_trait]
impl<T: Tool> AnyTool for T {
    fn terms(&self) -> ToolTerms {
        let ToolSpec { role, kind, retries, .. } = T::SPEC;
        ToolTerms { role, kind, retries }
    }

    fn schema(&self) -> ToolSchema {
        let mut parameters = schemars::schema_for!(T::Args).to_value();
        if let Some(object) = parameters.as_object_mut() {
            object.remove("$schema");
            object.remove("title");
        }
        short_schema::shorten(&mut parameters);
        // Some endpoints require the properties of a tool without any.
        if !parameters["properties"].is_object() {
            parameters["properties"] = Value::Object(serde_json::Map::new());
        }
        // Some endpoints do not know Rust's integer formats.
        for (_, property) in parameters["properties"].as_object_mut().into_iter().flatten() {
            property.as_object_mut().map(|property| property.remove("format"));
        }
        ToolSchema {
            name: T::SPEC.name.to_owned(),
            description: T::SPEC.description.to_owned(),
            parameters,
        }
    }

    fn check(&self, arguments: &str, place: &CallPlace<'_>) -> Result<(), String> {
        self.check_args(&parse::<T>(arguments)?, place)
    }

    fn call_terms(&self, arguments: &str, here: &Address) -> CallTerms {
        let Ok(args) = parse::<T>(arguments) else { return CallTerms::of(T::SPEC.kind.reach()) };
        CallTerms {
            reach: T::reach(&args, here),
            stands_for: T::stands_for(&args),
            kept_text: T::kept_text(&args).map(str::to_owned),
            kept_time: T::kept_time(&args).map(str::to_owned),
        }
    }

    async fn call_files_json(
        &self,
        arguments: &str,
        cx: &ToolContext,
    ) -> Result<Option<CallFiles>, ToolError> {
        let args = parse::<T>(arguments).map_err(ToolError::TellModel)?;
        self.call_files(args, cx).await
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let args = parse::<T>(arguments).map_err(ToolError::TellModel)?;
        self.check_args(&args, &cx.place()).map_err(ToolError::TellModel)?;
        self.call(args, cx).await
    }
}

fn parse<T: Tool>(arguments: &str) -> Result<T::Args, String> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    without_nulls(arguments).map_err(|error| {
        let schema = schemars::schema_for!(T::Args).to_value();
        let fault = arguments::fault(arguments, &schema, &error);
        format!("The arguments of {} are wrong: {fault}.", T::SPEC.name)
    })
}
