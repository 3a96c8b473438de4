//! Fetches the files that came with messages into the workspace, and has what was spoken written
//! down, before a turn sees them. Written once for all adapters. A file is fetched again after a
//! crash, under the same name.

mod names;
mod spoken;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::supervise::AFTER_MAX;
use super::{Channel, ChannelError, MediaSink};
use crate::bus::journal::{self, RowId, Waiting};
use crate::bus::{self, Bus, Received};
use crate::message::{ChannelName, Fetched, MediaKind, MediaRef};
use crate::provider::transcription::Transcriber;
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::workspace::{FileError, Workspace, WorkspacePath, picture_type};

/// Where the files lie, in a folder for each month.
pub const INBOX: &str = "inbox";

/// Files of a channel that are fetched at once: a small board has a thin line.
const AT_ONCE_MAX: usize = 2;

/// Files of one message; albums have ten.
const FILES_MAX: usize = 10;

/// Attempts at a file while the platform says that it may work later.
const ATTEMPTS_MAX: u32 = 3;

/// How much longer each pause between attempts is.
const PAUSE_GROWTH: u32 = 4;

/// How long the intake rests when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// What is looked at to tell a picture: the longest of their marks.
const HEAD_BYTES: u64 = 16;

/// How files are taken in.
#[derive(Clone, Default)]
pub struct Intake {
    pub limits: Limits,
    /// None: what is spoken is not written down.
    pub transcriber: Option<Arc<Transcriber>>,
}

/// What may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of one file, in bytes.
    pub file_max: u64,
    /// Of all files together, in bytes; the oldest make room.
    pub inbox_max: u64,
    /// For one attempt at a file.
    pub time_max: Duration,
    /// For a transcript, with its attempts.
    pub transcript_time_max: Duration,
    /// Before the second attempt.
    pub pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_max: 20_000_000,
            inbox_max: 500_000_000,
            time_max: Duration::from_secs(60),
            transcript_time_max: Duration::from_secs(180),
            pause: Duration::from_secs(1),
        }
    }
}

/// Fetches for one channel until `stop`; what is cut off begins again after the next start.
pub async fn run(
    name: ChannelName,
    channel: Arc<dyn Channel>,
    (bus, workspace): (Bus, Workspace),
    intake: Intake,
    stop: CancellationToken,
) {
    let mut woken = bus.inbox.watch();
    let slots = Arc::new(Semaphore::new(AT_ONCE_MAX));
    let mut work: JoinSet<RowId> = JoinSet::new();
    let mut busy: HashSet<RowId> = HashSet::new();
    loop {
        woken.mark_unchanged();
        let asked = name.clone();
        let rest = match bus.store.read(move |store| journal::unready(store, &asked)).await {
            Ok(rows) => {
                for row in rows {
                    if !busy.insert(row.id) {
                        continue;
                    }
                    let fetcher = Fetcher {
                        channel: Arc::clone(&channel),
                        bus: bus.clone(),
                        workspace: workspace.clone(),
                        intake: intake.clone(),
                        slots: Arc::clone(&slots),
                    };
                    work.spawn(async move { fetcher.take_in(row).await });
                }
                None
            }
            Err(error) => {
                tracing::error!(channel = %name, %error, "Files rest");
                Some(STORE_PAUSE)
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            Some(ended) = work.join_next() => {
                busy.remove(&ended.expect("the work catches its panics, and is not aborted"));
            }
            changed = woken.changed() => if changed.is_err() { return },
            () = sleep(rest.unwrap_or_default()), if rest.is_some() => {}
        }
    }
}

struct Fetcher {
    channel: Arc<dyn Channel>,
    bus: Bus,
    workspace: Workspace,
    intake: Intake,
    slots: Arc<Semaphore>,
}

impl Fetcher {
    /// Fetches all files of a message, and makes it ready.
    async fn take_in(&self, row: Waiting) -> RowId {
        let id = row.id;
        let mut files = row.inbound.body.media.clone();
        let fetched = AssertUnwindSafe(self.fetch_all(&row, &mut files)).catch_unwind().await;
        if fetched.is_err() {
            tracing::error!(row = id.0, "Fetching a file panicked");
            for file in files.iter_mut().filter(|file| file.fetched.is_none()) {
                file.fetched = Some(Fetched::Failed(replies::FILE_BROKE.to_owned()));
            }
        }
        match self.commit(&row, files.clone()).await {
            Ok(Received::Ready | Received::Partly) => {}
            Ok(Received::Withdrawn) => self.drop_files(files).await,
            Err(error) => {
                tracing::error!(%error, "Could not write down that files have come");
                sleep(STORE_PAUSE).await;
            }
        }
        self.bus.inbox.up();
        id
    }

    async fn commit(&self, row: &Waiting, files: Vec<MediaRef>) -> Result<Received, StoreError> {
        let key = row.inbound.key.clone();
        let receive = move |store: &_| bus::receive(store, &key, &files);
        self.bus.store.write("files", Sync::Now, receive).await
    }

    /// Nobody will see them.
    async fn drop_files(&self, files: Vec<MediaRef>) {
        let paths = files.into_iter().filter_map(|file| file.fetched?.path()?.parse().ok());
        let paths: Vec<WorkspacePath> = paths.collect();
        self.workspace
            .off_thread(move |workspace| {
                paths.iter().for_each(|path| workspace.remove(path));
            })
            .await;
    }

    async fn fetch_all(&self, row: &Waiting, files: &mut [MediaRef]) {
        let no_words = row.inbound.body.text.trim().is_empty();
        let open = files.iter_mut().enumerate().filter(|(_, file)| file.fetched.is_none());
        for (n, file) in open {
            let fetched = match n {
                FILES_MAX.. => Err(replies::too_many_files(FILES_MAX)),
                _ => {
                    let path = names::path(row.id, row.received, n, file);
                    let fetched = self.fetch(&path, file).await;
                    if fetched.is_err() {
                        // What a crash may have left there.
                        let left = path.clone();
                        self.workspace.off_thread(move |it| it.remove(&left)).await;
                    }
                    fetched.map(|()| path)
                }
            };
            file.fetched = Some(match fetched {
                Ok(path) => self.hear(path, file, no_words).await,
                Err(reason) => {
                    tracing::info!(row = row.id.0, reason, "A file did not come");
                    Fetched::Failed(reason)
                }
            });
        }
        let (room, kept) = (self.intake.limits.inbox_max, format!("{}-", row.id.0));
        let made = move |workspace: &Workspace| workspace.make_room(INBOX, room, &kept);
        if let Err(error) = self.workspace.off_thread(made).await {
            tracing::warn!(%error, "Cannot make room in the inbox");
        }
    }

    /// Fetches one file, with patience; an error says in words why it is not there.
    async fn fetch(&self, path: &WorkspacePath, file: &mut MediaRef) -> Result<(), String> {
        let Limits { file_max, time_max, pause, .. } = self.intake.limits;
        if file.size.is_some_and(|size| size > file_max) {
            return Err(replies::file_over_intake(file_max));
        }
        let mut wait = pause;
        for attempt in 1.. {
            // Held for one attempt only, so that a file that must wait holds up no other.
            let slot = self.slots.acquire().await.expect("the slots are never closed");
            let attempted = timeout(time_max, self.attempt(path, file)).await;
            drop(slot);
            match attempted {
                Err(_) => return Err(replies::FILE_TOO_SLOW.to_owned()),
                Ok(Ok(())) => break,
                Ok(Err(ChannelError::Unavailable { after, .. })) if attempt < ATTEMPTS_MAX => {
                    let longest = AFTER_MAX.min(time_max);
                    sleep(after.unwrap_or(wait).min(longest)).await;
                    wait *= PAUSE_GROWTH;
                }
                Ok(Err(error)) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    async fn attempt(&self, path: &WorkspacePath, file: &mut MediaRef) -> Result<(), ChannelError> {
        let failed = |error: FileError| ChannelError::Refused(error.to_string());
        let wanted = path.clone();
        let begin = move |workspace: &Workspace| workspace.begin_file(&wanted);
        let (incoming, content) = self.workspace.off_thread(begin).await.map_err(failed)?;
        let content = tokio::fs::File::from_std(content);
        let mut sink = MediaSink::new(content, self.intake.limits.file_max);
        self.channel.fetch(file, &mut sink).await?;
        let content =
            sink.finish().await.map_err(|error| ChannelError::Refused(error.to_string()))?;
        let content = content.into_std().await;
        let keep = move |workspace: &Workspace| {
            let path = incoming.keep(&content)?;
            workspace.read_page(&path, 0, HEAD_BYTES)
        };
        let head = self.workspace.off_thread(keep).await.map_err(failed)?;
        file.size = Some(head.size);
        match (picture_type(&head.bytes), &file.mime) {
            (Some(mime), _) => file.mime = Some(mime.to_owned()),
            (None, Some(mime)) if mime.starts_with("image/") => file.mime = None,
            (None, _) => {}
        }
        Ok(())
    }

    /// Has a voice message written down; and music or speech that came without a word.
    async fn hear(&self, path: WorkspacePath, file: &MediaRef, no_words: bool) -> Fetched {
        let speaks = match file.kind {
            MediaKind::Voice => true,
            MediaKind::Audio => no_words && self.intake.transcriber.is_some(),
            MediaKind::Image | MediaKind::Video | MediaKind::Document | MediaKind::Sticker => false,
        };
        if !speaks {
            return Fetched::Workspace(path.to_string());
        }
        let reason = match &self.intake.transcriber {
            None => replies::NO_TRANSCRIPTION.to_owned(),
            Some(transcriber) => {
                let Limits { transcript_time_max, pause, .. } = self.intake.limits;
                let written = spoken::words(transcriber, &self.workspace, &path, pause);
                match timeout(transcript_time_max, written).await {
                    Ok(Ok(words)) => {
                        return Fetched::Transcribed { path: path.to_string(), words };
                    }
                    Ok(Err(reason)) => reason,
                    Err(_) => replies::TRANSCRIPT_TOO_SLOW.to_owned(),
                }
            }
        };
        tracing::info!(%path, reason, "Could not have a voice message written down");
        Fetched::Untranscribed { path: path.to_string(), reason }
    }
}
