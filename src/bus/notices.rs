//! Notices for the owner: those that they get once, such as a context window smaller than assumed, with a key that
//! identifies the subject, and those that they get each time.

use rusqlite::Connection;

use crate::bus::{Bus, outbox};
use crate::people;
use crate::store::{StoreError, Sync, Time};

/// Queues a notice for the owner's last private chat, unless they got one with this key. Does nothing if there is no
/// owner yet, so that a later call can queue it.
pub async fn notify_owner(bus: &Bus, key: String, text: String) -> Result<(), StoreError> {
    let lookup_key = key.clone();
    if bus.store.read(move |store| is_known(store, &lookup_key)).await? {
        return Ok(());
    }
    let put_once = move |store: &Connection| {
        let Some(owner) = people::owner_address(store)? else { return Ok(()) };
        let inserted = store
            .prepare_cached("INSERT OR IGNORE INTO notices (key, at) VALUES (?, ?)")?
            .execute((&key, Time::now()))?;
        if inserted > 0 {
            outbox::put(store, &owner, None, &text)?;
        }
        Ok(())
    };
    bus.store.write("notice", Sync::Now, put_once).await?;
    bus.outbox.notify();
    Ok(())
}

/// Queues a message for the owner's last private chat, if there is an owner. Returns false if that fails, which is
/// logged with the subject.
pub async fn send_to_owner(bus: &Bus, subject: &'static str, text: String) -> bool {
    let put = move |store: &Connection| match people::owner_address(store)? {
        Some(owner) => outbox::put(store, &owner, None, &text).map(drop),
        None => Ok(()),
    };
    match bus.store.write(subject, Sync::Now, put).await {
        Ok(()) => {
            bus.outbox.notify();
            true
        }
        Err(error) => {
            tracing::warn!(%error, subject, "Cannot tell the owner");
            false
        }
    }
}

fn is_known(store: &Connection, key: &str) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM notices WHERE key = ?")?.exists([key])
}
