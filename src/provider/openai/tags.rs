//! Extracts reasoning that a server leaves in the answer's text: `<think>…</think>` at its beginning, as
//! many open models write it. Later in the text the tags are ordinary text.

use std::collections::VecDeque;

use crate::provider::Delta;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Separates text from reasoning, however the text is split.
#[derive(Default)]
pub struct ThinkTags {
    place: TagPosition,
    /// Text that may be the beginning of the expected tag.
    held: String,
}

#[derive(Clone, Copy, Default)]
enum TagPosition {
    #[default]
    Beginning,
    Within,
    /// Blanks after the end of the reasoning are dropped.
    After,
    Text,
}

impl ThinkTags {
    /// Takes the next piece of the text, and appends the decided part to `deltas`.
    pub fn take(&mut self, text: &str, deltas: &mut VecDeque<Delta>) {
        self.held.push_str(text);
        while self.step(deltas) {}
    }

    /// Appends the rest to `deltas` at the end of the text.
    pub fn finish(&mut self, deltas: &mut VecDeque<Delta>) {
        let held = std::mem::take(&mut self.held);
        match self.place {
            TagPosition::Within => push(Delta::Thinking, &held, deltas),
            TagPosition::Beginning | TagPosition::After | TagPosition::Text => {
                push(Delta::Text, &held, deltas)
            }
        }
    }

    /// Returns true if the position changed, so that the held text must be examined again.
    fn step(&mut self, deltas: &mut VecDeque<Delta>) -> bool {
        let (place, rest) = match self.place {
            TagPosition::Beginning => {
                let beginning = self.held.trim_start();
                match beginning.strip_prefix(OPEN) {
                    Some(rest) => (TagPosition::Within, rest.to_owned()),
                    None if OPEN.starts_with(beginning) => return false,
                    None => (TagPosition::Text, self.held.clone()),
                }
            }
            TagPosition::Within => match self.held.split_once(CLOSE) {
                Some((reasoning, rest)) => {
                    push(Delta::Thinking, reasoning, deltas);
                    (TagPosition::After, rest.to_owned())
                }
                None => {
                    let rest = self.held.split_off(self.held.len() - overlap(&self.held, CLOSE));
                    push(Delta::Thinking, &self.held, deltas);
                    self.held = rest;
                    return false;
                }
            },
            TagPosition::After => {
                let rest = self.held.trim_start().to_owned();
                if rest.is_empty() {
                    self.held.clear();
                    return false;
                }
                (TagPosition::Text, rest)
            }
            TagPosition::Text => {
                push(Delta::Text, &std::mem::take(&mut self.held), deltas);
                return false;
            }
        };
        (self.place, self.held) = (place, rest);
        true
    }
}

/// Returns how many bytes at the end of `text` may be the beginning of `tag`.
fn overlap(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|&length| text.ends_with(&tag[..length])).unwrap_or_default()
}

fn push(kind: fn(String) -> Delta, text: &str, deltas: &mut VecDeque<Delta>) {
    if !text.is_empty() {
        deltas.push_back(kind(text.to_owned()));
    }
}
