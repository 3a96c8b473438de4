//! Ends in the store of an unpacked backup what was pending when it was made, takes over what the replaced home knows
//! about the time since, and writes down what the owner is told.

use std::path::Path;

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use super::access::{self, AccessSince, SettledAccess};
use super::forget_again::{self, FilesOfBackup};
use super::{BackupError, BackupManifest};
use crate::bus::outbox;
use crate::bus::restored::{self, ChannelMark, PendingMessage};
use crate::channels;
use crate::conversation;
use crate::memory::forgotten::{self, ForgottenRecord};
use crate::replies::{self, RestoredWork};
use crate::store::{self, NewestRowNumber, OpenError, try_read};
use crate::tasks;
use crate::tasks::restored::AcceptedWebhookKey;
use crate::types::message::Address;
use crate::workspace::WorkspacePath;

/// The knowledge of the replaced home about the time since the backup.
pub(super) struct SinceBackup {
    pub(super) marks: Vec<ChannelMark>,
    pub(super) forgotten: Vec<ForgottenRecord>,
    /// Files of the backup with what was forgotten.
    pub(super) files: FilesOfBackup,
    /// None if it cannot be read.
    pub(super) access: Option<AccessSince>,
    pub(super) webhook_keys: Vec<AcceptedWebhookKey>,
    pub(super) row_numbers: Vec<NewestRowNumber>,
}

impl SinceBackup {
    /// Reads what a home knows that has gone on since the backup, as far as its store can be read, and forgets again in
    /// the files of the unpacked backup.
    pub(super) fn read(home: &Path, unpacked: &Path) -> Result<Self, BackupError> {
        let forgotten = forgotten_since(home, unpacked);
        let files = forget_again::in_files(unpacked, &forgotten);
        let files = files.map_err(|error| BackupError::StillKnown(format!("{error:#}")))?;
        Ok(Self {
            marks: try_read(home, restored::channel_marks).unwrap_or_default(),
            forgotten,
            files,
            access: access::read(home),
            webhook_keys: try_read(home, tasks::restored::webhook_keys).unwrap_or_default(),
            row_numbers: try_read(home, store::newest_row_numbers).unwrap_or_default(),
        })
    }
}

/// Returns the records of the home that the backup does not have. Times would tell less, because a clock may have been
/// behind or ahead.
fn forgotten_since(home: &Path, unpacked: &Path) -> Vec<ForgottenRecord> {
    let read = |home: &Path| try_read(home, forgotten::all).unwrap_or_default();
    let known = read(unpacked);
    read(home).into_iter().filter(|record| !known.contains(record)).collect()
}

/// A store that was settled.
pub(super) struct SettledStore {
    /// The message for the owner, with everything that was pending.
    pub(super) pending: String,
    pub(super) work: RestoredWork,
    /// Files that are to be deleted.
    pub(super) forgotten: Vec<WorkspacePath>,
}

/// Migrates the store, ends what was pending in one transaction, takes over newer marks, numbers and keys, forgets
/// again, and takes from people again. The message for the owner is also queued if there is an owner, with fewer
/// entries.
pub(super) fn settle(
    home: &Path,
    since: &SinceBackup,
    manifest: &BackupManifest,
    now: DateTime<Utc>,
) -> Result<SettledStore, OpenError> {
    store::change_offline(home, |store| {
        // First: new rows get new numbers.
        store::skip_row_numbers(store, &since.row_numbers)?;
        restored::keep_newer_marks(store, &since.marks)?;
        tasks::restored::keep_webhook_keys(store, &since.webhook_keys)?;
        let forgotten = forget_again::in_store(store, &since.forgotten, &since.files)?;
        channels::restored::end_logins(store)?;
        let made = manifest.made.format("%Y-%m-%d %H:%M UTC").to_string();
        let EndedWork { work, owner } = end_all(store, since, manifest, now)?;
        if !work.access.is_known {
            restored::skip_delivery_numbers(store)?;
        }
        if let Some(owner) = owner {
            let words = replies::restored(&made, &work, replies::RESTORED_LISTED_MAX);
            outbox::put(store, &owner, None, &words)?;
        }
        Ok(SettledStore { pending: replies::restored(&made, &work, usize::MAX), work, forgotten })
    })
}

/// The work that was ended.
struct EndedWork {
    work: RestoredWork,
    /// The address of the owner.
    owner: Option<Address>,
}

fn end_all(
    store: &Connection,
    since: &SinceBackup,
    manifest: &BackupManifest,
    now: DateTime<Utc>,
) -> rusqlite::Result<EndedWork> {
    let turns = conversation::restored::end_turns(store)?;
    let calls = conversation::restored::end_calls(store, manifest.made)?;
    let calls = turns.calls.into_iter().chain(calls);
    let tasks = tasks::restored::end_tasks(store, now)?;
    // Before the jobs: those of persons who were removed are not listed.
    let SettledAccess { access, owner } = access::settle(store, since.access.as_ref(), now)?;
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
    let work = RestoredWork {
        incoming: words(incoming),
        outgoing: words(outgoing),
        calls: calls.map(|call| format!("{}: {}", call.to, call.tool)).collect(),
        jobs: jobs.collect(),
        turns: turns.count,
        tasks,
        forgotten: since.forgotten.len(),
        access,
    };
    Ok(EndedWork { work, owner })
}
