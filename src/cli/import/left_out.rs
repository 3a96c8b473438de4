//! The lines about files that an import leaves out, with names that can be typed in a chat.

use std::fmt::Display;
use std::path::Path;

use crate::replies;

/// Files and folders that are named because they are left out; the others are counted.
const LEFT_OUT_MAX: usize = 100;

/// The names of what was not imported, with the reasons.
#[derive(Default)]
pub(super) struct LeftOutLines {
    lines: Vec<String>,
    more: usize,
}

impl LeftOutLines {
    pub(super) fn add(&mut self, path: &Path, why: impl Display) {
        let line = format!("{}: {why}", typeable(path));
        // A summary may belong to two files.
        if self.lines.contains(&line) {
            return;
        }
        if self.lines.len() < LEFT_OUT_MAX {
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    /// All lines, with one for those that are not named.
    pub(super) fn all(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.lines.iter().cloned().chain(more).collect()
    }
}

/// Returns a path on one line, as it can be typed in a chat: with `_` for other signs.
pub(super) fn typeable(path: &Path) -> String {
    let is_other = |sign: char| {
        sign.is_control()
            || replies::is_invisible(sign)
            || matches!(sign, '\\' | '\u{2028}' | '\u{2029}' | char::REPLACEMENT_CHARACTER)
    };
    path.to_string_lossy().replace(is_other, "_")
}
