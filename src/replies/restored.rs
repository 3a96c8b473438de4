//! Messages to the owner about backups: the pending work of a restored one, and one that could not be made.

use std::fmt::{Display, Write as _};

use super::{as_is, shown_name};
use crate::short_text::shortened;

/// Entries of each kind that a chat message lists; the others are counted.
pub const RESTORED_LISTED_MAX: usize = 10;

/// Of one entry's text.
const TEXT_CHARS_MAX: usize = 80;

/// The pending work of a backup, in sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredWork {
    /// Each with its place.
    pub incoming: Vec<String>,
    pub outgoing: Vec<String>,
    pub calls: Vec<String>,
    pub jobs: Vec<String>,
    pub turns: usize,
    pub tasks: usize,
    /// Number of times that something was forgotten since the backup, which is forgotten again.
    pub forgotten: usize,
    pub access: RestoredAccess,
}

/// The access of people in a restored backup, in sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredAccess {
    /// False if nobody knows what has changed since the backup.
    pub is_known: bool,
    /// Rights that were taken from people since, and are taken again.
    pub taken: Vec<String>,
    /// Rights that people were given since, and do not have any more.
    pub given: Vec<String>,
}

/// Rights of people that have changed since the backup.
pub const ACCESS_REMOVED: &str = "removed";
pub const ACCESS_BLOCKED: &str = "blocked";
pub const ACCESS_UNBLOCKED: &str = "unblocked";
pub const ACCESS_LINKED: &str = "linked accounts";
pub const ACCESS_UNLINKED: &str = "no longer linked to the other accounts";

/// A role that has changed since the backup. None is at most the role that the config gives.
pub fn role_since(since: Option<&str>, backup: Option<&str>) -> String {
    let [since, backup] = [since, backup].map(|role| role.unwrap_or("no role"));
    format!("{since} (in the backup: {backup})")
}

/// A right of a person that has changed since the backup. An account is `123 on home`.
pub fn access_since(name: impl Display, accounts: &[String], right: &str) -> String {
    let accounts: Vec<_> = accounts.iter().map(as_is).collect();
    format!("{}, {}: {right}", shown_name(name), accounts.join(", "))
}

/// A permanent approval that has changed since the backup.
pub fn always_approved(account: impl Display, tool: impl Display) -> String {
    format!("{}: {} always approved", as_is(account), as_is(tool))
}

/// Tells the owner what was not done, with so many entries of each kind.
pub fn restored(made: &str, work: &RestoredWork, listed_max: usize) -> String {
    let mut text = format!(
        "I was restored from a backup of {made}. I don't remember anything that came after it."
    );
    if work.forgotten > 0 {
        text += " I have again deleted everything that you had me forget since then.";
    }
    if !work.access.is_known {
        text += " I don't know what you have changed about people since then, so roles and blocks are those of that time: \
                 please look at `peacrab people`.";
    }
    add_pending(&mut text, work, listed_max);
    let RestoredAccess { taken, given, .. } = &work.access;
    list(&mut text, "Taken from people since then, and taken again", taken, listed_max);
    list(&mut text, "Given to people since then, and not kept", given, listed_max);
    text
}

/// Adds the pending work, or that there is none.
fn add_pending(text: &mut String, work: &RestoredWork, listed_max: usize) {
    let RestoredWork { incoming, outgoing, calls, jobs, turns, tasks, .. } = work;
    let is_any_listed = [incoming, outgoing, calls, jobs].iter().any(|it| !it.is_empty());
    if !is_any_listed && *turns == 0 && *tasks == 0 {
        *text += " It had no pending work.";
        return;
    }
    *text += " I didn't do its pending work, because it may have been done since:";
    let mut list = |title: &str, entries: &[String]| list(text, title, entries, listed_max);
    list("Messages that were not answered yet", incoming);
    list("Messages of mine that were not sent yet", outgoing);
    list("Calls that were not made yet", calls);
    list("Jobs that were due since", jobs);
    if *turns > 0 {
        let _ = write!(text, "\n\nTurns that were running or waiting: {turns}.");
    }
    if *tasks > 0 {
        let _ = write!(text, "\n\nBackground tasks that were running: {tasks}.");
    }
    *text += "\n\nPlease ask again for anything you still need.";
}

fn list(text: &mut String, title: &str, entries: &[String], listed_max: usize) {
    if entries.is_empty() {
        return;
    }
    let _ = write!(text, "\n\n{title}:");
    for entry in entries.iter().take(listed_max) {
        let shown = shortened(&entry.replace('\n', " "), TEXT_CHARS_MAX);
        let _ = write!(text, "\n- {shown}");
    }
    if entries.len() > listed_max {
        let _ = write!(text, "\n- and {} more", entries.len() - listed_max);
    }
}

/// Describes, on a command line, a restore that was cut off after it was decided.
pub const RESTORE_CUT_OFF: &str = "a restore was cut off: a part of its data is in place, and the next start of the daemon moves the rest";

/// Tells the owner that the regular backup failed.
pub fn backup_failed(folder: impl Display, reason: impl Display) -> String {
    format!(
        "I couldn't make the regular backup in {}: {}. Please check that folder. I'll try again every hour and won't \
         mention it again until one has worked.",
        as_is(folder),
        as_is(reason)
    )
}

/// Tells the owner that their files are gone, and that no backup is made without them. `reason` says what to do.
pub fn workspace_lost(reason: impl Display) -> String {
    format!(
        "My workspace is missing, so I make no more backups and keep the earlier ones. {}. I won't mention it again until a \
         backup has worked.",
        as_is(reason)
    )
}

/// Tells the owner that a regular backup is without files that could not be read.
pub fn backup_left_out(file: impl Display, count: u64, lines: &[String]) -> String {
    let mut text = format!(
        "The backup {} is incomplete, because I can't read {count} of my files and folders. Please check who may read them, \
         and the disk. I won't mention it again until a backup has everything.",
        as_is(file)
    );
    for line in lines {
        let _ = write!(text, "\n- {}", as_is(line));
    }
    text
}
