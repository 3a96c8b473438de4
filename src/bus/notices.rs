//! Notices that the owner gets once, such as a context window smaller than assumed. A key identifies the subject.

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
        let Some(owner) = people::owner_place(store)? else { return Ok(()) };
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

fn is_known(store: &Connection, key: &str) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM notices WHERE key = ?")?.exists([key])
}
