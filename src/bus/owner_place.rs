//! The address for notices to the owner while access changes: it stays with an owner. Not here: its use (`notices`), and the
//! private messages of owners, each of which sets it (`admission`).

use rusqlite::Connection;

use crate::bus::journal;
use crate::people::persons::{self, KnownAccount, PersonAccount};
use crate::people::{self, LOCAL, People, Role};
use crate::types::message::{Address, SenderId};

/// Returns true if the owner's address is that of somebody who is no owner any more. Where an older version stored no
/// sender, it is not known. A channel that is not in use leads to nobody, and may come back.
pub fn is_lost(store: &Connection, people: &People) -> rusqlite::Result<bool> {
    let Some((Address { channel, .. }, Some(sender))) = people::owner(store)? else {
        return Ok(false);
    };
    Ok(people.access(&channel).is_some()
        && people.role_of(store, &channel, &sender)? != Some(Role::Owner))
}

/// Moves the owner's address to the last private chat of an owner, if it is [lost](is_lost). Without such a chat there is
/// none, until an owner writes in private. Due in each transaction that takes access from somebody. Returns the former
/// address if it was lost.
pub fn keep_with_owner(store: &Connection, people: &People) -> rusqlite::Result<Option<Address>> {
    if !is_lost(store, people)? {
        return Ok(None);
    }
    let former = people::owner_address(store)?;
    match last_of_owners(store, people)? {
        Some((at, sender)) => {
            tracing::info!(%at, "The owner is told at another address, because the former one is not an owner's any more");
            people::set_owner_address(store, &at, &sender)?;
        }
        None => {
            tracing::warn!(
                "The owner cannot be told anything before they write in private, because the former address is not theirs any more"
            );
            people::forget_owner_address(store)?;
        }
    }
    Ok(former)
}

/// Returns the address of the last private message of an owner, with the account that sent it. That of the machine's own
/// terminal only if there is no other: it may be closed.
fn last_of_owners(
    store: &Connection,
    people: &People,
) -> rusqlite::Result<Option<(Address, SenderId)>> {
    let mut newest = None;
    for KnownAccount { channel, sender, .. } in persons::accounts(store)? {
        if people.role_of(store, &channel, &sender)? != Some(Role::Owner) {
            continue;
        }
        let account = PersonAccount { channel, sender };
        let Some((row, at)) = journal::last_private_of(store, &account)? else { continue };
        let rank = (account.sender.as_str() != LOCAL, row);
        if newest.as_ref().is_none_or(|(best, _)| *best < rank) {
            newest = Some((rank, (at, account.sender)));
        }
    }
    Ok(newest.map(|(_, found)| found))
}
