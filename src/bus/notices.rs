//! Notices that the owner gets once, such as a context window smaller than assumed. A notice is known by its subject.

use rusqlite::Connection;

use crate::bus::{Bus, outbox};
use crate::people;
use crate::store::{StoreError, Sync, Time};

/// Tells the owner, where they last spoke in private, unless they were told the same. Waits for nothing if there
/// is no owner yet: then they are told another time.
pub async fn tell_owner(bus: &Bus, key: String, words: String) -> Result<(), StoreError> {
    let known = key.clone();
    if bus.store.read(move |store| is_known(store, &known)).await? {
        return Ok(());
    }
    let tell = move |store: &Connection| {
        let Some(owner) = people::owner_place(store)? else { return Ok(()) };
        let told = store
            .prepare_cached("INSERT OR IGNORE INTO notices (key, at) VALUES (?, ?)")?
            .execute((&key, Time::now()))?;
        if told > 0 {
            outbox::put(store, &owner, None, &words)?;
        }
        Ok(())
    };
    bus.store.write("notice", Sync::Now, tell).await?;
    bus.outbox.up();
    Ok(())
}

fn is_known(store: &Connection, key: &str) -> rusqlite::Result<bool> {
    store.prepare_cached("SELECT 1 FROM notices WHERE key = ?")?.exists([key])
}
