//! The forms in which models write calls: ours, which the prompt describes, and those that models were trained on and that
//! their servers fail to parse. Defines how each begins and ends, and parses the content of all that contain JSON.
//!
//! Shapes as in the models' own chat templates and vLLM's documents (docs.vllm.ai, Tool Calling).

use serde_json::{Value, json};

use super::{pythonic, tagged};
use crate::provider::{ToolCall, ToolSchema, wire};

/// The call that replaces an unreadable one. The tool of this name explains the mistake.
pub const MALFORMED_CALL: &str = "malformed_call";
/// The server name of our own tools.
pub(super) const OWN_SERVER: &str = "peacrab";
/// The name that models use for it which were trained to find tools on a machine.
const LOCAL_SERVER: &str = "local";
/// Prefix of the name of an MCP server's tool: `mcp_<server>_<tool>`.
const MCP: &str = "mcp_";
/// Maximum length of an unreadable block that is shown to the model again, in characters.
const SHOWN_CHARS_MAX: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    /// `<tool>{"server_name":…,"tool_name":…,"arguments":…}</tool>`
    Own,
    /// A result that the model invents.
    Result,
    /// Hermes, Qwen: JSON between the tags. Qwen3-Coder: `<function=…>`. GLM: `<arg_key>…`.
    ToolCall,
    /// `<function=name>` with JSON (Llama 3) or `<parameter=…>` (Qwen3-Coder).
    Function,
    /// `[TOOL_CALLS][{…}]`, `[TOOL_CALLS]name[ARGS]{…}`
    Mistral,
    /// DeepSeek V3 and V3.1, and Kimi: special tokens around names and JSON.
    DeepSeek,
    DeepSeekCall,
    Kimi,
    KimiCall,
    /// `<|python_tag|>{…}`
    Llama,
    /// The answer is nothing else: `[name(key="value")]` (Llama 4), `{"name": …}` (Llama 3), or ours
    /// without its tags.
    Whole,
}

/// The marks around one of several calls, and between its name and its arguments.
struct Marks {
    begin: &'static str,
    end: &'static str,
    middle: &'static str,
}

const DEEPSEEK: Marks =
    Marks {
        begin: "<｜tool▁call▁begin｜>", end: "<｜tool▁call▁end｜>", middle: "<｜tool▁sep｜>"
    };
const KIMI: Marks = Marks {
    begin: "<|tool_call_begin|>",
    end: "<|tool_call_end|>",
    middle: "<|tool_call_argument_begin|>",
};

/// The starts of blocks. None is the beginning of another.
pub(super) const OPENERS: [(&str, CallForm); 10] = [
    ("<tool>", CallForm::Own),
    ("<tool_result", CallForm::Result),
    ("<tool_call>", CallForm::ToolCall),
    ("<function=", CallForm::Function),
    ("[TOOL_CALLS]", CallForm::Mistral),
    ("<｜tool▁calls▁begin｜>", CallForm::DeepSeek),
    (DEEPSEEK.begin, CallForm::DeepSeekCall),
    ("<|tool_calls_section_begin|>", CallForm::Kimi),
    (KIMI.begin, CallForm::KimiCall),
    ("<|python_tag|>", CallForm::Llama),
];

/// The end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockEnd {
    Closer(&'static str),
    /// At the end of its first JSON value.
    Value,
    /// At the end of the answer.
    Never,
}

/// Result of the check that distinguishes an opener of a block from a mere mention of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    Yes,
    No,
    /// The following text decides.
    Perhaps,
}

impl Begins {
    /// Returns the decision if no deciding text follows.
    pub(super) fn decided(self) -> Self {
        if self == Self::Perhaps { Self::No } else { self }
    }
}

/// A call as the model wrote it, with our name for the tool, if we have one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    pub(super) name: String,
    /// JSON, not necessarily an object.
    pub(super) arguments: String,
}

/// Returns the first opener in `text`, in upper or lower case.
pub(super) fn first_opener(text: &str) -> Option<(usize, CallForm, &'static str)> {
    let bytes = text.as_bytes();
    let places = (0..bytes.len()).filter(|&at| matches!(bytes[at], b'<' | b'['));
    places
        .filter_map(|at| {
            let is_here = |opener: &str| {
                let here = bytes.get(at..at + opener.len());
                here.is_some_and(|here| here.eq_ignore_ascii_case(opener.as_bytes()))
            };
            let found = OPENERS.iter().find(|(opener, _)| is_here(opener));
            found.map(|&(opener, form)| (at, form, opener))
        })
        .next()
}

impl CallForm {
    pub(super) fn ends(self) -> BlockEnd {
        match self {
            Self::Own => BlockEnd::Closer("</tool>"),
            Self::ToolCall => BlockEnd::Closer("</tool_call>"),
            Self::Function => BlockEnd::Closer("</function>"),
            Self::Mistral => BlockEnd::Value,
            Self::DeepSeek => BlockEnd::Closer("<｜tool▁calls▁end｜>"),
            Self::DeepSeekCall => BlockEnd::Closer(DEEPSEEK.end),
            Self::Kimi => BlockEnd::Closer("<|tool_calls_section_end|>"),
            Self::KimiCall => BlockEnd::Closer(KIMI.end),
            Self::Llama | Self::Whole | Self::Result => BlockEnd::Never,
        }
    }

    /// Decides if this form's opener begins a block when `behind` follows it.
    pub(super) fn begins(self, behind: &str, tools: &[ToolSchema]) -> Begins {
        let bare = behind.trim_start();
        let names = || tools.iter().map(|tool| tool.name.as_str());
        match self {
            Self::Own | Self::ToolCall => {
                let marks = ["{", "[", "```", "<function="];
                any_of(bare, marks.into_iter().chain(names()))
            }
            Self::Function => match behind.split_once('>') {
                Some((name, _)) if names().any(|known| known == resolved(name, tools)) => {
                    Begins::Yes
                }
                Some(_) => Begins::No,
                None => Begins::Perhaps,
            },
            Self::Mistral => match bare.strip_prefix('[') {
                Some(list) => any_of(list.trim_start(), ["{"]),
                None => any_of(bare, names()),
            },
            _ => Begins::Yes,
        }
    }
}

/// Decides if the whole answer may consist of calls.
pub(super) fn whole(text: &str, tools: &[ToolSchema]) -> Begins {
    let bare = text.trim_start();
    if let Some(object) = bare.strip_prefix('{') {
        return any_of(object.trim_start(), ["\"name\"", "\"server_name\"", "\"tool_name\""]);
    }
    let python = bare.strip_prefix(pythonic::START).unwrap_or(bare).trim_start();
    match python.strip_prefix('[') {
        Some(list) => {
            let calls: Vec<_> = tools.iter().map(|tool| format!("{}(", tool.name)).collect();
            any_of(list.trim_start(), calls.iter().map(String::as_str))
        }
        None if python.is_empty() || pythonic::START.starts_with(bare) => Begins::Perhaps,
        None => Begins::No,
    }
}

fn any_of<'a>(text: &str, marks: impl IntoIterator<Item = &'a str>) -> Begins {
    marks.into_iter().fold(Begins::No, |begins, mark| match begins {
        Begins::Yes => Begins::Yes,
        _ if text.starts_with(mark) => Begins::Yes,
        _ if mark.starts_with(text) => Begins::Perhaps,
        begins => begins,
    })
}

/// Returns the server and the tool that a model uses for one of our names.
pub(super) fn placed(name: &str) -> (&str, &str) {
    name.strip_prefix(MCP).and_then(|name| name.split_once('_')).unwrap_or((OWN_SERVER, name))
}

/// Parses our own form. Returns an explanation if that fails.
pub(super) fn own(body: &str, tools: &[ToolSchema]) -> Result<Written, String> {
    let value: Value = serde_json::from_str(unfenced(body))
        .map_err(|error| format!("it is not valid JSON ({error})"))?;
    let field =
        |name: &str| value.get(name).ok_or_else(|| format!("the field `{name}` is missing"));
    let word = |name: &str| {
        field(name)?.as_str().ok_or_else(|| format!("the field `{name}` is not a string"))
    };
    let (server, tool, arguments) = (word("server_name")?, word("tool_name")?, field("arguments")?);
    let name = if [OWN_SERVER, LOCAL_SERVER].contains(&server) {
        tool.to_owned()
    } else {
        let of_server = format!("{MCP}{server}_");
        if !tools.iter().any(|tool| tool.name.starts_with(&of_server)) {
            let mut servers = vec![OWN_SERVER];
            servers.extend(tools.iter().map(|tool| placed(&tool.name).0));
            servers.sort_unstable();
            servers.dedup();
            return Err(format!(
                "there is no server `{server}`; there are: {}",
                servers.join(", ")
            ));
        }
        of_server + tool
    };
    Ok(Written { name, arguments: arguments.to_string() })
}

/// Parses a block of another form. None if it is not a call.
pub(super) fn foreign(form: CallForm, body: &str, tools: &[ToolSchema]) -> Option<Vec<Written>> {
    let calls = match form {
        CallForm::ToolCall => match unfenced(body) {
            text if text.starts_with(['{', '[']) => objects(text, tools)?,
            text if text.starts_with("<function=") => tagged::functions(text, tools)?,
            text => vec![tagged::pairs(text, tools)?],
        },
        CallForm::Function => tagged::functions(&format!("<function={body}"), tools)?,
        CallForm::Mistral => match body.trim() {
            list if list.starts_with('[') => objects(list, tools)?,
            named => vec![mistral(named, tools)?],
        },
        CallForm::DeepSeek => each(body, &DEEPSEEK, tools)?,
        CallForm::DeepSeekCall => vec![deepseek(body, tools)?],
        CallForm::Kimi => each(body, &KIMI, tools)?,
        CallForm::KimiCall => {
            let (name, arguments) = body.split_once(KIMI.middle)?;
            vec![named(name, arguments, tools)?]
        }
        CallForm::Llama => objects(body, tools)?,
        CallForm::Whole if body.trim_start().starts_with('{') => match own(body, tools) {
            Ok(written) => vec![written],
            Err(_) => objects(body, tools)?,
        },
        CallForm::Whole => pythonic::calls(body)?,
        CallForm::Own | CallForm::Result => return None,
    };
    (!calls.is_empty()).then_some(calls)
}

/// Parses JSON objects one after another, with `;` or nothing between them, or in a list.
fn objects(text: &str, tools: &[ToolSchema]) -> Option<Vec<Written>> {
    let mut calls = Vec::new();
    let mut rest = text.trim();
    for end in ["<|eom_id|>", "<|eot_id|>"] {
        rest = rest.strip_suffix(end).unwrap_or(rest);
    }
    while !rest.is_empty() {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next()?.ok()? {
            Value::Array(list) => {
                for value in &list {
                    calls.push(object(value, tools)?);
                }
            }
            value => calls.push(object(&value, tools)?),
        }
        rest = rest[values.byte_offset()..].trim_start_matches([';', ' ', '\r', '\n']);
    }
    Some(calls)
}

fn object(value: &Value, tools: &[ToolSchema]) -> Option<Written> {
    let value = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
    let name = value.get("name")?.as_str()?;
    let arguments = value.get("arguments").or_else(|| value.get("parameters"))?;
    // Some models write an object as a string, as in the API.
    let arguments = match arguments.as_str().filter(|text| wire::arguments(text).is_some()) {
        Some(text) => text.to_owned(),
        None => arguments.to_string(),
    };
    Some(Written { name: resolved(name, tools), arguments })
}

fn named(name: &str, arguments: &str, tools: &[ToolSchema]) -> Option<Written> {
    let arguments: Value = serde_json::from_str(unfenced(arguments)).ok()?;
    let name = resolved(name, tools);
    (!name.is_empty()).then(|| Written { name, arguments: arguments.to_string() })
}

fn mistral(text: &str, tools: &[ToolSchema]) -> Option<Written> {
    let (head, _) = text.split_once('{')?;
    let arguments = &text[head.len()..];
    let name = head.split_once('[').map_or(head, |(name, _)| name);
    named(name, arguments, tools)
}

fn each(body: &str, marks: &Marks, tools: &[ToolSchema]) -> Option<Vec<Written>> {
    let parts = body.split(marks.begin).skip(1);
    let parts = parts.map(|part| part.split_once(marks.end).map_or(part, |(part, _)| part));
    parts
        .map(|part| match marks.begin == DEEPSEEK.begin {
            true => deepseek(part, tools),
            false => {
                let (name, arguments) = part.split_once(marks.middle)?;
                named(name, arguments, tools)
            }
        })
        .collect()
}

/// Parses DeepSeek's form. V3.1: `name SEP {…}`. V3: `function SEP name`, and the arguments in a code
/// fence.
fn deepseek(text: &str, tools: &[ToolSchema]) -> Option<Written> {
    let (before, behind) = text.split_once(DEEPSEEK.middle)?;
    let behind = behind.trim();
    if behind.starts_with('{') {
        return named(before, behind, tools);
    }
    let at = behind.find(['\n', '`', '{'])?;
    let (name, arguments) = behind.split_at(at);
    named(name, arguments, tools)
}

/// Returns our name for a tool that a model calls `functions.look:0`, `look` or, if a name had to be
/// respelt, `l_ok`. An unknown name is returned as it is.
pub(super) fn resolved(name: &str, tools: &[ToolSchema]) -> String {
    let name = name.trim();
    let bare = name.strip_prefix("functions.").unwrap_or(name);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let bare = match bare.rsplit_once(':') {
        Some((bare, number)) if is_number(number) => bare,
        _ => bare,
    };
    let known = |name: &str| tools.iter().find(|tool| tool.name == name);
    let respelt = || tools.iter().find(|tool| wire::tool_name(&tool.name) == wire::tool_name(bare));
    known(name).or_else(|| known(bare)).or_else(respelt).map_or(bare, |tool| &tool.name).to_owned()
}

/// Removes a code fence around a text.
pub(super) fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|text| text.strip_suffix("```")) else {
        return text;
    };
    let word =
        inner.len() - inner.trim_start_matches(|sign: char| sign.is_ascii_alphanumeric()).len();
    inner[word..].trim()
}

/// Returns the call that explains to a model what is wrong with its text.
pub(super) fn malformed(fault: &str, written: &str) -> ToolCall {
    let shown: String = written.chars().take(SHOWN_CHARS_MAX).collect();
    let arguments = json!({"fault": fault, "written": shown}).to_string();
    ToolCall { id: wire::new_id(), name: MALFORMED_CALL.to_owned(), arguments }
}
