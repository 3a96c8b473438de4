//! Splits an answer into messages before the first is sent, and opens the files that belong to it.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek as _, Write as _};

use rustix::io::Errno;

use super::{FileContent, PlatformLimits, markup};
use crate::replies;
use crate::types::hex::random_hex;
use crate::types::message::{Attachment, Body, Content, MediaKind, Outbound, Question};
use crate::workspace::{FileError, Workspace, WorkspacePath};

/// Splits a message into the bodies to send, each within the limits. The result is never empty.
pub fn split_message(message: &Outbound, limits: &PlatformLimits) -> Vec<Body> {
    match &message.body {
        Body::Text(whole) => cut_text(TextFormat::Markup, whole, limits),
        Body::Printed(whole) => cut_text(TextFormat::Printed, whole, limits),
        Body::Choice(question) => {
            let mut texts = render(TextFormat::Markup, &question.text, limits.text_max, limits);
            // The buttons are below the last part.
            let text = texts.pop().unwrap_or_else(|| replies::EMPTY_ANSWER.to_owned());
            let mut bodies: Vec<_> = texts.into_iter().map(Body::Text).collect();
            bodies.push(Body::Choice(Question { text, ..question.clone() }));
            bodies
        }
        Body::File(file) if limits.file_max == 0 => {
            let mut bodies = cut_text(format_of(file), &file.caption, limits);
            if file.caption.is_empty() {
                bodies.clear();
            }
            let note = match &file.content {
                Content::Workspace(path) | Content::Copy { original: path, .. } => {
                    replies::file_saved_at(&file.name, path)
                }
                Content::Text(whole) => whole.clone(),
            };
            bodies.extend(cut_text(TextFormat::Markup, &note, limits));
            bodies
        }
        Body::File(file) => {
            let caption = |max| render(format_of(file), &file.caption, max, limits);
            let mut captions = caption(limits.caption_max);
            let has_preview = limits.caption_previews && has_link(&file.caption);
            let (caption, below) = match captions.len() {
                _ if has_preview => (String::new(), caption(limits.text_max)),
                0 => (String::new(), Vec::new()),
                1 => (captions.remove(0), Vec::new()),
                // A caption that does not fit below the file follows it, as a whole.
                _ => (String::new(), caption(limits.text_max)),
            };
            let mut bodies = vec![Body::File(Attachment { caption, ..file.clone() })];
            bodies.extend(below.into_iter().map(Body::Text));
            bodies
        }
    }
}

/// The format of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextFormat {
    /// CommonMark.
    Markup,
    /// Verbatim.
    Printed,
}

fn format_of(file: &Attachment) -> TextFormat {
    if file.printed { TextFormat::Printed } else { TextFormat::Markup }
}

/// Returns true if a platform may find a link in a text.
fn has_link(text: &str) -> bool {
    text.contains("://") || text.to_ascii_lowercase().contains("www.")
}

fn cut_text(format: TextFormat, whole: &str, limits: &PlatformLimits) -> Vec<Body> {
    let mut texts = render(format, whole, limits.text_max, limits);
    if texts.is_empty() {
        texts.push(replies::EMPTY_ANSWER.to_owned());
    }
    if texts.len() <= limits.messages_max || limits.file_max == 0 {
        return texts.into_iter().map(Body::Text).collect();
    }
    let first = texts.swap_remove(0);
    let whole = Attachment {
        name: replies::WHOLE_ANSWER_NAME.to_owned(),
        kind: MediaKind::Document,
        caption: replies::WHOLE_ANSWER.to_owned(),
        printed: format == TextFormat::Printed,
        content: Content::Text(whole.to_owned()),
    };
    vec![Body::Text(first), Body::File(whole)]
}

/// Returns the replacement for a file that cannot be sent: its caption, and the reason. For a long answer
/// as a file, the rest of it as messages.
pub fn replacement_for(file: &Attachment, reason: &str, limits: &PlatformLimits) -> Vec<Body> {
    let no_files = PlatformLimits { file_max: 0, ..*limits };
    match &file.content {
        // The first part of an answer was sent before the file.
        Content::Text(whole) => {
            let mut texts = cut_text(format_of(file), whole, &no_files);
            if file.name == replies::WHOLE_ANSWER_NAME { texts.split_off(1) } else { texts }
        }
        Content::Workspace(_) | Content::Copy { .. } => {
            let note = replies::file_not_sent(&file.name, reason);
            let caption = (!file.caption.is_empty()).then(|| Body::Text(file.caption.clone()));
            caption.into_iter().chain(cut_text(TextFormat::Markup, &note, &no_files)).collect()
        }
    }
}

fn render(format: TextFormat, whole: &str, max: usize, limits: &PlatformLimits) -> Vec<String> {
    // Reserves space for the mark that a repeated chunk may need. The mark is plain ASCII.
    let mark = replies::perhaps_repeated("").len();
    match format {
        TextFormat::Markup => markup::render(whole, limits.markup, max - mark, limits.unit),
        TextFormat::Printed => {
            markup::render_printed(whole, limits.markup, max - mark, limits.unit)
        }
    }
}

/// The reason why a file has no content to send.
#[derive(Debug, PartialEq, Eq)]
pub enum ContentError {
    /// The file will never be there.
    Permanent(String),
    /// The machine lacks a resource.
    Temporary(String),
}

impl From<FileError> for ContentError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { ref cause, .. } if is_temporary(cause) => {
                Self::Temporary(error.to_string())
            }
            _ => Self::Permanent(error.to_string()),
        }
    }
}

/// Returns true if the machine is only short of a resource. Retries for another reason would delay everything
/// that is sent after the file.
fn is_temporary(error: &io::Error) -> bool {
    let temporary = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|error| temporary.contains(&error))
}

/// Returns the kind of a file by its extension, which is all that platforms look at.
pub fn kind_of(name: &str) -> MediaKind {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref().unwrap_or_default() {
        "jpg" | "jpeg" | "png" | "gif" | "webp" => MediaKind::Image,
        "mp3" | "m4a" | "ogg" | "oga" | "opus" | "flac" | "wav" | "aac" => MediaKind::Audio,
        "mp4" | "mov" | "webm" | "mkv" => MediaKind::Video,
        _ => MediaKind::Document,
    }
}

/// Opens the content of a file that is to be sent.
pub fn open(
    file: &Attachment,
    workspace: &Workspace,
    limits: &PlatformLimits,
) -> Result<FileContent, ContentError> {
    let (content, length) = match &file.content {
        Content::Workspace(path) | Content::Copy { copy: path, .. } => {
            let path = path.parse::<WorkspacePath>();
            let path = path.map_err(|error| ContentError::Permanent(error.to_string()))?;
            let file = workspace.open_without_links(&path)?;
            file.check_single_name()?;
            file.into_file()
        }
        Content::Text(text) => {
            let content = create_unlinked(text).map_err(|error| match is_temporary(&error) {
                true => ContentError::Temporary(error.to_string()),
                false => ContentError::Permanent(error.to_string()),
            })?;
            (content, u64::try_from(text.len()).unwrap_or(u64::MAX))
        }
    };
    if length > limits.file_max {
        return Err(ContentError::Permanent(replies::file_over_limit(&file.name, limits.file_max)));
    }
    Ok(FileContent { name: file.name.clone(), kind: file.kind, length, file: content })
}

/// Creates a temporary file that is deleted when it is closed.
fn create_unlinked(text: &str) -> io::Result<fs::File> {
    let name = format!("peacrab-{}", random_hex::<16>());
    let path = std::env::temp_dir().join(name);
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
