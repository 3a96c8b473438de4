//! A config file while it is read: it collects every fault with its place instead of ending at the
//! first. The meaning of the keys is not known here.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::fault::{Fault, FaultPlace};
use super::hints::{is_name, nearest};
use super::keys::{self, Keys, KeysByKind};
use super::values::At;

/// Maximum number of faults. A file with more is no config, and finding the line of each takes time.
const FAULTS_MAX: usize = 100;

/// A config file being read. Its values are identified by their offset in bytes.
pub(super) struct ConfigSource<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    pub(super) env: &'a Environment,
    pub(super) tree: &'a DeValue<'a>,
    keys: &'static Keys,
    /// A cell, because the sections of a file are read inside each other and all report here.
    found: RefCell<FoundValue>,
}

#[derive(Default)]
pub(super) struct FoundValue {
    pub(super) faults: Vec<Fault>,
    pub(super) notes: Vec<String>,
    pub(super) files: Vec<PathBuf>,
    /// Offsets of keys and values that have a fault, and are left out from then on.
    refused: BTreeSet<usize>,
}

/// A section of the file, which reports faults of its keys.
pub(super) struct Section<'s, 'a> {
    pub(super) source: &'s ConfigSource<'a>,
    /// The name in its header, without brackets: `channels.home`.
    path: String,
    at: usize,
    table: Option<&'a DeTable<'a>>,
}

/// A step on the path from the top of the file to a value.
pub(super) enum KeyPathStep<'a> {
    Key(&'a Spanned<Cow<'a, str>>),
    Entry,
}

pub(super) type ConfigEntry<'a> = (&'a Spanned<Cow<'a, str>>, &'a Spanned<DeValue<'a>>);

impl<'a> ConfigSource<'a> {
    pub(super) fn new(
        file: &'a Path,
        text: &'a str,
        tree: &'a DeValue<'a>,
        env: &'a Environment,
        keys: &'static Keys,
    ) -> Self {
        Self { file, text, env, tree, keys, found: RefCell::default() }
    }

    /// Returns the folder to which paths in the file are relative.
    pub(super) fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }

    /// Returns the entries of a table in the order of the file, without those that were refused. Keys that are
    /// not `known` are reported.
    pub(super) fn entries(
        &self,
        table: &'a DeTable<'a>,
        known: Option<&'static [&'static str]>,
    ) -> Vec<ConfigEntry<'a>> {
        let is_left = |(key, value): &ConfigEntry<'a>| {
            !self.is_refused(key.span().start) && !self.is_refused(value.span().start)
        };
        let is_known = |(key, _): &ConfigEntry<'a>| match known {
            Some(known) if !known.contains(&&**key.get_ref()) => {
                self.report_unknown(key, known);
                false
            }
            _ => true,
        };
        let mut entries: Vec<_> = table.iter().filter(is_left).filter(is_known).collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
    }

    fn report_unknown(&self, key: &Spanned<Cow<'a, str>>, known: &[&str]) {
        let (at, key) = (key.span().start, &**key.get_ref());
        self.found.borrow_mut().refused.insert(at);
        if self.is_full() {
            return;
        }
        let advice = match (nearest(key, known.iter().copied()), keys::section_with(self.keys, key))
        {
            (Some(nearest), _) => format!("did you mean `{nearest}`?"),
            (None, Some("")) => format!("[{key}] is a section at the top level"),
            (None, Some(section)) => format!("it belongs in [{section}]"),
            (None, None) => format!("known keys: {}", known.join(", ")),
        };
        self.fault(at, format!("unknown key {}; {advice}", self.name(at)));
    }

    /// Reports a fault at an offset in bytes.
    pub(super) fn fault(&self, at: usize, message: impl AsRef<str>) {
        if !self.is_full() {
            self.fault_in(FaultPlace::at(self.file, self.text.as_bytes(), at), message);
        }
    }

    /// Reports a fault of the value at `at`. The message follows its name.
    pub(super) fn fault_of(&self, at: usize, message: impl AsRef<str>) {
        if !self.is_full() {
            self.fault(at, format!("{} {}", self.name(at), message.as_ref()));
        }
    }

    pub(super) fn fault_in(&self, place: FaultPlace, message: impl AsRef<str>) {
        self.found.borrow_mut().faults.push(Fault::new(place, message.as_ref()));
    }

    pub(super) fn is_refused(&self, at: usize) -> bool {
        self.found.borrow().refused.contains(&at)
    }

    /// Leaves a value out from now on. Returns false if it was left out before, or there are too many faults.
    pub(super) fn leave_out(&self, at: usize) -> bool {
        self.found.borrow_mut().refused.insert(at) && !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.found.borrow().faults.len() >= FAULTS_MAX
    }

    pub(super) fn note(&self, note: String) {
        let notes = &mut self.found.borrow_mut().notes;
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Records a file that holds secrets, or may.
    pub(super) fn read_from(&self, file: &Path) {
        self.found.borrow_mut().files.push(file.to_owned());
    }

    /// Returns the findings, with the faults in the order of the file.
    pub(super) fn into_found(self) -> FoundValue {
        let mut found = self.found.into_inner();
        found.faults.sort_by(|a, b| a.place.cmp(&b.place));
        found
    }

    /// Returns the section `[key]`.
    pub(super) fn section(&self, key: &'static str) -> Section<'_, 'a> {
        self.section_in(self.tree, "", key)
    }

    /// Returns the sections `[key.NAME]` with their names, in the order of the file.
    pub(super) fn named<T>(
        &self,
        key: &'static str,
        sections: BTreeMap<String, T>,
    ) -> Vec<NamedSection<'_, 'a, T>> {
        let outer = self.tree.as_table().and_then(|top| top.get(key)).map(Spanned::get_ref);
        let with_place = |(name, read): (String, T)| {
            let section = self.section_in(outer.unwrap_or(self.tree), key, &name);
            if !is_name(&name) {
                let wanted = "must be 1 to 32 of a-z, A-Z, 0-9, - and _";
                self.fault(section.at, format!("a name in [{key}] {wanted}"));
            }
            NamedSection { name, place: section, read }
        };
        let mut sections: Vec<_> = sections.into_iter().map(with_place).collect();
        sections.sort_by_key(|section| section.place.at);
        sections
    }

    fn section_in(&self, outer: &'a DeValue<'a>, prefix: &str, key: &str) -> Section<'_, 'a> {
        let entry: Option<ConfigEntry<'a>> =
            outer.as_table().and_then(|outer| outer.get_key_value(key));
        let path =
            if prefix.is_empty() { printable(key) } else { format!("{prefix}.{}", printable(key)) };
        let at = entry.map_or(0, |(key, _)| key.span().start);
        Section { source: self, path, at, table: entry.and_then(|it| it.1.get_ref().as_table()) }
    }

    /// Returns the key or value at `at` as messages name it: `` `steps_max` in [agent] ``.
    fn name(&self, at: usize) -> String {
        let steps = self.steps(at);
        let mut section = Vec::new();
        let mut name = String::new();
        for (depth, step) in steps.iter().enumerate() {
            match step {
                KeyPathStep::Key(key)
                    if depth + 1 < steps.len()
                        && keys::is_section(self.keys, &section, key.get_ref()) =>
                {
                    section.push(key.get_ref().as_ref());
                }
                KeyPathStep::Key(key) if name.is_empty() => {
                    name = format!("`{}`", printable(key.get_ref()))
                }
                KeyPathStep::Key(key) => name = format!("`{}` of {name}", printable(key.get_ref())),
                KeyPathStep::Entry => name = format!("an entry of {name}"),
            }
        }
        let section: Vec<_> = section.into_iter().map(printable).collect();
        if section.is_empty() { name } else { format!("{name} in [{}]", section.join(".")) }
    }

    /// Returns the keys that lead to `at`, with dots.
    pub(super) fn path(&self, at: usize) -> String {
        let keys = self.steps(at).into_iter().filter_map(|step| match step {
            KeyPathStep::Key(key) => Some(printable(key.get_ref())),
            KeyPathStep::Entry => None,
        });
        keys.collect::<Vec<_>>().join(".")
    }

    pub(super) fn steps(&self, at: usize) -> Vec<KeyPathStep<'a>> {
        let mut steps = Vec::new();
        find(self.tree, at, &mut steps);
        steps
    }
}

/// Finds the key or the value that begins at `at`. Returns true if it is found, and adds the steps that lead
/// there.
fn find<'a>(outer: &'a DeValue<'a>, at: usize, steps: &mut Vec<KeyPathStep<'a>>) -> bool {
    let mut is_below = |step, value: &'a Spanned<DeValue<'a>>, is_here: bool| {
        steps.push(step);
        let is_found = is_here || value.span().start == at || find(value.get_ref(), at, steps);
        if !is_found {
            steps.pop();
        }
        is_found
    };
    match outer {
        DeValue::Table(table) => table.iter().any(|entry: ConfigEntry<'a>| {
            let (key, value) = entry;
            is_below(KeyPathStep::Key(key), value, key.span().start == at)
        }),
        DeValue::Array(entries) => {
            entries.iter().any(|value| is_below(KeyPathStep::Entry, value, false))
        }
        _ => false,
    }
}

/// No message prints a value that it refuses: it may be a secret in the wrong place.
impl ConfigSource<'_> {
    /// Reports a fault of `value`. The message follows its name.
    pub(super) fn refuse<T>(&self, value: &At<T>, message: impl AsRef<str>) {
        self.fault_of(value.at, message);
    }

    /// Returns the value if it is one of `names`, else reports it. `what` says what the names stand for.
    pub(super) fn one(&self, value: &At<String>, what: &str, names: &[&str]) -> Option<String> {
        let name = &*value.value;
        if names.contains(&name) {
            return Some(name.to_owned());
        }
        let meant = match nearest(name, names.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if names.is_empty() => "none is defined".to_owned(),
            None => format!("defined: {}", names.join(", ")),
        };
        self.refuse(value, format!("names a {what} that does not exist; {meant}"));
        None
    }

    /// Returns the entries that are among `names`, in their order. Reports the others.
    pub(super) fn order(
        &self,
        entries: &At<Vec<At<String>>>,
        what: &str,
        names: &[&str],
    ) -> Vec<String> {
        if entries.value.is_empty() {
            self.refuse(entries, format!("is empty: remove the key to use all {what}s"));
        }
        let mut order: Vec<String> = Vec::new();
        for entry in &entries.value {
            let Some(name) = self.one(entry, what, names) else { continue };
            if order.contains(&name) {
                self.refuse(entry, format!("names `{name}` twice"));
            } else {
                order.push(name);
            }
        }
        order
    }
}

impl Section<'_, '_> {
    pub(super) fn fault(&self, message: impl AsRef<str>) {
        self.source.fault(self.at, message);
    }

    /// Returns the header, such as `[channels.home]`.
    pub(super) fn title(&self) -> String {
        format!("[{}]", self.path)
    }

    /// Returns true if the file has the key, even with a wrong value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Reports `key` if the file lacks it; `wanted` says what belongs there.
    pub(super) fn require<T>(&self, value: Option<T>, key: &str, wanted: &str) -> Option<T> {
        if !self.has(key) {
            self.fault(format!("missing key `{key}` in {}: {wanted}", self.title()));
        }
        value
    }

    /// Returns the value, or `default` if the file lacks the key. `None` if the value was refused.
    pub(super) fn or<T>(&self, value: Option<T>, key: &str, default: T) -> Option<T> {
        value.or_else(|| (!self.has(key)).then_some(default))
    }

    /// Reports the keys that this type of section does not have; `whose` says what it is.
    pub(super) fn allow_only(&self, limited: KeysByKind, kind: &str, whose: &str) {
        for (key, _) in self.table.into_iter().flatten() {
            let (at, key) = (key.span().start, &**key.get_ref());
            let mut limits = limited.iter().filter(|(keys, _)| keys.contains(&key));
            if limits.any(|(_, kinds)| !kinds.contains(&kind)) {
                let title = self.title();
                self.source
                    .fault(at, format!("`{key}` in {title} has no effect for {whose}: remove it"));
            }
        }
    }
}

/// Returns a key from the file in a form for messages: one line, not long.
fn printable(key: &str) -> String {
    const CHARS_MAX: usize = 40;
    key.escape_debug().take(CHARS_MAX).collect()
}

/// A section `[key.NAME]`.
pub(super) struct NamedSection<'s, 'a, T> {
    pub(super) name: String,
    pub(super) place: Section<'s, 'a>,
    pub(super) read: T,
}
