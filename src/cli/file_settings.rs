//! The settings of a config file by their keys, to tell which ones a reload has changed. Not here: what they mean (`config`).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use toml::{Table, Value};
use zeroize::Zeroizing;

/// The keys of a config file, each with a hash of its value. The values are not kept: secrets may be among them.
pub struct FileSettings(BTreeMap<String, u64>);

impl FileSettings {
    /// Reads the settings in the text of a file. None if it is not TOML.
    pub fn parse(text: &str) -> Option<Self> {
        let mut settings = Self(BTreeMap::new());
        settings.add("", &toml::from_str(text).ok()?);
        Some(settings)
    }

    fn add(&mut self, section: &str, table: &Table) {
        for (name, value) in table {
            let key = match section {
                "" => name.clone(),
                section => format!("{section}.{name}"),
            };
            match value {
                Value::Table(table) if !table.is_empty() => self.add(&key, table),
                value => {
                    let mut hasher = DefaultHasher::new();
                    Zeroizing::new(value.to_string()).as_bytes().hash(&mut hasher);
                    self.0.insert(key, hasher.finish());
                }
            }
        }
    }

    /// Returns the keys that were added, removed or set to something else since `before`, in order.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let mut keys: Vec<_> = self.0.keys().chain(before.0.keys()).collect();
        keys.sort();
        keys.dedup();
        let changed = keys.into_iter().filter(|key| self.0.get(*key) != before.0.get(*key));
        changed.cloned().collect()
    }
}
