//! The trouble that the threads of a store have met, for those who tell people of it. Not here: the messages.

use tokio::sync::watch;

use super::StoreError;

/// A trouble of the store that its operator must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreTrouble {
    /// The disk is full. Over once there is space for the ballast file again.
    Full,
    /// The disk does not take what is written. Over with the next commit.
    Failing,
    /// A part of the database cannot be read. Not over as long as the store is open.
    Damaged,
}

/// The present trouble of a store, cheap to clone.
#[derive(Clone)]
pub(super) struct Troubles {
    present: watch::Sender<Option<StoreTrouble>>,
    /// Number of failures because of a broken search index, which is not the operator's to mend.
    index_failures: watch::Sender<u64>,
}

impl Default for Troubles {
    fn default() -> Self {
        Self::begun_in(None)
    }
}

impl Troubles {
    /// Returns the troubles of a store that was opened in this one, if in any.
    pub(super) fn begun_in(trouble: Option<StoreTrouble>) -> Self {
        Self { present: watch::Sender::new(trouble), index_failures: watch::Sender::new(0) }
    }

    /// Notes a trouble. A damaged store stays damaged.
    pub(super) fn note(&self, trouble: StoreTrouble) {
        self.set(Some(trouble));
    }

    /// Notes that the trouble is over.
    pub(super) fn end(&self) {
        self.set(None);
    }

    /// Notes damage that a read has met.
    pub(super) fn note_read<T>(&self, result: &Result<T, StoreError>) {
        match result {
            Err(StoreError::Corrupt(_)) => self.note(StoreTrouble::Damaged),
            Err(StoreError::Index(_)) => self.note_broken_index(),
            _ => {}
        }
    }

    /// Notes that the search index is broken. The database is as sound as before.
    pub(super) fn note_broken_index(&self) {
        self.index_failures.send_modify(|failures| *failures += 1);
    }

    pub(super) fn present(&self) -> Option<StoreTrouble> {
        *self.present.borrow()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Option<StoreTrouble>> {
        self.present.subscribe()
    }

    pub(super) fn watch_index(&self) -> watch::Receiver<u64> {
        self.index_failures.subscribe()
    }

    fn set(&self, trouble: Option<StoreTrouble>) {
        self.present.send_if_modified(|present| {
            let changes = *present != trouble && *present != Some(StoreTrouble::Damaged);
            if changes {
                *present = trouble;
            }
            changes
        });
    }
}
