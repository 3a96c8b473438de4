//! `peacrab backup` and `peacrab restore`. They need no daemon; a backup does not mind one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use chrono::Utc;
use serde_json::json;

use super::invocation::Invocation;
use super::print::{self, ResultForm};
use super::progress::ProgressLine;
use crate::backup::restore::{Existing, restore_reporting};
use crate::backup::{self, SkippedEntries, archive};
use crate::config;
use crate::daemon::starts;
use crate::short_text::one_line;
use crate::workspace::lost::LostWorkspace;

/// Makes a backup. It fails after the backup is made if some of the files are not in it.
pub(super) fn back_up(
    on: &Invocation,
    file: Option<PathBuf>,
    form: ResultForm,
) -> anyhow::Result<ExitCode> {
    let home = &on.home;
    let now = Utc::now();
    let is_output = file.as_deref() == Some(Path::new("-"));
    ensure!(!is_output, "a backup is not written to the standard output: name a file");
    let file = file.unwrap_or_else(|| PathBuf::from(backup::file_name(now)));
    let mut progress = ProgressLine::new("Backing up", None);
    let made = archive::write_reporting(home, &file, now, &mut |bytes| progress.add(bytes))?;
    drop(progress);
    let lost = LostWorkspace::find(&home.join("workspace"));
    let lost = lost.map(|lost| on.name_commands(&lost.to_string()));
    let is_whole = made.left_out.is_empty() && lost.is_none();
    let code = if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let folders = made.moved_to.iter();
    let folders = folders.map(|it| format!("{}/", one_line(&it.to_string_lossy())));
    let folders = folders.collect::<Vec<_>>();
    if form == ResultForm::Json {
        let named = made.left_out.named.iter();
        let named = named.map(|it| json!({ "path": it.path, "reason": it.reason }));
        print::json(&json!({
            "file": made.file,
            "bytes": made.bytes,
            "files": made.files,
            "links": made.skipped.links,
            "special": made.skipped.special,
            "moved": made.moved,
            "moved_to": folders,
            "left_out": made.left_out.count,
            "left_out_named": named.collect::<Vec<_>>(),
            "workspace_lost": lost,
        }));
        return Ok(code);
    }
    let kilobytes = made.bytes.div_ceil(1024);
    print::line(&format!("{}: {} files, {kilobytes} kB", made.file.display(), made.files));
    if let Some(skipped) = skipped_words(made.skipped) {
        print::line(&format!("Left out: {skipped}."));
    }
    if made.moved > 0 {
        print::line(&format!(
            "In {} of it: {} files of the workspace that have other names (hard links) elsewhere, \
             so that others may have written them.",
            folders.join(", "),
            made.moved
        ));
    }
    print::line("The config and the keys are not in it: keep a copy of them elsewhere.");
    if !made.left_out.is_empty() {
        let lines = made.left_out.lines().join("\n- ");
        print::error(&format!(
            "peacrab: the backup was made, but it is not whole. {} of the files and folders cannot be read:\n- {lines}",
            made.left_out.count
        ));
    }
    if let Some(lost) = lost {
        print::error(&format!("peacrab: the backup was made without the workspace: {lost}"));
    }
    Ok(code)
}

/// The entries that no backup has, counted. None if there are none.
fn skipped_words(skipped: SkippedEntries) -> Option<String> {
    let counts = [(skipped.links, "link"), (skipped.special, "special file")];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    });
    let words = counts.collect::<Vec<_>>().join(" and ");
    (!words.is_empty()).then_some(words)
}

pub(super) fn restore(
    on: &Invocation,
    file: &Path,
    replace: bool,
    form: ResultForm,
) -> anyhow::Result<()> {
    let home = &on.home;
    let existing = if replace { Existing::Replace } else { Existing::Refuse };
    let total = fs::metadata(file).ok().map(|meta| meta.len());
    let mut progress = ProgressLine::new("Restoring", total);
    let report = &mut |bytes| progress.add(bytes);
    let restored = restore_reporting(home, file, existing, Utc::now(), report)?;
    drop(progress);
    starts::forget_damage(home);
    if form == ResultForm::Json {
        let work = restored.work;
        let links = restored.links.iter();
        let links =
            links.map(|link| json!({ "name": link.name, "target": link.target.to_string_lossy() }));
        print::json(&json!({
            "home": home,
            "made": restored.manifest.made,
            "before": restored.before,
            "links": links.collect::<Vec<_>>(),
            "pending": restored.pending,
            "access": {
                "known": work.access.is_known,
                "taken": work.access.taken,
                "given": work.access.given,
            },
            "pending_work": {
                "incoming": work.incoming,
                "outgoing": work.outgoing,
                "calls": work.calls,
                "jobs": work.jobs,
                "turns": work.turns,
                "tasks": work.tasks,
            },
        }));
        return Ok(());
    }
    print::line(&format!("Restored into {}.", home.display()));
    if let Some(before) = restored.before {
        print::line(&format!("The earlier data is in {}.", before.display()));
    }
    if !restored.has_workspace {
        print::line("The backup has no workspace: the next start makes a new one.");
    }
    for link in &restored.links {
        print::line(&format!(
            "{} was a link to {}, and is in the home itself now. To have it there again, stop the daemon, move it, and make \
             the link again.",
            link.name,
            link.target.display()
        ));
    }
    print::line(&on.name_commands(&restored.pending));
    let config = config::file(home, on.config.as_deref());
    if !config.exists() {
        print::line(&format!(
            "There is no config at {}: no backup has it. Put your copy of it there, and the keys that it names.",
            config.display()
        ));
    }
    Ok(())
}
