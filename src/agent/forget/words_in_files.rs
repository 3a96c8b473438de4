//! Files that contain forgotten words: lines of the memory and notes are removed, and so are former versions for
//! `/undo`, sent files and marked files.

use rusqlite::Connection;

use super::{ForgetScope, attachments, marked};
use crate::conversation::blanking::before_images_of;
use crate::memory::blanking::{self, FilesWithWords};
use crate::services::Services;
use crate::store::{ForgottenWords, StoreError};
use crate::turn::services::TurnServices;

/// Returns the files that contain the words, of those that the person may change.
pub(super) async fn find(
    services: &Services,
    scope: &ForgetScope,
    words: &ForgottenWords,
) -> FilesWithWords {
    let (files, words) = (scope.files.clone(), words.clone());
    services
        .workspace
        .run_blocking(move |workspace| blanking::find(workspace, &files, &words))
        .await
}

/// Removes the words from the memory, the notes and the former versions of files. Returns a file that could not be
/// changed, if there is one.
pub(super) async fn forget(
    turns: &TurnServices,
    scope: &ForgetScope,
    words: &ForgottenWords,
) -> Result<Option<String>, StoreError> {
    let services = &turns.services;
    let found = find(services, scope, words).await;
    attachments::forget(services, &scope.files.downloads(), words).await?;
    let mut failed = marked::forget(services, scope.own_files(), words).await?;
    let chats = scope.chats.clone();
    let query = move |store: &Connection| {
        let mut undo_images = Vec::new();
        for chat in &chats {
            undo_images.extend(before_images_of(store, chat)?);
        }
        Ok(undo_images)
    };
    let undo_images = services.bus.store.read(query).await?;
    let (images, words) = (turns.actions.images.clone(), words.clone());
    let removed = services.workspace.run_blocking(move |workspace| {
        for path in &found.memory {
            if let Err(error) = blanking::remove_lines(workspace, path, &words) {
                tracing::warn!(%path, %error, "Cannot remove lines that are to be forgotten");
                failed = Some(path.to_string());
            }
        }
        if let Err(error) = images.forget(&undo_images, &words) {
            tracing::warn!(%error, "Cannot remove former versions that are to be forgotten");
            failed = Some("undo".to_owned());
        }
        failed
    });
    Ok(removed.await)
}
