//! Sentences of `/trust`, with which the owner has an untrusted file copied into the workspace.

use std::fmt::{Display, Write as _};

use super::visible::visible;
use super::{as_is, counted, fenced, shown_path};

pub const COPY_IT: &str = "Copy it";
pub const TRUST_USAGE: &str = "/trust PATH shows a file of downloads/, shared/ or a group, and then copies it into the workspace. For example: /trust downloads/recipe.md. With a folder, it lists the files in it. /trust mcp:NAME shows the changed texts of an MCP server, and /trust marked the files of your workspace that others may have written.";
pub const TRUSTED_ALREADY: &str = "it lies in the workspace, whose files I trust";
pub const TRUST_NO_LINKS: &str = "it is a link. Name the file that it points to";
pub const TRUST_NO_INSTRUCTIONS: &str = "it has the name of a file with instructions for me, and I cannot show you all that it says. Only text that you have seen whole may become instructions";
pub const TRUST_NO_ROOM: &str = "the disk has too little free space for it";

// Reasons why a file of a folder is not offered.
pub const NAME_NOT_WRITABLE: &str =
    "its name has characters that cannot be written in a command, so rename it first";
pub const IS_A_LINK: &str = "a link";

/// A whole text with its invisible characters named.
pub fn whole_text(text: &str) -> String {
    visible(text)
}

/// Asks whether a file is to be copied; `text` is its content, unless that stands in a file above.
pub fn may_trust(path: impl Display, copy: impl Display, text: Option<&str>) -> String {
    let shown = match text {
        Some(text) => format!("{} says:\n{}", shown_path(&path), fenced("", &visible(text))),
        None => format!("The file above has the whole text of {}.", shown_path(&path)),
    };
    format!(
        "{shown}\nShall I copy exactly this into {}, as text that you trust? The file itself stays untrusted.",
        shown_path(copy)
    )
}

/// A file whose content cannot be shown to the person who decides about it.
pub struct UnseenFile<'a> {
    pub path: &'a str,
    pub copy: &'a str,
    /// Its size in bytes.
    pub size: u64,
    pub media_type: &'a str,
    /// Its SHA-256 in hex.
    pub hash: &'a str,
}

/// Asks whether a file is to be copied that is too large to be shown, or no text.
pub fn may_trust_unseen(file: &UnseenFile<'_>) -> String {
    let UnseenFile { path, copy, size, media_type, hash } = file;
    format!(
        "{}: {}, {media_type}, SHA-256 {hash}\nI cannot show you what is in it, and after this I trust whatever it says. \
         Shall I copy exactly these bytes into {}? Do it only if you know where they come from. The copy cannot be \
         run as a program, and the file itself stays untrusted.",
        shown_path(path),
        counted(*size, "byte"),
        shown_path(copy)
    )
}

pub fn trusted(path: impl Display, copy: impl Display) -> String {
    let (path, copy) = (shown_path(path), shown_path(copy));
    format!("Copied {path} to {copy}, exactly as you saw it. I trust the copy.")
}

/// The same for a file that was not shown.
pub fn trusted_unseen(path: impl Display, copy: impl Display, hash: &str) -> String {
    let (path, copy) = (shown_path(path), shown_path(copy));
    format!("Copied {path} to {copy}: SHA-256 {hash}. I trust the copy.")
}

pub fn copied_already(path: impl Display, copy: impl Display) -> String {
    let (path, copy) = (shown_path(path), shown_path(copy));
    format!("{copy} is there already, with exactly the content of {path}. I have not changed it.")
}

pub fn changed_since_shown(path: impl Display) -> String {
    let path = shown_path(path);
    format!("{path} has changed since you saw it. Use /trust {path} to see it again.")
}

pub fn not_trusted(path: &str, why: &impl Display) -> String {
    format!("I cannot copy {}: {}.", shown_path(path), as_is(visible(&why.to_string())))
}

pub fn file_exists(path: impl Display) -> String {
    format!("{path} already exists")
}

/// The files beneath an untrusted folder.
#[derive(Default)]
pub struct FolderToTrust {
    pub path: String,
    /// The paths of files that can be shown, with their sizes in bytes.
    pub files: Vec<(String, u64)>,
    /// The number of further files.
    pub more: usize,
    /// True if there is more than was looked at.
    pub is_cut: bool,
    /// The paths of what cannot be copied, with the reasons.
    pub left_out: Vec<(String, String)>,
}

/// Lists the files beneath a folder, each with the command that shows it.
pub fn folder_to_trust(folder: &FolderToTrust) -> String {
    const LEFT_OUT_SHOWN_MAX: usize = 10;
    let FolderToTrust { path, files, more, is_cut, left_out } = folder;
    let path = shown_path(path);
    let mut text = match files.is_empty() {
        true => format!("There is no file in {path} that I can copy."),
        false => {
            format!("I copy a folder file by file, once you have seen each. These are in {path}:")
        }
    };
    for (path, size) in files {
        let _ = write!(text, "\n- /trust {} ({})", shown_path(path), counted(*size, "byte"));
    }
    match (*more, *is_cut) {
        (0, false) => {}
        (0, true) => text.push_str("\n- and more, which I have not looked at"),
        (more, false) => {
            let _ = write!(text, "\n- and {more} more");
        }
        (more, true) => {
            let _ = write!(text, "\n- and {more} more, and others that I have not looked at");
        }
    }
    if *more > 0 || *is_cut {
        text.push_str("\nUse /trust with a subfolder to list its files.");
    }
    if !left_out.is_empty() {
        text.push_str("\n\nLeft out:");
    }
    for (path, why) in left_out.iter().take(LEFT_OUT_SHOWN_MAX) {
        let _ = write!(text, "\n- {}: {}", shown_path(path), as_is(visible(why)));
    }
    if left_out.len() > LEFT_OUT_SHOWN_MAX {
        let _ = write!(text, "\n- and {} more", left_out.len() - LEFT_OUT_SHOWN_MAX);
    }
    text
}
