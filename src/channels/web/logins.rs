//! Sign-ins of the page: a one-time link, and then a cookie. Only hashes are kept.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::secret::Secret;
use crate::store::Time;
use crate::types::hex::{hex, random_hex};
use crate::types::message::SenderId;

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

/// One-time codes of links, in memory: a restart makes them invalid.
#[derive(Default)]
pub struct SignInCodes(
    // Locked only briefly, by a request that makes or takes a code.
    Mutex<HashMap<String, (SenderId, Instant)>>,
);

impl SignInCodes {
    /// Creates a code with which a person can sign in once.
    pub fn issue(&self, person: &SenderId) -> Secret {
        let code = random_secret();
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, (_, at)| at.elapsed() < CODE_AGE_MAX);
        let of_person = codes.values().filter(|(owner, _)| owner == person).count();
        let person_is_full = of_person >= CODES_OF_PERSON_MAX;
        if person_is_full || codes.len() >= CODES_MAX {
            let candidates =
                codes.iter().filter(|(_, (owner, _))| !person_is_full || owner == person);
            let oldest = candidates.min_by_key(|(_, (_, at))| *at).map(|(hash, _)| hash.clone());
            oldest.and_then(|oldest| codes.remove(&oldest));
        }
        codes.insert(sha256_hex(code.reveal()), (person.clone(), Instant::now()));
        code
    }

    /// Takes a code. Returns its person. None if the code is unknown, used or expired.
    pub fn take(&self, code: &str) -> Option<SenderId> {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (person, at) = codes.remove(&sha256_hex(code))?;
        (at.elapsed() < CODE_AGE_MAX).then_some(person)
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
pub fn begin(store: &Connection, person: &SenderId, agent: &str) -> rusqlite::Result<Secret> {
    let cookie = random_secret();
    let agent: String =
        agent.chars().filter(|char| !char.is_control()).take(AGENT_CHARS_MAX).collect();
    store
        .prepare_cached(
            "INSERT INTO web_logins (hash, person, since, seen, agent) VALUES (?1, ?2, ?3, ?3, ?4)",
        )?
        .execute(params![sha256_hex(cookie.reveal()), person, Time::now(), agent])?;
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

/// Returns the person of a cookie. None if it was revoked, or not used for too long.
pub fn person_of(store: &Connection, cookie: &str) -> rusqlite::Result<Option<SignedIn>> {
    let found = store
        .prepare_cached("SELECT person, seen FROM web_logins WHERE hash = ?")?
        .query_row([sha256_hex(cookie)], |row| Ok((row.get(0)?, row.get::<_, Time>(1)?.0)))
        .optional()?;
    let signed_in = |(person, seen): (SenderId, DateTime<Utc>)| {
        let idle = Utc::now() - seen;
        (idle < IDLE_MAX).then_some(SignedIn { person, is_stale: idle > SEEN_EVERY })
    };
    Ok(found.and_then(signed_in))
}

/// Returns true if the sign-in with this hash was neither revoked nor unused for too long.
pub fn is_valid(store: &Connection, hash: &str) -> rusqlite::Result<bool> {
    store
        .prepare_cached("SELECT 1 FROM web_logins WHERE hash = ? AND seen >= ?")?
        .exists(params![hash, Time(Utc::now() - IDLE_MAX)])
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

/// Returns the sign-ins, the last used first.
pub fn list(store: &Connection) -> rusqlite::Result<Vec<Login>> {
    let mut rows = store.prepare_cached(
        "SELECT hash, person, since, seen, agent FROM web_logins WHERE seen >= ? ORDER BY seen DESC",
    )?;
    rows.query_map([Time(Utc::now() - IDLE_MAX)], |row| {
        let hash: String = row.get(0)?;
        Ok(Login {
            id: id_of(&hash),
            person: row.get(1)?,
            since: row.get::<_, Time>(2)?.0,
            seen: row.get::<_, Time>(3)?.0,
            agent: row.get(4)?,
        })
    })?
    .collect()
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
