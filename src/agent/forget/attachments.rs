//! Files that people sent, with words that somebody wants forgotten: the whole file goes, with its record.

use rusqlite::Connection;

use crate::memory::attachments::{self, AttachmentFile};
use crate::memory::blanking;
use crate::services::Services;
use crate::store::{ForgottenWords, StoreError};
use crate::workspace::WorkspacePath;

/// Returns the files that people sent and that have the words, by their record or as a file of text.
pub(super) async fn with_words(
    services: &Services,
    folder: &WorkspacePath,
    words: &ForgottenWords,
) -> Result<Vec<AttachmentFile>, StoreError> {
    let (folder, sought) = (folder.clone(), words.clone());
    let look = move |store: &Connection| attachments::with_words(store, &folder, &sought);
    let found = services.bus.store.read(look).await?;
    let words = words.clone();
    let read = move |it: &_| blanking::sent_with_words(it, found, &words);
    Ok(services.workspace.off_thread(read).await)
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
