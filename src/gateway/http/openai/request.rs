//! A request in the form of OpenAI's API, as a message of a person. Only the last message is the person's own.
//! The earlier messages in it are untrusted content, because any program can write them.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::super::chat::picture_type;
use super::super::refusal::HttpRefusal;
use crate::channels::chunking::kind_of;
use crate::channels::web::files::Files;
use crate::control::MESSAGE_BYTES_MAX;
use crate::types::commands;
use crate::types::message::{ChannelName, MediaRef, SenderId};
use crate::types::source::{Source, SourceSpan, SourcedText};
use crate::types::untrusted;

/// Maximum size of the earlier messages, in bytes. The oldest are left out.
const CONTEXT_BYTES_MAX: usize = 100_000;

/// Maximum number of messages of a request; more are a mistake.
const MESSAGES_MAX: usize = 10_000;

/// Maximum number of files of the last message.
const FILES_MAX: usize = 10;

const NAME_CHARS_MAX: usize = 200;

/// The author of the earlier messages, for the model.
const CLIENT: &str = "the client program";

/// A request for a completion. Fields that tune a model have no effect.
#[derive(Deserialize)]
pub(super) struct CompletionRequest {
    pub(super) model: String,
    messages: Vec<ClientMessage>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    user: Option<String>,
    n: Option<u64>,
    tools: Option<Vec<Value>>,
    functions: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    response_format: Option<ResponseFormat>,
    modalities: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct ResponseFormat {
    r#type: String,
}

#[derive(Deserialize)]
struct ClientMessage {
    role: String,
    #[serde(default)]
    content: Value,
}

/// The session of a request.
pub(super) enum SessionChoice {
    /// A lasting session, which knows its earlier messages.
    Named(String),
    /// A session for this request alone, which contains the earlier messages.
    Once(String),
}

impl SessionChoice {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named(name) | Self::Once(name) => name,
        }
    }
}

/// The message of a person in a request.
pub(super) struct RequestMessage {
    text: SourcedText,
    files: Vec<EmbeddedFile>,
}

/// A file inside of a request.
struct EmbeddedFile {
    name: String,
    content: Vec<u8>,
}

impl CompletionRequest {
    pub(super) fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage) == Some(true)
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref().map(str::trim).filter(|user| !user.is_empty())
    }

    /// Returns an error if a client asks for what it would not get.
    pub(super) fn check(&self) -> Result<(), HttpRefusal> {
        let has_some = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|it| !it.is_empty());
        let may_call = self.tool_choice.as_ref().is_none_or(|choice| choice != "none");
        if may_call && (has_some(&self.tools) || has_some(&self.functions)) {
            return Err(HttpRefusal::bad(
                "the tools of a client cannot be called: this is an agent with its own tools; leave `tools` out",
            ));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(HttpRefusal::bad("there is one answer; leave `n` out"));
        }
        if self.response_format.as_ref().is_some_and(|format| format.r#type != "text") {
            return Err(HttpRefusal::bad(
                "the answer is text; leave `response_format` out, and ask for JSON in the message",
            ));
        }
        let is_other = |kind: &String| kind != "text";
        if self.modalities.as_ref().is_some_and(|kinds| kinds.iter().any(is_other)) {
            return Err(HttpRefusal::bad("the answer is text; leave `modalities` out"));
        }
        if self.messages.len() > MESSAGES_MAX {
            return Err(HttpRefusal::bad(format!("there are more than {MESSAGES_MAX} messages")));
        }
        let roles = ["system", "developer", "user", "assistant"];
        match self.messages.iter().find(|message| !roles.contains(&message.role.as_str())) {
            Some(_) => Err(HttpRefusal::bad(format!(
                "the role of a message is one of {}; results of a client's tools are not taken",
                roles.join(", ")
            ))),
            None => Ok(()),
        }
    }

    /// Returns the message of a person, with the context that the session does not know.
    pub(super) fn message(
        mut self,
        session: &SessionChoice,
        channel: &ChannelName,
        person: &SenderId,
    ) -> Result<RequestMessage, HttpRefusal> {
        let last = self.messages.pop().filter(|last| last.role == "user");
        let last = last.ok_or_else(|| HttpRefusal::bad("the last message must be the user's"))?;
        let (user_text, files) = content(last.content)?;
        if user_text.trim().is_empty() && files.is_empty() {
            return Err(HttpRefusal::bad("the last message is empty"));
        }
        if user_text.len() > MESSAGE_BYTES_MAX {
            let explanation = format!("the last message is longer than {MESSAGE_BYTES_MAX} bytes");
            return Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, explanation));
        }
        let context = match commands::find(&user_text) {
            // A command has to be at the beginning of a message.
            Some(_) => String::new(),
            None => self.context(session),
        };
        let mut text = SourcedText::default();
        if !context.is_empty() {
            let source = Source::Quoted { author: CLIENT.to_owned(), by_others: true };
            text.push_program(format!("> {CLIENT}{}:\n", untrusted::QUOTED_AUTHOR_NOTE));
            text.push(source, context);
            text.push_program("\n");
        }
        text.push(Source::Person { channel: channel.clone(), id: person.clone() }, user_text);
        Ok(RequestMessage { text, files })
    }

    /// Returns the client's instructions, and the earlier messages if the session does not know them. Each line
    /// is quoted.
    fn context(&self, session: &SessionChoice) -> String {
        let is_new = matches!(session, SessionChoice::Once(_));
        let is_shown = |message: &&ClientMessage| {
            is_new || matches!(message.role.as_str(), "system" | "developer")
        };
        let mut lines = Vec::new();
        let mut bytes = 0;
        for message in self.messages.iter().rev().filter(is_shown) {
            let text = untrusted::normalize_newlines(&text_of(&message.content));
            let line = format!("> {}: {}\n", message.role, text.trim().replace('\n', "\n> "));
            bytes += line.len();
            if bytes > CONTEXT_BYTES_MAX {
                lines.push("> (more was said before)\n".to_owned());
                break;
            }
            lines.push(line);
        }
        lines.reverse();
        lines.concat()
    }
}

impl RequestMessage {
    /// Stores the files, as uploads of the page.
    pub(super) async fn keep_files(
        &self,
        files: &Files,
        person: &SenderId,
    ) -> Result<Vec<MediaRef>, HttpRefusal> {
        let failed = |error| HttpRefusal::not_kept(&error);
        let mut kept = Vec::new();
        for EmbeddedFile { name, content } in &self.files {
            let (handle, mut file) = files.begin_upload(person).await.map_err(failed)?;
            file.write_all(content).await.map_err(failed)?;
            file.sync_all().await.map_err(failed)?;
            kept.push(MediaRef {
                kind: kind_of(name),
                name: Some(name.clone()),
                mime: picture_type(name).map(str::to_owned),
                size: None,
                handle,
                fetched: None,
                quoted: false,
            });
        }
        Ok(kept)
    }

    /// Returns the text with its sources. A text of the person alone needs none.
    pub(super) fn into_text(self) -> (String, Vec<SourceSpan>) {
        let spans =
            if self.text.spans().len() > 1 { self.text.spans().to_vec() } else { Vec::new() };
        (self.text.to_string(), spans)
    }
}

/// Returns the text of an earlier message. Its files are only mentioned.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let part = |part: &Value| match part["type"].as_str() {
                Some("text") => part["text"].as_str().unwrap_or_default().to_owned(),
                Some("refusal") => part["refusal"].as_str().unwrap_or_default().to_owned(),
                _ => "(a file)".to_owned(),
            };
            parts.iter().map(part).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Returns the text and the files of the last message.
fn content(content: Value) -> Result<(String, Vec<EmbeddedFile>), HttpRefusal> {
    let parts = match content {
        Value::String(text) => return Ok((text, Vec::new())),
        Value::Array(parts) => parts,
        _ => return Err(HttpRefusal::bad("`content` is a text, or a list of parts")),
    };
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for part in parts {
        match part["type"].as_str() {
            Some("text") => texts.push(part["text"].as_str().unwrap_or_default().to_owned()),
            Some("image_url") => files.push(picture(&part["image_url"], files.len())?),
            Some("file") => files.push(document(&part["file"])?),
            _ => {
                return Err(HttpRefusal::bad(
                    "a part of a message is text, image_url or file; sound is not taken here",
                ));
            }
        }
    }
    match files.len() > FILES_MAX {
        true => Err(HttpRefusal::bad(format!("a message has at most {FILES_MAX} files"))),
        false => Ok((texts.join("\n"), files)),
    }
}

fn picture(image: &Value, files_before: usize) -> Result<EmbeddedFile, HttpRefusal> {
    let url = image["url"].as_str().or(image.as_str()).unwrap_or_default();
    let data = embedded(url).ok_or_else(|| {
        HttpRefusal::bad("send a picture as data:image/…;base64,…; no address is fetched for it")
    })?;
    let ending = match data.mime {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return Err(HttpRefusal::bad("a picture is PNG, JPEG, GIF or WebP")),
    };
    Ok(EmbeddedFile {
        name: format!("picture-{}.{ending}", files_before + 1),
        content: data.content,
    })
}

fn document(file: &Value) -> Result<EmbeddedFile, HttpRefusal> {
    let name = file["filename"].as_str().unwrap_or("file");
    let name = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
    let data = embedded(file["file_data"].as_str().unwrap_or_default());
    let data = data.ok_or_else(|| {
        HttpRefusal::bad("send a file as `file_data`, data:…;base64,…; there are no file ids here")
    })?;
    Ok(EmbeddedFile { name, content: data.content })
}

/// The content of a data URL.
struct EmbeddedData<'a> {
    mime: &'a str,
    content: Vec<u8>,
}

fn embedded(url: &str) -> Option<EmbeddedData<'_>> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let head = head.strip_suffix(";base64")?;
    let mime = head.split(';').next().unwrap_or_default();
    let content = STANDARD.decode(data.trim()).ok().filter(|content| !content.is_empty())?;
    Some(EmbeddedData { mime, content })
}
