//! The instruction files, and the differences between two looks at them.

use std::collections::{BTreeMap, BTreeSet};

use crate::conversation::actions::{BeforeImages, SeenChange};
use crate::memory;
use crate::replies;
use crate::types::session::FileUndo;
use crate::workspace::rules::{Contents, each, one};
use crate::workspace::{Hash, Workspace, WorkspacePath};

/// Stands in a mark before where the file, a link, leads.
const LEADS_TO: &str = " -> ";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstructionMarks {
    /// Of each file, by its path: the hash of what it holds, or what else tells that it changed; and of a
    /// link, where it leads.
    pub(super) marks: BTreeMap<String, String>,
    /// True if there are no more files.
    pub(super) is_whole: bool,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedInstruction {
    pub(super) path: String,
    /// The same with its links followed.
    pub(super) leads_to: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    /// The change, for people.
    pub(super) lines: String,
    /// It became a link, or leads elsewhere.
    pub(super) is_relinked: bool,
    /// True if its former content is known, and can be restored.
    can_be_undone: bool,
}

impl InstructionMarks {
    /// As they are now. What they hold is kept, to be shown and put back. Those that were known are looked
    /// at even if there are too many by now.
    pub(super) fn read(
        workspace: &Workspace,
        images: &BeforeImages,
        former: Option<&Self>,
    ) -> Self {
        let mut marks = BTreeMap::new();
        let mut kept = images.several();
        let mut mark = |path: &WorkspacePath, contents: Contents<'_>, link: Option<&str>| {
            let mut mark = match contents {
                // Its former version is in force; the owner is told of that elsewhere.
                Contents::Blocked => {
                    let known = former.and_then(|former| former.marks.get(path.as_str()));
                    if let Some(known) = known {
                        marks.insert(path.to_string(), known.clone());
                    }
                    return;
                }
                Contents::Elsewhere => String::new(),
                Contents::Large(stamp) => stamp,
                Contents::Whole(bytes) => {
                    let hash = Hash::of(bytes);
                    if let Err(error) = kept.put(&hash, bytes) {
                        tracing::warn!(%path, %error, "Cannot save a version of a file");
                    }
                    hash.to_string()
                }
            };
            if let Some(link) = link {
                mark.push_str(LEADS_TO);
                mark.push_str(link);
            }
            marks.insert(path.to_string(), mark);
        };
        let mut looked_at = BTreeSet::new();
        let is_whole = each(workspace, &mut |path, contents, link| {
            looked_at.insert(path.to_string());
            mark(path, contents, link);
        });
        let known = former.filter(|_| !is_whole).into_iter().flat_map(|former| former.marks.keys());
        let others = known.filter(|path| !looked_at.contains(*path));
        for path in others.filter_map(|path| path.parse().ok()) {
            one(workspace, &path, &mut mark);
        }
        if let Err(error) = kept.finish() {
            tracing::warn!(%error, "Cannot save versions of files");
        }
        Self { marks, is_whole }
    }

    pub(super) fn changed_since(
        &self,
        former: &Self,
        workspace: &Workspace,
        images: &BeforeImages,
    ) -> Vec<ChangedInstruction> {
        let gone = former.marks.keys().filter(|path| !self.marks.contains_key(*path));
        let paths = gone.chain(self.marks.keys());
        let differs = paths.filter(|path| former.marks.get(*path) != self.marks.get(*path));
        differs.map(|path| self.changed(path, former, workspace, images)).collect()
    }

    fn changed(
        &self,
        path: &str,
        former: &Self,
        workspace: &Workspace,
        images: &BeforeImages,
    ) -> ChangedInstruction {
        let known = former.marks.get(path);
        let (before, link_before) = parts(known);
        let (after, link) = parts(self.marks.get(path));
        let (is_relinked, holds_same) = (link != link_before, before == after);
        let is_known = known.is_some() || former.is_whole;
        let words = match is_known {
            true if is_relinked && holds_same => None,
            true => Some(lines(images, before, after)),
            false => Some(replies::NOT_WATCHED_BEFORE.to_owned()),
        };
        let relinked = is_relinked.then(|| replies::leads_now(link));
        let words: Vec<_> = relinked.into_iter().chain(words).collect();
        let workspace_path = path.parse::<WorkspacePath>().ok();
        let leads_to = workspace_path.as_ref().and_then(|path| workspace.resolve(path).ok());
        // Of a large file there was a stamp.
        let after = after.map(|after| match (Hash::stored(after), &workspace_path) {
            (None, Some(path)) => {
                let hash = workspace.hash(path).ok().flatten();
                hash.map_or_else(|| after.to_owned(), |hash| hash.to_string())
            }
            _ => after.to_owned(),
        });
        let is_hash = |mark: Option<&str>| mark.is_none_or(|mark| Hash::stored(mark).is_some());
        let can_be_written = after.is_some() || link.is_none();
        ChangedInstruction {
            path: path.to_owned(),
            leads_to: leads_to.map_or_else(|| path.to_owned(), |path| path.to_string()),
            before: before.map(str::to_owned),
            lines: words.join("\n"),
            is_relinked,
            can_be_undone: is_known
                && !holds_same
                && can_be_written
                && is_hash(before)
                && is_hash(after.as_deref()),
            after,
        }
    }
}

/// Of a mark: what tells what the file holds, and where a link leads.
fn parts(mark: Option<&String>) -> (Option<&str>, Option<&str>) {
    let Some(mark) = mark else { return (None, None) };
    let (holds, link) = match mark.split_once(LEADS_TO) {
        Some((holds, link)) => (holds, Some(link)),
        None => (mark.as_str(), None),
    };
    (Some(holds).filter(|holds| !holds.is_empty()), link)
}

impl ChangedInstruction {
    /// As it is written down, with the way back if what it was is kept.
    pub(super) fn seen(&self) -> SeenChange {
        let Self { path, before, after, can_be_undone, .. } = self;
        let undo = FileUndo { path: path.clone(), before: before.clone(), after: after.clone() };
        SeenChange { path: path.clone(), undo: can_be_undone.then_some(undo) }
    }
}

/// Returns the changed lines, for people.
fn lines(images: &BeforeImages, before: Option<&str>, after: Option<&str>) -> String {
    let text = |mark: Option<&str>| match mark {
        None => Some(String::new()),
        Some(mark) => {
            let contents = images.get(&Hash::stored(mark)?)?;
            Some(String::from_utf8_lossy(&contents).into_owned())
        }
    };
    let (Some(then), Some(now)) = (text(before), text(after)) else {
        return replies::TOO_LARGE_TO_SHOW.to_owned();
    };
    match memory::changes(&then, &now) {
        Some(lines) if !then.is_empty() || !now.is_empty() => lines,
        _ => replies::ITS_BYTES_CHANGED.to_owned(),
    }
}
