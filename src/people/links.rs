//! `/link`: joins two accounts in one person. One account gets a code, and the other enters it. No role changes
//! until the account with the higher role has confirmed.

use chrono::{DateTime, Duration, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::page_accounts::{self, is_page_account};
use super::persons::{PersonAccount, accounts_of_same, person_of};
use super::roles::paired_role;
use super::{People, Role, new_code};
use crate::store::{LenientJson, Time};
use crate::types::message::{Address, Sender};
use crate::types::person::PersonId;

/// Validity of a code.
const CODE_AGE_MAX: Duration = Duration::minutes(10);

/// An account, and its private chat with the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAccount {
    pub sender: Sender,
    pub at: Address,
}

/// Two accounts that are to belong to one person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountLink {
    pub code: String,
    /// The account that confirms: the one with the higher role, or the one that asked for the code if the roles
    /// are equal.
    pub confirms: LinkAccount,
    pub joins: LinkAccount,
}

/// The outcome of entering a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkCodeOutcome {
    /// The code is unknown, used or expired, or an account has no access any more.
    Unknown,
    /// Both accounts belong to one person already.
    Joined,
    /// The link waits for a confirmation.
    Unconfirmed(Box<AccountLink>),
}

/// Returns a new code for an account. Its former code becomes invalid.
pub fn create_code(
    store: &Connection,
    account: &LinkAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<String> {
    expire(store, now)?;
    let LinkAccount { sender, at } = account;
    store.execute(
        "DELETE FROM links WHERE channel = ? AND sender = ?",
        params![at.channel, sender.id],
    )?;
    let code = new_code();
    store.execute(
        "INSERT INTO links (code, channel, sender, name, chat, made) VALUES (?, ?, ?, ?, ?, ?)",
        params![code, at.channel, sender.id, sender.name, at.chat, Time(now)],
    )?;
    Ok(code)
}

/// Enters a code on another account. A code can be entered once.
pub fn enter_code(
    store: &Connection,
    people: &People,
    code: &str,
    account: &LinkAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<LinkCodeOutcome> {
    expire(store, now)?;
    let code = code.trim().to_ascii_uppercase();
    let offered = store
        .query_row(
            "SELECT sender, name, channel, chat FROM links WHERE code = ? AND other_sender IS NULL",
            [&code],
            |row| read_account(row, 0),
        )
        .optional()?;
    let Some(offered) = offered else { return Ok(LinkCodeOutcome::Unknown) };
    if is_one_person(store, &offered, account)? {
        store.execute("DELETE FROM links WHERE code = ?", [&code])?;
        return Ok(LinkCodeOutcome::Joined);
    }
    store.execute(
        "UPDATE links SET other_channel = ?, other_sender = ?, other_name = ?, other_chat = ? WHERE code = ?",
        params![account.at.channel, account.sender.id, account.sender.name, account.at.chat, code],
    )?;
    Ok(match build_link(store, people, code, offered, account.clone())? {
        Some(link) => LinkCodeOutcome::Unconfirmed(Box::new(link)),
        None => LinkCodeOutcome::Unknown,
    })
}

/// Removes and returns a link that waits for confirmation. None if another account has to confirm it, or one of them has no
/// access any more.
pub fn decide(
    store: &Connection,
    people: &People,
    code: &str,
    by: &LinkAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<AccountLink>> {
    expire(store, now)?;
    let code = code.trim().to_ascii_uppercase();
    let accounts = store
        .query_row(
            "SELECT sender, name, channel, chat, other_sender, other_name, other_channel, other_chat
             FROM links WHERE code = ? AND other_sender IS NOT NULL",
            [&code],
            |row| Ok((read_account(row, 0)?, read_account(row, 4)?)),
        )
        .optional()?;
    let Some((offered, entered)) = accounts else { return Ok(None) };
    let Some(link) = build_link(store, people, code, offered, entered)? else { return Ok(None) };
    let may_confirm =
        link.confirms.sender.id == by.sender.id && link.confirms.at.channel == by.at.channel;
    if !may_confirm {
        return Ok(None);
    }
    store.execute("DELETE FROM links WHERE code = ?", [&link.code])?;
    Ok(Some(link))
}

/// Joins two persons: the one that confirms gets all accounts of the other. Returns the person that stays and
/// the deleted one; None if an account has no person.
pub fn join(
    store: &Connection,
    link: &AccountLink,
) -> rusqlite::Result<Option<(PersonId, PersonId)>> {
    let find_person =
        |account: &LinkAccount| person_of(store, &account.at.channel, &account.sender.id);
    let (Some(kept), Some(joined)) = (find_person(&link.confirms)?, find_person(&link.joins)?)
    else {
        return Ok(None);
    };
    let set = set_role_of(store, joined)?;
    for account in accounts_of_same(store, &link.joins.at.channel, &link.joins.sender.id)? {
        lower_pairing(store, &account, set)?;
    }
    store.execute("UPDATE accounts SET person = ? WHERE person = ?", [kept, joined])?;
    store.execute("DELETE FROM persons WHERE id = ?", [joined])?;
    Ok(Some((kept, joined)))
}

/// Moves an account to a new person, at the request of who uses it: see `part`. What the owner has taken from the former
/// person stays taken.
pub fn unlink(
    store: &Connection,
    account: &LinkAccount,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<(PersonId, PersonId)>> {
    let LinkAccount { sender, at } = account;
    let account = PersonAccount { channel: at.channel.clone(), sender: sender.id.clone() };
    let parted = part(store, &account, &sender.name, now)?;
    if let Some((former, _)) = parted {
        lower_pairing(store, &account, set_role_of(store, former)?)?;
    }
    Ok(parted)
}

/// Moves an account to a new person. Returns the former person and the new one; None if the former one has no
/// other account. Accounts that the program has made do not count, and stay with their person. A block stays.
pub(super) fn part(
    store: &Connection,
    account: &PersonAccount,
    name: &str,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<(PersonId, PersonId)>> {
    let PersonAccount { channel, sender } = account;
    let Some(former) = person_of(store, channel, sender)? else { return Ok(None) };
    let accounts: i64 = store.query_row(
        "SELECT count(*) FROM accounts WHERE person = ? AND substr(sender, 1, 1) <> ?",
        params![former, page_accounts::PAGE_ACCOUNT_MARK.to_string()],
        |row| row.get(0),
    )?;
    if accounts < 2 || is_page_account(sender) {
        return Ok(None);
    }
    store.execute(
        "INSERT INTO persons (name, since, blocked)
         VALUES (?, ?, (SELECT blocked FROM persons WHERE id = ?))",
        params![name, Time(now), former],
    )?;
    let new = PersonId(store.last_insert_rowid());
    store.execute(
        "UPDATE accounts SET person = ? WHERE channel = ? AND sender = ?",
        params![new, channel, sender],
    )?;
    Ok(Some((former, new)))
}

/// Returns the link of two accounts. None if one of them has no access: nobody else's yes gives it any.
fn build_link(
    store: &Connection,
    people: &People,
    code: String,
    offered: LinkAccount,
    entered: LinkAccount,
) -> rusqlite::Result<Option<AccountLink>> {
    let role = |account: &LinkAccount| -> rusqlite::Result<Option<Role>> {
        people.role_of(store, &account.at.channel, &account.sender.id)
    };
    let (Some(offered_role), Some(entered_role)) = (role(&offered)?, role(&entered)?) else {
        return Ok(None);
    };
    let (confirms, joins) = match entered_role > offered_role {
        true => (entered, offered),
        false => (offered, entered),
    };
    Ok(Some(AccountLink { code, confirms, joins }))
}

/// Withdraws the codes that an account has got or entered.
pub fn withdraw(store: &Connection, account: &PersonAccount) -> rusqlite::Result<()> {
    store
        .execute(
            "DELETE FROM links WHERE (channel = ?1 AND sender = ?2)
             OR (other_channel = ?1 AND other_sender = ?2)",
            params![account.channel, account.sender],
        )
        .map(drop)
}

/// Returns the role that the owner has set for a person.
fn set_role_of(store: &Connection, person: PersonId) -> rusqlite::Result<Option<Role>> {
    let LenientJson(role) =
        store.query_row("SELECT role FROM persons WHERE id = ?", [person], |row| row.get(0))?;
    Ok(role)
}

/// Lowers the pairing of an account whose person changes to the role that the owner has set for the former person. Else the
/// account would get the higher role back once it is alone.
fn lower_pairing(
    store: &Connection,
    account: &PersonAccount,
    set: Option<Role>,
) -> rusqlite::Result<()> {
    let PersonAccount { channel, sender } = account;
    let Some(set) = set else { return Ok(()) };
    if paired_role(store, channel, sender)?.is_none_or(|paired| paired <= set) {
        return Ok(());
    }
    store
        .execute(
            "UPDATE people SET role = ? WHERE channel = ? AND sender = ?",
            params![set, channel, sender],
        )
        .map(drop)
}

fn is_one_person(
    store: &Connection,
    one: &LinkAccount,
    other: &LinkAccount,
) -> rusqlite::Result<bool> {
    let find_person =
        |account: &LinkAccount| person_of(store, &account.at.channel, &account.sender.id);
    Ok(find_person(one)?
        .is_some_and(|person| find_person(other).is_ok_and(|other| other == Some(person))))
}

fn expire(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<()> {
    // A code of the future was made while the clock was ahead.
    store
        .execute(
            "DELETE FROM links WHERE made <= ? OR made > ?",
            params![Time(now - CODE_AGE_MAX), Time(now)],
        )
        .map(drop)
}

/// Reads the columns sender, name, channel and chat, of which the first is at `first`.
fn read_account(row: &Row<'_>, first: usize) -> rusqlite::Result<LinkAccount> {
    let (id, name): (String, String) = (row.get(first)?, row.get(first + 1)?);
    let at = Address { channel: row.get(first + 2)?, chat: row.get(first + 3)?, thread: None };
    Ok(LinkAccount { sender: Sender::person(id, name), at })
}
