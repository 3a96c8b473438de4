//! Sign-ins of the page: a one-time link, and then a cookie. Only hashes are kept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::people::People;
use crate::people::persons::PersonAccount;
use crate::secret::Secret;
use crate::store::Time;
use crate::types::hex::{hex, random_hex};
use crate::types::message::{ChannelName, SenderId};

/// Time for which a link is valid.
pub const CODE_AGE_MAX: Duration = Duration::from_secs(10 * 60);

/// Links that are valid at a time. A new one takes the place of the oldest.
const CODES_MAX: usize = 32;

/// Links of one person that are valid at a time. A new one takes the place of the oldest, so that nobody uses up
/// those of others.
const CODES_OF_PERSON_MAX: usize = 4;

/// A sign-in that was not used for this long ends.
pub const IDLE_MAX: chrono::Duration = chrono::Duration::days(30);

/// Interval at which the time of the last use is stored.
const SEEN_EVERY: chrono::Duration = chrono::Duration::hours(1);

/// Sign-ins of one person at a time. A new one takes the place of the one that was not used for longest.
const LOGINS_OF_PERSON_MAX: i64 = 50;

/// Characters that are kept of a browser's user agent.
const AGENT_CHARS_MAX: usize = 120;

/// The person whom a link signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedPerson {
    pub person: SenderId,
    /// The account that asked for the link in a chat. None for a link that was made on this machine.
    pub asked_by: Option<PersonAccount>,
}

impl LinkedPerson {
    /// Returns false if the account that asked for the link is not its person's any more: it was unlinked or revoked, or
    /// the config names it no more. True for a person without access, whom a role refuses.
    pub fn is_current(
        &self,
        store: &Connection,
        people: &People,
        page: &ChannelName,
    ) -> rusqlite::Result<bool> {
        let Some(asked_by) = &self.asked_by else { return Ok(true) };
        if people.role_of(store, page, &self.person)?.is_none() {
            return Ok(true);
        }
        let account = PersonAccount { channel: page.clone(), sender: self.person.clone() };
        people.are_same(store, &account, asked_by)
    }

    /// Reads the columns person, asked_on and asked_by, of which the first is at `first`.
    fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        let channel: Option<ChannelName> = row.get(first + 1)?;
        let sender: Option<SenderId> = row.get(first + 2)?;
        let asked_by =
            channel.zip(sender).map(|(channel, sender)| PersonAccount { channel, sender });
        Ok(Self { person: row.get(first)?, asked_by })
    }
}

/// One-time codes of links, in memory: a restart makes them invalid.
#[derive(Default)]
pub struct SignInCodes(
    // Locked only briefly, by a request that makes or takes a code.
    Mutex<HashMap<String, (LinkedPerson, Instant)>>,
);

impl SignInCodes {
    /// Creates a code with which a person can sign in once.
    pub fn issue(&self, linked: LinkedPerson) -> Secret {
        let person = &linked.person;
        let code = random_secret();
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, (_, at)| at.elapsed() < CODE_AGE_MAX);
        let of_person = codes.values().filter(|(owner, _)| owner.person == *person).count();
        let person_is_full = of_person >= CODES_OF_PERSON_MAX;
        if person_is_full || codes.len() >= CODES_MAX {
            let candidates =
                codes.iter().filter(|(_, (owner, _))| !person_is_full || owner.person == *person);
            let oldest = candidates.min_by_key(|(_, (_, at))| *at).map(|(hash, _)| hash.clone());
            oldest.and_then(|oldest| codes.remove(&oldest));
        }
        codes.insert(sha256_hex(code.reveal()), (linked, Instant::now()));
        code
    }

    /// Takes a code. Returns its person. None if the code is unknown, used or expired.
    pub fn take(&self, code: &str) -> Option<LinkedPerson> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (linked, at) = codes.remove(&sha256_hex(code))?;
        (at.elapsed() < CODE_AGE_MAX).then_some(linked)
    }
}

/// A sign-in of a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// The first characters of its hash, by which people name it.
    pub id: String,
    pub person: SenderId,
    pub since: DateTime<Utc>,
    pub seen: DateTime<Utc>,
    pub agent: String,
}

/// Characters of a sign-in's id.
const ID_CHARS: usize = 8;

/// Signs a person in. Returns the cookie's value.
pub fn begin(store: &Connection, linked: &LinkedPerson, agent: &str) -> rusqlite::Result<Secret> {
    let LinkedPerson { person, asked_by } = linked;
    let asked_by = asked_by.as_ref();
    let cookie = random_secret();
    let agent: String =
        agent.chars().filter(|char| !char.is_control()).take(AGENT_CHARS_MAX).collect();
    store
        .prepare_cached(
            "INSERT INTO web_logins (hash, person, since, seen, agent, asked_on, asked_by)
             VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            sha256_hex(cookie.reveal()),
            person,
            Time::now(),
            agent,
            asked_by.map(|account| &account.channel),
            asked_by.map(|account| &account.sender)
        ])?;
    store
        .prepare_cached(
            "DELETE FROM web_logins WHERE person = ?1 AND hash NOT IN (SELECT hash FROM web_logins
             WHERE person = ?1 ORDER BY seen DESC, since DESC LIMIT ?2)",
        )?
        .execute(params![person, LOGINS_OF_PERSON_MAX])?;
    Ok(cookie)
}

/// The signed-in person of a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedIn {
    pub person: SenderId,
    /// True if the last use is to be stored with [`mark_used`].
    pub is_stale: bool,
}

/// Returns the person of a cookie. None if it was revoked, not used for too long, or its link is not
/// [current](LinkedPerson::is_current).
pub fn person_of(
    store: &Connection,
    people: &People,
    page: &ChannelName,
    cookie: &str,
) -> rusqlite::Result<Option<SignedIn>> {
    let found = store
        .prepare_cached("SELECT seen, person, asked_on, asked_by FROM web_logins WHERE hash = ?")?
        .query_row([sha256_hex(cookie)], |row| {
            Ok((row.get::<_, Time>(0)?.0, LinkedPerson::read(row, 1)?))
        })
        .optional()?;
    let Some((seen, linked)) = found else { return Ok(None) };
    let idle = Utc::now() - seen;
    if idle >= IDLE_MAX || !linked.is_current(store, people, page)? {
        return Ok(None);
    }
    Ok(Some(SignedIn { person: linked.person, is_stale: idle > SEEN_EVERY }))
}

/// Returns true if the sign-in with this hash was neither revoked nor unused for too long, and its link is
/// [current](LinkedPerson::is_current).
pub fn is_valid(
    store: &Connection,
    people: &People,
    page: &ChannelName,
    hash: &str,
) -> rusqlite::Result<bool> {
    let found = store
        .prepare_cached(
            "SELECT person, asked_on, asked_by FROM web_logins WHERE hash = ? AND seen >= ?",
        )?
        .query_row(params![hash, Time(Utc::now() - IDLE_MAX)], |row| LinkedPerson::read(row, 0))
        .optional()?;
    match found {
        Some(linked) => linked.is_current(store, people, page),
        None => Ok(false),
    }
}

/// Stores that a sign-in is in use, and forgets those that are not.
pub fn mark_used(store: &Connection, cookie: &str) -> rusqlite::Result<()> {
    store
        .prepare_cached("UPDATE web_logins SET seen = ? WHERE hash = ?")?
        .execute(params![Time::now(), sha256_hex(cookie)])?;
    store
        .prepare_cached("DELETE FROM web_logins WHERE seen < ?")?
        .execute([Time(Utc::now() - IDLE_MAX)])
        .map(drop)
}

/// Signs a browser out.
pub fn end(store: &Connection, cookie: &str) -> rusqlite::Result<()> {
    store
        .prepare_cached("DELETE FROM web_logins WHERE hash = ?")?
        .execute([sha256_hex(cookie)])
        .map(drop)
}

/// Returns the sign-ins that are valid, the last used first.
pub fn list(
    store: &Connection,
    people: &People,
    page: &ChannelName,
) -> rusqlite::Result<Vec<Login>> {
    let mut rows = store.prepare_cached(
        "SELECT hash, since, seen, agent, person, asked_on, asked_by FROM web_logins
         WHERE seen >= ? ORDER BY seen DESC",
    )?;
    let mut rows = rows.query([Time(Utc::now() - IDLE_MAX)])?;
    let mut listed = Vec::new();
    while let Some(row) = rows.next()? {
        let linked = LinkedPerson::read(row, 4)?;
        if !linked.is_current(store, people, page)? {
            continue;
        }
        let hash: String = row.get(0)?;
        listed.push(Login {
            id: id_of(&hash),
            person: linked.person,
            since: row.get::<_, Time>(1)?.0,
            seen: row.get::<_, Time>(2)?.0,
            agent: row.get(3)?,
        });
    }
    Ok(listed)
}

/// Returns the id by which people name the sign-in with this hash.
pub fn id_of(hash: &str) -> String {
    hash.chars().take(ID_CHARS).collect()
}

/// The id with which [`revoke`] ends all sign-ins.
pub const ALL: &str = "all";

/// Ends the sign-in with this id, or all. Returns their number.
pub fn revoke(store: &Connection, id: &str) -> rusqlite::Result<usize> {
    match id {
        ALL => store.execute("DELETE FROM web_logins", []),
        id if id.len() != ID_CHARS => Ok(0),
        id => store.execute(
            "DELETE FROM web_logins WHERE substr(hash, 1, ?) = ?",
            params![i64::try_from(ID_CHARS).unwrap_or(i64::MAX), id],
        ),
    }
}

/// Returns the SHA-256 of a text, in hexadecimal.
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Returns a unique name: 256 random bits, in hexadecimal.
pub fn unique() -> String {
    random_secret().reveal().to_owned()
}

/// Returns 256 random bits, in hexadecimal.
fn random_secret() -> Secret {
    Secret::new(random_hex::<32>())
}
