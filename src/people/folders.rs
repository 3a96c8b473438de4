//! Orders to join, archive or delete the folders of persons. An order is stored in the transaction that changes
//! the person, and deleted once it was carried out, so that a crash cannot separate the two.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, params};

use super::persons::person_of;
use crate::types::message::{ChannelName, SenderId};
use crate::types::person::{FolderOwner, PersonId};
use crate::types::words::words;

/// A change of a person's folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderAct {
    /// Merge them into the folders of another person; None: of the owner.
    Join(Option<PersonId>),
    Archive,
    Purge,
}

/// A kind of change, as a word in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredAct {
    Join,
    Archive,
    Purge,
}

words!(StoredAct { Join = "join", Archive = "archive", Purge = "purge" });

impl ToSql for StoredAct {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for StoredAct {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

/// An order that has not been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderOrder {
    id: i64,
    pub person: PersonId,
    pub act: FolderAct,
}

/// Orders a change of a person's folders.
pub fn order(store: &Connection, person: PersonId, act: FolderAct) -> rusqlite::Result<()> {
    let (act, heir) = match act {
        FolderAct::Join(heir) => (StoredAct::Join, heir),
        FolderAct::Archive => (StoredAct::Archive, None),
        FolderAct::Purge => (StoredAct::Purge, None),
    };
    store
        .execute(
            "INSERT INTO folder_orders (person, act, joins) VALUES (?, ?, ?)",
            params![person, act, heir],
        )
        .map(drop)
}

/// Returns the orders that have not been carried out, oldest first.
pub fn orders(store: &Connection) -> rusqlite::Result<Vec<FolderOrder>> {
    let mut rows =
        store.prepare_cached("SELECT id, person, act, joins FROM folder_orders ORDER BY id")?;
    let rows = rows.query_map([], |row| {
        let act = match row.get(2)? {
            StoredAct::Join => FolderAct::Join(row.get(3)?),
            StoredAct::Archive => FolderAct::Archive,
            StoredAct::Purge => FolderAct::Purge,
        };
        Ok(FolderOrder { id: row.get(0)?, person: row.get(1)?, act })
    })?;
    rows.collect()
}

/// Deletes an order that was carried out.
pub fn forget(store: &Connection, order: FolderOrder) -> rusqlite::Result<()> {
    store.execute("DELETE FROM folder_orders WHERE id = ?", [order.id]).map(drop)
}

/// Returns true if a person was removed.
pub fn is_removed(store: &Connection, person: PersonId) -> rusqlite::Result<bool> {
    let removed: Option<Option<i64>> = store
        .query_row("SELECT removed FROM persons WHERE id = ?", [person], |row| row.get(0))
        .optional()?;
    Ok(removed.flatten().is_some())
}

/// Returns the owner of the folder that an account uses.
pub fn folder_owner(
    store: &Connection,
    channel: &ChannelName,
    sender: &SenderId,
) -> rusqlite::Result<FolderOwner> {
    let person = person_of(store, channel, sender)?;
    Ok(match person {
        Some(person) => FolderOwner::Person(person),
        None => FolderOwner::Account(channel.clone(), sender.clone()),
    })
}
