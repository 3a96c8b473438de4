//! The check of the store: if it can be opened, by whom it is used, and if it is whole.

use std::fs;
use std::path::Path;

use super::Finding;
use crate::people;
use crate::store::{self, ANEW, LostLog, OpenError};

/// The result of the check.
pub struct StoreCheck {
    pub finding: Finding,
    /// False if reads of the store would fail, perhaps after a long wait.
    pub is_readable: bool,
    /// True if there is a store with content, or if this account cannot know.
    pub was_used: bool,
}

/// Checks the store as a whole. `daemon_writes` is the health of the store as the running daemon reports it.
pub fn check_store(home: &Path, daemon_writes: Option<bool>) -> StoreCheck {
    let path = home.join(store::FILE);
    let examined = match store::has_store(home) {
        true => store::check_file_integrity(&path),
        false => {
            return StoreCheck {
                finding: Finding::ok("store", "there is none yet"),
                is_readable: true,
                was_used: false,
            };
        }
    };
    let is_begun = fs::metadata(&path).is_ok_and(|file| file.len() == 0);
    let is_readable = examined.is_ok();
    let was_used = !is_begun || matches!(examined, Err(OpenError::Emptied { .. }));
    let finding = match examined {
        Ok(version) if version < store::newest_schema() => {
            Finding::warning("store", "written by an older version")
                .advise("start the daemon once, which brings it up to date")
        }
        Ok(_) => match store::try_read(home, people::paired) {
            Some(paired) => {
                Finding::ok("store", format!("readable, people paired: {}", paired.len()))
            }
            None => Finding::wrong("store", "whole, but its list of people cannot be read").advise(
                "run `peacrab doctor` again; if it stays so, look at the log of the daemon",
            ),
        },
        Err(OpenError::Damaged { .. }) if is_begun => {
            Finding::ok("store", "there is none yet; the first start was cut short")
        }
        Err(error) => failure(&error, daemon_writes),
    };
    StoreCheck { finding, is_readable, was_used }
}

/// Describes the loss of the store's log, which the next start could no longer see. None if nothing is known to be lost.
pub fn check_log(home: &Path) -> Option<Finding> {
    let words = match store::find_lost_log(home)? {
        LostLog::Missing => {
            "state.db-wal is missing, and state.db-shm, which belongs to it, is not"
        }
        LostLog::Unreadable => "state.db-wal cannot be read",
    };
    let words = format!("{words}: the newest messages, answers and jobs are lost");
    Some(Finding::warning("log of the store", words).advise(
        "bring the file back before the next start, if it was moved; if much is missing, restore the newest backup",
    ))
}

/// Describes a store that cannot be read. Only damage is a reason to restore a backup.
pub fn failure(error: &OpenError, daemon_writes: Option<bool>) -> Finding {
    const CHECK: &str = "store";
    match error {
        OpenError::Newer { .. } => Finding::wrong(CHECK, error.to_string())
            .advise("install the newer version again, or restore a backup of this one"),
        OpenError::Damaged { cause, .. } => {
            Finding::wrong(CHECK, format!("it cannot be read: {cause}")).advise(
                "stop the daemon and restore the newest backup (`peacrab restore FILE --replace`)",
            )
        }
        OpenError::Emptied { .. } => Finding::wrong(
            CHECK,
            "the file is empty, although this home was in use: what it contained is lost",
        )
        .advise(format!(
            "stop the daemon and restore the newest backup (`peacrab restore FILE --replace`), or {ANEW}"
        )),
        OpenError::Gone { .. } => Finding::wrong(
            CHECK,
            "state.db is not there, although this home was in use: no daemon starts without it",
        )
        .advise(format!(
            "bring the file back, or restore the newest backup (`peacrab restore FILE --replace`), or {ANEW}"
        )),
        OpenError::InUse { holder, .. } if daemon_writes == Some(true) => Finding::warning(
            CHECK,
            format!(
                "the daemon that runs reads and writes it; it cannot be examined from here, because {holder} has it \
                 locked"
            ),
        )
        .advise("if that is not the daemon, close that program"),
        OpenError::InUse { holder, .. } => {
            Finding::wrong(CHECK, format!("it cannot be examined, because {holder} has it locked"))
                .advise("close that program, and run `peacrab doctor` again")
        }
        OpenError::Denied { why, .. } => {
            Finding::wrong(CHECK, "this account cannot open it").advise(why)
        }
        OpenError::Database { cause, .. } => {
            Finding::wrong(CHECK, format!("it cannot be read: {cause}"))
                .advise("look at the log of the kernel (`dmesg`), which shows if the disk fails")
        }
        OpenError::Home { .. }
        | OpenError::Locked { .. }
        | OpenError::Older { .. }
        | OpenError::NotMigrated { .. }
        | OpenError::Full { .. }
        | OpenError::LogAlone { .. }
        | OpenError::Copy { .. } => Finding::wrong(CHECK, error.to_string()),
    }
}
