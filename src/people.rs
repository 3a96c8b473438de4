//! Roles and access of people, from the config and from pairings. A stranger in private gets a code that an
//! entitled person approves. Nobody else is admitted. Not here: limits of how much people may send (`bus`), and the
//! rights of a turn that has seen untrusted content (`trust`).

pub mod activation;
pub mod folder_roles;
pub mod folders;
pub mod links;
pub mod listing;
pub mod page_accounts;
pub mod persons;
pub mod restored;
pub mod revoking;
mod roles;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::{LenientJson, Time};
use crate::types::message::{Address, ChannelName, ChatId, Sender, SenderId};
pub use crate::types::role::Role;
use crate::types::words::words;
use activation::Activations;

/// Validity of a pairing code.
const CODE_AGE_MAX: Duration = Duration::hours(1);

/// Maximum number of strangers of one channel that wait for approval. A further one replaces the oldest, so
/// that an attacker cannot keep a person out. An account gets a code every ten minutes at most, so flooding
/// takes many accounts.
const WAITING_MAX: i64 = 32;

/// The owner is asked about a stranger while fewer than this wait, as is usual for such bots. Later ones have
/// to hand their code over.
const NEWS_MAX: i64 = 3;

/// Minimum interval between answers to a stranger who keeps writing.
const ANSWER_INTERVAL_MIN: Duration = Duration::minutes(10);

/// Time for which a denied person is ignored.
const DENIED_FOR: Duration = Duration::days(30);

/// Characters of a code, five bits each. 0, O, 1 and I are left out, because people confuse them.
const CODE_CHARS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_LENGTH: usize = 8;

/// Access rules of a channel, from its config section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Platform user ids with role owner.
    pub owners: Vec<String>,
    /// Platform user ids with role admin.
    pub admins: Vec<String>,
    /// Platform user ids with role user. `*` admits everyone, as guests.
    pub allow: Vec<String>,
    /// When the bot answers in groups that are not among `chats`.
    pub groups: Groups,
    /// Ids of chats, channels and servers, with the rule for answers there. Everybody in one of them is
    /// admitted there, as a guest.
    pub chats: BTreeMap<String, Groups>,
    /// Ids of other bots that may address this one.
    pub bots: Vec<String>,
    /// True if a stranger's private message gets a code, with which the owner can admit them.
    pub pairing: bool,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            owners: Vec::new(),
            admins: Vec::new(),
            allow: Vec::new(),
            groups: Groups::default(),
            chats: BTreeMap::new(),
            bots: Vec::new(),
            pairing: true,
        }
    }
}

/// Rule for answers in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Groups {
    Off,
    /// On a mention of the bot or a reply to it.
    #[default]
    Mention,
    Always,
}

words!(Groups { Off = "off", Mention = "mention", Always = "always" });

/// The access rules of all channels from the config. Pairings are in the store.
#[derive(Clone)]
pub struct People {
    access: Arc<BTreeMap<ChannelName, Access>>,
    program: Arc<str>,
    pub activations: Activations,
}

impl Default for People {
    fn default() -> Self {
        Self::new(BTreeMap::new())
    }
}

impl People {
    pub fn new(access: BTreeMap<ChannelName, Access>) -> Self {
        Self {
            access: Arc::new(access),
            program: "peacrab".into(),
            activations: Activations::default(),
        }
    }

    /// Sets the command by which this program is started for this home.
    pub fn with_program(self, program: &str) -> Self {
        Self { program: program.into(), ..self }
    }

    /// The command by which this program is started for this home, for people to type.
    pub fn program(&self) -> &str {
        &self.program
    }

    pub fn access(&self, channel: &ChannelName) -> Option<&Access> {
        self.access.get(channel)
    }

    /// Returns true if this bot has an owner. The machine's own terminal does not count.
    pub fn have_owner(&self, store: &Connection) -> rusqlite::Result<bool> {
        let names_owner = |access: &Access| access.owners.iter().any(|id| id != LOCAL);
        if self.access.values().any(names_owner) {
            return Ok(true);
        }
        store.prepare_cached("SELECT 1 FROM people WHERE role = ?")?.exists([Role::Owner])
    }
}

/// The sender id of the machine's own terminal, whose user may do everything.
pub const LOCAL: &str = "local";

impl Access {
    /// Returns the rule in `chats` for the first of these ids that it contains.
    pub fn chat_rule<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> Option<Groups> {
        ids.into_iter().find_map(|id| self.chats.get(id).copied())
    }

    /// Returns the access rules of the machine's own terminal.
    pub fn local() -> Self {
        Self { owners: vec![LOCAL.to_owned()], pairing: false, ..Self::default() }
    }
}

/// A stranger who waits for approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pending {
    pub channel: ChannelName,
    pub sender: Sender,
    pub chat: ChatId,
    pub code: String,
    pub asked: DateTime<Utc>,
}

impl Pending {
    pub fn address(&self) -> Address {
        Address { channel: self.channel.clone(), chat: self.chat.clone(), thread: None }
    }
}

/// A person who was admitted by pairing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Paired {
    pub channel: ChannelName,
    pub sender: Sender,
    pub role: Role,
}

/// The reaction to a stranger's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// Answer with this code. `is_news` is true if the owner is to be asked about it.
    Code { code: String, is_news: bool },
    /// Give no answer: they got one a moment ago.
    Nothing,
}

/// Registers a stranger who wrote at `from` in private.
pub fn greet(
    store: &Connection,
    from: &Address,
    sender: &Sender,
    now: DateTime<Utc>,
) -> rusqlite::Result<Greeting> {
    expire(store, now)?;
    let known: Option<(Option<String>, Time)> = store
        .prepare_cached("SELECT code, answered_at FROM strangers WHERE channel = ? AND sender = ?")?
        .query_row(params![from.channel, sender.id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((code, answered)) = known {
        if now - answered.0 < ANSWER_INTERVAL_MIN {
            return Ok(Greeting::Nothing);
        }
        if let Some(code) = code {
            store
                .prepare_cached(
                    "UPDATE strangers SET answered_at = ? WHERE channel = ? AND sender = ?",
                )?
                .execute(params![Time(now), from.channel, sender.id])?;
            return Ok(Greeting::Code { code, is_news: false });
        }
    }
    let waiting = drop_oldest_codes(store, from)?;
    let code = new_code();
    store
        .prepare_cached(
            "INSERT OR REPLACE INTO strangers (channel, sender, name, chat, code, asked, answered_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        )?
        .execute(params![from.channel, sender.id, sender.name, from.chat, code, Time(now)])?;
    Ok(Greeting::Code { code, is_news: waiting < NEWS_MAX })
}

/// Deletes the oldest codes of a channel, so that one more fits. Those strangers have to ask again. Returns the
/// number of codes that stay.
fn drop_oldest_codes(store: &Connection, from: &Address) -> rusqlite::Result<i64> {
    store
        .prepare_cached(
            "UPDATE strangers SET code = NULL
             WHERE channel = ?1 AND code IS NOT NULL AND sender NOT IN
                 (SELECT sender FROM strangers WHERE channel = ?1 AND code IS NOT NULL
                  ORDER BY asked DESC, sender LIMIT ?2)",
        )?
        .execute(params![from.channel, WAITING_MAX - 1])?;
    store
        .prepare_cached("SELECT count(*) FROM strangers WHERE channel = ? AND code IS NOT NULL")?
        .query_row([&from.channel], |row| row.get(0))
}

/// Admits the stranger with this code: as the owner if there is none yet, else as a user. None if the
/// code is unknown or expired.
pub fn approve(
    store: &Connection,
    people: &People,
    code: &str,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<(Pending, Role)>> {
    let Some(pending) = take_pending(store, code, now)? else { return Ok(None) };
    let role = if people.have_owner(store)? { Role::User } else { Role::Owner };
    store.execute(
        "INSERT OR REPLACE INTO people (channel, sender, name, role, since) VALUES (?, ?, ?, ?, ?)",
        params![pending.channel, pending.sender.id, pending.sender.name, role, Time(now)],
    )?;
    if role == Role::Owner {
        set_owner_address(store, &pending.address(), &pending.sender.id)?;
    }
    Ok(Some((pending, role)))
}

/// Denies the stranger with this code, who gets no answer for a while. Returns None if the code is unknown.
pub fn deny(
    store: &Connection,
    code: &str,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<Pending>> {
    let denied = take_pending(store, code, now)?;
    if let Some(pending) = &denied {
        // `greet` gives no answer while `answered_at`, the time of the last one, is in the future.
        let until = now + DENIED_FOR;
        store.execute(
            "INSERT INTO strangers (channel, sender, name, chat, code, asked, answered_at)
             VALUES (?1, ?2, ?3, ?4, NULL, ?5, ?5)",
            params![
                pending.channel,
                pending.sender.id,
                pending.sender.name,
                pending.chat,
                Time(until)
            ],
        )?;
    }
    Ok(denied)
}

pub fn pending(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<Vec<Pending>> {
    let mut rows = store.prepare(
        "SELECT channel, sender, name, chat, code, asked FROM strangers
         WHERE code IS NOT NULL AND asked > ? ORDER BY asked",
    )?;
    rows.query_map([Time(now - CODE_AGE_MAX)], read_pending)?.collect()
}

pub fn paired(store: &Connection) -> rusqlite::Result<Vec<Paired>> {
    let mut rows =
        store.prepare("SELECT channel, sender, name, role FROM people ORDER BY since")?;
    rows.query_map([], |row| {
        Ok(Paired {
            channel: row.get(0)?,
            sender: Sender::person(row.get::<_, String>(1)?, row.get::<_, String>(2)?),
            role: row.get(3)?,
        })
    })?
    .collect()
}

/// Returns the address of the owner's last private message.
pub fn owner_address(store: &Connection) -> rusqlite::Result<Option<Address>> {
    Ok(owner(store)?.map(|(place, _)| place))
}

/// Returns the address of the owner's last private message, and the owner's id there. The id is unknown if an
/// older version stored the address.
pub fn owner(store: &Connection) -> rusqlite::Result<Option<(Address, Option<SenderId>)>> {
    store
        .prepare_cached("SELECT channel, chat, thread, sender FROM owner_place")?
        .query_row([], |row| {
            let place = Address { channel: row.get(0)?, chat: row.get(1)?, thread: row.get(2)? };
            Ok((place, row.get(3)?))
        })
        .optional()
}

pub fn set_owner_address(
    store: &Connection,
    place: &Address,
    sender: &SenderId,
) -> rusqlite::Result<()> {
    store
        .prepare_cached(
            // Mostly the address is unchanged. Then nothing is written.
            "INSERT INTO owner_place (one, channel, chat, thread, sender) VALUES (1, ?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET channel = ?1, chat = ?2, thread = ?3, sender = ?4
             WHERE (channel, chat, thread, sender) IS NOT (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            place.channel,
            place.chat,
            place.thread,
            sender
        ])?;
    Ok(())
}

/// Forgets the owner's address.
pub fn forget_owner_address(store: &Connection) -> rusqlite::Result<()> {
    store.prepare_cached("DELETE FROM owner_place")?.execute([]).map(drop)
}

/// Returns a person's name from the pairing, else their id.
pub fn name_of(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
) -> rusqlite::Result<String> {
    let name = store
        .prepare_cached("SELECT name FROM people WHERE channel = ? AND sender = ?")?
        .query_row(params![channel, sender], |row| row.get(0))
        .optional()?;
    Ok(name.unwrap_or_else(|| sender.to_string()))
}

/// Removes and returns the waiting stranger with this code.
fn take_pending(
    store: &Connection,
    code: &str,
    now: DateTime<Utc>,
) -> rusqlite::Result<Option<Pending>> {
    expire(store, now)?;
    let code = code.trim().to_ascii_uppercase();
    store
        .prepare_cached(
            "DELETE FROM strangers WHERE code = ? RETURNING channel, sender, name, chat, code, asked",
        )?
        .query_row([code], read_pending)
        .optional()
}

fn expire(store: &Connection, now: DateTime<Utc>) -> rusqlite::Result<()> {
    store
        .prepare_cached("DELETE FROM strangers WHERE asked <= ?")?
        .execute([Time(now - CODE_AGE_MAX)])?;
    Ok(())
}

fn read_pending(row: &Row<'_>) -> rusqlite::Result<Pending> {
    Ok(Pending {
        channel: row.get(0)?,
        sender: Sender::person(row.get::<_, String>(1)?, row.get::<_, String>(2)?),
        chat: row.get(3)?,
        code: row.get(4)?,
        asked: row.get::<_, Time>(5)?.0,
    })
}

fn new_code() -> String {
    let mut bytes = [0; CODE_LENGTH];
    getrandom::fill(&mut bytes).expect("the kernel has random bytes");
    bytes.iter().map(|byte| char::from(CODE_CHARS[usize::from(byte % 32)])).collect()
}

/// Reads JSON. An unknown role counts as the lowest.
impl FromSql for Role {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(LenientJson::column_result(value)?.0.unwrap_or(Self::Guest))
    }
}

impl ToSql for Role {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(self)
            .map(ToSqlOutput::from)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    }
}
