//! Reports changes of instructions and skills to the owner, including those that a command makes. A tool for
//! files names the file that it changes; a command may change anything within its reach. So the state of the
//! files is stored as a baseline before a call that acts outside, and compared when the call has ended. Each
//! difference is reported, and becomes an action of its own, so that it can be undone. The baseline outlives
//! a crash, and is compared at the next start.

mod rules;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::bus::{Notifier, journal, outbox};
use crate::conversation::actions::{self, ActionAuthor, Actions};
use crate::people;
use crate::replies;
use crate::store::{Json, Store, StoreError, Sync, Time};
use crate::types::message::{Address, ChatKind, Sender};
use crate::workspace::Workspace;
use rules::{ChangedInstruction, InstructionMarks};

/// Pause before the next attempt when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// An actor that may change instructions without naming them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionEditor {
    pub tool: String,
    pub at: Address,
    #[serde(alias = "place")]
    pub chat_kind: ChatKind,
    pub who: Sender,
    /// True if the person who requested it may see the instructions. Otherwise the owner gets the report in another
    /// chat.
    pub is_owner: bool,
}

/// Watches the instruction files. Cheap to clone.
#[derive(Clone)]
pub struct InstructionWatcher(Arc<WatchInner>);

struct WatchInner {
    workspace: Workspace,
    actions: Actions,
    outbox: Notifier,
    /// Wakes when an editor has ended.
    ended: Notifier,
    /// The number of editors that run now.
    watched: AtomicUsize,
    /// True if a baseline is stored.
    is_open: AtomicBool,
    /// Held from the read of the files to the commit: two at once would report the same change twice.
    looking: Mutex<()>,
}

/// Marks that an editor may change the files, until it is dropped.
#[must_use]
pub struct WatchGuard(InstructionWatcher);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.0.watched.fetch_sub(1, Ordering::SeqCst);
        self.0.0.ended.notify();
    }
}

impl InstructionWatcher {
    pub fn new(workspace: Workspace, actions: Actions, outbox: Notifier) -> Self {
        Self(Arc::new(WatchInner {
            workspace,
            actions,
            outbox,
            ended: Notifier::default(),
            watched: AtomicUsize::new(0),
            // A crash may have left a baseline.
            is_open: AtomicBool::new(true),
            looking: Mutex::default(),
        }))
    }

    /// Registers an editor that is about to begin. The baseline is stored when this returns, and is on the
    /// disk with the next synced write.
    pub async fn watch(&self, actor: InstructionEditor) -> Result<WatchGuard, StoreError> {
        let _alone = self.0.looking.lock().await;
        self.0.watched.fetch_add(1, Ordering::SeqCst);
        let watch = WatchGuard(self.clone());
        self.compare(Some(actor)).await?;
        Ok(watch)
    }

    /// Reports the changes since the baseline, if there is one.
    pub async fn report_changes(&self) -> Result<(), StoreError> {
        if !self.0.is_open.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _alone = self.0.looking.lock().await;
        self.compare(None).await
    }

    async fn compare(&self, actor: Option<InstructionEditor>) -> Result<(), StoreError> {
        let WatchInner { workspace, actions, is_open, .. } = &*self.0;
        let before = match is_open.load(Ordering::SeqCst) {
            true => self.read_baseline().await?,
            false => None,
        };
        if before.is_none() && actor.is_none() {
            is_open.store(false, Ordering::SeqCst);
            return Ok(());
        }
        let images = actions.images.clone();
        let compare_files = move |workspace: &Workspace| {
            let former = before.as_ref().map(|baseline| &baseline.rules);
            let current = InstructionMarks::read(workspace, &images, former);
            let changed = former
                .map(|former| current.changed_since(former, workspace, &images))
                .unwrap_or_default();
            (before, current, changed)
        };
        let (before, current, changed) = workspace.run_blocking(compare_files).await;
        let must_stay = self.0.watched.load(Ordering::SeqCst) > 0;
        let is_unchanged = before.as_ref().is_some_and(|baseline| baseline.rules == current);
        if !(must_stay && is_unchanged && actor.is_none()) {
            let sync = if changed.is_empty() { Sync::Later } else { Sync::Now };
            let commit = move |store: &Connection| {
                let has_reported = match &before {
                    Some(before) => report(store, before, &current, &changed)?,
                    None => false,
                };
                let actor = actor.or(before.map(|baseline| baseline.actor));
                keep(store, actor.filter(|_| must_stay), &current)?;
                Ok(has_reported)
            };
            let has_reported = self.store().write("rules looked at", sync, commit).await?;
            if has_reported {
                self.0.outbox.notify();
            }
        }
        is_open.store(must_stay, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the stored baseline. If it is unreadable, sets it aside and notifies the owner.
    async fn read_baseline(&self) -> Result<Option<Baseline>, StoreError> {
        let why = match self.store().read(select_baseline).await? {
            None => return Ok(None),
            Some(Ok(baseline)) => return Ok(Some(baseline)),
            Some(Err(why)) => why,
        };
        tracing::error!(why, "Cannot read the saved state of the instructions, set it aside");
        self.store().write("unreadable", Sync::Now, move |store| set_aside(store, &why)).await?;
        self.0.outbox.notify();
        Ok(None)
    }

    fn store(&self) -> &Store {
        &self.0.actions.store
    }
}

/// Compares the files at the start and whenever an editor has ended, because its caller may be gone. Runs until `stop`.
pub async fn run(instruction_watcher: InstructionWatcher, stop: CancellationToken) {
    let mut ended = instruction_watcher.0.ended.watch();
    while !stop.is_cancelled() {
        ended.mark_unchanged();
        let result = instruction_watcher.report_changes().await.inspect_err(|error| {
            tracing::error!(%error, "Cannot check the changes of commands, will try again");
        });
        tokio::select! {
            () = stop.cancelled() => {}
            changed = ended.changed(), if result.is_ok() => if changed.is_err() { break },
            () = sleep(STORE_PAUSE), if result.is_err() => {}
        }
    }
}

/// The stored state for a comparison.
struct Baseline {
    rules: InstructionMarks,
    since: DateTime<Utc>,
    /// The editor that began last. It may not be the author of a change.
    actor: InstructionEditor,
}

/// Reads the stored baseline. The outer error is the store's; the inner one means that the row is unreadable.
fn select_baseline(store: &Connection) -> rusqlite::Result<Option<Result<Baseline, String>>> {
    let row = store.prepare_cached("SELECT rules, whole, since, actor FROM rule_watch")?.query_row(
        [],
        |row| {
            let (is_whole, Time(since)) = (row.get(1)?, row.get(2)?);
            let read = || {
                let (Json(marks), Json(actor)) = (row.get(0)?, row.get(3)?);
                Ok(Baseline { rules: InstructionMarks { marks, is_whole }, since, actor })
            };
            Ok(read().map_err(|error: rusqlite::Error| error.to_string()))
        },
    );
    row.optional()
}

/// Returns the hashes of the blobs that are needed for comparisons.
pub fn blobs_wanted(store: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut rows = store.prepare_cached(
        "SELECT value FROM rule_watch,
             json_each(iif(json_valid(rule_watch.rules), rule_watch.rules, '{}')) WHERE type = 'text'",
    )?;
    rows.query_map([], |row| row.get(0))?.collect()
}

/// Removes an unreadable baseline, keeps it as an unreadable row, and notifies the owner.
fn set_aside(store: &Connection, why: &str) -> rusqlite::Result<()> {
    let row_json: Option<String> = store
        .prepare_cached(
            "DELETE FROM rule_watch
             RETURNING json_object('rules', rules, 'whole', whole, 'since', since, 'actor', actor)",
        )?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(row_json) = row_json else { return Ok(()) };
    let key = format!("rules {}", Utc::now().timestamp_millis());
    journal::store_unreadable_row(store, &key, "", &row_json, why)?;
    match people::owner_address(store)? {
        Some(owner) => outbox::put(store, &owner, None, replies::INSTRUCTIONS_UNREADABLE).map(drop),
        None => Ok(()),
    }
}

/// Stores the state of the files as the baseline. Removes it if `actor` is none: then no editor runs any more.
fn keep(
    store: &Connection,
    actor: Option<InstructionEditor>,
    now: &InstructionMarks,
) -> rusqlite::Result<()> {
    let Some(actor) = actor else {
        return store.execute("DELETE FROM rule_watch", []).map(drop);
    };
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO rule_watch (one, rules, whole, since, actor)
             VALUES (1, ?, ?, ?, ?)",
        )?
        .execute(params![Json(&now.marks), now.is_whole, Time::now(), Json(actor)])?;
    Ok(())
}

/// Reports the changes that were not reported yet to the owner, each with its way to undo it. Returns true if a message
/// was due.
fn report(
    store: &Connection,
    before: &Baseline,
    now: &InstructionMarks,
    changed: &[ChangedInstruction],
) -> rusqlite::Result<bool> {
    let mut unreported = Vec::new();
    for change in changed {
        let paths = [change.path.as_str(), change.leads_to.as_str()];
        // A tool that reports its change makes no links.
        if change.is_relinked
            || !actions::was_reported(store, paths, change.after.as_deref(), before.since)?
        {
            unreported.push(change);
        }
    }
    let too_many = before.rules.is_whole && !now.is_whole;
    if unreported.is_empty() && !too_many {
        return Ok(false);
    }
    let InstructionEditor { tool, at, chat_kind, who, is_owner } = &before.actor;
    let to = match is_owner {
        true => Some(at.clone()),
        false => people::owner_address(store)?,
    };
    let author = ActionAuthor { tool, at: to.as_ref().unwrap_or(at), chat_kind: *chat_kind, who };
    let seen: Vec<_> = unreported.iter().map(|change| change.seen()).collect();
    let ids = actions::note(store, &author, &seen)?;
    let shown = unreported.iter().zip(&seen).zip(&ids).map(|((change, seen), id)| {
        replies::InstructionChanged {
            path: &change.path,
            lines: &change.lines,
            action: id.0,
            can_be_undone: seen.undo.is_some(),
            is_link: change.is_relinked,
        }
    });
    let message = replies::instructions_changed_by_tool(tool, &shown.collect::<Vec<_>>(), too_many);
    match to {
        Some(to) => drop(outbox::put(store, &to, None, &message)?),
        None => tracing::warn!(
            tool,
            files = unreported.len(),
            "Instructions or skills were changed, and there is no owner to notify"
        ),
    }
    Ok(true)
}
