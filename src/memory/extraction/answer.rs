//! The answer of a model that was asked for facts: JSON, perhaps with prose or a fence around it, of which nothing
//! is believed. Pure.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

use crate::memory::facts::{FACT_CHARS_MAX, FactId, FactKind};
use crate::short_text;

/// The longest answer that is looked at, in bytes: fifty facts of full length.
pub const ANSWER_BYTES_MAX: usize = 32 * 1_024;

/// Items of each kind in one answer. A few turns do not hold more.
const ITEMS_MAX: usize = 20;

/// Places in an answer at which its JSON may begin.
const BEGINNINGS_MAX: usize = 64;

/// The facts in an answer, before it is checked against the facts of the person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtractedFacts {
    pub new: Vec<ExtractedText>,
    pub updated: Vec<(FactId, String)>,
    pub merged: Vec<(Vec<FactId>, String)>,
    pub removed: Vec<FactId>,
    /// A name for the conversation, as the model wrote it.
    pub name: Option<String>,
}

/// A new fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractedText {
    pub kind: FactKind,
    /// One line.
    pub text: String,
}

#[derive(Deserialize)]
struct WireAnswer {
    new: Option<Vec<WireItem<WireNew>>>,
    updated: Option<Vec<WireItem<WireUpdated>>>,
    merged: Option<Vec<WireItem<WireMerged>>>,
    removed: Option<Vec<WireItem<WireRemoved>>>,
    name: Option<WireItem<String>>,
}

impl WireAnswer {
    fn is_empty(&self) -> bool {
        self.new.is_none()
            && self.updated.is_none()
            && self.merged.is_none()
            && self.removed.is_none()
    }
}

/// An item; others than those that were asked for are skipped.
#[derive(Deserialize)]
#[serde(untagged)]
enum WireItem<T> {
    Known(T),
    Unknown(IgnoredAny),
}

#[derive(Deserialize)]
struct WireNew {
    #[serde(default)]
    kind: String,
    text: String,
}

#[derive(Deserialize)]
struct WireUpdated {
    id: WireId,
    text: String,
}

#[derive(Deserialize)]
struct WireMerged {
    ids: Vec<WireId>,
    text: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WireRemoved {
    Object { id: WireId },
    Bare(WireId),
}

/// A number, or a text such as `#3`.
#[derive(Deserialize)]
#[serde(untagged)]
enum WireId {
    Number(i64),
    Text(String),
}

impl WireId {
    fn id(&self) -> Option<FactId> {
        match self {
            Self::Number(number) => Some(FactId(*number)),
            Self::Text(text) => text.trim().trim_start_matches('#').parse().ok().map(FactId),
        }
    }
}

/// Parses an answer: the last JSON object in it that has one of the lists. None if there is none, or the answer is too
/// long.
pub fn parse(answer: &str) -> Option<ExtractedFacts> {
    if answer.len() > ANSWER_BYTES_MAX {
        return None;
    }
    let (mut rest, mut found) = (answer, None);
    for _ in 0..BEGINNINGS_MAX {
        let Some(at) = rest.find('{') else { break };
        let mut values = Deserializer::from_str(&rest[at..]).into_iter::<WireAnswer>();
        let read = values.next().and_then(Result::ok).filter(|answer| !answer.is_empty());
        // Within an object that was read, nothing else begins.
        let end = if read.is_some() { values.byte_offset() } else { 1 };
        found = read.or(found);
        rest = &rest[at + end..];
    }
    found.map(checked)
}

fn checked(answer: WireAnswer) -> ExtractedFacts {
    let new = known(answer.new).filter_map(|it| {
        let kind = FactKind::parse(it.kind.trim()).unwrap_or_default();
        Some(ExtractedText { kind, text: one_line(&it.text)? })
    });
    let updated = known(answer.updated).filter_map(|it| Some((it.id.id()?, one_line(&it.text)?)));
    let merged = known(answer.merged).filter_map(|it| {
        let ids: Vec<_> = it.ids.iter().take(ITEMS_MAX).filter_map(WireId::id).collect();
        Some((ids, one_line(&it.text)?))
    });
    let removed = known(answer.removed).filter_map(|it| match it {
        WireRemoved::Object { id } | WireRemoved::Bare(id) => id.id(),
    });
    ExtractedFacts {
        new: new.take(ITEMS_MAX).collect(),
        updated: updated.take(ITEMS_MAX).collect(),
        merged: merged.take(ITEMS_MAX).collect(),
        removed: removed.take(ITEMS_MAX).collect(),
        name: match answer.name {
            Some(WireItem::Known(name)) => Some(name),
            Some(WireItem::Unknown(_)) | None => None,
        },
    }
}

fn known<T>(items: Option<Vec<WireItem<T>>>) -> impl Iterator<Item = T> {
    items.into_iter().flatten().filter_map(|item| match item {
        WireItem::Known(item) => Some(item),
        WireItem::Unknown(_) => None,
    })
}

/// The text of a fact on one line; none if it has no words, is too long, or has signs that people cannot see.
fn one_line(text: &str) -> Option<String> {
    let text = short_text::one_line(text);
    let is_hidden = |sign: char| {
        sign.is_control()
            || matches!(sign, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    // Models repeat the dots of the form that they were given.
    let has_words = text.contains(char::is_alphanumeric);
    let fits = text.chars().count() <= FACT_CHARS_MAX;
    (has_words && fits && !text.contains(is_hidden)).then_some(text)
}
