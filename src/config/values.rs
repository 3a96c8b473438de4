//! The types of keys: they carry bounds and defaults, and hold only what was checked.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use chrono_tz::Tz;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::http::{is_local, is_loopback};
use crate::tasks::schedule;

use super::hints::hint;

/// Bytes in what a config calls MB.
pub(super) const MB: u64 = 1_000_000;

/// The name by which the deserializer recognizes [`At`].
pub(super) const AT: &str = "At";

/// A whole number within bounds, with its default.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Within<const LEAST: u32, const MOST: u32, const DEFAULT: u32 = 0>(
    #[schemars(range(min = LEAST, max = MOST))] pub(super) u32,
);

/// True or false, with its default.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Flag<const DEFAULT: bool>(pub(super) bool);

/// A string that is parsed. It may be empty, unless its type refuses that.
#[derive(Clone)]
pub(super) struct Text<T>(pub(super) T);

/// A value with its offset in the file, for what can be checked only later.
#[derive(Deserialize, JsonSchema)]
#[schemars(with = "T")]
pub(super) struct At<T> {
    pub(super) at: usize,
    pub(super) value: T,
}

impl<const LEAST: u32, const MOST: u32, const DEFAULT: u32> Within<LEAST, MOST, DEFAULT> {
    pub(super) fn seconds(self) -> Duration {
        Duration::from_secs(self.0.into())
    }

    pub(super) fn minutes(self) -> Duration {
        Duration::from_secs(u64::from(self.0) * 60)
    }

    pub(super) fn count(self) -> usize {
        self.0 as usize
    }
}

impl<const LEAST: u32, const MOST: u32, const DEFAULT: u32> Default
    for Within<LEAST, MOST, DEFAULT>
{
    fn default() -> Self {
        const { assert!(LEAST <= DEFAULT && DEFAULT <= MOST) };
        Self(DEFAULT)
    }
}

impl<'de, const LEAST: u32, const MOST: u32, const DEFAULT: u32> Deserialize<'de>
    for Within<LEAST, MOST, DEFAULT>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LengthBounds::<LEAST, MOST>).map(Self)
    }
}

struct LengthBounds<const LEAST: u32, const MOST: u32>;

impl<const LEAST: u32, const MOST: u32> Visitor<'_> for LengthBounds<LEAST, MOST> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {LEAST} to {MOST}")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u32, E> {
        let number = u32::try_from(number).ok().filter(|number| (LEAST..=MOST).contains(number));
        number.ok_or_else(|| E::custom(format!("must be from {LEAST} to {MOST}")))
    }
}

impl<const DEFAULT: bool> Default for Flag<DEFAULT> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&str>::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<T: Default> Default for Text<T> {
    fn default() -> Self {
        Self(T::default())
    }
}

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<T> JsonSchema for Text<T> {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// An account's id, written as a string or a number.
#[derive(JsonSchema)]
#[schemars(with = "String", title = "id")]
pub(super) struct Id(pub(super) String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id: a string or a whole number")
    }

    fn visit_str<E: Error>(self, id: &str) -> Result<Id, E> {
        Ok(Id(id.trim().to_owned()))
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<Id, E> {
        Ok(Id(id.to_string()))
    }
}

/// An address to send secrets to: encrypted, or on this machine. Without a slash at the end.
pub(super) struct Url(pub(super) String);

impl FromStr for Url {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let wanted = "must be an address that begins with https://";
        let url = url::Url::parse(text).map_err(|_| wanted)?;
        match url.scheme() {
            "https" | "http" if !url.username().is_empty() || url.password().is_some() => {
                Err("must not contain a user name or password")
            }
            "https" | "http" if url.query().is_some() || url.fragment().is_some() => {
                Err("must end with the path, without ? or #")
            }
            "https" => Ok(Self(url.as_str().trim_end_matches('/').to_owned())),
            "http" if is_loopback(&url) => Ok(Self(url.as_str().trim_end_matches('/').to_owned())),
            "http" => Err("must begin with https://; http:// is for this machine only (127.0.0.1)"),
            _ => Err("must begin with https://, or with http:// on this machine (127.0.0.1)"),
        }
    }
}

/// The address of a model API. Without a slash at the end, and without the path of a single call.
pub(super) struct ModelUrl {
    pub(super) url: String,
    /// True if requests to it are unencrypted.
    pub(super) is_plain: bool,
    /// True if it is on this machine or a local network.
    pub(super) is_local: bool,
}

/// Paths of single calls, which people copy from examples.
const CALLS: [&str; 3] = ["/chat/completions", "/v1/messages", "/messages"];

impl FromStr for ModelUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let url = url::Url::parse(text);
        let url = url.map_err(|_| "must be an address that begins with https:// or http://")?;
        match url.scheme() {
            "https" | "http" if !url.username().is_empty() || url.password().is_some() => {
                Err("must not contain a user name or password")
            }
            "https" | "http" if url.query().is_some() || url.fragment().is_some() => {
                Err("must end with its path: no ? or #")
            }
            scheme @ ("https" | "http") => {
                let (is_plain, is_local) = (scheme == "http", is_local(&url));
                let url = url.as_str().trim_end_matches('/');
                let base = CALLS.iter().find_map(|call| url.strip_suffix(call)).unwrap_or(url);
                Ok(Self { url: base.trim_end_matches('/').to_owned(), is_plain, is_local })
            }
            _ => Err("must begin with https:// or http://"),
        }
    }
}

/// A length of time, such as "90s", "30m", "12h" or "2d", within bounds in seconds.
#[derive(Clone, Copy)]
pub(super) struct Length<const LEAST: u64, const MOST: u64>(pub(super) Duration);

impl<const LEAST: u64, const MOST: u64> FromStr for Length<LEAST, MOST> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted =
            || "must be a length of time, such as \"90s\", \"30m\", \"12h\" or \"2d\"".to_owned();
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|(_, seconds)| *seconds);
        let (Ok(number), Some(unit)) = (number.parse::<u32>(), unit) else { return Err(wanted()) };
        let seconds = u64::from(number) * unit;
        match (LEAST..=MOST).contains(&seconds) {
            true => Ok(Self(Duration::from_secs(seconds))),
            false => Err(format!("must be from {} to {}", shown(LEAST), shown(MOST))),
        }
    }
}

/// The units of lengths, in seconds, the longest first.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Returns a length of time as it is written in the config.
pub(super) fn shown(seconds: u64) -> String {
    let longest_unit =
        UNITS.iter().find(|(_, unit)| seconds >= *unit && seconds.is_multiple_of(*unit));
    longest_unit.map_or_else(|| "0".to_owned(), |(name, unit)| format!("{}{name}", seconds / unit))
}

/// A length of time, or 0 or "off" for none.
#[derive(Clone, Copy)]
pub(super) struct LengthOrOff<const LEAST: u64, const MOST: u64>(pub(super) Option<Duration>);

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for LengthOrOff<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LengthVisitor::<LEAST, MOST>)
    }
}

struct LengthVisitor<const LEAST: u64, const MOST: u64>;

impl<const LEAST: u64, const MOST: u64> Visitor<'_> for LengthVisitor<LEAST, MOST> {
    type Value = LengthOrOff<LEAST, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a length of time, such as \"30m\" or \"12h\", or \"off\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text.trim() {
            "0" | "off" => Ok(LengthOrOff(None)),
            text => {
                let length: Length<LEAST, MOST> = text.parse().map_err(E::custom)?;
                Ok(LengthOrOff(Some(length.0)))
            }
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        match number {
            0 => Ok(LengthOrOff(None)),
            _ => Err(E::custom("needs a unit, such as \"30m\" or \"12h\"")),
        }
    }
}

/// A zone of the tz database.
pub(super) struct Zone(pub(super) Tz);

impl FromStr for Zone {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        schedule::zone(name).map(Self).map_err(|_| {
            let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
            format!("is not a known time zone{}", hint(name, names))
        })
    }
}

/// An absolute path that is not the whole machine.
pub(super) struct AbsolutePath(pub(super) PathBuf);

impl FromStr for AbsolutePath {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let path = Path::new(text);
        let is_up = |part| part == Component::ParentDir;
        match path.is_absolute() && path != Path::new("/") && !path.components().any(is_up) {
            true => Ok(Self(path.to_owned())),
            false => Err("must be an absolute path without `..`, and not the whole machine"),
        }
    }
}
