//! Parses a platform's JSON at any nesting depth, so that one extreme event does not block the others. A value that
//! nests too deep becomes a string of its JSON.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Maximum depth that is parsed. No platform nests deeper than a dozen levels, and `serde_json` parses up to 128.
const DEPTH_MAX: usize = 48;

pub(super) fn read(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| {
        // This skips nested values without recursion.
        let raw = serde_json::from_slice::<&RawValue>(bytes).map_err(|_| error)?;
        parse_to_depth(raw.get(), DEPTH_MAX)
    })
}

fn parse_to_depth(text: &str, depth: usize) -> serde_json::Result<Value> {
    match text.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => Ok(Value::String(text.to_owned())),
        Some(b'{') => {
            let parts: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
            let parse_part = |(name, raw): (String, &RawValue)| {
                Ok((name, parse_to_depth(raw.get(), depth - 1)?))
            };
            parts
                .into_iter()
                .map(parse_part)
                .collect::<serde_json::Result<Map<_, _>>>()
                .map(Value::Object)
        }
        Some(b'[') => {
            let parts: Vec<&RawValue> = serde_json::from_str(text)?;
            let parse_part = |raw: &RawValue| parse_to_depth(raw.get(), depth - 1);
            parts.into_iter().map(parse_part).collect::<serde_json::Result<_>>().map(Value::Array)
        }
        _ => serde_json::from_str(text),
    }
}
