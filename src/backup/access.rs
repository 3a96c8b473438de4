//! Access in an unpacked backup: what was taken from people since it was made is taken again, as far as the replaced
//! home tells, and the owner hears of it.

use std::path::Path;

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use crate::conversation::asks::Grant;
use crate::conversation::budgets::stored;
use crate::conversation::restored::{GrantChanges, all_grants, keep_common_grants};
use crate::people::persons::PersonAccount;
use crate::people::restored::{
    AccessChanges, AccessState, ChangedAccess, ChangedRight, read_access, take_again,
    withdraw_codes,
};
use crate::people::revoking::PartedPersons;
use crate::people::{self, Role};
use crate::replies::{self, RestoredAccess};
use crate::store::try_read;
use crate::turn::commits;
use crate::types::message::{Address, SenderId};

/// The owner's address, and their account there if it is known.
type OwnerAddress = (Address, Option<SenderId>);

/// The access of people in the replaced home.
pub(super) struct AccessSince {
    people: AccessState,
    grants: Vec<Grant>,
    owner: Option<OwnerAddress>,
}

/// Reads the access of people in a home. None if it cannot be read.
pub(super) fn read(home: &Path) -> Option<AccessSince> {
    try_read(home, |store| {
        let (people, grants) = (read_access(store)?, all_grants(store)?);
        Ok(AccessSince { people, grants, owner: people::owner(store)? })
    })
}

/// The access of people after a restore.
pub(super) struct SettledAccess {
    pub(super) access: RestoredAccess,
    /// The address of somebody who is an owner still.
    pub(super) owner: Option<Address>,
}

/// Takes again what was taken since, and withdraws all codes. Without a home that can be compared, roles and blocks
/// stay as they are in the backup.
pub(super) fn settle(
    store: &Connection,
    since: Option<&AccessSince>,
    now: DateTime<Utc>,
) -> rusqlite::Result<SettledAccess> {
    withdraw_codes(store)?;
    let Some(since) = since else { return unknown(store) };
    let Some(changes) = take_again(store, &since.people, now, commits::part_from_past)? else {
        return unknown(store);
    };
    for PartedPersons { former, new } in &changes.parted {
        stored::copy(store, *former, *new)?;
    }
    let owner = keep_owner(store, since, &changes)?;
    let grants = keep_common_grants(store, &since.grants)?;
    let access = describe(&changes, &grants);
    Ok(SettledAccess { access, owner })
}

fn unknown(store: &Connection) -> rusqlite::Result<SettledAccess> {
    let owner = people::owner_address(store)?;
    Ok(SettledAccess { access: RestoredAccess::default(), owner })
}

/// Stores the owner's address of the replaced home, or else the one of the backup. None is stored if its account has
/// lost what it had, or was given it after the backup: nobody may read there what is for the owner.
fn keep_owner(
    store: &Connection,
    since: &AccessSince,
    changes: &AccessChanges,
) -> rusqlite::Result<Option<Address>> {
    let account = |(at, sender): &OwnerAddress| {
        let sender = sender.clone()?;
        Some(PersonAccount { channel: at.channel.clone(), sender })
    };
    let has_stayed =
        |owner: &OwnerAddress| account(owner).is_none_or(|it| !changes.has_taken_from(&it));
    let is_new = |owner: &OwnerAddress| account(owner).is_some_and(|it| changes.has_given_to(&it));
    let latest = since.owner.clone().filter(|owner| has_stayed(owner) && !is_new(owner));
    if let Some((at, Some(sender))) = latest {
        people::set_owner_address(store, &at, &sender)?;
        return Ok(Some(at));
    }
    match people::owner(store)?.filter(has_stayed) {
        Some((at, _)) => Ok(Some(at)),
        None => people::forget_owner_address(store).map(|()| None),
    }
}

fn describe(changes: &AccessChanges, grants: &GrantChanges) -> RestoredAccess {
    let words = |changes: &[ChangedAccess], grants: &[Grant]| {
        let grant = |Grant { channel, sender, tool }: &Grant| {
            replies::always_approved(format_args!("{sender} on {channel}"), tool)
        };
        changes.iter().map(describe_change).chain(grants.iter().map(grant)).collect()
    };
    RestoredAccess {
        is_known: true,
        taken: words(&changes.taken, &grants.taken),
        given: words(&changes.given, &grants.given),
    }
}

fn describe_change(ChangedAccess { name, accounts, right }: &ChangedAccess) -> String {
    let accounts = accounts.iter().map(|it| format!("{} on {}", it.sender, it.channel));
    let accounts: Vec<_> = accounts.collect();
    let name_of_role = |role: Option<Role>| role.map(Role::as_str);
    match right {
        ChangedRight::Removed => replies::access_since(name, &accounts, replies::ACCESS_REMOVED),
        ChangedRight::Blocked => replies::access_since(name, &accounts, replies::ACCESS_BLOCKED),
        ChangedRight::Unblocked => {
            replies::access_since(name, &accounts, replies::ACCESS_UNBLOCKED)
        }
        ChangedRight::Linked => replies::access_since(name, &accounts, replies::ACCESS_LINKED),
        ChangedRight::Unlinked => replies::access_since(name, &accounts, replies::ACCESS_UNLINKED),
        ChangedRight::Role { backup, since } => {
            let role = replies::role_since(name_of_role(*since), name_of_role(*backup));
            replies::access_since(name, &accounts, &role)
        }
    }
}
