//! Tools as an API is told of them: written as JSON once for each set of them, however many requests offer it.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::ToolSchema;

/// Sets that are remembered: those of the roles, of notes, jobs and subagents.
const SETS_MAX: usize = 6;

/// The sets of tools that were written lately, for one provider.
#[derive(Default)]
pub struct Offered {
    /// With keys of its own, so that nobody can make two sets look alike.
    hashes: RandomState,
    // A mutex because requests are different tasks; it guards a short list.
    written: Mutex<VecDeque<(u64, Arc<RawValue>)>>,
}

impl Offered {
    /// The JSON of a set of tools, which `write` makes if it was not written lately. `variant` tells apart what is
    /// written of the same set.
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
    /// An object; with tools, it has a `tools` in whose place they are sent.
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
