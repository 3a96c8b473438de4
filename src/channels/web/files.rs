//! Files of the page: uploads of people, until the intake has fetched them, and copies of the files that the bot
//! has sent.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::fs::{self, File};
use tokio::io::AsyncReadExt as _;

use super::super::{ChannelError, FileContent, MediaSink};
use super::logins::sha256_hex;
use crate::bus::KEPT;
use crate::types::hex::random_hex;
use crate::types::message::{DeliveryId, SenderId};

/// An upload whose message did not come within this time is deleted.
const UPLOAD_AGE_MAX: Duration = Duration::from_secs(3600);

/// Maximum number of uploads. One more is refused until old ones are deleted.
const UPLOADS_MAX: usize = 80;

/// Maximum number of uploads of one person: the files of two messages, so that nobody uses up the share of others.
const UPLOADS_OF_PERSON_MAX: usize = 20;

/// Characters of the person's hash in an upload's name.
const OWNER_CHARS: usize = 16;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;

pub struct Files {
    folder: PathBuf,
}

impl Files {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Creates a file for an upload of a person. Returns the name by which its message refers to it. Too many are an
    /// error of the kind `QuotaExceeded`.
    pub async fn begin_upload(&self, person: &SenderId) -> io::Result<(String, File)> {
        self.create_folder()?;
        let prefix = format!("up-{}-", &sha256_hex(person.as_str())[..OWNER_CHARS]);
        let uploads = self.delete_old().await?;
        let own = uploads.iter().filter(|name| name.starts_with(&prefix)).count();
        if own >= UPLOADS_OF_PERSON_MAX || uploads.len() >= UPLOADS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let handle = format!("{prefix}{}", random_hex::<16>());
        let file = File::create_new(self.folder.join(&handle)).await?;
        Ok((handle, file))
    }

    /// Deletes an upload that failed.
    pub async fn forget_upload(&self, handle: &str) {
        if is_upload(handle) {
            fs::remove_file(self.folder.join(handle)).await.ok();
        }
    }

    pub(super) async fn read_uploaded(
        &self,
        handle: &str,
        sink: &mut MediaSink,
    ) -> Result<(), ChannelError> {
        let gone = || ChannelError::Refused("the upload is gone".to_owned());
        if !is_upload(handle) {
            return Err(gone());
        }
        let mut file = File::open(self.folder.join(handle)).await.map_err(|_| gone())?;
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let read = file.read(&mut buffer).await;
            let length = read.map_err(|error| ChannelError::unavailable(error.to_string()))?;
            if length == 0 {
                return Ok(());
            }
            sink.write(&buffer[..length]).await?;
        }
    }

    /// Keeps a copy of a file that the bot sends, so that a page shows what was sent.
    pub(super) async fn keep_sent(&self, id: DeliveryId, content: FileContent) -> io::Result<()> {
        self.create_folder()?;
        self.delete_old().await?;
        let (path, part) = (self.sent_path(id), self.sent_path(id).with_extension("part"));
        let mut from = File::from_std(content.file);
        let mut copy = File::create(&part).await?;
        tokio::io::copy(&mut from, &mut copy).await?;
        copy.sync_all().await?;
        fs::rename(part, path).await
    }

    pub(super) async fn has_sent(&self, id: DeliveryId) -> bool {
        fs::try_exists(self.sent_path(id)).await.unwrap_or(false)
    }

    /// Opens a file that the bot has sent.
    pub async fn open_sent(&self, id: DeliveryId) -> io::Result<File> {
        File::open(self.sent_path(id)).await
    }

    fn sent_path(&self, id: DeliveryId) -> PathBuf {
        self.folder.join(format!("sent-{}", id.0))
    }

    fn create_folder(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }

    /// Deletes old uploads, and sent files whose messages are forgotten. Returns the names of the remaining uploads.
    async fn delete_old(&self) -> io::Result<Vec<String>> {
        let mut uploads = Vec::new();
        let kept = KEPT.to_std().unwrap_or_default();
        let mut entries = fs::read_dir(&self.folder).await?;
        while let Some(entry) = entries.next_entry().await? {
            let upload = entry.file_name().into_string().ok().filter(|name| is_upload(name));
            let age_max = if upload.is_some() { UPLOAD_AGE_MAX } else { kept };
            let changed = entry.metadata().await.and_then(|metadata| metadata.modified());
            let age = changed.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
            match age.is_some_and(|age| age > age_max) {
                // Another request may have deleted it.
                true => drop(fs::remove_file(entry.path()).await),
                false => uploads.extend(upload),
            }
        }
        Ok(uploads)
    }
}

/// Returns true for the name of an upload, which leads nowhere else.
fn is_upload(handle: &str) -> bool {
    let Some(rest) = handle.strip_prefix("up-") else { return false };
    let is_hex = |part: &str, chars: usize| {
        part.len() == chars && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match rest.split_once('-') {
        Some((owner, random)) => is_hex(owner, OWNER_CHARS) && is_hex(random, 32),
        // The names of former versions.
        None => is_hex(rest, 32),
    }
}
