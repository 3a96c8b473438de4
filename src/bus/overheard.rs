//! Messages in groups that do not address the bot: a bounded ring buffer for each address, in memory. They
//! are shown once as context when the bot is addressed there, and are lost at a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::types::message::{Address, MessageId, OverheardLine};

/// Maximum number of lines kept for one address (a customary value).
const LINES_MAX: usize = 50;

/// Maximum number of addresses. The one with the oldest last line is dropped first.
const PLACES_MAX: usize = 50;

/// Maximum length of a kept line, in characters.
const LINE_CHARS_MAX: usize = 500;

type OverheardLines = VecDeque<(MessageId, OverheardLine)>;

/// Recent lines in groups. Cheap to clone.
#[derive(Clone, Default)]
pub struct Overheard(
    // A mutex, because adapters write and turns read. Locked only for a push or a read.
    Arc<Mutex<HashMap<Address, OverheardLines>>>,
);

impl Overheard {
    pub(super) fn push(&self, at: &Address, id: MessageId, mut line: OverheardLine) {
        if let Some((cut, _)) = line.text.char_indices().nth(LINE_CHARS_MAX) {
            line.text.truncate(cut);
            line.text.shrink_to_fit();
        }
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !places.contains_key(at) && places.len() >= PLACES_MAX {
            let newest_time = |lines: &OverheardLines| lines.back().map(|(_, line)| line.at);
            let quietest = places.iter().min_by_key(|(_, lines)| newest_time(lines));
            if let Some(quietest) = quietest.map(|(at, _)| at.clone()) {
                places.remove(&quietest);
            }
        }
        let lines = places.entry(at.clone()).or_default();
        if let Some((_, known)) = lines.iter_mut().find(|(known, _)| *known == id) {
            *known = line;
            return;
        }
        if lines.len() >= LINES_MAX {
            lines.pop_front();
        }
        lines.push_back((id, line));
    }

    /// Replaces an edited line. A line that was shown or dropped is not added again.
    pub(super) fn reword(&self, at: &Address, id: &MessageId, line: OverheardLine) {
        let is_kept = {
            let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            places.get(at).is_some_and(|lines| lines.iter().any(|(known, _)| known == id))
        };
        if is_kept {
            self.push(at, id.clone(), line);
        }
    }

    /// Removes a deleted line.
    pub(super) fn forget(&self, at: &Address, id: &MessageId) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lines) = places.get_mut(at) {
            lines.retain(|(known, _)| known != id);
        }
    }

    /// Removes the first lines of an address, which have been shown.
    pub fn remove_shown(&self, at: &Address, lines: usize) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = places.get_mut(at) {
            kept.drain(..lines.min(kept.len()));
        }
    }

    /// Returns the lines of an address, oldest first.
    pub fn lines(&self, at: &Address) -> Vec<OverheardLine> {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(at).into_iter().flatten().map(|(_, line)| line.clone()).collect()
    }
}
