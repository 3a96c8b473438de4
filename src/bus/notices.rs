//! Notices for the owner: those that they get once, such as a context window smaller than assumed, with a key that
//! identifies the subject; those about a trouble, once until it is over; and those that they get each time.

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

/// The condition for the keys of a subject's troubles: the subject, a blank and a detail.
const OF_SUBJECT: &str = "key > ?1 || ' ' AND key < ?1 || '!'";

/// Tells the owner of a trouble, once until its end is told, also across restarts. Returns false if there is no owner yet,
/// so that a later call can tell of it.
pub async fn tell_of_trouble(
    bus: &Bus,
    subject: &'static str,
    detail: &str,
    text: String,
) -> Result<bool, StoreError> {
    let key = format!("{subject} {detail}");
    let lookup_key = key.clone();
    let look = move |store: &Connection| {
        Ok((is_known(store, &lookup_key)?, people::owner_address(store)?.is_some()))
    };
    match bus.store.read(look).await? {
        (true, _) => Ok(true),
        (false, false) => Ok(false),
        (false, true) => notify_owner(bus, key, text).await.map(|()| true),
    }
}

/// Tells the owner that all troubles of a subject are over, if they were told of one.
pub async fn tell_of_end(bus: &Bus, subject: &'static str, text: String) -> Result<(), StoreError> {
    let is_told = move |store: &Connection| {
        let told = format!("SELECT 1 FROM notices WHERE {OF_SUBJECT}");
        store.prepare_cached(&told)?.exists([subject])
    };
    if !bus.store.read(is_told).await? {
        return Ok(());
    }
    let end = move |store: &Connection| {
        let delete = format!("DELETE FROM notices WHERE {OF_SUBJECT}");
        let ended = store.prepare_cached(&delete)?.execute([subject])?;
        if ended > 0
            && let Some(owner) = people::owner_address(store)?
        {
            outbox::put(store, &owner, None, &text)?;
        }
        Ok(())
    };
    bus.store.write("notice", Sync::Now, end).await?;
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
