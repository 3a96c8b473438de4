//! Files that people sent, with words that somebody wants forgotten: the whole file goes, with its record.

use rusqlite::Connection;

use crate::memory::attachments::{self, AttachmentFile};
use crate::memory::blanking::FilesWithWords;
use crate::services::Services;
use crate::store::{ForgottenWords, Store, StoreError};
use crate::workspace::WorkspacePath;

/// Returns the files that people sent and that have the words, by their record or as a file of text.
pub(super) async fn with_words(
    store: &Store,
    folder: &WorkspacePath,
    words: &ForgottenWords,
    files: &FilesWithWords,
) -> Result<Vec<AttachmentFile>, StoreError> {
    let (folder, words, others) = (folder.clone(), words.clone(), files.others.clone());
    let look =
        move |store: &Connection| attachments::with_words_or_at(store, &folder, &words, &others);
    store.read(look).await
}

/// Deletes these files and their records.
pub(super) async fn forget(
    services: &Services,
    folder: &WorkspacePath,
    words: &ForgottenWords,
    files: &FilesWithWords,
) -> Result<(), StoreError> {
    let store = &services.bus.store;
    let sent = with_words(store, folder, words, files).await?;
    let remove = move |store: &Connection| attachments::remove(store, &sent);
    store.write_securely("forget attachments", remove).await?;
    attachments::sweep(store, &services.workspace).await
}
