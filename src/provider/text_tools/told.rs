//! A request as plain text: the tools are in the system prompt, and calls and results are text in the
//! transcript. The bytes of a message stay the same from request to request, except for the reminder at
//! the end of the newest one.

use std::fmt::Write as _;

use crate::provider::text_tools::forms::{self, MALFORMED_CALL};
use crate::provider::{Attempts, Effort, Pictures, PromptMessage, Request, ToolSchema, wire};
use crate::types::session::{Call, Image, Thinking};

const RULES: &str = r#"# Tools

You call a tool by writing a block of exactly this form:
<tool>{"server_name":"SERVER","tool_name":"TOOL","arguments":{}}</tool>
- Between the tags stands one JSON object with all three fields. `arguments` is an object that fits the tool's schema.
- Several blocks one after another are several calls. End your answer behind the last one: the results come in the next message as <tool_result> blocks, in the same order. Never write a result yourself.
- An answer without a block goes to the person, who sees neither blocks nor results."#;

const REMINDER: &str = r#"[Call a tool by a block as the rules above say, and end your answer there; without one, your answer goes to the person.]"#;
const NO_CALLS: &str = "[No tool can be called now. Answer the person in words.]";
/// Replaces a block that was too long to be kept.
const UNREADABLE: &str = "[A tool call that could not be read.]";
/// Beginnings of marks that only the program may write into the model's input.
const MARKS: [&str; 4] = ["<tool_result", "</tool_result", "<tool>", "</tool>"];

/// The text form of a request.
pub(super) struct TextRequest<'a> {
    system: Vec<String>,
    parts: Vec<TextPart<'a>>,
    effort: Effort,
    attempts: Attempts,
    pictures: &'a Pictures,
}

enum TextPart<'a> {
    User { text: String, images: Vec<&'a Image> },
    Assistant { text: String, thinking: &'a [Thinking] },
}

impl<'a> TextRequest<'a> {
    pub(super) fn of(request: &Request<'a>) -> Self {
        let mut system = request.system.to_vec();
        if !request.tools.is_empty() {
            // After the part that changes least, and before the parts that change with the conversation.
            system.insert(system.len().min(1), manual(request.tools));
        }
        let mut parts = Vec::new();
        for message in &request.messages {
            match message {
                PromptMessage::User { text, images } => {
                    push_user(&mut parts, &defused(text, &MARKS[..2]), images);
                }
                PromptMessage::Assistant { text, thinking, calls } => {
                    let said = Some(text.trim()).filter(|text| !text.is_empty());
                    let said = said.map(str::to_owned).into_iter();
                    let text = said.chain(calls.iter().map(block)).collect::<Vec<_>>().join("\n");
                    parts.push(TextPart::Assistant { text, thinking });
                }
                PromptMessage::Results(calls) => {
                    let results: Vec<_> = calls.iter().map(result).collect();
                    push_user(&mut parts, &results.join("\n"), &[]);
                }
            }
        }
        if !request.tools.is_empty() {
            push_user(&mut parts, if request.may_call { REMINDER } else { NO_CALLS }, &[]);
        }
        let Request { effort, attempts, pictures, .. } = *request;
        Self { system, parts, effort, attempts, pictures }
    }

    pub(super) fn request(&self) -> Request<'_> {
        let messages = self.parts.iter().map(|part| match part {
            TextPart::User { text, images } => {
                PromptMessage::User { text: text.clone(), images: images.clone() }
            }
            TextPart::Assistant { text, thinking } => {
                PromptMessage::Assistant { text, thinking, calls: &[] }
            }
        });
        Request {
            system: &self.system,
            tools: &[],
            may_call: true,
            effort: self.effort,
            attempts: self.attempts,
            messages: messages.collect(),
            pictures: self.pictures,
        }
    }
}

fn push_user<'a>(parts: &mut Vec<TextPart<'a>>, words: &str, seen: &[&'a Image]) {
    match parts.last_mut() {
        Some(TextPart::User { text, images }) => {
            text.push_str("\n\n");
            text.push_str(words);
            images.extend(seen);
        }
        _ => parts.push(TextPart::User { text: words.to_owned(), images: seen.to_vec() }),
    }
}

/// Returns the rules and the tools, by server.
fn manual(tools: &[ToolSchema]) -> String {
    let mut manual = RULES.to_owned();
    let mut servers: Vec<&str> = Vec::new();
    for tool in tools {
        let (server, _) = forms::placed(&tool.name);
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    for server in servers {
        // Writing to a string cannot fail.
        let _ = write!(manual, "\n\n## Server `{server}`");
        for tool in tools {
            let (of, name) = forms::placed(&tool.name);
            if of == server {
                let ToolSchema { description, parameters, .. } = tool;
                let _ = write!(manual, "\n\n### {name}\n{description}\nArguments: {parameters}");
            }
        }
    }
    manual
}

/// Returns a call as the model writes it.
fn block(call: &Call) -> String {
    let arguments = wire::arguments(&call.arguments);
    if call.tool == MALFORMED_CALL {
        let written = arguments.as_ref().and_then(|it| it.get("written")?.as_str());
        let written = written.filter(|written| !written.trim().is_empty());
        return written.unwrap_or(UNREADABLE).to_owned();
    }
    let (server, tool) = forms::placed(&call.tool);
    let arguments = if arguments.is_some() { &*call.arguments } else { "{}" };
    format!(
        r#"<tool>{{"server_name":{},"tool_name":{},"arguments":{arguments}}}</tool>"#,
        quoted(server),
        quoted(tool)
    )
}

fn result(call: &Call) -> String {
    let failed = if call.outcome.is_error() { r#" failed="true""# } else { "" };
    let text = defused(wire::result(call), &MARKS);
    let name = if call.tool == MALFORMED_CALL {
        String::new()
    } else {
        let (server, tool) = forms::placed(&call.tool);
        let (server, tool) = (wire::tool_name(server), wire::tool_name(tool));
        format!(r#" server_name="{server}" tool_name="{tool}""#)
    };
    format!("<tool_result{name}{failed}>\n{text}\n</tool_result>")
}

fn quoted(text: &str) -> serde_json::Value {
    text.into()
}

/// Returns `text` with every forged mark escaped.
fn defused(text: &str, marks: &[&str]) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, sign) in text.char_indices() {
        let is_mark = |mark: &&str| {
            let here = text.as_bytes().get(at..at + mark.len());
            here.is_some_and(|here| here.eq_ignore_ascii_case(mark.as_bytes()))
        };
        if sign == '<' && marks.iter().any(is_mark) {
            out.push_str("&lt;");
        } else {
            out.push(sign);
        }
    }
    out
}
