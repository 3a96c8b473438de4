//! Reads JSON of any shape and keeps only parts of it: all else takes no memory, however much it is. Not here: which parts
//! are kept.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The parts of a value that are kept. By default none, whatever the value is.
pub(super) trait Sparse: Default {
    /// Keeps parts of a string.
    fn of_string(_: &str) -> Self {
        Self::default()
    }

    /// Keeps parts of a list.
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    /// Keeps parts of an object.
    fn of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// The parts of a value that was read.
pub(super) struct Kept<T>(pub(super) T);

impl<'de, T: Sparse> Deserialize<'de> for Kept<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeptVisitor(PhantomData))
    }
}

struct KeptVisitor<T>(PhantomData<T>);

impl<'de, T: Sparse> Visitor<'de> for KeptVisitor<T> {
    type Value = Kept<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Kept(T::default()))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Kept(T::default()))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Kept(T::default()))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Kept(T::default()))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Kept(T::default()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Kept(T::of_string(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        T::of_list(list).map(Kept)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        T::of_object(object).map(Kept)
    }
}
