//! Transfers files in both directions. Slack supplies the URLs for both. We check them, because a token
//! is sent with a download.

use std::time::Duration;

use futures_util::stream::try_unfold;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Response, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slack_morphism::SlackFileId;
use slack_morphism::api::{
    SlackApiFilesComplete, SlackApiFilesCompleteUploadExternalRequest,
    SlackApiFilesGetUploadUrlExternalRequest,
};
use tokio::io::AsyncReadExt as _;

use super::call::{ArgumentEncoding, Method, SlackApi};
use super::failure::SlackCallError;
use super::sending::SlackAddress;
use crate::channels::call::describe_error;
use crate::channels::{ChannelError, FileContent, MediaSink, Sent};
use crate::http::is_loopback;
use crate::types::message::{MediaKind, MediaRef, Outbound};

/// Maximum size of a file on Slack, in bytes.
pub(super) const FILE_MAX: u64 = 1_000_000_000;

/// Time limit for the content of one file. Below the deadline of a delivery.
const TRANSFER_TIME_MAX: Duration = Duration::from_secs(240);

/// Bytes of a file that are in memory at once.
const PIECE_BYTES: usize = 64 << 10;

const NO_SCOPE: &str = "the app may not read files: give it the scope files:read at \
     https://api.slack.com/apps, and install it again";

impl Method for SlackApiFilesGetUploadUrlExternalRequest {
    const NAME: &'static str = "files.getUploadURLExternal";
    const TAKES: ArgumentEncoding = ArgumentEncoding::Form;
}

impl Method for SlackApiFilesCompleteUploadExternalRequest {
    const NAME: &'static str = "files.completeUploadExternal";
}

#[derive(Serialize)]
struct AskFile<'a> {
    file: &'a str,
}

impl Method for AskFile<'_> {
    const NAME: &'static str = "files.info";
    const TAKES: ArgumentEncoding = ArgumentEncoding::Form;
}

#[derive(Deserialize)]
struct FileInfo {
    file: Value,
}

#[derive(Deserialize)]
struct UploadPlace {
    upload_url: Url,
    file_id: String,
}

/// Parses a file of an event. None for a deleted one.
pub(super) fn read(file: &Value) -> Option<MediaRef> {
    let field = |name: &str| file.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if matches!(field("mode"), Some("tombstone" | "hidden_by_limit")) {
        return None;
    }
    let mime = field("mimetype");
    let kind = match mime.and_then(|mime| mime.split('/').next()) {
        _ if field("subtype") == Some("slack_audio") => MediaKind::Voice,
        Some("image") => MediaKind::Image,
        Some("audio") => MediaKind::Audio,
        Some("video") => MediaKind::Video,
        _ => MediaKind::Document,
    };
    Some(MediaRef {
        kind,
        name: field("name").or(field("title")).map(str::to_owned),
        mime: mime.map(str::to_owned),
        size: file.get("size").and_then(Value::as_u64),
        // For files from other workspaces Slack reports only the id.
        handle: address(file).or(field("id"))?.to_owned(),
        fetched: None,
        quoted: false,
    })
}

fn address(file: &Value) -> Option<&str> {
    let field = |name: &str| file.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    field("url_private_download").or(field("url_private"))
}

/// Streams a file into `into`.
pub(super) async fn fetch(
    api: &SlackApi,
    media: &MediaRef,
    into: &mut MediaSink,
) -> Result<(), ChannelError> {
    let url = match media.handle.parse::<Url>() {
        Ok(url) => url,
        Err(_) => {
            let info = api.call::<_, FileInfo>(&AskFile { file: &media.handle }).await;
            let file = info.map_err(SlackCallError::while_editing)?.file;
            let url = address(&file).and_then(|url| url.parse().ok());
            url.ok_or_else(|| ChannelError::Refused("slack gives no address for it".to_owned()))?
        }
    };
    check_url(api, &url)?;
    let get = api.client().get(url).timeout(TRANSFER_TIME_MAX).bearer_auth(api.bot_token());
    let response = get.send().await.map_err(|error| lost(&error))?;
    let mut response = downloaded(response, media)?;
    while let Some(bytes) = response.chunk().await.map_err(|error| lost(&error))? {
        into.write(&bytes).await?;
    }
    Ok(())
}

/// Checks the answer to a download. Without access, Slack answers with a login page and a success status.
fn downloaded(response: Response, media: &MediaRef) -> Result<Response, ChannelError> {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_page = kind.is_some_and(|kind| kind.starts_with("text/html"));
    let is_wanted = media.mime.as_deref().is_some_and(|mime| mime.starts_with("text/html"));
    match status.as_u16() {
        200 if is_page && !is_wanted => Err(ChannelError::Refused(NO_SCOPE.to_owned())),
        200 => Ok(response),
        300..=399 | 401 | 403 => Err(ChannelError::Refused(NO_SCOPE.to_owned())),
        404 | 410 => Err(ChannelError::Refused("it is no longer there".to_owned())),
        _ => Err(ChannelError::unavailable(format!("slack answers {status} to a download"))),
    }
}

fn lost(error: &reqwest::Error) -> ChannelError {
    ChannelError::unavailable(format!("slack: {}", describe_error(error)))
}

/// Returns an error unless `url` is Slack's: nobody else gets our token and our files.
fn check_url(api: &SlackApi, url: &Url) -> Result<(), ChannelError> {
    let host = url.host_str().unwrap_or_default();
    let is_slack = host == "slack.com" || host.ends_with(".slack.com");
    let is_allowed = url.scheme() == "https" && is_slack || api.is_here() && is_loopback(url);
    if is_allowed {
        Ok(())
    } else {
        Err(ChannelError::Refused(format!("{host} is not an address of Slack's")))
    }
}

/// Uploads a file. It is invisible until the last call.
pub(super) async fn upload(
    api: &SlackApi,
    message: &Outbound,
    content: FileContent,
) -> Result<Sent, ChannelError> {
    let to = SlackAddress::of(&message.to)?;
    let FileContent { name, length, file, .. } = content;
    if length == 0 {
        return Err(ChannelError::Refused("slack takes no empty files".to_owned()));
    }
    let size = usize::try_from(length).unwrap_or(usize::MAX);
    let request = SlackApiFilesGetUploadUrlExternalRequest::new(name.clone(), size);
    let place: UploadPlace =
        api.call(&request).await.map_err(|e| no_scope(&e).unwrap_or_else(|| e.while_editing()))?;
    check_url(api, &place.upload_url)?;
    upload_content(api, place.upload_url, tokio::fs::File::from_std(file), length).await?;

    let entry = SlackApiFilesComplete::new(SlackFileId(place.file_id)).with_title(name);
    let caption = message.body.text();
    let complete = SlackApiFilesCompleteUploadExternalRequest::new(vec![entry])
        .with_channel_id(to.channel)
        .opt_thread_ts(to.thread)
        .opt_initial_comment((!caption.is_empty()).then(|| caption.to_owned()));
    match api.call::<_, Value>(&complete).await {
        // Slack does not report the message that contains the file.
        Ok(_) | Err(SlackCallError::Unreadable(_)) => Ok(Sent { id: None }),
        Err(error) => Err(no_scope(&error).unwrap_or_else(|| error.while_sending())),
    }
}

/// Returns the refusal for a missing scope. It applies only to the file: an app without the scope is still useful.
fn no_scope(error: &SlackCallError) -> Option<ChannelError> {
    let reason = format!(
        "the app may not send files: {} is needed. Add it at https://api.slack.com/apps under \
         OAuth & Permissions, and install the app again",
        error.missing_scope()?
    );
    Some(ChannelError::Refused(reason))
}

async fn upload_content(
    api: &SlackApi,
    url: Url,
    file: tokio::fs::File,
    length: u64,
) -> Result<(), ChannelError> {
    let pieces = try_unfold(file.take(length), async |mut file| {
        let mut piece = vec![0; PIECE_BYTES];
        let read = file.read(&mut piece).await?;
        piece.truncate(read);
        Ok::<_, std::io::Error>((read > 0).then_some((piece, file)))
    });
    let post = api
        .client()
        .post(url)
        .timeout(TRANSFER_TIME_MAX)
        .header(CONTENT_LENGTH, length)
        .header(CONTENT_TYPE, "application/octet-stream")
        .body(reqwest::Body::wrap_stream(pieces));
    let response = post.send().await.map_err(|error| lost(&error))?;
    let status = response.status();
    if status.is_success() {
        Ok(())
    } else if status.is_client_error() {
        Err(ChannelError::Refused(format!("slack does not take the file ({status})")))
    } else {
        Err(ChannelError::unavailable(format!("slack answers {status} to an upload")))
    }
}
