//! Downloads the files of messages into the downloads of their person, or into their group's folder, and
//! transcribes speech, before a turn sees them. Shared by all adapters. A file is fetched again after a
//! crash, under the same name.

mod examine;
pub mod names;
pub mod spoken;

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use futures_util::FutureExt;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Channel, ChannelError, MediaSink};
use crate::bus::journal::{RowId, WaitingMessage};
use crate::bus::{self, journal};
use crate::bus::{Bus, IntakeState};
use crate::documents::DocumentReader;
use crate::memory::attachments::{self, AttachmentLimits, NewAttachment};
use crate::memory::file_scope;
use crate::people::Role;
use crate::people::folders::folder_owner;
use crate::provider::transcription::Transcriber;
use crate::replies;
use crate::store::{StoreError, Sync};
use crate::types::message::{ChannelName, ChatId, Fetched, MediaKind, MediaRef};
use crate::types::person::FolderOwner;
use crate::workspace::{FileError, Workspace, WorkspacePath, picture_type};

/// Parallel downloads of a channel, each of another chat: a small board has a slow line, and one person's
/// albums must not take all of it.
const AT_ONCE_MAX: usize = 4;

/// Maximum number of files of one message. Albums have ten.
const FILES_MAX: usize = 10;

/// Growth of the pause between attempts, and the longest pause that we choose.
const PAUSE_GROWTH: u32 = 4;
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Minimum wait that a platform can demand.
const AFTER_MIN: Duration = Duration::from_millis(5);

/// Pause after the store failed, first and at most. Fetched files are kept meanwhile.
const STORE_PAUSE: Duration = Duration::from_secs(2);
const STORE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Bytes that are read to detect an image: the length of the longest signature.
const HEAD_BYTES: u64 = 16;

/// The stores of fetched files.
#[derive(Clone)]
pub struct IntakeStores {
    pub bus: Bus,
    pub workspace: Workspace,
}

/// The settings of the intake of files.
#[derive(Clone, Default)]
pub struct Intake {
    pub limits: IntakeLimits,
    /// None if speech is not transcribed.
    pub transcriber: Option<Arc<Transcriber>>,
    /// None if the text of documents is not read.
    pub documents: Option<DocumentReader>,
}

/// Bounds for incoming files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeLimits {
    /// Maximum size of one file, in bytes.
    pub file_max: u64,
    /// Maximum size of all files together, in bytes. The oldest are deleted first.
    pub inbox_max: u64,
    /// Maximum size of all files of a person or a group, in bytes.
    pub person_max: u64,
    /// Time after which a file is deleted.
    pub kept: Duration,
    /// Time limit of one attempt to download a file.
    pub time_max: Duration,
    /// Time limit of a transcript, with its attempts.
    pub transcript_time_max: Duration,
    /// Pause before the second attempt.
    pub pause: Duration,
    /// Sum of all pauses for a message's files while the network or the platform is unreachable. Starts
    /// again after a restart.
    pub patience: Duration,
}

impl Default for IntakeLimits {
    fn default() -> Self {
        Self {
            file_max: 20_000_000,
            inbox_max: 500_000_000,
            person_max: 500_000_000,
            kept: Duration::from_secs(365 * 24 * 3600),
            time_max: Duration::from_secs(60),
            transcript_time_max: Duration::from_secs(180),
            pause: Duration::from_secs(1),
            // A router restarts, or a line is cut for a while. Messages that wait behind the file can
            // still be answered then.
            patience: Duration::from_secs(15 * 60),
        }
    }
}

impl IntakeLimits {
    /// Returns the limits of the files that are kept.
    pub fn kept(&self) -> AttachmentLimits {
        let kept = chrono::Duration::from_std(self.kept).unwrap_or(chrono::Duration::MAX);
        AttachmentLimits { kept, bytes_max: self.person_max }
    }
}

/// Downloads files for one channel until `stop`. An interrupted download begins again after the next
/// start.
pub async fn run(
    name: ChannelName,
    channel: Arc<dyn Channel>,
    stores: IntakeStores,
    intake: Intake,
    stop: CancellationToken,
) {
    let IntakeStores { bus, workspace } = stores;
    let mut woken = bus.inbox.watch();
    let slots = Arc::new(Semaphore::new(AT_ONCE_MAX));
    let mut downloads: JoinSet<RowId> = JoinSet::new();
    let mut busy: HashSet<RowId> = HashSet::new();
    let mut chats: HashMap<ChatId, Arc<Mutex<()>>> = HashMap::new();
    loop {
        woken.mark_unchanged();
        let channel_name = name.clone();
        let pause = match bus.store.read(move |store| journal::unready(store, &channel_name)).await
        {
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
                        chat: Arc::clone(chats.entry(row.inbound.from.chat.clone()).or_default()),
                    };
                    downloads.spawn(async move { fetcher.fetch_files(row).await });
                }
                None
            }
            Err(error) => {
                tracing::error!(channel = %name, %error, "The fetching of files pauses");
                Some(STORE_PAUSE)
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            Some(ended) = downloads.join_next() => {
                busy.remove(&ended.expect("the work catches its panics, and is not aborted"));
                chats.retain(|_, chat| Arc::strong_count(chat) > 1);
            }
            changed = woken.changed() => if changed.is_err() { return },
            () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
        }
    }
}

struct Fetcher {
    channel: Arc<dyn Channel>,
    bus: Bus,
    workspace: Workspace,
    intake: Intake,
    slots: Arc<Semaphore>,
    /// Locked while one of the chat's files is downloaded: a chat has at most one slot, and queues for it
    /// once.
    chat: Arc<Mutex<()>>,
}

impl Fetcher {
    /// Downloads all files of a message, and marks it ready.
    async fn fetch_files(&self, row: WaitingMessage) -> RowId {
        let id = row.id;
        let mut files = row.inbound.body.media.clone();
        let mut records = Vec::new();
        let fetch = self.fetch_all(&row, &mut files, &mut records);
        let fetched = AssertUnwindSafe(fetch).catch_unwind().await;
        if fetched.is_err() {
            tracing::error!(row = id.0, "Fetching a file panicked");
            for file in files.iter_mut().filter(|file| file.fetched.is_none()) {
                file.fetched = Some(Fetched::Failed(replies::FILE_BROKE.to_owned()));
            }
        }
        let mut pause = STORE_PAUSE;
        let received = loop {
            match self.commit(&row, files.clone(), records.clone()).await {
                Ok(received) => break received,
                Err(error) => {
                    tracing::error!(%error, "Cannot save that files have arrived");
                    sleep(pause).await;
                    pause = (pause * PAUSE_GROWTH).min(STORE_PAUSE_MAX);
                }
            }
        };
        match received {
            IntakeState::Ready | IntakeState::Partly => self.expire().await,
            IntakeState::Withdrawn => self.drop_files(files).await,
        }
        self.bus.inbox.notify();
        id
    }

    async fn commit(
        &self,
        row: &WaitingMessage,
        files: Vec<MediaRef>,
        records: Vec<NewAttachment>,
    ) -> Result<IntakeState, StoreError> {
        let key = row.inbound.key.clone();
        let receive = move |store: &_| {
            let received = bus::record_files(store, &key, &files)?;
            if received != IntakeState::Withdrawn {
                records.iter().try_for_each(|record| attachments::put(store, record))?;
            }
            Ok(received)
        };
        self.bus.store.write("files", Sync::Now, receive).await
    }

    /// Deletes files that are too old, or above the limit of their person.
    async fn expire(&self) {
        let limits = self.intake.limits.kept();
        let expire = move |store: &_| attachments::expire(store, Utc::now(), limits);
        let expired = self.bus.store.write("attachments expire", Sync::Later, expire).await;
        let swept = match expired {
            Ok(0) => return,
            Ok(_) => attachments::sweep(&self.bus.store, &self.workspace).await,
            Err(error) => Err(error),
        };
        if let Err(error) = swept {
            tracing::warn!(%error, "Cannot delete old attachments");
        }
    }

    /// Deletes the files of a withdrawn message.
    async fn drop_files(&self, files: Vec<MediaRef>) {
        let paths = files.into_iter().filter_map(|file| file.fetched?.path()?.parse().ok());
        let paths: Vec<WorkspacePath> = paths.collect();
        self.workspace
            .run_blocking(move |workspace| {
                paths.iter().for_each(|path| workspace.remove(path));
            })
            .await;
    }

    async fn fetch_all(
        &self,
        row: &WaitingMessage,
        files: &mut [MediaRef],
        records: &mut Vec<NewAttachment>,
    ) {
        let has_no_text = row.inbound.body.text.trim().is_empty();
        let mut pauses_left = self.intake.limits.patience;
        let folder = self.folder(row).await;
        let unfetched = files.iter_mut().enumerate().filter(|(_, file)| file.fetched.is_none());
        for (n, file) in unfetched {
            let fetched = match n {
                FILES_MAX.. => Err(replies::too_many_files(FILES_MAX)),
                _ => {
                    let path = names::path(&folder, (row.id, row.received), n, file);
                    let place = move |workspace: &Workspace| workspace.free_place(&path);
                    let path = self.workspace.run_blocking(place).await;
                    let fetched = self.fetch(&path, file, &mut pauses_left).await;
                    if fetched.is_err() {
                        // A crash may have left a partial file there.
                        let partial = path.clone();
                        self.workspace
                            .run_blocking(move |workspace| workspace.remove(&partial))
                            .await;
                    }
                    fetched.map(|()| path)
                }
            };
            file.fetched = Some(match fetched {
                Ok(path) => {
                    let fetched = self.transcribe(path.clone(), file, has_no_text).await;
                    let (fetched, record) = self.examine(row, &folder, path, file, fetched).await;
                    records.extend(record);
                    fetched
                }
                Err(reason) => {
                    tracing::info!(row = row.id.0, reason, "A file could not be fetched");
                    Fetched::Failed(reason)
                }
            });
        }
        let (bytes_max, kept_prefix) = (self.intake.limits.inbox_max, format!("{}-", row.id.0));
        let make_room = move |workspace: &Workspace| {
            workspace.make_room(&workspace.attachment_folders(), bytes_max, &kept_prefix)
        };
        if let Err(error) = self.workspace.run_blocking(make_room).await {
            tracing::warn!(%error, "Cannot delete old attachments");
        }
    }

    /// Returns the folder for a message's files: the downloads of the person, or the group's folder. If the store
    /// cannot tell who the person is, only the sending account can reach them.
    async fn folder(&self, row: &WaitingMessage) -> WorkspacePath {
        let (from, sender) = (&row.inbound.from, row.sender().clone());
        let (people, channel, id) =
            (self.bus.people.clone(), from.channel.clone(), sender.id.clone());
        let look = move |store: &_| {
            let role = people.role_of(store, &channel, &id)?.unwrap_or(Role::Guest);
            Ok((role, folder_owner(store, &channel, &id)?))
        };
        let (role, owner) = self.bus.store.read(look).await.unwrap_or_else(|error| {
            tracing::error!(%error, "Cannot look up the role of a person who has sent files");
            (Role::Guest, FolderOwner::Account(from.channel.clone(), sender.id))
        });
        file_scope(role, row.inbound.chat_kind, from, &owner).downloads()
    }

    /// Downloads one file. All pauses together are at most `pauses_left`. Returns an explanation if it fails.
    async fn fetch(
        &self,
        path: &WorkspacePath,
        file: &mut MediaRef,
        pauses_left: &mut Duration,
    ) -> Result<(), String> {
        let IntakeLimits { file_max, time_max, pause, .. } = self.intake.limits;
        if file.size.is_some_and(|size| size > file_max) {
            return Err(replies::file_over_intake(file_max));
        }
        let mut wait = pause;
        loop {
            // The time limit begins when the attempt gets its slot.
            let attempt = async { timeout(time_max, self.attempt(path, file)).await };
            match self.with_slot(attempt).await {
                Err(_) => return Err(replies::FILE_TOO_SLOW.to_owned()),
                Ok(Ok(())) => return Ok(()),
                Ok(Err(ChannelError::Unavailable { after, .. })) if !pauses_left.is_zero() => {
                    let pause = after.unwrap_or(wait).max(AFTER_MIN).min(*pauses_left);
                    *pauses_left -= pause;
                    sleep(pause).await;
                    wait = (wait * PAUSE_GROWTH).min(PAUSE_MAX);
                }
                Ok(Err(error)) => return Err(error.to_string()),
            }
        }
    }

    /// Makes one attempt as soon as the chat has a slot. The pauses between attempts block nobody.
    async fn with_slot<T>(&self, attempt: impl Future<Output = T>) -> T {
        let _chat = self.chat.lock().await;
        let _slot = self.slots.acquire().await.expect("the slots are never closed");
        attempt.await
    }

    async fn attempt(&self, path: &WorkspacePath, file: &mut MediaRef) -> Result<(), ChannelError> {
        let to_refused = |error: FileError| ChannelError::Refused(error.to_string());
        let target = path.clone();
        let begin = move |workspace: &Workspace| workspace.create_partial_file(&target);
        let (incoming, content) = self.workspace.run_blocking(begin).await.map_err(to_refused)?;
        let content = tokio::fs::File::from_std(content);
        let mut sink = MediaSink::new(content, self.intake.limits.file_max);
        self.channel.fetch(file, &mut sink).await?;
        let content =
            sink.finish().await.map_err(|error| ChannelError::Refused(error.to_string()))?;
        let content = content.into_std().await;
        let keep = move |workspace: &Workspace| {
            let path = incoming.save(&content)?;
            workspace.open_without_links(&path)?.read_page(0, HEAD_BYTES)
        };
        let head = self.workspace.run_blocking(keep).await.map_err(to_refused)?;
        file.size = Some(head.size);
        match (picture_type(&head.bytes), &file.mime) {
            (Some(mime), _) => file.mime = Some(mime.to_owned()),
            (None, Some(mime)) if mime.starts_with("image/") => file.mime = None,
            (None, _) => {}
        }
        Ok(())
    }

    /// Transcribes a voice message, or an audio file that came without text.
    async fn transcribe(&self, path: WorkspacePath, file: &MediaRef, has_no_text: bool) -> Fetched {
        let is_speech = match file.kind {
            MediaKind::Voice => true,
            MediaKind::Audio => has_no_text && self.intake.transcriber.is_some(),
            MediaKind::Image | MediaKind::Video | MediaKind::Document | MediaKind::Sticker => false,
        };
        if !is_speech {
            return Fetched::Workspace(path.to_string());
        }
        let reason = match &self.intake.transcriber {
            None => replies::NO_TRANSCRIPTION.to_owned(),
            Some(transcriber) => {
                let IntakeLimits { transcript_time_max, pause, .. } = self.intake.limits;
                let transcription = spoken::words(transcriber, &self.workspace, &path, pause);
                match timeout(transcript_time_max, transcription).await {
                    Ok(Ok(words)) => {
                        return Fetched::Transcribed { path: path.to_string(), words };
                    }
                    Ok(Err(reason)) => reason,
                    Err(_) => replies::TRANSCRIPT_TOO_SLOW.to_owned(),
                }
            }
        };
        tracing::info!(%path, reason, "Could not transcribe a voice message");
        Fetched::Untranscribed { path: path.to_string(), reason }
    }
}
