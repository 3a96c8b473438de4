//! The reader of a tool's result, which decides which files the tool may show.

use std::sync::Arc;

use crate::workspace::{Audience, FileError, FileScope, OpenedFile, Workspace, WorkspacePath};

/// The reader of a tool's result, which decides what the tool may show.
#[derive(Clone, Debug)]
pub struct ToolReader {
    pub audience: Audience,
    pub scope: FileScope,
    arrived_here: Arc<[String]>,
}

impl ToolReader {
    /// Returns the reader with a scope who can also see files that arrived in the chat.
    pub(super) fn new(scope: FileScope, arrived_here: Arc<[String]>) -> Self {
        Self { audience: scope.audience(), scope, arrived_here }
    }

    /// Returns the reader of content that prompts contain unasked. It cannot see files received in a chat.
    pub(crate) fn of(scope: FileScope) -> Self {
        Self::new(scope, Arc::default())
    }

    /// Opens a file; refuses what the reader must not see.
    pub fn open(
        &self,
        workspace: &Workspace,
        path: &WorkspacePath,
    ) -> Result<OpenedFile, FileError> {
        let is_own = |file: &OpenedFile| {
            !file.has_other_names()
                && self.arrived_here.iter().any(|own| own == file.path().as_str())
        };
        let path = self.scope.path(path);
        match workspace.open_file(&path) {
            Ok(file) if is_own(&file) => Ok(file),
            _ => workspace.open_for(&path, &self.scope),
        }
    }
}
