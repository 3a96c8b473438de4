//! Files that people sent and that contain forgotten words: the whole file is deleted, with its record.

use rusqlite::Connection;

use crate::memory::attachments::{self, AttachmentFile};
use crate::memory::blanking;
use crate::services::Services;
use crate::store::{ForgottenWords, StoreError};
use crate::workspace::WorkspacePath;

/// Returns the files that people sent and that contain the words, in their record or in their text.
pub(super) async fn with_words(
    services: &Services,
    folder: &WorkspacePath,
    words: &ForgottenWords,
) -> Result<Vec<AttachmentFile>, StoreError> {
    let (folder, words_of_records) = (folder.clone(), words.clone());
    let query =
        move |store: &Connection| attachments::with_words(store, &folder, &words_of_records);
    let found = services.bus.store.read(query).await?;
    let words = words.clone();
    let search_files = move |it: &_| blanking::sent_with_words(it, found, &words);
    Ok(services.workspace.run_blocking(search_files).await)
}

/// Deletes these files and their records.
pub(super) async fn forget(
    services: &Services,
    folder: &WorkspacePath,
    words: &ForgottenWords,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let sent = with_words(services, folder, words).await?;
    let remove = move |store: &Connection| attachments::remove(store, &sent);
    store.write_securely("forget attachments", remove).await?;
    attachments::sweep(store, &services.workspace).await
}
