//! What the files are that the bot goes by, and what differs between two looks at them.

use std::collections::BTreeMap;

use crate::actions::{Images, Seen};
use crate::memory;
use crate::replies;
use crate::session::FileUndo;
use crate::workspace::rules::{Contents, each, one};
use crate::workspace::{Hash, Workspace, WorkspacePath};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Of each file, by its path: the hash of what it holds, or what else tells that it changed.
    pub(super) marks: BTreeMap<String, String>,
    /// Whether there are no more files.
    pub(super) is_whole: bool,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) path: String,
    /// The same with its links followed.
    pub(super) leads_to: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    /// How, for people.
    pub(super) lines: String,
    /// What it was is known.
    is_known: bool,
}

impl Rules {
    /// As they are now. What they hold is kept, to be shown and put back. Those that were known are looked
    /// at even if there are too many by now.
    pub(super) fn read(workspace: &Workspace, images: &Images, former: Option<&Self>) -> Self {
        let mut marks = BTreeMap::new();
        let mut mark = |path: &WorkspacePath, contents: Contents<'_>| {
            let mark = match contents {
                Contents::Large(stamp) => stamp,
                Contents::Whole(bytes) => {
                    let hash = Hash::of(bytes);
                    if let Err(error) = images.put(&hash, bytes) {
                        tracing::warn!(%path, %error, "Cannot keep what a file is");
                    }
                    hash.to_string()
                }
            };
            marks.insert(path.to_string(), mark);
        };
        let is_whole = each(workspace, &mut mark);
        let known = former.filter(|_| !is_whole).into_iter().flat_map(|former| former.marks.keys());
        for path in known.filter_map(|path| path.parse().ok()) {
            one(workspace, &path, &mut mark);
        }
        Self { marks, is_whole }
    }

    pub(super) fn changed_since(
        &self,
        former: &Self,
        workspace: &Workspace,
        images: &Images,
    ) -> Vec<Changed> {
        let gone = former.marks.keys().filter(|path| !self.marks.contains_key(*path));
        let paths = gone.chain(self.marks.keys());
        let differs = paths.filter(|path| former.marks.get(*path) != self.marks.get(*path));
        let changed = differs.map(|path| {
            let (before, after) = (former.marks.get(path), self.marks.get(path));
            let workspace_path = path.parse::<WorkspacePath>().ok();
            let leads_to = workspace_path.as_ref().and_then(|path| workspace.resolve(path).ok());
            let is_known = before.is_some() || former.is_whole;
            let lines = match is_known {
                true => lines(images, before, after),
                false => replies::NOT_WATCHED_BEFORE.to_owned(),
            };
            // Of a large file there was a stamp.
            let after = after.map(|after| match (Hash::stored(after), &workspace_path) {
                (None, Some(path)) => {
                    let hash = workspace.hash(path).ok().flatten();
                    hash.map_or_else(|| after.clone(), |hash| hash.to_string())
                }
                _ => after.clone(),
            });
            Changed {
                path: path.clone(),
                leads_to: leads_to.map_or_else(|| path.clone(), |path| path.to_string()),
                is_known,
                before: before.cloned(),
                after,
                lines,
            }
        });
        changed.collect()
    }
}

impl Changed {
    /// As it is written down, with the way back if what it was is kept.
    pub(super) fn seen(&self) -> Seen {
        let Self { path, before, after, is_known, .. } = self;
        let is_hash =
            |mark: &Option<String>| mark.as_ref().is_none_or(|mark| Hash::stored(mark).is_some());
        let undo = FileUndo { path: path.clone(), before: before.clone(), after: after.clone() };
        let can_be_undone = *is_known && is_hash(before) && is_hash(after);
        Seen { path: path.clone(), undo: can_be_undone.then_some(undo) }
    }
}

/// What differs, for people.
fn lines(images: &Images, before: Option<&String>, after: Option<&String>) -> String {
    let text = |mark: Option<&String>| match mark {
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
