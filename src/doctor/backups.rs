//! The check of the regular backups: if their folder is there, and how old the newest one is.

use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Finding;

/// The regular backups of a home, as they were found.
#[derive(Clone, Copy, Debug)]
pub struct BackupState<'a> {
    pub folder: &'a Path,
    pub has_folder: bool,
    /// The place where the disk of the folder is to be mounted, if it is not.
    pub missing_mount: Option<&'a Path>,
    pub every: Duration,
    pub newest: Option<DateTime<Utc>>,
    /// False before the first start, which makes the first backup.
    pub was_started: bool,
}

/// Judges the regular backups. None if the config asks for none.
pub fn backup_finding(state: Option<BackupState<'_>>, now: DateTime<Utc>) -> Finding {
    const CHECK: &str = "backups";
    let Some(BackupState { folder, has_folder, missing_mount, every, newest, was_started }) = state
    else {
        return Finding::ok(
            CHECK,
            "none are made regularly; `to` in [backup] names a folder for them",
        );
    };
    let shown = folder.display();
    if !was_started {
        return Finding::ok(CHECK, format!("the first start makes one in {shown}"));
    }
    if !has_folder {
        return Finding::wrong(CHECK, format!("there is no folder {shown}")).advise(
            "mount its disk or make the folder, and give it to the account that runs Peacrab",
        );
    }
    if let Some(mount) = missing_mount {
        let mount = mount.display();
        let words = format!("{shown} is not on its disk, because {mount} is not mounted");
        return Finding::wrong(CHECK, words).advise(
            "mount it; or if the backups are to go there from now on, delete the file backup-folder in the home",
        );
    }
    let advice = "look at the log for `Cannot make the regular backup`, and if the daemon runs";
    // One in the future is of a wrong clock.
    let Some(newest) = newest.filter(|newest| *newest <= now) else {
        return Finding::wrong(CHECK, format!("there is none in {shown}")).advise(advice);
    };
    let words = format!("the newest is of {}", newest.format("%Y-%m-%d %H:%M UTC"));
    let age = (now - newest).to_std().unwrap_or_default();
    // One that is late by as much again is not about to be made.
    match age > every.saturating_mul(2) {
        true => {
            let hours = every.as_secs() / 3600;
            let words = format!("{words}, although one is due every {hours} h");
            Finding::warning(CHECK, words).advise(advice)
        }
        false => Finding::ok(CHECK, words),
    }
}
