//! A provider that ends an answer which repeats itself endlessly, as small models do. The repeated text is cut to
//! one occurrence, with a note. Code blocks and tables may repeat.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use tracing::warn;

use super::{Delta, DeltaStream, Provider, ProviderError, ProviderLayer, Request, StopReason};
use crate::replies;

/// Maximum length of a repeated block, in characters: two lines of a chat.
pub const BLOCK_MAX: usize = 200;

/// Number of occurrences in a row that no model intends.
pub const TIMES: usize = 20;

/// Minimum length of a repeated text, in characters. A laugh of twenty letters is no repetition.
const LETTERS_MIN: usize = 60;

/// The same for a block without a letter: rules, dots, spaces and the zeros of a large number.
const SIGNS_MIN: usize = 300;

/// A provider whose answers do not repeat themselves endlessly.
pub struct WithoutRepetition {
    inner: Arc<dyn Provider>,
}

impl WithoutRepetition {
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl ProviderLayer for WithoutRepetition {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
    }

    async fn answer<'a>(
        &'a self,
        request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        let inner = Some(self.inner.stream(request).await?);
        let reading = (inner, RepetitionWatch::default(), VecDeque::new());
        Ok(stream::try_unfold(reading, move |(mut inner, mut watch, mut ready)| async move {
            if ready.is_empty()
                && let Some(open) = &mut inner
            {
                match open.next().await.transpose()? {
                    None => inner = None,
                    Some(delta) => {
                        ready.extend(watch.take(delta));
                        if watch.has_cut {
                            warn!(provider = self.name(), "An answer repeated itself, and was cut");
                            // The server need not go on.
                            inner = None;
                        }
                    }
                }
            }
            Ok(ready.pop_front().map(|delta| (delta, (inner, watch, ready))))
        })
        .boxed())
    }
}

/// Watches the text of an answer.
#[derive(Default)]
pub struct RepetitionWatch {
    text: String,
    line: CurrentLine,
    /// The last characters of prose, the newest first.
    recent: VecDeque<char>,
    /// For each length of a block, the number of characters in a row that equal those one block earlier.
    same: Vec<usize>,
    in_code: bool,
    has_cut: bool,
}

/// The state of the line that is being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CurrentLine {
    /// Nothing but spaces.
    #[default]
    Blank,
    /// The sign of a fence, and how many of them there are.
    Fence(char, usize),
    Table,
    Text,
}

impl RepetitionWatch {
    /// Returns the delta, or those that replace it.
    pub fn take(&mut self, delta: Delta) -> Vec<Delta> {
        match delta {
            Delta::Text(text) => match self.push(&text) {
                None => vec![Delta::Text(text)],
                Some(kept) => {
                    self.has_cut = true;
                    let note = Delta::Note(replies::REPEATED.to_owned());
                    vec![Delta::Restart, Delta::Text(kept), note, Delta::End(StopReason::Done)]
                }
            },
            Delta::Restart => {
                *self = Self::default();
                vec![delta]
            }
            delta => vec![delta],
        }
    }

    /// Adds text of the answer. If the answer repeats itself, returns the part of it that is kept.
    pub fn push(&mut self, text: &str) -> Option<String> {
        for sign in text.chars() {
            self.text.push(sign);
            if self.is_prose(sign) {
                if let Some(block) = self.find_repetition(sign) {
                    let cut = self.text.char_indices().rev().nth(block.whole - block.one - 1);
                    let kept = &self.text[..cut.map_or(self.text.len(), |(at, _)| at)];
                    return Some(kept.trim_end().to_owned());
                }
            } else {
                self.recent.clear();
                self.same.clear();
            }
        }
        None
    }

    /// Returns true if a character belongs to neither code nor a table.
    fn is_prose(&mut self, sign: char) -> bool {
        if sign == '\n' {
            let is_fence = matches!(self.line, CurrentLine::Fence(_, 3..));
            if is_fence {
                self.in_code = !self.in_code;
            }
            let is_prose = !is_fence && !self.in_code && self.line != CurrentLine::Table;
            self.line = CurrentLine::Blank;
            return is_prose;
        }
        self.line = match (self.line, sign) {
            (CurrentLine::Blank, ' ' | '\t') => CurrentLine::Blank,
            (CurrentLine::Blank, '`' | '~') => CurrentLine::Fence(sign, 1),
            (CurrentLine::Blank, '|') => CurrentLine::Table,
            (CurrentLine::Fence(of, signs), _) if of == sign && signs < 3 => {
                CurrentLine::Fence(of, signs + 1)
            }
            (CurrentLine::Fence(of, 3), _) => CurrentLine::Fence(of, 3),
            (CurrentLine::Table, _) => CurrentLine::Table,
            _ => CurrentLine::Text,
        };
        !self.in_code && !matches!(self.line, CurrentLine::Table | CurrentLine::Fence(_, 3))
    }

    /// Adds `sign`. Returns the shortest block that then repeats too often.
    fn find_repetition(&mut self, sign: char) -> Option<Repetition> {
        self.same.resize(BLOCK_MAX + 1, 0);
        for block in 1..=BLOCK_MAX {
            let is_same = self.recent.get(block - 1) == Some(&sign);
            self.same[block] = if is_same { self.same[block] + 1 } else { 0 };
        }
        self.recent.push_front(sign);
        self.recent.truncate(BLOCK_MAX);
        (1..=BLOCK_MAX).find_map(|one| {
            let whole = self.same[one] + one;
            if whole < (one * TIMES).max(LETTERS_MIN) {
                return None;
            }
            let has_letters = self.recent.iter().take(one).any(|sign| sign.is_alphabetic());
            (has_letters || whole >= SIGNS_MIN).then_some(Repetition { one, whole })
        })
    }
}

/// A block of characters that is repeated.
struct Repetition {
    one: usize,
    /// Characters of all its occurrences.
    whole: usize,
}
