//! Messages about files and conversations of a former version, which the owner decides about.

use std::fmt::{Display, Write as _};

use super::{counted, shown_name, shown_path};

/// Files that are listed; the others are counted.
const LISTED_MAX: usize = 40;

pub const TRUST_MARKED: &str = "Trust them";
pub const MOVE_MARKED: &str = "Move to my downloads";
pub const LEAVE_MARKED: &str = "Leave them";
pub const CLEAN_OLD: &str = "Leave it out";
pub const NO_MARKED_FILES: &str = "No files of your workspace are marked as untrusted.";
pub const MARKED_USAGE: &str = "/trust marked lists the files of your workspace that others may have written. /trust marked trust PATH, /trust marked downloads PATH and /trust marked leave PATH decide about one; without PATH, about all.";
pub const MARKED_STAY: &str =
    "They stay where they are, and untrusted. /trust marked shows them again.";

/// Lists the marked files for their owner. Each has its author: none is a turn that had read untrusted content.
pub fn marked_files<'a>(
    files: impl ExactSizeIterator<Item = (&'a str, Option<&'a str>)>,
    jobs: &[i64],
) -> String {
    let count = files.len();
    let mut text = "In an older version, others may have written these files in your workspace. I treat them as \
                    untrusted until you decide:"
        .to_owned();
    for (path, author) in files.take(LISTED_MAX) {
        let who = match author {
            Some(author) => format!("written for {}", shown_name(author)),
            None => "written after I had read untrusted content".to_owned(),
        };
        let _ = write!(text, "\n- {} ({who})", shown_path(path));
    }
    if count > LISTED_MAX {
        let _ = write!(text, "\n- and {} more", count - LISTED_MAX);
    }
    if !jobs.is_empty() {
        let numbers: Vec<_> = jobs.iter().map(|job| format!("/jobs resume {job}")).collect();
        let _ = write!(
            text,
            "\n\nI paused the jobs that name one of them. To go on with one: {}",
            numbers.join(", ")
        );
    }
    text + "\n\nNothing was moved. Look at a file before you trust it. For a single one: /trust marked trust PATH, \
            /trust marked downloads PATH"
}

/// The reason for which a job is paused.
pub fn names_marked_file(path: impl Display) -> String {
    format!("it names {path}, which others may have written (see /trust marked)")
}

pub fn marked_trusted(done: usize, left: &[String]) -> String {
    with_left(format!("I trust {} now.", counted(done as u64, "file")), left)
}

pub fn marked_moved(done: usize, left: &[String]) -> String {
    let mut text = format!("I moved {} to downloads/marked/.", counted(done as u64, "file"));
    if done > 0 {
        text.push_str(
            " /undo can't take this back: /trust downloads/marked/PATH copies a file into your notes once you have seen it.",
        );
    }
    with_left(text, left)
}

fn with_left(mut text: String, left: &[String]) -> String {
    for why in left {
        let _ = write!(text, "\n- Skipped {why}");
    }
    text
}

/// The reasons why nothing was done about a file.
pub fn marked_changed(path: &str) -> String {
    format!(
        "{}: it has changed since I listed it. Look at it, and list it again with /trust marked",
        shown_path(path)
    )
}

pub fn marked_failed(path: &str, why: &impl Display) -> String {
    format!("{}: {why}", shown_path(path))
}

pub fn not_marked(path: &str) -> String {
    format!("{} is not marked. /trust marked lists those that are.", shown_path(path))
}

/// Offers `/clean` in a conversation of a former version.
pub const OFFERS_CLEAN: &str = "This conversation began before my update and contains text that others wrote, so I ask \
                                before many actions here. /clean leaves that text out.";
