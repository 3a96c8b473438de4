//! Parses the answer of a model that extracts facts: JSON, perhaps with prose or a code fence around it. Nothing in
//! it is trusted. Pure.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

use crate::memory::facts::{FACT_CHARS_MAX, FactId, FactKind};
use crate::short_text;

/// Maximum length of an answer in bytes: fifty facts of full length.
pub const ANSWER_BYTES_MAX: usize = 32 * 1_024;

/// Maximum number of items of each kind in one answer. A few turns do not contain more.
const ITEMS_MAX: usize = 20;

/// Maximum number of places in an answer at which its JSON is assumed to begin.
const BEGINNINGS_MAX: usize = 64;

/// The facts in an answer, before they are compared with the person's facts.
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

/// An item of a list. Unexpected items are skipped.
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

/// Parses the last JSON object in an answer that has one of the lists. None if there is none, or if the answer is too
/// long.
pub fn parse(answer: &str) -> Option<ExtractedFacts> {
    if answer.len() > ANSWER_BYTES_MAX {
        return None;
    }
    let (mut rest, mut found) = (answer, None);
    for _ in 0..BEGINNINGS_MAX {
        let Some(begin) = rest.find('{') else { break };
        let mut values = Deserializer::from_str(&rest[begin..]).into_iter::<WireAnswer>();
        let parsed = values.next().and_then(Result::ok).filter(|answer| !answer.is_empty());
        // A parsed object is skipped as a whole.
        let end = if parsed.is_some() { values.byte_offset() } else { 1 };
        found = parsed.or(found);
        rest = &rest[begin + end..];
    }
    found.map(to_facts)
}

fn to_facts(answer: WireAnswer) -> ExtractedFacts {
    let new = known_items(answer.new).filter_map(|item| {
        let kind = FactKind::parse(item.kind.trim()).unwrap_or_default();
        Some(ExtractedText { kind, text: one_line(&item.text)? })
    });
    let updated =
        known_items(answer.updated).filter_map(|item| Some((item.id.id()?, one_line(&item.text)?)));
    let merged = known_items(answer.merged).filter_map(|item| {
        let ids: Vec<_> = item.ids.iter().take(ITEMS_MAX).filter_map(WireId::id).collect();
        Some((ids, one_line(&item.text)?))
    });
    let removed = known_items(answer.removed).filter_map(|item| match item {
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

fn known_items<T>(items: Option<Vec<WireItem<T>>>) -> impl Iterator<Item = T> {
    items.into_iter().flatten().filter_map(|item| match item {
        WireItem::Known(item) => Some(item),
        WireItem::Unknown(_) => None,
    })
}

/// Returns the text of a fact on one line. None if it has no letters or digits, is too long, or has invisible characters.
fn one_line(text: &str) -> Option<String> {
    let text = short_text::one_line(text);
    let is_hidden = |character: char| {
        character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    // Models sometimes repeat the dots of the requested form.
    let has_words = text.contains(char::is_alphanumeric);
    let fits = text.chars().count() <= FACT_CHARS_MAX;
    (has_words && fits && !text.contains(is_hidden)).then_some(text)
}
