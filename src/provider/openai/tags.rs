//! Reasoning that a server leaves in the answer's text: `<think>…</think>` at its beginning, as many
//! open models write it. Later in the text the tags are words like others.

use std::collections::VecDeque;

use crate::provider::Delta;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Tells words from reasoning, however the text is split.
#[derive(Default)]
pub(super) struct Tags {
    place: Place,
    /// What may be the beginning of the tag that is awaited.
    held: String,
}

#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    Beginning,
    Within,
    /// Blanks after the end of the reasoning belong to nothing.
    After,
    Text,
}

impl Tags {
    pub(super) fn take(&mut self, text: &str, deltas: &mut VecDeque<Delta>) {
        self.held.push_str(text);
        while self.step(deltas) {}
    }

    /// There is no more text.
    pub(super) fn finish(&mut self, deltas: &mut VecDeque<Delta>) {
        let held = std::mem::take(&mut self.held);
        match self.place {
            Place::Within => push(Delta::Thinking, &held, deltas),
            Place::Beginning | Place::After | Place::Text => push(Delta::Text, &held, deltas),
        }
    }

    /// Whether the place changed, so that what is held may mean something else.
    fn step(&mut self, deltas: &mut VecDeque<Delta>) -> bool {
        let (place, rest) = match self.place {
            Place::Beginning => {
                let begun = self.held.trim_start();
                match begun.strip_prefix(OPEN) {
                    Some(rest) => (Place::Within, rest.to_owned()),
                    None if OPEN.starts_with(begun) => return false,
                    None => (Place::Text, self.held.clone()),
                }
            }
            Place::Within => match self.held.split_once(CLOSE) {
                Some((reasoning, rest)) => {
                    push(Delta::Thinking, reasoning, deltas);
                    (Place::After, rest.to_owned())
                }
                None => {
                    let rest = self.held.split_off(self.held.len() - overlap(&self.held, CLOSE));
                    push(Delta::Thinking, &self.held, deltas);
                    self.held = rest;
                    return false;
                }
            },
            Place::After => {
                let rest = self.held.trim_start().to_owned();
                if rest.is_empty() {
                    self.held.clear();
                    return false;
                }
                (Place::Text, rest)
            }
            Place::Text => {
                push(Delta::Text, &std::mem::take(&mut self.held), deltas);
                return false;
            }
        };
        (self.place, self.held) = (place, rest);
        true
    }
}

/// How many bytes at the end of `text` may be the beginning of `tag`.
fn overlap(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|&length| text.ends_with(&tag[..length])).unwrap_or_default()
}

fn push(kind: fn(String) -> Delta, text: &str, deltas: &mut VecDeque<Delta>) {
    if !text.is_empty() {
        deltas.push_back(kind(text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reasoning and the words of a text that comes in these pieces.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let (mut tags, mut deltas) = (Tags::default(), VecDeque::new());
        pieces.into_iter().for_each(|piece| tags.take(piece, &mut deltas));
        tags.finish(&mut deltas);
        let (mut reasoning, mut words) = (String::new(), String::new());
        for delta in deltas {
            match delta {
                Delta::Thinking(text) => reasoning.push_str(&text),
                Delta::Text(text) => words.push_str(&text),
                other => panic!("{other:?}"),
            }
        }
        (reasoning, words)
    }

    const CASES: [(&str, &str, &str); 8] = [
        ("\n<think>Hm. </ü> 1 < 2</think>\n\n Yes. <think>", "Hm. </ü> 1 < 2", "Yes. <think>"),
        ("<think></think>Yes.", "", "Yes."),
        ("<think>cut off </thi", "cut off </thi", ""),
        ("<think>all</think>\n", "all", ""),
        (" Plain 🦀 text\n", "", " Plain 🦀 text\n"),
        ("<thin", "", "<thin"),
        ("<thing>", "", "<thing>"),
        ("Say <think>so</think>.", "", "Say <think>so</think>."),
    ];

    proptest! {
        #[test]
        fn does_not_care_where_a_text_is_split(size in 1usize..50) {
            for (text, reasoning, words) in CASES {
                let chars: Vec<char> = text.chars().collect();
                let pieces: Vec<String> = chars.chunks(size).map(String::from_iter).collect();
                let read = read(pieces.iter().map(String::as_str));
                prop_assert_eq!(read, (reasoning.to_owned(), words.to_owned()));
            }
        }
    }
}
