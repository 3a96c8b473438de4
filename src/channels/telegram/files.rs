//! Transfers files in both directions: streamed, never wholly in memory. No error contains a URL, because
//! it has the token in it.

use std::io::{self, Read as _, Seek as _};
use std::path::Path;

use futures_util::stream::{self, Stream};
use reqwest::Body;
use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use teloxide::payloads::GetFile;
use teloxide::types::FileId;
use tokio::time::sleep;

use super::Telegram;
use super::call::TelegramCallError;
use super::outgoing::{SendAttempt, posted};
use crate::channels::{ChannelError, FileContent, MediaSink, Sent};
use crate::replies;
use crate::types::message::{MediaKind, MediaRef, Outbound};

/// Maximum size of a photo, in bytes. Larger images are sent as files (Bot API, sendPhoto).
const PHOTO_MAX: u64 = 10 << 20;

/// Bytes of a file that are in memory at once.
const CHUNK: usize = 64 << 10;

/// Maximum number of requests for a file that Telegram cannot reach.
const REQUESTS_MAX: u32 = 3;

/// Telegram's errors for an image or a voice that it would accept as a file.
const ONLY_AS_FILE: &[&str] = &[
    "image_process_failed",
    "photo_invalid_dimensions",
    "photo_ext_invalid",
    "photo_content_type_invalid",
    "photo_save_file_invalid",
    "video_content_type_invalid",
    "voice_messages_forbidden",
];

/// The location of a file from `getFile`.
#[derive(Deserialize)]
struct Located {
    file_path: Option<String>,
}

/// The form in which a file is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Photo,
    Voice,
    Audio,
    Video,
    Document,
}

impl Shape {
    /// Returns the form for a file. Telegram shows only some formats of each kind; all others are sent as
    /// files.
    fn of(file: &FileContent) -> Self {
        let extension = Path::new(&file.name).extension().and_then(|extension| extension.to_str());
        let extension = extension.unwrap_or_default().to_ascii_lowercase();
        match (file.kind, extension.as_str()) {
            (MediaKind::Image | MediaKind::Sticker, "jpg" | "jpeg" | "png" | "webp")
                if file.length <= PHOTO_MAX =>
            {
                Self::Photo
            }
            (MediaKind::Voice, "ogg" | "oga" | "opus" | "mp3" | "m4a") => Self::Voice,
            (MediaKind::Audio, "mp3" | "m4a") => Self::Audio,
            (MediaKind::Video, "mp4") => Self::Video,
            _ => Self::Document,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Photo => "SendPhoto",
            Self::Voice => "SendVoice",
            Self::Audio => "SendAudio",
            Self::Video => "SendVideo",
            Self::Document => "SendDocument",
        }
    }

    /// The name of the parameter with the file.
    fn field(self) -> &'static str {
        match self {
            Self::Photo => "photo",
            Self::Voice => "voice",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Document => "document",
        }
    }
}

impl Telegram {
    /// Sends a file in a form that Telegram accepts.
    pub(super) async fn send_file(
        &self,
        message: &Outbound,
        file: &FileContent,
    ) -> Result<Sent, ChannelError> {
        let mut attempt = SendAttempt::new(message)?;
        let mut shape = Shape::of(file);
        loop {
            let form = form(&attempt, shape, file).map_err(|error| {
                ChannelError::unavailable(format!("cannot read a file: {error}"))
            })?;
            let uploaded = self.api.upload(shape.method(), form, self.deadlines.file).await;
            match posted(uploaded) {
                Err(error) if attempt.adapt_to(&error) => {}
                Err(error) if shape != Shape::Document && error.is_refused_with(ONLY_AS_FILE) => {
                    shape = Shape::Document;
                }
                Err(error) => {
                    let Some(reason) = error.refuses_content() else {
                        return Err(error.while_sending());
                    };
                    tracing::warn!(reason, "Telegram does not accept a file");
                    return Err(ChannelError::Refused(reason.to_owned()));
                }
                sent => return sent.map_err(TelegramCallError::while_sending),
            }
        }
    }

    pub(super) async fn fetch_file(
        &self,
        media: &MediaRef,
        into: &mut MediaSink,
    ) -> Result<(), ChannelError> {
        let request = GetFile::new(FileId(media.handle.clone()));
        let mut requests = 1;
        let located: Located = loop {
            match self.api.call(&request, self.deadlines.call).await {
                // Telegram gives this error for a file that is gone, and for one that it cannot reach at
                // the moment.
                Err(error)
                    if requests < REQUESTS_MAX
                        && error.is_refused_with(&["temporarily unavailable"]) =>
                {
                    sleep(self.deadlines.ask_again * requests).await;
                    requests += 1;
                }
                located => break located.map_err(not_located)?,
            }
        };
        let path = located.file_path;
        // An operator's own server may return a path on its disk, which we must not read.
        let path = path.filter(|path| !path.starts_with('/'));
        let path = path.ok_or_else(|| ChannelError::Refused(replies::FILE_GONE.to_owned()))?;
        let file = self.api.download(&path, self.deadlines.file).await;
        let mut file = file.map_err(not_downloaded)?;
        while let Some(bytes) = file.chunk().await.map_err(not_downloaded)? {
            into.write(bytes.as_ref()).await?;
        }
        Ok(())
    }
}

fn not_located(error: TelegramCallError) -> ChannelError {
    if error.is_refused_with(&["file is too big"]) {
        ChannelError::Refused(replies::FILE_OVER_TELEGRAM.to_owned())
    } else if error.is_refused_with(&[""]) {
        ChannelError::Refused(replies::FILE_GONE.to_owned())
    } else {
        error.while_asking()
    }
}

fn not_downloaded(error: TelegramCallError) -> ChannelError {
    match error {
        TelegramCallError::Denied(denial) if matches!(denial.status, 400 | 403 | 404 | 410) => {
            ChannelError::Refused(replies::FILE_GONE.to_owned())
        }
        error => error.while_asking(),
    }
}

/// Returns the parameters of a call, with the file from its beginning.
fn form(attempt: &SendAttempt, shape: Shape, file: &FileContent) -> io::Result<Form> {
    let mut content = file.file.try_clone()?;
    content.rewind()?;
    let body = Body::wrap_stream(chunks(content, file.length));
    let part = Part::stream_with_length(body, file.length).file_name(file_name(&file.name));
    let mut form = Form::new().text("chat_id", attempt.to.chat.0.to_string());
    if let Some(thread) = attempt.to.thread {
        form = form.text("message_thread_id", thread.0.0.to_string());
    }
    if !attempt.text.is_empty() {
        form = form.text("caption", attempt.text.clone());
    }
    if attempt.parse_mode().is_some() {
        form = form.text("parse_mode", "HTML");
    }
    if let Some(reply) = attempt.reply_parameters() {
        form = form.text("reply_parameters", serde_json::to_string(&reply)?);
    }
    Ok(form.part(shape.field(), part))
}

/// Returns a name that is safe in a header.
fn file_name(name: &str) -> String {
    let replace = |c: char| if c.is_control() || matches!(c, '"' | '\\') { '_' } else { c };
    name.chars().map(replace).collect()
}

/// Streams exactly `length` bytes of a file. It may grow or shrink meanwhile, but the length was
/// announced before.
fn chunks(file: std::fs::File, length: u64) -> impl Stream<Item = io::Result<Vec<u8>>> {
    stream::try_unfold((file, length), |(file, bytes_left)| async move {
        if bytes_left == 0 {
            return Ok(None);
        }
        let read_chunk = move || {
            let mut bytes = Vec::with_capacity(CHUNK);
            let mut part = (&file).take(bytes_left.min(CHUNK as u64));
            part.read_to_end(&mut bytes)?;
            Ok::<_, io::Error>((file, bytes))
        };
        let (file, bytes) =
            tokio::task::spawn_blocking(read_chunk).await.map_err(io::Error::other)??;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes_left = bytes_left - bytes.len() as u64;
        Ok(Some((bytes, (file, bytes_left))))
    })
}
