//! Access in a restored backup. What was taken from people since it was made is taken again: they have the lower of
//! both roles, are blocked if they are in one of both, and are linked only if they are in both. What they were given
//! since is not kept.

mod access_state;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, params};

use super::folders::{self, FolderAct};
use super::listing;
use super::page_accounts::is_page_account;
use super::persons::{PersonAccount, record_account};
use super::revoking::PartedPersons;
use crate::store::Time;
use crate::types::message::Sender;
use crate::types::person::PersonId;
use crate::types::role::Role;
pub use access_state::{AccessState, read_access};
use access_state::{AccountRights, DeniedStranger, PersonRights};

/// A right of a person that is another one than in the backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedRight {
    Removed,
    Blocked,
    Unblocked,
    Linked,
    Unlinked,
    /// None is no access by name.
    Role {
        backup: Option<Role>,
        since: Option<Role>,
    },
}

/// A person whose rights have changed since the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedAccess {
    pub name: String,
    pub accounts: Vec<PersonAccount>,
    pub right: ChangedRight,
}

/// The changes of access since a backup.
#[derive(Debug, Default)]
pub struct AccessChanges {
    /// Rights that were taken since, and are taken again.
    pub taken: Vec<ChangedAccess>,
    /// Rights that were given since, and are not kept.
    pub given: Vec<ChangedAccess>,
    /// Persons of the backup that were parted.
    pub parted: Vec<PartedPersons>,
}

impl AccessChanges {
    pub fn has_taken_from(&self, account: &PersonAccount) -> bool {
        self.taken.iter().any(|it| it.accounts.contains(account))
    }

    pub fn has_given_to(&self, account: &PersonAccount) -> bool {
        self.given.iter().any(|it| it.accounts.contains(account))
    }
}

/// Withdraws the codes of strangers and of `/link`: they may have been used or denied since.
pub fn withdraw_codes(store: &Connection) -> rusqlite::Result<()> {
    store.execute("UPDATE strangers SET code = NULL WHERE code IS NOT NULL", [])?;
    store.execute("DELETE FROM links", []).map(drop)
}

/// Takes from the people of an unpacked backup what was taken from them since. `end_past` separates an account from its
/// past when its person is removed. None if the other store is not of the same home, so that nothing can be compared.
pub fn take_again(
    store: &Connection,
    since: &AccessState,
    now: DateTime<Utc>,
    end_past: impl Fn(&Connection, &PersonAccount) -> rusqlite::Result<()>,
) -> rusqlite::Result<Option<AccessChanges>> {
    let backup = read_access(store)?;
    if !backup.is_of_home(since) {
        return Ok(None);
    }
    for (account, rights) in backup.accounts.iter().filter(|(_, rights)| rights.person.is_none()) {
        let sender = Sender::person(account.sender.as_str(), rights.name.as_str());
        record_account(store, &account.channel, &sender, now)?;
    }
    let backup = read_access(store)?;
    let persons = since.by_person();
    let mut taking =
        TakingAgain { store, backup, since, persons, now, changes: AccessChanges::default() };
    taking.list_links();
    for (person, accounts) in taking.backup.by_person() {
        taking.settle_person(person, &accounts, &end_past)?;
    }
    taking.keep_removals()?;
    taking.settle_newcomers()?;
    keep_denied(store, &since.denied)?;
    Ok(Some(taking.changes))
}

/// The fate of an account after the backup.
#[derive(Clone, PartialEq, Eq)]
enum AccountFate {
    /// Nobody knows: it was let in after an older backup that was restored meanwhile.
    Unknown,
    /// Its person was removed.
    Removed,
    Person(PersonId),
    /// It is paired, and has not written yet.
    Unwritten(PersonAccount),
}

/// The accounts of a person of the backup that are still together.
struct PersonPart {
    fate: AccountFate,
    accounts: Vec<PersonAccount>,
}

struct TakingAgain<'a> {
    store: &'a Connection,
    backup: AccessState,
    since: &'a AccessState,
    /// The persons of `since`.
    persons: BTreeMap<PersonId, Vec<PersonAccount>>,
    now: DateTime<Utc>,
    changes: AccessChanges,
}

impl TakingAgain<'_> {
    fn change(&self, accounts: &[PersonAccount], right: ChangedRight) -> ChangedAccess {
        let rights = |account: &PersonAccount| {
            let backup = self.backup.accounts.get(account);
            backup.or_else(|| self.since.accounts.get(account))
        };
        let name = accounts.iter().find_map(rights).map(|rights| rights.name.clone());
        ChangedAccess { name: name.unwrap_or_default(), accounts: accounts.to_vec(), right }
    }

    fn note_taken(&mut self, accounts: &[PersonAccount], right: ChangedRight) {
        let change = self.change(accounts, right);
        self.changes.taken.push(change);
    }

    fn note_given(&mut self, accounts: &[PersonAccount], right: ChangedRight) {
        let change = self.change(accounts, right);
        self.changes.given.push(change);
    }

    /// Lists the accounts that were linked since. One that the backup does not have was somebody else, too.
    fn list_links(&mut self) {
        let mut linked: Vec<Vec<PersonAccount>> = Vec::new();
        for accounts in self.persons.values() {
            let accounts = accounts.iter().filter(|account| !is_page_account(&account.sender));
            let accounts: Vec<_> = accounts.cloned().collect();
            let person = |account: &PersonAccount| {
                self.backup.accounts.get(account).and_then(|it| it.person)
            };
            let persons: BTreeSet<_> = accounts.iter().map(person).collect();
            // Only newcomers: they are listed one by one.
            let has_known = persons.iter().any(Option::is_some);
            if has_known && persons.len() > 1 {
                linked.push(accounts);
            }
        }
        linked.iter().for_each(|accounts| self.note_given(accounts, ChangedRight::Linked));
    }

    fn settle_person(
        &mut self,
        person: PersonId,
        accounts: &[PersonAccount],
        end_past: &impl Fn(&Connection, &PersonAccount) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let parts = self.parts(person, accounts);
        // All of them first: what is taken from one of the accounts is not taken from those that were unlinked before.
        let mut persons = vec![person];
        for part in parts.iter().skip(1) {
            persons.push(self.part_off(person, part)?);
        }
        for (person, part) in persons.into_iter().zip(&parts) {
            match &part.fate {
                AccountFate::Unknown => {}
                AccountFate::Removed => {
                    part.accounts.iter().try_for_each(|account| end_past(self.store, account))?;
                    listing::remove(self.store, person, self.now)?;
                    folders::order(self.store, person, FolderAct::Archive)?;
                    self.note_taken(&part.accounts, ChangedRight::Removed);
                }
                AccountFate::Person(_) | AccountFate::Unwritten(_) => self.lower(person, part)?,
            }
        }
        Ok(())
    }

    /// Returns the accounts of a person by their fates. The first part keeps the person; accounts of which nothing is
    /// known stay with it, and so does the one of the page.
    fn parts(&self, person: PersonId, accounts: &[PersonAccount]) -> Vec<PersonPart> {
        let mut parts: Vec<PersonPart> = Vec::new();
        let mut staying = Vec::new();
        for account in accounts {
            let fate = self.fate(account);
            if fate == AccountFate::Unknown {
                staying.push(account.clone());
                continue;
            }
            match parts.iter_mut().find(|part| part.fate == fate) {
                Some(part) => part.accounts.push(account.clone()),
                None => parts.push(PersonPart { fate, accounts: vec![account.clone()] }),
            }
        }
        parts.sort_by_key(|part| match &part.fate {
            AccountFate::Person(id) if *id == person => 0,
            AccountFate::Removed => 1,
            _ => 2,
        });
        match parts.first_mut() {
            Some(first) => first.accounts.extend(staying),
            None => parts.push(PersonPart { fate: AccountFate::Unknown, accounts: staying }),
        }
        parts
    }

    fn fate(&self, account: &PersonAccount) -> AccountFate {
        let removals = |state: &AccessState| state.removals.get(account).map_or(0, |it| it.count);
        if is_page_account(&account.sender) {
            AccountFate::Unknown
        } else if removals(self.since) > removals(&self.backup) {
            AccountFate::Removed
        } else {
            match self.since.accounts.get(account).map(|rights| rights.person) {
                None => AccountFate::Unknown,
                Some(None) => AccountFate::Unwritten(account.clone()),
                Some(Some(person)) => AccountFate::Person(person),
            }
        }
    }

    fn standing_since(&self, fate: &AccountFate) -> PersonRights {
        match fate {
            AccountFate::Person(person) => {
                self.since.standing(self.persons.get(person).map(Vec::as_slice).unwrap_or_default())
            }
            AccountFate::Unwritten(account) => self.since.standing(slice::from_ref(account)),
            AccountFate::Unknown | AccountFate::Removed => {
                PersonRights { role: None, blocked: None }
            }
        }
    }

    /// Returns the standing since the backup of accounts without those that were linked to them since. A role that the
    /// owner has set for the person of those does not raise theirs, as after `/unlink`.
    fn standing_apart(&self, part: &PersonPart) -> PersonRights {
        let whole = self.standing_since(&part.fate);
        let AccountFate::Person(person) = part.fate else { return whole };
        let is_other = |account: &&PersonAccount| {
            !is_page_account(&account.sender) && !part.accounts.contains(account)
        };
        if !self.persons.get(&person).into_iter().flatten().any(|account| is_other(&account)) {
            return whole;
        }
        let rights = part.accounts.iter().filter_map(|account| self.since.accounts.get(account));
        let paired = rights.clone().filter_map(|rights| rights.paired).max();
        let set = rights.filter_map(|rights| rights.set).next();
        let mut before =
            part.accounts.iter().filter_map(|account| self.backup.accounts.get(account));
        let role = match set {
            Some(set) if before.any(|rights| rights.person == Some(person)) => Some(set),
            Some(set) => paired.min(Some(set)),
            None => paired,
        };
        PersonRights { role, ..whole }
    }

    /// Gives accounts a person of their own, who has what the former one has in the backup.
    fn part_off(&mut self, former: PersonId, part: &PersonPart) -> rusqlite::Result<PersonId> {
        let change = self.change(&part.accounts, ChangedRight::Unlinked);
        self.store.execute(
            "INSERT INTO persons (name, since, role, blocked)
             SELECT ?, ?, role, blocked FROM persons WHERE id = ?",
            params![change.name, Time(self.now), former],
        )?;
        let new = PersonId(self.store.last_insert_rowid());
        for account in &part.accounts {
            self.store.execute(
                "UPDATE accounts SET person = ? WHERE channel = ? AND sender = ?",
                params![new, account.channel, account.sender],
            )?;
        }
        self.changes.parted.push(PartedPersons { former, new });
        if part.fate != AccountFate::Removed {
            self.changes.taken.push(change);
        }
        Ok(new)
    }

    /// Blocks a person of the backup who was blocked since, and gives them the lower of both roles.
    fn lower(&mut self, person: PersonId, part: &PersonPart) -> rusqlite::Result<()> {
        let accounts = &part.accounts;
        let (backup, since) = (self.backup.standing(accounts), self.standing_apart(part));
        match (backup.blocked, since.blocked) {
            (None, Some(blocked)) => {
                listing::set_blocked(self.store, person, Some(blocked.0))?;
                self.note_taken(accounts, ChangedRight::Blocked);
            }
            (Some(_), None) => self.note_given(accounts, ChangedRight::Unblocked),
            (None, None) | (Some(_), Some(_)) => {}
        }
        let right = ChangedRight::Role { backup: backup.role, since: since.role };
        match since.role.cmp(&backup.role) {
            Ordering::Less => {
                self.set_lower_role(person, accounts, since.role)?;
                self.note_taken(accounts, right);
            }
            Ordering::Equal => {}
            Ordering::Greater => self.note_given(accounts, right),
        }
        Ok(())
    }

    /// Lowers the role that the owner has set, and the pairings, which would give the higher one back once it is
    /// deleted.
    fn set_lower_role(
        &self,
        person: PersonId,
        accounts: &[PersonAccount],
        role: Option<Role>,
    ) -> rusqlite::Result<()> {
        self.store.execute(
            "UPDATE persons SET role = ? WHERE id = ? AND role IS NOT NULL",
            params![role, person],
        )?;
        for account in accounts {
            let PersonAccount { channel, sender } = account;
            let paired = self.backup.accounts.get(account).and_then(|rights| rights.paired);
            match role {
                _ if paired <= role => continue,
                Some(role) => self.store.execute(
                    "UPDATE people SET role = ? WHERE channel = ? AND sender = ?",
                    params![role, channel, sender],
                )?,
                None => self.store.execute(
                    "DELETE FROM people WHERE channel = ? AND sender = ?",
                    params![channel, sender],
                )?,
            };
        }
        Ok(())
    }

    /// Keeps the number of removals of each account: what was said before them belongs to nobody any more.
    fn keep_removals(&self) -> rusqlite::Result<()> {
        for (account, removals) in &self.since.removals {
            self.store.execute(
                "INSERT INTO former_accounts (channel, sender, removals, removed)
                 VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET
                 removals = max(removals, excluded.removals), removed = max(removed, excluded.removed)",
                params![account.channel, account.sender, removals.count, removals.last],
            )?;
        }
        Ok(())
    }

    /// Keeps the accounts that the backup does not have, if they have no rights: they stay blocked, and a restore of a
    /// newer backup finds that their rights were taken. Lists the others.
    fn settle_newcomers(&mut self) -> rusqlite::Result<()> {
        let known = read_access(self.store)?;
        let since = self.since;
        let newcomers = since.accounts.iter().filter(|(account, _)| {
            !known.accounts.contains_key(*account) && !is_page_account(&account.sender)
        });
        for (account, rights) in newcomers {
            let fate = match rights.person {
                Some(person) => AccountFate::Person(person),
                None => AccountFate::Unwritten(account.clone()),
            };
            let PersonRights { role, blocked } = self.standing_since(&fate);
            let only = slice::from_ref(account);
            if blocked.is_some() || role.is_none() {
                keep_without_rights(self.store, account, rights)?;
            }
            if blocked.is_some() {
                self.note_taken(only, ChangedRight::Blocked);
            } else if role.is_some() {
                self.note_given(only, ChangedRight::Role { backup: None, since: role });
            }
        }
        Ok(())
    }
}

/// Adds an account as a person of its own, who is blocked if theirs was.
fn keep_without_rights(
    store: &Connection,
    account: &PersonAccount,
    rights: &AccountRights,
) -> rusqlite::Result<()> {
    store.execute(
        "INSERT INTO persons (name, since, blocked) VALUES (?, ?, ?)",
        params![rights.name, rights.since, rights.blocked],
    )?;
    let person = PersonId(store.last_insert_rowid());
    store
        .execute(
            "INSERT INTO accounts (channel, sender, person, name, since, seen)
             VALUES (?, ?, ?, ?, ?, ?)",
            params![
                account.channel,
                account.sender,
                person,
                rights.name,
                rights.since,
                rights.seen
            ],
        )
        .map(drop)
}

fn keep_denied(store: &Connection, denied: &[DeniedStranger]) -> rusqlite::Result<()> {
    for DeniedStranger { channel, sender, name, chat, answered } in denied {
        store.execute(
            "INSERT INTO strangers (channel, sender, name, chat, code, asked, answered_at)
             VALUES (?1, ?2, ?3, ?4, NULL, ?5, ?5) ON CONFLICT DO UPDATE SET code = NULL,
             asked = max(asked, excluded.asked), answered_at = max(answered_at, excluded.answered_at)",
            params![channel, sender, name, chat, answered],
        )?;
    }
    Ok(())
}
