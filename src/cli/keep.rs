//! `peacrab backup` and `peacrab restore`. They need no daemon; a backup does not mind one.

use std::path::{Path, PathBuf};

use chrono::Utc;

use super::print;
use crate::backup::restore::Existing;
use crate::backup::{self, archive};

pub(super) fn back_up(home: &Path, file: Option<PathBuf>) -> anyhow::Result<()> {
    let now = Utc::now();
    let file = file.unwrap_or_else(|| PathBuf::from(backup::file_name(now)));
    let made = archive::write(home, &file, now)?;
    let kilobytes = made.bytes.div_ceil(1024);
    print::line(&format!("{}: {} files, {kilobytes} kB", made.file.display(), made.files));
    if made.skipped > 0 {
        print::line(&format!("Left out: {} links and special files.", made.skipped));
    }
    if made.moved > 0 {
        print::line(&format!(
            "In downloads/linked-files/ of it: {} files of the workspace that have other names (hard links) elsewhere, \
             so that others may have written them.",
            made.moved
        ));
    }
    print::line("The config and the keys are not in it: keep a copy of them elsewhere.");
    Ok(())
}

pub(super) fn restore(home: &Path, file: &Path, replace: bool) -> anyhow::Result<()> {
    let existing = if replace { Existing::Replace } else { Existing::Refuse };
    let restored = backup::restore::restore(home, file, existing, Utc::now())?;
    print::line(&format!("Restored into {}.", home.display()));
    if let Some(before) = restored.before {
        print::line(&format!("The earlier data is in {}.", before.display()));
    }
    print::line(&restored.pending);
    Ok(())
}
