//! Deletes old rows and returns their space: once the daemon is ready, and once a day. In slices, so that
//! other changes are made in between.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use rusqlite::Connection;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::opening::OpenedStore;
use crate::bus::{KEPT, journal, marks, outbox};
use crate::conversation::actions::{self, PruneMark};
use crate::conversation::asks;
use crate::conversation::deferred;
use crate::conversation::ledger::prune_usage;
use crate::conversation::sessions::{self, Retention};
use crate::conversation::transcript::is_quiet;
use crate::memory::attachments::{self, AttachmentLimits};
use crate::memory::forgotten;
use crate::services::Services;
use crate::store::{DatabasePages, Store, StoreError, Sync};
use crate::tasks::schedule::{self, Clock};
use crate::trust::instruction_watch::blobs_wanted;
use crate::turn::background;
use crate::turn::services::TurnServices;

const TIDY_EVERY: Duration = Duration::from_secs(24 * 3600);

/// Pause between two slices, in which waiting changes are written and a small machine rests.
const SLICE_PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of pages that one transaction returns to the disk: 1 MiB, at 1 KiB a page.
const PAGES_RETURNED_MAX: u32 = 1_024;

/// Free pages that are kept for the next writes: 4 MiB.
const FREE_PAGES_KEPT: u32 = 4_096;

/// Conversations are kept for at least this time, however large the database is.
const CONVERSATIONS_KEPT_MIN: chrono::Duration = chrono::Duration::days(30);

/// Records of finished work are kept for at least this time, however large the database is: longer than a month, which
/// budgets and usage sum up, undo reaches back, and missed messages of a silent chat are fetched.
const RECORDS_KEPT_MIN: chrono::Duration = chrono::Duration::days(32);

/// Deletes a slice of the rows older than a time. Returns the number of rows.
type Prune = fn(&Connection, DateTime<Utc>) -> rusqlite::Result<usize>;

/// The retention of a table's rows.
enum RowRetention {
    /// That of records of finished work, which a database that is too large shortens.
    Record,
    Fixed(chrono::Duration),
}

/// The tables to prune, with their retention.
const PRUNED: &[(Prune, RowRetention)] = &[
    (journal::prune, RowRetention::Record),
    (outbox::prune, RowRetention::Record),
    (asks::prune, RowRetention::Record),
    (deferred::prune, RowRetention::Record),
    (schedule::prune_webhook_calls, RowRetention::Record),
    // Each kind has a retention of its own.
    (background::prune, RowRetention::Fixed(chrono::Duration::zero())),
    (actions::prune_commands, RowRetention::Record),
    (prune_usage, RowRetention::Record),
    (forgotten::prune, RowRetention::Fixed(forgotten::KEPT)),
];

/// Deletes old data at the start and once a day.
#[derive(Clone)]
pub(super) struct Pruner {
    turns: Arc<TurnServices>,
    clock: Clock,
    opened: OpenedStore,
    retention: Retention,
    attachments: AttachmentLimits,
}

impl Pruner {
    pub(super) fn of(daemon: &Daemon) -> Self {
        let (turns, clock) = (Arc::clone(&daemon.turns), daemon.plan.clock.clone());
        let (opened, retention) = (daemon.opened, daemon.plan.agent.retention);
        let attachments = daemon.plan.intake.limits.kept();
        Self { turns, clock, opened, retention, attachments }
    }

    /// Tidies until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        loop {
            let tidied = stop.run_until_cancelled(self.tidy_by_clock()).await;
            if let Some(Err(error)) = tidied {
                tracing::warn!(%error, "Cannot clean up the store");
            }
            if timeout(TIDY_EVERY, stop.cancelled()).await.is_ok() {
                return;
            }
        }
    }

    /// Tidies by the clock if its time is plausible, and stores that time.
    async fn tidy_by_clock(&self) -> Result<(), StoreError> {
        let store = &self.turns.services.bus.store;
        let read_times = |store: &Connection| {
            Ok((journal::newest_of_platforms(store)?, marks::last_trusted_time(store)?))
        };
        let (newest_of_platforms, last_trusted_time) = store.read(read_times).await?;
        let newest =
            schedule::believed(self.opened.newest, newest_of_platforms.max(last_trusted_time));
        let uptime = chrono::Duration::from_std(self.opened.at.elapsed()).unwrap_or_default();
        // A platform may have reported a newer time since.
        let (newest, uptime) = match newest_of_platforms {
            Some(at) if newest.is_none_or(|newest| at > newest + uptime) => {
                (newest_of_platforms, chrono::Duration::zero())
            }
            _ => (newest, uptime),
        };
        let Some(now) = schedule::pruned_until(self.clock.now(), newest, uptime) else {
            tracing::warn!("The clock is wrong, so no old data is deleted");
            return Ok(());
        };
        if let Some(at) = newest.map(|newest| now.min(newest + uptime)).max(last_trusted_time) {
            let note = move |store: &Connection| marks::store_trusted_time(store, at);
            store.write("clock believed", Sync::Later, note).await?;
        }
        self.tidy(now).await
    }

    async fn tidy(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let store = &self.turns.services.bus.store;
        // A part that fails does not delay the others.
        let pruned = prune_rows(store, now, self.retention).await;
        let tidied = self.tidy_attachments(now).await;
        let swept = self.turns.actions.sweep(self.opened.at.elapsed(), blobs_wanted).await;
        let returned = return_free_pages(store).await;
        pruned.and(tidied).and(swept).and(returned)
    }

    /// Deletes attachments that are too old or too many, remains of a deletion that a crash interrupted, and
    /// records of files that no longer exist.
    async fn tidy_attachments(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let Services { bus, workspace, .. } = &self.turns.services;
        let limits = self.attachments;
        attachments::compare(&bus.store, workspace).await?;
        loop {
            let expire = move |store: &Connection| attachments::expire(store, now, limits);
            if bus.store.write("attachments expire", Sync::Later, expire).await? == 0 {
                break;
            }
            sleep(SLICE_PAUSE).await;
        }
        attachments::sweep(&bus.store, workspace).await
    }
}

/// Deletes all rows that are too old at `now`. While the database is too large, deletes conversations earlier, and then records
/// of finished work.
pub async fn prune_rows(
    store: &Store,
    now: DateTime<Utc>,
    retention: Retention,
) -> Result<(), StoreError> {
    let (mut kept, mut records_kept) = (retention.kept, KEPT);
    loop {
        forget_records(store, now, records_kept).await?;
        if forget_conversations(store, now - kept).await? > 0 {
            // The deleted rows no longer hold records that are too old.
            continue;
        }
        let bytes = store.read(DatabasePages::bytes).await?;
        if bytes <= retention.database_bytes_max {
            return Ok(());
        }
        if kept > CONVERSATIONS_KEPT_MIN {
            kept = CONVERSATIONS_KEPT_MIN.max(kept * 3 / 4);
        } else if records_kept > RECORDS_KEPT_MIN {
            records_kept = RECORDS_KEPT_MIN.max(records_kept * 3 / 4);
        } else {
            tracing::warn!(
                bytes,
                "The database is too large, but nothing older than a month is left"
            );
            return Ok(());
        }
        tracing::info!(
            bytes,
            days = kept.num_days(),
            days_of_records = records_kept.num_days(),
            "The database is too large, old data will be deleted earlier"
        );
    }
}

/// Deletes conversations that were closed before a time, in slices. Returns the number of rows.
async fn forget_conversations(store: &Store, before: DateTime<Utc>) -> Result<usize, StoreError> {
    let prune = move |store: &Connection| sessions::prune(store, before);
    let mut forgotten = 0;
    loop {
        match store.write("prune", Sync::Later, prune).await? {
            0 => return Ok(forgotten),
            rows => forgotten += rows,
        }
        sleep(SLICE_PAUSE).await;
    }
}

/// Deletes records of finished work that are older than `records_kept`, and rows with a retention of their own, in slices.
async fn forget_records(
    store: &Store,
    now: DateTime<Utc>,
    records_kept: chrono::Duration,
) -> Result<(), StoreError> {
    loop {
        let slices = PRUNED.iter().map(|(prune, retention)| {
            let kept = match retention {
                RowRetention::Record => records_kept,
                RowRetention::Fixed(kept) => *kept,
            };
            let (prune, before) = (*prune, now - kept);
            store.write("prune", Sync::Later, move |store| prune(store, before))
        });
        // A table that cannot be pruned does not delay the others.
        let (mut forgotten, mut failed) = (0, None);
        for slice in join_all(slices).await {
            match slice {
                Ok(rows) => forgotten += rows,
                Err(error) => failed = Some(error),
            }
        }
        match (forgotten, failed) {
            (0, Some(error)) => return Err(error),
            (0, None) => break,
            _ => sleep(SLICE_PAUSE).await,
        }
    }
    let mut mark = Some(PruneMark::default());
    while let Some(from) = mark {
        let prune = move |store: &Connection| actions::prune(store, now - records_kept, from);
        mark = store.write("prune actions", Sync::Later, prune).await?;
        sleep(SLICE_PAUSE).await;
    }
    Ok(())
}

/// Returns free pages to the disk in slices. A database of an older version cannot do so. Once a quarter of it
/// is free, and nothing is in progress, it is rewritten as one that can.
async fn return_free_pages(store: &Store) -> Result<(), StoreError> {
    let read_state = |store: &Connection| Ok((DatabasePages::count(store)?, is_quiet(store)?));
    let (pages, is_quiet) = store.read(read_state).await?;
    if pages.free <= FREE_PAGES_KEPT {
        return Ok(());
    }
    if pages.can_shrink {
        let mut free = pages.free;
        while free > FREE_PAGES_KEPT {
            let pages_max = PAGES_RETURNED_MAX.min(free - FREE_PAGES_KEPT);
            let shrink = move |store: &Connection| DatabasePages::release_free(store, pages_max);
            let free_after = store.write("shrink", Sync::Later, shrink).await?;
            // Nothing was returned. Others may use free pages meanwhile, but none becomes free by itself.
            if free_after >= free {
                break;
            }
            free = free_after;
            sleep(SLICE_PAUSE).await;
        }
    } else if is_quiet && pages.free > pages.all / 4 {
        tracing::info!(pages = pages.free, "Rebuilding the database without its free pages");
        store.rewrite().await?;
    }
    store.checkpoint().await;
    Ok(())
}
