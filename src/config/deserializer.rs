//! The bridge from parsed TOML to serde: sections and their types are declared by derives, and a refused value
//! becomes an error with its place and a message for the operator.

use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::DeValue;

use super::hints::none_of;
use super::reading::{ConfigEntry, ConfigSource, KeyPathStep};
use super::values::{AT, At};

/// Reads the whole file. Reports and leaves out each entry that a section cannot hold. `None` if there are too
/// many faults.
pub(super) fn read<'a, T: Deserialize<'a>>(source: &ConfigSource<'a>) -> Option<T> {
    loop {
        let refusal = match T::deserialize(Value { source, value: source.tree, at: 0 }) {
            Ok(read) => return Some(read),
            Err(refusal) => refusal,
        };
        let at = refusal.at.unwrap_or_default();
        // All keys at the top are sections.
        match &source.steps(at)[..] {
            [] | [.., KeyPathStep::Entry] => source.fault_of(at, refusal.message),
            [above @ .., KeyPathStep::Key(key)]
                if refusal.message.is_empty() || above.is_empty() && !refusal.is_twice =>
            {
                let path = source.path(at);
                let message = format!("`{path}` must be a section, written [{path}]");
                source.fault(key.span().start, message);
            }
            _ => source.fault_of(at, refusal.message),
        }
        if !source.leave_out(at) {
            return None;
        }
    }
}

/// Parses one of an enum's words, for a key whose words depend on another key.
pub(super) fn word<T: for<'de> Deserialize<'de>>(
    source: &ConfigSource<'_>,
    value: &At<String>,
) -> Option<T> {
    let word: Result<T, Refusal> = T::deserialize(value.value.as_str().into_deserializer());
    word.map_err(|refusal| source.refuse(value, refusal.message)).ok()
}

/// The reason why a value was refused. It contains nothing of the value.
#[derive(Debug)]
struct Refusal {
    /// The offset of the value.
    at: Option<usize>,
    /// It follows the name of the value. It is empty where a section should be.
    message: String,
    /// True if a section has a key by its name and by a former one.
    is_twice: bool,
}

/// A value of the file, to be deserialized.
#[derive(Clone, Copy)]
struct Value<'s, 'a> {
    source: &'s ConfigSource<'a>,
    value: &'a DeValue<'a>,
    at: usize,
}

impl Refusal {
    /// Sets the place if there is none yet: the innermost place is the one to report.
    fn or_at(self, at: usize) -> Self {
        Self { at: self.at.or(Some(at)), ..self }
    }
}

impl de::Error for Refusal {
    fn custom<T: Display>(message: T) -> Self {
        Self { at: None, message: message.to_string(), is_twice: false }
    }

    /// TOML itself allows no key twice.
    fn duplicate_field(key: &'static str) -> Self {
        let message = format!("has `{key}` and its former name; keep one of them");
        Self { at: None, message, is_twice: true }
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Str(_) => "a string",
            Unexpected::Signed(_) => "a whole number",
            Unexpected::Unsigned(_) => return Self::custom("is too large"),
            Unexpected::Float(_) => "a number with a point",
            Unexpected::Bool(_) => "true or false",
            Unexpected::Seq => "a list",
            Unexpected::Map => "a table",
            _ => "a date",
        };
        // These are the texts of serde and its derives.
        let wanted = wanted.to_string();
        let wanted = match &*wanted {
            "a boolean" => "true or false",
            "a borrowed string" => "a string",
            "a sequence" => "a list: [..]",
            "a map" => "a table: { .. }",
            section if section.starts_with("struct ") => return Self::custom(""),
            other => other,
        };
        Self::custom(format!("must be {wanted}, not {found}"))
    }

    fn unknown_variant(word: &str, words: &'static [&'static str]) -> Self {
        Self::custom(none_of(word, words))
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl<'de> Deserializer<'de> for Value<'_, 'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.value {
            DeValue::String(text) => visitor.visit_borrowed_str(text),
            DeValue::Integer(digits) => {
                match i64::from_str_radix(digits.as_str(), digits.radix()) {
                    Ok(number) => visitor.visit_i64(number),
                    Err(_) => visitor.visit_u64(u64::MAX),
                }
            }
            DeValue::Boolean(flag) => visitor.visit_bool(*flag),
            DeValue::Float(number) => {
                visitor.visit_f64(number.as_str().replace('_', "").parse().unwrap_or(f64::NAN))
            }
            // No key takes these; their type is enough for a message.
            DeValue::Datetime(_) => visitor.visit_unit(),
            DeValue::Array(entries) => {
                visitor.visit_seq(List { source: self.source, entries: entries.iter() })
            }
            DeValue::Table(table) => {
                let entries = self.source.entries(table, None).into_iter();
                visitor.visit_map(Entries { source: self.source, entries, value: None })
            }
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.value {
            DeValue::String(text) if text.trim().is_empty() => Err(Refusal::custom("is empty")),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let word: &str = de::Deserialize::deserialize(self)?;
        let word: StrDeserializer<'_, Refusal> = word.into_deserializer();
        visitor.visit_enum(word)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        match self.value {
            _ if name == AT => visitor.visit_seq(WithPlace { value: self, next: 0 }),
            DeValue::Table(table) => {
                let entries = self.source.entries(table, Some(keys)).into_iter();
                visitor.visit_map(Entries { source: self.source, entries, value: None })
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// The entries of a table.
struct Entries<'s, 'a> {
    source: &'s ConfigSource<'a>,
    entries: std::vec::IntoIter<ConfigEntry<'a>>,
    value: Option<Value<'s, 'a>>,
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refusal> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value =
            Some(Value { source: self.source, value: value.get_ref(), at: value.span().start });
        let key: StrDeserializer<'_, Refusal> = key.get_ref().as_ref().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let value = self.value.take().ok_or_else(|| Refusal::custom("has no value"))?;
        seed.deserialize(value).map_err(|refusal| refusal.or_at(value.at))
    }
}

/// The entries of a list.
struct List<'s, 'a> {
    source: &'s ConfigSource<'a>,
    entries: std::slice::Iter<'a, Spanned<DeValue<'a>>>,
}

impl<'de> SeqAccess<'de> for List<'_, 'de> {
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refusal> {
        let source = self.source;
        let next = self.entries.find(|entry| !source.is_refused(entry.span().start));
        let Some(entry) = next else { return Ok(None) };
        let value = Value { source, value: entry.get_ref(), at: entry.span().start };
        seed.deserialize(value).map(Some).map_err(|refusal| refusal.or_at(value.at))
    }
}

/// The fields of an `At`: the offset of a value, and the value.
struct WithPlace<'s, 'a> {
    value: Value<'s, 'a>,
    next: u8,
}

impl<'de> SeqAccess<'de> for WithPlace<'_, 'de> {
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refusal> {
        self.next += 1;
        match self.next {
            1 => seed.deserialize((self.value.at as u64).into_deserializer()).map(Some),
            2 => seed.deserialize(self.value).map(Some),
            _ => Ok(None),
        }
    }
}
