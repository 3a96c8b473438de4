//! The owner is shown what is changed of what the bot goes by, also where a command did it. A tool for
//! files says what it will change; a command may change anything within its reach. So before a call that
//! acts outside, what the files are is written down; when it has ended, they are looked at again. What
//! differs is told, and is an action of its own, so that it can be undone. What was written down outlives
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

use crate::bus::{Wake, journal, outbox};
use crate::conversation::actions::{self, ActionAuthor, Actions};
use crate::people;
use crate::replies;
use crate::store::{Json, Store, StoreError, Sync, Time};
use crate::types::message::{Address, ChatKind, Sender};
use crate::workspace::Workspace;
use rules::{ChangedInstruction, InstructionMarks};

/// The pause when the store fails.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// An actor that may change instructions without naming them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionEditor {
    pub tool: String,
    pub at: Address,
    #[serde(alias = "place")]
    pub chat_kind: ChatKind,
    pub who: Sender,
    /// True if the person who asked for it may see the instructions. Else the owner gets the report elsewhere.
    pub is_owner: bool,
}

/// Watches over the files; cheap to clone.
#[derive(Clone)]
pub struct InstructionWatcher(Arc<WatchInner>);

struct WatchInner {
    workspace: Workspace,
    actions: Actions,
    outbox: Wake,
    /// Wakes when an actor that may change something has ended.
    ended: Wake,
    /// The number of actors that may change something now.
    watched: AtomicUsize,
    /// True if a baseline is recorded.
    is_open: AtomicBool,
    /// Held from a look at the files to its commit: two at once would tell the same change twice.
    looking: Mutex<()>,
}

/// For as long as it lives, something may change the files.
#[must_use]
pub struct WatchGuard(InstructionWatcher);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.0.0.watched.fetch_sub(1, Ordering::SeqCst);
        self.0.0.ended.up();
    }
}

impl InstructionWatcher {
    pub fn new(workspace: Workspace, actions: Actions, outbox: Wake) -> Self {
        Self(Arc::new(WatchInner {
            workspace,
            actions,
            outbox,
            ended: Wake::default(),
            watched: AtomicUsize::new(0),
            // As a crash may have left it.
            is_open: AtomicBool::new(true),
            looking: Mutex::default(),
        }))
    }

    /// Something begins that may change the files. What they are is written down when this returns,
    /// and is on the disk with the next change that is synced.
    pub async fn watch(&self, actor: InstructionEditor) -> Result<WatchGuard, StoreError> {
        let _alone = self.0.looking.lock().await;
        self.0.watched.fetch_add(1, Ordering::SeqCst);
        let watch = WatchGuard(self.clone());
        self.compare(Some(actor)).await?;
        Ok(watch)
    }

    /// Tells what has been changed since the last look, if something may have.
    pub async fn look(&self) -> Result<(), StoreError> {
        if !self.0.is_open.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _alone = self.0.looking.lock().await;
        self.compare(None).await
    }

    async fn compare(&self, actor: Option<InstructionEditor>) -> Result<(), StoreError> {
        let WatchInner { workspace, actions, is_open, .. } = &*self.0;
        let before = match is_open.load(Ordering::SeqCst) {
            true => self.kept().await?,
            false => None,
        };
        if before.is_none() && actor.is_none() {
            is_open.store(false, Ordering::SeqCst);
            return Ok(());
        }
        let images = actions.images.clone();
        let look = move |workspace: &Workspace| {
            let former = before.as_ref().map(|kept| &kept.rules);
            let now = InstructionMarks::read(workspace, &images, former);
            let changed = former
                .map(|former| now.changed_since(former, workspace, &images))
                .unwrap_or_default();
            (before, now, changed)
        };
        let (before, now, changed) = workspace.off_thread(look).await;
        let stays = self.0.watched.load(Ordering::SeqCst) > 0;
        let is_as_kept = before.as_ref().is_some_and(|kept| kept.rules == now);
        if !(stays && is_as_kept && actor.is_none()) {
            let sync = if changed.is_empty() { Sync::Later } else { Sync::Now };
            let commit = move |store: &Connection| {
                let told = match &before {
                    Some(before) => tell(store, before, &now, &changed)?,
                    None => false,
                };
                let actor = actor.or(before.map(|kept| kept.actor));
                keep(store, actor.filter(|_| stays), &now)?;
                Ok(told)
            };
            let told = self.store().write("rules looked at", sync, commit).await?;
            if told {
                self.0.outbox.up();
            }
        }
        is_open.store(stays, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the recorded baseline. If it is unreadable, the owner learns that nothing can be compared with it.
    async fn kept(&self) -> Result<Option<Baseline>, StoreError> {
        let why = match self.store().read(kept).await? {
            None => return Ok(None),
            Some(Ok(kept)) => return Ok(Some(kept)),
            Some(Err(why)) => why,
        };
        tracing::error!(why, "Cannot read the saved state of the instructions, set it aside");
        self.store().write("unreadable", Sync::Now, move |store| set_aside(store, &why)).await?;
        self.0.outbox.up();
        Ok(None)
    }

    fn store(&self) -> &Store {
        &self.0.actions.store
    }
}

/// Looks whenever something has ended, and at the start: whoever waited for it may be gone.
pub async fn run(instruction_watcher: InstructionWatcher, stop: CancellationToken) {
    let mut ended = instruction_watcher.0.ended.watch();
    while !stop.is_cancelled() {
        ended.mark_unchanged();
        let failed = instruction_watcher.look().await.inspect_err(|error| {
            tracing::error!(%error, "Cannot check the changes of commands, will try again");
        });
        tokio::select! {
            () = stop.cancelled() => {}
            changed = ended.changed(), if failed.is_ok() => if changed.is_err() { break },
            () = sleep(STORE_PAUSE), if failed.is_err() => {}
        }
    }
}

/// The recorded state for a comparison.
struct Baseline {
    rules: InstructionMarks,
    since: DateTime<Utc>,
    /// The actor that began last. Nobody knows if it made the change.
    actor: InstructionEditor,
}

/// The outer error is the store's, the inner one the row's alone.
fn kept(store: &Connection) -> rusqlite::Result<Option<Result<Baseline, String>>> {
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

/// The blobs that files are compared with.
pub fn blobs_wanted(store: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut rows = store.prepare_cached(
        "SELECT value FROM rule_watch,
             json_each(iif(json_valid(rule_watch.rules), rule_watch.rules, '{}')) WHERE type = 'text'",
    )?;
    rows.query_map([], |row| row.get(0))?.collect()
}

/// Forgets what cannot be compared with; it is kept as a row that cannot be read.
fn set_aside(store: &Connection, why: &str) -> rusqlite::Result<()> {
    let raw: Option<String> = store
        .prepare_cached(
            "DELETE FROM rule_watch
             RETURNING json_object('rules', rules, 'whole', whole, 'since', since, 'actor', actor)",
        )?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(raw) = raw else { return Ok(()) };
    let key = format!("rules {}", Utc::now().timestamp_millis());
    journal::keep_row(store, &key, "", &raw, why)?;
    match people::owner_place(store)? {
        Some(owner) => outbox::put(store, &owner, None, replies::RULES_UNREADABLE).map(drop),
        None => Ok(()),
    }
}

/// Writes down what the files are; `actor` is none if nobody may change them any more.
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

/// Tells the owner what was changed that nobody has told yet, with the way back.
fn tell(
    store: &Connection,
    before: &Baseline,
    now: &InstructionMarks,
    changed: &[ChangedInstruction],
) -> rusqlite::Result<bool> {
    let mut open = Vec::new();
    for change in changed {
        let paths = [change.path.as_str(), change.leads_to.as_str()];
        // No tool that tells makes links.
        if change.is_relinked
            || !actions::is_told(store, paths, change.after.as_deref(), before.since)?
        {
            open.push(change);
        }
    }
    let too_many = before.rules.is_whole && !now.is_whole;
    if open.is_empty() && !too_many {
        return Ok(false);
    }
    let InstructionEditor { tool, at, chat_kind, who, is_owner } = &before.actor;
    let to = match is_owner {
        true => Some(at.clone()),
        false => people::owner_place(store)?,
    };
    let author = ActionAuthor { tool, at: to.as_ref().unwrap_or(at), chat_kind: *chat_kind, who };
    let seen: Vec<_> = open.iter().map(|change| change.seen()).collect();
    let ids = actions::note(store, &author, &seen)?;
    let told =
        open.iter().zip(&seen).zip(&ids).map(|((change, seen), id)| replies::InstructionChanged {
            path: &change.path,
            lines: &change.lines,
            action: id.0,
            can_be_undone: seen.undo.is_some(),
            is_link: change.is_relinked,
        });
    let words = replies::rules_changed_by(tool, &told.collect::<Vec<_>>(), too_many);
    match to {
        Some(to) => drop(outbox::put(store, &to, None, &words)?),
        None => tracing::warn!(
            tool,
            files = open.len(),
            "Instructions or skills were changed, and there is no owner to notify"
        ),
    }
    Ok(true)
}
