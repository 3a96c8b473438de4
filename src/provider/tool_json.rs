//! Caches the JSON of offered tools: each set is written once, however many requests offer it.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::ToolSchema;

/// Maximum number of cached sets: those of the roles, of notes, jobs and subagents.
const SETS_MAX: usize = 6;

/// The sets of tools that one provider was recently offered.
#[derive(Default)]
pub struct ToolJsonCache {
    /// Keyed at random, so that nobody can construct two sets with the same hash.
    hashes: RandomState,
    // A mutex because requests are different tasks; it guards a short list.
    written: Mutex<VecDeque<(u64, Arc<RawValue>)>>,
}

impl ToolJsonCache {
    /// Returns the JSON of a set of tools, which `write` makes if it is not cached. `variant` distinguishes two forms
    /// of the same set.
    pub fn get(
        &self,
        tools: &[ToolSchema],
        variant: bool,
        write: impl FnOnce() -> Vec<Value>,
    ) -> Arc<RawValue> {
        let set = self.hash(tools, variant);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = written.iter().position(|(of, _)| *of == set)
            && let Some(found) = written.remove(at)
        {
            let json = Arc::clone(&found.1);
            written.push_front(found);
            return json;
        }
        let json = to_raw_value(&write()).expect("a JSON value can be written to memory");
        let json = Arc::<RawValue>::from(json);
        written.push_front((set, Arc::clone(&json)));
        written.truncate(SETS_MAX);
        json
    }

    fn hash(&self, tools: &[ToolSchema], variant: bool) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        variant.hash(&mut hasher);
        for ToolSchema { name, description, parameters } in tools {
            (name, description, parameters).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// The body of a request, whose tools are written already.
pub(super) struct RequestBody {
    /// An object. With tools, it has a `tools` that they replace.
    pub(super) fields: Value,
    pub(super) tools: Option<Arc<RawValue>>,
}

impl Serialize for RequestBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (Value::Object(fields), Some(tools)) = (&self.fields, &self.tools) else {
            return self.fields.serialize(serializer);
        };
        let mut body = serializer.serialize_map(Some(fields.len()))?;
        for (name, value) in fields {
            match name.as_str() {
                "tools" => body.serialize_entry(name, &**tools)?,
                _ => body.serialize_entry(name, value)?,
            }
        }
        body.end()
    }
}
