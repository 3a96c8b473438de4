//! Ends in the store of an unpacked backup what was pending when it was made, and writes down what the owner is told.

use std::path::Path;

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use super::BackupManifest;
use super::forget_again::{self, FilesOfBackup};
use crate::bus::outbox;
use crate::bus::restored::{self, ChannelMark, PendingMessage};
use crate::channels;
use crate::conversation;
use crate::memory::forgotten::ForgottenRecord;
use crate::people;
use crate::replies::{self, RestoredWork};
use crate::store::{self, OpenError};
use crate::tasks;
use crate::tasks::restored::AcceptedWebhookKey;
use crate::workspace::WorkspacePath;

/// The knowledge of the replaced home about the time since the backup.
pub(super) struct SinceBackup {
    pub(super) marks: Vec<ChannelMark>,
    pub(super) forgotten: Vec<ForgottenRecord>,
    /// Files of the backup with what was forgotten.
    pub(super) files: FilesOfBackup,
    pub(super) webhook_keys: Vec<AcceptedWebhookKey>,
}

/// A store that was settled.
pub(super) struct SettledStore {
    /// The message for the owner, with everything that was pending.
    pub(super) pending: String,
    pub(super) work: RestoredWork,
    /// Files that are to be deleted.
    pub(super) forgotten: Vec<WorkspacePath>,
}

/// Migrates the store, ends what was pending in one transaction, takes over newer marks and keys, and forgets again.
/// The message for the owner is also queued if there is an owner, with fewer entries.
pub(super) fn settle(
    home: &Path,
    since: &SinceBackup,
    manifest: &BackupManifest,
    now: DateTime<Utc>,
) -> Result<SettledStore, OpenError> {
    store::change_offline(home, |store| {
        restored::keep_newer_marks(store, &since.marks)?;
        tasks::restored::keep_webhook_keys(store, &since.webhook_keys)?;
        let forgotten = forget_again::in_store(store, &since.forgotten, &since.files)?;
        channels::restored::end_logins(store)?;
        let made = manifest.made.format("%Y-%m-%d %H:%M UTC").to_string();
        let work = RestoredWork { forgotten: since.forgotten.len(), ..end_all(store, manifest, now)? };
        if let Some(owner) = people::owner_address(store)? {
            let words = replies::restored(&made, &work, replies::RESTORED_LISTED_MAX);
            outbox::put(store, &owner, None, &words)?;
        }
        Ok(SettledStore { pending: replies::restored(&made, &work, usize::MAX), work, forgotten })
    })
}

fn end_all(
    store: &Connection,
    manifest: &BackupManifest,
    now: DateTime<Utc>,
) -> rusqlite::Result<RestoredWork> {
    let turns = conversation::restored::end_turns(store)?;
    let calls = conversation::restored::end_calls(store, manifest.made)?;
    let calls = turns.calls.into_iter().chain(calls);
    let tasks = tasks::restored::end_tasks(store, now)?;
    let jobs = tasks::restored::skip_due_jobs(store, now)?;
    let incoming = restored::end_incoming(store)?;
    // Last: what ended may have queued a word.
    let outgoing = restored::end_outgoing(store)?;
    let words = |messages: Vec<PendingMessage>| {
        let words = |it: PendingMessage| format!("{}: {}", it.at, it.text);
        messages.into_iter().map(words).collect()
    };
    let jobs = jobs.into_iter().map(|job| match job.next {
        Some(next) => {
            format!("job {}, next {}: {}", job.number, next.format("%Y-%m-%d %H:%M UTC"), job.text)
        }
        None => format!("job {}, paused: {}", job.number, job.text),
    });
    Ok(RestoredWork {
        incoming: words(incoming),
        outgoing: words(outgoing),
        calls: calls.map(|call| format!("{}: {}", call.to, call.tool)).collect(),
        jobs: jobs.collect(),
        turns: turns.count,
        tasks,
        forgotten: 0,
    })
}
