//! Backups that the daemon makes by itself, into a folder with so many of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use super::{BackupError, archive, file_name, time_of_name};
use crate::bus::{Bus, outbox};
use crate::people;
use crate::replies;
use crate::store::Sync;

/// `[backup]`: where, how often, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub folder: PathBuf,
    pub every: Duration,
    pub keep: usize,
}

/// Pause after a backup that failed, and the longest sleep, so that a clock that was set is noticed.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// Makes backups until `stop`.
pub async fn run(home: PathBuf, config: Config, bus: Bus, stop: CancellationToken) {
    let mut has_told = false;
    loop {
        let now = Utc::now();
        let wait = until_due(newest(&config.folder), config.every, now);
        if wait > Duration::ZERO {
            if stop.run_until_cancelled(tokio::time::sleep(wait.min(LOOK_EVERY))).await.is_none() {
                return;
            }
            continue;
        }
        match make(&home, &config, now).await {
            Ok(file) => {
                tracing::info!(file = %file.display(), "Made a backup");
                has_told = false;
            }
            Err(error) => {
                tracing::warn!(%error, "Cannot make the regular backup");
                if !has_told {
                    tell(&bus, &config.folder, &error.to_string()).await;
                    has_told = true;
                }
                if stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
                    return;
                }
            }
        }
    }
}

/// Returns the time until the next backup is due. A newest one in the future is of a wrong clock, and does not count.
pub fn until_due(newest: Option<DateTime<Utc>>, every: Duration, now: DateTime<Utc>) -> Duration {
    let newest = newest.filter(|newest| *newest <= now);
    let age = newest.and_then(|newest| (now - newest).to_std().ok());
    age.map_or(Duration::ZERO, |age| every.saturating_sub(age))
}

/// The backups in a folder, oldest first. Other files are not looked at.
fn backups(folder: &Path) -> Vec<(DateTime<Utc>, PathBuf)> {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let named = files.map(|file| file.path());
    let mut found: Vec<_> = named.filter_map(|path| Some((time_of_name(&path)?, path))).collect();
    found.sort();
    found
}

fn newest(folder: &Path) -> Option<DateTime<Utc>> {
    backups(folder).pop().map(|(time, _)| time)
}

/// Makes one, then deletes those that are too many.
async fn make(home: &Path, config: &Config, now: DateTime<Utc>) -> Result<PathBuf, BackupError> {
    let (home, config) = (home.to_owned(), config.clone());
    let made = tokio::task::spawn_blocking(move || {
        let folder = &config.folder;
        fs::create_dir_all(folder)
            .map_err(BackupError::io(format!("cannot make {}", folder.display())))?;
        let made = archive::write(&home, &folder.join(file_name(now)), now)?;
        let mut all = backups(folder);
        all.truncate(all.len().saturating_sub(config.keep));
        for (_, old) in all {
            if let Err(error) = fs::remove_file(&old) {
                tracing::warn!(file = %old.display(), %error, "Cannot delete an old backup");
            }
        }
        Ok(made.file)
    });
    made.await.unwrap_or_else(|error| {
        Err(BackupError::Io { what: "the backup was cut off".to_owned(), source: error.into() })
    })
}

async fn tell(bus: &Bus, folder: &Path, reason: &str) {
    let words = replies::backup_failed(&folder.display().to_string(), reason);
    let tell = move |store: &Connection| match people::owner_place(store)? {
        Some(owner) => outbox::put(store, &owner, None, &words).map(drop),
        None => Ok(()),
    };
    match bus.store.write("backup failed", Sync::Now, tell).await {
        Ok(()) => bus.outbox.up(),
        Err(error) => tracing::warn!(%error, "Cannot tell the owner about the backup"),
    }
}
