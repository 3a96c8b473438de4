//! The state of the instruction files, and the differences between two states.

use std::collections::{BTreeMap, BTreeSet};

use crate::conversation::actions::{BeforeImages, FoundChange};
use crate::memory;
use crate::replies;
use crate::types::session::FileUndo;
use crate::workspace::instruction_scan::{Contents, visit_all, visit_one};
use crate::workspace::{Hash, Workspace, WorkspacePath};

/// The separator in the mark of a link, before its target.
const LEADS_TO: &str = " -> ";

/// The state of all instruction files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstructionMarks {
    /// The mark of each file by path: the hash of its content, or a stamp that changes with it; for a link
    /// also its target.
    pub(super) marks: BTreeMap<String, String>,
    /// True if all files are included.
    pub(super) is_whole: bool,
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedInstruction {
    pub(super) path: String,
    /// The path with its links resolved.
    pub(super) leads_to: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    /// The changed lines, for people.
    pub(super) lines: String,
    /// True if it became a link, or its target changed.
    pub(super) is_relinked: bool,
    /// True if its former content is stored, and can be restored.
    can_be_undone: bool,
}

impl InstructionMarks {
    /// Reads the present state. The contents are saved, to be shown and restored. The files of `former` are
    /// read even if there are too many files by now.
    pub(super) fn read(
        workspace: &Workspace,
        images: &BeforeImages,
        former: Option<&Self>,
    ) -> Self {
        let mut marks = BTreeMap::new();
        let mut kept = images.several();
        let mut mark = |path: &WorkspacePath, contents: Contents<'_>, link: Option<&str>| {
            let mut mark = match contents {
                // Its former version is in force. `instruction_versions` notifies the owner.
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
        let mut seen = BTreeSet::new();
        let is_whole = visit_all(workspace, &mut |path, contents, link| {
            seen.insert(path.to_string());
            mark(path, contents, link);
        });
        let known = former.filter(|_| !is_whole).into_iter().flat_map(|former| former.marks.keys());
        let others = known.filter(|path| !seen.contains(*path));
        for path in others.filter_map(|path| path.parse().ok()) {
            visit_one(workspace, &path, &mut mark);
        }
        if let Err(error) = kept.finish() {
            tracing::warn!(%error, "Cannot save versions of files");
        }
        Self { marks, is_whole }
    }

    /// Returns the files that differ from a former state.
    pub(super) fn changed_since(
        &self,
        former: &Self,
        workspace: &Workspace,
        images: &BeforeImages,
    ) -> Vec<ChangedInstruction> {
        let removed = former.marks.keys().filter(|path| !self.marks.contains_key(*path));
        let paths = removed.chain(self.marks.keys());
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
        let (is_relinked, has_same_content) = (link != link_before, before == after);
        let is_known = known.is_some() || former.is_whole;
        let lines_shown = match is_known {
            true if is_relinked && has_same_content => None,
            true => Some(lines(images, before, after)),
            false => Some(replies::NOT_WATCHED_BEFORE.to_owned()),
        };
        let new_target = is_relinked.then(|| replies::link_target_changed(link));
        let lines_shown: Vec<_> = new_target.into_iter().chain(lines_shown).collect();
        let workspace_path = path.parse::<WorkspacePath>().ok();
        let leads_to = workspace_path.as_ref().and_then(|path| workspace.resolve(path).ok());
        // The mark of a large file is a stamp, so its hash is computed here.
        let after = after.map(|after| match (Hash::parse(after), &workspace_path) {
            (None, Some(path)) => {
                let hash = workspace.hash(path).ok().flatten();
                hash.map_or_else(|| after.to_owned(), |hash| hash.to_string())
            }
            _ => after.to_owned(),
        });
        let is_hash = |mark: Option<&str>| mark.is_none_or(|mark| Hash::parse(mark).is_some());
        let can_be_written = after.is_some() || link.is_none();
        ChangedInstruction {
            path: path.to_owned(),
            leads_to: leads_to.map_or_else(|| path.to_owned(), |path| path.to_string()),
            before: before.map(str::to_owned),
            lines: lines_shown.join("\n"),
            is_relinked,
            can_be_undone: is_known
                && !has_same_content
                && can_be_written
                && is_hash(before)
                && is_hash(after.as_deref()),
            after,
        }
    }
}

/// Splits a mark into the hash or stamp of the content, and the target of a link.
fn parts(mark: Option<&String>) -> (Option<&str>, Option<&str>) {
    let Some(mark) = mark else { return (None, None) };
    let (content, link) = match mark.split_once(LEADS_TO) {
        Some((content, link)) => (content, Some(link)),
        None => (mark.as_str(), None),
    };
    (Some(content).filter(|content| !content.is_empty()), link)
}

impl ChangedInstruction {
    /// Returns the change as an action, with its undo if the former content is stored.
    pub(super) fn seen(&self) -> FoundChange {
        let Self { path, before, after, can_be_undone, .. } = self;
        let undo = FileUndo { path: path.clone(), before: before.clone(), after: after.clone() };
        FoundChange { path: path.clone(), undo: can_be_undone.then_some(undo) }
    }
}

/// Returns the changed lines, for people.
fn lines(images: &BeforeImages, before: Option<&str>, after: Option<&str>) -> String {
    let text = |mark: Option<&str>| match mark {
        None => Some(String::new()),
        Some(mark) => {
            let contents = images.get(&Hash::parse(mark)?)?;
            Some(String::from_utf8_lossy(&contents).into_owned())
        }
    };
    let (Some(former), Some(current)) = (text(before), text(after)) else {
        return replies::TOO_LARGE_TO_SHOW.to_owned();
    };
    match memory::changes(&former, &current) {
        Some(lines) if !former.is_empty() || !current.is_empty() => lines,
        _ => replies::BINARY_CHANGED.to_owned(),
    }
}
