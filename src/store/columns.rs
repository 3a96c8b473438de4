//! Column conversions of our own types, so that no query converts by hand. Ids are integers, names and
//! states are texts, times are milliseconds since 1970, the rest is JSON.

use chrono::{DateTime, Utc};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::types::message::{
    ChannelName, ChatId, DedupKey, DeliveryId, MessageId, SenderId, ThreadId,
};
use crate::types::origin::TaskKind;
use crate::types::person::PersonId;
use crate::types::session::{CallId, SessionId, TurnId};

/// A value in a column of JSON. Reading fails if the text is not valid; the error concerns only that row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0);
        text.map(ToSqlOutput::from)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?)
            .map(Self)
            .map_err(|error| FromSqlError::Other(Box::new(error)))
    }
}

/// A value in a column of JSON. NULL and invalid text are read as None, so that the rest of the row can be
/// used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LenientJson<T>(pub Option<T>);

impl<T: DeserializeOwned> FromSql for LenientJson<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = match value {
            ValueRef::Null => return Ok(Self(None)),
            _ => value.as_str()?,
        };
        let value = serde_json::from_str(text).inspect_err(|error| {
            tracing::warn!(%error, "Cannot read a value in the store, continuing without it");
        });
        Ok(Self(value.ok()))
    }
}

/// A time in a column, in whole milliseconds since 1970. A time outside of the calendar is read as the
/// beginning of 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub DateTime<Utc>);

impl Time {
    pub fn now() -> Self {
        Self(Utc::now())
    }
}

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.timestamp_millis().into())
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let millis = value.as_i64()?;
        Ok(Self(DateTime::from_timestamp_millis(millis).unwrap_or_default()))
    }
}

/// Stores newtypes over a row id as integers.
macro_rules! integer_columns {
    ($($name:ty),+ $(,)?) => {$(
        impl rusqlite::types::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.0.into())
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(
                value: rusqlite::types::ValueRef<'_>,
            ) -> rusqlite::types::FromSqlResult<Self> {
                value.as_i64().map(Self)
            }
        }
    )+};
}
pub(crate) use integer_columns;

/// Stores types with `as_str` as texts. `$read` parses one.
macro_rules! text_columns {
    ($($name:ty = $read:expr),+ $(,)?) => {$(
        impl rusqlite::types::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(
                value: rusqlite::types::ValueRef<'_>,
            ) -> rusqlite::types::FromSqlResult<Self> {
                value.as_str().map($read)
            }
        }
    )+};
}
pub(crate) use text_columns;

integer_columns!(SessionId, TurnId, CallId, DeliveryId, PersonId);
text_columns!(
    ChannelName = Self::from,
    ChatId = Self::from,
    ThreadId = Self::from,
    MessageId = Self::from,
    SenderId = Self::from,
    DedupKey = Self::from,
);

impl ToSql for TaskKind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for TaskKind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}
