//! A request as plain text: the tools are in the system prompt, and calls and results are text in the
//! transcript. The bytes of a message stay the same from request to request, except for the reminder at
//! the end of the newest one.

use std::fmt::Write as _;

use crate::provider::text_tools::forms::MALFORMED_CALL;
use crate::provider::{
    Attempts, Effort, Pictures, PromptMessage, Request, ToolSchema, system_asking, wire,
};
use crate::types::session::{Call, Image, Thinking};

/// The text before the tools' schemas, in the form of Hermes and Qwen, which most open models were trained on (their
/// chat templates; Hermes-Function-Calling, prompt format).
const BEFORE_TOOLS: &str = "\
# Tools

You may call tools. These are their signatures, one on each line, within <tools></tools> tags:
<tools>";
const BEHIND_TOOLS: &str = r#"
</tools>

For each call, write a JSON object with the tool's name and its arguments within <tool_call></tool_call> tags:
<tool_call>
{"name": <tool-name>, "arguments": <arguments-object>}
</tool_call>
Several of these one after another are several calls. End your answer behind the last one: the results come in the next message within <tool_response></tool_response> tags, in the same order. Never write a result yourself.
An answer without a call goes to the person, who sees neither calls nor results."#;

/// Names no tag, so that a copy of it is no call.
const REMINDER: &str = "[If you need a tool, call it as described above, and end your answer there. Otherwise answer the person in words.]";
const NO_CALLS: &str = "[No tool can be called now. Answer the person in words.]";
/// Replaces a block that was too long to be kept.
const UNREADABLE: &str = "[A tool call that could not be read.]";
/// Beginnings of marks that only the program may write into the model's input.
const MARKS: [&str; 8] = [
    "<tool_response",
    "</tool_response",
    "<tool_result",
    "</tool_result",
    "<tool_call>",
    "</tool_call>",
    "<tool>",
    "</tool>",
];
/// The number of [`MARKS`], from the first, that are about results. No person may write these either.
const RESULT_MARKS: usize = 4;

/// The text form of a request.
pub(super) struct TextRequest<'a> {
    system: Vec<String>,
    parts: Vec<TextPart<'a>>,
    effort: Effort,
    attempts: Attempts,
    tokens_max: Option<u32>,
    pictures: &'a Pictures,
}

enum TextPart<'a> {
    User { text: String, images: Vec<&'a Image> },
    Assistant { text: String, thinking: &'a [Thinking] },
}

impl<'a> TextRequest<'a> {
    pub(super) fn of(request: &Request<'a>) -> Self {
        // Its calls are text, so no schema of the answer can hold them.
        let mut system = match request.facts.is_empty() {
            true => request.system.to_vec(),
            false => system_asking(request.system),
        };
        if !request.tools.is_empty() {
            // After the part that changes least, and before the parts that change with the conversation.
            system.insert(system.len().min(1), manual(request.tools));
        }
        let mut parts = Vec::new();
        for message in &request.messages {
            match message {
                PromptMessage::User { text, images } => {
                    push_user(&mut parts, &escape_marks(text, &MARKS[..RESULT_MARKS]), images);
                }
                PromptMessage::Assistant { text, thinking, calls } => {
                    let own_text = Some(text.trim()).filter(|text| !text.is_empty());
                    let own_text = own_text.map(str::to_owned).into_iter();
                    let text =
                        own_text.chain(calls.iter().map(block)).collect::<Vec<_>>().join("\n");
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
        let Request { effort, attempts, tokens_max, pictures, .. } = *request;
        Self { system, parts, effort, attempts, tokens_max, pictures }
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
            facts: &[],
            may_call: true,
            effort: self.effort,
            attempts: self.attempts,
            tokens_max: self.tokens_max,
            messages: messages.collect(),
            pictures: self.pictures,
        }
    }
}

fn push_user<'a>(parts: &mut Vec<TextPart<'a>>, added: &str, new_images: &[&'a Image]) {
    match parts.last_mut() {
        Some(TextPart::User { text, images }) => {
            text.push_str("\n\n");
            text.push_str(added);
            images.extend(new_images);
        }
        _ => parts.push(TextPart::User { text: added.to_owned(), images: new_images.to_vec() }),
    }
}

/// Returns the instructions for calls, with the tools.
fn manual(tools: &[ToolSchema]) -> String {
    let mut manual = BEFORE_TOOLS.to_owned();
    for ToolSchema { name, description, parameters } in tools {
        let (name, description) = (json_string(name), json_string(description));
        // Writing to a string cannot fail.
        let _ = write!(
            manual,
            "\n{{\"type\": \"function\", \"function\": {{\"name\": {name}, \"description\": {description}, \
             \"parameters\": {parameters}}}}}"
        );
    }
    manual + BEHIND_TOOLS
}

/// Returns a call as the model writes it.
fn block(call: &Call) -> String {
    let arguments = wire::arguments(&call.arguments);
    if call.tool == MALFORMED_CALL {
        let written = arguments.as_ref().and_then(|it| it.get("written")?.as_str());
        let written = written.filter(|written| !written.trim().is_empty());
        return written.unwrap_or(UNREADABLE).to_owned();
    }
    let arguments = if arguments.is_some() { &*call.arguments } else { "{}" };
    let name = json_string(&call.tool);
    format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>")
}

fn result(call: &Call) -> String {
    let failed = if call.outcome.is_error() { "Error: " } else { "" };
    let text = escape_marks(wire::result(call), &MARKS);
    format!("<tool_response>\n{failed}{text}\n</tool_response>")
}

fn json_string(text: &str) -> serde_json::Value {
    text.into()
}

/// Returns `text` with every forged mark escaped.
fn escape_marks(text: &str, marks: &[&str]) -> String {
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
