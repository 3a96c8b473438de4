//! `more_tools`, which describes and calls the tools that do not fit into a prompt. Its call becomes a call of the
//! tool itself before anything else happens, so that it is allowed, run and shown as one.

use std::fmt::Write as _;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{AnyTool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSet, ToolTerms, cut};
use crate::people::Role;
use crate::provider::{ToolCall, ToolSchema};

/// The name of the tool.
pub const MORE_TOOLS: &str = "more_tools";

/// Maximum number of tools that one search describes.
const FOUND_MAX: usize = 3;

/// Returns the schema, with the names of the tools behind it in its description.
pub(super) fn schema(names: &[&str]) -> ToolSchema {
    let description = format!(
        "Further tools: {}. With query: how to call them. With tool and arguments: calls one.",
        names.join(", ")
    );
    ToolSchema {
        name: MORE_TOOLS.to_owned(),
        description,
        parameters: json!({
            "type": "object",
            "properties": {
                "query": { "type": "string" },
                "tool": { "type": "string" },
                "arguments": { "type": "object" },
            },
        }),
    }
}

/// Converts a call of this tool into the call that it stands for. Other calls stay as they are.
pub fn unwrap_call(call: ToolCall) -> ToolCall {
    if call.name != MORE_TOOLS {
        return call;
    }
    let Ok(mut request) = serde_json::from_str::<Value>(&call.arguments) else { return call };
    let Some(name) = request["tool"].as_str().filter(|name| *name != MORE_TOOLS) else {
        return call;
    };
    let name = name.to_owned();
    let arguments = match request["arguments"].take() {
        // Some models write it as a text.
        Value::String(text) => text,
        Value::Null => "{}".to_owned(),
        arguments => arguments.to_string(),
    };
    ToolCall { name, arguments, ..call }
}

/// Describes the tools of a set.
pub(super) struct MoreTools(pub(super) ToolSet);

#[async_trait]
impl AnyTool for MoreTools {
    fn terms(&self) -> ToolTerms {
        ToolTerms { role: Role::Guest, kind: ToolKind::Reads, retries: true }
    }

    fn schema(&self) -> ToolSchema {
        schema(&[])
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let request: Value = serde_json::from_str(arguments).unwrap_or_default();
        let Some(query) = request["query"].as_str() else {
            return Err(ToolError::TellModel(format!(
                "{MORE_TOOLS} needs `query`, words for what is to be done; or `tool` with `arguments`."
            )));
        };
        let all = self.0.usable(cx.user());
        let mut text = String::new();
        for ToolSchema { name, description, parameters } in best_matches(&all, query) {
            let _ = write!(text, "{name}: {description}\narguments: {parameters}\n\n");
        }
        if text.is_empty() {
            let names: Vec<_> = all.iter().map(|tool| tool.name.as_str()).collect();
            text = format!("Nothing fits. There are: {}", names.join(", "));
        }
        Ok(ToolOutput::text(cut(text.trim_end(), "Ask for something narrower.")))
    }
}

/// Returns the tools that match a query best.
fn best_matches<'a>(tools: &'a [ToolSchema], query: &str) -> impl Iterator<Item = &'a ToolSchema> {
    let query = query.to_lowercase();
    let words: Vec<_> = query
        .split(|sign: char| !sign.is_alphanumeric() && sign != '_')
        .filter(|word| word.len() > 1)
        .collect();
    let score = |tool: &ToolSchema| -> usize {
        let description = tool.description.to_lowercase();
        let hits = words.iter().map(|word| {
            8 * usize::from(tool.name == *word)
                + 3 * usize::from(tool.name.contains(word))
                + usize::from(description.contains(word))
        });
        hits.sum()
    };
    let mut found: Vec<_> =
        tools.iter().map(|tool| (score(tool), tool)).filter(|(score, _)| *score > 0).collect();
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.into_iter().take(FOUND_MAX).map(|(_, tool)| tool)
}
