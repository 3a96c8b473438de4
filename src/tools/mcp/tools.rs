//! MCP tools as models call them: directly, or, if there are many, by a search. Their results are untrusted
//! content, shown as bounded text with descriptions in place of pictures.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ResourceContents,
};
use rmcp::service::ServiceError;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use super::link::Server;
use crate::people::Role;
use crate::provider::ToolSchema;
use crate::tools::mcp::catalogue::{self, OfferedTool};
use crate::tools::{
    AnyTool, CallTerms, Reach, ToolContext, ToolError, ToolKind, ToolOutput, ToolTerms, cut,
};
use crate::types::message::Address;
use crate::types::source::Source;
use crate::workspace::folders::DOWNLOADS;
use crate::workspace::{Audience, Workspace, WorkspacePath};

/// Maximum wait of a call for a server that is being restarted.
const UP_WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum length of a server's error text for a model, in characters.
const FAULT_CHARS_MAX: usize = 1000;

/// Maximum length of the extension of a kept file.
const ENDING_CHARS_MAX: usize = 8;

/// A tool of an MCP server.
pub(super) struct McpTool {
    pub(super) name: String,
    pub(super) offer: OfferedTool,
    pub(super) server: Arc<Server>,
}

#[async_trait]
impl AnyTool for McpTool {
    fn terms(&self) -> ToolTerms {
        if self.reads() {
            return ToolTerms {
                role: self.server.config.role,
                kind: ToolKind::Reads,
                retries: true,
            };
        }
        // The server's own claim makes no call repeatable.
        let kind = ToolKind::Acts { idempotent: false };
        ToolTerms { role: self.server.config.role, kind, retries: false }
    }

    fn schema(&self) -> ToolSchema {
        ToolSchema {
            name: self.name.clone(),
            description: self.offer.description.clone(),
            parameters: self.offer.parameters.clone(),
        }
    }

    /// The claim that the tool only reads counts if the config trusts the server.
    fn call_terms(&self, _: &str, _: &Address) -> CallTerms {
        match self.reads() || (self.server.config.trusted && self.offer.read_only) {
            true => CallTerms::of(Reach::Here),
            false => CallTerms::of(Reach::Outside),
        }
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
        match serde_json::from_str(arguments) {
            Ok(Value::Object(arguments)) => self.call(arguments, cx).await,
            Ok(_) => Err(self.wrong_arguments("they must be an object")),
            Err(error) if error.is_eof() => Err(self.wrong_arguments("the JSON ends too early")),
            Err(_) => Err(self.wrong_arguments("they are not valid JSON")),
        }
    }
}

impl McpTool {
    /// Returns true if the tool only reads according to the operator.
    fn reads(&self) -> bool {
        self.server.config.reads.contains(&self.offer.tool)
    }

    fn wrong_arguments(&self, why: &str) -> ToolError {
        ToolError::TellModel(format!("The arguments of {} are wrong: {why}.", self.name))
    }

    async fn call(
        &self,
        arguments: Map<String, Value>,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let server = &self.server;
        let Some(peer) = server.peer(UP_WAIT_MAX).await else {
            return Err(ToolError::Transient(format!(
                "The MCP server `{}` is down, and is being started again. Go on without it, or \
                 try later.",
                server.name
            )));
        };
        let params = CallToolRequestParams::new(self.offer.tool.clone()).with_arguments(arguments);
        let until = Instant::now() + server.config.timeout;
        let perhaps = if self.reads() { "" } else { " It may or may not have happened." };
        match timeout_at(until, peer.call_tool_once(params)).await {
            Err(_) => {
                server.request_check();
                Err(ToolError::Transient(format!(
                    "{} did not answer within {} s.{perhaps}",
                    self.name,
                    server.config.timeout.as_secs()
                )))
            }
            Ok(Err(ServiceError::McpError(error))) => {
                let message: String = error.message.chars().take(FAULT_CHARS_MAX).collect();
                Err(self.failed(format!("{} failed: {message}", self.name)))
            }
            Ok(Err(error)) => {
                server.request_check();
                tracing::debug!(server = server.name, %error, "A call of an MCP tool failed");
                Err(ToolError::Transient(format!(
                    "The MCP server `{}` broke off in the call.{perhaps}",
                    server.name
                )))
            }
            Ok(Ok(CallToolResponse::Complete(result))) => self.convert_result(result, cx).await,
            Ok(Ok(_)) => Err(ToolError::TellModel(format!(
                "{} wants to be asked in a way that is not spoken here.",
                self.name
            ))),
        }
    }

    /// Converts a result for a model. Files in it are kept for the owner.
    async fn convert_result(
        &self,
        result: CallToolResult,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let mut parts = Vec::new();
        for block in &result.content {
            let file = file_in(block);
            let kept = match &file {
                Some(file) => self.keep(file, cx).await,
                None => None,
            };
            parts.push(match (file, kept) {
                (Some(file), Some(path)) => file.describe(&format!("saved as {path}")),
                (Some(file), None) => file.describe("not shown"),
                (None, _) => describe_block(block),
            });
        }
        // Servers mostly repeat structured content as text.
        if let (true, Some(structured)) = (parts.is_empty(), &result.structured_content) {
            parts.push(structured.to_string());
        }
        let text = parts.join("\n");
        let text = if text.trim().is_empty() { "(nothing)" } else { text.as_str() };
        let text = cut(text, "Ask for less at a time.");
        match result.is_error {
            Some(true) => Err(self.failed(text)),
            _ => Ok(ToolOutput::of(self.source(), text)),
        }
    }

    /// Keeps a file in the owner's workspace. Returns its path, or None for other readers.
    async fn keep(&self, file: &ResultFile<'_>, cx: &ToolContext) -> Option<WorkspacePath> {
        if cx.reader().audience != Audience::Owner {
            return None;
        }
        let bytes = STANDARD.decode(file.base64).ok()?;
        let name = format!("{}.{}", self.name, file.ending());
        let month = cx.now.format("%Y-%m").to_string();
        // A file that a server made is untrusted.
        let path: WorkspacePath = format!("{DOWNLOADS}/{name}").parse().ok()?;
        let keep = move |workspace: &Workspace| workspace.copy_in(bytes.as_slice(), &path, &month);
        let kept = cx.workspace.run_blocking(keep).await;
        kept.inspect_err(|error| tracing::warn!(tool = self.name, %error, "Cannot keep a file"))
            .ok()
    }

    /// Returns the error of a failed call, with the server's message.
    fn failed(&self, message: String) -> ToolError {
        match self.server.config.trusted {
            true => ToolError::TellModel(message),
            false => ToolError::TellUntrusted(self.source(), message),
        }
    }

    fn source(&self) -> Source {
        let server = &self.server;
        Source::McpServer { name: server.name.to_string(), is_trusted: server.config.trusted }
    }
}

/// A file in a result.
struct ResultFile<'a> {
    /// Its description for the model.
    description: String,
    media_type: &'a str,
    base64: &'a str,
}

impl ResultFile<'_> {
    fn describe(&self, outcome: &str) -> String {
        let kilobytes = (self.base64.len() * 3 / 4).div_ceil(1000);
        format!("[{}, {kilobytes} kB: {outcome}]", self.description)
    }

    /// Returns the extension: `png` for `image/png`, `svg` for `image/svg+xml`.
    fn ending(&self) -> &str {
        let kind = self.media_type.split_once('/').map_or("", |(_, kind)| kind);
        let end = kind.find(|sign: char| !sign.is_ascii_alphanumeric()).unwrap_or(kind.len());
        if (1..=ENDING_CHARS_MAX).contains(&end) { &kind[..end] } else { "bin" }
    }
}

fn file_in(block: &ContentBlock) -> Option<ResultFile<'_>> {
    let (description, media_type, base64) = match block {
        ContentBlock::Image(image) => {
            (format!("a picture, {}", image.mime_type), &*image.mime_type, &*image.data)
        }
        ContentBlock::Audio(audio) => {
            (format!("a sound, {}", audio.mime_type), &*audio.mime_type, &*audio.data)
        }
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::BlobResourceContents { uri, blob, mime_type, .. } => {
                (uri.clone(), mime_type.as_deref().unwrap_or_default(), &**blob)
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(ResultFile { description, media_type, base64 })
}

fn describe_block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
            _ => "[a resource of an unknown kind]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[{} at {}]", link.name, link.uri),
        _ => "[something of an unknown kind]".to_owned(),
    }
}

/// MCP tools that are searched because there are many.
pub(super) struct ManyTools {
    pub(super) tools: Vec<Arc<McpTool>>,
}

impl ManyTools {
    fn role(&self) -> Role {
        let roles = self.tools.iter().map(|tool| tool.server.config.role);
        roles.min().unwrap_or(Role::Owner)
    }

    fn usable(&self, role: Role) -> Vec<&Arc<McpTool>> {
        self.tools.iter().filter(|tool| role >= tool.server.config.role).collect()
    }
}

/// Finds tools among many.
pub(super) struct SearchTools(pub(super) Arc<ManyTools>);

#[async_trait]
impl AnyTool for SearchTools {
    fn terms(&self) -> ToolTerms {
        ToolTerms { role: self.0.role(), kind: ToolKind::Reads, retries: true }
    }

    fn schema(&self) -> ToolSchema {
        let mut servers: Vec<_> =
            self.0.tools.iter().map(|tool| tool.offer.server.as_str()).collect();
        servers.dedup();
        let description = format!(
            "Find further tools, which mcp_call then calls. There are {} from: {}.",
            self.0.tools.len(),
            servers.join(", ")
        );
        let query = json!({ "type": "string", "description": "Words for what is to be done." });
        ToolSchema {
            name: "mcp_search".to_owned(),
            description,
            parameters: json!({
                "type": "object",
                "properties": { "query": query },
                "required": ["query"],
            }),
        }
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let Some(query) = arguments["query"].as_str() else {
            return Err(ToolError::TellModel("mcp_search needs a text `query`.".to_owned()));
        };
        let usable = self.0.usable(cx.role);
        let offers: Vec<_> = usable.iter().map(|tool| (tool.name.as_str(), &tool.offer)).collect();
        let mut text = String::new();
        for at in catalogue::search(&offers, query) {
            let McpTool { name, offer, .. } = usable[at].as_ref();
            let _ = write!(text, "{name}: {}\n{}\n\n", offer.description, offer.parameters);
        }
        if text.is_empty() {
            let names: Vec<_> = offers.iter().map(|(name, _)| *name).collect();
            text = format!("Nothing fits. There are: {}", names.join(", "));
        }
        Ok(ToolOutput::text(cut(text.trim_end(), "Search for something narrower.")))
    }
}

/// Calls one of many tools by its name.
pub(super) struct CallFoundTool(pub(super) Arc<ManyTools>);

#[async_trait]
impl AnyTool for CallFoundTool {
    fn terms(&self) -> ToolTerms {
        // The tool is not known yet.
        ToolTerms {
            role: self.0.role(),
            kind: ToolKind::Acts { idempotent: false },
            retries: false,
        }
    }

    fn schema(&self) -> ToolSchema {
        ToolSchema {
            name: "mcp_call".to_owned(),
            description: "Call a tool that mcp_search has found.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "tool": { "type": "string" },
                    "arguments": { "type": "object", "description": "As its schema says." },
                },
                "required": ["tool"],
            }),
        }
    }

    fn call_terms(&self, arguments: &str, here: &Address) -> CallTerms {
        let request: Value = serde_json::from_str(arguments).unwrap_or_default();
        let tool =
            self.0.tools.iter().find(|tool| Some(tool.name.as_str()) == request["tool"].as_str());
        let found = tool.map(|tool| tool.call_terms(arguments, here));
        found.unwrap_or_else(|| CallTerms::of(Reach::Outside))
    }

    async fn call_json(&self, arguments: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let mut request: Value = serde_json::from_str(arguments).unwrap_or_default();
        let name = request["tool"].as_str().unwrap_or_default().to_owned();
        let Some(tool) = self.0.tools.iter().find(|tool| tool.name == name) else {
            return Err(ToolError::TellModel(format!(
                "There is no tool `{name}`; mcp_search finds those that there are."
            )));
        };
        let needed = tool.server.config.role;
        if cx.role < needed {
            return Err(ToolError::TellModel(format!(
                "Denied: `{name}` needs the role {needed}, and the person who asks is {}. What works: only that somebody \
                 with that role asks for it. Try no other way.",
                cx.role
            )));
        }
        let arguments = match request["arguments"].take() {
            // Some models write it as a text.
            Value::String(text) => text,
            Value::Null => String::new(),
            arguments => arguments.to_string(),
        };
        tool.call_json(&arguments, cx).await
    }
}
