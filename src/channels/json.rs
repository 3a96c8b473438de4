//! Reads a platform's JSON however deep it nests, so that one event that nobody can read does not hold up those
//! beside it. A part that nests too deep becomes a string of its JSON.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// No platform nests deeper than a dozen levels. Far below the 128 that `serde_json` reads.
const DEPTH_MAX: usize = 48;

pub(super) fn read(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| {
        // This skips nested values without recursion.
        let raw = serde_json::from_slice::<&RawValue>(bytes).map_err(|_| error)?;
        shallow(raw.get(), DEPTH_MAX)
    })
}

fn shallow(text: &str, depth: usize) -> serde_json::Result<Value> {
    match text.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => Ok(Value::String(text.to_owned())),
        Some(b'{') => {
            let parts: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
            let read =
                |(name, raw): (String, &RawValue)| Ok((name, shallow(raw.get(), depth - 1)?));
            parts
                .into_iter()
                .map(read)
                .collect::<serde_json::Result<Map<_, _>>>()
                .map(Value::Object)
        }
        Some(b'[') => {
            let parts: Vec<&RawValue> = serde_json::from_str(text)?;
            let read = |raw: &RawValue| shallow(raw.get(), depth - 1);
            parts.into_iter().map(read).collect::<serde_json::Result<_>>().map(Value::Array)
        }
        _ => serde_json::from_str(text),
    }
}
