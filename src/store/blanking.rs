//! Blanks words that somebody wants forgotten in the texts of rows. Rows stay, with what else they say: only the lines
//! with the words go, and in JSON only the values that hold words.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params, params_from_iter};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::WordsDigest;

/// Stands in place of what was forgotten.
pub const FORGOTTEN: &str = "[forgotten]";

/// Rows that are looked at in one transaction: some milliseconds.
const SLICE_ROWS: i64 = 200;

/// The keys of values in our own JSON that hold words. Names of states and places are not among them.
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
    // Of a file that somebody sent: what is said in it, and the beginning of its text.
    "words",
    "begins",
];

/// Either is a key of each file and each picture in our own JSON, whose name and paths are the sender's words.
const FILES_HAVE: [&str; 2] = ["handle", "mime"];

/// The keys of a file that hold none.
const NO_WORDS_OF_FILES: [&str; 2] = ["kind", "mime"];

/// Words that somebody wants forgotten, in any case and spacing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenWords(Sought);

/// The words that are looked for in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sought {
    Words(String),
    /// The words themselves are known no more.
    Digest(WordsDigest),
}

impl ForgottenWords {
    /// None without a word.
    pub fn new(words: &str) -> Option<Self> {
        let words = squeezed(words);
        words.chars().any(char::is_alphanumeric).then_some(Self(Sought::Words(words)))
    }

    /// The words of which only a digest is left.
    pub fn of_digest(digest: WordsDigest) -> Self {
        Self(Sought::Digest(digest))
    }

    /// Returns a digest that finds the words again.
    pub fn digest(&self) -> WordsDigest {
        match &self.0 {
            Sought::Words(words) => WordsDigest::new(words),
            Sought::Digest(digest) => digest.clone(),
        }
    }

    /// Returns true if a text has the words in it.
    pub fn are_in(&self, text: &str) -> bool {
        let text = squeezed(text);
        match &self.0 {
            Sought::Words(words) => text.contains(words),
            Sought::Digest(digest) => digest.is_in(&text),
        }
    }

    /// Returns a text without the lines that have the words in them; without any if the words stand across lines. None
    /// if it does not have them.
    pub fn blanked(&self, text: &str) -> Option<String> {
        if !self.are_in(text) {
            return None;
        }
        let lines = text.split('\n').map(|line| if self.are_in(line) { FORGOTTEN } else { line });
        let blanked = lines.collect::<Vec<_>>().join("\n");
        Some(if self.are_in(&blanked) { FORGOTTEN.to_owned() } else { blanked })
    }

    /// The same of JSON of our own, or of a tool's arguments, in which every value may hold words.
    pub fn blanked_json(&self, text: &str, form: TextForm) -> Option<String> {
        let mut value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            // A row that cannot be read is blanked like a text.
            Err(_) => return self.blanked(text),
        };
        let all = value.is_string() || form == TextForm::Arguments;
        self.blank_value(&mut value, all, all).then(|| value.to_string())
    }

    /// Blanks the value if it holds words; `all` values below it do, or those of the known keys.
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
                let mut any = false;
                for item in items {
                    any |= self.blank_value(item, holds_words, all);
                }
                any
            }
            Value::Object(fields) => {
                let mut any = false;
                let is_file = FILES_HAVE.iter().any(|key| fields.contains_key(*key));
                for (key, value) in fields {
                    let of_file = is_file && !NO_WORDS_OF_FILES.contains(&key.as_str());
                    let holds_words = all || of_file || WORDS_IN.contains(&key.as_str());
                    any |= self.blank_value(value, holds_words, all || of_file);
                }
                any
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// The form of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    Plain,
    /// JSON of our own.
    Json,
    /// JSON that a model wrote.
    Arguments,
}

/// Columns with texts of one table.
#[derive(Debug)]
pub struct TextColumns {
    /// Selects two numbers that identify a row, and the columns: after the row (?1, ?2), in the channel ?3 and the chat
    /// ?4, in the order of the numbers, at most ?5.
    pub select: &'static str,
    /// Sets the columns of the row (?1, ?2) to ?3 and so on.
    pub update: &'static str,
    pub columns: &'static [TextForm],
    /// Renews what was made of a row, once the row is blanked.
    pub renew: Option<fn(&Connection, RowMark) -> rusqlite::Result<()>>,
}

/// The numbers of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowMark(pub i64, pub i64);

impl RowMark {
    /// Before all rows.
    pub const FIRST: Self = Self(i64::MIN, i64::MIN);
}

/// The way in which rows are looked at.
#[derive(Clone, Copy, Debug)]
pub struct BlankPass {
    /// Only rows after this one.
    pub after: RowMark,
    /// The rows are blanked, and not only counted.
    pub blanks: bool,
    /// A row that stays as it is.
    pub spares: Option<i64>,
}

/// Rows that were looked at.
#[derive(Debug, Default)]
pub struct BlankedSlice {
    /// The last one; none if no more follow.
    pub next: Option<RowMark>,
    /// Those with the words.
    pub changed: Vec<RowMark>,
}

/// A chat of a person or a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChatPlace {
    pub channel: String,
    pub chat: String,
}

/// Looks for the words in a slice of the rows of a chat, and blanks them if the pass does.
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
        let mark = RowMark(row.get(0)?, row.get(1)?);
        (last, count) = (Some(mark), count + 1);
        let mut values = vec![SqlValue::Integer(mark.0), SqlValue::Integer(mark.1)];
        let mut is_changed = false;
        for (at, form) in table.columns.iter().enumerate() {
            let text: Option<String> = row.get(at + 2)?;
            let blanked = text.as_deref().and_then(|text| match form {
                TextForm::Plain => words.blanked(text),
                TextForm::Json | TextForm::Arguments => words.blanked_json(text, *form),
            });
            is_changed |= blanked.is_some();
            values.push(blanked.or(text).map_or(SqlValue::Null, SqlValue::Text));
        }
        if is_changed && pass.spares != Some(mark.0) {
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
