//! The forms in which models write calls: that of Hermes and Qwen, which the prompt describes, our older one with a
//! server's name, and others that servers fail to parse. Defines their begin and end, and parses those with JSON.
//!
//! Shapes as in the models' own chat templates and vLLM's documents (docs.vllm.ai, Tool Calling).

use serde_json::{Value, json};

use super::{pythonic, tagged};
use crate::provider::{ToolCall, ToolSchema, wire};

/// The call that replaces an unreadable one. The tool of this name explains the mistake.
pub const MALFORMED_CALL: &str = "malformed_call";
/// The server name of our own tools.
const OWN_SERVER: &str = "peacrab";
/// The same, as used by models that were trained to find tools on a machine.
const LOCAL_SERVER: &str = "local";
/// Prefix of the name of an MCP server's tool: `mcp_<server>_<tool>`.
const MCP: &str = "mcp_";
pub(super) const FENCE: &str = "```";
/// Maximum length of the word after a fence: `json`, `tool_call`.
pub(super) const FENCE_WORD_MAX: usize = 16;
/// Maximum number of blanks between a code fence and its content.
pub(super) const FENCE_BLANKS_MAX: usize = 64;
/// Maximum length of an unreadable block that is shown to the model again, in characters.
const SHOWN_CHARS_MAX: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    /// `<tool>{"server_name":…,"tool_name":…,"arguments":…}</tool>`
    WithServer,
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
    /// JSON in a code fence. A call only if it names a tool.
    Fence,
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
pub(super) const OPENERS: [(&str, CallForm); 11] = [
    ("<tool>", CallForm::WithServer),
    ("<tool_result", CallForm::Result),
    ("<tool_response", CallForm::Result),
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
    /// The end of its first JSON value.
    Value,
    /// The end of the answer.
    Never,
}

/// Result of the check that distinguishes an opener of a block from a mere mention of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenerCheck {
    Yes,
    No,
    /// The following text decides.
    Perhaps,
}

impl OpenerCheck {
    /// Returns the decision if no deciding text follows.
    pub(super) fn decided(self) -> Self {
        if self == Self::Perhaps { Self::No } else { self }
    }
}

/// A call as the model wrote it, with our name for the tool, if we have one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WrittenCall {
    pub(super) name: String,
    /// JSON, not necessarily an object.
    pub(super) arguments: String,
}

/// Code fences as openers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fences {
    Ignored,
    Searched {
        /// The character before the text is a backtick.
        after_tick: bool,
    },
}

/// An opener in a text.
pub(super) struct FoundOpener {
    pub(super) at: usize,
    pub(super) form: CallForm,
    /// The length of the opener, in bytes.
    pub(super) length: usize,
}

/// Returns the first opener in `text`, in upper or lower case.
pub(super) fn first_opener(text: &str, fences: Fences) -> Option<FoundOpener> {
    let bytes = text.as_bytes();
    let places = (0..bytes.len()).filter(|&at| matches!(bytes[at], b'<' | b'[' | b'`'));
    places
        .filter_map(|at| {
            if bytes[at] == b'`' {
                let Fences::Searched { after_tick } = fences else { return None };
                let is_fence = if at == 0 { !after_tick } else { bytes[at - 1] != b'`' };
                let length = fence_of_json(&text[at..]).filter(|_| is_fence);
                return length.map(|length| FoundOpener { at, form: CallForm::Fence, length });
            }
            let is_here = |opener: &str| {
                let here = bytes.get(at..at + opener.len());
                here.is_some_and(|here| here.eq_ignore_ascii_case(opener.as_bytes()))
            };
            let found = OPENERS.iter().find(|(opener, _)| is_here(opener));
            found.map(|&(opener, form)| FoundOpener { at, form, length: opener.len() })
        })
        .next()
}

/// Returns the length of a code fence at the start of `text`, with its word and the blanks, if a JSON object follows it.
fn fence_of_json(text: &str) -> Option<usize> {
    let behind = text.strip_prefix(FENCE)?;
    let word = behind.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_')?;
    let blanks = behind[word..].find(|sign: char| !" \t\r\n".contains(sign))?;
    let begins = behind[word + blanks..].starts_with('{');
    let is_near = word <= FENCE_WORD_MAX && blanks <= FENCE_BLANKS_MAX;
    (begins && is_near).then_some(FENCE.len() + word + blanks)
}

impl CallForm {
    pub(super) fn ends(self) -> BlockEnd {
        match self {
            Self::WithServer => BlockEnd::Closer("</tool>"),
            Self::ToolCall => BlockEnd::Closer("</tool_call>"),
            Self::Function => BlockEnd::Closer("</function>"),
            Self::Mistral => BlockEnd::Value,
            Self::DeepSeek => BlockEnd::Closer("<｜tool▁calls▁end｜>"),
            Self::DeepSeekCall => BlockEnd::Closer(DEEPSEEK.end),
            Self::Kimi => BlockEnd::Closer("<|tool_calls_section_end|>"),
            Self::KimiCall => BlockEnd::Closer(KIMI.end),
            Self::Fence => BlockEnd::Closer(FENCE),
            Self::Llama | Self::Whole | Self::Result => BlockEnd::Never,
        }
    }

    /// Decides if this form's opener begins a block when `behind` follows it.
    pub(super) fn begins(self, behind: &str, tools: &[ToolSchema]) -> OpenerCheck {
        let bare = behind.trim_start();
        let names = || tools.iter().map(|tool| tool.name.as_str());
        match self {
            Self::WithServer | Self::ToolCall => {
                let marks = ["{", "[", "```", "<function="];
                any_of(bare, marks.into_iter().chain(names()))
            }
            Self::Function => match behind.split_once('>') {
                Some((name, _)) if names().any(|known| known == resolve_tool_name(name, tools)) => {
                    OpenerCheck::Yes
                }
                Some(_) => OpenerCheck::No,
                None => OpenerCheck::Perhaps,
            },
            Self::Mistral => match bare.strip_prefix('[') {
                Some(list) => any_of(list.trim_start(), ["{"]),
                None => any_of(bare, names()),
            },
            Self::Fence => of_json(bare),
            _ => OpenerCheck::Yes,
        }
    }
}

/// Decides if the whole answer may consist of calls.
pub(super) fn whole(text: &str, tools: &[ToolSchema]) -> OpenerCheck {
    let bare = text.trim_start();
    if bare.starts_with('{') {
        return of_json(bare);
    }
    let python = bare.strip_prefix(pythonic::START).unwrap_or(bare).trim_start();
    match python.strip_prefix('[') {
        Some(list) => {
            let calls: Vec<_> = tools.iter().map(|tool| format!("{}(", tool.name)).collect();
            any_of(list.trim_start(), calls.iter().map(String::as_str))
        }
        None if python.is_empty() || pythonic::START.starts_with(bare) => OpenerCheck::Perhaps,
        None => OpenerCheck::No,
    }
}

/// Decides if JSON may be a call.
fn of_json(text: &str) -> OpenerCheck {
    match text.strip_prefix('{') {
        Some(object) => {
            any_of(object.trim_start(), ["\"name\"", "\"server_name\"", "\"tool_name\""])
        }
        None => OpenerCheck::No,
    }
}

fn any_of<'a>(text: &str, marks: impl IntoIterator<Item = &'a str>) -> OpenerCheck {
    marks.into_iter().fold(OpenerCheck::No, |begins, mark| match begins {
        OpenerCheck::Yes => OpenerCheck::Yes,
        _ if text.starts_with(mark) => OpenerCheck::Yes,
        _ if mark.starts_with(text) => OpenerCheck::Perhaps,
        begins => begins,
    })
}

/// Returns the server and the tool that a model uses for one of our names.
fn server_and_tool(name: &str) -> (&str, &str) {
    name.strip_prefix(MCP).and_then(|name| name.split_once('_')).unwrap_or((OWN_SERVER, name))
}

/// Parses the form with a server's name. Returns an explanation if that fails.
pub(super) fn with_server(body: &str, tools: &[ToolSchema]) -> Result<WrittenCall, String> {
    let value: Value = serde_json::from_str(strip_fence(body))
        .map_err(|error| format!("it is not valid JSON ({error})"))?;
    if value.get("server_name").is_none()
        && let Some(written) = object(&value, tools)
    {
        return Ok(written);
    }
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
            servers.extend(tools.iter().map(|tool| server_and_tool(&tool.name).0));
            servers.sort_unstable();
            servers.dedup();
            return Err(format!(
                "there is no server `{server}`; there are: {}",
                servers.join(", ")
            ));
        }
        of_server + tool
    };
    Ok(WrittenCall { name, arguments: arguments.to_string() })
}

/// Describes the fault of an unreadable block in the form that the prompt describes.
pub(super) fn fault(body: &str) -> String {
    let text = strip_fence(body);
    if !text.starts_with(['{', '[']) {
        return "it cannot be read".to_owned();
    }
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return format!("it is not valid JSON ({error})"),
    };
    match (value.get("name"), value.get("arguments")) {
        (None, _) => "the field `name` is missing".to_owned(),
        (Some(name), _) if !name.is_string() => "the field `name` is not a string".to_owned(),
        (Some(_), None) => "the field `arguments` is missing".to_owned(),
        (Some(_), Some(_)) => "it cannot be read".to_owned(),
    }
}

/// Parses a block of another form. None if it is not a call.
pub(super) fn parse_other_form(
    form: CallForm,
    body: &str,
    tools: &[ToolSchema],
) -> Option<Vec<WrittenCall>> {
    let calls = match form {
        CallForm::ToolCall => match strip_fence(body) {
            text if text.starts_with(['{', '[']) => objects_or_server(text, tools)?,
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
        CallForm::Fence => objects_or_server(body, tools)?,
        CallForm::Whole if body.trim_start().starts_with('{') => objects_or_server(body, tools)?,
        CallForm::Whole => pythonic::calls(body)?,
        CallForm::WithServer | CallForm::Result => return None,
    };
    (!calls.is_empty()).then_some(calls)
}

/// Parses JSON objects of either form.
fn objects_or_server(text: &str, tools: &[ToolSchema]) -> Option<Vec<WrittenCall>> {
    match with_server(text, tools) {
        Ok(written) => Some(vec![written]),
        Err(_) => objects(text, tools),
    }
}

/// Parses JSON objects one after another, with `;` or nothing between them, or in a list.
fn objects(text: &str, tools: &[ToolSchema]) -> Option<Vec<WrittenCall>> {
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

fn object(value: &Value, tools: &[ToolSchema]) -> Option<WrittenCall> {
    let value = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
    let name = value.get("name")?.as_str()?;
    let arguments = value.get("arguments").or_else(|| value.get("parameters"))?;
    // Some models write an object as a string, as in the API.
    let arguments = match arguments.as_str().filter(|text| wire::arguments(text).is_some()) {
        Some(text) => text.to_owned(),
        None => arguments.to_string(),
    };
    Some(WrittenCall { name: resolve_tool_name(name, tools), arguments })
}

fn named(name: &str, arguments: &str, tools: &[ToolSchema]) -> Option<WrittenCall> {
    let arguments: Value = serde_json::from_str(strip_fence(arguments)).ok()?;
    let name = resolve_tool_name(name, tools);
    (!name.is_empty()).then(|| WrittenCall { name, arguments: arguments.to_string() })
}

fn mistral(text: &str, tools: &[ToolSchema]) -> Option<WrittenCall> {
    let (head, _) = text.split_once('{')?;
    let arguments = &text[head.len()..];
    let name = head.split_once('[').map_or(head, |(name, _)| name);
    named(name, arguments, tools)
}

fn each(body: &str, marks: &Marks, tools: &[ToolSchema]) -> Option<Vec<WrittenCall>> {
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
fn deepseek(text: &str, tools: &[ToolSchema]) -> Option<WrittenCall> {
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
pub(super) fn resolve_tool_name(name: &str, tools: &[ToolSchema]) -> String {
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
pub(super) fn strip_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|text| text.strip_suffix("```")) else {
        return text;
    };
    let word =
        inner.len() - inner.trim_start_matches(|sign: char| sign.is_ascii_alphanumeric()).len();
    inner[word..].trim()
}

/// Returns the call that explains the fault of its text to a model.
pub(super) fn explain_malformed(fault: &str, written: &str) -> ToolCall {
    let shown: String = written.chars().take(SHOWN_CHARS_MAX).collect();
    let arguments = json!({"fault": fault, "written": shown}).to_string();
    ToolCall { id: wire::new_id(), name: MALFORMED_CALL.to_owned(), arguments }
}
