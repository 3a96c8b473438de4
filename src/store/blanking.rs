//! Replaces text that somebody wants forgotten in rows. The rows stay: only the lines with the words are replaced, and
//! in JSON only the values that hold text.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params, params_from_iter};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::WordsDigest;

/// Replacement for a forgotten line or text.
pub const FORGOTTEN: &str = "[forgotten]";

/// Number of rows examined in one transaction, which takes some milliseconds.
const SLICE_ROWS: i64 = 200;

/// The keys of our own JSON whose values hold text, unlike states and addresses.
const WORDS_IN: [&str; 17] = [
    "text",
    "caption",
    "message",
    "label",
    "says",
    "task",
    "prompt",
    "title",
    "command",
    "memory",
    "notes",
    "told",
    "told_memory",
    "told_notes",
    "printed",
    // Of a received file: its transcript, and the beginning of its text.
    "words",
    "begins",
];

/// Keys that identify a file or a picture in our own JSON. The sender chose its name and paths, so they are blanked too.
const FILES_HAVE: [&str; 2] = ["handle", "mime"];

/// The keys of a file whose values hold no text of the sender.
const NO_WORDS_OF_FILES: [&str; 2] = ["kind", "mime"];

/// The keys of our own JSON of files whose values are paths.
const PATHS_IN: [&str; 2] = ["path", "leads_to"];

/// Words that somebody wants forgotten. Comparison ignores case and spacing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenWords(Sought);

/// The words to look for in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sought {
    Words(String),
    /// Only their digest is left.
    Digest(WordsDigest),
}

impl ForgottenWords {
    /// Parses words of a person. None if they have no letter and no digit.
    pub fn new(words: &str) -> Option<Self> {
        let words = normalized(words);
        words.chars().any(char::is_alphanumeric).then_some(Self(Sought::Words(words)))
    }

    /// Returns the words of which only a digest is left.
    pub fn of_digest(digest: WordsDigest) -> Self {
        Self(Sought::Digest(digest))
    }

    /// Returns a digest with which the words can be found again.
    pub fn digest(&self) -> WordsDigest {
        match &self.0 {
            Sought::Words(words) => WordsDigest::new(words),
            Sought::Digest(digest) => digest.clone(),
        }
    }

    /// Returns true if a text contains the words.
    pub fn are_in(&self, text: &str) -> bool {
        let text = normalized(text);
        match &self.0 {
            Sought::Words(words) => text.contains(words),
            Sought::Digest(digest) => digest.is_in(&text),
        }
    }

    /// Returns the text with each line that contains the words replaced, or replaced as a whole if the words span lines.
    /// None if it does not contain them.
    pub fn blanked(&self, text: &str) -> Option<String> {
        if !self.are_in(text) {
            return None;
        }
        let lines = text.split('\n').map(|line| if self.are_in(line) { FORGOTTEN } else { line });
        let blanked = lines.collect::<Vec<_>>().join("\n");
        Some(if self.are_in(&blanked) { FORGOTTEN.to_owned() } else { blanked })
    }

    /// Returns the JSON with texts replaced as by [`Self::blanked`]. In a tool's arguments every value may hold text.
    pub fn blanked_json(&self, text: &str, form: TextForm) -> Option<String> {
        let mut value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            // Invalid JSON is blanked like plain text.
            Err(_) => return self.blanked(text),
        };
        if form == TextForm::Paths {
            return self.blank_paths(&mut value).then(|| value.to_string());
        }
        let all = value.is_string() || form == TextForm::Arguments;
        self.blank_value(&mut value, all, all).then(|| value.to_string())
    }

    /// Blanks the paths in the value and returns true if it changed.
    fn blank_paths(&self, value: &mut Value) -> bool {
        let mut is_changed = false;
        match value {
            Value::Array(items) => {
                for item in items {
                    is_changed |= self.blank_paths(item);
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    is_changed |= match PATHS_IN.contains(&key.as_str()) {
                        true => self.blank_value(value, true, false),
                        false => self.blank_paths(value),
                    };
                }
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        is_changed
    }

    /// Blanks texts in the value and returns true if it changed. `holds_words` applies to a string itself, `all` to
    /// every value inside; else only known keys are blanked.
    fn blank_value(&self, value: &mut Value, holds_words: bool, all: bool) -> bool {
        match value {
            Value::String(text) if holds_words => match self.blanked(text) {
                Some(blanked) => {
                    *text = blanked;
                    true
                }
                None => false,
            },
            Value::Array(items) => {
                let mut is_changed = false;
                for item in items {
                    is_changed |= self.blank_value(item, holds_words, all);
                }
                is_changed
            }
            Value::Object(fields) => {
                let mut is_changed = false;
                let is_file = FILES_HAVE.iter().any(|key| fields.contains_key(*key));
                for (key, value) in fields {
                    let holds_sender_text = is_file && !NO_WORDS_OF_FILES.contains(&key.as_str());
                    let holds_words = all || holds_sender_text || WORDS_IN.contains(&key.as_str());
                    is_changed |= self.blank_value(value, holds_words, all || holds_sender_text);
                }
                is_changed
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

/// Returns the text in lower case, with single spaces.
fn normalized(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// The form of a column with text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    Plain,
    /// JSON that the program wrote.
    Json,
    /// JSON that a model wrote.
    Arguments,
    /// JSON that the program wrote, with paths of files as its only texts. Short words may stand in a hash by chance.
    Paths,
}

/// Columns with texts of one table.
#[derive(Debug)]
pub struct TextColumns {
    /// Selects two numbers that identify a row, and the columns: of at most ?5 rows after the row (?1, ?2), in the
    /// channel ?3 and the chat ?4, in the order of the numbers.
    pub select: &'static str,
    /// Sets the columns of the row (?1, ?2) to ?3 and so on.
    pub update: &'static str,
    pub columns: &'static [TextForm],
    /// Updates data derived from a row after the row was blanked.
    pub renew: Option<fn(&Connection, RowKey) -> rusqlite::Result<()>>,
}

/// The two numbers that identify a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey(pub i64, pub i64);

impl RowKey {
    /// The mark before all rows.
    pub const FIRST: Self = Self(i64::MIN, i64::MIN);
}

/// Options for a pass over rows.
#[derive(Clone, Copy, Debug)]
pub struct BlankPass {
    /// Only rows after this one.
    pub after: RowKey,
    /// True if rows are blanked, false if they are only found.
    pub blanks: bool,
    /// The first number of a row that is not blanked.
    pub excluded_row: Option<i64>,
}

/// The result for a slice of rows.
#[derive(Debug, Default)]
pub struct BlankedSlice {
    /// The last row of the slice. None if no more follow.
    pub next: Option<RowKey>,
    /// The rows that contain the words.
    pub changed: Vec<RowKey>,
}

/// A chat of a person or a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChatPlace {
    pub channel: String,
    pub chat: String,
}

/// Finds the words in a slice of the rows of a chat. Blanks them if `pass.blanks` is set.
pub fn blank_slice(
    store: &Connection,
    table: &TextColumns,
    chat: &ChatPlace,
    words: &ForgottenWords,
    pass: BlankPass,
) -> rusqlite::Result<BlankedSlice> {
    let mut select = store.prepare_cached(table.select)?;
    let mut rows =
        select.query(params![pass.after.0, pass.after.1, chat.channel, chat.chat, SLICE_ROWS])?;
    let (mut slice, mut last, mut count) = (BlankedSlice::default(), None, 0);
    while let Some(row) = rows.next()? {
        let mark = RowKey(row.get(0)?, row.get(1)?);
        (last, count) = (Some(mark), count + 1);
        let mut values = vec![SqlValue::Integer(mark.0), SqlValue::Integer(mark.1)];
        let mut is_changed = false;
        for (index, form) in table.columns.iter().enumerate() {
            let text: Option<String> = row.get(index + 2)?;
            let blanked = text.as_deref().and_then(|text| match form {
                TextForm::Plain => words.blanked(text),
                TextForm::Json | TextForm::Arguments | TextForm::Paths => {
                    words.blanked_json(text, *form)
                }
            });
            is_changed |= blanked.is_some();
            values.push(blanked.or(text).map_or(SqlValue::Null, SqlValue::Text));
        }
        if is_changed && pass.excluded_row != Some(mark.0) {
            slice.changed.push(mark);
            if pass.blanks {
                store.prepare_cached(table.update)?.execute(params_from_iter(values))?;
                table.renew.map_or(Ok(()), |renew| renew(store, mark))?;
            }
        }
    }
    slice.next = last.filter(|_| count == SLICE_ROWS);
    Ok(slice)
}
