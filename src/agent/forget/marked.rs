//! Marked files of a former version whose names contain forgotten words: the file is deleted with its mark, because an
//! unmarked file would be trusted.

use rusqlite::Connection;

use crate::services::Services;
use crate::store::{ForgottenWords, StoreError};
use crate::trust::marked_files;
use crate::workspace::opened::OpenedFile;
use crate::workspace::{FileChange, FileError, FileScope, Workspace, WorkspacePath};

/// Returns the marked files whose names contain the words. Only the owner has such files.
pub(super) async fn with_words(
    services: &Services,
    scope: Option<&FileScope>,
    words: &ForgottenWords,
) -> Result<Vec<WorkspacePath>, StoreError> {
    if scope != Some(&FileScope::Owner) {
        return Ok(Vec::new());
    }
    let words = words.clone();
    services.bus.store.read(move |store| marked_files::with_words(store, &words)).await
}

/// Deletes these files with their marks, and blanks the names of their writers. Returns a file that cannot be deleted;
/// it stays marked. Can be repeated after a crash.
pub(super) async fn forget(
    services: &Services,
    scope: Option<&FileScope>,
    words: &ForgottenWords,
) -> Result<Option<String>, StoreError> {
    if scope != Some(&FileScope::Owner) {
        return Ok(None);
    }
    let found = with_words(services, scope, words).await?;
    let delete_all = move |workspace: &Workspace| {
        let (mut deleted, mut failed) = (Vec::new(), None);
        for path in found {
            match delete(workspace, &path) {
                Ok(()) => deleted.push(path),
                Err(_) => {
                    // The name and the error contain the words, so they are not logged.
                    tracing::warn!("Cannot delete a marked file that is to be forgotten");
                    failed = Some(path.to_string());
                }
            }
        }
        (deleted, failed)
    };
    let (deleted, failed) = services.workspace.run_blocking(delete_all).await;
    let words = words.clone();
    let unmark = move |store: &Connection| {
        deleted.iter().try_for_each(|path| marked_files::unmark(store, path))?;
        marked_files::forget_authors(store, &words)?;
        marked_files::list(store)
    };
    let remaining = services.bus.store.write_securely("forget marked files", unmark).await?;
    services.workspace.set_marked(remaining.into_iter().map(|file| file.path));
    Ok(failed)
}

fn delete(workspace: &Workspace, path: &WorkspacePath) -> Result<(), FileError> {
    match workspace.open_without_links(path).and_then(OpenedFile::hash) {
        // Its owner has deleted it, or a crash interrupted this work.
        Err(FileError::Missing(_)) => Ok(()),
        hash => workspace.apply(&FileChange::removal(path.clone(), hash?)),
    }
}
