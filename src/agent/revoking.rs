//! `/pair revoke`, in a chat and on the command line: the person has no access any more, and nothing goes on for them.

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use crate::bus::outbox;
use crate::conversation::budgets::stored;
use crate::people::page_accounts::is_page_account;
use crate::people::persons::PersonAccount;
use crate::people::revoking::{self, PartedPersons, Revocation};
use crate::people::{People, Role};
use crate::replies;
use crate::turn::{background, commits};

/// Revokes the access of an account's person. Returns the reply; the inner error explains a refusal.
pub(super) fn revoke(
    store: &Connection,
    people: &People,
    account: &PersonAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<Result<String, String>> {
    let PersonAccount { channel, sender } = account;
    let (accounts, parted) = match revoking::revoke(store, people, account, now)? {
        Revocation::NotPaired => return Ok(Err(replies::not_paired(sender))),
        Revocation::Revoked { accounts, parted } => (accounts, parted),
    };
    if let Some(PartedPersons { former, new }) = parted {
        // As for `/unlink`.
        stored::copy(store, former, new)?;
    }
    let mut linked = Vec::new();
    for it in &accounts {
        if role_of(store, people, it)?.is_some() {
            continue;
        }
        end_work(store, it)?;
        if it != account && !is_page_account(&it.sender) {
            linked.push(format!("{} on {}", it.sender, it.channel));
        }
    }
    background::keep_owner_place(store, people)?;
    tracing::info!(%channel, id = %sender, "Revoked the access of somebody");
    Ok(Ok(match role_of(store, people, account)? {
        Some(role) => replies::has_access_by_config(sender, role),
        None if linked.is_empty() => replies::revoked(sender),
        None => replies::revoked_with_linked(sender, &linked),
    }))
}

fn role_of(
    store: &Connection,
    people: &People,
    account: &PersonAccount,
) -> rusqlite::Result<Option<Role>> {
    people.role_of(store, &account.channel, &account.sender)
}

/// Ends all work for an account. Whoever waited for an answer is told why there is none.
fn end_work(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    for turn in commits::end_work_of(store, account)? {
        if let Some(at) = turn.origin.chat() {
            outbox::put(store, at, turn.reply_to.as_ref(), replies::ACCESS_HAS_ENDED)?;
        }
    }
    Ok(())
}
