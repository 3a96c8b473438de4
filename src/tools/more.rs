//! The tools that a prompt has no room for: one tool describes them, and calls them by their names. A call by it is
//! taken for a call of the tool itself before anything else is done with it, so that it is allowed, run and shown as
//! one.

use std::fmt::Write as _;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{AnyTool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSet, ToolTerms, cut};
use crate::people::Role;
use crate::provider::{ToolCall, ToolSchema};

/// Its name.
pub const MORE_TOOLS: &str = "more_tools";

/// The tools that one search describes.
const FOUND_MAX: usize = 3;

/// As a model is told of it: the names of the tools behind it are in its description.
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

/// The call that is meant by one of this tool; other calls stay as they are.
pub fn meant(call: ToolCall) -> ToolCall {
    if call.name != MORE_TOOLS {
        return call;
    }
    let Ok(mut asked) = serde_json::from_str::<Value>(&call.arguments) else { return call };
    let Some(name) = asked["tool"].as_str().filter(|name| *name != MORE_TOOLS) else { return call };
    let name = name.to_owned();
    let arguments = match asked["arguments"].take() {
        // Written as a text by some models.
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
        let asked: Value = serde_json::from_str(arguments).unwrap_or_default();
        let Some(query) = asked["query"].as_str() else {
            return Err(ToolError::TellModel(format!(
                "{MORE_TOOLS} needs `query`, words for what is to be done; or `tool` with `arguments`."
            )));
        };
        let all = self.0.usable(cx.user());
        let mut text = String::new();
        for ToolSchema { name, description, parameters } in best(&all, query) {
            let _ = write!(text, "{name}: {description}\narguments: {parameters}\n\n");
        }
        if text.is_empty() {
            let names: Vec<_> = all.iter().map(|tool| tool.name.as_str()).collect();
            text = format!("Nothing fits. There are: {}", names.join(", "));
        }
        Ok(ToolOutput::text(cut(text.trim_end(), "Ask for something narrower.")))
    }
}

/// Those that fit a query best.
fn best<'a>(tools: &'a [ToolSchema], query: &str) -> impl Iterator<Item = &'a ToolSchema> {
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
