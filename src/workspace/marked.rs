//! Marks of files that are untrusted although they lie in the workspace. `trust::marked_files` keeps them.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::{Workspace, WorkspacePath};

impl Workspace {
    /// Replaces the marks.
    pub fn set_marked(&self, paths: impl IntoIterator<Item = WorkspacePath>) {
        let paths = paths.into_iter().collect();
        *self.0.marked.lock().unwrap_or_else(PoisonError::into_inner) = paths;
    }

    /// Returns the marked paths.
    pub fn marked(&self) -> BTreeSet<WorkspacePath> {
        self.0.marked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_marked(&self, path: &WorkspacePath) -> bool {
        self.0.marked.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }
}
