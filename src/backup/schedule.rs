//! Backups that the daemon makes by itself, into a folder with so many of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use super::{
    BackupError, BackupName, BackupSummary, HomeMark, archive, known_folder, marked_file_name,
};
use crate::bus::{Bus, notices};
use crate::replies;
use crate::store::StoreTrouble;
use crate::workspace::lost::LostWorkspace;

/// `[backup]`: where, how often, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub folder: PathBuf,
    pub every: Duration,
    pub keep: usize,
}

/// Pause after each backup and each failure, and the longest sleep, so that a clock that was set is noticed. No two backups
/// of one config are due sooner.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// The troubles of the regular backups, and those that the owner has heard of.
#[derive(Debug, Default)]
pub struct ReportedTroubles {
    /// The folder was not there at the last look.
    is_missed: bool,
    failure: bool,
    left_out: bool,
}

/// A look at the folder, as far as it matters for what the owner hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderLook {
    /// No backup is due, or one was made.
    Fine,
    /// The folder is not there, and no backup is due.
    Missing,
    /// A backup is due, and cannot be made.
    Failed,
}

impl ReportedTroubles {
    /// Notes a look. Returns true if the owner is to hear of it: once, until a look is fine. A disk may be mounted only after
    /// the start, so a folder that is missing before a backup is due counts at the second look in a row.
    pub fn note(&mut self, look: FolderLook) -> bool {
        let was_missed = std::mem::replace(&mut self.is_missed, look != FolderLook::Fine);
        self.failure &= look != FolderLook::Fine;
        let counts = match look {
            FolderLook::Fine => false,
            FolderLook::Missing => was_missed,
            FolderLook::Failed => true,
        };
        counts && !self.failure
    }

    /// Notes that the owner was told of a failure.
    pub fn note_told(&mut self) {
        self.failure = true;
    }
}

/// The result of a look at the folder.
enum Attempt {
    /// None is due for this time.
    Later(Duration),
    Made(BackupSummary),
    /// The folder is not there, and none is due.
    Missing(BackupError),
}

/// Makes backups until `stop`.
pub async fn run(home: PathBuf, config: Config, bus: Bus, stop: CancellationToken) {
    let mut told = ReportedTroubles::default();
    loop {
        let pause = match bus.store.trouble() {
            Some(StoreTrouble::Damaged) => {
                tracing::warn!("Make no backup of a damaged store, and keep the earlier ones");
                LOOK_EVERY
            }
            _ => {
                let made = attempt(&home, &config, Utc::now()).await;
                report(&bus, &config.folder, made, &mut told).await
            }
        };
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Logs what became of an attempt, and tells the owner of trouble. Returns the pause until the next one.
async fn report(
    bus: &Bus,
    folder: &Path,
    made: Result<Attempt, BackupError>,
    told: &mut ReportedTroubles,
) -> Duration {
    match made {
        Ok(Attempt::Later(wait)) => {
            told.note(FolderLook::Fine);
            return wait.min(LOOK_EVERY);
        }
        Ok(Attempt::Made(made)) => {
            tracing::info!(file = %made.file.display(), "Made a backup");
            told.note(FolderLook::Fine);
            report_left_out(bus, &made, told).await;
        }
        Ok(Attempt::Missing(error)) => {
            tracing::warn!(%error, "The folder of the backups is missing, but none is due yet");
            if told.note(FolderLook::Missing) {
                tell_of_failure(bus, folder, &error, told).await;
            }
        }
        Err(error) => report_failure(bus, folder, &error, told).await,
    }
    LOOK_EVERY
}

/// Tells the owner once that no backup is made, until one was made again.
async fn report_failure(
    bus: &Bus,
    folder: &Path,
    error: &BackupError,
    told: &mut ReportedTroubles,
) {
    if matches!(error, BackupError::DamagedStore { .. }) {
        tracing::error!(%error, "Cannot make the regular backup");
        // The owner hears of this trouble of the store as of each.
        bus.store.note_damage();
        return;
    }
    tracing::warn!(%error, "Cannot make the regular backup");
    if told.note(FolderLook::Failed) {
        tell_of_failure(bus, folder, error, told).await;
    }
}

async fn tell_of_failure(
    bus: &Bus,
    folder: &Path,
    error: &BackupError,
    told: &mut ReportedTroubles,
) {
    let words = match error {
        BackupError::WorkspaceLost(lost) => replies::workspace_lost(lost),
        error => replies::backup_failed(folder.display(), error),
    };
    if notices::send_to_owner(bus, "backup trouble", words).await {
        told.note_told();
    }
}

/// Tells the owner once that files cannot be read, until a backup has all again.
async fn report_left_out(bus: &Bus, made: &BackupSummary, told: &mut ReportedTroubles) {
    let count = made.left_out.count;
    let has_told = std::mem::replace(&mut told.left_out, count > 0);
    if count > 0 {
        tracing::warn!(count, "Files and folders that cannot be read are not in the backup");
    }
    if count > 0 && !has_told {
        let words = replies::backup_left_out(made.file.display(), count, &made.left_out.lines());
        notices::send_to_owner(bus, "backup trouble", words).await;
    }
}

/// Returns the time until the next backup is due. A newest one in the future is of a wrong clock, and does not count.
pub fn until_due(newest: Option<DateTime<Utc>>, every: Duration, now: DateTime<Utc>) -> Duration {
    let newest = newest.filter(|newest| *newest <= now);
    let age = newest.and_then(|newest| (now - newest).to_std().ok());
    age.map_or(Duration::ZERO, |age| every.saturating_sub(age))
}

/// A backup in the folder.
struct FoundBackup {
    name: BackupName,
    path: PathBuf,
}

/// The backups in a folder, of all homes. Other files are not looked at.
fn backups(folder: &Path) -> Vec<FoundBackup> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let found = entries.filter_map(|entry| {
        let name = BackupName::parse(entry.file_name().to_str()?)?;
        entry.file_type().ok()?.is_file().then(|| FoundBackup { name, path: entry.path() })
    });
    found.collect()
}

/// Returns the time of the newest backup of a home. Those of a wrong clock, in the future, do not count, nor do those of
/// another home, which may be all that have no mark.
fn newest(found: &[FoundBackup], mark: &HomeMark, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let own = found.iter().filter(|it| it.name.mark.as_ref() == Some(mark));
    own.map(|it| it.name.made).filter(|made| *made <= now).max()
}

/// Returns the time of the newest backup of a home in a folder. A home without a mark has its backups from a former version.
pub fn newest_of(home: &Path, folder: &Path, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let found = backups(folder);
    match HomeMark::known(home) {
        Some(mark) => newest(&found, &mark, now),
        None => {
            let former = found.iter().filter(|it| it.name.mark.is_none());
            former.map(|it| it.name.made).filter(|made| *made <= now).max()
        }
    }
}

/// Returns the oldest backups of a home above `keep`. Those without a mark count as its own as long as no other home has its
/// backups there. Those in the future are of a wrong clock: each would take the place of a new one.
fn superfluous(
    found: Vec<FoundBackup>,
    mark: &HomeMark,
    keep: usize,
    now: DateTime<Utc>,
) -> Vec<FoundBackup> {
    let is_of_another = |it: &FoundBackup| it.name.mark.as_ref().is_some_and(|it| it != mark);
    let is_shared = found.iter().any(is_of_another);
    let is_own = |it: &FoundBackup| match &it.name.mark {
        Some(made_by) => made_by == mark,
        None => !is_shared,
    };
    let mut own: Vec<_> =
        found.into_iter().filter(|it| is_own(it) && it.name.made <= now).collect();
    own.sort_by(|one, other| one.name.made.cmp(&other.name.made).then(one.path.cmp(&other.path)));
    own.truncate(own.len().saturating_sub(keep));
    own
}

/// Remembers the folder and its newest backup, so that it is missed when its disk is not there.
fn remember(home: &Path, folder: &Path, newest: Option<DateTime<Utc>>) {
    if let Err(error) = known_folder::remember(home, folder, newest) {
        tracing::warn!(%error, "Cannot remember the folder of the backups");
    }
}

/// Makes a backup if one is due, then deletes those that are too many. The folder may be on a slow disk of another machine.
async fn attempt(home: &Path, config: &Config, now: DateTime<Utc>) -> Result<Attempt, BackupError> {
    let (home, config) = (home.to_owned(), config.clone());
    let made = tokio::task::spawn_blocking(move || {
        let folder = &config.folder;
        let mark = HomeMark::of_or_spare(&home)
            .map_err(BackupError::io("cannot read or write backup-mark in the home"))?;
        // A look into the folder lets an automounter mount its disk.
        let last = newest(&backups(folder), &mark, now);
        if let Err(missing) = known_folder::refuse_missing(&home, folder) {
            let known = known_folder::newest(&home, folder);
            return match until_due(known, config.every, now) > Duration::ZERO {
                true => Ok(Attempt::Missing(missing)),
                false => Err(missing),
            };
        }
        let wait = until_due(last, config.every, now);
        if wait > Duration::ZERO {
            // A former version did not remember it.
            remember(&home, folder, last);
            return Ok(Attempt::Later(wait));
        }
        if let Some(lost) = LostWorkspace::find(&home.join("workspace")) {
            return Err(BackupError::WorkspaceLost(lost));
        }
        if !known_folder::is_known(&home, folder) {
            fs::create_dir_all(folder)
                .map_err(BackupError::io(format!("cannot make {}", folder.display())))?;
        }
        let file = folder.join(marked_file_name(now, &mark));
        let made = archive::write_marked(&home, &file, now, &mark)?;
        let found = backups(folder);
        remember(&home, folder, newest(&found, &mark, now));
        for old in superfluous(found, &mark, config.keep, now) {
            if let Err(error) = fs::remove_file(&old.path) {
                tracing::warn!(file = %old.path.display(), %error, "Cannot delete an old backup");
            }
        }
        Ok(Attempt::Made(made))
    });
    made.await.unwrap_or_else(|error| {
        Err(BackupError::Io { what: "the backup was cut off".to_owned(), cause: error.into() })
    })
}
