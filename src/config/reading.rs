//! A walk over parsed TOML that knows where each thing stands, notes every fault instead of ending
//! at the first, and knows which keys nobody asked for. It knows nothing of what the keys mean.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Place};
use super::{Environment, KEYS};

/// Beyond that a file is no config, and finding the line of each fault would take long.
const FAULTS_MAX: usize = 100;

/// A config file being read.
pub(super) struct Source<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    pub(super) env: &'a Environment,
    /// A cell, because the sections of a file are read inside each other and all report here.
    found: RefCell<Found>,
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) faults: Vec<Fault>,
    pub(super) notes: Vec<String>,
    pub(super) files: Vec<PathBuf>,
}

/// A table of which every key has to be asked for.
pub(super) struct Section<'a> {
    pub(super) source: &'a Source<'a>,
    /// Its path with dots; empty for the top of the file.
    path: String,
    at: usize,
    table: &'a DeTable<'a>,
    known: &'static [&'static str],
    asked: BTreeSet<&'static str>,
}

/// A value and where it stands.
pub(super) struct Located<'a> {
    pub(super) source: &'a Source<'a>,
    /// As messages name it: `` `steps_max` in [agent] ``.
    pub(super) name: String,
    pub(super) at: usize,
    value: &'a DeValue<'a>,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str, env: &'a Environment) -> Self {
        Self { file, text, env, found: RefCell::default() }
    }

    /// `at` is an offset in bytes.
    pub(super) fn fault(&self, at: usize, message: impl AsRef<str>) {
        if self.found.borrow().faults.len() < FAULTS_MAX {
            self.fault_in(Place::at(self.file, self.text.as_bytes(), at), message);
        }
    }

    pub(super) fn fault_in(&self, place: Place, message: impl AsRef<str>) {
        self.found.borrow_mut().faults.push(Fault::new(place, message.as_ref()));
    }

    pub(super) fn note(&self, note: String) {
        let notes = &mut self.found.borrow_mut().notes;
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// A file that holds secrets, or may.
    pub(super) fn read_from(&self, file: &Path) {
        self.found.borrow_mut().files.push(file.to_owned());
    }

    /// Faults in the order of the file.
    pub(super) fn into_found(self) -> Found {
        let mut found = self.found.into_inner();
        found.faults.sort_by(|a, b| a.place.cmp(&b.place));
        found
    }
}

impl<'a> Section<'a> {
    pub(super) fn top(source: &'a Source<'a>, table: &'a DeTable<'a>) -> Self {
        Self { source, path: String::new(), at: 0, table, known: known(""), asked: BTreeSet::new() }
    }

    /// The value of `key`, which must be one of [`KEYS`].
    pub(super) fn ask(&mut self, key: &'static str) -> Option<Located<'a>> {
        debug_assert!(self.known.contains(&key), "`{key}` is missing in KEYS");
        self.asked.insert(key);
        let value = self.table.get(key)?;
        let name = format!("`{key}`{}", self.place());
        Some(Located { source: self.source, name, at: value.span().start, value: value.get_ref() })
    }

    /// As [`Self::ask`]; it is a fault if the key is absent. `wanted` says what belongs there.
    pub(super) fn require(&mut self, key: &'static str, wanted: &str) -> Option<Located<'a>> {
        let found = self.ask(key);
        if found.is_none() {
            self.source.fault(self.at, format!("missing key `{key}`{}: {wanted}", self.place()));
        }
        found
    }

    /// The section `[key]`.
    pub(super) fn section(&mut self, key: &'static str) -> Option<Self> {
        self.ask(key)?;
        self.inner(self.entry(key)?, known(key))
    }

    /// The sections `[key.NAME]` with their names, in the order of the file. What is no section is
    /// reported and left out.
    pub(super) fn named(&mut self, key: &'static str) -> Vec<(&'a str, Self)> {
        let pattern = known(&format!("{key}.NAME"));
        let Some(outer) = self.section(key) else { return Vec::new() };
        let mut entries: Vec<_> = outer.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        entries
            .into_iter()
            .filter_map(|entry| {
                let name: &str = entry.0.get_ref();
                if !is_name(name) {
                    outer.source.fault(
                        entry.0.span().start,
                        format!(
                            "a name{} must be 1 to 32 of a-z, A-Z, 0-9, - and _",
                            outer.place()
                        ),
                    );
                }
                Some((name, outer.inner(entry, pattern)?))
            })
            .collect()
    }

    /// Reports `key` as one that a later version may know.
    pub(super) fn not_built(&mut self, key: &'static str) {
        if let Some((key_at, _)) = self.entry(key) {
            self.source.fault(key_at.span().start, format!("this version has no [{key}] yet"));
        }
        self.asked.insert(key);
    }

    /// Reports what was not asked for. `kind` tells why a key that exists may not be used here.
    pub(super) fn finish(self, kind: &str) {
        for (key, _) in self.table {
            let (at, key) = (key.span().start, &**key.get_ref());
            if self.asked.contains(key) {
                continue;
            }
            let place = self.place();
            if self.known.contains(&key) {
                self.source.fault(at, format!("`{key}`{place} means nothing for {kind}"));
            } else {
                let advice = self.advice(key);
                let key = shown(key);
                self.source.fault(at, format!("unknown key `{key}`{place}; {advice}"));
            }
        }
    }

    /// As [`Self::finish`], where it is not known which of the known keys may be used.
    pub(super) fn finish_of_any_kind(mut self) {
        self.asked.extend(self.known);
        self.finish("");
    }

    fn advice(&self, key: &str) -> String {
        let elsewhere = KEYS.iter().find(|(_, keys)| keys.contains(&key));
        match (nearest(key, self.known.iter().copied()), elsewhere) {
            (Some(nearest), _) => format!("did you mean `{nearest}`?"),
            (None, Some(("", _))) => format!("[{key}] is a section of its own"),
            (None, Some((section, _))) => format!("it belongs in [{section}]"),
            (None, None) => format!("known here: {}", self.known.join(", ")),
        }
    }

    fn inner(&self, entry: Entry<'a>, known: &'static [&'static str]) -> Option<Self> {
        let (key, value) = entry;
        let (at, key) = (key.span().start, shown(key.get_ref()));
        let path = if self.path.is_empty() { key } else { format!("{}.{key}", self.path) };
        let Some(table) = value.get_ref().as_table() else {
            self.source.fault(at, format!("`{path}` must be a section, written [{path}]"));
            return None;
        };
        Some(Self { source: self.source, path, at, table, known, asked: BTreeSet::new() })
    }

    fn entry(&self, key: &str) -> Option<Entry<'a>> {
        self.table.get_key_value(key)
    }

    fn place(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!(" in [{}]", self.path) }
    }

    pub(super) fn fault(&self, message: impl AsRef<str>) {
        self.source.fault(self.at, message);
    }

    /// `[channels.home]`
    pub(super) fn title(&self) -> String {
        format!("[{}]", self.path)
    }
}

type Entry<'a> = (&'a Spanned<std::borrow::Cow<'a, str>>, &'a Spanned<DeValue<'a>>);

/// None of these prints the value that it refuses: it may be a secret in the wrong place.
impl<'a> Located<'a> {
    pub(super) fn fault(&self, message: impl AsRef<str>) {
        self.source.fault(self.at, format!("{} {}", self.name, message.as_ref()));
    }

    fn must_be<T>(&self, wanted: &str) -> Option<T> {
        self.fault(format!("must be {wanted}, not {}", type_of(self.value)));
        None
    }

    /// Not empty.
    pub(super) fn text(&self) -> Option<&'a str> {
        match self.value {
            DeValue::String(text) if text.trim().is_empty() => {
                self.fault("is empty");
                None
            }
            DeValue::String(text) => Some(text),
            _ => self.must_be("a string"),
        }
    }

    /// May be empty.
    pub(super) fn text_or_nothing(&self) -> Option<&'a str> {
        self.value.as_str().or_else(|| self.must_be("a string"))
    }

    pub(super) fn flag(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.must_be("true or false"))
    }

    pub(super) fn number(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let (least, most) = (range.start(), range.end());
        let DeValue::Integer(digits) = self.value else {
            return self.must_be(&format!("a whole number from {least} to {most}"));
        };
        let number = u32::from_str_radix(digits.as_str(), digits.radix()).ok();
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.fault(format!("must be from {least} to {most}"));
        }
        number
    }

    /// An account's id, written as a string or a number.
    pub(super) fn id(&self) -> Option<String> {
        match self.value {
            DeValue::String(text) => Some(text.trim().to_owned()),
            DeValue::Integer(digits) => {
                let number = i64::from_str_radix(digits.as_str(), digits.radix()).ok();
                if number.is_none() {
                    self.fault("is too big a number");
                }
                number.map(|number| number.to_string())
            }
            _ => self.must_be("an id: a string or a whole number"),
        }
    }

    /// One of the words in `choices`.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        self.choice_among(choices, |_| true)
    }

    /// As [`Self::choice`]; who chose wrongly is told of those only that are `offered`.
    pub(super) fn choice_among<T: Copy>(
        &self,
        choices: &[(&str, T)],
        offered: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let text = self.text()?;
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*choice);
        }
        let offered = choices.iter().filter(|(_, choice)| offered(choice));
        let words: Vec<_> = offered.map(|(word, _)| *word).collect();
        let hint = nearest(text, words.iter().copied())
            .map(|nearest| format!("; did you mean `{nearest}`?"))
            .unwrap_or_default();
        self.fault(format!("must be one of {}{hint}", words.join(", ")));
        None
    }

    pub(super) fn list(&self) -> Option<Vec<Self>> {
        let Some(array) = self.value.as_array() else {
            return self.must_be("a list: [..]");
        };
        let entry = |entry: &'a Spanned<DeValue<'a>>| Self {
            source: self.source,
            name: format!("an entry of {}", self.name),
            at: entry.span().start,
            value: entry.get_ref(),
        };
        Some(array.iter().map(entry).collect())
    }

    /// Its entries by key, where it is an inline table.
    pub(super) fn table(&self) -> Option<Vec<(&'a str, Self)>> {
        let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let key: &'a std::borrow::Cow<'a, str> = key.get_ref();
            let name = format!("`{}` of {}", shown(key), self.name);
            let (at, value) = (value.span().start, value.get_ref());
            (&**key, Self { source: self.source, name, at, value })
        };
        Some(self.value.as_table()?.iter().map(entry).collect())
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.is_str()
    }
}

/// The one of `words` that `word` was probably meant to be.
pub(super) fn nearest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    /// Found by trial: `apikey`, `allow_from`, `bot_token` find theirs; unrelated words do not.
    const LIKENESS_MIN: f64 = 0.5;
    words
        .map(|other| (strsim::normalized_damerau_levenshtein(word, other), other))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

fn known(section: &str) -> &'static [&'static str] {
    let found = KEYS.iter().find(|(name, _)| *name == section);
    found.map_or(&[], |(_, keys)| keys)
}

/// Names stand in addresses (`CHANNEL:CHAT`) and in commands, so they hold no marks or blanks.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=32).contains(&name.len()) && name.chars().all(fits)
}

/// A key from the file, fit to stand in a message: one line, not long.
fn shown(key: &str) -> String {
    const CHARS_MAX: usize = 40;
    key.escape_debug().take(CHARS_MAX).collect()
}

fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
