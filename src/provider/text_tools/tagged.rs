//! Calls whose arguments are between tags, one by one and without quotes: Qwen3-Coder's
//! `<function=name><parameter=key>value</parameter></function>` and GLM's
//! `name<arg_key>key</arg_key><arg_value>value</arg_value>`.

use serde_json::{Map, Value};

use crate::provider::text_tools::forms::{self, WrittenCall};
use crate::provider::{ToolSchema, wire};

/// Parses functions one after another. Llama 3 writes JSON where Qwen writes parameters.
pub(super) fn functions(text: &str, tools: &[ToolSchema]) -> Option<Vec<WrittenCall>> {
    let parts = text.split("<function=").skip(1);
    parts
        .map(|part| {
            let part = part.split_once("</function>").map_or(part, |(part, _)| part);
            let (name, content) = part.split_once('>')?;
            let name = forms::resolve_tool_name(name, tools);
            let content = content.trim();
            if content.starts_with('{') {
                let arguments = wire::arguments(content)?;
                return Some(WrittenCall { name, arguments: Value::from(arguments).to_string() });
            }
            let parameters = content.split("<parameter=").skip(1);
            let parameters = parameters.map(|parameter| {
                let (key, value) = parameter.split_once('>')?;
                Some((key.trim(), value.rsplit_once("</parameter>").map_or(value, |it| it.0)))
            });
            typed_call(name, parameters.collect::<Option<_>>()?, tools)
        })
        .collect()
}

/// Parses GLM's form. The name alone is a call without arguments.
pub(super) fn pairs(text: &str, tools: &[ToolSchema]) -> Option<WrittenCall> {
    let mut parts = text.split("<arg_key>");
    let name = forms::resolve_tool_name(parts.next()?, tools);
    let is_name = |sign: char| sign.is_ascii_alphanumeric() || "_-.".contains(sign);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let pairs = parts.map(|part| {
        let (key, rest) = part.split_once("</arg_key>")?;
        let (_, value) = rest.split_once("<arg_value>")?;
        Some((key.trim(), value.rsplit_once("</arg_value>").map_or(value, |it| it.0)))
    });
    let pairs = pairs.collect::<Option<_>>()?;
    typed_call(name, pairs, tools)
}

fn typed_call(name: String, pairs: Vec<(&str, &str)>, tools: &[ToolSchema]) -> Option<WrittenCall> {
    let schema = tools.iter().find(|tool| tool.name == name).map(|tool| &tool.parameters);
    let mut arguments = Map::new();
    for (key, value) in pairs {
        let kind = schema.map(|schema| &schema["properties"][key]["type"]);
        let value = typed(kind.and_then(Value::as_str), value);
        if key.is_empty() || arguments.insert(key.to_owned(), value).is_some() {
            return None;
        }
    }
    Some(WrittenCall { name, arguments: Value::from(arguments).to_string() })
}

/// Converts a value. A string stays as it is, without the line ends next to the tags. Everything else is
/// JSON if possible.
fn typed(kind: Option<&str>, value: &str) -> Value {
    let text = value.strip_prefix('\n').unwrap_or(value);
    let text = text.strip_suffix('\n').unwrap_or(text);
    match kind {
        Some("string") => text.into(),
        _ => serde_json::from_str(text.trim()).unwrap_or_else(|_| text.into()),
    }
}
