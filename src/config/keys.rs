//! The keys of a config file by their sections, as messages need them.

use std::sync::LazyLock;

/// Every key by its section; the empty name is the top of the file. It is made on demand: a start without
/// faults does not need it.
pub(super) type Keys = LazyLock<Vec<(String, Vec<String>)>>;

/// The keys that only some types of a section have, with these types.
pub(super) type KeysByKind = &'static [(&'static [&'static str], &'static [&'static str])];

/// Returns the section that has `key`. The empty name is the top of the file.
pub(super) fn section_with(keys: &'static Keys, key: &str) -> Option<&'static str> {
    let has = |(_, keys): &&(String, Vec<String>)| keys.iter().any(|known| known == key);
    keys.iter().find(has).map(|(section, _)| section.as_str())
}

/// Returns true if `key` in the section at this path is a section itself.
pub(super) fn is_section(keys: &Keys, path: &[&str], key: &str) -> bool {
    let is_known = |name: &str| keys.iter().any(|(section, _)| section == name);
    match path {
        [] => is_known(key) || is_known(&format!("{key}.NAME")),
        [outer] => is_known(&format!("{outer}.NAME")),
        _ => false,
    }
}
